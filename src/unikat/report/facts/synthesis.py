"""What `utility.json` holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from unikat.report.facts.overview import Overview
from unikat.spec.provenance import Provenance
from unikat.studies.compare import SamplingRecord
from unikat.synthesis.combine import Combined
from unikat.synthesis.utility import OrderUtility

SCHEMA = "unikat.utility/1"


@dataclass(frozen=True, kw_only=True)
class OriginalFacts:
    """The file of which synthetic ones were made."""

    data: str | None
    """Name of the file; None of a frame."""
    n_records: int
    """Rows of persons that the synthetic files stand for."""
    n_households: int | None
    keys: tuple[str, ...]
    left_out: tuple[str, ...]
    """Columns that the synthetic files do not have."""
    n_rows_left_out: int
    """Rows of the file that break a rule and were left out."""


@dataclass(frozen=True, kw_only=True)
class FitSummary(SamplingRecord):
    """How the model was fitted."""

    model: str
    method: str | None
    """How households were drawn; None of persons."""
    ties: str | None
    """`head` where values of members depend on the head's, else `none`; None of persons."""


@dataclass(frozen=True, kw_only=True)
class IntervalFacts:
    """An estimate with its interval."""

    estimate: float
    variance: float
    df: float
    lower: float
    upper: float

    @classmethod
    def of(cls, found: Combined) -> Self:
        """Make them of what a combining rule gives."""
        return cls(**found._asdict())


@dataclass(frozen=True, kw_only=True)
class ShareFacts:
    """A probability within households."""

    text: str
    original: IntervalFacts | None
    """Its estimate from the original, as of a simple random sample; None if the original has no
    such household."""
    synthetic: IntervalFacts | None


@dataclass(frozen=True, kw_only=True)
class RuleBreaks:
    """What breaks the rules in the synthetic files."""

    unit: str
    """`household` or `record`."""
    shares: tuple[float, ...]
    """Of the units of each synthetic file."""


@dataclass(frozen=True, kw_only=True)
class SynthesisSummary(Overview):
    """Every number of the page."""

    schema: str
    original: OriginalFacts
    fit: FitSummary
    datasets: int
    replaced: tuple[str, ...]
    """Keys whose values alone were drawn; empty: all."""
    files: tuple[str, ...]
    level: float
    margins: tuple[OrderUtility, ...]
    repeated: float
    """Share of the synthetic records, mean over the files, whose values of all keys are those of
    exactly one original record."""
    shares: tuple[ShareFacts, ...]
    impossible: RuleBreaks | None
    """None without rules."""
    provenance: Provenance
    warnings: tuple[str, ...] = ()
    sentences: dict[str, str] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether the chains converged."""
        return self.fit.converged

    def overview(self) -> list[dict[str, Any]]:
        """How far tables of the synthetic files are from the original's, by the number of keys."""
        return [
            {
                "keys_per_table": one.order,
                "tables": one.n_looked_at,
                "distance": one.distance,
                "distance_expected": one.distance_expected,
                "pmse_ratio": one.pmse_ratio,
            }
            for one in self.margins
        ]
