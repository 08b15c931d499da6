"""Synthetic households: rules, sizes, columns, and probabilities within them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import unikat
from unikat import SpecError, UnikatError
from unikat.cli.main import main
from unikat.data.keys import Key
from unikat.spec.synthesis import SynthesisSpec
from unikat.synthesis.persons import Plain
from unikat.synthesis.shares import original_share, parse_formula, share_of

QUICK = {"datasets": 2, "chains": 2, "workers": 1, "max_sweeps": 20}
ROLES = {"head": "rel == 1", "spouse": "rel == 2", "child": "rel == 3"}


def homes(n: int = 150, seed: int = 3) -> pd.DataFrame:
    """Households of up to four: a head, perhaps a spouse, and children."""
    rng = np.random.default_rng(seed)
    rows = []
    for h in range(n):
        spouse, children = rng.random() < 0.5, rng.integers(0, 3)
        age = int(rng.integers(20, 80))
        owner = int(rng.integers(0, 2))
        rows.append((f"h{h:03}", owner, 1, age, int(rng.integers(0, 2))))
        if spouse:
            rows.append((f"h{h:03}", owner, 2, max(age - int(rng.integers(0, 9)), 16), 1))
        for _ in range(children):
            rows.append((f"h{h:03}", owner, 3, max(age - int(rng.integers(16, 40)), 0), 0))
    return pd.DataFrame(rows, columns=["hid", "owner", "rel", "age", "sex"])


def synthesize(frame, **options):
    asked = {
        "keys": "owner,rel,age:width(5),sex",
        "household": "hid",
        "household_keys": "owner",
        "model": "households",
    }
    return unikat.synthesize(frame, **{**asked, **QUICK, **options})


def check_frame(synthetic: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Sizes and numbers of households are kept, and their keys are shared."""
    assert list(synthetic.columns) == list(frame.columns)
    sizes = synthetic.groupby("hid", sort=False).size()
    assert sizes.tolist() == frame.groupby("hid", sort=False).size().tolist()
    assert (synthetic.groupby("hid")["owner"].nunique() == 1).all()


RULES = st.one_of(
    st.just(("count(rel == 1) != 1", lambda h: (h["rel"] == 1).sum() != 1)),
    st.builds(
        lambda r, k: (f"count(rel == {r}) > {k}", lambda h: (h["rel"] == r).sum() > k),
        st.integers(2, 3),
        st.integers(0, 2),
    ),
    st.builds(
        lambda a: (
            f"spouse.age < {a}",
            lambda h: bool((h.loc[h["rel"] == 2, "age"] < a).any()),
        ),
        st.sampled_from([20, 40, 60]),
    ),
    st.builds(
        lambda s, a: (
            f"size == {s} and count(age < {a}) >= 1",
            lambda h: len(h) == s and bool((h["age"] < a).any()),
        ),
        st.integers(2, 4),
        st.sampled_from([10, 30]),
    ),
    st.builds(
        lambda sex, k: (
            f"owner == 1 and count(sex == {sex}) > {k}",
            lambda h: h["owner"].iloc[0] == 1 and (h["sex"] == sex).sum() > k,
        ),
        st.integers(0, 1),
        st.integers(1, 3),
    ),
)
"""Rules, and what they say in Python of a household of the written file."""


@pytest.mark.slow
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(st.lists(RULES, min_size=1, max_size=4, unique_by=lambda rule: rule[0]))
def test_every_synthetic_household_obeys_every_rule(rules):
    frame = homes()
    zeros = {"rules": [text for text, _ in rules], "roles": ROLES, "on_conflict": "drop"}
    for method in ("truncated", "reject"):
        try:
            found = synthesize(frame, zeros=zeros, method=method, max_sweeps=6)
        except UnikatError:
            # No household of the file obeys all, or hardly any can.
            assume(False)
        assert found.summary.impossible.shares == (0.0, 0.0)
        for synthetic in found.frames:
            for _, house in synthetic.groupby("hid"):
                assert not [text for text, broken in rules if broken(house)]


def test_a_household_that_breaks_a_rule_is_counted():
    rules = ["count(rel == 1) != 1"]
    for method in ("untruncated", "flat"):
        found = synthesize(homes(), zeros={"rules": rules, "roles": ROLES}, method=method)
        for share, synthetic in zip(found.summary.impossible.shares, found.frames, strict=True):
            heads = (synthetic["rel"] == 1).groupby(synthetic["hid"]).sum()
            assert share == pytest.approx((heads != 1).mean())
            assert share > 0.0


@pytest.mark.parametrize("method", ["truncated", "untruncated", "reject", "flat"])
def test_sizes_are_kept_and_columns_those_of_the_input(method):
    frame = homes().assign(note=1)
    zeros = {"rules": ["count(rel == 1) != 1"], "roles": ROLES}
    found = synthesize(frame, zeros=zeros, method=method)
    for synthetic in found.frames:
        check_frame(synthetic, frame.drop(columns="note"))
    assert found.summary.original.left_out == ("note",)
    assert found.summary.original.n_households == 150


