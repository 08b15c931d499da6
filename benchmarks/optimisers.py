"""The optimisers of the models against those of SciPy, on the same problems.

    python benchmarks/optimisers.py
    OPENBLAS_NUM_THREADS=1 python benchmarks/optimisers.py    # SciPy without threads

Fits of log-linear models by L-BFGS (`models/loglinear/quasi_newton.py`), and the modes of the
hyperparameters of the superpopulation models by Newton's method
(`models/cells/hyperparameters.py`). Each problem is solved by ours and by
`scipy.optimize.minimize(method="L-BFGS-B")`; the rest of the fit is the same. Times are the fastest
of some repeats.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from common import cell_table, machine, print_table
from scipy.optimize import minimize

from unikat.data.table import CellTable
from unikat.models.cells import hyperparameters
from unikat.models.loglinear import maximum_likelihood
from unikat.models.loglinear.terms import all_interactions
from unikat.models.named import build_model


def scipy_minimise(function: Any, start: Any, longest: Any, most: int) -> None:
    """As `quasi_newton.minimise`; SciPy has no limit on the length of a step."""
    options = {"maxcor": 30, "maxfun": most, "maxiter": most, "ftol": 0.0, "gtol": 0.0}
    minimize(function, start, jac=True, method="L-BFGS-B", options=options)


def scipy_climb(function: Any, start: Any, free: Any) -> Any:
    """As `hyperparameters._climb`: the covariance by finite differences at the mode."""

    def negative(part: Any) -> float:
        position = start.copy()
        position[free] = part
        value = function(position)
        return -value if np.isfinite(value) else 1e300

    found = minimize(negative, start[free], method="L-BFGS-B", options={"eps": 1e-3})
    position = start.copy()
    position[free] = found.x
    value = function(position)
    _, curvature = hyperparameters._derivatives(function, position, value, free)
    size, axes = np.linalg.eigh(-curvature)
    return position, value, 1.3 * axes / np.sqrt(np.maximum(np.abs(size), 0.05))


def fastest(solve: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Seconds of the fastest of some repeats, and the last result."""
    seconds, found = np.inf, solve()
    for _ in range(repeats):
        started = time.perf_counter()
        found = solve()
        seconds = min(seconds, time.perf_counter() - started)
    return seconds, found


def fits(name: str, table: CellTable, order: int, repeats: int) -> list[list[object]]:
    """Fit all interactions of an order."""
    terms = all_interactions(table.n_keys, order)
    rows: list[list[object]] = []
    for who, minimise in (("ours", maximum_likelihood.minimise), ("SciPy", scipy_minimise)):
        with patch.object(maximum_likelihood, "minimise", minimise):
            seconds, found = fastest(lambda: maximum_likelihood.fit(table, terms), repeats)
        rows.append([name, who, f"{seconds:.3f} s", found.n_walks, f"{found.margin_error:.1e}"])
    return rows


def modes(name: str, table: CellTable, model: str, repeats: int) -> list[list[object]]:
    """Explore the posterior of the hyperparameters."""
    rows: list[list[object]] = []
    built = build_model(model, {})
    likelihood = type(built)._log_likelihood
    for who, climb in (("ours", hyperparameters._climb), ("SciPy", scipy_climb)):
        calls = [0]

        def counted(*arguments: Any, calls: list[int] = calls) -> float:
            calls[0] += 1
            return likelihood(*arguments)

        with (
            patch.object(hyperparameters, "_climb", climb),
            patch.object(type(built), "_log_likelihood", counted),
        ):
            seconds, data = fastest(lambda: built.prepare(table), repeats)
        heights = [built._value(mode, data) for mode in data.proposal.modes]
        rows.append(
            [name, who, f"{seconds:.3f} s", calls[0] // (repeats + 1), f"{max(heights):.4f}"]
        )
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(machine(), end="\n\n")
    small, large = cell_table("ny2000_clean_1000"), cell_table("ny2000_clean_10000")
    rows = fits("two-way, n = 1,000", small, 2, repeats)
    rows += fits("two-way, n = 10,000", large, 2, repeats)
    print_table(["log-linear fit", "optimiser", "seconds", "walks", "margin error"], rows)
    print()
    rows = modes("superpopulation-1, n = 10,000", large, "superpopulation-1", repeats)
    rows += modes("superpopulation-2, n = 10,000", large, "superpopulation-2", repeats)
    print_table(["hyperparameters", "optimiser", "seconds", "likelihoods", "log density"], rows)


if __name__ == "__main__":
    main()
