from __future__ import annotations

import io
import json
import os
import re
import stat
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from inference.checkpoint_files import joined, parts
from report.browser import assert_sound, layout
from report.pages.test_assessment import Page
from unikat.classics.formulas import FORMULAS
from unikat.errors import DataError, OutputError, SpecError, UnikatError
from unikat.inference.progress import Watcher
from unikat.jobs import evaluate as jobs
from unikat.jobs.evaluate import read_population
from unikat.models.base import Stream
from unikat.models.loglinear.conditional import LogLinear
from unikat.report.facts.evaluation import SCHEMA
from unikat.report.pages.evaluation import render
from unikat.report.pages.template import CONTENT_POLICY
from unikat.report.text.evaluation import reference, rows, side_by_side
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import EVALUATE
from unikat.spec.trust import SHOWN
from unikat.studies.designs import draw_sample
from unikat.studies.pooled import MeasureScore, ModelScore, RecordsScore
from unikat.studies.scores import Fit
from unikat.studies.store import StudyStore

PAGE, TABLE, ROWS, FILES, SUMMARY, SPEC = EVALUATE.files
SAMPLING = {"chains": 2, "workers": 1, "max_sweeps": 60, "rhat": 5.0, "ess": 1.0}
MODELS = ["hdp", "hdp:alpha=per-record"]


def people(path: Path, n: int = 300, *, missing: bool = False) -> Path:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "AGE": rng.integers(20, 40, n),
            "WORK <b>": rng.geometric(0.4, n),
            "PLACE": rng.integers(1, 4, n),
            "REGION": rng.choice(["north", "south"], n),
        }
    )
    if missing:
        frame.loc[::9, "PLACE"] = None
    frame.to_csv(path, index=False)
    return path


def run(asked: Any, folder: Path, *, progress: Any = None, **how: Any) -> Any:
    """Evaluate, and return what `summary.json` holds."""
    watcher = Watcher(progress=progress)
    return jobs.run(asked, Inputs(), folder, watcher=watcher, **how).summary


def spec(path: Path, **changes: Any) -> EvaluationSpec:
    values = {
        "keys": ["AGE", "WORK <b>", "PLACE"],
        "n": [30, "20%"],
        "repeats": 2,
        "models": MODELS,
        "data": {"path": str(path)},
        "sampling": SAMPLING,
    }
    return EvaluationSpec.parse({**values, **changes})


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("study")
    return folder / "out", run(spec(people(folder / "people.csv")), folder / "out")


def table(folder: Path) -> pd.DataFrame:
    return pq.read_table(folder / TABLE).to_pandas().drop(columns="seconds")


