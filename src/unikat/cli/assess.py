"""`unikat assess FILE` and `unikat assess assessment.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from unikat.cli._options import (
    DESIGN,
    DESIGN_PLACES,
    KEYS,
    READING,
    READING_PLACES,
    SAMPLING_PLACES,
    ZEROS,
    Command,
    add_options,
    given,
    meant,
    put,
    put_zeros,
    stem,
)
from unikat.cli._output import UNCONVERGED, ending, say, show, undecided
from unikat.cli._progress import watching
from unikat.errors import SpecError

# Where each option goes in the specification.
_PLACES = {
    **READING_PLACES,
    **DESIGN_PLACES,
    **SAMPLING_PLACES,
    "population_size": ("population_size",),
    "model": ("model",),
    "terms": ("model", "terms"),
    "random": ("model", "random"),
    "mean": ("model", "mean"),
    "fixed": ("model", "fixed"),
    "empirical": ("model", "empirical"),
    "threads": ("sampling", "threads"),
    "registry": ("registry", "path"),
    "household": ("classics", "household"),
    "sensitive": ("classics", "sensitive"),
    "level": ("report", "level"),
    "show_small_cells": ("report", "show_small_cells"),
}


def _options(command: Command) -> Command:
    """Add the options that go into the specification; without a value, it decides."""
    add = (
        KEYS,
        click.option("--population-size", metavar="N", help="Units in the population the file is "
                     "a sample of. Can be left out where weights or strata tell it."),
        click.option("--model", metavar="MODEL", help="Statistical model, with its options "
                     "after colons: gom:components=30. auto chooses among several, and puts the "
                     "model's own error on the answer.  [default: auto]"),
        click.option("--terms", metavar="TEXT", help="Terms of a log-linear model: independence, "
                     "two-way, three-way, select, or terms such as 'A + B:C'."),
        click.option("--random", metavar="KIND", help="Random effects of mixed-effects: none, "
                     "normal or dp."),
        click.option("--mean", metavar="KIND", help="Mean of the random effects: zero or "
                     "unknown."),
        click.option("--fixed", metavar="KIND", help="Fixed effects: none, independence or "
                     "two-way."),
        click.option("--empirical", is_flag=True, default=None, help="Fixed effects at their "
                     "maximum likelihood estimate."),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
                     help="An option of the model, before those named otherwise; can be "
                     "repeated."),
        *READING,
        *DESIGN,
        *ZEROS,
        click.option("--classics", is_flag=True, help="Also k-anonymity, individual risk, SUDA2 "
                     "and estimates of population uniques."),
        click.option("--household", metavar="COLUMN", help="Household of each record, for the "
                     "classic household risk (with --classics)."),
        click.option("--sensitive", metavar="A,B", help="Sensitive variables, for l-diversity and "
                     "t-closeness (with --classics)."),
        click.option("--registry", metavar="FILE", type=click.Path(path_type=Path),
                     help="Registered units that share the keys: how many of them are unique in "
                     "the population that the survey FILE tells."),
        click.option("--chains", metavar="N", help="Chains.  [default: 4]"),
        click.option("--seed", metavar="N", help="The same seed gives the same numbers.  "
                     "[default: 1]"),
        click.option("--max-sweeps", metavar="N", help="Stop after so many sweeps of a chain; "
                     "with auto, of the fit that gives the answer."),
        click.option("--max-seconds", metavar="S", help="Stop after so many seconds; with auto "
                     "this is the time of the fit that gives the answer, and --set "
                     "evidence_seconds=S the time of the choice before it."),
        click.option("--workers", metavar="N", help="Processes.  [default: one per chain or core]"),
        click.option("--threads", metavar="N", help="Threads of each process."),
        click.option("--level", metavar="P", help="Probability of the intervals.  [default: 0.95]"),
        click.option("--show-small-cells", is_flag=True, default=None,
                     help="Print the values of the records at greatest risk in the report."),
    )  # fmt: skip
    return add_options(command, add)


@click.command()
@click.argument("source", metavar="FILE|assessment.toml", type=click.Path(path_type=Path))
@_options
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path),
              help="Folder of the results.  [default: name of FILE with -unikat]")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the run in DIR that was not finished.")
@click.option("--overwrite", is_flag=True, help="Replace the run in DIR.")
@click.option("--allow-unconverged", is_flag=True, help="Exit code 0 also if not converged.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of a table.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def assess(source: Path, settings: tuple[str, ...], **options: Any) -> int:
    """Assess FILE, or what an assessment.toml says; options on the command line go first.

    Writes result.json, records.parquet, draws.nc, report.html and assessment.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps what is done; --resume goes on. The model
    auto takes about a minute longer than others: it first fits several to see which predicts best.
    """
    from unikat.report.assessment import run
    from unikat.report.results import RESULT, load

    spec = _spec(source, options, settings)
    out: Path | None = options["out"]
    folder = _default_folder(spec.data.path, source) if out is None else out
    with watching(quiet=options["quiet"], stages=spec.model.name == "auto") as watcher:
        estimate = run(
            spec,
            folder,
            resume=options["resume"],
            overwrite=options["overwrite"],
            progress=None if watcher is None else watcher.progress,
            stage=None if watcher is None else watcher.stage,
            note=None if watcher is None else watcher.note,
        )
    if estimate is None:
        undecided(folder)
        return UNCONVERGED
    if options["as_json"]:
        say((folder / RESULT).read_text(encoding="utf-8").rstrip())
    result = load(folder).result
    if not options["as_json"] and not options["quiet"]:
        show(result, folder)
    return ending(result, folder, allow_unconverged=options["allow_unconverged"])


def _spec(source: Path, options: Mapping[str, Any], settings: tuple[str, ...]) -> Any:
    from unikat._toml import read_toml, toml_value
    from unikat.provenance import AssessmentSpec
    from unikat.specification import ModelSpec

    from_file = source.suffix.lower() == ".toml"
    values: dict[str, Any] = read_toml(source) if from_file else {"data": {"path": str(source)}}
    if isinstance(values.get("model"), str):
        values["model"] = ModelSpec.of(values["model"]).model_dump()
    for name, value in given(options, _PLACES).items():
        if name == "model":
            for option, set_to in ModelSpec.of(value).model_dump().items():
                put(values, ("model", option), set_to, source)
        else:
            put(values, _PLACES[name], meant(name, value), source)
    put_zeros(values, options, source)
    if options["classics"]:
        values.setdefault("classics", {})
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise SpecError(f"--set {setting!r} is not NAME=VALUE, such as alpha_shape=2.")
        put(values, ("model", name.strip()), toml_value(text.strip()), source)
    where = str(source) if from_file else "The command line"
    return AssessmentSpec.parse(
        values, where=where, folder=source.resolve().parent if from_file else None
    )


def _default_folder(path: Path | None, source: Path) -> Path:
    return Path(f"{stem(path, source, 'assessment')}-unikat")
