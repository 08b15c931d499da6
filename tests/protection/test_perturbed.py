"""Perturbation by the command: the risk of matches against a simulated intruder, and the file."""

from __future__ import annotations

import itertools
import json
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import unikat
from naive import correct_match
from protection.test_protect import KEYS, QUICK, people
from unikat.cli.main import main
from unikat.data import CellTable, Key
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.protection.perturbed import (
    CorrectMatches,
    check_perturbation,
    correct_matches,
    links,
    most_matches,
    perturb,
)
from unikat.protection.recoding import Recoding, parse_recoding
from unikat.protection.what_if import Posterior
from unikat.risk.estimate import known
from unikat.risk.law import Moments
from unikat.studies.auto import Execution

LEVELS = (3, 4, 2)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
N, SAMPLED = 90, 40
QUICKLY: dict[str, Any] = {
    "keys": KEYS, "population_size": 8000, "model": "latent-class", "max_sweeps": 60, "chains": 2,
    "workers": 1, "progress": False,
}  # fmt: skip


@dataclass
class Known:
    """A posterior that knows the probabilities of cells: F - f is binomial, by enumeration."""

    table: CellTable
    p: Any
    states = ((0,),)

    def moments(self, recoding: Any, table: Any, patterns: Any, frequency: Any, n: int) -> Any:
        agree = (patterns[:, None, :] == CELLS) | (patterns[:, None, :] < 0)
        others = stats.binom(N - SAMPLED, (agree.all(axis=2) @ self.p)[:, None])
        more = np.arange(N - SAMPLED + 1)
        inverse = 1.0 / (frequency[:, None] + more)
        risks = [(others.pmf(more) * inverse**power).sum(axis=1) for power in (1, 2, 3)]
        yield Moments(others.pmf(0)[:, 0], *risks)


def recoded(codes: Any) -> tuple[CellTable, Recoding]:
    keys = [Key.of_size(name, n) for name, n in zip("ABC", LEVELS, strict=True)]
    table = CellTable.from_codes(codes, keys, population_size=N)
    return table, parse_recoding(table, {})


def _alone(shown: Any, whole: Any) -> Any:
    """Records that no other agrees with in what they show."""
    agree = (shown[:, None] == whole[None]) | (shown[:, None] < 0)
    return agree.all(axis=2).sum(axis=1) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("how", ["pram", "swap", "suppressed"])
def test_expected_matches_are_those_of_a_simulated_intruder(how: str) -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(len(CELLS), 0.5))
    differences, alone, careless = [], [], []
    for repeat in range(250):
        population = rng.choice(len(CELLS), N, p=p)
        units = rng.permutation(N)[:SAMPLED]
        codes = CELLS[population[units]]
        table, recoding = recoded(codes)
        keys = [one.key for one in recoding.keys if one.key is not None]
        rules: dict[str, Any] = {"pram": {}, "swap": ["A"], "match": ["B"]}
        if how != "swap":
            rules = {"pram": {"A": 0.5, "C": 0.7}, "swap": [], "match": []}
        made = perturb(
            codes, keys, **rules, targets=table.unique[table.record_cell].astype(float),
            household=None, seed=repeat,
        )  # fmt: skip
        shown = made.codes.copy()
        if how == "suppressed":
            # Every third record hides C.
            shown[::3, 2] = -1
        found = correct_matches(Known(table, p), recoding, shown, 0.95)  # type: ignore[arg-type]
        whole = np.where(shown < 0, codes, shown)
        correct = uniques = certain = 0.0
        unique = _alone(shown, whole)
        for i in np.flatnonzero(unique):
            pattern = shown[i]
            # He looks for a random person of those who truly agree.
            those = np.flatnonzero(((pattern == CELLS) | (pattern < 0)).all(axis=1))
            persons = np.flatnonzero(np.isin(population, those))
            uniques += 1
            if len(persons):
                right = rng.choice(persons) == units[i]
                correct += right
                certain += right and len(persons) == 1
        assert found.n_uniques == uniques
        differences.append((correct - found.tau2.mean, certain - found.tau1.mean))
        alone.append(found.n_uniques - found.n_true)
        # Planted: every unique counts, whether it shows its true keys or not.
        those = shown[unique]
        (all_of_them,) = Known(table, p).moments(recoding, table, those, np.ones(len(those)), 1)
        careless.append(correct - all_of_them.r2.sum())
    assert np.mean(alone) > 1.0
    assert np.mean(careless) < -4.5 * np.std(careless) / np.sqrt(len(careless))
    for column in np.array(differences).T:
        # Six means; 4.5 standard errors fail by chance in 1 of 24,000 cases.
        assert abs(column.mean()) <= 4.5 * column.std() / np.sqrt(len(column))


