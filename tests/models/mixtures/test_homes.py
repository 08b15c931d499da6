"""Shared keys at the level of the household, against enumeration by other ways."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from unikat import HDP, CellTable, GoM, Key, LatentClass
from unikat.data.companions import companions_of
from unikat.models.base import Stream
from unikat.models.groups import Groups
from unikat.models.mixtures.homes import homes_of
from unikat.models.state_checks import within
from unikat.zeros.diagram import build

KEYS = [Key.of_size("AGE", 4), Key.of_size("SEX", 2), Key.of_size("REGION", 3), Key.of_size("T", 2)]
CELLS = np.array(list(itertools.product(*(range(key.n_levels) for key in KEYS))), np.int32)
MIXTURES = pytest.mark.parametrize(
    "model", [LatentClass(), HDP(), GoM(components=8)], ids=lambda model: model.name
)
OWN, SHARED = (0, 1), (2, 3)


def sample(n_homes=60, seed=1, told=False):
    """Households of one to four members; told: of one or four, which T tells."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 4] if told else [1, 2, 3, 4], n_homes)
    home = np.repeat(np.arange(n_homes), sizes)
    tenure = (sizes > 1) if told else (rng.random(n_homes) < 0.4)
    codes = np.column_stack(
        [rng.integers(0, 4, len(home)), rng.integers(0, 2, len(home)),
         rng.integers(0, 3, n_homes)[home], tenure.astype(int)[home]]
    )  # fmt: skip
    table = CellTable.from_codes(codes, KEYS, 5000)
    return replace(table, households=rng.permutation(n_homes)[home].astype(np.int32))


def fitted(model, table, n_sweeps=5):
    """Stream, state and data after some sweeps."""
    data = model.prepare(table)
    state = model.init(Stream(3, 0, 0), data)
    for sweep in range(1, n_sweeps + 1):
        stream = Stream(3, 0, sweep)
        state, _ = model.step(stream, state, data, 1)
    return stream, state, data


def law_by_size(state, homes, cells):
    """P(h) summed over sizes, from probabilities of whole households."""
    n_sizes = len(homes.members)
    total, mean = np.zeros(len(cells)), 0.0
    for size in range(n_sizes):
        asked = np.full((len(cells), len(homes.home_offsets) - 1), -1, np.int32)
        asked[:, : len(SHARED)] = cells[:, SHARED]
        fits = (asked[:, homes.sized] < 0) | (asked[:, homes.sized] == size)
        asked[:, homes.sized] = size
        p = homes.model.cell_probabilities(Stream(3, 0, 1), state, homes.data, asked)
        total += homes.members[size] * np.where(fits, p, 0.0)
        asked[:] = -1
        asked[:, homes.sized] = size
        p = homes.model.cell_probabilities(Stream(3, 0, 1), state, homes.data, asked)
        mean += homes.members[size] * p[0]
    return total / mean


@MIXTURES
@pytest.mark.parametrize("told", [False, True])
def test_a_cell_has_the_share_of_its_members_and_the_law_of_the_households(model, told):
    table = sample(told=told)
    stream, state, data = fitted(model, table)
    assert data.homes.sized == (1 if told else 2)
    p = model.cell_probabilities(stream, state, data, CELLS)
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    alone = model._probabilities(stream, state, data, CELLS, None)
    law = law_by_size(state.homes, data.homes, CELLS)
    given = alone / np.array([alone[(CELLS[:, SHARED] == h).all(axis=1)].sum()
                              for h in CELLS[:, SHARED]])  # fmt: skip
    np.testing.assert_allclose(p, given * law, rtol=2e-5)
    # Not the law of persons, nor that of households whatever their size.
    assert np.abs(p - alone).max() > 1e-3
    same = law_by_size(
        state.homes, data.homes._replace(members=np.ones(4)[: len(data.homes.members)]), CELLS
    )
    assert np.abs(law - same).max() > 1e-3


