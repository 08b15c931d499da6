"""A page of `records.parquet`: the records at risk, sorted and filtered as somebody asks.

Where missing keys are integrated over, the risk is that of what the file shows of a record, as in
`records-at-risk.csv`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data.engine import pattern, quoted, session
from unikat.errors import OutputError, SpecError, listed
from unikat.report.facts.result import N_REASONS

PAGE = 50
"""Records of a page."""
N_BANDS = 10
"""Bands of r1 by which records are counted."""
MOST_EXPORTED = 1_000_000
"""Records that are written, at most."""
Sort: TypeAlias = Literal["row", "r1", "r2", "key_1"]
SORTS: tuple[Sort, ...] = get_args(Sort)
_RISKS = ("r1", "r1_lower", "r1_upper", "r2")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which records are asked for, and in which order."""

    sort: Sort = "r1"
    descending: bool = True
    above: float = 0.0
    """Least r1."""
    below: float = 1.0
    """r1 is less than this; 1 for any."""
    key: str = ""
    """A key that does much to make the record rare; empty for any."""
    row: int | None = None
    """The number of one record in the file, the first being 1."""
    page: int = 1

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise SpecError(f"Records can be sorted by {listed(SORTS, 9)}.")
        if not (math.isfinite(self.above) and 0 <= self.above <= 1):
            raise SpecError("The least risk must be a number from 0 to 1, such as 0.2.")
        if not (math.isfinite(self.below) and self.above < self.below <= 1):
            raise SpecError("The risk must be below a number above the least risk, at most 1.")
        if self.row is not None and not 1 <= self.row < 2**62:
            raise SpecError("The number of a record is a whole number; the first is 1.")
        if not 1 <= self.page < 2**31:
            raise SpecError("The first page is 1.")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One record at risk."""

    row: int
    """Its number in the file; the first is 1."""
    household: int | None
    """Of the file, counted from 0; None where the units are persons."""
    r1: float
    r1_lower: float
    r1_upper: float
    r2: float
    keys: tuple[tuple[str, float], ...]
    """The keys that do most to make it rare, each with the fall in r1 if it alone is left out."""


@dataclass(frozen=True, kw_only=True)
class Facet:
    """Records that are alike."""

    key: str
    """The key that does most to make them rare; empty of a band of risk."""
    low: float
    high: float
    """Ends of the band of r1."""
    n: int


@dataclass(frozen=True, kw_only=True)
class ListedRecords:
    """A page of records."""

    records: tuple[Listed, ...]
    n_found: int
    """Records that are as asked for."""
    n_at_risk: int
    """Records at risk in the file."""
    keys: tuple[str, ...]
    """Keys that do much to make some record rare."""
    by_key: tuple[Facet, ...]
    """How many of those of the same risk each key does most to make rare, the most first."""
    by_risk: tuple[Facet, ...]
    """How many of those of the same key there are in each tenth of r1, from the highest."""
    shown: bool
    """Whether r1 and r2 are those of what the file shows of a record."""

    @property
    def n_pages(self) -> int:
        """Pages of `PAGE` records."""
        return max(1, -(-self.n_found // PAGE))


def list_records(path: Path, wanted: Wanted) -> ListedRecords:
    """Read a page of a `records.parquet`.

    Notes
    -----
    With 1,000,000 records a page takes less than 0.3 s: rows are found by the columns that are
    asked about alone, and only those of the page are read whole.
    """
    asked = _Query.of(path, wanted)
    with session([path], name=path.name) as connection:
        source, where, r1, reasons = asked.source, asked.where(), asked.r1, asked.reasons
        counted = connection.execute(
            f"SELECT count(*), count(*) FILTER (WHERE {where}) FROM {source} WHERE {r1} IS NOT NULL"
        ).fetchall()
        keys = connection.execute(
            " UNION ".join(
                f"SELECT DISTINCT {reason}::VARCHAR AS k FROM {source}" for reason in reasons
            )
        ).fetchall()
        by_key = connection.execute(
            f"SELECT key_1::VARCHAR AS k, count(*) AS n FROM {source} "
            f"WHERE {asked.where('key')} AND key_1 IS NOT NULL GROUP BY k ORDER BY n DESC, k"
        ).fetchall()
        by_risk = connection.execute(
            f"SELECT least(floor({r1} * {N_BANDS}), {N_BANDS - 1})::INTEGER AS band, count(*) "
            f"FROM {source} WHERE {asked.where('risk')} GROUP BY band ORDER BY band DESC"
        ).fetchall()
        rows = connection.execute(
            f"SELECT row FROM {source} WHERE {where} {asked.order} "
            f"LIMIT {PAGE} OFFSET {PAGE * (wanted.page - 1)}"
        ).fetchall()
        place = {row: i for i, (row,) in enumerate(rows)}
        found = []
        if place:
            found = connection.execute(
                f"{asked.select} WHERE row IN ({', '.join(map(str, place))})"
            ).fetchall()
    records = sorted(map(_listed, found), key=lambda one: place[one.row])
    return ListedRecords(
        records=tuple(records),
        by_key=tuple(Facet(key=key, low=0.0, high=1.0, n=n) for key, n in by_key),
        by_risk=tuple(
            Facet(key="", low=band / N_BANDS, high=(band + 1) / N_BANDS, n=n) for band, n in by_risk
        ),
        n_found=int(counted[0][1]),
        n_at_risk=int(counted[0][0]),
        keys=tuple(sorted(str(key) for (key,) in keys if key is not None)),
        shown=asked.shown,
    )


def records_of_rows(path: Path, rows: Collection[int]) -> dict[int, Listed]:
    """Read some records by the numbers of their rows; those that have a risk."""
    if not rows:
        return {}
    asked = _Query.of(path, Wanted())
    with session([path], name=path.name) as connection:
        found = connection.execute(
            f"{asked.select} WHERE {asked.where()} AND row IN ({', '.join(map(str, rows))})"
        ).fetchall()
    return {one.row: one for one in map(_listed, found)}


def export_records(path: Path, wanted: Wanted) -> str:
    """Write all records that are asked for, whatever their page, as CSV; without values of keys."""
    asked = _Query.of(path, wanted)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    keys = [f"{name}_{rank}" for rank in range(1, N_REASONS + 1) for name in ("key", "drop")]
    rows.writerow(["row", "household", *_RISKS, *keys])
    with session([path], name=path.name) as connection:
        found = connection.execute(
            f"{asked.select} WHERE {asked.where()} {asked.order} LIMIT {MOST_EXPORTED}"
        ).fetchall()
    for one in map(_listed, found):
        pairs = [part for pair in one.keys for part in pair]
        home = "" if one.household is None else one.household
        rows.writerow([one.row, home, one.r1, one.r1_lower, one.r1_upper, one.r2, *pairs])
    return text.getvalue()


class _Query(NamedTuple):
    """What is asked of a file, in SQL."""

    source: str
    conditions: Mapping[str, str]
    """By what they are about."""
    r1: str
    """Column of the risk."""
    reasons: Sequence[str]
    select: str
    """Columns of `_listed`."""
    order: str
    shown: bool

    @classmethod
    def of(cls, path: Path, wanted: Wanted) -> Self:
        columns = _columns(path)
        shown = "r1_shown" in columns
        middle = "_shown" if shown else ""
        said = {name: f"{name[:2]}{middle}{name[2:]}" for name in _RISKS}
        reasons = [f"key_{rank}" for rank in range(1, N_REASONS + 1)]
        drops = [f"drop_{rank}" for rank in range(1, N_REASONS + 1)]
        household = "household" if "household" in columns else "NULL"
        r1, source = said["r1"], f"read_parquet({quoted(pattern(path))})"
        risk = f"{r1} >= {wanted.above!r}::DOUBLE"
        if wanted.below < 1.0:
            risk += f" AND {r1} < {wanted.below!r}::DOUBLE"
        conditions = {"all": f"{r1} IS NOT NULL", "risk": risk}
        if wanted.key:
            conditions["key"] = f"{quoted(wanted.key)} IN ({', '.join(reasons)})"
        if wanted.row is not None:
            conditions["row"] = f"row = {wanted.row}"
        by = said.get(wanted.sort, wanted.sort)
        return cls(
            source=source,
            conditions=conditions,
            r1=r1,
            reasons=reasons,
            select=f"SELECT row, {household}, {', '.join((*said.values(), *reasons, *drops))} "
            f"FROM {source}",
            order=f"ORDER BY {by} {'DESC' if wanted.descending else 'ASC'} NULLS LAST, row",
            shown=shown,
        )

    def where(self, without: str = "") -> str:
        """All conditions, but those about something."""
        return " AND ".join(one for about, one in self.conditions.items() if about != without)


def _listed(line: Sequence[Any]) -> Listed:
    n = 2 + len(_RISKS)
    return Listed(
        row=line[0],
        household=line[1],
        r1=line[2],
        r1_lower=line[3],
        r1_upper=line[4],
        r2=line[5],
        keys=tuple(
            (str(key), float(drop))
            for key, drop in zip(line[n : n + N_REASONS], line[n + N_REASONS :], strict=True)
            if key is not None
        ),
    )


def _columns(path: Path) -> list[str]:
    """Columns of the file (OutputError if it cannot be read)."""
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError):
        raise OutputError(f"{path.name} cannot be read as Parquet; make the run again.") from None
    if not {"row", "key_1", *_RISKS} <= set(schema.names):
        raise OutputError(f"{path.name} is no file of records of unikat; make the run again.")
    return list(schema.names)