def test_households_by_their_composition():
    """Sizes are kept where the model has the composition of households in their place."""
    zeros = {"rules": ["count(rel == 1) != 1", "count(rel == 2) > 1"], "roles": ROLES}
    found = synthesize(homes(), zeros=zeros, set={"composition": "rel"})
    for synthetic in found.frames:
        check_frame(synthetic, homes())
    assert found.summary.impossible.shares == (0.0, 0.0)


def test_the_head_apart_comes_first():
    frame = homes()
    found = synthesize(frame, head="rel == 1", set={"households.head_keys": "age:width(5),sex"})
    for synthetic in found.frames:
        check_frame(synthetic, frame)
        first = synthetic.groupby("hid", sort=False).head(1)
        assert (first["rel"] == 1).all()
        # Of the heads of the file all are; of other members a quarter.
        assert (first["age"] >= 20).mean() > 0.9
        # No other member of the file is a head; the model leaves a little to what it has not seen.
        assert synthetic.drop(first.index)["rel"].eq(1).mean() < 0.02


def test_a_key_in_which_heads_differ_must_be_one_of_theirs():
    with pytest.raises(SpecError, match="differ in 'sex'"):
        synthesize(homes(), head="rel == 1", set={"households.head_keys": "age:width(5)"})


def test_weights_stay_with_sizes_and_classes():
    frame = homes()
    number = frame["hid"].str[1:].astype(int)
    frame["weight"] = np.where(number % 2 == 0, 10.0, 30.0)
    found = synthesize(frame, weights="weight")
    for synthetic in found.frames:
        check_frame(synthetic, frame)
        assert synthetic["weight"].tolist() == frame["weight"].tolist()


def plain() -> Plain:
    """Three households of persons with a role and a race."""
    size = Key(name="size", levels=(1, 2, 3), labels=("1", "2", "3"))
    rel = Key(name="rel", levels=(1, 2, 3), labels=("head", "spouse", "child"))
    race = Key(name="race", levels=("a", "b"), labels=("a", "b"))
    members = np.array(
        [
            [[0, 0], [1, 0], [2, 0]],
            [[0, 0], [1, 1], [3, 2]],
            [[0, 1], [2, 1], [3, 2]],
        ],
        np.int32,
    )
    return Plain((size,), (rel, race), np.array([[2], [1], [1]], np.int32), members)


@pytest.mark.parametrize(
    ("text", "n", "share"),
    [
        ("share(all same race)", 3, 2 / 3),
        ("share(all same race | size = 2)", 2, 1 / 2),
        ("share(spouse present)", 3, 2 / 3),
        ("share(spouse present and all same race | count(rel == 3) >= 1)", 2, 1 / 2),
        ("share(count(race == 'b') > 1 | size == 2)", 2, 1 / 2),
        ("share(all same race | size = 1)", 0, np.nan),
    ],
)
def test_shares_by_hand(text, n, share):
    found = share_of(parse_formula(text), plain(), ROLES)
    assert found.n == n
    assert found.share == pytest.approx(share, nan_ok=True)


def test_weighted_shares_are_those_of_households_that_are_repeated():
    """Of a household of weight 3 there are three; the variance is that of the ratio."""
    three = plain()
    times = np.array([3, 1, 2])
    many = three._replace(
        houses=three.houses.repeat(times, axis=0), members=three.members.repeat(times, axis=0)
    )
    formula = parse_formula("share(spouse present)")
    found = share_of(formula, three, ROLES, 10.0 * times)
    assert found.n == 3
    assert found.share == pytest.approx(share_of(formula, many, ROLES).share) == 4 / 6
    # Two more with a spouse and two without, of the mean weight sum w^2 / sum w.
    w = np.array([3, 1, 2, *[14 / 6] * 4])
    x = np.array([1, 1, 0, 1, 1, 0, 0])
    ratio = w @ x / w.sum()
    assert found.variance == pytest.approx((w**2) @ (x - ratio) ** 2 / w.sum() ** 2)


@pytest.mark.parametrize("n", [30, 100, 400])
@pytest.mark.parametrize("share", [0.002, 0.01, 0.1, 0.5, 0.97])
def test_intervals_of_shares_cover_also_rare_ones(n, share):
    """Coverage of 95% intervals in simple random samples, by the binomial distribution.

    Without the households added, a share of 0.002 would be covered in 55% of the samples of 400.
    """
    size = Key(name="size", levels=(1,), labels=("1",))
    rel = Key(name="rel", levels=(1, 2), labels=("head", "spouse"))
    formula = parse_formula("share(count(rel == 2) == 1)")
    covered = 0.0
    for k in range(n + 1):
        p = binom.pmf(k, n, share)
        if p > 1e-6:
            members = (np.arange(n) < k).astype(np.int32)[:, None, None]
            found = share_of(
                formula, Plain((size,), (rel,), np.zeros((n, 1), np.int32), members), {}
            )
            interval = original_share(found, 0.95)
            assert 0.0 <= interval.lower <= found.share <= interval.upper <= 1.0
            covered += p * (interval.lower <= share <= interval.upper)
    assert covered > 0.9


