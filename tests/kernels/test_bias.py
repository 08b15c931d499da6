"""Sums of Skinner and Shlomo's criteria against all cells, listed one by one, in 60 digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernels.test_loglinear import random_case
from unikat.kernels import bias
from unikat.kernels import loglinear as kernels


@pytest.mark.parametrize("share", [1e-4, 0.02, 0.5, 0.999])
@pytest.mark.parametrize("x", [1e-12, 1e-4, 0.0199, 0.0201, 0.3, 1.0, 7.0, 60.0, 400.0])
def test_derivatives_of_the_risks(x, share):
    """Around the switch to the series too: relative error below 1e-10 (bend: 1e-9)."""
    rest = 1.0 - share
    rate = x / rest
    got = bias.risk_derivatives(rate, share)
    with localcontext() as context:
        context.prec = 80
        r, y = Decimal(rest), Decimal(rest) * Decimal(rate)
        decay = (-y).exp()
        expected = [
            -r * decay,
            r * r * decay,
            r * (decay * (y + 1) - 1) / y**2,
            r * r * (2 - decay * (y * y + 2 * y + 2)) / y**3,
        ]
    for ours, theirs, tolerance in zip(got, expected, (1e-13, 1e-13, 1e-10, 1e-9), strict=True):
        assert math.isclose(ours, float(theirs), rel_tol=tolerance * (1.0 + x))


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_sums_over_all_cells_by_the_empty_and_the_occupied(seed):
    """B1, nu1, B2, nu2 and the squared means, of random models and random counts, to 1e-9."""
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    n = float(rng.integers(1, 200))
    share = float(rng.choice([0.9, 0.1, 0.003]))
    total = case.twin.weight.sum()
    if total == 0.0:
        return
    means = case.twin.weight * n / total
    observed = rng.poisson(means * rng.choice([0.5, 1.0, 2.0]))
    occupied = np.argwhere(observed > 0)
    weights = np.empty(len(occupied))
    kernels.cell_weights(case.layout.terms, case.factors, occupied, weights)
    sums = np.zeros(5)
    bias.empty_cell_sums(n / total, share, case.layout.terms, case.factors, sums)
    empty = naive.bias_sums(np.zeros_like(means), means, share)
    # Terms of either sign: to a fraction of the statistic's standard deviation.
    small = 1e-9 * np.sqrt([empty[1], empty[1], empty[3], empty[3]]) * [1, 0, 1, 0]
    assert (np.abs(sums[1:] - empty) <= 1e-9 * np.abs(empty) + small).all()
    np.testing.assert_allclose(sums[0], (means**2).sum(), rtol=1e-11)
    counts = observed[tuple(occupied.T)].astype(float)
    bias.add_occupied(weights * n / total, counts, share, sums)
    expected = naive.bias_sums(observed, means, share)
    assert (np.abs(sums[1:] - expected) <= 1e-9 * np.abs(expected) + small).all()
