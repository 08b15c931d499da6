"""Facts with their sentences: `result.json` of an assessment, `summary.json` of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unikat.data.table import CellTable
from unikat.models.named import Named
from unikat.report.facts.assessment import Result, Stage, assessment_facts
from unikat.report.facts.comparison import ComparisonSummary, comparison_facts
from unikat.report.facts.evaluation import EvaluationSummary, evaluation_facts
from unikat.report.facts.supplements import NO_SUPPLEMENTS, Supplements
from unikat.report.facts.threshold import threshold_result
from unikat.report.text import (
    assessment,
    breakdown,
    classics,
    comparison,
    design,
    evaluation,
    overview,
    registry,
    selection,
    track_record,
    zeros,
)
from unikat.risk.estimate import RiskEstimate
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.provenance import Provenance
from unikat.studies.compare import Comparison
from unikat.studies.designs import Population
from unikat.studies.evaluate import Evaluation
from unikat.zeros.conflicts import Handled


def summarise(
    estimate: RiskEstimate,
    spec: AssessmentSpec,
    provenance: Provenance,
    handled: Handled | None = None,
    supplements: Supplements = NO_SUPPLEMENTS,
    stage: Stage = "final",
) -> Result:
    """Return facts and sentences of an assessment; parameters as `assessment_facts` has them."""
    result = assessment_facts(estimate, spec, provenance, handled, supplements, stage)
    threshold = threshold_result(
        spec.report.threshold,
        {"tau1": result.tau1, "tau2": result.tau2},
        final=result.converged,
        reliable=not track_record.of_result(result).unreliable,
    )
    result = replace(result, threshold=threshold)
    sentences = {
        **assessment.sentences(result),
        **selection.sentences(result),
        **design.sentences(result),
        **zeros.sentences(result.zeros),
        **registry.sentences(result.registry),
        **classics.sentences(result),
        "breakdowns": breakdown.sentence(result.breakdowns),
        "threshold": overview.threshold_sentence(result),
    }
    return replace(result, sentences=sentences)


def summarise_comparison(
    found: Comparison,
    named: Sequence[Named],
    table: CellTable,
    spec: ComparisonSpec,
    provenance: Provenance,
    handled: Handled | None = None,
) -> ComparisonSummary:
    """Return facts and sentences of a comparison; parameters as `comparison_facts` has them."""
    summary = comparison_facts(found, named, table, spec, provenance, handled)
    return replace(summary, sentences=comparison.sentences(summary))


def summarise_evaluation(
    found: Evaluation,
    population: Population,
    spec: EvaluationSpec,
    provenance: Provenance,
    handled: Handled | None = None,
) -> EvaluationSummary:
    """Return facts and warnings of an evaluation; parameters as `evaluation_facts` has them."""
    summary = evaluation_facts(found, population, spec, provenance, handled)
    warnings = evaluation.warnings(found, summary.n_unconverged, summary.n_failed)
    return replace(summary, warnings=warnings + evaluation.narrow(spec))