def test_the_folder_of_a_study(study: tuple[Path, Any]) -> None:
    folder, summary = study
    written = {*EVALUATE.files, "tasks", ".unikat"} - {ROWS, FILES}
    assert {path.name for path in folder.iterdir()} == written
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    found = table(folder)
    assert list(found["model"].unique()) == MODELS
    assert len(found) == 8
    assert sorted(set(found["n"])) == [30, 60]
    assert (found["n_drawn"] == found["n"]).all()
    for measure in ("tau1", "tau2"):
        assert (found[f"{measure}_lower"] <= found[f"{measure}_upper"]).all()
        assert (found[f"{measure}_true"] <= found["n_uniques"]).all()
    assert found["error"].isna().all()
    text = (folder / SUMMARY).read_text()
    content = json.loads(text)
    assert content["schema"] == SCHEMA == "unikat.evaluation/1"
    assert content == json.loads(json.dumps(asdict(summary)))
    assert summary.complete
    assert summary.n_done == summary.n_fits == 8
    row = content["results"][0]
    part = found[(found["n"] == 30) & (found["model"] == "hdp")]
    error = part["tau1_mean"] - part["tau1_true"]
    assert row["tau1"]["bias"] == pytest.approx(error.mean())
    assert row["tau1"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    inside = (part["tau1_lower"] <= part["tau1_true"]) & (part["tau1_true"] <= part["tau1_upper"])
    assert row["tau1"]["n_covered"] == inside.sum()


def test_the_truth_is_that_of_the_file(study: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = study
    asked = EvaluationSpec.read(folder / SPEC, SHOWN)
    everybody = pd.read_csv(asked.data.path)
    keys = list(asked.keys)
    everybody["F"] = everybody.groupby(keys)["AGE"].transform("size")
    from unikat.studies.designs import draw_units

    population, *_ = read_population(asked)
    assert population.table.population_size == len(everybody)
    for _, row in table(folder).iterrows():
        drawn = everybody.iloc[draw_units(population, row["n"], row["repeat"], seed=1)]
        alone = drawn[drawn.groupby(keys)["AGE"].transform("size") == 1]
        assert row["n_uniques"] == len(alone)
        assert row["tau1_true"] == (alone["F"] == 1).sum()
        assert row["tau2_true"] == pytest.approx((1 / alone["F"]).sum())


def test_the_written_specification_gives_the_same_numbers(
    study: tuple[Path, Any], tmp_path: Path
) -> None:
    folder, _ = study
    text = (folder / SPEC).read_text()
    assert "unikat evaluate evaluation.toml" in text
    assert tomllib.loads(text)["n"] == [30, 60]
    asked = EvaluationSpec.read(folder / SPEC, SHOWN)
    sampling = asked.sampling.model_copy(update={"workers": 2})
    run(asked.model_copy(update={"sampling": sampling}), tmp_path / "again")
    pd.testing.assert_frame_equal(table(tmp_path / "again"), table(folder))
    results = [
        json.loads((f / SUMMARY).read_text())["results"] for f in (folder, tmp_path / "again")
    ]
    for one, other in zip(*results, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_an_interrupted_study_goes_on(study: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = study
    asked, out = spec(folder.parent / "people.csv"), tmp_path / "out"

    def stop(event: Any) -> None:
        if event.done == 3:
            raise KeyboardInterrupt

    early = run(asked, out, progress=stop)
    assert (early.complete, early.n_done) == (False, 3)
    assert "interrupted: 3 of 8" in early.warnings[0]
    assert "Not complete." in (out / PAGE).read_text()
    assert len(table(out)) == 3
    with pytest.raises(OutputError, match="Continue it with --resume"):
        run(asked, out)
    kept = {path: path.stat().st_mtime_ns for path in (out / "tasks").rglob("*.*")}
    # More samples may be asked for than before.
    run(asked.model_copy(update={"repeats": 1}), out, resume=True)
    assert run(asked, out, resume=True).complete
    pd.testing.assert_frame_equal(table(out), table(folder))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    once = {name: (out / name).read_bytes() for name in (TABLE, SPEC)}
    run(asked, out, resume=True)
    assert {name: (out / name).read_bytes() for name in (TABLE, SPEC)} == once


def test_a_study_that_differs_is_not_resumed(study: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = study
    data = folder.parent / "people.csv"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for changes, name in (
        ({"sampling": {**SAMPLING, "seed": 2}}, "seed"),
        ({"sampling": {**SAMPLING, "max_sweeps": 61}}, "max_sweeps"),
        ({"keys": ["AGE", "PLACE"]}, "data, keys, strata, sizes or impossible combinations"),
        ({"design": "bernoulli"}, "design"),
    ):
        with pytest.raises(OutputError, match=f"these differ: {name}"):
            run(spec(data, **changes), folder, resume=True)
    with pytest.raises(SpecError, match="exclude each other"):
        run(spec(data), folder, resume=True, overwrite=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_damaged_fits_are_made_again(study: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = study
    asked, out = spec(folder.parent / "people.csv", n=[30], repeats=1), tmp_path / "out"
    run(asked, out)
    found = table(out)
    paths = sorted((out / "tasks").glob("n*/*.fit"))
    assert len(paths) == 2
    paths[0].write_text("{}")
    header, arrays = parts(paths[1].read_bytes())
    short = io.BytesIO()
    np.save(short, [1])
    paths[1].write_bytes(joined(header, [short.getvalue(), *arrays[1:]]))
    run(asked, out, resume=True)
    pd.testing.assert_frame_equal(table(out), found)
    (out / "tasks" / "study.json").write_text("?")
    with pytest.raises(OutputError, match="cannot be read"):
        run(asked, out, resume=True)
    run(asked, out, overwrite=True)
    pd.testing.assert_frame_equal(table(out), found)


def test_a_fit_survives_storing(study: tuple[Path, Any], tmp_path: Path) -> None:
    folder, _ = study
    path = next((folder / "tasks").glob("n30-r1-hdp-alpha*/*.fit"))
    content = path.read_bytes()
    kept = json.loads((folder / "tasks" / "study.json").read_text())
    fit = Fit(model="hdp:alpha=per-record", n=30, repeat=1)
    score = StudyStore(folder, kept).load(fit)
    assert score is not None
    copy = StudyStore(tmp_path, kept)
    copy.open(resume=False)
    copy.save(score)
    assert (tmp_path / path.relative_to(folder)).read_bytes() == content
    copy.save(replace(score, repeat=2, error="refused"))
    assert copy.load(replace(fit, repeat=2)) is None
    assert StudyStore(folder, {**kept, "seed": "9"}).load(fit) is None


def test_strata_come_from_a_column(study: tuple[Path, Any], tmp_path: Path) -> None:
    data = study[0].parent / "people.csv"
    asked = spec(data, design="stratified", strata="REGION", n=[31], repeats=1, models=["hdp"])
    summary = run(asked, tmp_path / "out")
    assert summary.study.strata == "REGION"
    assert any("stratified" in warning for warning in summary.warnings)
    regions = pd.read_csv(data)["REGION"]
    population, *_ = read_population(asked)
    assert population.strata is not None
    groups = pd.DataFrame({"a": regions, "b": population.strata}).drop_duplicates()
    assert len(groups) == 2
    with pytest.raises(DataError, match=r"strata cannot be used.*no column 'REGON'"):
        run(spec(data, design="stratified", strata="REGON"), tmp_path / "no")
    assert not (tmp_path / "no").exists()


MIXED = ["latent-class", "loglinear:terms=independence"]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"design": "stratified", "strata": "REGION", "allocation": "equal"},
            "stratified random sampling, the same number of units from every stratum, or all "
            "units of smaller strata; the models used the strata and their sizes; strata: REGION",
        ),
        (
            {"design": "stratified", "strata": "PLACE", "allocation": "power", "power": 0.25},
            "allocation proportional to the stratum sizes to the power 0.25; the models used",
        ),
        ({"design": "pps", "size": "PLACE"}, "scaled to sum to the population; sizes: PLACE"),
    ],
)
def test_samples_with_unequal_chances(tmp_path: Path, how: dict[str, Any], said: str) -> None:
    """A mixture and a log-linear model, from the file to the page: their fits know the weights."""
    data = people(tmp_path / "people.csv")
    asked = spec(data, **how, n=[60], repeats=2, models=MIXED)
    summary = run(asked, tmp_path / "out")
    assert (summary.complete, summary.n_failed) == (True, 0)
    assert not any("stratified" in warning for warning in summary.warnings)
    facts = summary.study
    assert (facts.design, facts.strata) == (how["design"], how.get("strata"))
    assert facts.allocation == how.get("allocation", "proportional")
    assert facts.power == how.get("power", 0.5)
    assert facts.size == how.get("size")
    assert said in Page((tmp_path / "out" / PAGE).read_text()).text
    # Each fit is that of the sample with its weights.
    population, *_ = read_population(asked)
    found = table(tmp_path / "out")
    model = LogLinear(terms="independence")
    for repeat in (1, 2):
        drawn = draw_sample(
            population, 60, repeat, seed=1, design=how["design"],
            allocation=how.get("allocation", "proportional"), power=how.get("power", 0.5),
        )  # fmt: skip
        assert drawn is not None
        assert drawn.table.sampling is not None
        means = []
        for sample in (drawn.table, replace(drawn.table, sampling=None)):
            fitted, at_risk = views(model, sample)
            measures = RiskMeasures.of(at_risk)
            fit = model.prepare(fitted)
            state = model.init(Stream(1, 0, 0), fit)
            scalars = measures.observe(Stream(1, 0, 1), model, state, fit, measures.start())
            means.append(scalars["tau1_expected"])
        row = found[(found["repeat"] == repeat) & (found["model"] == MIXED[1])].iloc[0]
        assert row["tau1_expected_mean"] == pytest.approx(means[0], rel=1e-9)
        assert abs(means[0] / means[1] - 1.0) > 1e-6
        assert row["tau1_true"] == drawn.tau1
    # From its own record, and on.
    again = EvaluationSpec.read(tmp_path / "out" / SPEC, SHOWN)
    run(again, tmp_path / "again")
    pd.testing.assert_frame_equal(table(tmp_path / "again"), found)
    run(again, tmp_path / "out", resume=True)
    other = {"stratified": {"allocation": "proportional", "power": None}, "pps": {"size": "AGE"}}
    changed = spec(data, **{**how, **other[how["design"]]}, n=[60], repeats=2, models=MIXED)
    which = "design" if how["design"] == "stratified" else "data, keys, strata, sizes"
    with pytest.raises(OutputError, match=f"these differ: {which}"):
        run(changed, tmp_path / "out", resume=True)


def test_sizes_and_strata_of_the_units_that_are_left(tmp_path: Path) -> None:
    """Units that are left out for an impossible combination take their sizes and strata along."""
    data = people(tmp_path / "people.csv")
    zeros = {"rules": ["AGE < 25 and PLACE == 1"], "on_conflict": "drop"}
    frame = pd.read_csv(data)
    left = frame[~((frame["AGE"] < 25) & (frame["PLACE"] == 1))]
    assert 0 < len(left) < 300
    population, *_ = read_population(spec(data, design="pps", size="WORK <b>", zeros=zeros))
    np.testing.assert_array_equal(population.measure, left["WORK <b>"])
    asked = spec(data, design="stratified", strata="REGION", allocation="equal", zeros=zeros)
    population, *_ = read_population(asked)
    np.testing.assert_array_equal(population.strata, left["REGION"] == "south")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([1.0, 0.0] * 150, r"150 of 300 values are 0 \(rows 2, 4, 6, 8, 10, ...\)"),
        ([1.0, -2.0] * 150, "are negative"),
        ([1.0, None] * 150, "are missing"),
        (["1", "many"] * 150, "are no numbers"),
    ],
)
def test_sizes_that_cannot_be_used(tmp_path: Path, column: list[Any], words: str) -> None:
    path = people(tmp_path / "people.csv")
    pd.read_csv(path).assign(SIZE=column).to_csv(path, index=False)
    with pytest.raises(DataError, match=words) as caught:
        run(spec(path, design="pps", size="SIZE"), tmp_path / "out")
    assert "many" not in str(caught.value)
    with pytest.raises(DataError, match="Did you mean 'SIZE'"):
        run(spec(path, design="pps", size="SIZ"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_keys_need_a_decision(tmp_path: Path) -> None:
    data = people(tmp_path / "people.csv", missing=True)
    for how in ("integrate", "wildcard"):
        with pytest.raises(DataError, match=r"34 units .*PLACE 34.*--missing level"):
            run(spec(data, data={"path": str(data), "missing": how}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    asked = spec(data, data={"path": str(data), "missing": "level"}, n=[30], repeats=1)
    summary = run(asked, tmp_path / "out")
    assert summary.population.n_incomplete == 34
    assert "Units with a missing key" in (tmp_path / "out" / PAGE).read_text()


def test_failures_are_reported(study: tuple[Path, Any], tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise UnikatError("No such <luck>.")

    monkeypatch.setattr("unikat.studies.fit.sample", refuse)
    summary = run(spec(study[0].parent / "people.csv"), tmp_path / "out")
    assert summary.n_failed == len(summary.failures) == 8
    assert summary.failures[0].message == "No such <luck>."
    assert rows(summary.results, "tau1")[0][2:] == ("–",) * 9
    page = Page((tmp_path / "out" / PAGE).read_text())
    assert page.text.count("No such <luck>.") == 8
    assert "No fit gave an estimate." in page.text
    assert table(tmp_path / "out")["tau1_mean"].isna().all()
    assert list(table(tmp_path / "out")["error"].unique()) == ["No such <luck>."]


def test_the_page(study: tuple[Path, Any]) -> None:
    text = (study[0] / PAGE).read_text()
    page = Page(text)
    assert page.open == []
    policies = [a["content"] for tag, a in page.tags if "http-equiv" in a and tag == "meta"]
    assert policies == [CONTENT_POLICY]
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "img", "form", "b")
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name not in ("src", "href", "style")
            assert name == "xmlns" or "://" not in (value or "")
    drawn = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    # Six for each of two sizes, for a page and for a phone.
    assert len(drawn) == 2 * 6 * 2
    for svg in drawn:
        ElementTree.fromstring(svg)
        assert "nan" not in svg.lower().replace("nance", "")
    for words in (
        "WORK <b>",
        "hdp:alpha=per-record",
        "The 95% intervals contained the true τ1 in",
    ):
        assert words in page.text
    assert "north" not in page.text


def test_no_text_of_the_page_is_cut_at_any_width(study: tuple[Path, Any], tmp_path: Path) -> None:
    pages = {"evaluation": (study[0] / PAGE).read_text()}
    assert_sound(layout(pages, tmp_path), figures=2 * 6)


def test_the_page_holds_for_empty_groups(study: tuple[Path, Any]) -> None:
    _, summary = study
    assert "No fit gave" in render(replace(summary, results=(), n_done=0), ())


def test_a_time_limit_is_told(study: tuple[Path, Any], tmp_path: Path) -> None:
    sampling = {**SAMPLING, "max_seconds": 30}
    asked = spec(study[0].parent / "people.csv", sampling=sampling, n=[30], repeats=1)
    summary = run(asked, tmp_path / "out")
    assert any("depend on the machine" in warning for warning in summary.warnings)
    assert "depend on the machine" in Page((tmp_path / "out" / PAGE).read_text()).text
    assert "not give exactly the same results" in (tmp_path / "out" / SPEC).read_text()


def test_a_full_disk_leaves_no_half_results(
    study: tuple[Path, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="the disk is full"):
        run(spec(study[0].parent / "people.csv", n=[30], repeats=1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"n": ["x"]}, "neither a whole number"),
        ({"n": ["0.01%"]}, "is 0 of the 300"),
        ({"n": ["101%"]}, "at most 100%"),
        ({"models": ["hdp", "hdp"]}, "more than once"),
        ({"models": ["gomm"]}, "no model"),
        ({"strata": "REGION"}, "design is simple"),
        ({"design": "stratified"}, "needs the column"),
        ({"design": "pps"}, "needs the column of the units' sizes"),
        ({"size": "AGE"}, "design is simple; add --design pps"),
        ({"allocation": "equal"}, "design is simple; add --design stratified"),
        ({"design": "stratified", "strata": "REGION", "power": 0.5}, "add --allocation power"),
        ({"power": 2.0, "allocation": "power"}, "power"),
        (
            {"design": "stratified", "strata": "AGE", "allocation": "equal", "n": [19]},
            "sample size 19 is smaller than the number of strata, 20",
        ),
        ({"repeats": 0}, "repeats"),
        ({"kyes": ["AGE"]}, "Did you mean 'keys'"),
        ({"data": {}}, "No data file"),
    ],
)
def test_what_cannot_be_asked(
    study: tuple[Path, Any], tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnikatError, match=words):
        run(spec(study[0].parent / "people.csv", **values), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sizes_are_exact_shares() -> None:
    asked = EvaluationSpec.parse({"n": "2.5%,1_000, 7", "keys": "A,B:cut(0,1)"})
    assert asked.sample_sizes(48_842) == (1221, 1000, 7)
    assert asked.keys == ("A", "B:cut(0,1)")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,500", "1500"),
        ("1,500,5000", "1500"),
        ("5%,1,500", "1500"),
        ("50,100", "50100"),
        ("1,500,000", "1500000"),
        ("100,000", "100000"),
        ("100,500,050", "100500050"),
    ],
)
def test_commas_that_may_stand_between_thousands_are_refused(text: str, number: str) -> None:
    with pytest.raises(SpecError, match=f"looks like one number. Write {number} if") as caught:
        EvaluationSpec.parse({"n": text})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1500,5000", (1500, 5000)),
        ("1_500,100", (1500, 100)),
        ("100,500", (100, 500)),
        ("1, 500", (1, 500)),
        ("40,20%", (40, 2000)),
        ("5%,100", (500, 100)),
        ("2.5%,10%", (250, 1000)),
        ([1, 500], (1, 500)),
    ],
)
def test_commas_separate_sizes(text: object, sizes: tuple[int, ...]) -> None:
    assert EvaluationSpec.parse({"n": text}).sample_sizes(10_000) == sizes


def test_rules_and_the_levels_of_samples_exclude_each_other():
    with pytest.raises(SpecError, match="leave out --levels sample, or the rules"):
        EvaluationSpec.parse(
            {"n": "5%", "keys": "A,B", "levels": "sample", "zeros": {"rules": ["A < 3"]}}
        )


def test_values_set_missing_are_told_to_other_programs(tmp_path: Path) -> None:
    path = people(tmp_path / "people.csv")
    asked = spec(path, models=["loglinear"], leaderboard=True, blank=0.2)
    blanked = run(asked, tmp_path / "blanked")
    whole = run(asked.model_copy(update={"blank": 0.0}), tmp_path / "whole")
    assert "set missing in the samples" in " ".join(blanked.warnings)
    assert "blank" not in read(tmp_path / "whole" / ROWS)
    gaps = read(tmp_path / "blanked" / ROWS)["blank"]
    assert 0.15 < gaps.map(len).sum() / (3 * len(gaps)) < 0.25
    assert set().union(*gaps) == {"AGE", "WORK <b>", "PLACE"}
    for one, other in zip(blanked.results, whole.results, strict=True):
        if one.tau1 is not None and other.tau1 is not None:
            assert one.tau1.truth == other.tau1.truth
    # Single records are scored where they are complete.
    complete, every = (
        sum(group.records for group in found.results[0].r1_groups) for found in (blanked, whole)
    )
    assert 0 < complete < 0.8 * every


@pytest.mark.parametrize(
    ("further", "said"),
    [
        ({"synthesizers": "cart"}, "or the models of households and the synthetic files"),
        ({"missing": "wildcard"}, "or --missing wildcard"),
        ({"blank": 1.0}, "blank"),
    ],
)
def test_values_cannot_be_set_missing_everywhere(further: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        EvaluationSpec.parse(
            {"n": "5%", "keys": "A,B", "blank": further.pop("blank", 0.1)}
            | ({"data": {"missing": further.pop("missing")}} if "missing" in further else {})
            | further
        )


def test_everybody_on_the_same_samples(tmp_path: Path) -> None:
    path = people(tmp_path / "people.csv")
    asked = spec(path, models=["loglinear"], leaderboard=True)
    first = run(asked, tmp_path / "out")
    assert first.others == tuple(FORMULAS)
    assert first.n_fits == first.n_done == 4 * (1 + len(FORMULAS))
    # Another program reads which rows each sample has, and says what it estimates of them.
    frame, rows = pd.read_csv(path)[["AGE", "WORK <b>", "PLACE"]], read(tmp_path / "out" / ROWS)
    told, true = [], {}
    for (n, repeat), part in rows.groupby(["n", "repeat"]):
        sample = frame.iloc[part["row"] - 1]
        alone = part["row"][~sample.duplicated(keep=False).to_numpy()]
        counts = frame.groupby(list(frame)).size()
        unique = counts.loc[[tuple(frame.iloc[row - 1]) for row in alone]].to_numpy() == 1
        true[n, repeat] = int(unique.sum())
        address = {"estimator": "oracle", "n": n, "repeat": repeat}
        told += [
            address | {"row": row, "r1": float(u)} for row, u in zip(alone, unique, strict=True)
        ]
        told.append(address | {"tau1_lower": 0.0, "tau1_upper": 300.0, "seconds": 1.5})
    estimates = tmp_path / "told.csv"
    pd.DataFrame(told).to_csv(estimates, index=False)
    summary = run(asked.model_copy(update={"estimates": estimates}), tmp_path / "out", resume=True)
    assert summary.others == (*FORMULAS, "oracle")
    found = table(tmp_path / "out")
    for row in found[found["model"] == "oracle"].itertuples():
        assert row.tau1_mean == row.tau1_true == true[row.n, row.repeat]
    for one in summary.results:
        if one.model == "oracle":
            assert one.tau1.absolute == 0.0
            assert (one.tau1.n_intervals, one.tau1.n_covered, one.seconds) == (2, 2, 1.5)
            assert (one.records.auc, one.records.brier, one.records.log_score) == (1.0, 0.0, 0.0)
        if one.model == "sample-uniques":
            assert one.records.auc in (0.5, None)
    page = (tmp_path / "out" / PAGE).read_text()
    assert "oracle" in page
    assert "sdcmicro-modrisk" in page
    # What was fitted before has not moved.
    before = [one for one in first.results if one.model == "loglinear"]
    assert [one for one in summary.results if one.model == "loglinear"] == before


def read(path: Path) -> pd.DataFrame:
    return pq.read_table(path).to_pandas()


LINE = {"estimator": "mine", "n": 30, "repeat": 1, "tau1": 2.0}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([LINE | {"n": 31}], "mine' of sample 1 of 31, which is no sample of this study"),
        ([LINE | {"repeat": 3}], "no sample of this study; it has 2 of each size"),
        ([LINE | {"estimator": "loglinear"}], "name 'loglinear', which is fitted here"),
        ([LINE, LINE], "tau1 of 'mine' of sample 1 of 30 is given 2 times"),
        ([LINE | {"tau3": 1.0}], "has a column 'tau3'; its columns are estimator, n, repeat, row"),
        ([{"estimator": "mine", "n": 30, "tau1": 2.0}], "has no column repeat"),
        ([LINE | {"tau1": None}], "there is no estimate of 'mine'"),
        ([LINE | {"tau1": "two"}], "cannot be read: it is no table of such columns"),
        ([LINE | {"tau1": -5.0}], "a number of 'mine' of sample 1 of 30 is negative, infinite"),
        ([LINE | {"tau1": np.inf}], "is negative, infinite or larger than any population"),
        ([LINE | {"tau1": 1e300}], "is negative, infinite or larger than any population"),
        ([LINE | {"estimator": " "}], "an estimator has no name"),
        ([LINE | {"estimator": "m" * 3_000}], "one of more than 60 letters"),
        ([LINE | {"row": 1, "r1": r1} for r1 in (0.1, 0.9)], "a row of 'mine' .* is given twice"),
        ([LINE | {"row": 1.5, "r1": 0.5}], "is no whole number"),
        ([LINE | {"tau1_lower": 9.0, "tau1_upper": 2.0}], "the interval of tau1 of 'mine'"),
        ([LINE | {"tau1_lower": 1.0}], "has one end, or ends before it begins"),
        ([LINE | {"row": 1, "r1": 1.5}], "an r1 of 'mine' of sample 1 of 30 is missing or not"),
        ([LINE | {"row": 999, "r1": 0.5}], "have rows that it does not have"),
    ],
)
def test_estimates_that_cannot_be_scored(
    tmp_path: Path, lines: list[dict[str, Any]], words: str
) -> None:
    pd.DataFrame(lines).to_csv(tmp_path / "told.csv", index=False)
    asked = spec(people(tmp_path / "people.csv"), models=["loglinear"])
    with pytest.raises(DataError, match=words):
        run(asked.model_copy(update={"estimates": tmp_path / "told.csv"}), tmp_path / "out")
    assert not (tmp_path / "out" / SUMMARY).exists()


