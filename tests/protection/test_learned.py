from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.inference.plan import Plan, StopRule
from unikat.protection.learned import Released, _drawn, learned
from unikat.protection.left_over import Concentration, Share, contexts, draw_concentration
from unikat.protection.recoding import parse_recoding
from unikat.protection.shares import OTHER_LAW, Shares
from unikat.protection.what_if import Posterior
from unikat.risk.law import Others, mean_inverse
from unikat.studies.fit import fit

PLAN = Plan(n_chains=2, stop=StopRule(max_sweeps=200))
KEYS = [Key.of_size("a", 6), Key.of_size("b", 5), Key.of_size("c", 4)]


def persons(n: int, alpha: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys, and a variable whose law varies from cell to cell about one that follows key a."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.choice(k.n_levels, n, p=rng.dirichlet(np.full(k.n_levels, 2.0)))
                      for k in KEYS], axis=1)  # fmt: skip
    cells, place = np.unique(codes, axis=0, return_inverse=True)
    base = rng.dirichlet(np.ones(3), KEYS[0].n_levels)
    law = np.array([rng.dirichlet(alpha * base[cell[0]] + 1e-3) for cell in cells])
    cumulative = law.cumsum(axis=1)[place.ravel()]
    return codes, (rng.random(n)[:, None] > cumulative).sum(axis=1).clip(0, 2)


def some_shares(n: int = 300, seed: int = 4) -> tuple[Shares, CellTable, np.ndarray]:
    codes, values = persons(n, 5.0, seed)
    table = CellTable.from_codes(codes, KEYS, 10 * n)
    known = np.random.default_rng(1).random(n) < 0.9
    cell = table.record_cell.astype(np.int64)
    values = values.astype(np.int64)
    return Shares.of(values[known], 3, cell[known], table.cells), table, values


def test_the_expected_share_is_that_of_many_populations() -> None:
    shares, table, _ = some_shares(30)
    counts, n_states = table.counts.astype(float), 3_000
    law = Others(*(np.full(table.n_cells, part) for part in (0.4, 0.7, 3.0)))
    inferred = [np.full(table.n_cells, value) for value in range(3)]
    object.__setattr__(shares, "alphas", np.full((2, 5), 4.0))
    drawn = _drawn(shares, inferred, [law] * n_states, counts, 1).mean(axis=1)
    inverse = mean_inverse(law, counts)
    expected = [shares.right(one, inverse) for one in inferred]
    np.testing.assert_allclose(np.sum(expected, axis=0), 1.0)
    np.testing.assert_allclose(expected, drawn, atol=4.5 * 0.5 / n_states**0.5)
    # What is inferred is the largest of these.
    assert (shares.inferred(inverse) == np.argmax(expected, axis=0)).all()
    # Planted: nobody is unobserved, so that a sample unique tells its own value for certain.
    slip = [shares.right(one, np.ones(table.n_cells)) for one in inferred]
    assert np.abs(np.array(slip) - drawn).max() > 0.1


def test_parts_are_weighed_by_the_records() -> None:
    """By hand: one value among others, in a file of one key and two cells."""
    codes = np.array([[0], [1]], np.int32)
    values, cell = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    shares = Shares.of(values, 2, cell, codes)
    # All values alike, and the other cell: 3 records, and alpha is 1.
    np.testing.assert_allclose(shares.chances, [[0.25] * 2, [0.75] * 2])
    parts = shares.parts(np.array([0, 0]))
    other = np.array([1 / 3, 2 / 3])
    np.testing.assert_allclose(parts, [0.125 + 0.75 * other, [0.5] * 2, other])
    alpha = 5.0

    def of_three(share: float) -> float:
        a, b = alpha * share, alpha * (1.0 - share)
        return a * (a + 1) * b / (alpha * (alpha + 1) * (alpha + 2))

    before = np.array([1.0 - OTHER_LAW, OTHER_LAW * 0.25, OTHER_LAW * 0.75])
    after = before * [of_three(share) for share in parts[:, 0]]
    found = shares.weights(np.full(2, alpha))
    np.testing.assert_allclose(found[:, 0], after / after.sum())
    # Of all values alike, those that the records have in their order are as probable.
    assert found.sum(axis=0) == pytest.approx(1.0)


