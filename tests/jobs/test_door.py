"""One door: Python, command line and studies find the same draws, for every model."""

from __future__ import annotations

import copy
import inspect
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import stub
import unikat
from unikat.cli.main import cli, main
from unikat.datasets import simulate_town
from unikat.errors import OutputError, SpecError
from unikat.inference.plan import StopRule
from unikat.jobs.assess import plan_of
from unikat.models.auto import Auto
from unikat.models.catalogue import MODELS
from unikat.models.named import build_model
from unikat.report.folders import assessment as results
from unikat.report.text import comparison as words_of_comparison
from unikat.report.text import track_record
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import specify
from unikat.spec.kinds import KINDS
from unikat.spec.option import options_of
from unikat.studies.designs import Population, chain_seed, draw_sample

KEYS = ["age", "sex", "work", "place"]
SHORT: dict[str, Any] = {"chains": 2, "max_sweeps": 48, "workers": 1}
THIN = {"sampling.thin": 2}
VARIANTS = {
    **{name: name for name in MODELS},
    "bootstrap": "loglinear:interval=bootstrap",
    "auto": "auto:candidates=latent-class,elamir-skinner:evidence_seconds=0.5",
}
SCALARS = ("tau1", "tau2", "tau1_expected", "tau2_expected")


def people(n: int = 240) -> pd.DataFrame:
    """Every level is frequent, so that a sample has all levels of the population."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 6, n),
            "sex": rng.integers(0, 2, n),
            "work": np.minimum(rng.geometric(0.4, n) - 1, 4),
            "place": rng.integers(0, 4, n),
        },
        index=[f"p{i}" for i in range(n)],
    )


def option(label: str) -> Any:
    """A model with its options: `auto` has a list among them."""
    if not label.startswith("auto"):
        return label
    return Auto(candidates=("latent-class", "elamir-skinner"), evidence_seconds=0.5)


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, id=name, marks=[pytest.mark.slow] if name == "auto" else [])
        for name, label in VARIANTS.items()
    ],
)
def test_every_way_in_finds_the_same_draws(label: str, tmp_path: Path) -> None:
    population = people(1200)
    everybody = Population.of(
        unikat.read(population, KEYS, unikat.Design(population_size=1200)).tabulate()
    )
    drawn = draw_sample(everybody, 200, 1, seed=5)
    assert drawn is not None
    codes = drawn.table.cells[drawn.table.record_cell]
    sample = pd.DataFrame(
        {
            key.name: [key.levels[code] for code in codes[:, j]]
            for j, key in enumerate(drawn.table.keys)
        }
    )
    assert all(sample[name].nunique() == population[name].nunique() for name in KEYS)
    seed = chain_seed(5, 200, 1)

    door = unikat.assess(
        sample, keys=KEYS, population_size=1200, model=option(label), seed=seed, set=THIN, **SHORT
    )
    sample.to_csv(tmp_path / "sample.csv", index=False)
    command = ["assess", str(tmp_path / "sample.csv"), "--keys", ",".join(KEYS), "--seed",
               str(seed), "--population-size", "1,200", "--out", str(tmp_path / "out")]  # fmt: skip
    for name, value in SHORT.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    command += ["--set", "sampling.thin=2"]
    if label.startswith("auto"):
        command += ["--set", 'candidates=["latent-class", "elamir-skinner"]',
                    "--set", "evidence_seconds=0.5"]  # fmt: skip
    else:
        command += ["--model", label]
    assert main([*command, "--quiet", "--allow-unconverged"]) == 0
    shell = unikat.load(tmp_path / "out")
    asked = door.spec.model
    steps = unikat.fit(
        build_model(asked.name, asked.options),
        drawn.table,
        seed=seed,
        plan=plan_of(door.spec.sampling),
    )
    study = unikat.evaluate(
        population, keys=KEYS, n=200, repeats=1, seed=5, models=[option(label)], set=THIN, **SHORT
    )

    assert door.draws is not None
    assert shell.draws is not None
    assert steps.draws is not None
    for name in SCALARS:
        here = door.draws["posterior"][name].to_numpy()
        np.testing.assert_array_equal(here, shell.draws["posterior"][name].to_numpy())
        np.testing.assert_array_equal(here, steps.draws.retained(name))
        (row,) = study.table.to_dict("records")
        assert pd.isna(row["error"])
        for part in ("mean", "lower", "upper"):
            assert row[f"{name}_{part}"] == getattr(getattr(door, name), part)
    same = [name for name in door.records.columns if name != "row"]
    pd.testing.assert_frame_equal(door.records[same], shell.records[same])


def test_compare_finds_the_draws_of_assess() -> None:
    sample, models = people(), ["latent-class", "loglinear:interval=bootstrap"]
    common: dict[str, Any] = {"keys": KEYS, "population_size": 3000, **SHORT}
    compared = unikat.compare(sample, models=models, **common)
    for row in compared.table.to_dict("records"):
        alone = unikat.assess(sample, model=row["model"], **common)
        assert row["tau1_mean"] == alone.tau1.mean
        assert (row["tau2_lower"], row["tau2_upper"]) == alone.tau2.interval


# --- options -----------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_command_line_and_python_have_the_same_options(name: str) -> None:
    defined = {one.name for one in options_of(KINDS[name].specification)}
    command = cli.commands[name]
    context = click.Context(command, **cli.context_settings)
    of_command = {parameter.name for parameter in command.get_params(context)}
    # In Python a dry run is a function of its own: `unikat.dry_run(unikat.assess, ...)`.
    only_there = {
        *("source", "allow_unconverged", "as_json", "quiet"),
        *("out", "resume", "overwrite", "dry_run", "help"),
    }
    assert of_command - only_there == defined
    function = getattr(unikat, name)
    parameters = inspect.signature(function).parameters
    assert set(parameters) - {"resume"} == defined | {"data", "out", "overwrite", "progress"}
    for one in defined:
        assert f"\n{one}\n    " in function.__doc__


def test_type_checkers_see_the_same() -> None:
    assert stub.STUB.read_text(encoding="utf-8") == stub.text(), "run  python tests/stub.py"


def test_defaults_are_those_of_the_specification() -> None:
    parameters = inspect.signature(unikat.assess).parameters
    assert parameters["chains"].default == 4
    assert parameters["level"].default == 0.95
    shown = {one.name: one.option.default for one in options_of(AssessmentSpec)}
    assert shown["max_sweeps"] == str(StopRule().max_sweeps)
    assert shown["model"] == AssessmentSpec().model.name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chain": 2}, ["no option 'chain'", "'chains'"]),
        ({"random_state": 2}, ["write seed="]),
        ({"n_jobs": 2}, ["write workers="]),
        ({"verbose": 1}, ["write progress="]),
        ({"n_iter": 9}, ["write max_sweeps="]),
        ({"chains": 0, "level": 2}, ["in 2 places", "chains is 0", "level is 2"]),
        ({"population_size": "36.970"}, ["population_size", "thousands"]),
        ({"population_size": float("nan")}, ["population_size"]),
        ({"model": 3}, ["neither a name", "int"]),
        ({"model": ["hdp", "gom"]}, ["unikat.compare"]),
        ({"threshold": 5}, ["'tau1 <= 5'"]),
        ({"q": 5}, ["no option 'q'", "population_size"]),
        ({"zeros_conflict": "drop"}, ["no rules"]),
        ({"resume": True}, ["resume and overwrite need the folder"]),
        ({"weights": [1.0, 2.0]}, ["weights has 2 values", "240"]),
        ({"weights": pd.Series(1.0, index=range(240))}, ["another index", "to_numpy()"]),
        ({"weights": people()["age"][:200]}, ["(40 of 240 rows"]),
    ],
)
def test_wrong_options_are_one_message(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.assess(people(), **{"keys": KEYS, "population_size": 3000, **options})
    for word in words:
        assert word in str(caught.value)


def test_options_mean_the_same_in_every_form(tmp_path: Path) -> None:
    rules = tmp_path / "zeros.toml"
    rules.write_text("rules = ['age == 0 and work == 1']\n")
    (tmp_path / "sizes.csv").write_text("place,units\n0,100\n1,200\n")
    (tmp_path / "book.json").write_text('{"age": {"levels": [0, 1]}}')
    forms: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"keys": "age, sex"}, {"keys": ["age", "sex"]}),
        ({"population_size": "1,200"}, {"population_size": 1200}),
        ({"model": "gom:components=3"}, {"model": "gom", "set": {"components": 3}}),
        ({"set": ["alpha=1.5"], "model": "hdp"}, {"set": {"alpha": 1.5}, "model": "hdp"}),
        ({"missing_values": "8,9"}, {"missing_values": ["8", "9"]}),
        ({"missing_values": "sex: 9"}, {"missing_values": {"sex": ["9"]}}),
        ({"keys": "age:cut(18,65),sex", "household": "hid", "missing_values": "8; sex: 9,a:b"},
         {"keys": ["age:cut(18,65)", "sex"], "household": ["hid"],
          "missing_values": {"age": ["8"], "sex": ["8", "9", "a:b"], "hid": ["8"]}}),
        ({"sensitive": "a,b"}, {"sensitive": ["a", "b"]}),
        ({"level": "90%"}, {"level": 0.9}),
        ({"max_sweeps": "1e3"}, {"max_sweeps": 1000}),
        (
            {"strata": "place", "stratum_sizes": tmp_path / "sizes.csv"},
            {"strata": "place", "stratum_sizes": {"0": 100, "1": 200}},
        ),
        ({"zeros": rules}, {"zeros": ["age == 0 and work == 1"]}),
        ({"zeros": str(rules), "zeros_conflict": "drop"},
         {"zeros": {"rules": ["age == 0 and work == 1"], "on_conflict": "drop"}}),
    ]  # fmt: skip
    for one, other in forms:
        specs = [specify(AssessmentSpec, people(), form)[0] for form in (one, other)]
        # The rules know the file in which they stand; that is no part of what is asked.
        assert specs[0].model_dump() == specs[1].model_dump()


def test_set_reaches_every_value_by_its_table() -> None:
    settings = {"sampling.thin": 3, "design.inclusion": "p", "top_shape": 0.5}
    texts = [f"{name}={value}" for name, value in settings.items()]
    for given in (settings, texts):
        spec = specify(AssessmentSpec, people(), {"model": "hdp", "set": given})[0]
        assert (spec.sampling.thin, spec.design.inclusion) == (3, "p")
        assert spec.model.options == {"top_shape": 0.5}
    protection = KINDS["protect"].specification
    asked = {"keys": KEYS, "target": "k >= 2", "swap": "age", "set": {"swap_match": "sex"}}
    assert specify(protection, people(), asked)[0].swap_match == ("sex",)  # type: ignore[attr-defined]
    # Of another kind of run there is no model to which it could belong.
    for name, kind in (("smpling.thin", "assess"), ("no_such", "compare")):
        with pytest.raises(SpecError, match=name.split(".")[0]):
            specify(KINDS[kind].specification, people(), {"set": {name: 3}})


def test_what_is_set_is_the_users_own(tmp_path: Path) -> None:
    """A file may not name a cluster; the command line may, by its flag or by --set."""
    file = tmp_path / "assessment.toml"
    file.write_text('keys = ["age", "sex"]\npopulation_size = 3000\n')
    found = specify(AssessmentSpec, file, {"set": ["sampling.executor=dask:1.2.3.4:5"]})[0]
    assert found.sampling.executor == "dask:1.2.3.4:5"
    file.write_text(file.read_text() + '[sampling]\nexecutor = "dask:1.2.3.4:5"\n')
    with pytest.raises(SpecError, match="only you may name"):
        specify(AssessmentSpec, file, {})


@pytest.mark.parametrize(
    ("command", "flag", "instead"),
    [
        ("assess", "--thin", "--set sampling.thin="),
        ("compare", "--inclusion", "--set design.inclusion="),
        ("synthesize", "--head-keys", "--set households.head_keys="),
        ("protect", "--swap-match", "--set swap_match="),
        ("assess", "--random", "--set random="),
        ("protect", "--apply", "unikat apply"),
        ("protect", "--verify", "unikat verify"),
    ],
)
def test_an_option_that_went_names_what_is_written_instead(
    command: str, flag: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "people.csv", flag, "2"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert flag in said
    assert instead in said


def test_python_is_told_so_too() -> None:
    with pytest.raises(SpecError, match=r"set=\{'sampling.thin': VALUE\}"):
        unikat.assess(people(), keys=KEYS, population_size=3000, thin=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", KINDS)
def test_help_explains_what_most_runs_need(name: str) -> None:
    short = CliRunner().invoke(cli, [name, "--help"], prog_name="unikat").output
    whole = CliRunner().invoke(cli, [name, "--help", "all"]).output
    assert len(short.splitlines()) <= 60
    for one in options_of(KINDS[name].specification):
        assert one.flag in short
        assert one.flag in whole


# --- the answer --------------------------------------------------------------


@pytest.fixture(scope="module")
def answer() -> unikat.Assessment:
    return unikat.assess(people(), keys=KEYS, population_size=3000, model="latent-class", **SHORT)


def test_the_answer_is_short(answer: unikat.Assessment) -> None:
    lines = repr(answer).splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) < 120
    assert "240 records, 4 keys" in lines[0]
    assert "population 3,000" in lines[0]
    assert f"({answer.tau1.lower:.0f} to {answer.tau1.upper:.0f})" in lines[1]
    for value in (answer.estimate, answer.estimate.table, answer.estimate.draws):  # type: ignore[union-attr]
        assert len(repr(value)) < 1500


def test_a_notebook_gets_headline_interval_and_figure(answer: unikat.Assessment) -> None:
    shown = answer._repr_html_()
    assert f"between {answer.tau1.lower:.0f} and {answer.tau1.upper:.0f}" in shown
    assert "<svg" in shown
    assert "<script" not in shown
    assert "http://" not in shown.replace("http://www.w3.org/2000/svg", "")
    for name in ("tau1", "tau2", "keys", "records", "chains"):
        figure = getattr(answer.plot, name)()
        assert figure._repr_html_().count("<svg") >= 1


@pytest.fixture(scope="module")
def answers(answer: unikat.Assessment) -> dict[str, Any]:
    frame, common = people(), {"population_size": 3000, "model": "latent-class", **SHORT}
    made = unikat.synthesize(frame, KEYS, datasets=2, **SHORT)
    protected = unikat.protect(frame, KEYS, target="tau1 <= 5", **common)
    limits = {"scenario": [{"name": "<b>near</b>", "keys": KEYS[:2], "target": "k >= 3"}]}
    return {
        "assess": answer,
        "compare": unikat.compare(
            frame, KEYS, population_size=3000, models=["latent-class", "loglinear"], **SHORT
        ),
        "evaluate": unikat.evaluate(
            people(900), KEYS, n=200, repeats=2, models="loglinear", **SHORT
        ),
        "protect": protected,
        "synthesize": made,
        "attack": unikat.attack(frame, made, attacks=50),
        "verify": unikat.verify(frame, protected.frame, KEYS, **common),
        "check": unikat.check(frame, {"never": ["name"], **limits}),
    }


def test_every_answer_shows_itself(answers: dict[str, Any]) -> None:
    assert set(answers) == set(KINDS)
    for found in answers.values():
        short, shown = found.summary(), found._repr_html_()
        assert isinstance(short, pd.DataFrame)
        assert 1 <= len(short) <= 20
        assert len(short.index.names[0]) > 1
        assert "unikat-card" in shown
        assert "<table" in shown
        assert "<b>" not in shown
        assert not re.search(r"<script|<link|@import|url\(|src=", shown)
        assert 1 <= len(repr(found).splitlines()) < 40
    assert answers["assess"].summary().loc["tau1", "median"] == answers["assess"].tau1.median
    rows = {name: len(found.to_frame()) for name, found in answers.items()}
    assert (rows["assess"], rows["protect"], rows["synthesize"]) == (240, 240, 480)
    assert answers["synthesize"].to_frame()["dataset"].tolist() == [1] * 240 + [2] * 240
    table = pa.Table.from_pandas(people(), preserve_index=False)
    long = unikat.synthesize(table, KEYS, datasets=2, **SHORT).to_frame()
    assert long["dataset"].to_pylist() == [1] * 240 + [2] * 240


def test_a_name_that_an_answer_has_not_leads_on(answers: dict[str, Any]) -> None:
    found = answers["assess"]
    for one, name, lead in (
        (found, "rhat", ".tau1.rhat"),
        (found, "r_hat", ".tau1.rhat"),
        (found, "to_dataframe", ".to_frame()"),
        (found, "recordz", "'records'"),
        (found.tau1, "ci", ".interval"),
        (answers["compare"], "rhat", ".summary()"),
        (answers["compare"], "plots", "'plot'"),
        (answers["synthesize"], "datasets", ".frames"),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(one, name)
        assert f"has no {name!r}." in str(caught.value)
        assert lead in str(caught.value)
        assert not hasattr(one, "_repr_png_")
        assert copy.copy(one).__dict__.keys() == one.__dict__.keys()
    assert found.plot().svg == found.plot.tau1().svg
    # What is lacking is said of a property that fails, not of the property.
    broken = object.__new__(type(found))
    with pytest.raises(AttributeError, match="has no 'summary'"):
        broken.tau1  # noqa: B018


def test_figures_of_every_page_come_with_their_numbers(answers: dict[str, Any]) -> None:
    altair = pytest.importorskip("altair")
    for kind, found in answers.items():
        page, plot = found.to_html(), found.plot
        names = dir(plot) if kind != "assess" else ["tau1", "tau2", "keys", "records", "chains"]
        assert (names == []) == (kind in ("verify", "check"))
        # All that the page draws, once for a page and once for a phone.
        drawn = len(re.findall('<svg class="unikat unikat-wide"', page))
        assert kind == "assess" or drawn == len(names), kind
        for name in names:
            assert f".plot.{name}()" in repr(plot)
            figure = getattr(plot, name)()
            assert figure.svg.partition("<style>")[0] in page or kind == "assess"
            marks = re.findall(
                'class="(?:bar|bar-mid|doubt|dot|covered|missed|chain|cell-0|cell-few)[" ]',
                figure.svg,
            )
            assert bool(figure.data) == bool(marks), name
            if figure.data:
                json.dumps(figure.vega(), allow_nan=False)
                assert isinstance(figure.to_altair(), altair.LayerChart)
                assert len(figure.frame) == len(figure.data)
    with pytest.raises(AttributeError, match="There is no figure 'tau9' here"):
        answers["compare"].plot.tau9  # noqa: B018
    with pytest.raises(SpecError, match="no figure"):
        answers["check"].plot()


def test_numbers_of_figures_are_those_of_the_answer(answers: dict[str, Any]) -> None:
    bars = answers["assess"].plot.tau1().frame
    assert bars["y"].sum() == pytest.approx(1.0)
    middle = (bars["x_lower"] + bars["x_upper"]) / 2
    inside = middle.between(*answers["assess"].tau1.interval)
    assert bars["inside_interval"].tolist() == inside.tolist()
    shown = answers["compare"].plot.tau1().frame
    models = {one.model: one.tau1 for one in answers["compare"].summary.models}
    for _, row in shown.iterrows():
        tau1 = models[row["name"].partition(" (")[0]]
        assert (row["x_lower"], row["x"], row["x_upper"]) == (tau1.lower, tau1.median, tau1.upper)
    rates = answers["attack"].plot.rates().frame
    table = answers["attack"].summary.attacks
    assert rates["x"].tolist()[::2] == [100.0 * one.compared.value for one in table if one.n]


def test_without_altair_a_message_says_what_else_there_is(
    answer: unikat.Assessment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(SpecError, match=r"pip install altair.*\.vega\(\)"):
        answer.plot.tau1().to_altair()


def test_what_is_no_part_of_an_answer_leads_on(answers: dict[str, Any]) -> None:
    found = answers["assess"]
    for wrong, kind, lead in (
        (lambda: found["model"], AttributeError, ".result.fitted_model"),
        (lambda: found["tau1"], TypeError, "write .tau1."),
        (lambda: answers["synthesize"][0], TypeError, ".frames"),
        (lambda: float(found.tau1), TypeError, ".mean or .median"),
        (lambda: found.what_if(age="width(2)"), unikat.SpecError, ".what_if({'age': 'width(2)'})"),
        (lambda: found.what_if(), unikat.SpecError, ".what_if({"),
    ):
        with pytest.raises(kind) as caught:
            wrong()
        assert lead in str(caught.value)


def test_intervals_that_a_page_does_not_show_are_not_in_the_summary(
    answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = answers["compare"].summary
    for unreliable in (False, True):
        record = SimpleNamespace(unreliable=unreliable, model="m", trials=None)
        with monkeypatch.context() as patch:
            patch.setattr(track_record, "of_compared", lambda *_, found=record: found)
            patch.setattr(words_of_comparison, "unreliable", lambda _: "")
            shown = words_of_comparison.explained(facts)()
        assert shown["tau1"].notna().all()
        assert shown[["tau1_lower", "tau2_upper"]].isna().all(axis=None) == unreliable


def test_an_attack_takes_a_synthesis_of_households() -> None:
    town = simulate_town(150, households=True)
    made = unikat.synthesize(
        town, ["relation", "age", "sex"], model="households", household="household",
        head="relation == 'head'", datasets=2, **SHORT,
    )  # fmt: skip
    found = unikat.attack(town, made, attacks=20)
    assert found.spec.household == ("household",)
    assert "replicated uniques of households" in set(found.table["attack"])
    known = unikat.attack(town, made, attacks=20, model="households", **SHORT)
    assert known.spec.households.head == "relation == 'head'"


class InferenceData:
    """In the place of ArviZ 0.2x, which cannot be installed beside ArviZ 1."""

    def __init__(self, **groups: Any) -> None:
        self.__dict__.update(groups)


@pytest.mark.parametrize(("version", "old"), [("0.23.4", True), ("1.3.0", False), (None, False)])
def test_draws_are_of_the_arviz_that_is_there(
    version: str | None, old: bool, answer: unikat.Assessment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def versioned(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(metadata, "version", versioned)
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(InferenceData=InferenceData))
    draws = answer.to_arviz()
    assert isinstance(draws, InferenceData) == old
    assert answer.draws is not None
    np.testing.assert_array_equal(draws.posterior["tau1"], answer.draws["posterior"]["tau1"])


def kinds() -> dict[str, Any]:
    frame = people().reset_index(drop=True)
    return {
        "polars": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "pyarrow": pa.Table.from_pandas(frame, preserve_index=False),
        "duckdb": duckdb.from_df(frame),
    }


@pytest.mark.parametrize("kind", ["polars", "lazy", "pyarrow", "duckdb"])
def test_records_come_as_what_was_given(kind: str, answer: unikat.Assessment) -> None:
    given = kinds()[kind]
    found = unikat.assess(
        given, keys=KEYS, population_size=3000, model="latent-class", **SHORT
    ).records
    assert type(found) is type(given)
    if kind == "lazy":
        found = found.collect()
    values = found.fetchnumpy()["r2"] if kind == "duckdb" else np.asarray(found["r2"])
    np.testing.assert_array_equal(values, answer.records["r2"])


def test_records_keep_the_index(answer: unikat.Assessment, tmp_path: Path) -> None:
    assert list(answer.records.index) == list(people().index)
    assert people().join(answer.records).shape == (240, 4 + len(answer.records.columns))
    people().to_csv(tmp_path / "people.csv", index=False)
    of_file = unikat.assess(
        tmp_path / "people.csv", keys=KEYS, population_size=3000, model="latent-class", **SHORT
    )
    assert isinstance(of_file.records, pd.DataFrame)
    np.testing.assert_array_equal(of_file.records["r1"], answer.records["r1"])


def test_saved_is_loaded(answer: unikat.Assessment, tmp_path: Path) -> None:
    folder = answer.save(tmp_path / "saved")
    files = {*results.FILES, ".unikat"} - {
        "registry.parquet",
        "households.parquet",
        "states.checkpoint",
    }
    assert {path.name for path in folder.iterdir()} == files
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    back = unikat.load(folder)
    assert back.result == answer.result
    assert repr(back) == repr(answer)
    pd.testing.assert_frame_equal(
        back.records, answer.records.reset_index(drop=True), check_categorical=False
    )
    assert back.draws is not None
    assert answer.draws is not None
    assert back.draws["posterior"].equals(answer.draws["posterior"])
    assert back.to_html() == answer.to_html()
    with pytest.raises(OutputError, match="already holds an assessment"):
        answer.save(folder)
    answer.save(folder, overwrite=True)
    copy = back.save(tmp_path / "copy")
    assert unikat.load(copy).result == answer.result
    assert pq.read_table(copy / "records.parquet").num_rows == 240


def test_nothing_is_written_unless_asked(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    unikat.assess(people(), keys=KEYS, population_size=3000, model="loglinear", **SHORT)
    unikat.compare(people(), keys=KEYS, population_size=3000, models="loglinear", **SHORT)
    unikat.evaluate(people(), keys=KEYS, n=50, repeats=1, models="loglinear", **SHORT)
    assert list(tmp_path.iterdir()) == []


def test_a_comparison_and_an_evaluation_are_saved(tmp_path: Path) -> None:
    compared = unikat.compare(
        people(), keys=KEYS, population_size=3000, models="loglinear,latent-class", **SHORT
    )
    assert repr(compared).startswith("Comparison of loglinear, latent-class")
    assert "<table" in compared._repr_html_()
    folder = compared.save(tmp_path / "compared")
    assert (folder / "comparison.html").read_text() == compared.to_html()
    evaluated = unikat.evaluate(people(), keys=KEYS, n=50, repeats=2, models="loglinear", **SHORT)
    assert "loglinear, n 50: bias of τ1" in repr(evaluated)
    folder = evaluated.save(tmp_path / "evaluated")
    assert pq.read_table(folder / "evaluation.parquet").num_rows == 2
    with pytest.raises(OutputError, match="already holds"):
        evaluated.save(folder)


# --- the first answer --------------------------------------------------------


def interrupt_at(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    """Interrupt the nth call of `sample` in a comparison; 0: the first sweeps before it."""
    from unikat.studies import compare, first_answer

    real, calls = compare.sample, 0

    def sample(*args: Any, **how: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise KeyboardInterrupt
        return real(*args, **how)

    if nth == 0:
        calls = -1
        monkeypatch.setattr(first_answer, "sample", sample)
    monkeypatch.setattr(compare, "sample", sample)


AUTO: dict[str, Any] = {
    "keys": KEYS,
    "population_size": 3000,
    "set": {"candidates": ["latent-class", "elamir-skinner"], "evidence_seconds": 0.5, **THIN},
    **SHORT,
}


@pytest.mark.slow
def test_the_preliminary_answer_is_kept_on_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2)  # the fit to the records kept, of the first candidate
        first = unikat.assess(people(), out=tmp_path / "out", **AUTO)
    assert first.result.stage == "preliminary"
    assert "PRELIMINARY" in repr(first)
    assert first.warnings[0].startswith("This is a preliminary answer")
    assert not (tmp_path / "out" / "manifest.json").exists()
    written = (tmp_path / "out" / "result.json").read_text()
    assert '"stage": "preliminary"' in written
    with pytest.raises(OutputError, match="does not hold a complete run"):
        unikat.load(tmp_path / "out")
    with pytest.raises(OutputError, match="unfinished assessment"):
        unikat.assess(people(), out=tmp_path / "out", **AUTO)
    final = unikat.assess(people(), out=tmp_path / "out", resume=True, **AUTO)
    assert final.result.stage == "final"
    assert unikat.load(tmp_path / "out").result.stage == "final"
    alone = unikat.assess(people(), **AUTO)
    assert alone.tau1 == final.tau1


def test_ctrl_c_before_any_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        unikat.assess(people(), out=tmp_path / "out", **AUTO)
    assert not (tmp_path / "out").exists()


def test_complete_results_stay_until_the_new_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    old = unikat.assess(people(), out=out, keys=KEYS, population_size=3000, model="loglinear")
    interrupt_at(monkeypatch, 2)
    unikat.assess(people(), out=out, overwrite=True, **AUTO)
    assert unikat.load(out).result == old.result


# --- what a reader found -----------------------------------------------------


def test_records_are_those_of_the_frame_that_was_passed() -> None:
    frame = people()
    result = unikat.assess(
        frame, keys=KEYS, population_size=3000, model="loglinear", chains=2, max_sweeps=48
    )
    # What becomes of the frame later is no matter.
    frame.index = frame.index[::-1]
    del frame["age"]
    assert list(result.records.index) == list(people().index)
    assert len(result.records) == 240


def test_a_preliminary_answer_is_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_at(monkeypatch, 2)
    first = unikat.assess(people(), **(AUTO | {"max_sweeps": 20_000}))
    assert first.result.stage == "preliminary"
    assert not first.converged
    assert "Preliminary" in first._repr_html_()


def test_an_interrupted_overwrite_shows_its_own_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    out = tmp_path / "out"
    run = ["assess", str(tmp_path / "people.csv"), "--keys", ",".join(KEYS), "--population-size",
           "3000", "--chains", "2", "--max-sweeps", "48", "--workers", "1", "--out", str(out),
           "--quiet", "--json"]  # fmt: skip
    assert main([*run, "--model", "loglinear", "--allow-unconverged"]) == 0
    capsys.readouterr()
    interrupt_at(monkeypatch, 2)
    asked = ["--set", 'candidates=["latent-class"]', "--set", "evidence_seconds=0.5"]
    assert main([*run, *asked, "--overwrite"]) == 2
    told = capsys.readouterr()
    assert '"stage": "preliminary"' in told.out
    assert "preliminary" in told.err
    assert unikat.load(out).result.model == "loglinear"


def test_the_order_of_options_is_no_matter() -> None:
    one, other = (
        specify(AssessmentSpec, people(), dict(options))[0].model.options
        for options in (
            [("set", {"components": 5}), ("model", "gom:components=30")],
            [("model", "gom:components=30"), ("set", {"components": 5})],
        )
    )
    assert one == other == {"components": 5}
    of_model = specify(AssessmentSpec, people(), {"set": {"components": 5}, "model": unikat.GoM()})
    assert of_model[0].model.options == {"components": 5}


def test_an_assessment_is_repeated_with_another_model(
    answer: unikat.Assessment, tmp_path: Path
) -> None:
    """Its specification holds all options of the model before."""
    people().to_csv(tmp_path / "people.csv", index=False)
    options: dict[str, Any] = {"keys": KEYS, "population_size": 3000, "out": tmp_path / "one"}
    unikat.assess(tmp_path / "people.csv", model="loglinear", **options)
    again = unikat.assess(
        tmp_path / "one" / "assessment.toml", model="latent-class", trust_spec=True, **SHORT
    )
    assert again.result.model == "latent-class"
    # A copy in another folder still knows where the data are.
    copy = unikat.load(tmp_path / "one").save(tmp_path / "deep" / "er" / "copy")
    back = unikat.load(copy)
    assert back.spec.data.path == tmp_path / "people.csv"
    assert unikat.assess(copy / "assessment.toml", trust_spec=True).tau1 == back.tau1


def test_what_was_loaded_is_not_mixed_with_what_came_after(tmp_path: Path) -> None:
    options: dict[str, Any] = {"keys": KEYS, "population_size": 3000, "model": "loglinear"}
    unikat.assess(people(), out=tmp_path / "out", **options)
    first = unikat.load(tmp_path / "out")
    unikat.assess(people(100), out=tmp_path / "out", overwrite=True, **options)
    with pytest.raises(OutputError, match="changed or replaced"):
        _ = first.records
    with pytest.raises(OutputError, match="changed or replaced"):
        first.save(tmp_path / "copy")
    assert not (tmp_path / "copy" / "result.json").exists()


def test_an_interrupt_while_writing_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"keys": KEYS, "population_size": 3000, "model": "latent-class"}
    with monkeypatch.context() as patch:
        patch.setattr(results, "write", interrupted)
        with pytest.raises(KeyboardInterrupt, match="continue with --resume"):
            unikat.assess(people(), out=tmp_path / "out", **options, **SHORT)
    resumed = unikat.assess(people(), out=tmp_path / "out", resume=True, **options, **SHORT)
    assert resumed.tau1 == unikat.assess(people(), **options, **SHORT).tau1


def test_values_of_numpy_and_pandas_are_values() -> None:
    frame = people()
    forms: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"strata": "place", "stratum_sizes": {0: 100, 1: 200}},
         {"strata": "place", "stratum_sizes": {"0": 100, "1": 200}}),
        ({"strata": "place", "stratum_sizes": pd.Series({0: 100, 1: 200})},
         {"strata": "place", "stratum_sizes": {"0": 100, "1": 200}}),
        ({"missing_values": 9}, {"missing_values": [9]}),
        ({"model": "gom", "set": {"components": np.int64(3)}}, {"model": "gom:components=3"}),
        ({"keys": pd.Index(["age", "sex"])}, {"keys": ["age", "sex"]}),
        ({"codebook": {"age": {"levels": frame["age"].unique()}}},
         {"codebook": {"age": {"levels": frame["age"].unique().tolist()}}}),
    ]  # fmt: skip
    for one, other in forms:
        specs = [specify(AssessmentSpec, frame, form)[0] for form in (one, other)]
        assert specs[0].model_dump() == specs[1].model_dump()
    labels = unikat.compare(
        frame, keys=KEYS, population_size=3000, models=[unikat.HDP(), unikat.Superpopulation1()],
        **SHORT,
    ).table["model"]  # fmt: skip
    assert list(labels) == ["hdp", "superpopulation-1"]


def test_data_and_keys_need_no_names() -> None:
    common: dict[str, Any] = {"population_size": 3000, "model": "latent-class", **SHORT}
    found = unikat.assess(people(), KEYS, **common)
    assert found.tau1 == unikat.assess(data=people(), keys=KEYS, **common).tau1
    for wrong in ((people(), KEYS, 3000), ()):
        with pytest.raises(TypeError, match="assess"):
            unikat.assess(*wrong)
    with pytest.raises(TypeError, match="several values of 'keys'"):
        unikat.assess(people(), KEYS, keys=KEYS)  # type: ignore[misc]
    placed = {name: list(inspect.signature(getattr(unikat, name)).parameters)[:3] for name in KINDS}
    assert placed["attack"] == ["data", "synthetic", "keys"]
    assert placed["check"] == ["data", "policy", "keys"]
    assert placed["verify"] == ["data", "protected", "keys"]


def test_weights_may_be_the_values() -> None:
    frame = people().assign(weight=lambda one: 5.0 + one["age"])
    without, weight = frame[KEYS], frame["weight"]
    common: dict[str, Any] = {"keys": KEYS, "model": "latent-class", **SHORT}
    named = unikat.assess(frame, weights="weight", **common)
    forms = [
        (frame, weight),
        (without, weight.sample(frac=1, random_state=1)),
        (without, weight.to_numpy()),
        (without.reset_index(drop=True), weight.tolist()),
        (pl.from_pandas(without), pl.Series(weight.to_numpy())),
        (pa.Table.from_pandas(without, preserve_index=False), pa.array(weight.to_numpy())),
    ]
    for data, values in forms:
        found = unikat.assess(data, weights=values, **common)
        assert (found.tau1, found.tau2) == (named.tau1, named.tau2)
    assert "weights" not in without.columns
    with pytest.raises(SpecError, match="name of a column"):
        unikat.protect(frame, weights=weight, target="k >= 2", **common)


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a folder"])
@pytest.mark.parametrize("of_file", [False, True], ids=["frame", "file"])
def test_an_attack_takes_a_synthesis(kept: bool, of_file: bool, tmp_path: Path) -> None:
    data: Any = people().astype({"work": str})
    if of_file:
        data = tmp_path / "people.csv"
        people().to_csv(data, index=False)
    out = tmp_path / "made" if kept else None
    keys = ["age:width(2)", "sex", "work"]
    made = unikat.synthesize(data, keys, datasets=2, missing_values="work: 4", out=out, **SHORT)
    found = unikat.attack(data, made, attacks=50)
    files: Any = tmp_path / "made" if kept and of_file else list(made.frames)
    same = unikat.attack(data, files, keys, missing_values="work: 4", attacks=50)
    pd.testing.assert_frame_equal(found.table, same.table)
    assert found.summary.attacks[0].n > 0
    with pytest.raises(SpecError, match="an attack"):
        unikat.attack(data, found)


def test_a_registry_may_be_a_frame(tmp_path: Path) -> None:
    registry = people(80).reset_index(drop=True)
    options: dict[str, Any] = {"keys": KEYS, "population_size": 3000, "model": "latent-class"}
    found = unikat.assess(people(), registry=registry, **options, **SHORT)
    assert len(found.registry_records) == 80
    folder = found.save(tmp_path / "out")
    back = unikat.load(folder)
    pd.testing.assert_frame_equal(back.registry_records, found.registry_records)
    with pytest.raises(unikat.DataError, match=r"under \[registry\]|under \[data\]"):
        unikat.assess(folder / "assessment.toml", trust_spec=True)


def test_missing_keys_have_a_risk_of_what_is_published(tmp_path: Path) -> None:
    """From the answer, its records and the folder; none where nothing is missing."""
    frame = people().astype(float)
    frame.iloc[::8, 2] = np.nan
    found = unikat.assess(frame, keys=KEYS, population_size=1000, model="latent-class", **SHORT)
    assert found.tau1_shown is not None
    assert found.tau2_shown is not None
    assert found.tau1_shown.mean <= found.tau2_shown.mean
    records = found.records
    assert (records["r1_shown"] <= records["r1"]).sum() == records["r1"].notna().sum()
    loaded = unikat.load(found.save(tmp_path / "out"))
    assert (loaded.tau1_shown, loaded.tau2_shown) == (found.tau1_shown, found.tau2_shown)
    level = unikat.assess(
        frame, keys=KEYS, population_size=1000, model="latent-class", missing="level", **SHORT
    )
    assert level.tau1_shown is level.tau2_shown is None
    assert "r1_shown" not in level.records
