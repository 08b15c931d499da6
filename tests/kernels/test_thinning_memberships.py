"""Mixed membership without companions against enumerations, and against samples without them."""

import itertools
import math

import numpy as np
import pytest

from unikat.kernels import mixture, thinning, weights
from unikat.kernels.random import PURPOSE_THIN, seek
from unikat.rng import chain_key

N_LEVELS, N_COMPONENTS, ALPHA_0 = (2, 3, 2), 4, 0.7
OFFSETS = np.concatenate(([0], np.cumsum(N_LEVELS)))
CELLS = np.array(list(itertools.product(*map(range, N_LEVELS))))
PHI = np.array([0.5, 1.5, 0.4, 0.3, 1.1, 0.8, 0.2])
NODES = np.array([0.4, 1.5]), np.array([0.3, 0.7])
KEY = chain_key(3, 0)
COMPANIONS = np.array([0, 1, 3, 5, 7, 10, 12, 14, 17])
"""Of `sample`: among them all records with tokens of component 2."""


def sample(seed=0, n=24):
    """Rows, components of tokens, and which of them opened a table; the last one has none."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in N_LEVELS])
    rows = (codes + OFFSETS[:-1]).astype(np.int32)
    rows[rng.random(rows.shape) < 0.1] = -1
    z = rng.integers(0, 2, rows.shape).astype(np.int16)
    z[[3, 7], :2] = 2
    z[rows < 0] = -1
    opens = z >= 0
    for i, j in zip(*np.nonzero(opens), strict=True):
        if (z[i, :j] == z[i, j]).any():
            opens[i, j] = rng.random() < 0.3
    return rows, z, opens


def counted(rows, z, opens):
    """Tokens of rows by component, and tables."""
    counts = np.zeros((OFFSETS[-1], N_COMPONENTS), np.int64)
    stacks = np.zeros((z.shape[1], N_COMPONENTS), np.int64)
    cells = np.arange(len(rows), dtype=np.int32)
    mixture.count(0, len(rows), rows, cells, z, counts, stacks)
    return counts, np.bincount(z[opens], minlength=N_COMPONENTS)


def exponents(tables, share):
    """Dirichlet parameters of the weights: the last component is what is not seen."""
    alpha = share + tables.astype(float)
    if not share:
        alpha[N_COMPONENTS - 1] = ALPHA_0
    return alpha


def state(rng, counts, tables, share):
    alpha = exponents(tables, share)
    drawn = np.where(alpha > 0.0, rng.gamma(np.maximum(alpha, 1e-9)), 0.0)
    theta = np.empty(counts.shape)
    for first, last in itertools.pairwise(OFFSETS):
        for k in range(N_COMPONENTS):
            theta[first:last, k] = rng.dirichlet(PHI[first:last] + counts[first:last, k])
    return drawn / drawn.sum(), theta


def thinned(drawn, companions, *, asked=None, sets=(), sweep=0, nodes=NODES, repeats=0):
    """Probabilities of cells with the same companions each, (n,); sets by shares of levels."""
    asked = CELLS + OFFSETS[:-1] if asked is None else asked
    shares = np.array(sets, np.float64).reshape(-1, len(drawn.theta))
    of_set, levels = np.nonzero(shares)
    starts = np.searchsorted(of_set, np.arange(len(shares) + 1))
    n, records = len(asked), np.asarray(companions, np.int64)
    of = (np.arange(n + 1) * len(records), np.tile(records, n), np.zeros(n, np.int64))
    joined = np.vstack((drawn.theta, shares @ drawn.theta))
    cells = thinning.Asked(asked.astype(np.int64), joined, starts, levels, shares[of_set, levels])
    p = np.full(n, -1.0)
    if repeats:
        thinning.thin_memberships_sequentially(KEY, sweep, of, drawn, cells, *nodes, repeats, p)
    else:
        thinning.thin_memberships(KEY, sweep, of, drawn, cells, *nodes, p)
    return p


def drawn_state(rng, rows, z, opens, share, tokens_more=0, tables_more=0):
    counts, tables = counted(rows, z, opens)
    g0, theta = state(rng, counts, tables, share)
    return thinning.Drawn(
        rows, z, opens, theta, g0, counts + tokens_more, tables + tables_more, share, PHI
    )


def partitions(keys):
    if not keys:
        yield []
        return
    first, rest = keys[0], keys[1:]
    for n in range(len(rest) + 1):
        for others in itertools.combinations(rest, n):
            left = [key for key in rest if key not in others]
            for blocks in partitions(left):
                yield [(first, *others), *blocks]


def rising(a, n):
    return math.prod(a + l for l in range(n))


def mean_without(rows, z, opens, companions, share):
    """Mean probability of every cell had the companions not been there, by enumeration.

    Over the partitions of a new record's keys and the components of their blocks: moments of the
    Dirichlet law of the weights, and means of the profiles, each of which occurs once.
    """
    left = np.setdiff1d(np.arange(len(rows)), companions)
    counts, tables = counted(rows[left], z[left], opens[left])
    a = exponents(tables, share)
    mean = PHI[:, None] + counts
    for first, last in itertools.pairwise(OFFSETS):
        mean[first:last] /= mean[first:last].sum(axis=0)
    p = np.zeros(len(CELLS))
    for blocks in partitions(list(range(len(N_LEVELS)))):
        chance = sum(
            weight
            * math.prod(math.factorial(len(b) - 1) * alpha for b in blocks)
            / rising(alpha, len(N_LEVELS))
            for alpha, weight in zip(*NODES, strict=True)
        )
        for of in itertools.product(range(N_COMPONENTS), repeat=len(blocks)):
            moment = math.prod(rising(a[k], of.count(k)) for k in set(of)) / rising(
                a.sum(), len(of)
            )
            for c, cell in enumerate(CELLS):
                p[c] += (
                    chance
                    * moment
                    * math.prod(
                        mean[OFFSETS[j] + cell[j], k]
                        for block, k in zip(blocks, of, strict=True)
                        for j in block
                    )
                )
    return p


def deviations(share, n=8_000, **wrong):
    """Deviation of the mean over draws from the enumeration, in standard errors, by cell."""
    rows, z, opens = sample()
    expected = mean_without(rows, z, opens, COMPANIONS, share)
    if wrong.pop("by_tokens", False):
        opens = z >= 0
        assert (counted(rows, z, opens)[1] != counted(*sample())[1]).any()
    rng = np.random.default_rng(1)
    found = np.array([
        thinned(drawn_state(rng, rows, z, opens, share, **wrong), COMPANIONS, sweep=sweep)
        for sweep in range(n)
    ])  # fmt: skip
    assert expected.sum() == pytest.approx(1.0)
    return np.abs(found.mean(axis=0) - expected) / (found.std(axis=0) / np.sqrt(n))


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_mean_is_that_of_a_sample_without_the_companions(share):
    assert deviations(share).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize(
    "wrong",
    [{"tokens_more": 1}, {"tables_more": 1}, {"by_tokens": True}],
    ids=lambda w: next(iter(w)),
)
def test_a_wrong_count_would_be_seen(share, wrong):
    assert deviations(share, **wrong).max() > 6.0


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_probabilities_add_up_to_one_and_a_union_is_the_sum_of_its_cells(share):
    drawn = drawn_state(np.random.default_rng(2), *sample(4), share)
    p = thinned(drawn, COMPANIONS)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    sets = np.zeros((3, OFFSETS[-1]))
    sets[0, [0, 1]] = sets[1, [2, 4]] = 1.0
    sets[2, 6] = 0.5
    asked = OFFSETS[-1] + np.array([[0, 1, 2]])
    joined = thinned(drawn, COMPANIONS, asked=asked, sets=sets)
    wanted = (CELLS[:, 1] != 1) & (CELLS[:, 2] == 1)
    assert joined[0] == pytest.approx(0.5 * p[wanted].sum(), rel=1e-12)
    # Cells of one call may have any number of keys, and any number stands beside each other.
    rows = np.full((N_LEVELS[1] + 9, 3), -1)
    rows[: N_LEVELS[1], 1] = OFFSETS[1] + np.arange(N_LEVELS[1])
    rows[N_LEVELS[1] :] = CELLS[:9] + OFFSETS[:-1]
    found = thinned(drawn, COMPANIONS, asked=rows)
    for y in range(N_LEVELS[1]):
        assert found[y] == pytest.approx(p[CELLS[:, 1] == y].sum(), rel=1e-12)
    np.testing.assert_allclose(found[N_LEVELS[1] :], p[:9], rtol=1e-13)


def test_without_companions_nothing_is_touched():
    drawn = drawn_state(np.random.default_rng(2), *sample(5), 0.0)
    assert (thinned(drawn, ()) == -1.0).all()
    assert (thinned(drawn, (), repeats=4) == -1.0).all()


def test_where_all_keys_have_one_component_the_classes_are_latent():
    """A small concentration: one table per record, and p is that of latent classes."""
    rows, z, _ = sample(6)
    z = np.where(rows >= 0, z.max(axis=1)[:, None], -1).astype(np.int16)
    z[np.all(rows < 0, axis=1)] = -1
    opens = np.zeros(z.shape, bool)
    for i in range(len(z)):
        opens[i, np.argmax(z[i] >= 0)] = (z[i] >= 0).any()
    drawn = drawn_state(np.random.default_rng(2), rows, z, opens, 0.0)
    classes = drawn._replace(z=z.max(axis=1)[:, None], opens=opens.any(axis=1)[:, None])
    n, asked = len(CELLS), (CELLS + OFFSETS[:-1]).astype(np.int64)
    of = (np.arange(n + 1) * len(COMPANIONS), np.tile(COMPANIONS, n), np.zeros(n, np.int64))
    none = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    p = np.empty(n)
    asked_of = thinning.Asked(asked, drawn.theta, *none)
    thinning.thin(KEY, 5, of, classes, asked_of, np.zeros(0, np.bool_), p, np.zeros(0))
    tiny = np.array([1e-9]), np.ones(1)
    np.testing.assert_allclose(thinned(drawn, COMPANIONS, sweep=5, nodes=tiny), p, rtol=1e-7)


def test_for_many_keys_the_estimate_is_unbiased():
    """The companions' draw is the same, so that the difference is that of the estimate alone."""
    drawn = drawn_state(np.random.default_rng(2), *sample(4), 0.0)
    asked = np.array([[0, 2, 5], [1, -1, 6], [-1, 4, -1], [1, 3, 6]])
    differences = np.array([
        thinned(drawn, COMPANIONS, asked=asked, sweep=sweep, repeats=2)
        / thinned(drawn, COMPANIONS, asked=asked, sweep=sweep) - 1.0
        for sweep in range(3_000)
    ])  # fmt: skip
    error = differences.std(axis=0) / np.sqrt(len(differences))
    # Two keys leave nothing to estimate.
    assert np.abs(differences[:, [1, 2]]).max() < 1e-12
    assert (np.abs(differences.mean(axis=0)) < 4.5 * error)[[0, 3]].all()


