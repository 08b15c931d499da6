"""How a model is observed: the table it is fitted to, and what is computed from its states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unikat.data.table import CellTable
from unikat.inference.draws import Observer
from unikat.risk.bootstrap import Bootstrapped
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures

Measures = Callable[[CellTable], Observer]
"""Makes an observer for the table whose records are at risk."""


def observe(
    model: Any, table: CellTable, measures: Measures = RiskMeasures.of
) -> tuple[CellTable, Observer]:
    """Return the table that a model is fitted to, and its observer.

    With a design the two tables differ (`risk.exposure.views`). The model's `uncertainty` says
    what its draws are, and so what the observer adds to the measures.
    """
    fitted, at_risk = views(model, table)
    return fitted, observer_for(model, measures(at_risk), at_risk)


def observer_for(model: Any, measures: Observer, table: CellTable) -> Observer:
    """Return the observer of a model: with bootstrap errors if its draws are of a bootstrap.

    Where the model puts its own error on the probabilities, convergence is judged without it too.
    """
    if model.uncertainty == "bootstrap":
        return Bootstrapped.of(measures, table)
    if model.uncertainty == "calibrated":
        return measures.judged_without_error()
    return measures
