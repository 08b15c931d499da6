"""The command `synthesize`."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from unikat.cli._output import DONE, UNCONVERGED, say, tell
from unikat.cli._runs import perform, print_numbers, run_command
from unikat.spec.kinds import SYNTHESIZE

if TYPE_CHECKING:
    from unikat.report.facts.synthesis import SynthesisSummary


@run_command(SYNTHESIZE, resume="Continue the run in DIR that was not finished.")
def synthesize(source: str | Path, **values: Any) -> int:
    """Draw synthetic files from a model fitted to FILE, or as a synthesis.toml says.

    Writes synthetic_1, synthetic_2, ... in the format of FILE, with the key variables in its
    order, types and labels, and utility.json, synthesis.html and synthesis.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps the chains; --resume continues.
    """
    found, folder = perform(SYNTHESIZE, source, values)
    if found is None:
        tell(
            f"Interrupted. The chains are kept in {folder}; to continue, give the same command "
            "with --resume."
        )
        return UNCONVERGED
    if values["as_json"]:
        print_numbers(SYNTHESIZE, folder)
    elif not values["quiet"]:
        _show(found.summary, folder)
    if found.converged:
        return DONE
    tell(
        f"Not converged ({found.summary.fit.stop_reason}). The files in {folder} are marked so in "
        "utility.json. To continue, give the same command with --resume and a higher limit."
    )
    return DONE if values["allow_unconverged"] else UNCONVERGED


def _show(summary: SynthesisSummary, folder: Path) -> None:
    """Print what was made, how good it is, and where it is."""
    from unikat.report.text.numbers import columns
    from unikat.report.text.synthesis import share_rows, terminal_rows

    said = summary.sentences
    lines = [""]
    for place in ("files", "fit", "method", "impossible", "rows_left_out", "left_out"):
        lines += wrap(said.get(place, ""), width=88)
    lines += ["", *columns(terminal_rows(summary)), ""]
    if summary.shares:
        lines += [*columns(share_rows(summary)), ""]
    lines += wrap(said["repeated"], width=88)
    for warning in summary.warnings:
        lines += wrap(f"Note: {warning}", width=88)
    lines += [f"Page: {folder / SYNTHESIZE.report}", ""]
    say("\n".join(lines))
