"""Several models on one sample: risk measures, predictive checks and held-out scores of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from pydantic import TypeAdapter

from unikat._typing import Float64
from unikat._version import __version__
from unikat.data.split import split
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.diagnostics import Sampled
from unikat.inference.draws import Draws, Observer
from unikat.inference.identity import check_distinct, digest
from unikat.inference.plan import Plan
from unikat.inference.progress import SILENT, Watcher
from unikat.inference.restored import check_states
from unikat.models.auto import Auto
from unikat.models.base import CHAINS, AnyModel, Start
from unikat.models.calibrated import SHIFTS, Calibrated, values_of_k
from unikat.risk.estimate import Measures, assess, known_exactly
from unikat.risk.exposure import views
from unikat.risk.observe import observe
from unikat.spec.models import USUAL
from unikat.studies.held_out import (
    HeldOutScore,
    PredictiveProbabilities,
    ScoreDifference,
    best_score,
    differences,
    held_out_score,
)
from unikat.studies.predictive import (
    NAMES,
    SIZES,
    CheckedMeasures,
    PredictiveCheck,
    counts_of_counts,
    predictive_checks,
)
from unikat.studies.rare_cells import RareCells
from unikat.studies.store import HELD_OUT, RISK, FitStore

"""The two fits of a model: to all records, and to those that are not left out."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model with the name it has in the comparison."""

    label: str
    model: AnyModel


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """Everything, beside models and table, on which the numbers of a comparison depend."""

    seed: int
    plan: Plan = field(default_factory=Plan)
    """For every fit; a time limit is one of each fit, not of all together."""
    held_out: float = 0.2
    """Share of the records that are left out and predicted; 0 for none."""
    evidence: bool = False
    """Look also for evidence of each model's error."""
    level: float = 0.95
    """Probability of the intervals."""
    risk_chains: int | None = None
    """Chains of the fits to all records; None for as many as the plan says."""
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Sweeps at which a fit ends whatever the clock says, by label and fit ('risk', 'held-out'):
    how a fit that ended by time is repeated to the last digit."""

    def plan_of(self, label: str, kind: str) -> Plan:
        """Return the plan of one fit."""
        plan = self.plan
        if kind == RISK and self.risk_chains is not None:
            plan = replace(plan, n_chains=self.risk_chains)
        limit = self.limits.get(label, {}).get(kind)
        if limit is None:
            return plan
        return replace(plan, stop=replace(plan.stop, max_sweeps=limit, max_seconds=None))


@dataclass(frozen=True, kw_only=True)
class SamplingRecord(Sampled):
    """How the posterior of one of several fits was sampled, and how that ended."""

    converged: bool
    stop_reason: str
    seconds: float

    @classmethod
    def of(cls, draws: Draws, **more: Any) -> Self:
        """Note what matters of the draws."""
        return super().of(
            draws,
            converged=draws.converged,
            stop_reason=draws.stop_reason,
            seconds=draws.seconds,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class ModelRisk(Measures):
    """Facts about one model fitted to all records."""

    checks: tuple[PredictiveCheck, ...]
    """Counts of counts in simulated samples and in the file."""
    n_simulated: int
    """Samples simulated for the checks."""
    sampling: SamplingRecord
    """Judged on τ1 and τ2."""
    fit: Mapping[str, Any] = field(default_factory=dict)
    """What the model says of its fit; empty where it says nothing."""


@dataclass(frozen=True, kw_only=True)
class RiskFit(ModelRisk):
    """One model fitted to all records."""

    tau1_deviation: float
    """Posterior standard deviation of tau1."""
    evidence: tuple[float, ...] = ()
    """Log-likelihood of each pair of overdispersion and shift by the rare cells, in the order of
    `Calibrated.weights`; empty if it was not asked for."""
    states: tuple[Any, ...] = field(default=(), compare=False)
    """The last state of every chain, where there is evidence."""
    n_before: int = 0
    """Sweeps of each chain before those of `sampling`."""

    @property
    def start(self) -> Start | None:
        """Where another fit to all records may go on."""
        n_sweeps = self.n_before + self.sampling.n_sweeps
        return Start(self.states, n_sweeps) if self.states else None


@dataclass(frozen=True, kw_only=True)
class ScoreFit:
    """One model fitted to the records kept, and its score on those left out."""

    score: HeldOutScore
    sampling: SamplingRecord


Fitted = TypeVar("Fitted", RiskFit, ScoreFit)


@dataclass(frozen=True, kw_only=True)
class ComparedModel:
    """Everything that is found out about one model."""

    label: str
    model: AnyModel
    risk: RiskFit
    held_out: ScoreFit | None
    """None if no records were left out."""
    difference: ScoreDifference | None
    """From the model with the best score."""
    best: bool
    """Whether that is this model."""

    @property
    def converged(self) -> bool:
        """Whether all fits of the model have."""
        return self.risk.sampling.converged and (
            self.held_out is None or self.held_out.sampling.converged
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Several models side by side."""

    models: tuple[ComparedModel, ...]
    """In the order asked for; after an interrupt those that were done."""
    interrupted: bool

    @property
    def converged(self) -> bool:
        """Whether all fits of all models have."""
        return not self.interrupted and all(model.converged for model in self.models)


