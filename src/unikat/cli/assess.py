"""`unikat assess FILE` and `unikat assess assessment.toml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click

from unikat.cli._output import ending, say, show
from unikat.cli._progress import watching
from unikat.errors import SpecError

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Where each option goes in the specification.
_PLACES = {
    "keys": ("keys",),
    "population_size": ("population_size",),
    "model": ("model", "name"),
    "missing": ("data", "missing"),
    "missing_values": ("data", "missing_values"),
    "codebook": ("data", "codebook"),
    "format": ("data", "format"),
    "encoding": ("data", "encoding"),
    "delimiter": ("data", "delimiter"),
    "chains": ("sampling", "chains"),
    "seed": ("sampling", "seed"),
    "max_sweeps": ("sampling", "max_sweeps"),
    "max_seconds": ("sampling", "max_seconds"),
    "workers": ("sampling", "workers"),
    "threads": ("sampling", "threads"),
    "level": ("report", "level"),
    "show_small_cells": ("report", "show_small_cells"),
}


def _options(command: _Command) -> _Command:
    """Add the options that go into the specification; without a value, it decides."""
    add = [
        click.option("--keys", metavar="A,B,C", help="Key variables, those an intruder may know; "
                     "numbers can be grouped: AGE:width(5), INCOME:quantile(10), X:cut(0,10)."),
        click.option("--population-size", metavar="N", help="Units in the population the file is "
                     "a sample of."),
        click.option("--model", metavar="NAME", help="Statistical model.  [default: hdp]"),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
                     help="An option of the model; can be repeated."),
        click.option("--missing", metavar="HOW", help="Missing keys: integrate over them, take "
                     "missing as a level, or as a wildcard.  [default: integrate]"),
        click.option("--missing-values", metavar="A,B", help="Codes that mean missing."),
        click.option("--codebook", metavar="FILE", help="Levels, labels and missing codes."),
        click.option("--format", metavar="NAME", help="File format, if its name does not say."),
        click.option("--encoding", metavar="NAME", help="Character encoding.  [default: utf-8]"),
        click.option("--delimiter", metavar="C", help="Character between columns; tab for a tab."),
        click.option("--chains", metavar="N", help="Chains.  [default: 4]"),
        click.option("--seed", metavar="N", help="The same seed gives the same numbers.  "
                     "[default: 1]"),
        click.option("--max-sweeps", metavar="N", help="Stop after so many sweeps of a chain."),
        click.option("--max-seconds", metavar="S", help="Stop after so many seconds."),
        click.option("--workers", metavar="N", help="Processes.  [default: one per chain or core]"),
        click.option("--threads", metavar="N", help="Threads of each process."),
        click.option("--level", metavar="P", help="Probability of the intervals.  [default: 0.95]"),
        click.option("--show-small-cells", is_flag=True, default=None,
                     help="Print the values of the records at greatest risk in the report."),
    ]  # fmt: skip
    for option in reversed(add):
        command = option(command)
    return command


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
    readable by you alone. Ctrl-C stops at once and keeps what is done; --resume goes on.
    """
    from unikat.report.assessment import run
    from unikat.report.results import RESULT, load

    given = {name: options[name] for name in _PLACES if options[name] is not None}
    spec = _spec(source, given, settings)
    out: Path | None = options["out"]
    folder = _default_folder(spec.data.path, source) if out is None else out
    with watching(quiet=options["quiet"]) as watcher:
        run(
            spec,
            folder,
            resume=options["resume"],
            overwrite=options["overwrite"],
            progress=None if watcher is None else watcher.progress,
            stage=None if watcher is None else watcher.stage,
        )
    if options["as_json"]:
        say((folder / RESULT).read_text(encoding="utf-8").rstrip())
    result = load(folder).result
    if not options["as_json"] and not options["quiet"]:
        show(result, folder)
    return ending(result, folder, allow_unconverged=options["allow_unconverged"])


def _spec(source: Path, given: Mapping[str, Any], settings: tuple[str, ...]) -> Any:
    from unikat.provenance import AssessmentSpec, read_toml, toml_value

    from_file = source.suffix.lower() == ".toml"
    values: dict[str, Any] = read_toml(source) if from_file else {"data": {"path": str(source)}}
    for name, value in given.items():
        _put(values, _PLACES[name], _meant(name, value), source)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise SpecError(f"--set {setting!r} is not NAME=VALUE, such as alpha_shape=2.")
        _put(values, ("model", name.strip()), toml_value(text.strip()), source)
    where = str(source) if from_file else "The command line"
    return AssessmentSpec.parse(
        values, where=where, folder=source.resolve().parent if from_file else None
    )


def _meant(name: str, value: Any) -> Any:
    if name == "missing_values":
        return [code.strip() for code in str(value).split(",")]
    if name == "delimiter":
        return {"tab": "\t", "\\t": "\t"}.get(value, value)
    if name == "codebook":
        return str(Path(value).absolute())
    if name in ("population_size", "max_sweeps"):
        return _whole_number(f"--{name.replace('_', '-')}", str(value).strip())
    return value


def _whole_number(option: str, text: str) -> int:
    """Read a number as people write large ones: 1000000, 1,000,000, 1_000_000 or 1e6."""
    if re.fullmatch(r"-?[0-9]+|[0-9]{1,3}(,[0-9]{3})+|[0-9]{1,3}(_[0-9]{3})+", text):
        return int(text.replace(",", "").replace("_", ""))
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE]\+?[0-9]{1,2}", text):
        number = Decimal(text)
        if number == int(number):
            return int(number)
    raise SpecError(
        f"{option} {text!r} is not a whole number. Commas or underscores may only separate "
        "thousands, and a point stands only before an exponent: write 1000000, 1,000,000, "
        "1_000_000 or 1e6."
    )


def _put(values: dict[str, Any], place: tuple[str, ...], value: Any, source: Path) -> None:
    for part in place[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise SpecError(f"{source} is not valid: {part} must be a table.")
    values[place[-1]] = value


def _default_folder(path: Path | None, source: Path) -> Path:
    name = source.name if path is None else path.name
    stem = name.split(".")[0].strip("*") or "assessment"
    return Path(f"{stem}-unikat")
