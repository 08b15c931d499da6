"""`auto`: fit the candidates, weigh the evidence, and return the chosen model with its error.

Half of the records are left out (`Auto.held_out`), every candidate is fitted to the others and to
all. Of the models whose error is known, the one that gives the records left out the best log score
is chosen, unless the first of them is as good up to chance. Its error is drawn from what is known
of it beforehand and from how often rare cells of the sample are seen again (`studies.calibrate`).
How many uniques samples of the fitted models have is shown; it predicts the error no better.

The model of households has no rivals. It is fitted once for the evidence, and then with its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.backends import Workers
from unikat.inference.checkpoint import Checkpoint
from unikat.inference.plan import MIN_KEPT, Plan, StopRule
from unikat.inference.progress import SILENT, Watcher
from unikat.models.auto import Auto, choosable
from unikat.models.base import AnyModel
from unikat.models.calibrated import (
    Calibrated,
    CandidateFacts,
    RefusedFacts,
    SelectionFacts,
)
from unikat.models.households.nested import NestedHouseholds
from unikat.risk.estimate import RiskEstimate
from unikat.risk.exposure import views
from unikat.studies.compare import (
    Candidate,
    ComparedModel,
    ComparisonSettings,
    ScoreFit,
    compare,
    held_out_fit,
)
from unikat.studies.first_answer import FirstSweeps
from unikat.studies.held_out import HeldOutScore, best_score, differences
from unikat.studies.known_error import weights_of_error, with_known_error
from unikat.studies.store import HELD_OUT, RACE, RISK, FitStore
from unikat.studies.whole_run import WholeRun

CHAINS = 2
"""Of a fit that no other goes on from."""
STOP = StopRule(rhat=1.02, ess=400.0)
STOP_SHOWN = StopRule(rhat=1.02, ess=100.0)
"""Of candidates that cannot be selected: their τ1 to a tenth of its standard deviation."""
SHARE_SHOWN = 0.5
"""Part of its sweeps for the fit to all records of a candidate that was not selected."""
SHARE_FIRST = 0.125
"""Part of the sweeps of the first fit to all records that are made before the preliminary answer;
they are among those that the fit discards."""
SHARE_RACED = 0.25
"""Part of the sweeps by which a rival's held-out records are predicted first."""
SHARE_OF_RISK = 0.55
"""Part of a candidate's work that its fit to all records may take."""
LEAST_SWEEPS, MOST_SWEEPS = 200, 20_000
WALK_COST = 400.0
"""Nanoseconds, roughly, of both fits of a log-linear model for each combination of levels."""
CERTAIN = 2.0
"""Standard errors by which another model must predict better to be preferred to the first."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How fits are run, none of which has an influence on their numbers.

    Examples
    --------
    >>> import unikat
    >>> unikat.Execution(workers=unikat.Workers(n_workers=2)).resume, unikat.Execution().checkpoint
    (False, None)
    """

    workers: Workers | None = None
    folder: Path | None = None
    """Where finished fits are kept, so that an interrupted run can go on."""
    resume: bool = False
    """Go on from what is there."""
    watcher: Watcher = SILENT
    preliminary: Callable[[RiskEstimate], None] | None = None
    """Given an estimate by the first candidate that can be selected, before one is, with its error
    as it is known beforehand."""
    whole_run: bool = False
    """Nothing that takes long follows the fit, whose time left is that of the run."""

    def of(self, name: str) -> Execution:
        """Return how one of several fits is run: what it keeps has a folder of its own."""
        return self if self.folder is None else replace(self, folder=self.folder / name)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """Where the chains of such a fit are kept; None if they are not."""
        return None if self.folder is None else Checkpoint(folder=self.folder, resume=self.resume)


def is_decided(model: Any) -> bool:
    """Whether `decided` puts another model in the place of this one."""
    return isinstance(model, Auto) or (isinstance(model, NestedHouseholds) and model.calibrate)


def check_ties(model: Any) -> None:
    """Refuse ties of members to the head (SpecError): the risk is not calibrated for them."""
    if isinstance(model, NestedHouseholds) and model.ties != "none":
        raise SpecError(
            "The option ties is for synthetic households; their risk is estimated without. Leave "
            "it out."
        )


