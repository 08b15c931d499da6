"""The files of an assessment: what is in each, and what writes it.

A new file is a function here, or in a module of its own, and a line in `OUTPUTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unikat.files.json import facts_text
from unikat.files.writing import write_bytes, write_text
from unikat.protection.kept import Kept
from unikat.report.facts.registry import FILE as REGISTRY
from unikat.report.facts.registry import registry_table
from unikat.report.facts.result import Result
from unikat.report.folders.findings import Findings
from unikat.report.folders.parquet import write_table
from unikat.report.folders.records import write_records
from unikat.report.folders.records_at_risk import FILE as RECORDS_AT_RISK
from unikat.report.folders.records_at_risk import write_records_at_risk
from unikat.report.pages.assessment import render
from unikat.spec.kinds import RECORDS

RESULT, DRAWS = "result.json", "draws.nc"
HOUSEHOLDS, STATES = "households.parquet", "states.checkpoint"
SPEC, REPORT = "assessment.toml", "report.html"


def _always(_: Findings) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class Output:
    """A file of the folder of an assessment."""

    name: str
    write: Callable[[Findings, Path, Path], None]
    """Given what was found, the path of the new file, and the folder where it will lie."""
    wanted: Callable[[Findings], bool] = _always
    sealed: bool = True
    """Its SHA-256 is in the manifest, so that a change is noticed."""


def note(result: Result) -> str:
    """Return the comment of the specification of a run that ended early."""
    if result.stop_reason not in ("time limit", "interrupted"):
        return ""
    return (
        f"Sampling ended early ({result.stop_reason}); max_sweeps is what was reached, so that a "
        "repetition gives the same numbers. Raise it to go further."
    )


def _write_at_risk(found: Findings, path: Path, _: Path) -> None:
    show = found.spec.report.show_small_cells
    write_records_at_risk(found.estimate, path, found.handled, show_values=show)


def _write_registry(found: Findings, path: Path, _: Path) -> None:
    assert found.supplements.registry is not None
    write_table(path, registry_table(found.supplements.registry))


def _write_draws(found: Findings, path: Path, _: Path) -> None:
    assert found.estimate.draws is not None
    write_bytes(path, found.estimate.draws.to_netcdf())


OUTPUTS = (
    Output(
        name=RESULT,
        write=lambda found, path, _: write_text(path, facts_text(found.result)),
    ),
    Output(name=RECORDS, write=lambda found, path, _: write_records(found, path)),
    Output(
        name=HOUSEHOLDS,
        write=lambda found, path, _: write_records(found, path, by_household=True),
        wanted=lambda found: found.result.households is not None,
    ),
    Output(
        name=RECORDS_AT_RISK,
        write=_write_at_risk,
        wanted=lambda found: found.result.households is None,
    ),
    Output(
        name=REGISTRY,
        write=_write_registry,
        wanted=lambda found: found.supplements.registry is not None,
    ),
    Output(name=DRAWS, write=_write_draws, wanted=lambda found: found.estimate.draws is not None),
    Output(
        name=STATES,
        write=lambda found, path, _: Kept.of(found.fit).write(path),
        wanted=lambda found: found.spec.report.keep_states,
    ),
    Output(
        name=SPEC,
        write=lambda found, path, folder: write_text(
            path, found.spec.to_toml(folder, note(found.result))
        ),
    ),
    Output(
        name=REPORT,
        write=lambda found, path, _: write_text(path, render(found.result, found.traces)),
        sealed=False,
    ),
)
"""In the order in which they are moved into place."""
