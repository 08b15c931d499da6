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
from importlib import import_module
from typing import Any

import numpy as np

from unikat._typing import Float64
from unikat.inference.draws import Diagnostics

TAIL = (0.05, 0.95)
"""The quantiles of the tail ESS."""
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
        draws = draws[:, -2 * half :].reshape(2, half)
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


def worst_rhat(diagnostics: Mapping[str, Diagnostics]) -> float:
    """Largest R-hat; NaN if one of them is, or there is none."""
    return _extreme(np.max, [one.rhat for one in diagnostics.values()])


def worst_ess(diagnostics: Mapping[str, Diagnostics]) -> float:
    """Smallest effective sample size, bulk or tail; NaN if one of them is, or there is none."""
    return _extreme(
        np.min, [ess for one in diagnostics.values() for ess in (one.ess_bulk, one.ess_tail)]
    )


def _extreme(pick: Any, values: list[float]) -> float:
    return float(pick(values)) if values else math.nan
