"""Draws from a fitted model: conditional ones against enumeration, classes, states, values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import unikat
from unikat import HDP, CellTable, Design, GoM, Key, LatentClass, Zeros, apply_zeros
from unikat.data.keys import Key as AnyKey
from unikat.data.values import LevelValues
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.risk.exposure import fitted_table
from unikat.synthesis.convergence import SynthesisMeasures
from unikat.synthesis.generate import (
    PosteriorState,
    draw_persons,
    posterior_states,
    spacing,
)
from unikat.synthesis.partial import _law, draw_given

LEVELS = (2, 3, 4)
KEYS = tuple(Key.of_size(name, n) for name, n in zip("ABC", LEVELS, strict=True))


def table(n: int = 400, *, zeros: bool = False) -> CellTable:
    rng = np.random.default_rng(2)
    group = rng.random(n) < 0.4
    codes = np.column_stack(
        [
            np.where(group, rng.integers(0, 2, n), 0),
            np.where(group, 2, rng.integers(0, 3, n)),
            np.where(group, rng.integers(0, 2, n), rng.integers(1, 4, n)),
        ]
    )
    found = CellTable.from_codes(codes, KEYS, n)
    if zeros:
        rules = Zeros.of(["A == 1 and C == 3", "B == 0 and C == 0"], KEYS)
        found = apply_zeros(found, rules, "drop").table
    return found


def state_of(model, cells: CellTable) -> tuple[PosteriorState, object]:
    """A state after some sweeps."""
    data = model.prepare(cells)
    state = model.init(Stream(1, 0, 0), data)
    for sweep in range(1, 21):
        state, _ = model.step(Stream(1, 0, sweep), state, data, 1)
    return PosteriorState(Stream(1, 0, 20), state), data


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("model", [LatentClass(), HDP(), GoM(components=4)], ids=lambda m: m.name)
def test_conditional_laws_are_those_of_all_cells(model, zeros):
    """p(B | a, c) from the probabilities of all cells, one by one."""
    cells = table(zeros=zeros)
    at, data = state_of(model, cells)
    every = np.array(list(product(*map(range, LEVELS))), np.int32)
    p = model.cell_probabilities(at.stream, at.state, data, every).reshape(LEVELS)
    known = every[every[:, 1] == 0].copy()
    known[:, 1] = -1
    joint = p.transpose(0, 2, 1).reshape(-1, LEVELS[1])
    some = joint.sum(axis=1) > 0.0
    law = _law(at, model, data, known[some], 1, LEVELS[1])
    expected = np.cumsum(joint[some] / joint[some].sum(axis=1, keepdims=True), axis=1)
    np.testing.assert_allclose(law, expected, rtol=1e-5)
    if zeros:
        # Impossible combinations have no probability.
        assert p[1, :, 3].sum() == 0.0
        assert p[:, 0, 0].sum() == 0.0


@pytest.mark.statistical
def test_two_keys_are_drawn_from_their_joint_distribution():
    """B and C of 20,000 records of one A: chi-square at level 1 in 10,000."""
    one = np.zeros((20_000, 3), np.int32)
    cells = table()
    model = LatentClass()
    at, data = state_of(model, cells)
    many = CellTable.from_codes(one, KEYS, 20_000)
    drawn = draw_given(at, model, data, many, many, ["C", "B"])
    assert (drawn[:, 0] == 0).all()
    every = np.array([(0, *bc) for bc in product(range(3), range(4))], np.int32)
    p = model.cell_probabilities(at.stream, at.state, data, every)
    expected = 20_000 * p / p.sum()
    counts = np.bincount(drawn[:, 1] * 4 + drawn[:, 2], minlength=12)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, 11)


def test_every_class_has_its_number():
    frame = pd.DataFrame(table().cells[table().record_cell], columns=list("ABC"))
    frame["w"] = np.where(frame.index % 5 == 0, 2.0, 9.0)
    sample_ = unikat.read(frame, "A,B,C", Design(weights="w")).tabulate()
    fitted = fitted_table(sample_)
    model = LatentClass()
    at, data = state_of(model, fitted)
    drawn = draw_persons(at, model, data, sample_, fitted)
    assert drawn.shape == (400, 3)
    # The class is drawn with the keys: its records stand where it is in the sample.
    first = model.simulate(at.stream, at.state, data, 4000)
    for stratum in (0, 1):
        here = sample_.sampling.strata == stratum
        wanted = first[first[:, 3] == stratum][: here.sum(), :3]
        np.testing.assert_array_equal(drawn[here], wanted)


def test_states_of_one_chain_are_an_effective_draw_apart():
    cells, model = table(), LatentClass()
    draws = sample(
        model,
        cells,
        SynthesisMeasures.of(cells),
        seed=4,
        plan=Plan(n_chains=2, stop=StopRule(max_sweeps=200)),
        workers=Workers(n_workers=1),
    )
    data = model.prepare(cells)
    apart = spacing(draws)
    worst = min(min(d.ess_bulk, d.ess_tail) for d in draws.diagnostics.values())
    kept = 2 * len(draws.retained_sweeps()) * draws.thin
    assert apart == max(int(np.ceil(kept / worst)), 10)
    found = list(posterior_states(draws, model, data, 5))
    assert [one.stream for one in found] == [
        Stream(4, chain, 200 + more * apart)
        for chain, more in ((0, 0), (1, 0), (0, 1), (1, 1), (0, 2))
    ]
    # Going on by hand from the last state gives the same.
    state = draws.states[0]
    for sweep in range(201, 201 + apart):
        state, _ = model.step(Stream(4, 0, sweep), state, data, 2)
    np.testing.assert_array_equal(state.weights, found[2].state.weights)


def test_a_resumed_run_gives_the_same_files(tmp_path):
    frame = pd.DataFrame(table().cells[table().record_cell], columns=list("ABC"))
    asked = {"keys": "A,B,C", "datasets": 3, "chains": 2, "workers": 1}
    asked["set"] = {"sampling.ess": 1e6}
    once = unikat.synthesize(frame, max_sweeps=400, **asked)
    out = tmp_path / "out"
    unikat.synthesize(frame, max_sweeps=120, out=out, **asked)
    assert (out / "fits" / "model" / "sampling.checkpoint").exists()
    twice = unikat.synthesize(frame, max_sweeps=400, out=out, resume=True, **asked)
    for one, other in zip(once.frames, twice.frames, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_fewer_files_than_before_leave_none_of_the_earlier_ones(tmp_path):
    frame = pd.DataFrame(table().cells[table().record_cell], columns=list("ABC"))
    asked = {"keys": "A,B,C", "chains": 2, "workers": 1, "max_sweeps": 20, "out": tmp_path / "out"}
    unikat.synthesize(frame, datasets=4, **asked)
    unikat.synthesize(frame, datasets=2, overwrite=True, **asked)
    written = sorted(path.name for path in (tmp_path / "out").glob("synthetic_*"))
    assert written == ["synthetic_1.parquet", "synthetic_2.parquet"]


def grouped(numbers, binning: str) -> LevelValues:
    """A key of numbers in groups, as the reader makes them."""
    frame = pd.DataFrame({"x": numbers, "y": np.arange(len(numbers)) % 2})
    read = unikat.read(frame, [f"x:{binning}", "y"], Design(without_population=True))
    cells = read.tabulate()
    return LevelValues(
        key=read.keys[0],
        column=read.values(["x"])["x"],
        codes=cells.cells[cells.record_cell, 0],
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(-50, 120), min_size=12, max_size=60, unique=True),
    st.sampled_from(["width(10)", "cut(-10,0,40)", "quantile(4)"]),
    st.sampled_from([1, 0.1, 0.01]),
)
def test_numbers_are_drawn_within_their_group(numbers, binning, step):
    numbers = [-60, 130, 35, *(number * step for number in numbers)]
    numbers = [int(number) for number in numbers] if step == 1 else numbers
    values = grouped(numbers, binning)
    codes = np.repeat(np.arange(values.key.n_levels, dtype=np.int32), 20)
    written = values.write(codes, np.random.default_rng(3))
    assert written.type == values.column.type
    drawn = np.asarray(written, float)
    again = grouped([*numbers, *drawn.tolist()], binning) if "quantile" not in binning else None
    if again is not None:
        labels = np.array(again.key.labels)[again.codes[len(numbers) :]]
        np.testing.assert_array_equal(labels, np.array(values.key.labels)[codes])
    # To the decimals of the column, and in the order of the groups.
    np.testing.assert_allclose(np.round(drawn / step), drawn / step, atol=1e-6)
    assert (np.diff(drawn.reshape(-1, 20).max(axis=1)) >= 0).all()


def test_a_group_with_one_edge_keeps_its_mean():
    rng = np.random.default_rng(8)
    numbers = np.concatenate([rng.integers(0, 65, 500), 65 + rng.integers(0, 25, 400)])
    values = grouped(numbers, "cut(20,65)")
    codes = np.full(20_000, 2, np.int32)
    drawn = np.asarray(values.write(codes, rng), float)
    assert drawn.min() == 65
    assert drawn.mean() == pytest.approx(numbers[numbers >= 65].mean(), abs=0.6)


@pytest.mark.parametrize("binning", ["cut(20,65)", "cut(10,20,65)"])
def test_a_group_of_few_records_does_not_tell_their_numbers(binning):
    """The same is written whatever the numbers of the five youngest and of the oldest are."""
    middle = np.arange(20, 65).repeat(3).tolist()
    written = []
    for young, old in ((3, 70), (9, 107)):
        values = grouped([*middle, *[young] * 5, old], binning)
        ends = values.key.n_levels - 1
        codes = np.array([0, ends], np.int32).repeat(500)
        written.append(np.asarray(values.write(codes, np.random.default_rng(2)), float))
    np.testing.assert_array_equal(*written)
    assert written[0][500:].min() == 65
    assert written[0][500:].max() <= 65 + 45


def test_codes_that_mean_missing_are_written_as_often_as_they_occur():
    column = pa.chunked_array([pa.array(["a", "NA", "b", "?", "NA", "NA"])])
    key = AnyKey(name="x", levels=("a", "b", None), labels=("a", "b", "missing"))
    values = LevelValues(key=key, column=column, codes=np.array([0, 2, 1, 2, 2, 2], np.int32))
    written = values.write(np.full(4000, 2, np.int32), np.random.default_rng(1)).to_pylist()
    assert set(written) == {"NA", "?"}
    assert 850 < written.count("?") < 1150
    assert values.write(np.array([1, 0], np.int32), np.random.default_rng(1)).to_pylist() == [
        "b",
        "a",
    ]


def test_a_level_of_the_codebook_is_written_too():
    column = pa.chunked_array([pa.array([1, 2], pa.int8())])
    key = AnyKey(name="x", levels=(1, 2, 3), labels=("a", "b", "c"))
    values = LevelValues(key=key, column=column, codes=np.array([0, 1], np.int32))
    written = values.write(np.array([2, 0, 2], np.int32), np.random.default_rng(1))
    assert written.to_pylist() == [3, 1, 3]
    assert written.type == pa.int8()