def test_a_whole_population_is_counted() -> None:
    codes = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 2, 3], [1, 1, 1], [1, 1, 1]])
    values = np.array([0, 0, 1, 2, 1, -1])
    table = CellTable.from_codes(codes, KEYS, 6)
    found = learned(Posterior.without_model(table), "s", values, 0.95)
    assert found is not None
    # Three of the first, two are right about; one alone; and two of which one is not known.
    assert found.record_right[:4].tolist() == pytest.approx([2 / 3] * 3 + [1.0])
    assert found.record_right[4] == found.record_right[5] > 0.5
    assert (found.record_gain >= 0.0).all()


def test_alpha_is_drawn_around_that_of_the_cells() -> None:
    rng = np.random.default_rng(2)
    base, n_cells, size = np.array([0.5, 0.3, 0.2]), 3_000, 4
    law = rng.dirichlet(6.0 * base, n_cells)
    values = (rng.random((n_cells, size))[:, :, None] > law.cumsum(axis=1)[:, None]).sum(axis=2)
    cell = np.repeat(np.arange(n_cells), size)
    flat = values.ravel().clip(0, 2)
    told = Concentration.of(flat, cell, base[flat])
    found = draw_concentration(told.log, 2_000, rng)
    assert np.quantile(found, 0.01) < 6.0 < np.quantile(found, 0.99)
    assert np.quantile(found, 0.975) / np.quantile(found, 0.025) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [2.0, 30.0])
def test_what_is_learned_is_what_is_true_in_the_population(alpha: float) -> None:
    right = []
    for seed in range(12):
        codes, values = persons(6_000, alpha, seed)
        drawn = np.sort(np.random.default_rng(seed + 100).choice(6_000, 400, replace=False))
        table = CellTable.from_codes(codes[drawn], KEYS, 6_000)
        posterior = Posterior.of(fit("latent-class", table, plan=PLAN), n_states=100)
        found = learned(posterior, "s", values[drawn], 0.95)
        assert found is not None
        _, place = np.unique(codes, axis=0, return_inverse=True)
        counts = np.zeros((place.max() + 1, 3))
        np.add.at(counts, (place.ravel(), values), 1.0)
        share = (counts / counts.sum(axis=1, keepdims=True))[place.ravel()[drawn]]
        true = share[np.arange(400), found.record_chosen].sum()
        right.append((found.right.mean - true) / true)
    error = np.std(right) / np.sqrt(len(right))
    assert abs(np.mean(right)) < 3 * error + 0.02


def test_one_value_tells_nothing() -> None:
    codes, _ = persons(300, 2.0, 1)
    table = CellTable.from_codes(codes, KEYS, 300)
    found = learned(Posterior.without_model(table), "s", np.zeros(300, np.int64), 0.95)
    assert found is not None
    assert (found.gain.mean, found.right.mean, found.before.mean) == (0.0, 300.0, 300.0)


def test_a_variable_that_the_keys_tell_adds_nothing() -> None:
    codes, _ = persons(3_000, 2.0, 1)
    drawn = np.arange(0, 3_000, 5)
    table = CellTable.from_codes(codes[drawn], KEYS, 3_000)
    posterior = Posterior.of(fit("latent-class", table, plan=PLAN), n_states=50)
    tells_all = learned(posterior, "s", codes[drawn, 0] % 3, 0.95)
    assert tells_all is not None
    assert tells_all.gain.mean < 0.02 * len(drawn)
    assert tells_all.right.mean > 0.95 * len(drawn)
    noise = np.random.default_rng(1).integers(0, 3, len(drawn))
    tells_nothing = learned(posterior, "s", noise, 0.95)
    assert tells_nothing is not None
    assert tells_nothing.before.mean < 0.5 * len(drawn) < tells_all.before.mean
    again = learned(posterior, "s", noise, 0.95)
    assert again is not None
    assert again.gain == tells_nothing.gain


