"""What a run of `assess` has found, in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unikat._typing import Float64
from unikat.models.named import build_model
from unikat.report.facts.result import Result, Stage, assessment_facts, spec_of
from unikat.report.facts.supplements import NO_SUPPLEMENTS, Supplements
from unikat.report.text.summary import explained
from unikat.risk.estimate import RiskEstimate
from unikat.risk.measures import WITHOUT_ERROR
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.provenance import Provenance
from unikat.studies.fit import Fit
from unikat.zeros.conflicts import Handled

SCALARS = ("tau1", "tau2", "tau1_expected", "tau2_expected")


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """Everything that a run has found."""

    result: Result
    spec: AssessmentSpec
    """What was asked, completed with what was left to be decided."""
    estimate: RiskEstimate
    handled: Handled | None = None
    """What was done with records that have an impossible combination, if any combination is."""
    supplements: Supplements = NO_SUPPLEMENTS

    @classmethod
    def of(
        cls,
        estimate: RiskEstimate,
        spec: AssessmentSpec | None = None,
        provenance: Provenance | None = None,
        handled: Handled | None = None,
        supplements: Supplements = NO_SUPPLEMENTS,
        stage: Stage = "final",
    ) -> Findings:
        """Bring an estimate into the form of the results; parameters as for `assessment_facts`.

        Without a specification it is completed from the estimate with all but the file; without a
        provenance it is this machine, now.
        """
        spec = spec_of(estimate, spec, handled)
        if provenance is None:
            provenance = Provenance.now(
                seed=spec.sampling.seed, data_fingerprint=estimate.table.fingerprint
            )
        result = explained(
            assessment_facts(estimate, spec, provenance, handled, supplements, stage)
        )
        return cls(
            result=result, spec=spec, estimate=estimate, handled=handled, supplements=supplements
        )

    @property
    def fit(self) -> Fit:
        """The fit that was summarised."""
        draws, asked = self.estimate.draws, self.spec.model
        model: Any = build_model(asked.name, asked.options) if draws is None else draws.model
        return Fit(table=self.estimate.table, model=model, draws=draws)

    @property
    def traces(self) -> dict[str, Float64]:
        """Draws of τ1 and τ2 by name, each (n_chains, n_draws), discarded ones included."""
        if self.estimate.draws is None:
            return {}
        scalars = self.estimate.draws.scalars
        return {name: scalars[name] for name in (*SCALARS, *WITHOUT_ERROR) if name in scalars}
