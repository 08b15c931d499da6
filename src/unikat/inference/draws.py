"""What sampling returns, and the protocol of what is computed from a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from unikat._typing import Float64
from unikat.models.base import AnyModel, Stream


class Observer(Protocol):
    """What is computed from kept states: scalars per draw, and running totals.

    Totals are a NamedTuple of NumPy arrays; totals of segments and chains are merged by adding
    the arrays, so their size does not grow with the number of draws.
    """

    monitored: tuple[str, ...]
    """Names of the scalars on which convergence is judged."""

    def start(self) -> Any:
        """Return empty totals."""
        ...

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: Any
    ) -> Mapping[str, float]:
        """Add one kept state to `totals` (in place) and return its scalars."""
        ...


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Convergence of one scalar over the retained draws (rank-normalised split R-hat, ESS)."""

    rhat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Posterior draws: every kept scalar, and the observer's totals of the retained part."""

    scalars: Mapping[str, Float64]
    """Each (n_chains, n_draws), the discarded first part included."""
    n_discarded: int
    """Draws at the start of every chain that are not used."""
    totals: Any
    """The observer's totals over the retained draws of all chains."""
    thin: int
    """Sweeps per kept draw."""
    n_sweeps: int
    """Sweeps made by each chain, the discarded first part included."""
    n_chains: int
    seed: int
    seconds: float
    converged: bool
    stop_reason: str
    """One of 'converged', 'sweep limit', 'time limit', 'interrupted'."""
    diagnostics: Mapping[str, Diagnostics]
    """For each monitored scalar."""
    model: AnyModel
    observer: Observer

    def retained(self, name: str) -> Float64:
        """Draws of a scalar that are used, (n_chains, n_retained)."""
        return self.scalars[name][:, self.n_discarded :]