def decided(
    model: Any,
    table: CellTable,
    *,
    seed: int,
    n_chains: int = Plan.n_chains,
    most_sweeps: int = MOST_SWEEPS,
    level: float = 0.95,
    execution: Execution | None = None,
    run: WholeRun | None = None,
) -> Any:
    """Return the model itself, or what is put in its place: of `auto`, or of a model with an error.

    Parameters
    ----------
    model
        Any model, or `Auto`.
    table
        The sample; its risk must not be known exactly.
    seed
        Of the fits for the evidence.
    n_chains
        Chains of the fit to come: the candidates have as many in their fits to all records, where
        those of the selected model then go on.
    most_sweeps
        Of the fit to come. The first fit of a model that was named makes no more; `auto` counts the
        work of its fits alone.
    level
        Probability of the intervals that are told.
    execution
        Workers, folder, progress.
    run
        The fits of which these are the first; None where the time of others is not known.

    Returns
    -------
    Model
        A `Calibrated` model in place of `Auto`, without weights if that asks not to calibrate; and
        in place of the model of households if that asks to.

    Raises
    ------
    SpecError
        If no candidate that could be chosen can be fitted to the table, or if the model of
        households has ties, for which the error of the risk was never measured.
    KeyboardInterrupt
        On Ctrl-C; finished fits are in the folder.
    """
    check_ties(model)
    if not is_decided(model):
        return model
    execution = execution or Execution()
    run = run or WholeRun(watcher=execution.watcher, level=level)
    if isinstance(model, NestedHouseholds):
        return _with_error(model, table, seed, n_chains, most_sweeps, level, execution, run)
    found, refused = _evidence(model, table, seed, n_chains, level, execution, run)
    chosen = _choose(found, refused)
    weights = weights_of_error(table, chosen.model, chosen.risk) if model.calibrate else None
    return Calibrated(
        wrapped=chosen.model,
        weights=() if weights is None else tuple(weights.ravel().tolist()),
        asked=model,
        told=_told(table, found, chosen, refused, weights),
        start=chosen.risk.start if model.calibrate else None,
    )


def _with_error(
    model: NestedHouseholds,
    table: CellTable,
    seed: int,
    n_chains: int,
    most_sweeps: int,
    level: float,
    execution: Execution,
    run: WholeRun,
) -> Calibrated:
    """Fit a model that was named, for the evidence of its error, which is put on it."""
    limits = _limits(model, views(model, table)[0], 1e9 * Auto.evidence_seconds, 0.0)
    label = model.name
    run.plan({label: Auto.evidence_seconds})
    settings = ComparisonSettings(
        seed=seed,
        plan=Plan(n_chains=n_chains, stop=STOP),
        held_out=0.0,
        evidence=True,
        level=level,
        limits={label: {RISK: min(limits[RISK], most_sweeps)}},
    )
    part = compare(
        [Candidate(label=label, model=model)],
        table,
        settings,
        workers=execution.workers,
        store=_store(execution),
        watcher=run.part(label, like_last=True).within("Evidence on the model error"),
    )
    if part.interrupted:
        raise KeyboardInterrupt
    (fitted,) = part.models
    run.done(label, fitted.risk.sampling.seconds)
    weights = weights_of_error(table, model, fitted.risk)
    return Calibrated(
        wrapped=model,
        weights=tuple(weights.ravel().tolist()),
        asked=model,
        told=with_known_error(SelectionFacts(), table, model, fitted.risk.tau1, weights),
        start=fitted.risk.start,
    )


def _store(execution: Execution) -> FitStore | None:
    """Where finished fits are kept, if they are."""
    if execution.folder is None:
        return None
    return FitStore(folder=execution.folder, resume=execution.resume)


