"""Samplers under structural zeros: joint law, ranks, enumeration, and planted bugs.

The law: pi(phi) s(phi)^c prod_i f(x_i | phi) / s(phi), s the probability of the possible cells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from statistical import joint, twin
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Info, Stream
from unikat.models.mixtures import gom, hdp, latent_class, mixed_membership, truncation

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

FALSE_ALARM = 1e-5
"""Of each test, shared evenly among what is compared; 25 such tests, so 2.5e-4 in total. A planted
bug has to be seen at a hundredth of it."""


def passes(p_values: dict[str, float], share: float = 1.0) -> bool:
    return min(p_values.values()) > share * FALSE_ALARM / len(p_values)


def gaps() -> np.ndarray:
    """Which keys of six records with three keys are known: two of one record are not."""
    known = np.ones((6, 3), bool)
    known[0, 0] = known[1, 1] = known[1, 2] = known[2, 2] = False
    return known


WHOLE = np.ones((6, 3), bool)
TWO_KEYS = ~np.tile(np.eye(3, dtype=bool), (2, 1))
CORNER = np.zeros((2, 3, 2), bool)
CORNER[0, 1:, :] = CORNER[:, 0, 1] = CORNER[1, 2, 0] = True
"""Seven of twelve cells, of overlapping conditions."""
FEW = np.zeros((2, 3, 2), bool)
FEW[0, 1, 1] = FEW[1, 2, 1] = True
"""Little enough that they cannot have nearly all probability, with no prior against it."""

HDP = twin.Prior(
    (2, 3, 2), WHOLE, "shared", (2.0, 2.0), (3.0, 2.0), 1.0, impossible=CORNER, tempering=0.34
)
"""Two of six records temper: c is 2."""
LEARNED = HDP._replace(profile=None, base="learned", law=(6.0, 3.0))
GRADES = HDP._replace(components=3, alpha=(2.0, 1.0))
ALIKE = twin.Prior(
    (2, 2, 2), WHOLE, "per-record", (1.0, 5.0), (8.0, 2.0), 0.15, tempering=0.34,
    impossible=np.ones((2, 2, 2), bool),
)  # fmt: skip
"""All keys must agree, so that records with a large alpha are impossible more often."""
ALIKE.impossible[(0, 1), (0, 1), (0, 1)] = False

PRIORS = {
    "hdp": HDP,
    "hdp-untempered": HDP._replace(tempering=0.0, profile=2.0),
    "hdp-per-record-missing": HDP._replace(kind="per-record", known=gaps()),
    "hdp-hierarchical-learned-missing": LEARNED._replace(kind="hierarchical", known=gaps()),
    "gom-learned-missing": LEARNED._replace(components=3, known=gaps()),
    "hdp-per-record": ALIKE,
    "gom-per-record": GRADES._replace(kind="per-record"),
    "classes": HDP._replace(kind="classes", top=(2.0, 2.0)),
    "classes-untempered-learned-missing": LEARNED._replace(
        kind="classes", tempering=0.0, known=gaps(), impossible=FEW
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_sampler_keeps_the_joint_law(name):
    sampler = joint.ModelUnderTest(PRIORS[name])
    p = joint.joint_test(PRIORS[name], sampler, seed=1, n_runs=45, n_steps=27)
    assert passes(p), p
    assert sampler.moved > 0.02 * sampler.swept


def fewer(keep: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """Return a planted bug: not all tokens of the impossible records are counted.

    `keep` (n, n_keys) of which there are, in the order of the layers.
    """

    def plant(right: Any) -> Any:
        def slip(key: Any, sweep: int, diagram: Any, *rest: Any) -> Any:
            found = right(key, sweep, diagram, *rest)
            rows, z = found.rows.copy(), found.z.copy()
            there = rows[:, diagram.order] >= 0
            gone = np.zeros(rows.shape, bool)
            gone[:, diagram.order] = there & ~keep(there)
            rows[gone] = -1
            if z.shape == rows.shape:
                z[gone] = -1
            return found._replace(rows=rows, z=z)

        return slip

    return plant


def ignored(right: Any) -> Any:
    """Plant a sampler that does not know of truncation."""

    def slip(*arguments: Any) -> Any:
        return type(right(*arguments))(*(part[:0] for part in right(*arguments)))

    return slip


def not_last(there: np.ndarray) -> np.ndarray:
    """All but the token that makes a record impossible."""
    return np.roll(there, -1, axis=1) & (np.arange(there.shape[1]) < there.shape[1] - 1)


def untempered(right: Any) -> Any:
    """Plant a simulation that goes on to n possible records."""
    return lambda model, n: n


def own_tokens(right: Any) -> Any:
    """Plant an alpha that is drawn as if the impossible records had no tokens."""

    def slip(data: Any, imputed: Any, more: Any) -> Any:
        return right(data, imputed, more)._replace(at_least=right(data, imputed, more[:0]).at_least)

    return slip


def anything(right: Any) -> Any:
    """Plant missing keys drawn as if everything were possible."""

    def slip(key: Any, sweep: int, diagram: Any, data: Any, *rest: Any) -> Any:
        n_levels = tuple(np.diff(data.offsets).tolist())
        return right(key, sweep, joint.diagram_of(np.zeros(n_levels, bool)), data, *rest)

    return slip


def unconditional(right: Any) -> Any:
    """Plant missing keys drawn by the shares of the levels, whatever the components."""

    def slip(key: Any, sweep: int, diagram: Any, data: Any, z: Any, theta: Any) -> Any:
        return right(key, sweep, diagram, data, z, np.full_like(theta, 0.5))

    return slip


def larger_alphas(right: Any) -> Any:
    """Plant impossible records drawn with alphas that are fifty times too large."""

    def slip(*arguments: Any) -> Any:
        shape, rate = arguments[5]
        return right(*arguments[:5], np.array([shape, rate / 50.0]), *arguments[6:])

    return slip


def same_for_all(right: Any) -> Any:
    """Plant classes of the impossible records that are those of all records."""

    def slip(*arguments: Any) -> Any:
        chance = right(*arguments)
        chance[0] = chance[0].mean()
        return chance

    return slip


def of_all(plant: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Plant a bug of the impossible records under mixed membership, however they came."""

    def planted(right: Any) -> Any:
        def slip(key: Any, sweep: int, data: Any, *rest: Any) -> Any:
            theta, weights, found = right(key, sweep, data, *rest)
            return theta, weights, plant(lambda *_: found)(key, sweep, data.zeros)

        return slip

    return planted


