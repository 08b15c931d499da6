"""What a run finds beside the model's answer for the file, if it was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.provenance import AssessmentSpec
from unikat.report.registry import RegistryResult, registry_result
from unikat.risk.registry import RegistryRisk


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The risk of a registry."""

    registry: RegistryRisk | None = None

    def registry_result(self, spec: AssessmentSpec) -> RegistryResult | None:
        """Return what `result.json` holds of the registry."""
        if self.registry is None or spec.registry is None:
            return None
        return registry_result(self.registry, spec.registry.path)


NOTHING = Beside()
