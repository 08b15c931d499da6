"""Protected files of households."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import SpecError


def families(n: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    rows = []
    for house in range(n):
        area = rng.choice(4, p=[0.5, 0.3, 0.15, 0.05])
        size = rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2])
        for member in range(size):
            adult = member < 2
            rows.append(
                {
                    "house": house,
                    "area": area,
                    "rel": member + 1,
                    "age": int(rng.integers(18, 80) if adult else rng.integers(0, 18)),
                    "sex": rng.choice(["f", "m"]),
                    "income": int(rng.lognormal(10, 1)),
                }
            )
    return pd.DataFrame(rows)


def asked(**more: Any) -> dict[str, Any]:
    return {
        "keys": ["age", "sex"], "household": "house", "household_keys": "area",
        "head": "rel == 1", "population_households": 4_000, "model": "households",
        "max_sweeps": 150, "chains": 2, "workers": 1, "seed": 1, "progress": False,
        "target": "households.tau1 <= 15",
        "recodings": {"age": ["width(20)", "left out"], "area": ["left out"], "sex": ["left out"]},
        **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("households")
    families().to_csv(folder / "families.csv", index=False)
    return folder, unikat.protect(folder / "families.csv", **asked(), out=folder / "out")


@pytest.mark.slow
def test_members_are_recoded_alike_and_the_plan_is_that_of_what_if(
    made: tuple[Path, Any],
) -> None:
    folder, found = made
    summary, frame = found.summary, families()
    assert summary.households
    assert summary.n_records == frame["house"].nunique()
    assert summary.chosen.risk.tau1.upper <= 15.0 < summary.before.tau1.upper
    rules = {
        name: None if text == "left out" else text
        for name, text in summary.chosen.recodings.items()
    }
    options = asked()
    for name in ("target", "recodings"):
        del options[name]
    again = unikat.assess(folder / "families.csv", **options).what_if(rules)
    assert again.tau1 == summary.chosen.risk.tau1
    out = pd.read_csv(folder / "out" / "protected.csv")
    assert len(out) == len(frame)
    for name in ("rel", "income"):
        assert out[name].tolist() == frame[name].tolist()
    # Numbers of households are others, and the same persons live together.
    assert pd.factorize(out["house"])[0].tolist() == frame["house"].tolist()
    for column in summary.columns:
        assert (column.name in out) == (column.action != "left out")
    if "age" in out:
        assert out["age"].nunique() < frame["age"].nunique()
    page = (folder / "out" / "report.html").read_text()
    assert "Smallest combination, households" in page
    assert "τ1 of households" in page


@pytest.mark.slow
def test_the_plan_recodes_another_file_of_persons(
    made: tuple[Path, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, found = made
    families().iloc[:100].to_csv(folder / "other.csv", index=False)
    words = ["apply", str(folder / "out" / "plan.toml"), str(folder / "other.csv")]
    assert main([*words, "--out", str(folder / "other-out.csv")]) == 0
    capsys.readouterr()
    out = pd.read_csv(folder / "other-out.csv")
    whole = pd.read_csv(folder / "out" / "protected.csv")
    assert out.columns.tolist() == whole.columns.tolist()
    assert [key.name for key in found.plan.keys] == ["age", "sex", "area"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"suppress": "search"}, "cannot be combined with --model households"),
        ({"suppress": "records(r1 > 0.2) <= 1"}, "--suppress is about single records"),
        ({"subsample": 0.5}, "cannot be combined with --model households"),
        ({"model": "latent-class", "population_households": None}, "households"),
        ({"keep": ["income"]}, "is none of the keys"),
        (
            {
                "model": "latent-class",
                "population_households": None,
                "household_keys": None,
                "head": None,
                "suppress": "households.r1 <= 0.1",
                "target": "tau1 <= 5",
            },
            "is of households, and the units here are persons",
        ),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.protect(families(30), **asked(**more))
    assert said in str(caught.value)


@pytest.mark.slow
def test_keys_are_suppressed_of_whole_households() -> None:
    """The file that comes out, counted; what is said of it; and the new fit of what it shows."""
    frame = families(90)
    # The sex of one of several members is not known.
    first = frame.index[frame["house"].duplicated(keep=False)][0]
    frame.loc[first, "sex"] = None
    rules = asked(recode={"age": "width(20)"}, suppress="households.k >= 3", target="k >= 1")
    del rules["recodings"]
    found = unikat.protect(frame, **rules)
    summary, out = found.summary, found.frame
    assert summary.verdict == "met"
    keys = ["area", "age", "sex"]
    gone = out[keys].isna()
    assert gone.to_numpy().any()
    assert not gone.to_numpy().all()
    # Of all members at once, also of the one who lacked it.
    assert (gone.groupby(frame["house"]).nunique() == 1).all().all()
    assert summary.suppression is not None
    before = frame["sex"].isna().to_numpy().sum()
    assert summary.suppression.n_values == gone.to_numpy().sum() - before
    hidden = gone.to_numpy() & frame[keys].notna().to_numpy()
    assert summary.suppression.n_records == frame["house"][hidden.any(axis=1)].nunique()
    # Every household agrees with two others at least in what it shows: their true values count.
    true = frame.assign(age=frame["age"] // 20).astype(object)
    homes = [part for _, part in true.groupby("house")]
    for house, part in enumerate(homes):
        known = [key for key in keys if not gone.loc[part.index, key].any()]
        shown = sorted(map(tuple, part[known].to_numpy().tolist()))
        alike = sum(
            len(other) == len(part)
            and other[known].notna().all(axis=None)
            and sorted(map(tuple, other[known].to_numpy().tolist())) == shown
            for other in homes
        )
        assert alike >= 3, house
    assert summary.released is not None
    # Nobody is alone by the true values, which the plan has. To the new fit some households are
    # alone in what they show, unless others hide the same: nearly surely somebody does.
    assert summary.released.tau1.mean == 0.0
    assert summary.refit.tau1.upper == 0.0
    assert summary.refit.tau1.mean < summary.refit.tau1_hidden.mean
    assert "every household reaches" in summary.sentences["suppression"]
    # What is counted, no fit understates.
    assert "estimate" not in summary.sentences["suppression"]
    assert summary.lost > summary.chosen.lost


@pytest.mark.slow
def test_the_new_fit_has_the_rules_that_are_about_whole_groups() -> None:
    """Two rules forbid the first band, one of them in part; the third is of a key left out."""
    rules = asked(
        keys=["age", "sex", "rel"],
        recode={"age": "width(10)", "sex": "left out"},
        target="k >= 1",
        zeros=["head.age < 10", "head.age < 15", "count(sex == 'f') > 4"],
        max_sweeps=60,
    )
    del rules["recodings"]
    summary = unikat.protect(families(60), **rules).summary
    assert summary.household_rules is not None
    assert (summary.household_rules.n_rules, summary.household_rules.n_in_refit) == (3, 2)
    assert "2 of the 3 rules" in summary.sentences["households"]
