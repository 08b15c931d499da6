"""Hyperparameters of the superpopulation models: prior, where the posterior lies, how it is drawn.

There are at most three, and the likelihood takes milliseconds. Newton's method finds the modes of
the posterior once, from two starts. The sampler then proposes independently from t distributions at
the modes; nearly all proposals are accepted. A last proposal near the state serves where these do
not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int64
from unikat.errors import SpecError

_FREEDOM = 3.0
"""Of the t distributions: their tails are heavier than the prior's."""
_GAP = 0.02
"""Between points of finite differences; all coordinates are logarithms."""
_LONGEST = 1.5
"""Longest step along a coordinate."""
_MOVES = 3
"""Independent proposals in a sweep; they cost little compared with drawing its rates."""
_WIDE = 3.0
"""Starts are so much wider than the posterior."""
_BOUND = 60.0


class Proposal(NamedTuple):
    """Modes of the posterior, and how wide it is there."""

    free: Int64
    """(n_free,): coordinates that are drawn."""
    modes: Float64
    """(n_modes, 3)"""
    roots: Float64
    """(n_modes, n_free, n_free): square roots of the covariance."""
    chances: Float64
    """(n_modes,)"""

    @classmethod
    def none(cls) -> Proposal:
        """Nothing, before it is known."""
        return cls(np.empty(0, np.int64), np.zeros((1, 3)), np.empty((1, 0, 0)), np.ones(1))

    def start(self, generator: np.random.Generator, chain: int) -> Float64:
        """Draw a start, (3,): three times as far from a mode as a draw would be."""
        mode = chain % len(self.modes)
        position: Float64 = self.modes[mode].copy()
        position[self.free] += _WIDE * self.roots[mode] @ generator.standard_normal(len(self.free))
        return position

    def move(
        self,
        generator: np.random.Generator,
        position: Float64,
        value: float,
        function: Callable[[Float64], float],
    ) -> tuple[Float64, float]:
        """Make Metropolis-Hastings moves; `function` is the log of the posterior density."""
        n = len(self.free)
        if not n:
            return position, value
        for _ in range(_MOVES):
            mode = generator.choice(len(self.modes), p=self.chances)
            there = self.modes[mode].copy()
            t = generator.standard_normal(n) / math.sqrt(generator.chisquare(_FREEDOM) / _FREEDOM)
            there[self.free] += self.roots[mode] @ t
            ratio = self._log_density(position) - self._log_density(there)
            position, value = _accepted(generator, position, value, there, function(there), ratio)
        mode = generator.choice(len(self.modes), p=self.chances)
        there = position.copy()
        there[self.free] += 2.0 / math.sqrt(n) * self.roots[mode] @ generator.standard_normal(n)
        return _accepted(generator, position, value, there, function(there), 0.0)

    def _log_density(self, position: Float64) -> float:
        """Log density of the independent proposal, up to a constant."""
        n = len(self.free)
        logs = []
        for mode, root, chance in zip(self.modes, self.roots, self.chances, strict=True):
            away = np.linalg.solve(root, position[self.free] - mode[self.free])
            log_volume = float(np.linalg.slogdet(root)[1])
            tail = math.log1p(float(away @ away) / _FREEDOM)
            logs.append(math.log(chance) - log_volume - 0.5 * (_FREEDOM + n) * tail)
        return float(np.logaddexp.reduce(logs))


