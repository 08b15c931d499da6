"""The documentation names everything that a run writes, and every public name."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
import typing
from pathlib import Path

import pytest

import unikat
from unikat.data import formats, load_codebook
from unikat.models.auto import CANDIDATES, Auto
from unikat.models.base import Uncertainty
from unikat.report.facts import assessment as summary
from unikat.report.facts import comparison as comparison_summary
from unikat.report.facts import evaluation as evaluation_summary
from unikat.report.folders import assessment as results
from unikat.report.folders import comparison, evaluation
from unikat.report.folders.evaluation import _schema
from unikat.report.text import selection as choice
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.tables import ZerosSpec
from unikat.studies import auto
from unikat.studies.calibrate import EXPERIENCE
from unikat.zeros.rules import parse

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = (DOCS / "results.md").read_text(encoding="utf-8")
COMPARE = (DOCS / "compare.md").read_text(encoding="utf-8")
EVALUATE = (DOCS / "evaluate.md").read_text(encoding="utf-8")
ACCURACY = (DOCS / "accuracy.md").read_text(encoding="utf-8")
AUTO = (DOCS / "auto.md").read_text(encoding="utf-8")
LOG_LINEAR = (DOCS / "log-linear.md").read_text(encoding="utf-8")
FILES = (DOCS / "files.md").read_text(encoding="utf-8")
ZEROS = (DOCS / "zeros.md").read_text(encoding="utf-8")


def fields(kind: type) -> set[str]:
    """Return the names of a dataclass's fields, and of the dataclasses in it."""
    names = set()
    for name, hint in typing.get_type_hints(kind).items():
        names.add(name)
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                names |= fields(part)
    return names


def test_every_key_of_the_result_is_documented():
    names = fields(summary.Result)
    assert {"tau1_expected", "ess_tail", "rhat_target", "r1_upper", "data_fingerprint"} <= names
    assert sorted(name for name in names if f"`{name}`" not in RESULTS) == []


def test_everything_that_a_comparison_writes_is_documented():
    names = fields(comparison_summary.ComparisonSummary) | set(comparison.FILES)
    columns = comparison_columns()
    assert {"log_score_difference", "tau1_mean", "rhat"} <= set(columns)
    assert sorted(name for name in names if f"`{name}`" not in COMPARE) == []
    generic = re.compile(r"(tau[12](_expected)?|cells_seen_[1-5])_")
    assert [
        name for name in columns if not generic.match(name) and f"`{name}`" not in COMPARE
    ] == []


def comparison_columns() -> list[str]:
    """Columns of the table, as its writer names them."""
    source = Path(comparison.__file__).read_text(encoding="utf-8")
    row = source.partition("def _row(")[2].partition("def _parquet(")[0]
    found = re.findall(r'"([a-z0-9_]+)": ', row) + re.findall(r'row\["([a-z0-9_]+)"\]', row)
    return [*found, "tau1_mean"]


def test_the_example_of_a_comparison_runs(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", COMPARE, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "compare.md", "exec"), {"__name__": "docs"})
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["hdp", "latent-class"]


def test_every_file_is_documented():
    assert [name for name in results.FILES if f"`{name}`" not in RESULTS] == []


@pytest.mark.parametrize("name", sorted(set(unikat.__all__) - {"__version__"}))
def test_every_public_name_is_documented(name):
    reference = (DOCS / "reference.md").read_text(encoding="utf-8")
    assert re.search(rf"unikat\.{name}$", reference, flags=re.MULTILINE)
    assert getattr(unikat, name).__doc__


def test_everything_an_evaluation_writes_is_documented():
    names = fields(evaluation_summary.EvaluationSummary) - fields(summary.Provenance)
    assert {"coverage_lower", "false_negative", "n_incomplete", "max_seconds"} <= names
    columns = set(_schema().names)
    assert {"tau1_expected_lower", "n_drawn", "error"} <= columns
    words = names | columns | set(evaluation.FILES)
    assert sorted(name for name in words if f"`{name}`" not in EVALUATE) == []


@pytest.mark.usefixtures("no_network")
def test_the_example_of_an_evaluation_runs(capsys):
    examples = re.findall(r"^```python\n(.*?)^```", EVALUATE, flags=re.MULTILINE | re.DOTALL)
    exec(compile("\n".join(examples), "evaluate.md", "exec"), {"__name__": "evaluate"})
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"bias of τ1 -?[0-9.]+, contained in [0-2] of 2", first)
    assert re.fullmatch(r"equal strata: bias of τ1 -?[0-9.]+, 2 rows", second)


