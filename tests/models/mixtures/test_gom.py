"""Grade of membership: the closed sum of paper 2, and the mean over alpha, as oracles."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.mixtures.gom import GoM
from unikat.models.mixtures.mixed_membership import MembershipState
from unikat.models.mixtures.new_record import gamma_nodes


@pytest.mark.parametrize("alpha", [1e-4, 0.3, 5.0, 400.0])
@pytest.mark.parametrize(("n_levels", "components"), [((3,), 9), ((2, 3), 6), ((2, 2, 3, 2), 4)])
def test_cell_probabilities_are_the_closed_sum(n_levels, components, alpha):
    """Paper 2, eq. 24: a sum over all z in {1..K}^J, to 1e-6 of every cell and margin."""
    rng = np.random.default_rng(components)
    model = GoM(components=components)
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]
    data = model.prepare(CellTable.from_codes([[0] * len(n_levels)], keys, population_size=10))
    n_slots = -(-components // 8) * 8
    weights = np.zeros(n_slots)
    weights[:components] = rng.dirichlet(np.full(components, 0.7))
    theta = [rng.dirichlet(np.full(n, 0.6), n_slots).T.astype(np.float32) for n in n_levels]
    state = MembershipState(
        z=np.zeros((1, len(n_levels)), np.int16), theta=np.concatenate(theta), weights=weights,
        alpha=np.array([alpha]), spread=np.empty(0), top=np.empty(0),
        profile=np.ones(sum(n_levels)), **naive.no_zeros(len(n_levels), sum(n_levels)),
    )  # fmt: skip
    cells = np.array(list(itertools.product(*(range(-1, n) for n in n_levels))), np.int32)
    p = model.cell_probabilities(Stream(0, 0, 0), state, data, cells)
    for cell, value in zip(cells.tolist(), p, strict=True):
        expected = naive.closed_sum(
            [t[:, :components].astype(float) for t in theta], weights[:components], alpha, cell
        )
        assert math.isclose(value, expected, rel_tol=1e-6), cell


@pytest.mark.parametrize("rate", [1e-4, 0.02, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("shape", [0.05, 0.3, 2.0, 50.0, 3000.0])
def test_nodes_of_alpha_hold_at_any_scale(shape, rate):
    """Chances of a record's partitions, averaged over Gamma(shape, rate), to 1e-6.

    Twelve tokens, one to twelve tables; the reference integrates over log alpha.
    """
    nodes, weights = gamma_nodes(shape, rate)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    assert (nodes > 0.0).all()
    reach = 12 * math.sqrt(shape) + 45
    eta = np.linspace(
        -44 / shape if shape < 400 else math.log(shape - reach), math.log(shape + reach), 40_001
    )
    log_mass = shape * eta - np.exp(eta)
    mass = np.exp(log_mass - log_mass.max())
    mass /= mass.sum()
    for n_tables in (1, 2, 3, 6, 12):

        def chance(a: np.ndarray, m: int = n_tables) -> np.ndarray:
            """a^m / (a (a + 1) ... (a + 11)), of an order of 1."""
            return math.factorial(11) ** (1 - (m - 1) / 11) * np.prod(
                [(a if l < m else 1.0) / (a + l) for l in range(1, 12)], axis=0
            )

        exact = float(chance(np.exp(eta) / rate) @ mass)
        # Of the largest such chance: a cell's probability is a sum of them.
        assert abs(float(chance(nodes) @ weights) - exact) < 1e-6 * max(exact, 1e-6)