def compare(
    candidates: Sequence[Candidate],
    table: CellTable,
    settings: ComparisonSettings,
    *,
    workers: Workers | None = None,
    store: FitStore | None = None,
    watcher: Watcher = SILENT,
    begin: Callable[[], Start] | None = None,
    scores: Mapping[str, ScoreFit] | None = None,
) -> Comparison:
    """Fit several models to one sample, one after the other, and compare them.

    Every model is fitted twice: to all records, for the risk measures and the predictive checks,
    and to the records kept, for the held-out score. The risk measures are those that `sample`
    with `RiskMeasures` gives at the same seed and plan.

    Parameters
    ----------
    candidates
        The models, each once.
    table
        The sample.
    settings
        Seed, plan of the fits, share left out, level of the intervals.
    workers
        Where the chains run; without influence on the numbers.
    store
        Where fits are kept, so that an interrupted comparison can go on.
    watcher
        Told which fit begins, and how each goes.
    begin
        Makes the first sweeps of the fit of one model to all records, where that fit is not in the
        store; it goes on from there.
    scores
        Fits to the records kept that are there already, by label (`held_out_fit`).

    Returns
    -------
    Comparison
        On Ctrl-C, `interrupted` with the models that were done.

    Raises
    ------
    SpecError
        If there is no model, one is named twice, or the risk is known without a model.
    OutputError
        If the store cannot be written or read, or belongs to another comparison.
    """
    check_candidates(candidates, table)
    runner = _Runner(
        table=table,
        settings=settings,
        workers=workers,
        store=store,
        watcher=watcher,
        begin=begin,
        n_models=len(candidates),
    )
    done: list[tuple[Candidate, RiskFit, ScoreFit | None]] = []
    interrupted = False
    try:
        for position, candidate in enumerate(candidates):
            risk = runner.risk(candidate, position)
            score = (scores or {}).get(candidate.label)
            if score is None and settings.held_out:
                score = runner.score(candidate, position)
            done.append((candidate, risk, score))
    except KeyboardInterrupt:
        interrupted = True
    return Comparison(models=_side_by_side(done), interrupted=interrupted)


def held_out_fit(
    candidate: Candidate,
    table: CellTable,
    settings: ComparisonSettings,
    *,
    workers: Workers | None = None,
    store: FitStore | None = None,
    watcher: Watcher = SILENT,
    kind: str = HELD_OUT,
) -> ScoreFit:
    """Fit one model to the records kept, as `compare` does, and score those left out.

    `kind`: `HELD_OUT`, or `RACE`, which has a limit of its own and is kept by itself.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; what was sampled is in the store.
    """
    check_candidates([candidate], table)
    runner = _Runner(
        table=table,
        settings=settings,
        workers=workers,
        store=store,
        watcher=watcher,
        begin=None,
        n_models=1,
    )
    return runner.score(candidate, 0, kind)


def check_candidates(candidates: Sequence[Candidate], table: CellTable) -> None:
    """Refuse what `compare` cannot compare, before any fit (SpecError)."""
    if not candidates:
        raise SpecError(f"There is no model to compare; name at least one, such as {USUAL}.")
    check_distinct((candidate.label, candidate.model) for candidate in candidates)
    for candidate in candidates:
        if isinstance(candidate.model, Auto):
            raise SpecError(
                f"{candidate.label!r} is no model but the choice of one, by a comparison of its "
                "own; leave it out here, or run `unikat assess`."
            )
        candidate.model.check_keys([key.name for key in table.keys])
    if known_exactly(table):
        raise SpecError(
            "The file itself tells the risk (it holds the whole population, or no record is unique "
            "in it), so there is nothing to compare; run `unikat assess`."
        )