def test_chance_is_that_of_auto_and_the_least_error_comes_first() -> None:
    def result(model: str, absolute: float, by_chance: float | None) -> ModelScore:
        measure = MeasureScore(
            truth=10.0, estimate=10.0, bias=0.0, bias_error=None, relative_bias=0.0, rmse=0.0,
            relative_rmse=0.0, absolute=absolute, n_intervals=0, n_covered=0, coverage=None,
            coverage_lower=None, coverage_upper=None, width=None,
        )  # fmt: skip
        records = None
        if by_chance is not None:
            records = RecordsScore(
                auc=0.9, brier=0.1, log_score=-0.2, by_chance=by_chance, width_by_chance=1.0
            )
        return ModelScore(
            model=model, n=5, n_samples=1, n_failed=0, n_unconverged=0, seconds=1.0, tau1=measure,
            tau2=None, records=records, cutoffs=(), r1_groups=(), r2_groups=(), r2_errors=(),
        )  # fmt: skip

    results = (result("hdp", 4.0, 8.0), result("auto", 3.0, 2.0), result("pitman", 1.0, None))
    assert reference(results).model == "auto"
    assert reference(results[:1]).model == "hdp"
    rows = side_by_side(SimpleNamespace(results=results))  # type: ignore[arg-type]
    assert [(row[1], row[2], row[3]) for row in rows] == [
        ("pitman", "10%", "0.5"), ("auto", "30%", "1.5"), ("hdp", "40%", "2"),
    ]  # fmt: skip