def test_population_counts_by_state_are_those_of_the_risk_measures() -> None:
    frame = people(150)
    fitted = unikat.fit(
        unikat.LatentClass(),
        unikat.read(frame, KEYS.split(","), unikat.Design(population_size=3000)).tabulate(),
        seed=2,
        plan=Plan(n_chains=2, stop=StopRule(max_sweeps=60)),
        execution=Execution(workers=Workers(n_workers=1)),
    )
    posterior = Posterior.of(fitted, n_threads=1)
    recoding = parse_recoding(posterior.table, {"age": "width(20)"})
    table = recoding.table(posterior.table)
    true = table.cells[table.record_cell]
    found = correct_matches(posterior, recoding, true, 0.95)
    expected = posterior.what_if(recoding)
    # Nothing was changed, so all uniques show their true keys and the risk is what it was.
    assert found.n_true == found.n_uniques == table.n_uniques
    assert found.tau1.mean == pytest.approx(expected.tau1_expected.mean, rel=1e-9)
    assert found.tau2.mean == pytest.approx(expected.tau2_expected.mean, rel=1e-9)
    # Values that no record truly has are never a correct match.
    strange = true.copy()
    strange[:, 0] = table.n_levels[0]
    none = correct_matches(posterior, recoding, strange, 0.95)
    assert (none.n_true, none.tau1.mean, none.tau2.mean) == (0, 0.0, 0.0)


@pytest.fixture(scope="module")
def perturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("perturb")
    frame = people()
    frame.loc[::13, "education"] = None
    frame.to_csv(folder / "people.csv", index=False)
    levels = ["low", "mid", "high"]
    matrix = pd.DataFrame(np.full((3, 3), 0.1) + 0.7 * np.eye(3), levels, levels)
    matrix.to_csv(folder / "matrix.csv")
    command = [
        "protect", str(folder / "people.csv"), "--keys", KEYS, "--population-size", "8000",
        "--pram", f"sex: 0.5; education: {folder / 'matrix.csv'}", "--swap", "region: r1 > 0.05",
        "--set", "swap_match=sex", "--out", str(folder / "out"), *QUICK,
    ]  # fmt: skip
    assert main(command) == 0
    return frame, folder / "out"


def test_a_perturbed_file(perturbed: tuple[pd.DataFrame, Path], tmp_path: Path) -> None:
    frame, out = perturbed
    found = json.loads((out / "protect.json").read_text())
    after = pd.read_csv(out / "protected.csv", dtype=str)
    before = frame.drop(columns="id").astype(str).where(frame.drop(columns="id").notna())
    differs = (after != before) & ~(after.isna() & before.isna())
    assert not differs[["age", "note"]].any(axis=None)
    what = found["perturbation"]
    for one in what["keys"]:
        assert differs[one["name"]].sum() == one["n_changed"] > 0
    assert {one["name"]: one["method"] for one in what["keys"]} == {
        "region": "swapping", "sex": "PRAM", "education": "PRAM",
    }  # fmt: skip
    assert differs.any(axis=1).sum() == what["n_records"]
    # Swapping changes no count of an area; missing values stay missing.
    assert after["region"].value_counts().equals(before["region"].value_counts())
    assert after["education"].isna().equals(before["education"].isna())
    complete = after["education"].notna()
    whole = complete & ~after[complete][KEYS.split(",")].duplicated(keep=False)
    assert what["n_uniques"] >= whole.sum()
    assert what["n_true"] <= what["n_uniques"]
    assert 0.0 < what["tau2"]["mean"] < found["before"]["tau2"]["mean"]
    # Who knows a matrix does not know how keys were swapped.
    assert what["links"] is None
    assert (found["target"], found["by_plan"], found["verdict"]) == (None, None, None)
    # The matrix stands in the specification, which repeats the run.
    assert (
        tomllib.loads((out / "protect.toml").read_text())["pram"]["education"]["low"]["mid"] == 0.1
    )
    assert (
        main(
            [
                "protect",
                str(out / "protect.toml"),
                "--trust-spec",
                "--out",
                str(tmp_path / "b"),
                *QUICK,
            ]
        )
        == 0
    )
    assert (tmp_path / "b" / "protected.csv").read_bytes() == (out / "protected.csv").read_bytes()


