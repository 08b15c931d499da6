"""What the mixture models share: records as their kernels read them, starts, threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64, UInt32
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels.mixture import Records
from unikat.kernels.zeros import Diagram
from unikat.models.base import AnyModel, Stream
from unikat.rng import chain_key

BLOCK = 1 << 20
"""Cells whose probabilities are computed at a time: what is made on the way stays small."""
START_CLASSES = (64, 128, 96, 192)
"""Classes at the start of a chain, by its number."""


class MixtureData(NamedTuple):
    """The table as the kernels read it; records are in the order of their pattern."""

    rows: Int32
    """(n_cells, n_keys): row of theta of each known key, -1 where missing."""
    record_cell: Int32
    """(n_records,)"""
    counts: Int64
    """(n_cells,)"""
    offsets: Int64
    """(n_keys + 1,): first row of each key."""
    at_least: Float64
    """(n_keys,): records with more than l known keys."""
    frequencies: Float64
    """(n_rows,): known tokens of each row."""
    zeros: Diagram | None = None
    """The possible cells; None if all are."""
    place: Int64 | None = None
    """(n_records,): place of each record of the input; None where none has companions."""
    homes: Any = None
    """Households, where their shared keys have a law of their own (`mixtures.homes`)."""

    @property
    def arrays(self) -> Records:
        """The records as kernels take them."""
        return Records(self.rows, self.record_cell, self.offsets)


def sorted_places(rows: Int32) -> Int64:
    """Places of rows (n, n_keys), from -1 on, in lexicographic order; equal ones as they stand.

    Rows become whole numbers where these fit: sorting by every key in turn takes twice as long.
    """
    sizes = [int(n) + 2 for n in rows.max(axis=0, initial=-1)]
    if math.prod(sizes) >= 2**63:
        return np.lexsort(rows.T[::-1])
    number = np.zeros(len(rows), np.int64)
    for size, column in zip(sizes, rows.T, strict=True):
        number = number * size + (column + 1)
    return np.argsort(number, kind="stable")


def lay_out(table: CellTable) -> MixtureData:
    """Lay a table out as rows of theta, records in the order of their pattern."""
    levels = np.asarray(table.n_levels, np.int64)
    offsets = np.concatenate(([0], np.cumsum(levels)))
    rows = rows_of(table.cells, offsets)
    # By column, since a table of ten million patterns leaves no room for copies.
    n_known = np.zeros(table.n_cells, np.int64)
    frequencies = np.zeros(int(offsets[-1]))
    for column in rows.T:
        known = column >= 0
        n_known += known
        frequencies += np.bincount(column[known], table.counts[known], int(offsets[-1]))
    return MixtureData(
        rows=rows,
        record_cell=np.repeat(np.arange(table.n_cells, dtype=np.int32), table.counts),
        counts=table.counts,
        offsets=offsets,
        at_least=np.array(
            [float(table.counts[n_known > l].sum()) for l in range(table.n_keys)], np.float64
        ),
        frequencies=frequencies,
        zeros=table.zeros,
        place=None if table.households is None else places(table.record_cell),
    )


def places(record_cell: Int32) -> Int64:
    """Place of each record where records are in the order of their pattern, (n_records,)."""
    place = np.empty(len(record_cell), np.int64)
    place[np.argsort(record_cell, kind="stable")] = np.arange(len(record_cell))
    return place


def rows_of(cells: Int32, offsets: Int64) -> Int32:
    """Rows of theta of cells (n, n_keys), -1 where a key is missing or left out."""
    rows: Int32 = cells + offsets[:-1].astype(np.int32)
    rows[cells < 0] = -1
    return rows


def in_blocks(probabilities: Callable[[Int32], Float64], cells: Int32) -> Float64:
    """Call a function of cells (n, n_keys), whose values (n,) depend on their cell alone."""
    if len(cells) <= BLOCK:
        return probabilities(cells)
    out = np.empty(len(cells))
    for first in range(0, len(cells), BLOCK):
        out[first : first + BLOCK] = probabilities(cells[first : first + BLOCK])
    return out


def toy_table(zeros: bool = False) -> CellTable:
    """Return a table on which kernels are compiled; with a structural zero if asked for."""
    keys = tuple(Key.of_size(name, 2) for name in "AB")
    codes = [[0, 0], [0, 1], [1, -1 if zeros else 1]]
    # Level 1 of the first key excludes level 0 of the second.
    child = np.array([[1, 2], [3, 3], [-1, 3]], np.int32)
    diagram = Diagram(np.arange(2), np.array([0, 1, 3, 4]), child) if zeros else None
    return CellTable.from_codes(codes, keys, population_size=9, zeros=diagram)


def compile_on_toy_table(model: AnyModel, zeros: bool = False) -> None:
    """Compile the kernels of a model, or load them from the cache, by a sweep of a toy table."""
    table = toy_table(zeros)
    data = model.prepare(table)
    stream = Stream(0, 0, 0)
    state, _ = model.step(stream, model.init(stream, data), data, 1)
    model.cell_probabilities(stream, state, data, table.cells)


def compile_plug_in(model: AnyModel, zeros: bool) -> None:
    """Compile what draws from a fitted model needs, or load it from the cache, on a toy table."""
    table = toy_table(zeros)
    data = model.prepare(table)
    stream = Stream(0, 0, 0)
    state = model.init(stream, data)
    model.cell_probabilities(stream, state, data, table.cells)
    model.impute(stream, state, data)
    model.simulate(stream, state, data, 1)


def start_classes(data: MixtureData, stream: Stream, most: int | None = None) -> Int64:
    """Start class of each cell, (n_cells,): classes of a few keys drawn at random.

    Many pure classes merge within some tens of sweeps; a start from few has to split them again,
    which takes thousands. Chains differ in the keys and in the number of classes, `most` of them
    where the model has no more.
    """
    if not len(data.rows):
        return np.empty(0, np.int64)
    n_classes = START_CLASSES[stream.chain % len(START_CLASSES)]
    n_classes = n_classes if most is None else min(n_classes, most)
    rng = np.random.Generator(np.random.Philox(key=chain_key(stream.seed, stream.chain)))
    classes = np.zeros(len(data.rows), np.int64)
    for j in rng.permutation(data.rows.shape[1]):
        _, classes = np.unique(
            classes * (len(data.rows) + data.offsets[-1] + 2) + data.rows[:, j] + 1,
            return_inverse=True,
        )
        if classes.max() + 1 >= n_classes:
            break
    return rng.permutation(classes.max() + 1)[classes] % n_classes


def generator_of(stream: Stream, purpose: int) -> np.random.Generator:
    """Generator of a sweep for what is drawn outside kernels; purposes count from 1."""
    return generator_at(chain_key(stream.seed, stream.chain), stream.sweep, purpose)


def generator_at(key: UInt32, sweep: int, purpose: int) -> np.random.Generator:
    """As `generator_of`, by the key of a chain."""
    number = int.from_bytes(key.tobytes(), "little")
    return np.random.Generator(np.random.Philox(key=number, counter=[0, 0, purpose, sweep]))


def in_parts(work: Callable[[int, int, int], None], n: int, n_parts: int) -> None:
    """Run `work(part, first, last)` over [0, n) cut in `n_parts`, one thread each."""
    bounds = [n * part // n_parts for part in range(n_parts + 1)]
    if n_parts == 1:
        work(0, 0, n)
        return
    pool = _pool(n_parts - 1)
    futures: list[Future[None]] = [
        pool.submit(work, part, bounds[part], bounds[part + 1]) for part in range(1, n_parts)
    ]
    work(0, bounds[0], bounds[1])
    for future in futures:
        future.result()


@lru_cache(maxsize=2)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    """Threads for the kernels, which run without the interpreter lock."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="unikat-kernel")
