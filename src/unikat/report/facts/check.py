"""What `check.json` holds."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from unikat.report.facts.certificate import SCHEMA as CERTIFICATE
from unikat.report.facts.certificate import Certificate, Digest, LimitFacts
from unikat.report.facts.overview import Overview
from unikat.report.facts.protection import RiskFacts
from unikat.risk.limits import Verdict
from unikat.spec.provenance import Provenance

SCHEMA = "unikat.check-result/1"


@dataclass(frozen=True, kw_only=True)
class CheckSummary(Overview):
    """Every number of the page."""

    schema: str
    data: str | None
    """Name of the file; None of a frame."""
    policy: str
    """Title of the policy, or the name of its file."""
    sources: tuple[str, ...]
    """Where its limits come from."""
    n_records: int | None
    """None where the policy names no key, so that no record was counted."""
    n_incomplete: int
    """Records in which a key is missing."""
    population_size: int | None
    """None if no limit asks for the population."""
    keys: tuple[str, ...]
    left_out: tuple[str, ...]
    """Keys of the policy that the file has no longer, as the user says."""
    limits: tuple[LimitFacts, ...]
    n_never: int
    """Columns that the policy names as those that never leave."""
    forbidden: tuple[str, ...]
    """Those of them that the file has."""
    columns: tuple[str, ...]
    """Columns of the file that are no keys."""
    verdict: Verdict
    """On all of it together."""
    risk: RiskFacts | None
    """Of the file, if a model was fitted."""
    model: str | None
    """None if no limit needed one."""
    converged: bool
    level: float
    files: dict[str, Digest]
    """Digests of `file`, `policy` and, if it was named, `original`; no `file` where the records do
    not come from a single one."""
    provenance: Provenance
    warnings: tuple[str, ...] = ()
    sentences: dict[str, str] = field(default_factory=dict)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate; None where the records do not come from a single file."""
        if "file" not in self.files:
            return None
        record, both = self.provenance, fields(Certificate)
        own = {one.name: getattr(self, one.name) for one in both if hasattr(self, one.name)}
        made = {"unikat": record.unikat, "made": record.started, "seed": record.seed}
        return Certificate(**(own | made | {"schema": CERTIFICATE}))

    def overview(self) -> list[dict[str, Any]]:
        """Each limit of the policy, what the file has of it, and the verdict."""
        return [
            {
                "scenario": one.scenario,
                "keys": ", ".join(one.keys),
                "limit": one.target.limit,
                "value": one.target.value,
                "verdict": one.target.verdict,
            }
            for one in self.limits
        ]
