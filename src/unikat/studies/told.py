"""Estimates of other programs of the samples of a study: read from a table, scored like others."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from unikat._typing import Float64, Int64
from unikat.data.formats import what_is
from unikat.errors import DataError, brief, listed, why
from unikat.studies.designs import Population, Sample
from unikat.studies.evaluate import Study, sample_of
from unikat.studies.scores import Fit, FitScore, Point, RecordScores

_TOTALS = ("tau1", "tau1_lower", "tau1_upper", "tau2", "tau2_lower", "tau2_upper", "seconds")
_RISKS = ("r1", "r2")
_COLUMNS = {
    "estimator": pa.string(),
    "n": pa.int64(),
    "repeat": pa.int64(),
    # Tables with gaps have whole numbers as 12.0.
    **dict.fromkeys(("row", *_TOTALS, *_RISKS), pa.float64()),
}
_NEEDED = ("estimator", "n", "repeat")
_LONGEST_NAME = 60
_LARGEST = 1e12
"""No population, and no time in seconds, is larger."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """What another program says of one sample."""

    fit: Fit
    """The name of the program as the model, and the sample."""
    totals: dict[str, float]
    """Of `tau1`, `tau1_lower`, ..., `seconds`: those that are given."""
    rows: Int64
    """(n_told,) rows of the population, from 0, of the records of which a risk is given."""
    risks: dict[str, Float64]
    """(n_told,) of `r1` and `r2`: those that are given."""


def read_told(path: Path) -> list[Told]:
    """Read the estimates of other programs.

    Parameters
    ----------
    path
        CSV, or Parquet by the ending: `estimator`, `n`, `repeat`, and any of `tau1`, `tau1_lower`,
        `tau1_upper`, `tau2`, `tau2_lower`, `tau2_upper`, `seconds` in a line without `row`, and of
        `r1`, `r2` in a line for each sample unique, with its `row` (as in `samples.parquet`).
    """
    table = _read(path)
    unknown = [name for name in table.column_names if name not in _COLUMNS]
    lacking = [name for name in _NEEDED if name not in table.column_names]
    if unknown or lacking:
        what = f"has no column {lacking[0]}" if lacking else f"has a column {brief(unknown[0])!r}"
        raise DataError(f"{path.name} {what}; its columns are {', '.join(_COLUMNS)}.")
    columns = {
        name: table[name].to_numpy(zero_copy_only=False)
        if name in table.column_names
        else np.full(len(table), np.nan)
        for name in _COLUMNS
    }
    for name in _NEEDED:
        if table[name].null_count:
            raise DataError(f"{path.name}: {name} is missing in some lines; give it in all.")
    names = columns["estimator"].tolist()
    if not names:
        raise DataError(f"{path.name} has no estimates, only the names of its columns.")
    if not all(name.strip() and len(name) <= _LONGEST_NAME for name in names):
        raise DataError(
            f"{path.name}: an estimator has no name, or one of more than {_LONGEST_NAME} letters; "
            "give each a short name."
        )
    found = []
    addresses = zip(*(columns[name].tolist() for name in _NEEDED), strict=True)
    places: dict[Fit, list[int]] = {}
    for place, (name, n, repeat) in enumerate(addresses):
        places.setdefault(Fit(model=name, n=n, repeat=repeat), []).append(place)
    for fit, lines in places.items():
        part = {name: np.asarray(columns[name][lines], np.float64) for name in _COLUMNS
                if name not in _NEEDED}  # fmt: skip
        found.append(_told(fit, part, path.name))
    return found


def _read(path: Path) -> pa.Table:
    if what_is(path) != "file":
        raise DataError(f"There is no file {path.name} with estimates; check the path.")
    try:
        if path.suffix.lower() == ".parquet":
            table = pq.read_table(path)
            fields = [(name, _COLUMNS.get(name, table[name].type)) for name in table.column_names]
            return table.cast(pa.schema(fields))
        types = pyarrow.csv.ConvertOptions(column_types=_COLUMNS, null_values=["", "NA", "NaN"])
        return pyarrow.csv.read_csv(path, convert_options=types)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else "it is no table of such columns"
        raise DataError(
            f"The estimates in {path.name} cannot be read: {reason}. Give a CSV or Parquet "
            f"file with the columns {', '.join(_COLUMNS)}, numbers with a decimal point."
        ) from None


def _told(fit: Fit, part: dict[str, Float64], name: str) -> Told:
    of_records = ~np.isnan(part["row"])
    totals: dict[str, float] = {}
    for one in _TOTALS:
        given = part[one][~of_records & ~np.isnan(part[one])]
        if len(given) > 1:
            raise DataError(
                f"{name}: {one} of {_said(fit)} is given {len(given)} times; give it once."
            )
        if len(given):
            totals[one] = float(given[0])
    if not all(0.0 <= value <= _LARGEST for value in totals.values()):
        raise DataError(
            f"{name}: a number of {_said(fit)} is negative, infinite or larger than any "
            "population; correct it."
        )
    for one in ("tau1", "tau2"):
        ends = [totals.get(f"{one}_{end}") for end in ("lower", "upper")]
        if (ends[0] is None) != (ends[1] is None) or (ends[0] or 0.0) > (ends[1] or 0.0):
            raise DataError(
                f"{name}: the interval of {one} of {_said(fit)} has one end, or ends before it "
                "begins; give both ends or none."
            )
    rows = part["row"][of_records]
    if len(np.unique(rows)) < len(rows) or (rows != np.floor(rows)).any():
        raise DataError(
            f"{name}: a row of {_said(fit)} is given twice or is no whole number; give each once."
        )
    risks = {
        one: part[one][of_records] for one in _RISKS if not np.isnan(part[one][of_records]).all()
    }
    for one, values in risks.items():
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise DataError(f"{name}: an {one} of {_said(fit)} is missing or not from 0 to 1.")
    if not totals.keys() - {"seconds"} and not risks:
        raise DataError(f"{name}: there is no estimate of {_said(fit)}; give tau1, tau2 or r1.")
    return Told(fit=fit, totals=totals, rows=rows.astype(np.int64) - 1, risks=risks)


def score_told(
    population: Population, study: Study, told: Iterable[Told], taken: Iterable[str]
) -> Iterator[FitScore]:
    """Score the estimates of other programs of the samples of a study.

    Parameters
    ----------
    population, study
        Of which the samples are drawn again.
    told
        Estimates, sample by sample.
    taken
        Names that other programs must not have: those of the models and formulas.

    Raises
    ------
    DataError
        If an estimate is of no sample of the study, has the name of a model, or its records are not
        the sample uniques.
    """
    names = set(taken)
    for one in told:
        check_told(one.fit, study, names, "estimates", "fitted")
        sample = sample_of(population, study, one.fit.n, one.fit.repeat)
        if sample is not None:
            yield _scored(sample, one)


def check_told(fit: Fit, study: Study, taken: Container[str], what: str, done: str) -> None:
    """Refuse what others say of no sample of a study, or under a name that is taken (DataError)."""
    if fit.model in taken:
        raise DataError(
            f"The {what} name {brief(fit.model)!r}, which is {done} here; call it otherwise."
        )
    if fit.n not in study.sizes or not 1 <= fit.repeat <= study.repeats:
        raise DataError(
            f"There are {what} of {_said(fit)}, which is no sample of this study; it has "
            f"{study.repeats:,} of each size, {listed([f'{n:,}' for n in study.sizes])}."
        )


def _scored(sample: Sample, one: Told) -> FitScore:
    table, at_risk = sample.table, np.flatnonzero(sample.table.unique)
    risks: dict[str, Float64 | None] = dict.fromkeys(_RISKS)
    for name, values in one.risks.items():
        by_cell = np.full(table.n_cells, np.nan)
        place = np.searchsorted(sample.units, one.rows)
        place[place == len(sample.units)] = 0
        if not np.array_equal(sample.units[place], one.rows):
            raise DataError(f"The estimates of {_said(one.fit)} have rows that it does not have.")
        by_cell[table.record_cell[place]] = values
        risks[name] = by_cell[at_risk]
        if np.isnan(by_cell[at_risk]).any():
            raise DataError(
                f"The estimates of {_said(one.fit)} lack the {name} of some of its "
                f"{len(at_risk):,} sample uniques; give that of all."
            )
    records = RecordScores.of(risks["r1"], risks["r2"], sample.population_counts[at_risk])
    return FitScore(
        **asdict(one.fit),
        n_drawn=table.n_records,
        n_uniques=table.n_uniques,
        tau1_true=sample.tau1,
        tau2_true=sample.tau2,
        tau1_point=_point(one, "tau1", risks["r1"]),
        tau2_point=_point(one, "tau2", risks["r2"]),
        converged=True,
        stop_reason="told",
        seconds=one.totals.get("seconds"),
        # Of cells with more records nothing was told.
        records=replace(records, unsafe_cells=RecordScores.none().unsafe_cells),
    )


def _point(one: Told, measure: str, risks: Float64 | None) -> Point | None:
    """The total that was told, else the sum of the risks."""
    value = one.totals.get(measure, None if risks is None else float(risks.sum()))
    if value is None:
        return None
    lower, upper = (one.totals.get(f"{measure}_{end}") for end in ("lower", "upper"))
    return Point(mean=value, lower=lower, upper=upper)


def _said(fit: Fit) -> str:
    return f"{brief(fit.model)!r} of sample {fit.repeat} of {fit.n:,}"
