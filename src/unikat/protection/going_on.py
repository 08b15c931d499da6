"""States of a posterior, from where the chains of a fit ended."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unikat.inference.draws import Draws
from unikat.inference.processes import available_cores
from unikat.models.base import AnyModel, Stream, n_bytes

N_STATES = 400
"""States that are kept, at most."""
MOST_BYTES = 4e8
"""Of memory that they take."""
MOST_GOING_ON = 0.5
"""Sweeps made for the states, at most, over those that the fit's draws took."""


class Ends(NamedTuple):
    """Where the chains of a fit ended, and what says how far to go on from there."""

    states: tuple[Any, ...]
    """The last state of every chain."""
    seed: int
    last: int
    """Number of the last sweep."""
    made: int
    """Sweeps of each chain that the used draws took."""

    @classmethod
    def of(cls, draws: Draws) -> Ends:
        """Take them from the draws of a fit."""
        last = draws.n_before + draws.n_sweeps
        made = len(draws.retained_sweeps()) * draws.thin
        return cls(draws.states, draws.seed, last, made)


@dataclass(frozen=True, kw_only=True, eq=False)
class GoingOn:
    """Makes states of a posterior, from where the chains of a fit ended."""

    ends: Ends = field(repr=False)
    n_states: int = N_STATES
    """Of all chains; fewer where they would take more than `MOST_BYTES`."""
    n_threads: int | None = None
    """Chains that go on at the same time; None: one for each core. No number depends on it."""
    progress: Callable[[float], None] | None = None
    """Given the share that is done, now and then."""

    def states(self, model: AnyModel, data: Any) -> tuple[tuple[tuple[Stream, Any], ...], ...]:
        """Go on with every chain, and keep states that are evenly apart."""
        states, seed, last, made = self.ends
        size = n_bytes(states[0])
        each = max(min(self.n_states, int(MOST_BYTES / max(size, 1))) // len(states), 2)
        apart = max(round(MOST_GOING_ON * made / each), 1)
        n_kept = itertools.count(1)

        def go_on(chain: int) -> tuple[tuple[Stream, Any], ...]:
            state, kept = states[chain], []
            for sweep in range(last + 1, last + each * apart + 1):
                stream = Stream(seed, chain, sweep)
                state, _ = model.step(stream, state, data, 1)
                if (sweep - last) % apart == 0:
                    kept.append((stream, state))
                    if self.progress is not None:
                        self.progress(next(n_kept) / (each * len(states)))
            return tuple(kept)

        with ThreadPoolExecutor(self.n_threads or available_cores()) as pool:
            return tuple(pool.map(go_on, range(len(states))))