@pytest.mark.usefixtures("no_network")
def test_the_example_of_impossible_combinations_runs(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", ZEROS, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "zeros.md", "exec"), {"__name__": "zeros"})
    told = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"[0-9,]+ of [0-9,]+ combinations are impossible", told[0])
    assert re.fullmatch(r"[0-9]+ records left out, τ1 [0-9]+", told[2])
    written = AssessmentSpec.read(tmp_path / "with-zeros" / "assessment.toml").zeros
    assert written is not None
    assert [rule.name for rule in written.rules] == ["no married children", None]


@pytest.mark.usefixtures("no_network")
def test_the_examples_of_codebooks_run(tmp_path, capsys):
    text = (DOCS / "codebooks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    found: dict[str, list[str]] = {}
    for kind, block in blocks:
        found.setdefault(kind, []).append(block)
    books = {}
    for kind in ("toml", "json"):
        path = tmp_path / f"codebook.{kind}"
        path.write_text(found[kind][0], encoding="utf-8")
        books[kind] = load_codebook(path)
    assert books["toml"] == books["json"]
    assert list(books["toml"]) == ["sex", "marital", "education"]
    assert books["toml"]["marital"].labels["3"] == "widowed"
    path.write_text(found["json"][1], encoding="utf-8")
    assert list(load_codebook(path)) == ["marital"]
    (example,) = found["python"]
    exec(compile(example, "codebooks.md", "exec"), {"__name__": "codebooks"})
    assert [capsys.readouterr().out] == found["text"]


def test_the_file_of_rules_in_the_guide_is_one(tmp_path):
    (example,) = re.findall(r"^```toml\n(.*?)^```", ZEROS, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "zeros.toml").write_text(example, encoding="utf-8")
    rules = ZerosSpec.read(tmp_path / "zeros.toml").rules
    assert [rule.name for rule in rules] == [None, "no work before 16"]
    for rule in rules:
        parse(rule.rule)


@pytest.mark.usefixtures("no_network")
def test_the_example_of_log_linear_models_runs(capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", LOG_LINEAR, flags=re.MULTILINE | re.DOTALL)
    exec(compile(example, "log-linear.md", "exec"), {"__name__": "log-linear"})
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("independence: ")
    found = [re.search(r": τ1 ([0-9]+), B2/√ν (-?[0-9.]+)$", line) for line in told]
    values = [(float(one[1]), float(one[2])) for one in found if one]
    # Fewer terms, more underfitting, more uniques.
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert values[2][1] <= 1.645


@pytest.mark.usefixtures("no_network")
def test_the_example_of_files_runs(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", FILES, flags=re.MULTILINE | re.DOTALL)
    (told,) = re.findall(r"^prints\n\n```text\n(.*?)^```", FILES, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "files.md", "exec"), {"__name__": "files"})
    assert capsys.readouterr().out == told


def test_every_format_is_documented():
    assert [name for name in formats.FORMATS if f"`.{name}`" not in FILES.lower()] == []
    options = [f"--{name.replace('_', '-')}" for name in ("sheet", "table", "decimal", "format")]
    assert [option for option in options if option not in FILES] == []
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    named = set(re.findall(r"`unikat\[(\w+)\]`", FILES))
    assert named <= set(extras["project"]["optional-dependencies"])
    assert {"spreadsheet", "r", "stat"} == named


@pytest.mark.usefixtures("no_network")
def test_the_example_of_designs_runs(capsys):
    text = (DOCS / "designs.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    exec(compile(example, "designs.md", "exec"), {"__name__": "designs"})
    told = capsys.readouterr().out.splitlines()
    found = [re.fullmatch(r"(north|south): [0-9]+ sample uniques, mean r1 ([0-9.]+)", line)
             for line in told]  # fmt: skip
    risk = {one[1]: float(one[2]) for one in found if one}
    assert risk["north"] > 5 * risk["south"]
    (table,) = re.findall(r"^```toml\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert AssessmentSpec.parse(tomllib.loads(table)).design.strata == "REGION"


@pytest.mark.usefixtures("no_network")
def test_the_example_of_classic_measures_runs(capsys):
    text = (DOCS / "classics.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    exec(compile(example, "classics.md", "exec"), {"__name__": "classics"})
    assert capsys.readouterr().out.splitlines() == [
        "k 1.0 below 2: 2",
        "individual risk [0.044, 0.044, 0.158, 0.158, 0.044, 0.044]",
        "SUDA scores [0.0, 0.0, 2.0, 2.0, 0.0, 0.0]",
    ]


@pytest.mark.usefixtures("no_network")
def test_the_example_of_the_default_runs(capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", AUTO, flags=re.MULTILINE | re.DOTALL)
    exec(compile(example, "auto.md", "exec"), {"__name__": "auto"})
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"latent-class alone: τ1 [0-9]+", first)
    assert re.fullmatch(r"with its error: τ1 [0-9]+ \([0-9]+ to [0-9]+\)", second)


def test_every_option_of_the_default_is_documented():
    names = [field.name for field in dataclasses.fields(Auto)]
    assert [name for name in names if f"| `{name}` |" not in AUTO] == []
    assert f"`{','.join(CANDIDATES)}`" in AUTO


def test_everything_that_the_default_tells_is_documented():
    told = Path(auto.__file__).read_text(encoding="utf-8").partition("def _told(")[2]
    names = re.findall(r'"([a-z0-9_]+)":', told)
    assert {"behind_error", "tau1_upper", "median"} <= set(names)
    assert [name for name in [*names, *choice.NAMES] if f"`{name}`" not in RESULTS] == []


def test_every_option_of_log_linear_models_is_documented():
    kinds = (unikat.LogLinear, unikat.SkinnerHolmes, unikat.ElamirSkinner, unikat.MixedEffects)
    names = [field.name for kind in kinds for field in dataclasses.fields(kind)]
    assert [name for name in names if f"`{name}`" not in LOG_LINEAR] == []
    defaults = unikat.LogLinear()
    assert f"| `{defaults.terms}` (default) |" in LOG_LINEAR
    assert f"| {defaults.underfitting} |" in LOG_LINEAR
    assert f"| `{defaults.criterion}` (default)" in LOG_LINEAR


def test_every_kind_of_uncertainty_is_documented():
    kinds = typing.get_args(Uncertainty)
    assert [kind for kind in kinds if f"| `{kind}` |" not in RESULTS] == []


def test_what_is_known_of_a_models_error_is_what_was_measured():
    """The prior that is used, and those of the study, are the rows of the printed table."""
    rows = {
        name: tuple(float(number) for number in numbers.split("|"))
        for name, numbers in re.findall(
            r"^\| (all|without \w+) \| \d+ \| ([-\d. |]+) \|$", ACCURACY, re.MULTILINE
        )
    }
    assert rows["all"] == dataclasses.astuple(EXPERIENCE)
    source = (DOCS.parent / "benchmarks" / "self_check.py").read_text(encoding="utf-8")
    (table,) = re.findall(r"^WITHOUT = (\{.*?^\})", source, re.MULTILINE | re.DOTALL)
    for survey, numbers in ast.literal_eval(table).items():
        assert rows[f"without {survey}"] == numbers, survey
