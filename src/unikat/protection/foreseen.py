"""What a search will take, before the fit that it looks at: one state is made and looked at."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.processes import available_cores
from unikat.models.base import AnyModel, Stream
from unikat.protection.going_on import N_STATES
from unikat.protection.recoding import Recoding, recodable, unchanged
from unikat.protection.search import MOST_LOOKS
from unikat.protection.what_if import Posterior
from unikat.risk.exposure import fitted_table

_SWEEPS = 3
_STATES = 5.0
"""Looks at a state of the file as it is that take as long as a look of a search, at most: of most
plans few states tell, and a coarser file has fewer cells. In runs of `benchmarks/time_left.py` it
was 1.3."""
_FEWEST, _MOST_CLOSELY = 4, 24
"""Plans that are looked at by all states."""


class SearchSeconds(NamedTuple):
    """Seconds of a search, and of the looks by all states that follow."""

    search: float
    """At most; it may end at once."""
    closely: tuple[float, float]
    """At least and at most."""


def search_seconds(model: AnyModel, table: CellTable, seed: int) -> SearchSeconds:
    """Foresee a search and the looks by all states that follow.

    A look takes as long as there are cells, classes of a design and members of households to look
    at, so one is made, at the file as it is, which has the most cells. The state is that of a few
    sweeps, and has more components than later ones.

    Parameters
    ----------
    model, table
        That is fitted. A model without states takes no time.
    seed
        Of the run.
    """
    fitted = fitted_table(table)
    recoding = Recoding(keys=tuple(map(unchanged, recodable(table))))
    try:
        data = model.prepare(fitted)
        state = model.init(Stream(seed, 0, 0), data)
        for sweep in range(1, _SWEEPS + 1):
            state, _ = model.step(Stream(seed, 0, sweep), state, data, 1)
        states = (((Stream(seed, 0, _SWEEPS), state),),)
        posterior = Posterior(table=table, fitted=fitted, model=model, data=data, states=states)
        took = []
        for _ in range(2):
            # The first look compiles; a copy remembers nothing of it.
            fresh, begun = replace(posterior), time.perf_counter()
            fresh.law(recoding, recoding.table(table), 1, of_sums=False)
            took.append(time.perf_counter() - begun)
    except (SpecError, AttributeError, NotImplementedError, ArithmeticError, MemoryError):
        return SearchSeconds(0.0, (0.0, 0.0))
    of_state = min(took) / available_cores()
    of_look = N_STATES * of_state
    return SearchSeconds(
        MOST_LOOKS * _STATES * of_state, (_FEWEST * of_look, _MOST_CLOSELY * of_look)
    )
