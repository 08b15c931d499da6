"""What the page of columns tells: the role of each column, and what methods do to its numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unikat._typing import Float64
from unikat.data import Design
from unikat.data.held import Held
from unikat.data.profile import N_BINS
from unikat.interrupts import interruptible
from unikat.jobs.columns import FileColumns
from unikat.jobs.inputs import open_data
from unikat.jobs.numeric import numeric_entries
from unikat.protection.numeric.change import NumericColumn, values_changed
from unikat.report.facts.columns import ColumnFacts
from unikat.spec.protection import ProtectionSpec

MOST_CHANGED = 200_000
"""Records whose numbers are changed for a preview."""


@dataclass(frozen=True, kw_only=True)
class NumericSeen:
    """What methods would do to a column of numbers."""

    facts: NumericColumn
    before: tuple[float, ...]
    """Records by range of numbers, as shares of the largest of both pictures."""
    after: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ColumnsSeen:
    """The columns of a file that are no keys, before anything is fitted."""

    columns: tuple[ColumnFacts, ...]
    numeric: tuple[NumericSeen, ...]
    n_changed: int
    """Records of which the numbers were changed: all, or the first of a large file."""


@interruptible
def columns_seen(spec: ProtectionSpec, held: Held) -> ColumnsSeen:
    """Tell the role of each column, and change its numbers as asked."""
    # The columns are here; how they were read is no matter any more.
    as_read = dict.fromkeys(("format", "delimiter", "encoding", "sheet", "table"))
    design = Design(without_population=True, household=spec.design.household)
    microdata = open_data(
        spec.data.model_copy(update=as_read),
        spec.keys,
        design,
        held,
        fewest_keys=1,
        constant_keys=True,
    )
    every = microdata.tabulate()
    some = numeric_entries(spec, microdata)
    changed = [one.name for entry in some for one in entry.columns]
    facts = tuple(
        replace(one, action="changed") if one.name in changed and one.action == "copied" else one
        for one in FileColumns.of(spec, microdata, every, changed).facts
    )
    numeric: list[NumericSeen] = []
    n = min(microdata.n_records, MOST_CHANGED)
    rows = np.arange(n)
    if some:
        groups = list({name for entry in some for one in entry.methods for name in one.by})
        # Methods draw nothing here that a release would draw: its seed is not known.
        table = microdata.values(groups or changed[:1]).slice(0, n)
        household = None if every.households is None else every.households[:n]
    for entry in some:
        made = values_changed(table, entry.of_rows(rows), household, seed=None)
        for one, released in zip(made.entry.columns, made.values.T, strict=True):
            before, after = _pictures(one.values, released)
            numeric.append(NumericSeen(facts=made.facts(one, released), before=before, after=after))
    return ColumnsSeen(columns=facts, numeric=tuple(numeric), n_changed=n)


def _pictures(before: Float64, after: Float64) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Count the numbers of both in the same ranges; what is far outside stands at the ends."""
    known = before[np.isfinite(before)]
    low, high = np.quantile(known, [0.005, 0.995])
    low, high = (low, high) if low < high else (known.min() - 0.5, known.max() + 0.5)
    counts = [
        np.histogram(np.clip(one[np.isfinite(one)], low, high), N_BINS, (low, high))[0]
        for one in (before, after)
    ]
    most = max(1, *(int(one.max()) for one in counts))
    first, second = (tuple((one / most).tolist()) for one in counts)
    return first, second