def test_a_program_that_left_out_a_sample_is_named(tmp_path: Path) -> None:
    asked = spec(people(tmp_path / "people.csv"), models=["loglinear"])
    for lines in ([LINE], [LINE, LINE | {"repeat": 2}]):
        pd.DataFrame(lines).to_csv(tmp_path / "told.csv", index=False)
        asked = asked.model_copy(update={"estimates": tmp_path / "told.csv"})
        found = run(asked, tmp_path / "out", resume=(tmp_path / "out").exists())
        named = [one for one in found.warnings if "no number of mine" in one]
        assert len(named) == (len(lines) == 1)


def test_estimates_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("estimator,n,repeat,tau1\n")
    asked = spec(people(tmp_path / "people.csv"), models=["loglinear"])
    with pytest.raises(DataError, match=r"none\.csv has no estimates"):
        run(asked.model_copy(update={"estimates": tmp_path / "none.csv"}), tmp_path / "out")
    asked = spec(people(tmp_path / "people.csv"), models=["loglinear"])
    with pytest.raises(DataError, match=r"There is no file told\.csv with estimates"):
        run(asked.model_copy(update={"estimates": tmp_path / "told.csv"}), tmp_path / "out")


def test_generators_side_by_side(tmp_path: Path) -> None:
    source = people(tmp_path / "people.csv")
    asked = spec(source, n=[30, 60], synthesizers=["independence", "latent-class"])
    with_models = spec(source, synthesizers="independence").models
    assert with_models == tuple(MODELS)
    asked = EvaluationSpec.parse(
        {
            name: value
            for name, value in asked.model_dump(by_alias=True, exclude_none=True).items()
            if name != "models"
        }
    )
    assert asked.models == ()
    folder = tmp_path / "out"
    summary = run(asked, folder)
    assert summary.results == ()
    assert summary.n_fits == summary.n_done == 12
    labels = ("independence", "latent-class", "second-sample")
    found = [(one.n, one.synthesizer) for one in summary.synthesizers]
    assert found == [(n, label) for n in (30, 60) for label in labels]
    content = json.loads((folder / SUMMARY).read_text())
    assert content == json.loads(json.dumps(asdict(summary)))
    made = pq.read_table(folder / FILES).to_pandas()
    assert len(made) == 12
    for one in summary.synthesizers:
        part = made[(made["n"] == one.n) & (made["synthesizer"] == one.synthesizer)]
        assert one.distances[1].mean == pytest.approx(part["distance_2"].mean())
        assert one.reproduced.mean == pytest.approx((part["reproduced"] / part["n_uniques"]).mean())
    # A run that goes on adds to it, and makes none again.
    more = asked.model_copy(update={"synthesizers": ("independence",), "models": ("hdp",)})
    again = run(more, folder, resume=True)
    before = {(one.n, one.synthesizer): one for one in summary.synthesizers}
    for one in again.synthesizers:
        assert one == before[one.n, one.synthesizer]
    assert {one.model for one in again.results} == {"hdp"}
    rendered = render(again, table(folder).assign(seconds=0.0).to_dict("records"))
    # A legend and a point, for a page and for a phone, of two sizes.
    assert rendered.count("dot dot-1") == 8
    for label in ("independence", "second-sample"):
        assert f"<code>{label}</code>" in rendered
    assert "τ1" not in render(summary, [])


