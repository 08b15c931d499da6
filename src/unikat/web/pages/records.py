"""The records at risk of a run: sorted, filtered, and with values of their keys if asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import OutputError, UnikatError, why
from unikat.files.writing import appended
from unikat.report.text.words import say
from unikat.web.folder import NotInFolderError
from unikat.web.runs import Run
from unikat.web.sources import NotConnectedError
from unikat.web.workbench import Nav, Workbench, is_part, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.jobs.files import Neighbours
    from unikat.report.folders.records_listed import Listed, ListedRecords, Wanted

LOG = "values-shown.log"
"""File in the folder of a run that says when values of its records were shown."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """The context of `listed.html.j2`: a page of records, and what leads to others."""

    address: str
    """Of this list, without what is asked for."""
    file: str
    """Of the same as a file."""
    near: str
    """Of the neighbours of a record."""
    query: Mapping[str, str]
    """What is asked for, without the number of the page."""
    found: ListedRecords | None
    """None if what is asked for cannot be."""
    page: int
    names: Sequence[str]
    """Keys whose values are shown; empty unless they were asked for."""
    values: Sequence[Sequence[str]]
    """Their values, by record."""
    log: str
    """Name of the file that says that values were shown."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class RecordsPage(Records):
    """The context of `records.html.j2`."""

    title: str
    nav: Nav
    run: Run


@dataclass(frozen=True, kw_only=True)
class NeighboursPage:
    """The context of `neighbours.html.j2`: what differs from a record in one key."""

    title: str
    nav: Nav
    run: Run
    row: int
    address: str
    """Of the list of records, without what is asked for."""
    here: str
    """Of this page, likewise."""
    query: Mapping[str, str]
    record: Listed | None
    found: Neighbours | None
    """None if what is asked for cannot be."""
    risks: Mapping[int, Listed]
    """Of the neighbours, by row."""
    values: Mapping[int, Mapping[str, str]]
    """Values of the keys by row; empty unless they were asked for."""
    log: str
    problem: str


def show(request: Request) -> Response:
    """Show the records at risk, or the part of the page that lists them."""
    bench, id = workbench_of(request), request.path_params["id"]
    place = bench.folder.resolve(id)
    path = records_of(place)
    if path is None:
        raise NotInFolderError("This run has no file of records, or has not ended.")
    asked = {name: value.strip() for name, value in request.query_params.items() if value.strip()}
    listed, status = _listed(bench, id, place, path, asked)
    if is_part(request):
        return bench.page("listed.html.j2", listed)
    run, nav = bench.runs.get(id), bench.nav(id)
    fields = {name: getattr(listed, name) for name in Records.__dataclass_fields__}
    page = RecordsPage(
        title=say("web.neighbours.records_at_risk_of", id=id), nav=nav, run=run, **fields
    )
    return bench.page("records.html.j2", page, status)


def neighbours(request: Request) -> Response:
    """Show which records differ from one in a single key, and so which key makes it rare."""
    from unikat.report.folders.records_listed import records_of_rows

    bench, id = workbench_of(request), request.path_params["id"]
    place = bench.folder.resolve(id)
    path = records_of(place)
    if path is None:
        raise NotInFolderError("This run has no file of records, or has not ended.")
    asked = {name: value.strip() for name, value in request.query_params.items() if value.strip()}
    row, found, problem, status = 0, None, "", 200
    risks: Mapping[int, Listed] = {}
    values: dict[int, Mapping[str, str]] = {}
    try:
        row = _wanted(asked).row or 0
        rows = bench.run_rows(place)
        found = rows.neighbours(row, asked.get("key", ""))
        numbers = [row, *(one.row for one in found.listed)]
        risks = records_of_rows(path, numbers)
        if asked.get("values"):
            # Nothing is shown that was not written down before.
            _log(place, id, len(numbers))
            texts = rows.held.texts([number - 1 for number in numbers])
            pairs = zip(numbers, texts, strict=True)
            values = {
                number: dict(zip(rows.held.columns, line, strict=True)) for number, line in pairs
            }
    except NotConnectedError:
        raise
    except UnikatError as error:
        found, problem, status = None, str(error), status_of(error)
    page = NeighboursPage(
        title=say("web.neighbours.of_row" if row else "web.neighbours.of_a_record", row=row),
        nav=bench.nav(id),
        run=bench.runs.get(id),
        row=row,
        address=bench.pages.at(f"/records/{id}"),
        here=bench.pages.at(f"/neighbours/{id}"),
        query={name: asked[name] for name in ("row", "key", "values") if name in asked},
        record=risks.get(row),
        found=found,
        risks=risks,
        values=values,
        log=LOG,
        problem=problem,
    )
    return bench.page("neighbours.html.j2", page, status)


