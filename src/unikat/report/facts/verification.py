"""What `verify.json` holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unikat.protection.compared import KeyChange
from unikat.protection.perturbed import CorrectMatches
from unikat.report.facts.classics import InferredResult
from unikat.report.facts.overview import Overview, estimated
from unikat.report.facts.protection import RiskFacts
from unikat.risk.limits import Judged, Verdict
from unikat.spec.provenance import Provenance

SCHEMA = "unikat.verification-result/1"


@dataclass(frozen=True, kw_only=True)
class VerifySummary(Overview):
    """Every number of the page."""

    schema: str
    original: str | None
    """Name of the file; None of a frame."""
    protected: str | None
    n_original: int
    """Records of the original."""
    n_protected: int
    """Records of the protected file; all are in the original."""
    matched_by: str | None
    """Column by which records were matched; None: by their order."""
    population_size: int
    keys: tuple[KeyChange, ...]
    """What was done to each key."""
    identical: bool
    """No key and no record was changed."""
    before: RiskFacts
    """The risk of the original."""
    after: RiskFacts | None
    """The risk of the protected file by a fit of its own; None if values were perturbed, or the
    files are identical."""
    matches: CorrectMatches | None
    """The risk of matches with the protected file, if values were perturbed."""
    by_original: CorrectMatches | None
    """The risk of the protected file by the model of the original; None if values were perturbed,
    the files are identical, or that model does not tell it."""
    verdict: Verdict | None
    """On the target; None if there is none."""
    target: Judged | None
    """Judged by the less favourable of `after` and `by_original`."""
    telling: tuple[tuple[str, str], ...]
    """Columns that tell more of a key than the protected key shows, each with the key."""
    identifying: tuple[str, ...]
    """Copied columns with a value of its own for nearly every record."""
    inferred: dict[str, InferredResult] = field(default_factory=dict)
    """What an intruder learns about each sensitive variable, from both files."""
    model: str
    converged: bool
    """Whether all fits converged."""
    level: float
    provenance: Provenance
    warnings: tuple[str, ...] = ()
    sentences: dict[str, str] = field(default_factory=dict)

    def overview(self) -> list[dict[str, Any]]:
        """Risk of the original and of the protected file."""
        after = self.after or self.by_original or self.matches
        files = [("original", self.before), *([] if after is None else [("protected", after)])]
        return [
            {
                "file": name,
                "sample_uniques": one.n_uniques,
                "smallest_cell": one.smallest,
                **estimated(tau1=one.tau1, tau2=one.tau2),
            }
            for name, one in files
        ]