def _evidence(
    auto: Auto,
    table: CellTable,
    seed: int,
    n_chains: int,
    level: float,
    execution: Execution,
    run: WholeRun,
) -> tuple[tuple[ComparedModel, ...], dict[str, str]]:
    """Fit the candidates one after the other; those that refuse the table are left out."""
    if table.n_records < 2:
        raise SpecError(
            "auto leaves out half of the records, and there is only one; name a model with --model."
        )
    models = auto.models()
    budget = 1e9 * auto.evidence_seconds / len(models)
    store = _store(execution)
    run.plan(dict.fromkeys(models, 1e-9 * budget))
    found: list[ComparedModel] = []
    refused: dict[str, str] = {}
    for number, (label, model) in enumerate(models.items(), start=1):
        candidate = Candidate(label=label, model=model)
        may_be = choosable(model)
        part_of_run = f"Candidate {number} of {len(models)}"
        fits: dict[str, Any] = {
            "workers": execution.workers,
            "store": store,
            "watcher": run.part(label, like_last=may_be).within(part_of_run),
        }
        seconds = None
        try:
            limits = _limits(model, views(model, table)[0], budget, auto.held_out)
            settings = ComparisonSettings(
                seed=seed,
                plan=Plan(n_chains=CHAINS, stop=STOP if may_be else STOP_SHOWN),
                held_out=auto.held_out,
                evidence=True,
                level=level,
                limits={label: limits},
            )
            scores: dict[str, ScoreFit] = {}
            first = next((one for one in found if choosable(one.model)), None)
            if first is not None and may_be:
                scores[label] = _race(candidate, table, settings, limits, _score(first), fits)
            begin = None
            if may_be and (first is None or _better(scores[label].score, _score(first))):
                # A fit that the last one goes on from: no sweep of it is made twice.
                settings = replace(settings, risk_chains=n_chains)
                if limits:
                    most = max(int(SHARE_FIRST * limits[RISK]), MIN_KEPT)
                    rest = {**limits, RISK: limits[RISK] - most}
                    settings = replace(settings, limits={label: rest})
                    begin = FirstSweeps(
                        auto=auto,
                        candidate=candidate,
                        table=table,
                        seed=seed,
                        plan=Plan(n_chains=n_chains, stop=replace(STOP_SHOWN, max_sweeps=most)),
                        level=level,
                        workers=execution.workers,
                        watcher=fits["watcher"],
                        answering=run.answer(),
                        tell=execution.preliminary if first is None else None,
                    )
            elif limits:
                shown = int(max(SHARE_SHOWN * limits[RISK], LEAST_SWEEPS))
                settings = replace(settings, limits={label: {**limits, RISK: shown}})
            part = compare([candidate], table, settings, begin=begin, scores=scores, **fits)
            seconds = sum(map(_seconds, part.models))
        except SpecError as error:
            refused[label] = str(error)
            continue
        except (MemoryError, ArithmeticError, np.linalg.LinAlgError) as error:
            # One candidate less; its message may hold values of records.
            refused[label] = f"It could not be computed ({type(error).__name__})."
            continue
        finally:
            run.done(label, seconds)
        if part.interrupted:
            raise KeyboardInterrupt
        found += part.models
    return tuple(found), refused


def _seconds(one: ComparedModel) -> float:
    """Seconds of both fits of a candidate."""
    held_out = 0.0 if one.held_out is None else one.held_out.sampling.seconds
    return one.risk.sampling.seconds + held_out


def _race(
    candidate: Candidate,
    table: CellTable,
    settings: ComparisonSettings,
    limits: dict[str, int],
    first: HeldOutScore,
    fits: dict[str, Any],
) -> ScoreFit:
    """Score the records left out by a rival of the first candidate.

    By a part of the sweeps, if the first is then surely better: the rest would have to move the
    difference by twice as many standard errors as decide.
    """
    if limits:
        label = candidate.label
        raced = {**limits, RACE: max(int(SHARE_RACED * limits[HELD_OUT]), MIN_KEPT)}
        settings = replace(settings, limits={label: raced})
        early = held_out_fit(candidate, table, settings, kind=RACE, **fits)
        if early.sampling.stop_reason == "converged" or _better(first, early.score):
            return early
    return held_out_fit(candidate, table, settings, **fits)


def _limits(model: AnyModel, table: CellTable, budget: float, held_out: float) -> dict[str, int]:
    """Sweeps of both fits of a candidate: counted work, in nanoseconds, and never the clock."""
    if model.uncertainty != "posterior":
        refuse_large(model, table, budget)
        return {}
    return affordable_sweeps(model.cost(model.prepare(table))[0], budget, held_out)


