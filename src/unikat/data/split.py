"""A table in two parts: records that are kept, and records that are held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unikat._typing import Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.rng import check_seed

_SPAWN_KEY = (0x68656C64, 0)
"""Of the generator that chooses the records: two words, where chains have one."""


def split(table: CellTable, fraction: float, seed: int) -> tuple[CellTable, CellTable]:
    """Leave out records chosen at random, or whole households where they were drawn so.

    The choice depends on the number of records, their households, the fraction and the seed alone,
    so every model leaves out the same records.

    Parameters
    ----------
    table
        The sample.
    fraction
        Share of the records to leave out, above 0 and below 1; at least one is left out and at
        least one is kept. Of households, as many as come closest to it.
    seed
        Not negative.

    Returns
    -------
    kept, left_out
        Tables of the two parts, with the population size of the whole.
    """
    if not 0.0 < fraction < 1.0:
        raise SpecError(f"held_out is {fraction!r}; it must be above 0 and below 1, such as 0.2.")
    n = table.n_records
    if n < 2:
        raise SpecError("A sample of one record cannot be split; set held_out to 0.")
    n_out = min(max(round(fraction * n), 1), n - 1)
    sequence = np.random.SeedSequence(check_seed(seed), spawn_key=_SPAWN_KEY)
    rng = np.random.Generator(np.random.PCG64(sequence))
    if table.households is None:
        out = np.zeros(n, bool)
        out[rng.permutation(n)[:n_out]] = True
    else:
        sizes = np.bincount(table.households)
        if len(sizes) < 2:
            raise SpecError("A sample of one household cannot be split; set held_out to 0.")
        order = rng.permutation(len(sizes))
        last = int(np.argmin(np.abs(np.cumsum(sizes[order])[:-1] - n_out)))
        out = np.isin(table.households, order[: last + 1])
    return _part(table, np.flatnonzero(~out)), _part(table, np.flatnonzero(out))


def _part(table: CellTable, records: Int64) -> CellTable:
    found = CellTable.from_codes(
        table.cells[table.record_cell[records]],
        table.keys,
        table.n_units,
        table.missing,
        zeros=table.zeros,
        layout=table.layout,
    )
    return replace(
        found,
        sampling=None if table.sampling is None else table.sampling.taken(records),
        households=None
        if table.households is None
        else np.unique(table.households[records], return_inverse=True)[1].astype(np.int32),
    )
