"""`unikat compare FILE` and `unikat compare comparison.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from unikat.cli._output import DONE, UNCONVERGED, say
from unikat.cli._progress import watching

if TYPE_CHECKING:
    from unikat.report.comparison_summary import ComparisonSummary

# Where each option goes in the specification.
_PLACES = {
    **READING_PLACES,
    **DESIGN_PLACES,
    **SAMPLING_PLACES,
    "population_size": ("population_size",),
    "models": ("models",),
    "path": ("path",),
    "held_out": ("held_out",),
    "threads": ("sampling", "threads"),
    "level": ("level",),
}


def _options(command: Command) -> Command:
    """Add the options that go into the specification; without a value, it decides."""
    add = (
        KEYS,
        click.option("--population-size", metavar="N", help="Units in the population the file is "
                     "a sample of. Can be left out where weights or strata tell it."),
        click.option("--models", metavar="A,B,C", help="Models with their options: "
                     "hdp,hdp:alpha=per-record,'loglinear:terms=A + B:C'."),
        click.option("--path", metavar="OPTION=1,2,3", help="Fit each model that has this option "
                     "with each of these values: from which number of components on is τ1 "
                     "stable; how much depends on another option."),
        click.option("--held-out", metavar="SHARE", help="Share of the records to leave out and "
                     "predict, as 0.2 or 20%; 0 for none.  [default: 0.2]"),
        *READING,
        *DESIGN,
        *ZEROS,
        click.option("--chains", metavar="N", help="Chains of each fit.  [default: 4]"),
        click.option("--seed", metavar="N", help="The same seed gives the same numbers.  "
                     "[default: 1]"),
        click.option("--max-sweeps", metavar="N", help="End a fit after so many sweeps of a "
                     "chain."),
        click.option("--max-seconds", metavar="S", help="End a fit after so many seconds; a model "
                     "has two fits."),
        click.option("--workers", metavar="N", help="Processes.  [default: one per chain or core]"),
        click.option("--threads", metavar="N", help="Threads of each process."),
        click.option("--level", metavar="P", help="Probability of the intervals.  [default: 0.95]"),
    )  # fmt: skip
    return add_options(command, add)


@click.command()
@click.argument("source", metavar="FILE|comparison.toml", type=click.Path(path_type=Path))
@_options
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path),
              help="Folder of the results.  [default: name of FILE with -comparison]")  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the comparison in DIR; finished fits are "
              "taken from there, and models can be added.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the comparison in DIR.")
@click.option("--allow-unconverged", is_flag=True, help="Exit code 0 also if not converged.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of a table.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def compare(source: Path, **options: Any) -> int:
    """Compare models on FILE, or as a comparison.toml says; options here go first.

    Shows τ1 and τ2 of each model side by side, how well it predicts records left out, and
    whether it would produce a file like this one. Writes comparison.parquet, summary.json,
    comparison.html and comparison.toml into DIR, all readable by you alone. Ctrl-C stops at once
    and keeps what is done; --resume goes on.
    """
    from unikat.report.comparison import SUMMARY, run

    spec = _spec(source, options)
    out: Path | None = options["out"]
    name = stem(spec.data.path, source, "models")
    folder = Path(f"{name}-comparison") if out is None else out
    with watching(quiet=options["quiet"], stages=True) as watcher:
        summary = run(
            spec,
            folder,
            resume=options["resume"],
            overwrite=options["overwrite"],
            progress=None if watcher is None else watcher.progress,
            stage=None if watcher is None else watcher.stage,
        )
    if summary is None:
        click.echo(
            f"Interrupted. The fits that were done are kept in {folder}; to go on, give the same "
            "command with --resume.",
            err=True,
        )
        return UNCONVERGED
    if options["as_json"]:
        say((folder / SUMMARY).read_text(encoding="utf-8").rstrip())
    elif not options["quiet"]:
        _show(summary, folder)
    return _ending(summary, folder, allow_unconverged=options["allow_unconverged"])


def _spec(source: Path, options: Mapping[str, Any]) -> Any:
    from unikat._toml import read_toml
    from unikat.report.comparison_spec import ComparisonSpec

    from_file = source.suffix.lower() == ".toml"
    values: dict[str, Any] = read_toml(source) if from_file else {"data": {"path": str(source)}}
    for name, value in given(options, _PLACES).items():
        put(values, _PLACES[name], meant(name, value), source)
    put_zeros(values, options, source)
    where = str(source) if from_file else "The command line"
    return ComparisonSpec.parse(
        values, where=where, folder=source.resolve().parent if from_file else None
    )


def _show(summary: ComparisonSummary, folder: Path) -> None:
    """Print the answer, the table and where the page is."""
    from textwrap import wrap

    from unikat.report.comparison import PAGE
    from unikat.report.comparison_wording import terminal_table
    from unikat.report.zeros_facts import terminal_sentence

    said = summary.sentences
    lines = ["", *wrap(said["answer"], width=88), *wrap(said["evidence"], width=88), ""]
    lines += [*terminal_table(summary), ""]
    lines += wrap(said["intervals"], width=88)
    for position in range(len(summary.paths)):
        lines += wrap(said[f"paths.{position}"], width=88)
    lines += wrap(terminal_sentence(summary.zeros), width=88)
    state = "" if summary.converged else "NOT CONVERGED. "
    lines += [*wrap(state + said["converged"], width=88), f"Page: {folder / PAGE}", ""]
    say("\n".join(lines))


def _ending(summary: ComparisonSummary, folder: Path, *, allow_unconverged: bool) -> int:
    if summary.converged:
        return DONE
    click.echo(
        f"Not all fits have converged. The results in {folder} are marked so; to go on, give the "
        "same command with --resume and a higher limit.",
        err=True,
    )
    return DONE if allow_unconverged else UNCONVERGED
