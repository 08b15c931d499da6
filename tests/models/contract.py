"""What the tests of all models share: their variants, what sets them apart, tables, states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.catalogue import MODELS

N_LEVELS = (2, 3, 2, 4)


@dataclass(frozen=True)
class Traits:
    """Options to test a model with, and what it promises beside the contract."""

    variants: tuple[dict[str, Any], ...] = ({},)
    mixture: bool = False
    """State of a mixture: theta, z, weights, profile."""
    chain: bool = True
    """`init` draws and `step` moves; False where the state is empty."""
    independent: bool = True
    """Simulated individuals are independent given the state; False where those of a cell share a
    rate that is drawn anew (tested with the model)."""
    law: Literal["cell_probabilities", "predictive_probabilities"] = "cell_probabilities"
    """Which adds up to 1 exactly, and is the law of simulated individuals."""
    tolerance: float = 2e-6
    """Relative error of sums of probabilities, for each key."""
    zeros: bool = True
    """Supports impossible cells; else refuses them."""
    zeros_tolerance: float = 1e-12
    """Relative error of the sum over the possible cells; mixtures estimate it by simulation."""
    positive: bool = True
    """No possible cell has probability zero."""
    without_known_keys: bool = True
    """Has a prior to fall back on where no record has a known key; else refuses such a table."""


TRAITS: dict[str, Traits] = {
    "hdp": Traits(
        (
            {},
            {"alpha": "per-record"},
            {"alpha": "hierarchical"},
            {"profile_concentration": 1, "profile_base": "uniform", "split_merge": False},
        ),
        mixture=True,
        zeros_tolerance=0.1,
    ),
    "gom": Traits(
        (
            {"components": 11},
            {"components": 3, "alpha": "per-record", "profile_base": "empirical"},
            {"components": 1, "alpha": "hierarchical"},
        ),
        mixture=True,
        zeros_tolerance=0.1,
    ),
    "latent-class": Traits(
        (
            {},
            {"profile_concentration": 0.1, "profile_base": "uniform"},
            {"profile_concentration": "total", "profile_base": "empirical"},
        ),
        mixture=True,
        zeros_tolerance=0.1,
    ),
    "loglinear": Traits(
        (
            {},
            {"terms": "independence", "smoothing": 3.0},
            {"terms": "K0:K1:K3 + K2:K3", "tolerance": 1e-8},
            {"terms": "select", "criterion": "B1", "interval": "bootstrap"},
            {"terms": "select", "criterion": "held-out"},
        ),
        chain=False,
        tolerance=1e-12,
        positive=False,
        without_known_keys=False,
    ),
    "skinner-holmes": Traits(
        ({}, {"form": "plug-in", "centre": "median"}, {"form": "prior-mean", "terms": "two-way"}),
        chain=False,
        independent=False,
        law="predictive_probabilities",
        # A function of the rate is interpolated for the sum over all cells.
        tolerance=1e-5,
        zeros_tolerance=1e-4,
        positive=False,
        without_known_keys=False,
    ),
    "elamir-skinner": Traits(
        ({}, {"terms": "two-way"}),
        chain=False,
        independent=False,
        law="predictive_probabilities",
        tolerance=1e-5,
        zeros_tolerance=1e-4,
        positive=False,
        without_known_keys=False,
    ),
    "mixed-effects": Traits(
        (
            {},
            {"mean": "unknown", "fixed": "none"},
            {"random": "normal", "fixed": "two-way"},
            {"random": "none"},
            {"random": "gamma-dp", "fixed": "two-way"},
            {"empirical": True},
        ),
        law="predictive_probabilities",
        tolerance=1e-12,
    ),
    "individual-risk": Traits(
        chain=False,
        independent=False,
        law="predictive_probabilities",
        tolerance=1e-12,
        # Of cells without records it knows nothing.
        positive=False,
    ),
    "dirichlet-multinomial": Traits(
        ({}, {"terms": "none"}, {"terms": "two-way", "concentration": 300.0}),
        tolerance=1e-12,
        # With interactions some cells are fitted by nothing.
        positive=False,
        without_known_keys=False,
    ),
    "superpopulation-1": Traits(
        (
            {},
            {"alpha": 0.92, "mean_spread": 0.1},
            {"a": 0.86, "b": 80.0},
            {"rates": "cell", "alpha": 0.1},
        ),
        independent=False,
        law="predictive_probabilities",
        tolerance=1e-12,
        zeros_tolerance=1e-12,
    ),
    "superpopulation-2": Traits(
        ({}, {"alpha": 0.1, "a": 80.0}, {"gamma": 1.0}),
        independent=False,
        law="predictive_probabilities",
        tolerance=1e-12,
        zeros_tolerance=1e-12,
    ),
}
"""Every model stands here, with the variants that the tests run over."""


def variants(**wanted: object) -> pytest.MarkDecorator:
    """Parametrise over (name, options) of the models with these traits."""
    found = [
        (name, options)
        for name, traits in TRAITS.items()
        if name in MODELS
        and all(getattr(traits, trait) == value for trait, value in wanted.items())
        for options in traits.variants
    ]
    names = [f"{name}:{','.join(map(str, options.values()))}" for name, options in found]
    return pytest.mark.parametrize(("name", "options"), found, ids=names)


every_model = variants()
every_mixture = variants(mixture=True)


def random_table(n: int = 201, missing: float = 0.2, **options: Any) -> CellTable:
    """Two groups of records, repeated cells, missing keys, and two records without any."""
    rng = np.random.default_rng(1)
    keys = [Key.of_size(f"K{j}", n_levels) for j, n_levels in enumerate(N_LEVELS)]
    group = rng.random((n, 1)) < 0.5
    codes = (rng.random((n, 4)) ** np.where(group, 0.4, 2.0) * N_LEVELS).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    codes[:2] = -1 if missing else 0
    return CellTable.from_codes(codes, keys, population_size=10 * n, **options)


def after(model: Any, data: Any, n_sweeps: int, n_threads: int = 1, chain: int = 1) -> Any:
    """State of a chain after some sweeps."""
    state = model.init(Stream(3, chain, 0), data)
    for sweep in range(1, n_sweeps + 1):
        state, _ = model.step(Stream(3, chain, sweep), state, data, n_threads)
    return state


def leaves(value: Any) -> list[Any]:
    """All arrays and scalars of nested tuples."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [] if value is None else [value]


def arrays(value: Any) -> list[np.ndarray]:
    """All arrays of nested tuples."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, np.ndarray)]


def assert_same(one: Any, other: Any) -> None:
    for mine, theirs in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)
