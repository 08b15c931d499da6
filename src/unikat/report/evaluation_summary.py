"""What `summary.json` of an evaluation holds, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.provenance import Provenance
from unikat.report.evaluation_spec import EvaluationSpec
from unikat.report.wording import counted, number, percent
from unikat.report.zeros_facts import ZerosFacts, zeros_facts
from unikat.risk.designs import Population
from unikat.risk.evaluate import Evaluation
from unikat.risk.scores import MeasureScore, ModelScore, summarise_fits
from unikat.zeros.conflicts import Handled

SCHEMA = "unikat.evaluation/1"
FEW_SAMPLES = 20
"""Samples below which a coverage says little."""


@dataclass(frozen=True, kw_only=True)
class PopulationFacts:
    """The file that was taken as the population."""

    data: str | None
    """Name of the file, without its folder."""
    n_units: int
    n_cells: int
    """Combinations of key values that occur."""
    n_uniques: int
    """Units that are alone with their combination."""
    n_keys: int
    keys: tuple[str, ...]
    missing: str
    n_incomplete: int
    """Units with a missing key; missing is then a level."""


@dataclass(frozen=True, kw_only=True)
class StudyFacts:
    """What was drawn and fitted."""

    design: str
    strata: str | None
    allocation: str | None
    """How the strata share a sample; None if there are none."""
    power: float | None
    """Of the sizes of the strata, where they share it by power."""
    size: str | None
    """Column of the units' sizes, to which their probabilities are in proportion."""
    sizes: tuple[int, ...]
    repeats: int
    models: tuple[str, ...]
    level: float
    chains: int
    rhat_target: float
    ess_target: float
    max_sweeps: int
    max_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A fit that gave no estimate."""

    model: str
    n: int
    repeat: int
    message: str


@dataclass(frozen=True, kw_only=True)
class EvaluationSummary:
    """The content of `summary.json`."""

    schema: str
    seed: int
    complete: bool
    """Whether all fits were made; false after an interruption."""
    converged: bool
    """Whether all fits that were made converged."""
    n_fits: int
    """Fits asked for."""
    n_done: int
    n_failed: int
    n_unconverged: int
    seconds: float
    """Spent sampling, all fits together."""
    population: PopulationFacts
    study: StudyFacts
    results: tuple[ModelScore, ...]
    """One entry per size and model."""
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    zeros: ZerosFacts | None = None
    """Impossible combinations; None if none were declared."""


def summarise(
    evaluation: Evaluation,
    population: Population,
    spec: EvaluationSpec,
    provenance: Provenance,
    handled: Handled | None = None,
) -> EvaluationSummary:
    """Bring an evaluation into the form of `summary.json`.

    Parameters
    ----------
    evaluation, population
        What was found, and in which population.
    spec
        What was asked.
    provenance
        What ran.
    handled
        What was done with units that have an impossible combination, if any combination is.
    """
    table, study, scores = population.table, evaluation.study, evaluation.scores
    failures = tuple(
        Failure(model=score.model, n=score.n, repeat=score.repeat, message=score.error)
        for score in scores
        if score.error is not None
    )
    n_unconverged = sum(score.error is None and not score.converged for score in scores)
    facts = PopulationFacts(
        data=None if spec.data.path is None else spec.data.path.name,
        n_units=population.n_units,
        n_cells=table.n_cells,
        n_uniques=int((table.counts == 1).sum()),
        n_keys=table.n_keys,
        keys=spec.keys,
        missing=table.missing,
        n_incomplete=_n_incomplete(population),
    )
    asked = StudyFacts(
        design=study.design,
        strata=spec.strata,
        allocation=study.allocation if study.design == "stratified" else None,
        power=study.power if study.allocation == "power" else None,
        size=spec.size,
        sizes=study.sizes,
        repeats=study.repeats,
        models=evaluation.models,
        level=study.level,
        chains=study.plan.n_chains,
        rhat_target=study.plan.stop.rhat,
        ess_target=study.plan.stop.ess,
        max_sweeps=study.plan.stop.max_sweeps,
        max_seconds=study.plan.stop.max_seconds,
    )
    return EvaluationSummary(
        schema=SCHEMA,
        seed=study.seed,
        complete=evaluation.complete,
        converged=not n_unconverged,
        n_fits=len(study.sizes) * study.repeats * len(evaluation.models),
        n_done=len(scores),
        n_failed=len(failures),
        n_unconverged=n_unconverged,
        seconds=round(sum(score.seconds or 0.0 for score in scores), 3),
        population=facts,
        study=asked,
        results=summarise_fits(scores),
        failures=failures,
        warnings=_warnings(evaluation, n_unconverged, len(failures)) + _narrow(spec),
        provenance=provenance,
        zeros=zeros_facts(handled),
    )


HEAD = (
    "n",
    "model",
    "true",
    "estimated",
    "bias",
    "relative",
    "RMSE",
    "held",
    "95% limits",
    "width",
)
"""Titles of the table of one measure."""


def rows(results: Sequence[ModelScore], measure: str) -> list[tuple[str, ...]]:
    """Rows of the table of one measure, in the words of a reader.

    Parameters
    ----------
    results
        One entry per size and model.
    measure
        `tau1` or `tau2`.
    """
    made = []
    for result in results:
        score: MeasureScore | None = getattr(result, measure)
        name = (f"{result.n:,}", result.model)
        if score is None:
            made.append((*name, *["–"] * (len(HEAD) - 2)))
            continue
        made.append(
            (
                *name,
                number(score.truth),
                number(score.estimate),
                signed(score.bias) + _error(score.bias_error),
                "–" if score.relative_bias is None else signed_percent(score.relative_bias),
                number(score.rmse),
                f"{score.n_covered} of {result.n_samples}",
                f"{percent(score.coverage_lower)} to {percent(score.coverage_upper)}",
                number(score.width),
            )
        )
    return made


def signed(value: float) -> str:
    """Write a number with its sign.

    Examples
    --------
    >>> signed(3.62), signed(-12.4), signed(0.0)
    ('+3.6', '−12', '0')
    """
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return sign + (f"{abs(value):.2f}" if 0 < abs(value) < 1 else number(abs(value)))


def signed_percent(share: float) -> str:
    """Write a share as a percentage with its sign.

    Examples
    --------
    >>> signed_percent(-0.031), signed_percent(0.5)
    ('−3.1%', '+50%')
    """
    return ("+" if share > 0 else "−" if share < 0 else "") + percent(abs(share))


def _error(value: float | None) -> str:
    return "" if value is None else f" ± {value:.2g}" if value < 10 else f" ± {value:,.0f}"


def _n_incomplete(population: Population) -> int:
    table = population.table
    lacking = [
        table.cells[:, j] == key.missing_level
        for j, key in enumerate(table.keys)
        if key.missing_level is not None
    ]
    if not lacking:
        return 0
    anything = lacking[0]
    for mask in lacking[1:]:
        anything = anything | mask
    return int(table.counts[anything].sum())


def _narrow(spec: EvaluationSpec) -> tuple[str, ...]:
    """Name the models whose intervals leave out the error of the estimate."""
    found = [
        label
        for label, model in spec.build_models().items()
        if model.uncertainty in ("conditional", "empirical-bayes")
    ]
    if not found:
        return ()
    return (
        f"The intervals of {', '.join(found)} take what was estimated for the truth and leave out "
        "its error: they are expected to hold the truth less often than their level says.",
    )


def _warnings(evaluation: Evaluation, n_unconverged: int, n_failed: int) -> tuple[str, ...]:
    study, done = evaluation.study, len(evaluation.scores)
    said = []
    if not evaluation.complete:
        total = len(study.sizes) * study.repeats * len(evaluation.models)
        said.append(
            f"The study was interrupted: {done:,} of {counted(total, 'fit')} "
            f"{'was' if done == 1 else 'were'} made. These numbers are about "
            f"{'that' if done == 1 else 'those'} alone; --resume goes on."
        )
    if n_unconverged:
        said.append(
            f"{n_unconverged:,} of {counted(done, 'fit')} stopped at a limit without having "
            "converged. Such fits are counted like the others; their estimates and intervals are "
            "less certain than they look."
        )
    if n_failed:
        said.append(
            f"{n_failed:,} of {counted(done, 'fit')} failed. Such fits are in no number here; the "
            "reasons are listed. If the samples that failed are unlike the others, what is left is "
            "biased."
        )
    if study.plan.stop.max_seconds is not None:
        said.append(
            "Fits had a time limit: how many draws were made, and so the numbers, depend on the "
            "machine and on what else it did."
        )
    if study.repeats < FEW_SAMPLES:
        said.append(
            f"With {counted(study.repeats, 'sample')} of a size the coverage is known only "
            "roughly: see its limits."
        )
    if evaluation.population_size in study.sizes and study.design != "bernoulli":
        said.append("A sample as large as the population is the population: its risk is known.")
    if study.design == "stratified" and study.allocation == "proportional":
        said.append(
            "The samples are stratified, while the models take them for simple random samples."
        )
    return tuple(said)
