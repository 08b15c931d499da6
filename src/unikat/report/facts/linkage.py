"""Links of an intruder whose keys have errors, in `result.json`."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.data.table import CellTable
from unikat.protection.linkage import Linkage
from unikat.risk.estimate import Summary


@dataclass(frozen=True, kw_only=True)
class ErrorRates:
    """Errors of a key in the intruder's file."""

    key: str
    wrong: float
    """Share of wrong values among those that are there."""
    missing: float
    """Share of missing values."""


@dataclass(frozen=True, kw_only=True)
class LinkageResult:
    """Links to the complete sample uniques."""

    errors: tuple[ErrorRates, ...]
    n_uniques: int
    """Complete sample uniques; the numbers below are of them."""
    correct: Summary
    """Links that are correct, each to the person with the largest match weight."""
    exact: Summary
    """Of these, links to a person whose keys all agree."""
    without_errors: Summary
    """Correct links if no key had errors."""


def linkage_result(found: Linkage, table: CellTable) -> LinkageResult:
    """Bring what was found into the form of `result.json`."""
    return LinkageResult(
        errors=tuple(
            ErrorRates(key=key.name, wrong=one.wrong, missing=one.missing)
            for key, one in zip(table.keys, found.rates, strict=True)
        ),
        n_uniques=found.n_uniques,
        correct=found.correct,
        exact=found.exact,
        without_errors=found.without_errors,
    )
