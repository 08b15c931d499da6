"""R-hat (rank-normalised, split) and effective sample sizes (bulk, tail); `chains.py` judges them.

Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Bayesian Analysis 16, 667-718; computed
by ArviZ.
"""

from __future__ import annotations

import contextlib
import math
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np

from unikat._typing import Float64
from unikat.inference.draws import Diagnostics, Draws

TAIL = (0.05, 0.95)
"""The quantiles of the tail ESS."""
ENDS = 4.0
"""Draws of a scalar that is judged by its part, as a multiple of the effective sample size that is
asked for. With 1,600 independent draws the Monte Carlo standard error of an end of a 95% interval
is 1/15 of the standard deviation (2.67 / sqrt(1600)); with the error of the chains it is 1/12."""
LEAST_SHARE = 0.2
"""R-hat below 1.05 of what the chains know, and 80 effective draws of it, are always asked for."""
MIN_DRAWS = 8
"""Below this a chain cannot be split and ranked usefully."""


def start_import() -> None:
    """Import ArviZ (seconds) in the background, while the first rounds run."""
    threading.Thread(target=_try_import, name="unikat-import", daemon=True).start()


def _try_import() -> None:
    # What goes wrong here goes wrong again, and is reported, where it is needed.
    with contextlib.suppress(ImportError):
        _array_stats()


def _array_stats() -> Any:
    """ArviZ's functions on arrays; the module that has had this name since 0.8, and in 1.x."""
    return import_module("arviz_stats.base").array_stats


def diagnose(draws: Float64) -> Diagnostics:
    """Diagnose one scalar.

    A scalar that is the same in every draw of every chain has R-hat 1 and as many effective draws
    as draws: nothing speaks against convergence. A single chain is judged as its two halves. Where
    a value is not finite, or there are too few draws, all three numbers are NaN.

    Parameters
    ----------
    draws
        (n_chains, n_draws), the retained draws.

    Examples
    --------
    >>> import numpy as np
    >>> diagnose(np.zeros((4, 50)))
    Diagnostics(rhat=1.0, ess_bulk=200.0, ess_tail=200.0)
    """
    if len(draws) == 1:
        half = draws.shape[1] // 2
        # Of one draw no halves are left.
        draws = draws[:, draws.shape[1] - 2 * half :].reshape(2, half)
    if draws.shape[1] < MIN_DRAWS or not np.isfinite(draws).all():
        return Diagnostics(rhat=math.nan, ess_bulk=math.nan, ess_tail=math.nan)
    if (draws == draws[0, 0]).all():
        return Diagnostics(rhat=1.0, ess_bulk=float(draws.size), ess_tail=float(draws.size))
    stats = _array_stats()
    # Chains that are constant, each at another value, divide by zero: R-hat is then infinite.
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Diagnostics(
            rhat=float(stats.rhat(draws)),
            ess_bulk=float(stats.ess(draws, method="bulk")),
            ess_tail=float(stats.ess(draws, method="tail", prob=TAIL)),
        )


def as_part(found: Diagnostics, part: Float64, whole: Float64) -> Diagnostics:
    """Turn the diagnostics of a part of a scalar into those of the scalar by this part.

    X = Y e is reported. The chains sample Y; every draw has an e of its own, independent of Y. So
    draws of X are nearly independent, and few of them hide that the chains disagree on Y. Where
    they disagree, X moves by the same share as Y. The relative Monte Carlo variance of X by the
    chains is therefore that of Y, and is compared with the relative variance of X:

        share = (Var Y / (E Y)²) / (Var X / (E X)²),
        R-hat² - 1 = share (R-hat(Y)² - 1),        ESS = ESS(Y) / share.

    With an ESS of 400 the Monte Carlo error of the mean of X by the chains is 1/20 of its standard
    deviation; that of the ends of its interval is about the same. The draws of e add little to it
    with `ENDS` times as many draws. The share counts as `LEAST_SHARE` at least, so that the chains
    have to agree however large the error is.

    Parameters
    ----------
    found
        Of Y.
    part, whole
        (n_chains, n_draws): Y and X.

    Examples
    --------
    >>> import numpy as np
    >>> part = np.array([[98.0, 102.0], [97.0, 103.0]])
    >>> found = Diagnostics(rhat=1.0, ess_bulk=100.0, ess_tail=120.0)
    >>> as_part(found, part, 100.0 + 2.0 * (part - 100.0))
    Diagnostics(rhat=1.0, ess_bulk=400.0, ess_tail=480.0)
    """
    share = 1.0
    if part.mean() > 0.0 and whole.var() > 0.0:
        share = float(part.var() / whole.var() * (whole.mean() / part.mean()) ** 2)
    share = min(max(share, LEAST_SHARE), 1.0)
    return Diagnostics(
        rhat=math.sqrt(1.0 + share * (found.rhat**2 - 1.0)),
        ess_bulk=found.ess_bulk / share,
        ess_tail=found.ess_tail / share,
    )


def worst_rhat(diagnostics: Mapping[str, Diagnostics]) -> float:
    """Largest R-hat; NaN if one of them is, or there is none."""
    return _extreme(np.max, [one.rhat for one in diagnostics.values()])


def worst_ess(diagnostics: Mapping[str, Diagnostics], n_draws: int | None = None) -> float:
    """Smallest effective sample size, bulk or tail; NaN if one of them is, or there is none.

    Where scalars are judged by a part, of `n_draws` draws, it is that divided by `ENDS` at most.
    """
    least = _extreme(
        np.min, [ess for one in diagnostics.values() for ess in (one.ess_bulk, one.ess_tail)]
    )
    return least if n_draws is None else float(np.minimum(least, n_draws / ENDS))


def _extreme(pick: Any, values: list[float]) -> float:
    return float(pick(values)) if values else math.nan


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """How the posterior of a fit was sampled."""

    n_chains: int
    n_sweeps: int
    """Sweeps of each chain, the discarded first part included."""
    thin: int
    n_draws: int
    """Draws used, all chains together."""
    n_discarded: int
    """Draws at the start of each chain that are not used."""
    rhat: float | None
    """Largest R-hat of all that decides when sampling ends; None where it is not known."""
    ess: float | None
    """Smallest effective sample size of the same, bulk or tail."""

    @classmethod
    def of(cls, draws: Draws, **more: Any) -> Self:
        """Note how draws were made, with `more` fields of a class that has them."""
        n_kept = next(iter(draws.scalars.values())).shape[1] - draws.n_discarded
        rhat, ess = worst_rhat(draws.diagnostics), worst_ess(draws.diagnostics)
        return cls(
            n_chains=draws.n_chains,
            n_sweeps=draws.n_sweeps,
            thin=draws.thin,
            n_draws=n_kept * draws.n_chains,
            n_discarded=draws.n_discarded,
            rhat=rhat if math.isfinite(rhat) else None,
            ess=ess if math.isfinite(ess) else None,
            **more,
        )