def exponents(right: Any) -> Any:
    """Plant ridges on which the weights' exponents sum to five more."""

    def slip(*arguments: Any) -> Any:
        prior = arguments[5]
        more = prior._replace(total_exponent=prior.total_exponent + 5.0)
        return right(*arguments[:5], more, *arguments[6:])

    return slip


MIXED, CLASSES = "simulate_memberships", "simulate_classes"
SHARP = PRIORS["classes"]._replace(profile=0.4, known=gaps())
BUGS = {
    "mixed: ignored": (HDP, 30, truncation, "impossible_memberships", of_all(ignored)),
    "mixed: not tempered": (HDP, 70, truncation.TruncationPrior, "n_possible", untempered),
    "mixed: last tokens": (
        HDP, 35, truncation, "impossible_memberships", of_all(fewer(not_last)),
    ),
    "mixed: tokens of alpha": (HDP, 20, truncation, "augmented", own_tokens),
    "mixed: keys missing": (HDP._replace(known=TWO_KEYS), 60, truncation, "completed", anything),
    "mixed: keys by share": (
        PRIORS["gom-learned-missing"], 40, truncation, "completed", unconditional,
    ),
    "mixed: larger alphas": (ALIKE, 65, truncation, MIXED, larger_alphas),
    "classes: ignored": (SHARP, 20, truncation, CLASSES, ignored),
    "classes: not tempered": (SHARP, 32, truncation.TruncationPrior, "n_possible", untempered),
    "classes: last tokens": (SHARP, 35, truncation, CLASSES, fewer(not_last)),
    "classes: keys missing": (
        SHARP._replace(known=TWO_KEYS), 40, truncation, "completed", anything,
    ),
    "classes: keys by share": (SHARP, 35, truncation, "completed", unconditional),
    "classes: wrong ones": (SHARP, 45, truncation, "chances", same_for_all),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name, monkeypatch):
    prior, n_runs, module, function, plant = BUGS[name]
    monkeypatch.setattr(module, function, plant(getattr(module, function)))
    sampler = joint.ModelUnderTest(prior)
    p = joint.joint_test(prior, sampler, seed=4, n_runs=n_runs, n_steps=36)
    assert not passes(p, 0.01), p


def only_ridges(monkeypatch: Any) -> None:
    """Leave out what stands above the records, which would soon correct a wrong move."""

    def same(model: Any, key: Any, sweep: int, state: Any, *_: Any) -> tuple[Any, Info]:
        return state, Info({"split_merge": 0.0})

    monkeypatch.setattr(mixed_membership.MixedMembership, "_refresh", same)
    monkeypatch.setattr(latent_class.LatentClass, "_refresh", same)


RIDGES = {"hdp": HDP, "gom": GRADES, "classes": SHARP}


