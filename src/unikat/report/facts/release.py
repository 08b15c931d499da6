"""The part of `result.json` on another release of the same persons."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.risk.estimate import Summary


@dataclass(frozen=True, kw_only=True)
class ReleaseResult:
    """Risk of who has both releases, and links their records by the keys that they share."""

    data: str | None
    """Name of the other release, without its folder; None of a frame."""
    n_records: int
    """Of the other release."""
    n_both: int | None
    """Records of the file whose person is in both; None where nobody said who is who."""
    shared: tuple[str, ...]
    """Keys by which records are linked."""
    further: tuple[str, ...]
    """Keys that the other release adds."""
    n_certain: int
    """Records that are unique by the shared keys in both releases, and linked right."""
    n_wrong: int | None
    """Records that are so, and of another person; None where nobody said who is who."""
    links: float
    """Expected number of records that are linked right."""
    tau1: Summary | None
    """Records linked right and unique in file and population by the keys of both; None, as the
    next, where no state tells it."""
    tau2: Summary | None
    """Correct matches of records that are linked right."""