@pytest.mark.slow
def test_perturbation_after_recoding_and_before_suppression() -> None:
    frame = people()
    found = unikat.protect(
        frame, target="tau1_estimate <= 1", keep="sex",
        recodings={"age": ["width(10)"], "region": [], "education": []},
        pram={"region": 0.6, "age": 0.8}, suppress="k >= 2", **QUICKLY,
    )  # fmt: skip
    what = found.summary.perturbation
    assert what is not None
    assert what.n_uniques == 0
    assert what.tau2.mean == 0.0
    linked, shares = [], []
    for seed in range(1, 6):
        alone = unikat.protect(
            frame, pram={"region": 0.6, "sex": 0.5}, perturbation_seed=seed, **QUICKLY
        ).summary.perturbation
        assert alone is not None
        assert alone.links is not None
        assert not alone.links.bounded
        assert 0.0 < alone.links.mean < alone.links.largest <= 1.0
        linked.append(alone.links.mean)
        shares.append(alone.tau2.mean / alone.n_uniques)
    # In the mean over draws of PRAM it is the share of the matches that are correct. Of 30 draws
    # one was off by a quarter; the mean of five deviates by 3%, and a small fit by 9%.
    assert np.mean(linked) == pytest.approx(np.mean(shares), rel=0.25)
    ages = found.frame["age"].dropna()
    assert ages.str.fullmatch(r"[0-9]+-[0-9]+").all()
    true = (frame["age"] // 10 * 10).loc[ages.index]
    others = (ages.str.partition("-")[0].astype(int) != true).sum()
    (of_age,) = (one for one in found.summary.columns if one.name == "age")
    assert 0 < others <= of_age.n_perturbed
    # Every record shows what others of the perturbed file do.
    assert found.summary.suppression is not None
    shown = found.frame[KEYS.split(",")].dropna()
    assert shown.duplicated(keep=False).mean() > 0.5


@pytest.mark.parametrize("as_level", [False, True])
def test_missing_values_are_no_values_of_a_household(as_level: bool) -> None:
    """One draw for those who are known; who is missing stays so, or goes along with a swap."""
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(60), 3)
    levels, labels = ("a", "b", None), ("a", "b", "missing")
    pair = Key(name="RENT", levels=levels, labels=labels) if as_level else Key.of_size("RENT", 2)
    keys = (replace(pair, name="AREA"), pair, Key.of_size("SEX", 2))
    missing = 2 if as_level else -1
    whole = np.column_stack([rng.integers(0, 2, (60, 2))[home], rng.integers(0, 2, 180)])
    codes = np.where(rng.random((180, 3)) < [0.1, 0.1, 0.0], missing, whole).astype(np.int32)
    made = perturb(
        codes, keys, pram={"RENT": 0.2}, swap=["AREA"], match=["SEX"], targets=np.ones(180),
        household=home.astype(np.int32), seed=1,
    ).codes  # fmt: skip
    frame = pd.DataFrame(made[:, :2], columns=["area", "rent"]).replace(missing, np.nan)
    assert (frame.groupby(home).nunique() <= 1).all(axis=None)
    assert (made[:, 1] == missing).tolist() == (codes[:, 1] == missing).tolist()
    assert (made[:, 0] == missing).sum() == (codes[:, 0] == missing).sum()
    assert (made[:, :2] != codes[:, :2]).any(axis=0).all()
    table = replace(CellTable.from_codes(
        codes, keys, 900, "level" if as_level else "integrate"
    ), households=home.astype(np.int32))  # fmt: skip
    check_perturbation(table, pram={}, swap=["AREA"], match=[])
    with pytest.raises(unikat.SpecError, match="differ in 'SEX'"):
        check_perturbation(table, pram={}, swap=["SEX"], match=[])