def test_files_of_other_generators(tmp_path: Path) -> None:
    source = people(tmp_path / "people.csv")
    asked = spec(source, n=[30], synthesizers=["independence"], models=[])
    run(asked, tmp_path / "first")
    everybody, rows = pd.read_csv(source), pq.read_table(tmp_path / "first" / ROWS).to_pandas()
    copies = everybody.iloc[rows["row"] - 1].assign(
        synthesizer="copy", n=rows["n"].to_numpy(), repeat=rows["repeat"].to_numpy()
    )
    copies.to_parquet(tmp_path / "copies.parquet")
    more = asked.model_copy(update={"synthetic": tmp_path / "copies.parquet"})
    summary = run(more, tmp_path / "second")
    one = summary.synthesizers[-1]
    assert (one.synthesizer, one.n_samples, one.seconds) == ("copy", 2, None)
    assert one.reproduced.mean == one.reproduced_alone.mean == 1.0
    assert summary.n_fits == 4
    lacking = copies.drop(columns="PLACE")
    lacking.to_parquet(tmp_path / "copies.parquet")
    with pytest.raises(DataError, match="PLACE"):
        run(more, tmp_path / "third")
    copies.assign(AGE=99).to_parquet(tmp_path / "copies.parquet")
    with pytest.raises(DataError, match="the population does not have"):
        run(more, tmp_path / "third")
    copies.assign(PLACE=np.where(copies["AGE"] > 25, copies["PLACE"], np.nan)).to_parquet(
        tmp_path / "copies.parquet"
    )
    with pytest.raises(DataError, match="no value of a key"):
        run(more, tmp_path / "third")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"synthesizers": ["carrt"]}, "Did you mean 'cart'"),
        ({"synthesizers": ["cart"], "design": "stratified", "strata": "REGION"}, "equal chances"),
        ({"synthesizers": ["cart"], "levels": "sample"}, "levels"),
    ],
)
def test_what_generators_cannot_do_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        spec(tmp_path / "people.csv", **changes)