def test_weights_count_in_shares_and_margins():
    frame = homes()
    number = frame["hid"].str[1:].astype(int)
    spouse = frame["hid"].isin(frame.loc[frame["rel"] == 2, "hid"])
    frame["weight"] = np.where(spouse & (number % 2 == 0), 30.0, 10.0)
    found = synthesize(frame, weights="weight", share="share(count(rel == 2) >= 1)")
    first = frame.drop_duplicates("hid")
    has = first["hid"].isin(frame.loc[frame["rel"] == 2, "hid"])
    expected = np.average(has, weights=first["weight"])
    assert found.summary.shares[0].original.estimate == pytest.approx(expected)
    shares = []
    for synthetic in found.frames:
        has = first["hid"].isin(frame.loc[(synthetic["rel"] == 2).to_numpy(), "hid"])
        shares.append(np.average(has, weights=first["weight"]))
    assert found.summary.shares[0].synthetic.estimate == pytest.approx(np.mean(shares))
    assert all(one.distance_weighted > 0.0 for one in found.summary.margins)
    assert "sample weight" in found.summary.sentences["margins"]
    assert "Weighted distance" in found.to_html()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spouse present", "no probability within households"),
        ("share()", "no probability within households"),
        ("share(a | b | c)", "no probability within households"),
        ("share(all same colour)", "no key of persons"),
        ("share(parent present)", "no role is called 'parent'"),
        ("share(rel == 9)", "share"),
    ],
)
def test_wrong_formulas_are_refused(text, words):
    with pytest.raises(SpecError, match=words):
        share_of(parse_formula(text), plain(), ROLES)


def test_shares_of_a_run_are_combined():
    formulas = "share(all same sex | size = 2); share(count(rel == 2) >= 1)"
    found = synthesize(homes(), share=formulas)
    first, second = found.summary.shares
    frame = homes()
    spouse = (frame["rel"] == 2).groupby(frame["hid"]).any()
    assert second.original.estimate == pytest.approx(spouse.mean())
    synthetic = [(f["rel"] == 2).groupby(f["hid"]).any().mean() for f in found.frames]
    assert second.synthetic.estimate == pytest.approx(np.mean(synthetic))
    assert first.text == "share(all same sex | size = 2)"


@pytest.mark.slow
def test_the_specification_of_households_repeats_the_run(tmp_path):
    homes().to_csv(tmp_path / "homes.csv", index=False)
    (tmp_path / "rules.toml").write_text(
        "rules = ['count(rel == 1) != 1', 'spouse.age < 15']\n[roles]\nspouse = 'rel == 2'\n"
    )
    given = ["homes.csv", "--model", "households", "--household", "hid", "--household-keys"]
    given += ["owner", "--head", "rel == 1", "--zeros", str(tmp_path / "rules.toml")]
    given += ["--keys", "rel,age:width(5),sex", "--share", "share(spouse present | size = 2)"]
    given += ["--datasets", "2", "--chains", "2", "--max-sweeps", "20", "--workers", "1"]
    given[0] = str(tmp_path / given[0])
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(["synthesize", *given, "--out", str(one), "--quiet"]) == 2
    again = ["synthesize", str(one / "synthesis.toml"), "--trust-spec", "--out", str(two)]
    assert main([*again, "--quiet"]) == 2
    for name in ("synthetic_1.csv", "synthetic_2.csv"):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    first, second = (json.loads((run / "utility.json").read_text()) for run in (one, two))
    assert first["shares"] == second["shares"]
    assert first["impossible"] == {"unit": "household", "shares": [0.0, 0.0]}


def test_missing_keys_of_members_are_drawn():
    frame = homes()
    frame["age"] = frame["age"].astype("Int64")
    frame.loc[::7, "age"] = pd.NA
    for missing, complete in (("integrate", True), ("level", False)):
        found = synthesize(frame, missing=missing)
        for synthetic in found.frames:
            check_frame(synthetic, frame)
            assert synthetic["age"].notna().all() == complete


def test_keys_of_a_file_of_households_are_refused(tmp_path):
    with pytest.raises(SpecError, match="join the two files"):
        SynthesisSpec.parse(
            {
                "keys": "rel,age",
                "model": "households",
                "design": {"household": "hid"},
                "households": {"keys": "owner", "path": "homes.csv"},
            }
        )
