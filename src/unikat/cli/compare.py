"""`unikat compare FILE` and `unikat compare comparison.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unikat.cli._output import DONE, UNCONVERGED, say, tell
from unikat.cli._runs import perform, run_options
from unikat.spec.options import CompareOptions

if TYPE_CHECKING:
    from unikat.report.facts.comparison import ComparisonSummary


@click.command()
@click.argument("source", metavar="FILE|comparison.toml", type=click.Path(path_type=Path))
@run_options(
    CompareOptions,
    "unikat.spec.comparison.ComparisonSpec",
    folder="name of FILE with -comparison",
    resume="Continue the comparison in DIR; finished fits are taken from there, and models can be "
    "added.",
    replace="comparison",
    summary="summary.json",
)
def compare(source: Path, **values: Any) -> int:
    """Compare models on FILE, or as a comparison.toml says; options here go first.

    Shows τ1 and τ2 of each model side by side, how well it predicts held-out records, and
    whether it would produce a file like this one. Writes comparison.parquet, summary.json,
    comparison.html and comparison.toml into DIR, all readable by you alone. Ctrl-C stops at once
    and keeps what is done; --resume continues.
    """
    from unikat.jobs.compare import COMPARISON, run
    from unikat.report.folders.comparison import SUMMARY

    found, folder = perform(COMPARISON, run, source, values, ("models", "comparison"))
    if found is None:
        tell(
            f"Interrupted. The fits that were done are kept in {folder}; to continue, give the "
            "same command with --resume.",
        )
        return UNCONVERGED
    if values["as_json"]:
        say((folder / SUMMARY).read_text(encoding="utf-8").rstrip())
    elif not values["quiet"]:
        _show(found.summary, folder)
    return _ending(found.summary, folder, allow_unconverged=values["allow_unconverged"])


def _show(summary: ComparisonSummary, folder: Path) -> None:
    """Print the answer, the table and where the page is."""
    from textwrap import wrap

    from unikat.report.folders.comparison import PAGE
    from unikat.report.text.comparison import terminal_table
    from unikat.report.text.zeros import terminal_sentence

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
    tell(
        f"Not all fits have converged. The results in {folder} are marked so; to continue, give "
        "the same command with --resume and a higher limit.",
    )
    return DONE if allow_unconverged else UNCONVERGED