def test_a_token_opens_a_table_as_the_restaurant_has_it():
    g0, alpha, n = np.array([0.6, 0.3, 0.1]), np.array([0.8]), 40_000
    z = np.tile(np.array([1, 0, 1, -1, 1, 0], np.int16), (n, 1))
    opens = np.ones(z.shape, np.bool_)
    weights.open_tables(KEY, 4, 7, z, alpha, g0, opens)
    assert opens[:, [0, 1]].all()
    assert not opens[:, 3].any()
    mass = alpha[0] * g0[z[0]]
    for j, before in ((2, 1), (4, 2), (5, 1)):
        chance = mass[j] / (mass[j] + before)
        error = math.sqrt(chance * (1.0 - chance) / n)
        assert abs(opens[:, j].mean() - chance) < 4.5 * error
    # Independent tokens, and numbers that a cut of the records does not change.
    both = (opens[:, 2] & opens[:, 4]).mean() - opens[:, 2].mean() * opens[:, 4].mean()
    assert abs(both) < 4.5 * 0.25 / math.sqrt(n)
    later = np.ones((n - 10, 6), np.bool_)
    weights.open_tables(KEY, 4, 17, z[10:], np.full(n - 10, 0.8), g0, later)
    np.testing.assert_array_equal(later, opens[10:])