@MIXTURES
@pytest.mark.parametrize("told", [False, True])
def test_a_margin_of_shared_keys_is_the_law_of_the_households(model, told):
    stream, state, data = fitted(model, sample(told=told))
    asked = CELLS.copy()
    asked[:, OWN] = -1
    law = law_by_size(state.homes, data.homes, CELLS)
    p = model.cell_probabilities(stream, state, data, asked)
    np.testing.assert_allclose(p, law, rtol=2e-5)
    # Also where the key that stands for the size is left out.
    for key in SHARED:
        margin = asked.copy()
        margin[:, key] = -1
        law = law_by_size(state.homes, data.homes, margin)
        found = model.cell_probabilities(stream, state, data, margin)
        np.testing.assert_allclose(found, law, rtol=2e-5)
    nothing = np.full((1, 4), -1, np.int32)
    assert model.cell_probabilities(stream, state, data, nothing) == pytest.approx(1.0)


@MIXTURES
@pytest.mark.parametrize("told", [False, True])
def test_groups_of_levels_of_either_kind_of_keys(model, told):
    stream, state, data = fitted(model, sample(told=told))
    single = Groups.of([np.eye(key.n_levels, dtype=bool) for key in KEYS])
    p = model.cell_probabilities(stream, state, data, CELLS)
    np.testing.assert_allclose(
        model.grouped_probabilities(stream, state, data, single, CELLS), p, rtol=1e-5
    )
    # A union of levels of keys of persons is the sum of its cells.
    own = [np.eye(key.n_levels, dtype=bool) for key in KEYS]
    own[0] = np.array([[True, True, False, False], [False, False, True, True]])
    cells = np.unique(np.column_stack((CELLS[:, 0] // 2, CELLS[:, 1:])), axis=0).astype(np.int32)
    found = model.grouped_probabilities(stream, state, data, Groups.of(own), cells)
    summed = [p[(np.column_stack((CELLS[:, 0] // 2, CELLS[:, 1:])) == cell).all(axis=1)].sum()
              for cell in cells]  # fmt: skip
    np.testing.assert_allclose(found, summed, rtol=1e-5)
    # Of shared keys it has the law of the coarser key, and all of them add up to one.
    shared = [np.eye(key.n_levels, dtype=bool) for key in KEYS]
    shared[2] = np.array([[True, True, False], [False, False, True]])
    coarse = CELLS[CELLS[:, 2] < 2]
    found = model.grouped_probabilities(stream, state, data, Groups.of(shared), coarse)
    assert found.sum() == pytest.approx(1.0, abs=1e-6)
    asked = coarse.copy()
    asked[:, OWN] = -1
    joined = model.grouped_probabilities(stream, state, data, Groups.of(shared), asked)
    law = law_by_size(state.homes, data.homes, CELLS)
    member = np.minimum(CELLS[:, 2], 2) // 2
    for cell, of in zip(coarse, joined, strict=True):
        same = (member == cell[2]) & (CELLS[:, 3] == cell[3]) & (CELLS[:, OWN] == 0).all(axis=1)
        assert of == pytest.approx(law[same].sum(), rel=2e-5)


@MIXTURES
def test_companions_are_left_out_above_and_below_the_line(model):
    table = sample()
    stream, state, data = fitted(model, table)
    # The last two are cells that nobody is in.
    nobody = [cell for cell in CELLS if not (table.cells == cell).all(axis=1).any()]
    uniques = np.vstack((table.cells[table.unique], nobody[:2])).astype(np.int32)
    companions = companions_of(table, uniques)
    assert companions.some.any()
    assert not companions.some.all()
    p = model.cell_probabilities(stream, state, data, uniques)
    q = model.without_companions(stream, state, data, uniques, p, companions)
    assert np.array_equal(p[~companions.some], q[~companions.some])
    asked = uniques.copy()
    asked[:, OWN] = -1
    both, of_keys = (
        model._thinned(stream, state, data, cells, np.zeros(len(cells)), companions, None)
        for cells in (uniques, asked)
    )
    law = law_by_size(state.homes, data.homes, uniques)
    some = companions.some
    np.testing.assert_allclose(q[some], both[some] / of_keys[some] * law[some], rtol=2e-5)
    assert (np.abs(q - p)[some] > 0.0).any()


@MIXTURES
def test_persons_are_fitted_as_if_there_were_no_households(model):
    table = sample()
    _, state, _ = fitted(model, table)
    _, alone, data = fitted(model, replace(table, households=None))
    assert data.homes is None
    assert alone.homes == ()
    for name, value in alone._asdict().items():
        if name != "homes":
            np.testing.assert_array_equal(value, getattr(state, name))


@MIXTURES
def test_structural_zeros_are_those_of_persons(model):
    # The first two ages have no level 1 of the second key.
    impossible = np.zeros((1, 11), bool)
    impossible[0, [0, 1, 5, 6, 7, 8, 9, 10]] = True
    table = sample()
    codes = table.cells[table.record_cell]
    stays = (codes[:, 0] > 1) | (codes[:, 1] == 0)
    zeros = build(impossible, [0, 4, 6, 9, 11])
    table = replace(
        CellTable.from_codes(codes[stays], KEYS, 5000, zeros=zeros),
        households=table.households[stays],
    )
    stream, state, data = fitted(model, table)
    p = model.cell_probabilities(stream, state, data, CELLS)
    assert p[(CELLS[:, 0] < 2) & (CELLS[:, 1] == 1)].max() == 0.0
    # The constant of mixed membership is estimated, above and below the line.
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    margin = CELLS.copy()
    margin[:, OWN] = -1
    law = law_by_size(state.homes, data.homes, CELLS)
    found = model.cell_probabilities(stream, state, data, margin)
    np.testing.assert_allclose(found, law, rtol=2e-5)


def test_households_and_persons_share_no_random_numbers():
    table = sample()
    data = LatentClass().prepare(table)
    state = LatentClass().init(Stream(3, 0, 0), data)
    same = data.homes.model.init(Stream(3, 0, 0), data.homes.data)
    assert not np.array_equal(same.theta, state.homes.theta)


def test_persons_drawn_one_by_one_need_no_households():
    table = sample()
    one_each = replace(table, households=np.arange(table.n_records, dtype=np.int32))
    mixed = replace(table, households=np.arange(table.n_records, dtype=np.int32) // 3)
    for nothing in (replace(table, households=None), one_each, mixed):
        assert homes_of(nothing, LatentClass()) is None


def test_a_key_that_tells_the_size_stands_for_it():
    rng = np.random.default_rng(5)
    sizes = np.repeat([1, 2, 3, 4, 5, 6], 20)
    home = np.repeat(np.arange(120), sizes)
    # Topcoded at five.
    codes = np.column_stack(
        [
            rng.integers(0, 4, len(home)),
            np.minimum(sizes, 5)[home] - 1,
            rng.integers(0, 3, 120)[home],
        ]
    )
    keys = [Key.of_size("AGE", 4), Key.of_size("SIZE", 6), Key.of_size("REGION", 3)]
    table = replace(CellTable.from_codes(codes, keys, 9000), households=home.astype(np.int32))
    homes = homes_of(table, LatentClass())
    assert homes.columns.tolist() == [1, 2]
    assert homes.sized == 0
    assert homes.members[:5].tolist() == [1, 2, 3, 4, 5.5]
    # No household has the last level.
    assert homes.members[5] == pytest.approx(3.5)


def test_a_key_of_many_levels_does_not_tell_the_size():
    """The only household of a level has its mean size, which says nothing."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(1, 7, 200)
    home = np.repeat(np.arange(200), sizes)
    fine = rng.permutation(1000)[:200][home]
    codes = np.column_stack([rng.integers(0, 4, len(home)), fine])
    keys = [Key.of_size("AGE", 4), Key.of_size("STREET", 1000)]
    table = CellTable.from_codes(codes, keys, 9000)
    homes = homes_of(replace(table, households=home.astype(np.int32)), LatentClass())
    assert homes.sized == 1
    assert homes.members.tolist() == [1, 2, 3, 4, 5, 6]


@MIXTURES
def test_members_who_differ_or_are_not_known_have_the_share_that_they_have(model):
    rng = np.random.default_rng(9)
    sizes = rng.integers(1, 5, 400)
    home = np.repeat(np.arange(400), sizes)
    region = rng.integers(0, 3, 400)[home]
    region[rng.random(len(home)) < 0.06] = 4
    region[rng.random(len(home)) < 0.01] = 3
    known = Key(name="REGION", levels=(*"abcd", None), labels=(*"abcd", "missing"))
    keys = [Key.of_size("AGE", 4), known]
    codes = np.column_stack([rng.integers(0, 4, len(home)), region])
    table = CellTable.from_codes(codes, keys, 9000)
    table = replace(table, households=home.astype(np.int32))
    assert homes_of(table, LatentClass()).columns.tolist() == [1]
    stream, state, data = fitted(model, table, 20)
    (told,) = data.homes.told
    assert told.sum(axis=1) == pytest.approx(np.ones(5))
    margins = np.column_stack((np.full(5, -1), np.arange(5))).astype(np.int32)
    found = model.cell_probabilities(stream, state, data, margins)
    exact = data._replace(homes=data.homes._replace(told=(None,), found={}))
    of_homes = model.cell_probabilities(stream, state, exact, margins)
    np.testing.assert_allclose(found, of_homes @ told, rtol=1e-9)
    assert found.sum() == pytest.approx(1.0, abs=1e-6)
    shares = np.bincount(region, minlength=5) / len(region)
    np.testing.assert_allclose(found, shares, atol=0.05)
    assert found[4] > 0.7 * shares[4]
    assert found[3] > 0.3 * shares[3]
    # As members of households that have this value it would be next to nothing.
    assert of_homes[4] < 0.3 * shares[4]


def test_the_commonest_known_value_of_the_members_is_that_of_the_household():
    codes = [[m % 4, -1 if m == 2 else home % 3] for home in range(40) for m in range(4)]
    codes[0][1] = 2
    keys = [Key.of_size("AGE", 4), Key.of_size("REGION", 3)]
    table = CellTable.from_codes(codes, keys, 9000)
    table = replace(table, households=np.repeat(np.arange(40), 4).astype(np.int32))
    homes = homes_of(table, LatentClass())
    records = homes.data.records
    found = records.rows[records.record_cell][:, 0]
    assert np.bincount(found[found >= 0], minlength=3).tolist() == [14, 13, 13]


def test_a_state_of_a_file_has_to_fit_the_households_too():
    model = LatentClass()
    _, state, data = fitted(model, sample())
    start = model.init(Stream(3, 0, 0), data)
    assert model.state_fits(state, data, start)
    z = state.homes.z.copy()
    z[0] = len(state.homes.weights)
    assert not within(z, -1, len(state.homes.weights))
    assert not model.state_fits(state._replace(homes=state.homes._replace(z=z)), data, start)
    alone = model.prepare(replace(sample(), households=None))
    assert not model.state_fits(state, alone, start)


def test_one_large_household_does_not_hide_the_key_of_the_size():
    rng = np.random.default_rng(7)
    sizes = np.r_[np.repeat([1, 2, 3], 10), 30]
    home = np.repeat(np.arange(31), sizes)
    level = np.unique(sizes, return_inverse=True)[1]
    codes = np.column_stack([rng.integers(0, 4, len(home)), level[home]])
    table = CellTable.from_codes(codes, [Key.of_size("AGE", 4), Key.of_size("SIZE", 4)], 9000)
    homes = homes_of(replace(table, households=home.astype(np.int32)), LatentClass())
    assert homes.sized == 0
    assert homes.members.tolist() == [1, 2, 3, 30]