def _accepted(
    generator: np.random.Generator,
    here: Float64,
    value: float,
    there: Float64,
    new: float,
    ratio: float,
) -> tuple[Float64, float]:
    """Accept a proposal or stay; `ratio` is that of the proposals' densities."""
    log_uniform = -generator.standard_exponential()
    if math.isfinite(new) and (not math.isfinite(value) or log_uniform < new - value + ratio):
        return there, new
    return here, value


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """Three of them, as logarithms; the third may be a chance, as its logit.

    Parameters
    ----------
    names
        What they are called.
    given
        Their values where they are not drawn.
    centre, spread
        Prior normal means and deviations: of log alpha, of log a, and of log a - log b.
    offset
        log a less the logarithm of the shape of the sampling rate.
    chance
        Beta prior of the third if it is a chance.
    """

    names: tuple[str, str, str]
    given: tuple[float | None, float | None, float | None]
    centre: tuple[float, float, float]
    spread: tuple[float, float, float]
    offset: float
    chance: tuple[float, float] | None

    @property
    def free(self) -> list[int]:
        """Coordinates that are drawn."""
        return [i for i, value in enumerate(self.given) if value is None]

    def log_prior(self, position: Float64) -> float:
        """Log of the prior density of the coordinates, up to a constant."""
        alpha, a, third = position.tolist()
        if any(abs(position[i]) > _BOUND for i in self.free):
            return -math.inf
        away = [alpha - self.centre[0], a - self.centre[1], a - third - self.centre[2]]
        value = 0.0
        if self.chance is not None:
            away.pop()
            if 2 in self.free:
                value -= self.chance[0] * math.log1p(math.exp(-third))
                value -= self.chance[1] * math.log1p(math.exp(third))
        terms = zip(away, self.spread, strict=False)
        return float(value - 0.5 * sum((gap / spread) ** 2 for gap, spread in terms))

    def _place(self, alpha: float, a: float) -> Float64:
        """Coordinates at which the third has its prior centre, but for what is given."""
        third = 0.0 if self.chance is not None else a - self.centre[2]
        position = np.array([alpha, a, third])
        for i, value in enumerate(self.given):
            if value is not None and i == 2 and self.chance is not None:
                position[i] = math.inf if value == 1.0 else math.log(value / (1.0 - value))
            elif value is not None:
                position[i] = math.log(value)
        return position

    def explore(self, log_likelihood: Callable[[Float64], float]) -> Proposal:
        """Find the modes of the posterior.

        The counts nearly are Poisson with a product of two gamma variables, so exchanging their
        shapes leads to where a second mode may be.
        """
        free = np.array(self.free, np.int64)
        alpha, a = self.centre[:2]
        start = self._place(alpha, a)
        if not len(free):
            return Proposal.none()._replace(modes=start[None])

        def function(position: Float64) -> float:
            prior = self.log_prior(position)
            return prior + log_likelihood(position) if math.isfinite(prior) else prior

        found: list[tuple[float, Float64, Float64]] = []
        try:
            for place in (start, self._place(a - self.offset, alpha + self.offset)):
                position, value, root = _climb(function, place, free)
                away = [
                    np.linalg.solve(other[2], position[free] - other[1][free]) for other in found
                ]
                if all(np.linalg.norm(gap) > 0.5 for gap in away):
                    found.append((value + float(np.linalg.slogdet(root)[1]), position, root))
        except np.linalg.LinAlgError:
            found = []
        logs = np.array([log for log, _, _ in found])
        if not found or not np.isfinite(logs).all():
            raise SpecError(
                "The likelihood of the superpopulation model has no finite value near the "
                "hyperparameters and priors that are given as options; leave options out, or give "
                "values nearer to those of the paper."
            )
        # What is left out is reached by the other proposal.
        kept = [i for i in np.argsort(-logs) if logs[i] > logs.max() - 15.0]
        chances = np.exp(logs[kept] - logs.max())
        # The least that a mode is proposed: its height may be misjudged.
        chances = np.maximum(chances / chances.sum(), 0.02)
        return Proposal(
            free=free,
            modes=np.stack([found[i][1] for i in kept]),
            roots=np.stack([found[i][2] for i in kept]),
            chances=chances / chances.sum(),
        )

    def as_facts(self) -> dict[str, Any]:
        """What is given, and the prior of the others, for the result."""
        found: dict[str, Any] = {}
        for i, name in enumerate(self.names):
            if self.given[i] is not None:
                found[name] = {"given": self.given[i]}
            elif i == 2 and self.chance is not None:
                found[name] = {"prior": "beta", "parameters": list(self.chance)}
            elif i == 2:
                found["a / b"] = {
                    "prior": "lognormal",
                    "median": math.exp(self.centre[2]),
                    "spread": self.spread[2],
                }
            else:
                found[name] = {
                    "prior": "lognormal",
                    "median": math.exp(self.centre[i]),
                    "spread": self.spread[i],
                }
        return found


def _climb(
    function: Callable[[Float64], float], start: Float64, free: Int64
) -> tuple[Float64, float, Float64]:
    """Newton's method with finite differences: mode, its height, and the root of the covariance.

    SciPy's `minimize(method="L-BFGS-B")` takes 1.2 to 2.7 times as long on the tables of
    `benchmarks/optimisers.py`, since the covariance has to be found after it: 338 and 242
    likelihoods beside 210 and 236, and a mode no higher.
    """
    position, value = start, function(start)
    root = np.eye(len(free))
    for _ in range(40):
        gradient, curvature = _derivatives(function, position, value, free)
        size, axes = np.linalg.eigh(-curvature)
        # Where it bends upwards, or not at all, as if it bent downwards.
        size = np.maximum(np.abs(size), 0.05)
        root = 1.3 * axes / np.sqrt(size)
        step = axes @ (axes.T @ gradient / size)
        step /= max(1.0, float(np.abs(step).max()) / _LONGEST)
        rise = float(gradient @ step)
        better = False
        for _ in range(8):
            there = position.copy()
            there[free] += step
            new = function(there)
            if new > value:
                position, value, better = there, new, True
                break
            step *= 0.5
        if rise < 1e-3 or not better:
            break
    return position, value, root


def _derivatives(
    function: Callable[[Float64], float], position: Float64, value: float, free: Int64
) -> tuple[Float64, Float64]:
    """Gradient and second derivatives along the free coordinates, by central differences."""
    n = len(free)
    units = np.zeros((n, len(position)))
    units[np.arange(n), free] = _GAP
    up = [function(position + unit) for unit in units]
    down = [function(position - unit) for unit in units]
    gradient = (np.array(up) - np.array(down)) / (2.0 * _GAP)
    curvature = np.diag((np.array(up) + np.array(down) - 2.0 * value) / _GAP**2)
    for i in range(n):
        for j in range(i):
            both = function(position + units[i] + units[j])
            across = (both - up[i] - up[j] + value) / _GAP**2
            opposite = function(position - units[i] - units[j])
            across = 0.5 * (across + (opposite - down[i] - down[j] + value) / _GAP**2)
            curvature[i, j] = curvature[j, i] = across
    return gradient, curvature