def affordable_sweeps(sweep: float, budget: float, held_out: float) -> dict[str, int]:
    """Sweeps of both fits of a candidate, by the counted work of one."""
    # Observing costs about half of what sweeping does, and checking as much again.
    affordable = {
        RISK: SHARE_OF_RISK * budget / (2.0 * sweep),
        # Part of a sweep goes by records, the rest by levels.
        HELD_OUT: (1.0 - SHARE_OF_RISK) * budget / (2.0 * sweep * (1.0 - 0.5 * held_out)),
    }
    return {
        kind: int(min(max(sweeps, LEAST_SWEEPS), MOST_SWEEPS))
        for kind, sweeps in affordable.items()
    }


def refuse_large(model: AnyModel, table: CellTable, budget: float) -> None:
    """Refuse a fit that walks over more combinations than the time set aside allows."""
    grid = math.prod(float(n) for n in table.n_levels)
    if grid > budget / WALK_COST:
        size = f"{grid:,.0f}" if grid < 1e15 else "more than 10^15"
        raise SpecError(
            f"{model.name} fits {size} combinations of levels, which may take longer than the time "
            "set aside for it (evidence_seconds)."
        )


def none_to_choose(refused: Iterable[tuple[str, str]]) -> SpecError:
    """Say that no candidate can be fitted, with the reason of each that was refused."""
    reasons = "".join(f" {name}: {why}" for name, why in refused)
    return SpecError(
        "No candidate that could be chosen can be fitted to this file; name a model with "
        f"--model.{reasons}"
    )


def _choose(found: tuple[ComparedModel, ...], refused: dict[str, str]) -> ComparedModel:
    """Return the candidate that predicts best, of the choosable ones; the first if in doubt."""
    eligible = [one for one in found if choosable(one.model)]
    if not eligible:
        raise none_to_choose(refused.items())
    first = chosen = eligible[0]
    for other in eligible[1:]:
        better = _better(_score(other), _score(first))
        if better and (chosen is first or best_score([_score(chosen), _score(other)]) == 1):
            chosen = other
    return chosen


def _better(one: HeldOutScore, first: HeldOutScore) -> bool:
    """Whether a model predicts so much better than the first that it may be chosen instead."""
    if one.n_zero != first.n_zero:
        return one.n_zero < first.n_zero
    mean, error = _gain(one, first)
    return mean > CERTAIN * error


def _score(one: ComparedModel) -> HeldOutScore:
    assert one.held_out is not None
    return one.held_out.score


def _gain(one: HeldOutScore, other: HeldOutScore) -> tuple[float, float]:
    """Mean gain in log score of one model over another, and its standard error."""
    pair = differences([one, other])
    # One of the two is the best, whose own difference and error are 0.
    return pair[0].mean - pair[1].mean, max(pair[0].standard_error, pair[1].standard_error)


def _told(
    table: CellTable,
    found: tuple[ComparedModel, ...],
    chosen: ComparedModel,
    refused: dict[str, str],
    weights: Float64 | None,
) -> SelectionFacts:
    """Say what was found out, for the report and `result.json`."""
    best = differences([_score(one) for one in found])
    rows = []
    for one, from_best in zip(found, best, strict=True):
        uniques = one.risk.checks[0]
        rows.append(
            CandidateFacts(
                model=one.label,
                chosen=one is chosen,
                score=_score(one).mean,
                impossible=_score(one).n_zero,
                behind=from_best.mean,
                behind_error=from_best.standard_error,
                uniques=uniques.mean / uniques.observed - 1.0 if uniques.observed else None,
                choosable=choosable(one.model),
                uncertainty=one.model.uncertainty,
                tau1=one.risk.tau1.mean,
                tau1_median=one.risk.tau1.median,
                tau1_lower=one.risk.tau1.lower,
                tau1_upper=one.risk.tau1.upper,
                tau2=one.risk.tau2.mean,
                converged=one.converged,
            )
        )
    not_fitted = tuple(RefusedFacts(model=name, reason=why) for name, why in refused.items())
    told = SelectionFacts(
        chosen=chosen.label, candidates=tuple(rows), not_fitted=not_fitted or None
    )
    if weights is None:
        return told
    return with_known_error(told, table, chosen.model, chosen.risk.tau1, weights)