def export(request: Request) -> Response:
    """Serve all records that are asked for as CSV, without values."""
    from unikat.report.folders.records_listed import export_records

    bench, id = workbench_of(request), request.path_params["id"]
    path = records_of(bench.folder.resolve(id))
    if path is None:
        raise NotInFolderError("This run has no file of records, or has not ended.")
    asked = {name: value.strip() for name, value in request.query_params.items() if value.strip()}
    said = {"Content-Disposition": 'attachment; filename="records-selected.csv"'}
    text = export_records(path, _wanted(asked))
    return Response(text, media_type="text/csv; charset=utf-8", headers=said)


def records_of(place: Path) -> Path | None:
    """Return the file of records of a run; None if it has none."""
    path = place / "records.parquet"
    return path if path.is_file() else None


def _listed(
    bench: Workbench, id: str, place: Path, path: Path, asked: Mapping[str, str]
) -> tuple[Records, int]:
    from unikat.report.folders.records_listed import list_records

    names: Sequence[str] = ()
    values: Sequence[Sequence[str]] = ()
    found, page, problem, status = None, 1, "", 200
    try:
        wanted = _wanted(asked)
        found, page = list_records(path, wanted), wanted.page
        if asked.get("values") and found.records:
            held = bench.run_rows(place).held
            # Nothing is shown that was not written down before.
            _log(place, id, len(found.records))
            names = held.columns
            values = held.texts([record.row - 1 for record in found.records])
    except NotConnectedError:
        raise
    except UnikatError as error:
        problem, status = str(error), status_of(error)
    known = ("sort", "order", "above", "below", "key", "row", "values")
    return Records(
        address=bench.pages.at(f"/records/{id}"),
        file=bench.pages.at(f"/records-file/{id}"),
        near=bench.pages.at(f"/neighbours/{id}"),
        query={name: asked[name] for name in known if name in asked},
        found=found,
        page=page,
        names=names,
        values=values,
        log=LOG,
        problem=problem,
    ), status


def _wanted(asked: Mapping[str, str]) -> Wanted:
    """Read what an address asks for.

    Raises
    ------
    SpecError
        If it is no number, or out of range.
    """
    from unikat.errors import SpecError
    from unikat.report.folders.records_listed import Wanted

    try:
        above = float(asked.get("above", "0").replace(",", "."))
        below = float(asked.get("below", "1").replace(",", "."))
        row = int(asked["row"].replace(",", "")) if "row" in asked else None
        page = int(asked.get("page", "1"))
    except ValueError:
        raise SpecError(
            "The least risk is a number such as 0.2, and the number of a record a whole one."
        ) from None
    return Wanted(
        sort=asked.get("sort", "r1"),  # type: ignore[arg-type]  # it refuses others
        descending=asked.get("order", "down") == "down",
        above=above,
        below=below,
        key=asked.get("key", ""),
        row=row,
        page=page,
    )


def _log(place: Path, id: str, n_records: int) -> None:
    """Write down that values are shown (OutputError if that cannot be)."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = (
        f"{now} {id}: the values of the keys of {n_records} records were shown in the workbench\n"
    )
    try:
        with appended(place / LOG) as file:
            file.write(line)
    except OSError as error:
        raise OutputError(
            f"{LOG} cannot be written in the folder of the run ({why(error)}), so no values are "
            "shown. Make the folder writable."
        ) from None
