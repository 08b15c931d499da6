from __future__ import annotations

import io
import json
import os
import re
import stat
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from inference.checkpoint_files import joined, parts
from report.browser import assert_sound, layout
from report.pages.test_assessment import Page
from unikat.errors import DataError, OutputError, SpecError, UnikatError
from unikat.inference.progress import Watcher
from unikat.jobs import evaluate as jobs
from unikat.jobs.evaluate import read_population
from unikat.models.base import Stream
from unikat.models.loglinear.conditional import LogLinear
from unikat.report.facts.evaluation import SCHEMA
from unikat.report.pages.evaluation import render
from unikat.report.pages.template import CONTENT_POLICY
from unikat.report.text.evaluation import rows
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import EVALUATE
from unikat.spec.trust import SHOWN
from unikat.studies.designs import draw_sample
from unikat.studies.scores import Fit
from unikat.studies.store import StudyStore

PAGE, TABLE, SUMMARY, SPEC = EVALUATE.files
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
    assert {path.name for path in folder.iterdir()} == {*EVALUATE.files, "tasks", ".unikat"}
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

    population, _ = read_population(asked)
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
    population, _ = read_population(asked)
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
    population, _ = read_population(asked)
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
    population, _ = read_population(spec(data, design="pps", size="WORK <b>", zeros=zeros))
    np.testing.assert_array_equal(population.measure, left["WORK <b>"])
    asked = spec(data, design="stratified", strata="REGION", allocation="equal", zeros=zeros)
    population, _ = read_population(asked)
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
