"""τ of a synthetic file: what is claimed and what of it is true, by counting."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from synthesis.attacks.test_model_free import files_of, records
from unikat.synthesis.attacks.claims import claimed


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_claims_are_those_of_counting(seed):
    population = records(seed, 30, (4, 3, 3))
    original, synthetic = population[:12], records(seed + 1, 10, (4, 3, 3))
    files = files_of(original, synthetic)
    files = dataclasses.replace(files, population=population, n_levels=(4, 3, 3))
    people, sample, made = (
        [tuple(one) for one in file.tolist()] for file in (population, original, synthetic)
    )
    r1 = np.array([float(people.count(one) == 1) for one in sample])
    (found,) = claimed(files, r1, None, seed=1, level=0.95)
    claims = [one for one in made if made.count(one) == 1]
    true = [one for one in claims if sample.count(one) == 1 and people.count(one) == 1]
    assert found.n_uniques == len(claims)
    assert found.n_replicated == sum(sample.count(one) == 1 for one in claims)
    assert found.n_true == len(true)
    assert found.n_nobody == sum(people.count(one) == 0 for one in claims)
    assert found.n_elsewhere == sum(people.count(one) == 1 and one not in sample for one in claims)
    # Risks of 0 and 1 leave no doubt.
    assert found.true is not None
    assert (found.true.value, found.true.lower, found.true.upper) == (len(true),) * 3
    assert found.tau1 is None


def test_the_interval_of_true_claims_is_that_of_independent_events():
    """A copy of 200 uniques, a tenth of which are population unique: a binomial count."""
    codes = np.arange(200, dtype=np.int32)[:, None]
    files = files_of(codes, codes)
    (found,) = claimed(files, np.full(200, 0.1), None, seed=1, level=0.95)
    assert found.true is not None
    assert found.true.value == np.float64(20.0)
    # scipy.stats.binom(200, 0.1).ppf([0.025, 0.975])
    assert (found.true.lower, found.true.upper) == (12.0, 29.0)