def risk_observed(
    model: AnyModel, table: CellTable, *, evidence: bool
) -> tuple[CellTable, Observer, RareCells | None]:
    """Return the table of the fit to all records, its observer, and the cells of the evidence."""
    rare = None
    if evidence and model.uncertainty in CHAINS and not model.uses_weights:
        rare = RareCells.of(table)
    return *observe(model, table, partial(CheckedMeasures.of, rare_cells=rare)), rare


def _side_by_side(
    done: Sequence[tuple[Candidate, RiskFit, ScoreFit | None]],
) -> tuple[ComparedModel, ...]:
    scores = [score.score for _, _, score in done if score is not None]
    from_best: Sequence[ScoreDifference | None] = (
        differences(scores) if scores else [None] * len(done)
    )
    best = best_score(scores) if scores else None
    return tuple(
        ComparedModel(
            label=candidate.label,
            model=candidate.model,
            risk=risk,
            held_out=score,
            difference=difference,
            best=position == best,
        )
        for position, ((candidate, risk, score), difference) in enumerate(
            zip(done, from_best, strict=True)
        )
    )


@dataclass(frozen=True, kw_only=True)
class _Runner:
    """Makes the fits, or takes them from the store."""

    table: CellTable
    settings: ComparisonSettings
    workers: Workers | None
    store: FitStore | None
    watcher: Watcher
    begin: Callable[[], Start] | None
    n_models: int

    def risk(self, candidate: Candidate, position: int) -> RiskFit:
        """Fit a model to all records."""
        self._tell(candidate, position, "fitting all records")
        model = candidate.model
        fitted, observer, rare = risk_observed(model, self.table, evidence=self.settings.evidence)

        def read(content: Mapping[str, Any]) -> RiskFit:
            fit = _risk_fit(content, self.table)
            if rare is not None:
                n_chains = self.settings.plan_of(candidate.label, RISK).n_chains
                data = model.prepare(fitted)
                check_states(fit.states, model, data, seed=self.settings.seed, n_chains=n_chains)
            return fit

        kept = self._kept(candidate, RISK, observer, read)
        if kept is not None:
            return kept
        start = model.start if isinstance(model, Calibrated) else None
        if self.begin is not None:
            start = self.begin()
        draws = self._draws(candidate, RISK, fitted, observer, start)
        level = self.settings.level
        estimate = assess(draws, self.table, level=level)
        simulated = {name: draws.retained(name) for name in NAMES}
        observed = counts_of_counts(self.table)
        fit = RiskFit(
            tau1=estimate.tau1,
            tau2=estimate.tau2,
            tau1_expected=estimate.tau1_expected,
            tau2_expected=estimate.tau2_expected,
            tau1_deviation=float(draws.retained("tau1").std()),
            checks=predictive_checks(observed, simulated, level=level),
            n_simulated=int(np.isfinite(simulated[NAMES[0]]).sum()),
            warnings=estimate.warnings,
            sampling=SamplingRecord.of(draws),
            fit=draws.facts.values,
            evidence=()
            if rare is None
            else tuple(rare.log_likelihood(draws.totals.rare_cells).ravel().tolist()),
            states=() if rare is None else draws.states,
            n_before=draws.n_before,
        )
        self._keep(candidate, RISK, observer, asdict(fit))
        return fit

    def score(self, candidate: Candidate, position: int, kind: str = HELD_OUT) -> ScoreFit:
        """Fit a model to the records kept and score those left out."""
        self._tell(candidate, position, "predicting records left out")
        fitted = views(candidate.model, self.table)[0]
        kept, left_out = split(fitted, self.settings.held_out, self.settings.seed)
        observer = PredictiveProbabilities.of(left_out)
        stored = self._kept(candidate, kind, observer, partial(_score_fit, observer=observer))
        if stored is not None:
            return stored
        draws = self._draws(candidate, kind, kept, observer, None)
        score = held_out_score(draws.totals, observer.counts)
        fit = ScoreFit(score=score, sampling=SamplingRecord.of(draws))
        self._keep(candidate, kind, observer, asdict(fit))
        return fit

    def _tell(self, candidate: Candidate, position: int, what: str) -> None:
        which = f" ({position + 1} of {self.n_models})" if self.n_models > 1 else ""
        self.watcher.stage(f"{candidate.label}{which}: {what}")

    def _draws(
        self,
        candidate: Candidate,
        kind: str,
        table: CellTable,
        observer: Observer,
        start: Start | None,
    ) -> Draws:
        model = candidate.model
        draws = sample(
            model,
            table,
            observer,
            seed=self.settings.seed,
            plan=self.settings.plan_of(candidate.label, kind),
            start=start,
            workers=self.workers,
            checkpoint=self.store.checkpoint(_place(candidate, kind)) if self.store else None,
            progress=self.watcher.progress,
        )
        if draws.stop_reason == "interrupted":
            # What was sampled is in the checkpoint.
            raise KeyboardInterrupt
        return draws

    def _identity(self, candidate: Candidate, kind: str, observer: Observer) -> dict[str, str]:
        plan = self.settings.plan_of(candidate.label, kind)
        return {
            "table": self.table.fingerprint[:16],
            "model": f"{candidate.model!r} #{digest(candidate.model)}",
            "measures": f"{type(observer).__name__} #{digest(observer)}",
            "seed": str(self.settings.seed),
            "chains": str(plan.n_chains),
            "thin": str(plan.thin),
            "level": str(self.settings.level),
            "unikat version": __version__,
        }

    def _targets(self, candidate: Candidate, kind: str) -> dict[str, float]:
        stop = self.settings.plan_of(candidate.label, kind).stop
        return {"rhat": stop.rhat, "ess": stop.ess, "max_sweeps": stop.max_sweeps}

    def _kept(
        self,
        candidate: Candidate,
        kind: str,
        observer: Observer,
        read: Callable[[Mapping[str, Any]], Fitted],
    ) -> Fitted | None:
        """Return a finished fit of the store, if there is nothing more to be done on it."""
        targets = self._targets(candidate, kind)

        def enough(content: Mapping[str, Any]) -> Fitted | None:
            fit, there = read(content["fit"]), content["targets"]
            sampling = fit.sampling
            same = all(there[name] == targets[name] for name in ("rhat", "ess"))
            if sampling.stop_reason == "sweep limit":
                same = same and there["max_sweeps"] == targets["max_sweeps"]
            elif sampling.stop_reason != "converged":
                same = False
            return fit if same and sampling.n_sweeps <= targets["max_sweeps"] else None

        if self.store is None:
            return None
        identity = self._identity(candidate, kind, observer)
        return self.store.load(_place(candidate, kind), identity, enough)

    def _keep(
        self, candidate: Candidate, kind: str, observer: Observer, fit: Mapping[str, Any]
    ) -> None:
        if self.store is None:
            return
        place = _place(candidate, kind)
        content = {"fit": fit, "targets": self._targets(candidate, kind)}
        self.store.save(place, self._identity(candidate, kind, observer), content)
        if fit["sampling"]["converged"]:
            self.store.checkpoint(place).remove()