@pytest.mark.slow
def test_whole_households_exchange_areas_and_share_what_is_drawn() -> None:
    frame = people(300)
    frame["home"] = np.arange(300) // 3
    frame["region"] = np.random.default_rng(1).choice(list("NSEW"), 100).repeat(3)
    frame["rent"] = np.random.default_rng(2).choice(list("ab"), 100).repeat(3)
    frame.loc[[5, 41], "region"] = None
    frame.loc[[7, 50], "rent"] = None
    found = unikat.protect(
        frame, swap=["region"], set={"swap_match": "sex"}, pram={"rent": 0.4}, household="home",
        **QUICKLY | {"keys": "region,sex,age,rent"},
    )  # fmt: skip
    after = found.frame.groupby("home")
    assert (after["region"].nunique() == 1).all()
    assert (after["rent"].nunique() == 1).all()
    assert found.frame["region"].isna().sum() == 2
    assert found.frame["rent"].isna().equals(frame["rent"].isna())
    assert (found.frame["rent"] != frame["rent"]).sum() > 2
    assert (found.frame["region"] != frame["region"]).sum() > 4
    with pytest.raises(unikat.SpecError, match="Members of a household differ in 'sex'"):
        unikat.protect(
            frame, swap="sex", household="home", **QUICKLY | {"keys": "region,sex,age,rent"}
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pram", "region"], "name each key and the probability of keeping"),
        (["--pram", "region: 1.5"], "from 0 to below 1"),
        (["--pram", "regio: 0.5"], "'regio', which is none of the keys"),
        (["--pram", "region: none.csv"], "none.csv cannot be read"),
        (["--pram", "sex: wrong.csv"], "no level of the key"),
        (["--pram", "sex: short.csv"], "no row for 1 of its 2 levels"),
        (["--pram", "sex: ragged.csv"], "there must be a level and 2 probabilities"),
        (["--pram", "sex: long.csv"], "long.csv cannot be read as text"),
        (["--swap", "region: r1 > 3"], "r1 is a probability"),
        (["--swap", " , "], "names no keys to swap"),
        (["--swap", "region", "--set", "swap_match=region"], "records cannot agree in it"),
        (["--swap", "region", "--pram", "region: 0.5"], "change a key in one way"),
        (["--set", "swap_match=region", "--target", "tau1 <= 9"], "belongs to --swap"),
        (["--swap", "region", "--suppress", "r1 <= 0.2"], "takes the values of the file for true"),
        (["--swap", "region", "--recodings", "age: width(5)"], "there is none; add --target"),
    ],
)
def test_what_cannot_be_perturbed_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    people(60).to_csv("people.csv", index=False)
    Path("wrong.csv").write_text("x,f,y\nf,0.5,0.5\ny,0,1\n")
    Path("short.csv").write_text("x,f,m\nf,0.5,0.5\n")
    Path("ragged.csv").write_text("x,f,m\nf,0.5,0.5\nm,1\n")
    Path("long.csv").write_text("x," + "f" * 200_000 + "\n")
    command = ["protect", "people.csv", "--keys", KEYS, "--population-size", "3000"]
    assert main([*command, *options, "--out", "out", *QUICK]) == 1
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out" / "protect.json").exists()


def known_posterior(model: Any) -> tuple[Posterior, Recoding, CellTable]:
    fitted = unikat.fit(
        model,
        unikat.read(people(120), KEYS.split(","), unikat.Design(population_size=2000)).tabulate(),
        seed=2,
        plan=Plan(n_chains=2, stop=StopRule(max_sweeps=40)),
        execution=Execution(workers=Workers(n_workers=1)),
    )
    posterior = Posterior.of(fitted, 8, n_threads=1)
    recoding = parse_recoding(posterior.table, {"age": "width(40)", "sex": None})
    return posterior, recoding, recoding.table(posterior.table)


