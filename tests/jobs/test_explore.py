"""Recodings of a loaded assessment, looked at and searched."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from jobs.test_kept import PERSONS, file_of
from unikat.errors import SpecError, UnikatError
from unikat.jobs import job
from unikat.jobs.explore import Exploration
from unikat.jobs.looks import Points, Range
from unikat.protection.subsample import Shares
from unikat.report.facts.households import households_result
from unikat.risk.limits import judge
from unikat.spec.model import ModelSpec
from unikat.spec.trust import Trust


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explore")
    unikat.assess(
        file_of(folder), out=folder / "out", keep_states=True, model="latent-class", classics=True,
        threshold="tau1 <= 5", max_sweeps=60, chains=2, workers=1, progress=False, **PERSONS,
    )  # fmt: skip
    return folder / "out"


def test_a_look_is_a_what_if_and_a_search_is_that_of_protect(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, float | None]] = []
    found = Exploration.open(run, lambda *what: told.append(what), Trust(inside=run.parent))
    assert told[0] == ("Reading the file", None)
    assert told[-1] == ("Drawing states of the model", 1.0)
    _, sex, age, _ = found.keys
    assert [one.ordered for one in found.keys] == [False, False, True, False]
    assert [step.rule for step in sex.steps] == ["", "left out"]
    assert [step.lost for step in age.steps] == sorted(step.lost for step in age.steps)
    assert (age.steps[0].words, age.steps[-1].words) == ("as it is", "left out")
    at = next(i for i, step in enumerate(age.steps) if step.rule.startswith("cut(5,15,25,"))
    bands = age.steps[at].rule
    assert age.steps[at].words.startswith("in ten-year bands, ")
    steps = (0, 1, at, 0)
    look = found.look(steps, "tau1 <= 1000")
    whatif = unikat.load(run, trust_spec=True).what_if({"age": bands, "sex": None})
    assert (look.tau1.mean, look.tau1.upper) == (whatif.tau1.mean, whatif.tau1.upper)
    assert look.judged == judge("tau1 <= 1000", [whatif.tau1.upper], found.unknown)
    assert look.rules == {"age": bands, "sex": "left out"}
    assert look.n_states == found.n_states == 400
    few = found.look((0, 1, 0, 0), n_states=40)
    assert (few.n_states, few.judged) == (40, None)
    # What was looked at by all states is not looked at again.
    assert found.look(steps, n_states=40) == found.look(steps)
    target = f"tau1 <= {look.tau1.upper:.3f}"
    cheapest = found.look(found.find(target).steps, target)
    assert cheapest.judged is not None
    assert cheapest.judged.value is not None
    assert cheapest.judged.value <= look.tau1.upper
    assert cheapest.lost <= look.lost
    protected = unikat.protect(run / "assessment.toml", target=target, trust_spec=True)
    assert protected.summary.chosen.recodings == cheapest.rules
    assert protected.summary.chosen.lost == pytest.approx(cheapest.lost, abs=1e-12)
    assert protected.summary.by_plan == cheapest.judged.value
    early: list[Points] = []
    # As in a protection, latent classes alone weigh no suppressed values.
    alone = found.frontier()
    assert {tuple(one.besides) for one in alone.points} == {(), ("subsample",)}
    assert alone.understated == "latent-class"
    monkeypatch.setattr(ModelSpec, "tells_what_is_left", True)
    frontier = found.frontier(early=early.append)
    assert frontier.every
    assert not frontier.understated
    assert early[0].n_plans == frontier.n_plans == math.prod(len(one.steps) for one in found.keys)
    of_kind = {
        kind: [one for one in frontier.points if one.kind == kind]
        for kind in ("recode", "sample", "suppress")
    }
    assert sum(map(len, of_kind.values())) == len(frontier.points)
    for points in of_kind.values():
        # Each of them loses more than the one before it, for less risk.
        assert len(points) > 1
        assert [one.lost for one in points] == sorted(one.lost for one in points)
        risks = [one.tau1.mean for one in points]
        assert risks == sorted(risks, reverse=True)
        # Their numbers are those of the page once the sliders and fields stand there.
        for point in points[:: max(len(points) // 2, 1)]:
            there = found.look(point.steps, besides=point.besides)
            assert (there.tau1, there.rules) == (point.tau1, point.rules)
            assert there.lost == pytest.approx(point.lost, abs=1e-12)
    assert of_kind["recode"][0].rules == {}
    assert {tuple(one.besides) for one in frontier.points} == {(), ("subsample",), ("suppress",)}
    assert frontier.n_others == early[-1].n_others >= len(of_kind["sample"] + of_kind["suppress"])
    # What a plan loses is the same before all states have told its risk, but of suppressed values,
    # which follow the risk.
    quick = {(one.steps, *one.besides.items()): one.lost for one in early[-1].points}
    for one in of_kind["recode"] + of_kind["sample"]:
        assert one.lost == pytest.approx(quick[one.steps, *one.besides.items()], abs=1e-12)
    for one in frontier.points:
        others = [other for other in frontier.points if other.kind != one.kind]
        beaten = any(o.lost < one.lost and o.tau1.mean <= one.tau1.mean for o in others)
        assert one.beaten == beaten
    assert json.loads(json.dumps(asdict(look)))["rules"] == look.rules
    with pytest.raises(SpecError, match="All keys are left out"):
        found.look([len(one.steps) - 1 for one in found.keys])
    with pytest.raises(SpecError, match="none of this file's"):
        found.look((0, 9, 0, 0))
    with pytest.raises(SpecError, match="is no limit"):
        found.look(steps, "tau1 < 5")
    with pytest.raises(SpecError, match="No recoding reaches k >= 1000"):
        found.find("k >= 1000")


HOMES = {
    "keys": "age:width(10),sex,tenure", "household": "hid", "household_keys": "tenure",
    "population_households": 900,
}  # fmt: skip


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("homes")
    rng = np.random.default_rng(1)
    lines = [
        f"{home},{rng.integers(0, 90)},{'fm'[rng.integers(2)]},{'or'[home % 3 // 2]}\n"
        for home in range(60)
        for _ in range(1 + home % 3)
    ]
    (folder / "homes.csv").write_text("hid,age,sex,tenure\n" + "".join(lines))
    unikat.assess(
        folder / "homes.csv", out=folder / "out", keep_states=True, model="households",
        max_sweeps=20, chains=2, workers=1, progress=False, **HOMES,
    )  # fmt: skip
    return folder / "out"


@pytest.mark.slow
def test_households_are_explored_as_what_if_does(homes: Path) -> None:
    found = Exploration.open(homes, trust=Trust(inside=homes.parent))
    # Keys of the household first, then of its members; the size is not recoded.
    assert [key.name for key in found.keys] == ["tenure", "age", "sex"]
    at = next(i for i, step in enumerate(found.keys[1].steps) if 1 < step.n_groups < 9)
    steps = (0, at, 1)
    look = found.look(steps, "tau1 <= 1")
    bands = found.keys[1].steps[at].rule
    whatif = unikat.load(homes, trust_spec=True).what_if({"age": bands, "sex": None})
    assert (look.tau1.mean, look.tau1.upper) == (whatif.tau1.mean, whatif.tau1.upper)
    frame = pd.read_csv(homes.parent / "homes.csv")
    sizes = frame.groupby("hid").size().to_numpy()
    r1 = np.nan_to_num(whatif.records.r1)[whatif.table.record_cell]
    assert look.persons is not None
    assert look.persons.mean == pytest.approx(float((sizes * r1).sum()))
    assert look.persons.lower < look.persons.mean < look.persons.upper
    # What the run itself says of the file as it is, size by size.
    as_it_is = unikat.load(homes, trust_spec=True).what_if({})
    told = households_result(as_it_is, None)
    assert told is not None
    persons = found.look((0, 0, 0)).persons
    assert persons == Range.of(as_it_is.persons)
    assert persons.mean == pytest.approx(sum(one.size * one.tau1 for one in told.by_size))
    assert look.persons.mean < persons.mean
    # Of keys of members persons are counted, and the risk of the homes in which a level occurs.
    before = found.look((0, 0, 0), key="sex")
    risk = dict(zip(frame["hid"].unique(), _r1_of(found), strict=True))
    for key in ("sex", "tenure"):
        for level in found.levels(key).levels:
            those = frame[frame[key] == level.value]
            units = those["hid"].unique()
            assert level.n == (len(those) if key == "sex" else len(units))
            assert level.risk == pytest.approx(sum(risk[home] for home in units))
    assert before.groups is not None
    assert before.groups.risk == tuple(one.risk for one in found.levels("sex").levels)
    pictures = found.pictures(steps)
    assert {one.variable for one in pictures.breakdowns} == {"size", "tenure"}
    assert (pictures.before, pictures.keys) == (None, ())
    # Without keys of the members households are records.
    alone = found.look((0, len(found.keys[1].steps) - 1, 1), key="tenure")
    assert alone.persons is not None
    assert alone.persons.lower <= alone.persons.upper
    assert alone.groups is not None
    with pytest.raises(SpecError, match="recodings alone"):
        found.look(steps, besides={"subsample": "50%"})


def _r1_of(found: Exploration) -> Any:
    """Of the households of the file, in order."""
    estimate = found._before
    return np.nan_to_num(estimate.records.r1)[estimate.table.record_cell]


def test_what_is_raised_between_ends_a_look_and_a_search(run: Path) -> None:
    found = Exploration.open(run, trust=Trust(inside=run.parent))

    def newer() -> None:
        raise InterruptedError

    for ask in (
        lambda: found.look((0, 1, 1, 1), between=newer),
        lambda: found.find("tau1 <= 1", newer),
        lambda: found.frontier(newer),
    ):
        with pytest.raises(InterruptedError):
            ask()
    assert found.look((0, 1, 1, 1)).n_states == 400


@pytest.mark.slow
def test_what_is_done_besides_is_that_of_protect(run: Path) -> None:
    found = Exploration.open(run, trust=Trust(inside=run.parent))
    names = [key.name for key in found.keys]
    at = next(i for i, one in enumerate(found.keys[names.index("age")].steps) if one.n_groups < 9)
    steps = [0] * len(names)
    steps[names.index("age")] = at
    plain = found.look(steps)
    # Half of the records: as the search of `protect` looks at the sample, by the same draw.
    half = found.look(steps, "tau1 <= 1000", besides={"subsample": "50%"})
    sample = Shares.of([0.5], found.posterior.table.n_records, seed=0)
    recoding = replace(found._recoding(steps), held=sample.held[0])
    law = found.posterior.estimate(recoding, 0.95)
    assert (half.tau1.mean, half.tau1.upper) == (law.tau1.mean, law.tau1.upper)
    assert half.lost == pytest.approx(1.0 - 0.5 * (1.0 - plain.lost))
    assert half.tau1.mean < plain.tau1.mean
    counts = found.counts(steps, besides={"subsample": "50%"})
    assert counts is not None
    assert (counts.n_uniques, counts.smallest) == (half.n_uniques, half.smallest)
    # Suppressed values: what the run of `protect` says of the same plan before its new fit.
    rules = {"age": plain.rules["age"]}
    asked = {"recode": rules, "suppress": "r1 <= 0.2"}
    whole = unikat.protect(run / "assessment.toml", trust_spec=True, **asked).summary
    look = found.look(steps, besides={"suppress": "r1 <= 0.2"})
    assert whole.released is not None
    assert look.tau1.mean == pytest.approx(whole.released.tau1.mean)
    assert look.tau2.mean == pytest.approx(whole.released.tau2.mean)
    assert look.lost == pytest.approx(whole.lost)
    assert sum(share for *_, share in look.bins) == pytest.approx(1.0, abs=0.01)
    few = found.look(steps, "tau1 <= 5", 40, besides={"pram": "region: 0.7", "swap": "sex"})
    assert (few.n_states, few.judged) == (40, None)
    assert found.counts(steps, besides={"pram": "region: 0.7"}) is None
    every = found.look(steps, "tau1 <= 5", besides={"pram": "region: 0.7", "swap": "sex"})
    assert every == found.look(steps, "tau1 <= 5", besides={"pram": "region: 0.7", "swap": "sex"})
    assert every.judged is not None
    for wrong, why in (
        ({"suppress": "search"}, "looks at one plan"),
        ({"pram": "region: 0.7, 0.9"}, "looks at one plan"),
        ({"subsample": "2"}, "no share of the records"),
        ({"pram": "regio: 0.7"}, "none of the keys"),
        ({"out": "x"}, "no option"),
    ):
        with pytest.raises(SpecError, match=why):
            found.look(steps, besides=wrong)


@pytest.mark.slow
def test_a_protection_takes_the_fit_of_an_assessment(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[str] = []
    complete_fit = job.complete_fit

    def recorded(name: str, *args: Any, **more: Any) -> Any:
        fitted.append(name.partition("-")[0])
        return complete_fit(name, *args, **more)

    monkeypatch.setattr(job, "complete_fit", recorded)
    asked = {"recode": {"age": "width(20)"}, "target": "tau1 <= 1000", "trust_spec": True}
    of_fit = unikat.protect(run / "assessment.toml", **asked).summary
    assert fitted == ["original", "protected"]
    of_states = unikat.protect(run / "assessment.toml", assessed=run, **asked).summary
    assert fitted[2:] == ["protected"]
    for name in ("before", "after", "refit", "plans", "target", "converged", "left_over", "lost"):
        assert getattr(of_states, name) == getattr(of_fit, name), name
    for wrong, why in (
        ({"population_size": 99_999}, "of another file than this one, or of the same with"),
        ({"model": "latent-class:top_shape=0.5"}, "name the same"),
        ({"assessed": run.parent}, "does not hold a complete run"),
    ):
        with pytest.raises(UnikatError, match=why):
            unikat.protect(run / "assessment.toml", **{"assessed": run, **asked, **wrong})
    assert fitted[2:] == ["protected"]


def test_the_pictures_of_a_plan_are_about_its_records(run: Path) -> None:
    found = Exploration.open(run, trust=Trust(inside=run.parent))
    names = [key.name for key in found.keys]
    steps = [0] * len(names)
    steps[names.index("age")] = 2
    look = found.look(steps)
    pictures = found.pictures(steps)
    assert [one.name for one in pictures.keys] == names
    assert all(sum(one.before) == pytest.approx(1.0, abs=0.01) for one in pictures.keys)
    assert pictures.after is not None
    assert pictures.after.total == pytest.approx(look.tau1.mean, rel=0.001)
    for one in pictures.breakdowns:
        levels = [*one.levels, *([] if one.other is None else [one.other])]
        assert sum(level.tau1 for level in levels) == pytest.approx(look.tau1.mean, rel=0.001)
        assert sum(level.n_uniques for level in levels) == look.n_uniques
    # A table of two keys that stay as they are is that of the file.
    same = found.pictures(steps, pair=("sex", "region"))
    assert same.before is not None
    assert same.before.names == ("sex", "region")
    assert same.table is not None
    assert same.table.distance == pytest.approx(0.0)
    half = found.pictures(steps, {"subsample": "50%"})
    assert half.after is not None
    n = sum(sum(row) for row in half.after.records)  # type: ignore[arg-type]
    assert n == found.posterior.table.n_records // 2
    gone = found.pictures(steps, {"suppress": "k >= 3"})
    assert (gone.after, gone.breakdowns) == (None, ())
    assert any(one.missing[1] > 0.0 for one in gone.keys)
    columns = found.columns(steps)
    assert columns.left_over is not None
    alone = columns.left_over.without.tau1
    assert alone is not None
    assert alone.mean == pytest.approx(look.tau1.mean, rel=0.05)
    known = [one.risk.tau1.mean for one in columns.columns if one.risk and one.risk.tau1]
    assert known
    assert min(known) >= 0.95 * alone.mean
    assert {"weight", "home", "member"} <= {one.name for one in columns.columns}


def test_groups_made_by_hand_are_looked_at_as_what_if_does(run: Path) -> None:
    found = Exploration.open(run, trust=Trust(inside=run.parent))
    names = [key.name for key in found.keys]
    known = found.levels("region")
    tau1 = found.look([0] * len(names)).tau1.mean
    assert sum(level.risk for level in known.levels) == pytest.approx(tau1)
    values = [level.value for level in known.levels]
    by_hand: list[int | str] = [0] * len(names)
    by_hand[names.index("region")] = "found\n0,2 others"
    look = found.look(by_hand, key="region")
    groups = {values[0]: "others", values[2]: "others"}
    whatif = unikat.load(run, trust_spec=True).what_if({"region": groups})
    assert (look.tau1.mean, look.tau1.upper) == (whatif.tau1.mean, whatif.tau1.upper)
    assert look.rules == {"region": "file(region-groups.csv)"}
    assert dict(look.files["region"]) == {value: value for value in values} | groups
    assert look.groups is not None
    assert sum(look.groups.risk) == pytest.approx(look.tau1.mean)
    assert look.groups.labels[look.groups.of_level[2]] == "others"
    counts = found.counts(by_hand, "region")
    assert (counts.n_uniques, counts.smallest) == (look.n_uniques, look.smallest)
    with pytest.raises(SpecError, match="no groups of levels"):
        found.look([*by_hand[:-1], "found\n0-x"])
    with pytest.raises(SpecError, match="no such key"):
        found.levels("regio")