@pytest.mark.parametrize("name", RIDGES)
def test_ridges_alone_keep_the_joint_law(name, monkeypatch):
    """Components, missing keys and ridges: what is conditioned on matters as well as the kernel."""
    only_ridges(monkeypatch)
    sampler = joint.ModelUnderTest(RIDGES[name])
    p = joint.joint_test(RIDGES[name], sampler, seed=2, n_runs=50, n_steps=24)
    assert passes(p), p


RIDGE_BUGS = {
    "hdp: exponents": ("hdp", truncation, "along_ridges", exponents),
    "classes: exponents": ("classes", truncation, "along_ridges", exponents),
}


@pytest.mark.parametrize("name", RIDGE_BUGS)
def test_planted_bugs_of_ridges_are_caught(name, monkeypatch):
    only_ridges(monkeypatch)
    prior, module, function, plant = RIDGE_BUGS[name]
    monkeypatch.setattr(module, function, plant(getattr(module, function)))
    sampler = joint.ModelUnderTest(RIDGES[prior])
    p = joint.joint_test(RIDGES[prior], sampler, seed=3, n_runs=90, n_steps=27)
    assert not passes(p, 0.01), p


@pytest.mark.parametrize("name", ["hdp", "classes"])
def test_whole_impossible_records_do_as_well(name, monkeypatch):
    """No bug: the keys behind an impossible beginning drawn too, whatever they are.

    That they sum to one is why they can be left out.
    """
    which = CLASSES if name == "classes" else MIXED
    right = getattr(truncation, which)

    def whole(key: Any, sweep: int, diagram: Any, data: Any, *rest: Any) -> Any:
        found = right(key, sweep, diagram, data, *rest)
        theta, rows = rest[-2], found.rows.copy()
        rng = np.random.default_rng([*key.tolist(), sweep])
        for i, j in zip(*np.nonzero(rows < 0), strict=True):
            # Mixed records have the components of all keys.
            levels = theta[data.offsets[j] : data.offsets[j + 1], found.z[i, j % found.z.shape[1]]]
            point = rng.random() * levels.sum()
            rows[i, j] = data.offsets[j] + np.searchsorted(np.cumsum(levels), point)
        return found._replace(rows=rows)

    monkeypatch.setattr(truncation, which, whole)
    sampler = joint.ModelUnderTest(PRIORS[name])
    p = joint.joint_test(PRIORS[name], sampler, seed=5, n_runs=45, n_steps=27)
    assert passes(p), p


RANKED = {
    "hdp": HDP._replace(known=gaps(), profile=0.7),
    "gom-per-record": LEARNED._replace(components=3, kind="per-record", known=gaps()),
    "classes": LEARNED._replace(kind="classes", known=gaps()),
}


@pytest.mark.parametrize("name", RANKED)
def test_ranks_of_the_truth_are_uniform(name):
    """Data with missing keys, chi-square over 60 data sets."""
    p_values = joint.rank_test(RANKED[name], [[0, 0, 0], [1, -1, 0]], seed=6, n_sets=60)
    assert min(p_values) > FALSE_ALARM / len(p_values), p_values


def test_ranks_tell_a_sampler_without_truncation(monkeypatch):
    monkeypatch.setattr(truncation, CLASSES, ignored(truncation.simulate_classes))
    p_values = joint.rank_test(RANKED["classes"], [[0, 0, 0], [1, -1, 0]], seed=6, n_sets=160)
    assert min(p_values) < 0.01 * FALSE_ALARM / len(p_values), p_values


N_LEVELS = (2, 3)
SIX = np.array([[False, True, False], [True, False, False]])
RECORDS = {"complete": [[0, 0], [0, 2], [1, 1]], "missing": [[-1, 2], [0, 0], [1, 1]]}
PROFILES: dict[str, Any] = {"profile_concentration": 1.0, "profile_base": "uniform"}
LAWS: dict[str, Any] = {"alpha_shape": 2.0, "alpha_rate": 2.0}
TOP: dict[str, Any] = {"top_shape": 3.0, "top_rate": 2.0}
MODELS: dict[str, Any] = {
    "hdp": hdp.HDP(**LAWS, **TOP, **PROFILES),
    "hdp-per-record": hdp.HDP(alpha="per-record", **LAWS, **TOP, **PROFILES),
    "gom": gom.GoM(components=2, **LAWS, **PROFILES),
    "classes": latent_class.LatentClass(**TOP, **PROFILES),
}
CHAINS, WARMUP, SWEEPS, BATCHES = 2, 50, 900, 10


