"""The fits that a run will make, with their time and memory, before it makes any.

It says what `studies.fit`, `compare`, `auto` and `evaluate` would do, model by model: a few sweeps
of each are made and measured (`inference.trial`), and the rest is arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.backends import Workers, local_workers
from unikat.inference.diagnostics import ENDS
from unikat.inference.draws import Observer
from unikat.inference.plan import Plan
from unikat.inference.processes import available_cores
from unikat.inference.trial import GUESSED, Course, Pace, course, try_out
from unikat.models.auto import Auto, choosable
from unikat.models.base import AnyModel
from unikat.models.device import computing_on
from unikat.models.households.nested import NestedHouseholds
from unikat.risk.estimate import known_exactly
from unikat.risk.exposure import views
from unikat.risk.registry import Registry
from unikat.spec.models import AUTO
from unikat.studies.auto import (
    CHAINS,
    SHARE_FIRST,
    SHARE_RACED,
    STOP,
    STOP_SHOWN,
    WALK_COST,
    affordable_sweeps,
    is_decided,
    none_to_choose,
    refuse_large,
)
from unikat.studies.compare import ComparisonSettings, risk_observed
from unikat.studies.designs import Population
from unikat.studies.evaluate import Study, sample_of
from unikat.studies.fit import observed
from unikat.studies.store import HELD_OUT, RISK

WALKED = 10.0
"""Factor above counted combinations that a fit may take which walks over them, terms selected."""


@dataclass(frozen=True, kw_only=True)
class ForeseenFit:
    """One fit, or several of the same kind."""

    model: str
    purpose: str
    """What it is for, in words."""
    n_fits: int = 1
    pace: Pace | None = None
    """None where already the layout of the data takes long, or the model refuses them."""
    course: Course | None = None
    lower: float = 0.0
    upper: float = 0.0
    """Seconds of one fit."""
    at_limit: float = 0.0
    """Seconds of one fit that goes on to its limit of sweeps or time."""
    refused: str | None = None
    """Why the model cannot be fitted; `auto` then goes on without it."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """All fits of a run."""

    fits: tuple[ForeseenFit, ...]
    at_a_time: int = 1
    """Fits that run side by side, as those of an evaluation do."""

    @property
    def n_fits(self) -> int:
        """Fits in all."""
        return sum(fit.n_fits for fit in self.fits if fit.refused is None)

    def __add__(self, other: Workload) -> Workload:
        """All of both, one after the other."""
        return replace(self, fits=(*self.fits, *other.fits))

    def __mul__(self, n: int) -> Workload:
        """Return the same fits of so many files."""
        return replace(self, fits=tuple(replace(fit, n_fits=n * fit.n_fits) for fit in self.fits))

    def seconds(self) -> tuple[float, float, float]:
        """Shortest and longest expected time of all, and the time at every limit."""
        lower, upper, limit = (
            sum(fit.n_fits * getattr(fit, name) for fit in self.fits) / self.at_a_time
            for name in ("lower", "upper", "at_limit")
        )
        return lower, upper, limit


def of_assessment(
    model: Any,
    table: CellTable,
    *,
    plan: Plan,
    seed: int,
    workers: Workers,
    registry: Registry | None = None,
) -> Workload:
    """Foresee `studies.fit.fit`."""
    if registry is None and known_exactly(table):
        return Workload(fits=())
    return Workload(fits=tuple(_fits_of_one(model, table, plan, seed, workers, registry)))


def _fits_of_one(
    model: Any,
    table: CellTable,
    plan: Plan,
    seed: int,
    workers: Workers,
    registry: Registry | None = None,
) -> list[ForeseenFit]:
    if isinstance(model, Auto):
        evidence = _candidates(model, table, plan.n_chains, seed, workers)
        return [*evidence, _selected(evidence, model, plan, workers)]
    if is_decided(model):
        first = _first_of_two(model, table, plan, seed, workers)
        assert first.pace is not None
        assert first.course is not None
        last = _fit(model, model.name, "with its error", first.pace, plan, workers, first.course)
        return [first, last]
    fitted, observer = observed(model, table, registry)
    return [tried(model, model.name, "risk of all records", fitted, observer, plan, seed, workers)]


def _first_of_two(
    model: NestedHouseholds, table: CellTable, plan: Plan, seed: int, workers: Workers
) -> ForeseenFit:
    """Foresee the fit by whose rare households the error of the model is known."""
    fitted, observer, _ = risk_observed(model, table, evidence=True)
    words = "evidence on its error"
    stop = Plan(n_chains=plan.n_chains, stop=STOP)
    found = tried(model, model.name, words, fitted, observer, stop, seed, workers)
    if found.pace is None:
        raise SpecError(f"The model {model.name} cannot be tried out on this file.")
    limits = affordable_sweeps(found.pace.counted_sweep, 1e9 * Auto.evidence_seconds, 0.0)
    most = min(limits[RISK], plan.stop.max_sweeps)
    return _fit(model, model.name, words, found.pace, _limited(stop, most), workers)


def _candidates(
    auto: Auto, table: CellTable, n_chains: int, seed: int, workers: Workers
) -> list[ForeseenFit]:
    """Foresee the two fits of every candidate."""
    models = auto.models()
    budget = 1e9 * auto.evidence_seconds / len(models)
    found: list[ForeseenFit] = []
    first = True
    for label, model in models.items():
        may_be = choosable(model)
        chains = n_chains if may_be and first else CHAINS
        plan = Plan(n_chains=chains, stop=STOP if may_be else STOP_SHOWN)
        try:
            if model.uncertainty != "posterior":
                refuse_large(model, views(model, table)[0], budget)
            fitted, observer, _ = risk_observed(model, table, evidence=True)
            words = "candidate, all records"
            risk = tried(model, label, words, fitted, observer, plan, seed, workers)
        except SpecError as error:
            found.append(ForeseenFit(model=label, purpose="candidate", refused=str(error)))
            continue
        except (MemoryError, ArithmeticError, np.linalg.LinAlgError) as error:
            # One candidate less, as in the run; the text may hold values of records.
            why = f"It could not be computed ({type(error).__name__})."
            found.append(ForeseenFit(model=label, purpose="candidate", refused=why))
            continue
        held_out = replace(plan, n_chains=CHAINS)
        if risk.pace is not None and model.uncertainty == "posterior":
            limits = affordable_sweeps(risk.pace.counted_sweep, budget, auto.held_out)
            most, after = limits[RISK], None
            if may_be and first:
                begun = int(SHARE_FIRST * most)
                part = _limited(replace(plan, stop=STOP_SHOWN), begun)
                begin = _fit(model, label, FIRST_WORDS, risk.pace, part, workers)
                # As many sweeps again are made for the preliminary answer.
                lower, upper, limit = (2.0 * x for x in (begin.lower, begin.upper, begin.at_limit))
                found.append(replace(begin, lower=lower, upper=upper, at_limit=limit))
                most, after = most - begun, begin.course
            plan = _limited(plan, most)
            risk = _fit(model, label, risk.purpose, risk.pace, plan, workers, after)
            held_out = _limited(held_out, limits[HELD_OUT])
        predicted = _held_out(model, risk, held_out, auto.held_out, workers)
        if may_be and not first and risk.pace is not None:
            part = _limited(held_out, int(SHARE_RACED * held_out.stop.max_sweeps))
            raced = _held_out(model, risk, part, auto.held_out, workers)
            predicted = replace(
                predicted,
                lower=raced.lower,
                upper=raced.upper + predicted.upper,
                at_limit=raced.at_limit + predicted.at_limit,
            )
        found += [risk, predicted]
        first = first and not may_be
    if first:
        raise none_to_choose((one.model, one.refused) for one in found if one.refused)
    return found


def _selected(
    evidence: Sequence[ForeseenFit], auto: Auto, plan: Plan, workers: Workers
) -> ForeseenFit:
    """Foresee the fit of the selected model, which may be any that can be selected."""
    models = auto.models()
    if auto.calibrate:
        plan = replace(plan, stop=replace(plan.stop, ess=ENDS * plan.stop.ess))
    ends = [
        _fit(
            models[one.model],
            one.model,
            "the selected model" + (", with its error" if auto.calibrate else ""),
            one.pace,
            plan,
            workers,
            one.course if auto.calibrate else None,
        )
        for one in evidence
        if one.pace is not None
        and one.purpose not in (HELD_OUT_WORDS, FIRST_WORDS)
        and choosable(models[one.model])
    ]
    lower, upper, limit = (
        pick(getattr(one, name) for one in ends)
        for pick, name in ((min, "lower"), (max, "upper"), (max, "at_limit"))
    )
    slowest = max(ends, key=lambda one: one.upper)
    return replace(slowest, model=AUTO, lower=lower, upper=upper, at_limit=limit)


def of_comparison(
    candidates: Iterable[tuple[str, Any]],
    table: CellTable,
    settings: ComparisonSettings,
    *,
    workers: Workers,
) -> Workload:
    """Foresee `studies.compare.compare`, with what `auto` does before it."""
    parts = parts_of_comparison(candidates, table, settings, workers=workers)
    return Workload(fits=tuple(fit for one in parts for fit in (*one.evidence, *one.fits)))


class OfCandidate(NamedTuple):
    """What a comparison does for one of its models."""

    label: str
    evidence: list[ForeseenFit]
    """Of all fits before the comparison, by which `auto` selects or an error is known."""
    fits: list[ForeseenFit]


def parts_of_comparison(
    candidates: Iterable[tuple[str, Any]],
    table: CellTable,
    settings: ComparisonSettings,
    *,
    workers: Workers,
) -> list[OfCandidate]:
    """Foresee a comparison, model by model; see `of_comparison`."""
    found = []
    for label, asked in candidates:
        model, before, fits = asked, [], []
        if isinstance(asked, Auto):
            n_chains = settings.plan.n_chains
            evidence = _candidates(asked, table, n_chains, settings.seed, workers)
            before = [replace(one, model=f"{label}, {one.model}") for one in evidence]
            models = asked.models()
            model = next(
                models[one.model]
                for one in evidence
                if one.refused is None and choosable(models[one.model])
            )
        elif is_decided(asked):
            first = _first_of_two(asked, table, settings.plan, settings.seed, workers)
            before = [replace(first, model=label)]
        fitted, observer, _ = risk_observed(model, table, evidence=False)
        words = "risk of all records"
        plan = settings.plan_of(label, RISK)
        risk = tried(model, label, words, fitted, observer, plan, settings.seed, workers)
        fits.append(risk)
        if settings.held_out:
            plan = settings.plan_of(label, HELD_OUT)
            fits.append(_held_out(model, risk, plan, settings.held_out, workers))
        found.append(OfCandidate(label, before, fits))
    return found


def of_study(
    population: Population, models: Mapping[str, Any], study: Study, *, workers: Workers
) -> Workload:
    """Foresee `studies.evaluate.evaluate`, by the first sample of each size."""
    found: list[ForeseenFit] = []
    alone = Workers(n_workers=1, n_threads=workers.n_threads or 1, device=workers.device)
    for n in study.sizes:
        sample = sample_of(population, study, n, 1)
        for label, model in models.items():
            named = f"{label}, n {n:,}"
            if sample is None or known_exactly(sample.table):
                continue
            try:
                parts = _fits_of_one(model, sample.table, study.plan, study.seed, alone)
            except SpecError as error:
                # The study goes on without it, and says so.
                found.append(ForeseenFit(model=named, purpose="samples", refused=str(error)))
                continue
            found += [
                replace(
                    part,
                    model=named if part.model == label else f"{named}, {part.model}",
                    n_fits=study.repeats,
                )
                for part in parts
            ]
    n_fits = max(len(study.sizes) * study.repeats * len(models), 1)
    at_a_time = min(workers.n_workers or available_cores(), n_fits)
    return Workload(fits=tuple(found), at_a_time=at_a_time)


HELD_OUT_WORDS = "prediction of held-out records"
FIRST_WORDS = "first sweeps and preliminary answer"


def tried(
    model: AnyModel,
    label: str,
    purpose: str,
    table: CellTable,
    observer: Observer,
    plan: Plan,
    seed: int,
    workers: Workers,
) -> ForeseenFit:
    """Try a model out on the table of a fit."""
    n_threads = local_workers(workers, plan.n_chains, math.inf, 0.0)[1]
    with computing_on(workers.device):
        pace = try_out(model, table, observer, n_threads=n_threads, seed=seed)
    if pace is not None:
        return _fit(model, label, purpose, pace, plan, workers)
    # The fit is the layout, which walks over all combinations of levels.
    grid = math.prod(float(n) for n in table.n_levels)
    seconds = max(0.5e-9 * WALK_COST * grid, 1.0)
    longest = WALKED * GUESSED * seconds
    most = plan.stop.max_seconds
    return ForeseenFit(
        model=label,
        purpose=purpose,
        lower=seconds / GUESSED if most is None else min(seconds / GUESSED, most),
        upper=longest if most is None else min(longest, most),
        at_limit=longest if most is None else most,
    )


def _fit(
    model: AnyModel,
    label: str,
    purpose: str,
    pace: Pace | None,
    plan: Plan,
    workers: Workers,
    after: Course | None = None,
) -> ForeseenFit:
    """Foresee a fit of a known pace, perhaps one that goes on from another."""
    assert pace is not None
    before = 0 if after is None else after.fewest_sweeps
    found = course(model, pace, plan, workers, before=before)
    return ForeseenFit(
        model=label,
        purpose=purpose,
        pace=pace,
        course=found,
        lower=found.lower,
        upper=found.upper,
        at_limit=found.at_limit,
    )


def _held_out(
    model: AnyModel, risk: ForeseenFit, plan: Plan, share: float, workers: Workers
) -> ForeseenFit:
    """Foresee the fit to the records kept: part of a sweep goes by records, the rest by levels."""
    pace = risk.pace
    if pace is None:
        return replace(risk, purpose=HELD_OUT_WORDS)
    faster = 1.0 - 0.5 * share
    pace = replace(pace, sweep=faster * pace.sweep, counted_sweep=faster * pace.counted_sweep)
    return _fit(model, risk.model, HELD_OUT_WORDS, pace, plan, workers)


def _limited(plan: Plan, max_sweeps: int) -> Plan:
    return replace(plan, stop=replace(plan.stop, max_sweeps=max_sweeps, max_seconds=None))
