"""The error of tau1 of a log-linear fit, Skinner and Shlomo's B1, and a consistent expansion.

    python benchmarks/bias.py
    python benchmarks/bias.py --rate 0.5 2.6 5 --samples 100

The population is independent in three keys of equal shares but for gamma effects of the cells with
a coefficient of variation of 0.3, and is sampled at one in ten. Independence is fitted. Its error
is expected tau1 of the fit less the true tau1. B1 and the expansion around the fitted rate
(`models/loglinear/selection.py`) are computed from the sample alone. Means over samples, with their
standard errors.
"""

from __future__ import annotations

import argparse

import numpy as np
from common import machine, print_table

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels.bias import bias_weights
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.selection import evidence

LEVELS = (20, 30, 30)
SHARE = 0.1
VARIATION = 0.3


def errors(rate: float, seed: int) -> list[float]:
    """Draw a population and a sample: error of tau1, B1, expansion, B1 / sqrt(nu)."""
    rng = np.random.default_rng(seed)
    shape = VARIATION**-2
    population = rng.poisson(rate * rng.gamma(shape, 1.0 / shape, size=LEVELS))
    sample = rng.binomial(population, SHARE)
    cells = np.argwhere(sample > 0)
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
    codes = np.repeat(cells, sample[sample > 0], axis=0)
    table = CellTable.from_codes(codes, keys, int(population.sum()))
    fitted = fit(table, ((0,), (1,), (2,)))
    found = evidence(table, fitted)
    everywhere = np.argwhere(np.ones(LEVELS, bool)).astype(np.int32)
    means = table.n_records * fitted.probabilities(everywhere)
    share = table.n_records / table.n_units
    first, second = np.array([bias_weights(mean, share)[:2] for mean in means]).T
    gap = sample.ravel() - means
    squares = gap**2 - sample.ravel()
    # B1 weighs the squares with u h'' / 2, the expansion with -(u' h' + u h'' / 2).
    change = (
        (1.0 - means) * np.exp(-means) * -(1.0 - share) * np.exp(-(1.0 - share) * means / share)
    )
    expansion = (first * gap - (change / share + second) * squares).sum()
    true = ((sample == 1) & (population == 1)).sum()
    return [found.tau1 - true, (first * gap + second * squares).sum(), expansion, found.b1]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, nargs="+", default=[0.5, 1.0, 2.6, 5.0])
    parser.add_argument("--samples", type=int, default=40)
    options = parser.parse_args()
    print(machine(), end="\n\n")
    rows = []
    for rate in options.rate:
        found = np.array([errors(rate, seed) for seed in range(options.samples)])
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        rows.append(
            [
                f"{rate:g}",
                *(f"{a:+.1f} ± {b:.1f}" for a, b in zip(found.mean(0), error, strict=True)),
            ]
        )
    print_table(["mean rate", "error of τ1", "B1", "expansion", "B1/√ν"], rows)


if __name__ == "__main__":
    main()