@pytest.mark.parametrize("model", [unikat.LatentClass(), unikat.GoM(components=4)])
def test_those_who_are_drawn_into_a_cell_are_the_sum_over_all_cells(model: Any) -> None:
    posterior, recoding, table = known_posterior(model)
    rng = np.random.default_rng(1)
    sizes = table.n_levels
    matrices = {
        0: rng.dirichlet(np.ones(sizes[0]), sizes[0]),
        2: np.eye(3)[[0, 2, 1]] * 0.5 + 1 / 6,
    }
    cells = np.array(list(itertools.product(*map(range, sizes))), np.int32)
    states = posterior.arrivals(recoding, table, matrices, cells, 8)
    assert states is not None
    moves = np.ones((len(cells), len(cells)))
    for j, matrix in matrices.items():
        moves *= matrix[cells[:, j][:, None], cells[:, j]]
    moves *= cells[:, 1][:, None] == cells[:, 1]
    for own, arrive in states:
        expected = own @ moves - own * np.diag(moves)
        np.testing.assert_allclose(arrive, expected, rtol=2e-5, atol=1e-7)
        assert own.sum() == pytest.approx(2000.0, rel=1e-5)


def test_links_after_pram_are_those_of_the_formula() -> None:
    posterior, recoding, table = known_posterior(unikat.LatentClass())
    cells = np.array(list(itertools.product(*map(range, table.n_levels))), np.int32)
    matrices = {0: np.full((5, 5), 0.05) + 0.75 * np.eye(5)}
    # The published file: each cell of the first few once.
    published = cells[:7]
    states = posterior.arrivals(recoding, table, matrices, cells, 100)
    assert states is not None
    draws = np.random.default_rng(1)
    found = []
    for own, _ in states:
        # F of the intruder's cell is drawn, the others are what is expected.
        found.append(np.zeros(7))
        for i in range(7):
            population = np.tile(own, (400, 1))
            population[:, i] = 1.0 + draws.poisson(own[i], 400)
            found[-1][i] = correct_match(
                cells[i : i + 1], cells, population, [matrices[0], None, None], 1e-9
            )[0]
    expected = np.mean(found, axis=0)
    made = links(posterior, recoding, published, matrices)
    assert made is not None
    assert not made.bounded
    assert made.mean == pytest.approx(expected.mean(), rel=0.03)
    assert made.largest == pytest.approx(expected.max(), rel=0.03)
    # Without perturbation it is the expected 1/F of a cell with one record.
    alone = links(posterior, recoding, published, {})
    assert alone is not None
    assert alone.mean > made.mean


def test_an_intruder_without_the_swapped_key_is_counted() -> None:
    """Records that swapped the region show their true other keys."""
    frame = people(200)
    made = unikat.protect(frame, swap="region", set={"swap_match": ["sex"]}, **QUICKLY)
    what = made.summary.perturbation
    assert what is not None
    assert what.n_records > 100
    assert what.ignored == ("region",)
    margin = unikat.assess(frame, **QUICKLY).what_if({"region": None})
    assert what.tau2.mean == pytest.approx(margin.tau2.mean, rel=0.1)
    assert what.tau1.mean == pytest.approx(margin.tau1.mean, abs=1.0)
    assert "without region" in made.summary.sentences["matches"]


@pytest.mark.slow
def test_what_would_undo_a_perturbation_is_in_no_published_place() -> None:
    frame = people(200)
    frame["schooling"] = frame["education"].str.upper()
    first, second = (unikat.protect(frame, pram={"education": 0.5}, **QUICKLY) for _ in range(2))
    assert not first.frame.equals(second.frame)
    seed = first.spec.perturbation_seed
    again = unikat.protect(frame, pram={"education": 0.5}, perturbation_seed=seed, **QUICKLY)
    assert again.frame.equals(first.frame)
    assert str(seed) not in first.to_html()
    original = unikat.assess(frame, **QUICKLY).result.provenance.data_fingerprint
    assert original not in first.to_html()
    assert first.summary.provenance.data_fingerprint == ""
    # A copy of what was perturbed would undo it.
    assert "schooling" not in first.frame