def _place(candidate: Candidate, kind: str) -> str:
    """Name of a fit in the store."""
    return f"{candidate.model.name}-{digest(candidate.model)}-{kind}"


def _risk_fit(kept: Mapping[str, Any], table: CellTable) -> RiskFit:
    """Make a fit of what a file holds; it may hold anything.

    Raises
    ------
    ValueError
        If it holds no fit.
    """
    fit: RiskFit = TypeAdapter(RiskFit).validate_python(dict(kept))
    if [check.size for check in fit.checks] != list(SIZES):
        raise ValueError
    if fit.evidence and len(fit.evidence) != len(values_of_k(table)) * len(SHIFTS):
        raise ValueError
    return fit


def _score_fit(kept: Mapping[str, Any], observer: PredictiveProbabilities) -> ScoreFit:
    """As `_risk_fit`, of the score on the records left out."""
    score = HeldOutScore(**kept["score"])
    numbers = (score.n_records, score.n_zero, score.mean, score.standard_error)
    if not (
        all(isinstance(number, (int, float)) for number in numbers)
        and _alike(score.scores, observer.counts.astype(np.float64))
        and np.array_equal(score.counts, observer.counts)
    ):
        raise ValueError
    sampling: SamplingRecord = TypeAdapter(SamplingRecord).validate_python(kept["sampling"])
    return ScoreFit(score=score, sampling=sampling)


def _alike(given: object, expected: Float64) -> bool:
    return (
        isinstance(given, np.ndarray)
        and given.dtype == expected.dtype
        and given.shape == expected.shape
    )