def posterior_by_weighing(
    model: Any, records: list[list[int]], c: int, n: int = 60_000
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means by importance sampling from the prior, and their errors.

    A record of two keys has one component for both with chance 1 / (1 + alpha). Returned are the
    probabilities of the possible cells for a possible individual, E[1 - s], E[alpha] if it is
    shared, E[alpha_0] if there is one, and the law of what is missing.
    """
    rng = np.random.default_rng(8)
    classes = isinstance(model, latent_class.LatentClass)
    numbers = []
    if isinstance(model, gom.GoM):
        weights = rng.dirichlet(np.ones(model.components), n)
    else:
        top = rng.gamma(TOP["top_shape"], 1.0 / TOP["top_rate"], n)
        broken = rng.beta(1.0, top[:, None], (n, 24))
        broken[:, -1] = 1.0
        weights = broken * np.cumprod(np.column_stack((np.ones(n), 1.0 - broken[:, :-1])), axis=1)
    first, second = (rng.dirichlet(np.ones(levels), weights.shape) for levels in N_LEVELS)
    alpha = rng.gamma(LAWS["alpha_shape"], 1.0 / LAWS["alpha_rate"], n)
    together = 1.0 / (1.0 + alpha)
    if classes:
        together = np.ones(n)
    elif model.alpha == "per-record":
        law = LAWS["alpha_shape"], LAWS["alpha_rate"]
        together = np.full(n, naive.gamma_mean(lambda a: 1.0 / (1.0 + a), law))
    same = np.einsum("nk,nka,nkb->nab", weights, first, second)
    apart = (
        np.einsum("nk,nka->na", weights, first)[:, :, None]
        * np.einsum("nk,nkb->nb", weights, second)[:, None]
    )
    f = np.where(SIX, 0.0, together[:, None, None] * (same - apart) + apart)
    s = f.sum(axis=(1, 2))
    numbers = [*(f[:, ~SIX] / s[:, None]).T, 1.0 - s]
    if not classes and model.alpha == "shared":
        numbers.append(alpha)
    if not isinstance(model, gom.GoM):
        numbers.append(top)
    mass = s ** (c - len(records))
    for a, b in records:
        mass *= f[:, a, b] if a >= 0 else f[:, :, b].sum(axis=1)
        if a < 0:
            numbers.append(f[:, 0, b] / f[:, :, b].sum(axis=1))
    mass /= mass.sum()
    means = np.array([mass @ x for x in numbers])
    errors = [np.sqrt(mass**2 @ (x - mean) ** 2) for x, mean in zip(numbers, means, strict=True)]
    return means, np.array(errors)


@pytest.mark.parametrize("case", RECORDS)
@pytest.mark.parametrize("name", MODELS)
def test_posterior_is_that_of_the_weighed_prior(name, case):
    """Three records, two of six cells impossible; one prior factor s if a key is missing.

    t tests on batch means, with the errors of both sides.
    """
    c = int(case == "missing")
    model = dataclasses.replace(MODELS[name], zeros_tempering=c * 0.34)
    records = RECORDS[case]
    expected, error = posterior_by_weighing(model, records, c)
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(N_LEVELS)]
    table = CellTable.from_codes(records, keys, population_size=99, zeros=joint.diagram_of(SIX))
    data = model.prepare(table)
    cells = np.argwhere(~SIX).astype(np.int32)
    batches = []
    for chain in range(CHAINS):
        state = model.init(Stream(7, chain, 0), data)
        seen = []
        for time in range(1, WARMUP + SWEEPS + 1):
            where = Stream(7, chain, time)
            state, info = model.step(where, state, data, 1)
            if time <= WARMUP:
                continue
            p = model.cell_probabilities(where, state, data, cells)
            # Of n0 impossible ones before the r-th possible one, (r - 1) / (r - 1 + n0) is
            # unbiased for s; the sampler reports r / (r + n0).
            r = len(records) - c
            share = info.values["impossible_mass"]
            n0 = r * share / (1.0 - share)
            unknown = [] if name in ("classes", "hdp-per-record") else [state.alpha[0]]
            missing = (model.impute(where, state, data)[:, 0] == 0).tolist()
            seen.append([*p, n0 / (r - 1 + n0), *unknown, *state.top, *missing])
        batches.extend(np.array(seen, float).reshape(BATCHES, -1, len(expected)).mean(axis=1))
    mean = np.mean(batches, axis=0)
    total = np.hypot(np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches)), error)
    p_values = 2.0 * stats.t.sf(np.abs(mean - expected) / total, len(batches) - 1)
    assert p_values.min() > FALSE_ALARM / len(expected), (expected, mean, total)
    assert (total < 0.1 * np.maximum(expected, 0.1)).all()