def test_assess_tells_what_is_learned(tmp_path: Path) -> None:
    codes, values = persons(2_000, 2.0, 3)
    frame = pd.DataFrame(codes[::4], columns=["a", "b", "c"]).assign(ill=values[::4].astype(float))
    frame.loc[:20, "ill"] = None
    asked: dict[str, Any] = {
        "keys": "a,b,c", "population_size": 2_000, "model": "latent-class", "max_sweeps": 200,
        "chains": 2, "sensitive": "ill", "out": tmp_path / "out",
    }  # fmt: skip
    found = unikat.assess(frame, **asked)
    (one,) = found.summary.classics.sensitive
    inferred = one.inferred
    assert inferred.n_records == 500
    assert 0.0 < inferred.gain.lower <= inferred.gain.mean <= inferred.gain.upper
    assert inferred.right.mean == pytest.approx(inferred.before.mean + inferred.gain.mean)
    records = found.records
    assert records["inferred_ill"].sum() == pytest.approx(inferred.right.mean, rel=0.03)
    assert (records["inferred_gain_ill"] >= 0.0).all()
    for groups in inferred.by:
        assert sum(one.n_records for one in groups.levels) == 500
        total = np.nansum(records["inferred_gain_ill"])
        assert sum(one.gain for one in groups.levels) == pytest.approx(total)
    assert [groups.variable for groups in inferred.by] == ["a", "b", "c"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "inference of ill" in page
    assert "It adds most for" in page
    # A model that knows no groups of levels, and none of persons, tells nothing.
    other = unikat.assess(frame, **asked | {"model": "individual-risk", "out": None})
    assert other.summary.classics.sensitive[0].inferred is None


def test_weights_of_a_survey_are_taken() -> None:
    codes, values = persons(1_000, 2.0, 5)
    frame = pd.DataFrame(codes, columns=["a", "b", "c"]).assign(ill=values, w=4.0)
    frame.loc[::3, "w"] = 10.0
    found = unikat.assess(
        frame, keys="a,b,c", weights="w", model="latent-class", max_sweeps=150, chains=2,
        sensitive="ill",
    )  # fmt: skip
    inferred = found.summary.classics.sensitive[0].inferred
    assert 0.0 <= inferred.gain.mean < inferred.right.mean <= 1_000


def test_shares_are_those_of_the_columns_left_beside_keys() -> None:
    codes, values = persons(400, 5.0, 4)
    table = CellTable.from_codes(codes, KEYS, 4_000)
    columns = list(codes.astype(np.int64).T)
    cell = table.record_cell.astype(np.int64)
    shares = Shares.of(values.astype(np.int64), 3, cell, table.cells)
    share = Share.of(values.astype(np.int64), contexts(values.astype(np.int64), columns))
    alpha = share.ours + share.rest - table.counts[cell]
    n = np.asarray([shares.counts[-1][one, value] for one, value in zip(cell, values, strict=True)])
    base = shares.parts(values.astype(np.int64), cell)[0]
    np.testing.assert_allclose(base, (share.ours - n) / alpha, rtol=1e-6, atol=1e-9)


def test_contexts_of_coarse_columns_end_at_who_looks_the_same_there() -> None:
    codes, values = persons(300, 5.0, 4)
    table = CellTable.from_codes(codes, KEYS, 3_000)
    values, cell = values.astype(np.int64), table.record_cell.astype(np.int64)
    shares = Shares.of(values, 3, cell, table.cells, coarse=table.cells[:, 1:2])
    for value in range(3):
        nearest = shares.parts(np.full(table.n_cells, value, np.int64))[-1]
        for one in range(0, table.n_cells, 7):
            b = table.cells[one, 1]
            others = values[(codes[:, 1] == b) & (cell != one)]
            assert nearest[one] == pytest.approx(np.mean(others == value), abs=1e-9)


def fitted(codes: np.ndarray, population_size: int) -> Posterior:
    table = CellTable.from_codes(codes, KEYS, population_size)
    return Posterior.of(fit("latent-class", table, plan=PLAN), n_states=60)


def test_what_released_files_tell() -> None:
    codes, values = persons(4_000, 2.0, 1)
    codes, values = codes[::8], values[::8].astype(np.int64)
    posterior = fitted(codes, 4_000)
    as_it_is = parse_recoding(posterior.table, {})

    def told(released: Released) -> tuple[Any, Any]:
        found = learned(posterior, "s", values, 0.95, 1, released)
        assert found is not None
        assert found.released is not None
        return found, found.released

    # A copy is what the original is.
    found, copy = told(Released(as_it_is, codes.astype(np.int32), values))
    assert (found.record_released == found.record_chosen).mean() > 0.98
    assert copy.gain.mean == pytest.approx(found.gain.mean, rel=0.05)
    # Values at random mislead who trusts them.
    shuffled = np.random.default_rng(1).permutation(values)
    _, noise = told(Released(as_it_is, codes.astype(np.int32), shuffled))
    assert noise.gain.mean < 0.1 * found.gain.mean
    # Coarser keys tell less, and the original tells as much as without the other file.
    coarse = parse_recoding(posterior.table, {"a": None, "b": None})
    again, less = told(Released(coarse, codes[:, 2:].astype(np.int32), values))
    assert less.gain.mean < 0.5 * found.gain.mean
    assert again.gain == found.gain
    # Nothing that is shown tells nothing.
    _, nothing = told(Released(as_it_is, np.full_like(codes, -1, np.int32), values))
    assert nothing.right.mean < found.before.mean


@pytest.mark.parametrize("seed", [1, 2])
def test_a_file_without_the_key_that_tells_all_tells_much_less(seed: int) -> None:
    """Found by a planted bug: the two laws of π with each other's share."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, key.n_levels, 6_000) for key in KEYS], axis=1)
    usual, random = codes[:, 0] % 3, rng.integers(0, 3, 6_000)
    values = np.where(rng.random(6_000) < 0.85, usual, random).astype(np.int64)
    posterior = fitted(codes[::10], 6_000)
    rule = parse_recoding(posterior.table, {"a": None})
    made = Released(rule, codes[::10, 1:].astype(np.int32), values[::10])
    found = learned(posterior, "s", values[::10], 0.95, 1, made)
    assert found is not None
    assert found.released is not None
    cell = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    counts = np.zeros((cell.max() + 1, 3))
    np.add.at(counts, (cell, values), 1.0)
    shares = (counts / counts.sum(axis=1, keepdims=True))[cell[::10]]
    every = np.arange(len(shares))
    assert found.record_released is not None
    truth = (shares[every, found.record_released] - shares[every, found.record_usual]).sum()
    assert found.released.gain.lower <= truth <= found.released.gain.upper


def test_verify_and_protect_tell_what_the_protected_file_tells() -> None:
    codes, values = persons(2_000, 2.0, 3)
    frame = pd.DataFrame(codes[::4], columns=["a", "b", "c"]).assign(ill=values[::4])
    asked: dict[str, Any] = {
        "keys": "a,b,c", "population_size": 2_000, "model": "latent-class", "max_sweeps": 150,
        "chains": 2,
    }  # fmt: skip
    checked = unikat.verify(frame, protected=frame, sensitive="ill", **asked)
    copy = checked.summary.inferred["ill"]
    assert copy.released is not None
    assert copy.released.gain.mean == pytest.approx(copy.gain.mean, rel=0.05)
    safe = frame.assign(a=frame["a"] // 3, ill=(frame["ill"] + 1) % 3)
    checked = unikat.verify(frame, protected=safe, sensitive="ill", **asked)
    less = checked.summary.inferred["ill"]
    assert less.released is not None
    assert less.gain == copy.gain
    assert less.released.gain.mean < 0.3 * copy.gain.mean
    assert "released file" in checked.summary.sentences["inferred"]
    made = unikat.protect(frame, recode={"a": None}, columns="ill: sensitive", **asked)
    told = made.summary.inferred["ill"]
    assert told.released is not None
    assert told.released.gain.mean < told.gain.mean
    assert not unikat.protect(frame, recode={"a": None}, **asked).summary.inferred


def test_an_attack_tells_what_synthetic_files_tell() -> None:
    codes, values = persons(2_000, 2.0, 3)
    frame = pd.DataFrame(codes[::4], columns=["a", "b", "c"]).assign(ill=values[::4])
    asked: dict[str, Any] = {
        "keys": "a,b,c", "targets": "ill,a", "population_size": 2_000, "max_sweeps": 150,
        "chains": 2,
    }  # fmt: skip
    copied = unikat.attack(frame, synthetic=frame, **asked).summary
    copy = copied.inferred["ill"]
    assert copied.inferred.keys() == {"ill"}
    assert copy.released is not None
    assert copy.released.gain.mean == pytest.approx(copy.gain.mean, rel=0.05)
    other = frame.assign(ill=np.roll(frame["ill"], 100))
    less = unikat.attack(frame, synthetic=other, **asked).summary.inferred["ill"]
    assert less.released is not None
    assert less.released.gain.mean < 0.3 * copy.gain.mean
    assert less.gain == copy.gain
    # Without the size of the population nothing tells how many share a combination.
    del asked["population_size"]
    assert not unikat.attack(frame, synthetic=frame, **asked).summary.inferred


@pytest.mark.parametrize(
    ("name", "words"),
    [("a", "'a' is a key, which an intruder knows already"), ("il", r"no column 'il'.* 'ill'\?")],
)
def test_what_cannot_be_inferred(name: str, words: str) -> None:
    frame = pd.DataFrame({"a": [0, 1] * 20, "b": list(range(4)) * 10, "ill": [0, 1, 1, 0] * 10})
    with pytest.raises((unikat.SpecError, unikat.DataError), match=words):
        unikat.verify(frame, protected=frame, keys="a,b", population_size=400, sensitive=name)
