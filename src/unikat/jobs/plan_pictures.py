"""What a plan does to the keys, and where its risk is: for the pictures of *What if*."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.progress import SILENT
from unikat.jobs.columns import FileColumns, with_risk
from unikat.jobs.households import read_sample
from unikat.protection.recoding import Recoding, recodable
from unikat.protection.utility import Tables
from unikat.protection.what_if import Posterior
from unikat.report.facts.breakdown import Breakdown, breakdowns
from unikat.report.facts.columns import ColumnFacts, LeftOver
from unikat.report.facts.committee import KeyShares, key_shares
from unikat.report.facts.risk_map import RiskMap, risk_map
from unikat.report.facts.table_counts import TableCounts
from unikat.risk.estimate import RiskEstimate
from unikat.spec.from_options import Inputs
from unikat.spec.protection import ProtectionSpec
from unikat.synthesis.utility import MarginUtility


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """What a plan does to the keys, and where its risk is."""

    keys: tuple[KeyShares, ...]
    """How records spread over the levels of each key, before and after; none of households."""
    breakdowns: tuple[Breakdown, ...]
    """Risk by level; none where values are suppressed or perturbed."""
    before: RiskMap | None
    """The risk of the file as it is by two keys."""
    after: RiskMap | None
    """That of the plan, by the same keys."""
    table: MarginUtility | None
    """What is left of the table of these two."""
    counts: TableCounts | None = None
    """The table itself."""


@dataclass(frozen=True, kw_only=True)
class ColumnsLeft:
    """What the columns that are no keys would tell."""

    columns: tuple[ColumnFacts, ...]
    left_over: LeftOver | None


def plan_pictures(
    before: RiskEstimate,
    recoding: Recoding,
    found: RiskEstimate | None,
    visible: Int32 | None,
    pair: tuple[str, str] | None,
) -> Pictures:
    """Draw up what the pictures of a plan show.

    Parameters
    ----------
    before
        Of the file as it is.
    recoding
        With the records that are held back.
    found
        Of the plan; None where the risk of single records is not known.
    visible
        (n_released, n_recoded_keys): what the released records show; None: the recoded values.
    pair
        Keys of the maps and of the table; None: those in which the risk of the plan, or of the
        file, is most concentrated.
    """
    table = before.table
    if table.layout is not None:
        by_level = () if found is None else breakdowns(found)
        return Pictures(keys=(), breakdowns=by_level, before=None, after=None, table=None)
    codes = table.cells[table.record_cell]
    out = released_of(recoding, table)
    shown = recoding.codes(codes[out]) if visible is None else visible
    after = None if found is None else risk_map(found, pair, show_all=True)
    names = pair if after is None else after.names
    first = risk_map(before, names, show_all=True)
    names = names or (None if first is None else first.names)
    kept, counts = (
        (None, None) if names is None else _kept(table, recoding, codes, shown, out, names)
    )
    return Pictures(
        keys=key_shares(recoding, codes, shown),
        breakdowns=() if found is None else breakdowns(found),
        before=first,
        after=after,
        table=kept,
        counts=counts,
    )


def released_of(recoding: Recoding, table: CellTable) -> Int64:
    """Numbers of the records that a plan releases."""
    if recoding.held is None:
        return np.arange(table.n_records)
    return np.flatnonzero(~recoding.held)


def _kept(
    table: CellTable,
    recoding: Recoding,
    codes: Int32,
    shown: Int32,
    out: Int64,
    names: tuple[str, str],
) -> tuple[MarginUtility, TableCounts]:
    every = [key.name for key in recodable(table)]
    places = every.index(names[0]), every.index(names[1])
    tables = Tables(
        columns=np.ascontiguousarray(codes.T.astype(np.int64)),
        n_levels=np.array([key.n_levels for key in table.keys], np.int64),
        names=tuple(every),
        # Of these two alone.
        n_keys=0,
        wanted=(places,),
    )
    keys = table.keys[places[0]], table.keys[places[1]]
    counts = TableCounts.of(keys, *tables.counts(places, recoding, shown, out), show_all=True)
    return tables.kept(recoding, shown, out).tables[0], counts


@dataclass(frozen=True, eq=False)
class OtherColumns:
    """The columns of a file that are no keys. Made by :meth:`read`."""

    columns: FileColumns
    rows: Int64
    """Which of the file are assessed."""

    @classmethod
    def read(cls, spec: ProtectionSpec, table: CellTable) -> OtherColumns:
        """Read the file once more."""
        if table.layout is not None:
            raise SpecError("What a column adds for households is not known.")
        microdata, again, handled, _ = read_sample(spec, Inputs(), SILENT)
        if again.fingerprint != table.fingerprint:
            raise SpecError("The file has changed since it was assessed; assess it again.")
        every = microdata.tabulate()
        rows = np.arange(every.n_records) if handled is None else np.flatnonzero(handled.kept)
        return cls(FileColumns.of(spec, microdata, every, []), rows)

    def left(self, posterior: Posterior, recoding: Recoding, level: float) -> ColumnsLeft:
        """Tell the risk with each column that would be copied, and with all of them.

        Linked columns are treated when the file is made, and are not among them.
        """
        table = posterior.table
        shown = recoding.codes(table.cells[table.record_cell])
        out = released_of(recoding, table)
        facts, left_over = with_risk(
            self.columns.facts, self.columns, posterior, recoding, shown, self.rows, out, level
        )
        return ColumnsLeft(columns=facts, left_over=left_over)