STAY, LEAVE, RATE = 1, 20, 5.0
"""Records that stay and that leave in samples drawn from the model, and their concentration."""


def by_the_restaurant(sweep, z, g0):
    opens = np.ones(z.shape, np.bool_)
    weights.open_tables(KEY, sweep, 0, z, np.array([RATE]), g0, opens)
    return opens


def deviation_from_prior(opening, n=6_000):
    """Deviations, in standard errors, of thinned weights from those of samples without the others.

    Weights and components are drawn from the model, and tables by `opening`. With the others left
    out, weights and components of those that stay must have the law of the model: the weight of the
    first token's component has the moments of a size-biased one.
    """
    rng = np.random.default_rng(5)
    rows = np.tile(OFFSETS[:-1].astype(np.int32), (STAY + LEAVE, 1))
    theta = np.ones((OFFSETS[-1], N_COMPONENTS))
    none = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    asked = thinning.Asked(np.full((1, 3), -1), theta, *none)
    left, generator = np.arange(STAY, STAY + LEAVE), np.zeros(12, np.uint32)
    found = np.empty((n, 4))
    for sweep in range(n):
        g0 = rng.dirichlet(np.ones(N_COMPONENTS))
        own = np.cumsum([rng.dirichlet(RATE * g0 + 1e-12) for _ in rows], axis=1)
        z = (rng.random((len(rows), 3, 1)) > own[:, None, :-1]).sum(axis=2).astype(np.int16)
        opens = opening(sweep, z, g0)
        counts, tables = counted(rows, z, opens)
        drawn = thinning.Drawn(rows, z, opens, theta, g0, counts, tables, 1.0, PHI)
        room = thinning.room_of(drawn)
        seek(generator, KEY, 0, sweep, PURPOSE_THIN)
        rest = thinning.leave_out(generator, left, drawn, asked, 0, room)
        one = room.mass / rest
        assert one.sum() == pytest.approx(1.0)
        own, same = one[z[0, 0]], (z[0] == z[0, 0]).all()
        found[sweep] = own, own**2, (one**2).sum(), own * same
    # Dirichlet(1, 1, 1, 1): E sum_k g_k^r. Three tokens copy each other or draw from g.
    square, cube, fourth = 2 / 5, 1 / 5, 4 / 35
    three = (RATE**2 * fourth + 3 * RATE * cube + 2 * square) / ((RATE + 1) * (RATE + 2))
    off = found.mean(axis=0) - [square, cube, square, three]
    return np.abs(off) / (found.std(axis=0) / math.sqrt(n))


def test_samples_of_the_model_without_some_records_are_samples_of_the_model():
    assert deviation_from_prior(by_the_restaurant).max() < 4.5


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [True, False], ids=["every token", "the first of a component"])
def test_wrong_tables_would_be_seen(tokens):
    def opening(_, z, __):
        first = [[k not in row[:j] for j, k in enumerate(row)] for row in z.tolist()]
        return np.array(first) | tokens

    assert deviation_from_prior(opening, 15_000).max() > 6.0