def test_a_plan_without_recodings_is_not_applied(tmp_path: Path, capsys: Any) -> None:
    frame = people(150)
    frame.to_csv(tmp_path / "file.csv", index=False)
    unikat.protect(frame, pram={"region": 0.8}, out=tmp_path / "out", **QUICKLY)
    command = ["apply", str(tmp_path / "out/plan.toml"), str(tmp_path / "file.csv")]
    assert main([*command, "--out", str(tmp_path / "copy.csv")]) == 1
    assert "The plan recodes nothing" in capsys.readouterr().err
    assert not (tmp_path / "copy.csv").exists()
    with pytest.raises(unikat.SpecError, match="named by --keep"):
        unikat.protect(frame, pram={"region": 0.8}, keep="region", **QUICKLY)


def test_scenarios_are_judged_by_the_perturbed_file() -> None:
    """k is counted in what is shown, of every intruder; a key that he does not know is no help."""
    frame = people()
    some = ["age", "sex"]
    targets = ["k >= 2", "tau1_estimate <= 1000000", "r1 <= 0.99"]
    found = unikat.protect(
        frame,
        recode={"age": "width(10)"},
        pram={"region": 0.5, "sex": 0.7},
        perturbation_seed=4,
        scenarios=[
            {"name": "all", "keys": KEYS.split(","), "target": targets},
            {"name": "some", "keys": some, "target": targets},
            {"name": "member", "keys": some, "target": ["k >= 2", "tau1 <= 5"], "in_sample": True},
            {"name": "old", "keys": ["age"], "target": ["tau1_estimate <= 1000000"]},
        ],
        **QUICKLY,
    )
    judged = {(one.name, one.target.limit.split()[0]): one for one in found.summary.scenarios}
    for name, keys in (("all", KEYS.split(",")), ("some", some), ("member", some)):
        least = int(found.frame.groupby(keys).size().min())
        one = judged[name, "k"].target
        assert one.value == least
        assert one.verdict == ("met" if least >= 2 else "not met")
    # The short fit has not converged; a number there is.
    some_tau1 = judged["some", "tau1_estimate"]
    assert some_tau1.target.value is not None
    assert some_tau1.target.value < some_tau1.before
    assert judged["member", "tau1"].target.verdict == "not known"
    assert judged["member", "tau1"].target.value is None
    # Nothing that he knows is perturbed.
    old = judged["old", "tau1_estimate"]
    assert old.target.value == pytest.approx(old.after, abs=1e-9)


def test_what_tau1_is_about_where_values_are_suppressed() -> None:
    frame = people()
    found = unikat.protect(
        frame.assign(note=["a", "b"] * (len(frame) // 2)),
        recode={"age": "width(10)"}, suppress="k >= 2", keep=["sex"], columns={"note": "other"},
        **QUICKLY,
    )  # fmt: skip
    summary, shown = found.summary, found.frame[KEYS.split(",")]
    table = shown.astype(object).where(shown.notna(), None).to_numpy()
    alone = sum(
        sum(all(a is None or a == b for a, b in zip(one, other, strict=True)) for other in table)
        == 1
        for one in table
    )
    assert summary.refit.n_alone == alone
    assert summary.refit.n_uniques <= alone
    assert summary.refit.tau1.upper <= alone
    assert summary.before.n_alone is None
    left = summary.left_over
    assert left is not None
    assert left.n_records == int(shown.notna().all(axis=1).sum())
    assert left.n_records + left.n_hidden == len(frame)
    assert left.n_hidden > 0


def test_the_intruder_who_may_reach_most_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    # By the mean of one and the upper end of the other, each of which a limit may be of.
    table, recoding = recoded(CELLS[:2])
    by_all, without = replace(known(3.0, 0.95), upper=5.0), replace(known(2.0, 0.95), upper=8.0)

    def matches(posterior: Any, margin: Recoding, *given: Any, **how: Any) -> CorrectMatches:
        one = by_all if len(margin.kept) == 3 else without
        return CorrectMatches(n_uniques=2, smallest=1, n_true=2, tau1=one, tau2=one)

    monkeypatch.setattr("unikat.protection.perturbed.correct_matches", matches)
    found = most_matches(Posterior.without_model(table), recoding, CELLS[:2], 0.95, ["A"])
    for one in (found.tau1, found.tau2):
        assert (one.mean, one.upper) == (3.0, 8.0)
