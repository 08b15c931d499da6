"""One model fitted to one table: the step from counted records to draws of their risk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unikat.data.table import CellTable
from unikat.errors import SpecError, shown
from unikat.inference.chains import sample
from unikat.inference.checkpoint import Checkpoint
from unikat.inference.draws import Draws, Observer
from unikat.inference.plan import Plan
from unikat.models.base import AnyModel
from unikat.models.calibrated import Calibrated
from unikat.models.named import model_of
from unikat.risk.estimate import RiskEstimate, assess, known_exactly
from unikat.risk.households import HouseholdMeasures
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observe
from unikat.risk.registry import Registry, RegistryMeasures, RegistryRisk, registry_risk
from unikat.studies.auto import Execution, decided
from unikat.studies.whole_run import WholeRun


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A model fitted to a table.

    Examples
    --------
    >>> import unikat
    >>> table = unikat.tabulate([[0, 2], [1, 1], [0, 2]], population_size=3)
    >>> found = unikat.fit("hdp", table)
    >>> found.draws, found.estimate().tau1.mean  # the file is the population: nothing to estimate
    (None, 1.0)
    """

    table: CellTable = field(repr=False)
    """The sample."""
    model: AnyModel
    """What was fitted; in place of `auto` the selected model."""
    draws: Draws | None = field(repr=False)
    """Draws of the risk measures; None where the file itself tells the risk."""
    registry: Registry | None = field(repr=False, default=None)

    def estimate(self, level: float = 0.95) -> RiskEstimate:
        """Summarise the draws: τ1, τ2 and the risk of every record, with intervals.

        Parameters
        ----------
        level
            Probability of the equal-tailed intervals, between 0 and 1.

        Raises
        ------
        SpecError
            If the level is not between 0 and 1.
        """
        return assess(self.draws, self.table, level=level)

    def registry_risk(self, level: float = 0.95) -> RegistryRisk | None:
        """Summarise the draws for the records of the registry, if there is one."""
        if self.draws is None or self.registry is None:
            return None
        return registry_risk(self.draws, self.registry, level=level)


def fit(
    model: Any,
    table: CellTable,
    *,
    seed: int = 1,
    plan: Plan | None = None,
    level: float = 0.95,
    registry: Registry | None = None,
    checkpoint: Checkpoint | None = None,
    execution: Execution | None = None,
) -> Fit:
    """Fit a model to a table until its risk measures have converged.

    The draws depend on model, table, seed, plan and registry alone; not on workers, threads or
    interruptions.

    Parameters
    ----------
    model
        Any model of the catalogue, or `Auto`, which selects one; or its name, with options after
        colons: `"gom:components=30"`. The model of households is fitted twice, the second time with
        its error.
    table
        The sample, with its design and structural zeros if it has any: from :func:`tabulate`, or
        `Microdata.tabulate`.
    seed
        Not negative.
    plan
        Number of chains, thinning, and when to stop.
    level
        Probability of the intervals that `auto` reports of its candidates.
    registry
        Registered units whose risk is estimated too.
    checkpoint
        Where the chains are saved, and whether saved ones are continued.
    execution
        Workers, progress, and where `auto` keeps what it has found.

    Returns
    -------
    Fit
        With draws, or without where the file itself tells the risk (the whole population, or no
        sample uniques).

    Raises
    ------
    SpecError
        If an option is out of range, the model refuses the table, or it cannot estimate the risk
        of a registry.
    OutputError
        If a checkpoint cannot be written or read.
    KeyboardInterrupt
        On Ctrl-C before there are draws; later, the draws so far are returned.

    Examples
    --------
    >>> from unikat import CellTable, HDP, Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2]], keys, population_size=3)
    >>> fit(HDP(), table).estimate().tau1.mean
    1.0
    """
    model = model_of(model)
    if not isinstance(table, CellTable):
        raise SpecError(
            f"The table is of type {type(table).__name__} and no CellTable; count the records "
            "first: unikat.tabulate(data, population_size=N)."
        )
    if not isinstance(plan, Plan | None):
        raise SpecError(f"plan is {shown(plan)}; it must be a Plan, such as Plan(n_chains=4).")
    model.check_keys([key.name for key in table.keys])
    if registry is not None:
        check_registry(model)
    if registry is None and known_exactly(table):
        return Fit(table=table, model=model, draws=None)
    execution = execution or Execution()
    plan = plan or Plan()
    run = WholeRun(
        watcher=execution.watcher, level=level, stop=plan.stop, is_all=execution.whole_run
    )
    model = decided(
        model,
        table,
        seed=seed,
        n_chains=plan.n_chains,
        most_sweeps=plan.stop.max_sweeps,
        level=level,
        execution=execution,
        run=run,
    )
    execution.watcher.stage(_stage(model))
    fitted, observer = observed(model, table, registry)
    draws = sample(
        model,
        fitted,
        observer,
        seed=seed,
        plan=plan,
        start=model.start if isinstance(model, Calibrated) else None,
        workers=execution.workers,
        checkpoint=checkpoint,
        progress=run.last().progress,
    )
    return Fit(table=table, model=model, draws=draws, registry=registry)


def observed(
    model: Any, table: CellTable, registry: Registry | None = None
) -> tuple[CellTable, Observer]:
    """Return the table that a model is fitted to, and what `fit` computes from its states."""

    def measures(at_risk: CellTable) -> Observer:
        found = (HouseholdMeasures if at_risk.layout else RiskMeasures).of(at_risk)
        return found if registry is None else RegistryMeasures(measures=found, registry=registry)

    return observe(model, table, measures)


def complete_fit(
    name: str, model: Any, table: CellTable, *, execution: Execution, **how: Any
) -> Fit:
    """Fit as `fit` does, for a run of several fits: Ctrl-C ends it, draws or not.

    Parameters
    ----------
    name
        Of the fit among those of the run, under which it is kept. It tells the table, if that
        depends on what was found before.
    model, table, execution, how
        As of `fit`.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; and as `fit`.
    """
    kept = execution.of(name)
    found = fit(model, table, checkpoint=kept.checkpoint, execution=kept, **how)
    if found.draws is not None and found.draws.stop_reason == "interrupted":
        raise KeyboardInterrupt
    return found


def check_registry(model: Any) -> None:
    """Refuse a model that cannot estimate the risk of a registry (SpecError)."""
    if model.uses_weights:
        raise SpecError(
            f"The model {model.name} sees cells and not keys, so it cannot estimate how frequent "
            "cells are that no record of the survey has, as most of a registry's; name another "
            "with model (--model), or leave the registry out."
        )


def _stage(model: Any) -> str:
    """Say what is fitted."""
    if not isinstance(model, Calibrated) or model.told is None:
        return "Fitting"
    error = ", together with its error" if model.weights else ""
    if model.told.chosen is None:
        return f"Fitting{error}"
    return f"Fitting the selected model, {model.told.chosen}{error}"
