"""The first page: files of data in the folder of the workbench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import OutputError, UnikatError, brief
from unikat.report.text.words import say
from unikat.web.folder import Entry
from unikat.web.workbench import TOWN, Nav, Workbench, status_of, workbench_of


@dataclass(frozen=True, kw_only=True)
class FilesPage:
    """The context of `files.html.j2`."""

    title: str
    nav: Nav
    root: str
    """Name of the folder of the workbench."""
    crumbs: Sequence[tuple[str, str]]
    """Folders on the way to the one that is shown: name and path."""
    entries: Sequence[Entry]
    several: Sequence[tuple[str, str, int]]
    """Files that can be read as one: path, format and number."""
    services: Sequence[tuple[str, str]]
    """Names of the services of PostgreSQL's service file, with their addresses."""
    town: bool
    """Whether the simulated town is offered beside the files."""
    problem: str
    """Why a file that was dropped is not opened; empty if none was."""


def show(request: Request) -> Response:
    """List a folder."""
    bench, path = workbench_of(request), request.query_params.get("path", "")
    return _page(bench, path, bench.folder.entries(path))


def find(request: Request) -> Response:
    """Open the file that somebody dropped on a page, by its name and size.

    Browsers do not tell where it lies. Its content is not sent: it is read where it lies, or not
    at all.
    """
    from unikat.data.formats import format_of

    bench, asked = workbench_of(request), request.query_params
    name = asked.get("name", "")
    if not name:
        return bench.see("/files")
    there = bench.folder.named(name)
    same = [path for path, size in there.items() if str(size) == asked.get("size")]
    if len(same) == 1:
        return bench.see("/file", path=same[0])
    entries = bench.folder.entries("")
    if same:
        said = f"Several files in the folder of the workbench are called {brief(name)}. Choose one."
        entries = tuple(Entry(name=path, path=path, kind="file", size=there[path]) for path in same)
    elif there:
        said = (
            f"The file {brief(name)} in the folder of the workbench has another size, so it is not "
            "the one that you dropped. Copy that one there, or start the workbench with its folder."
        )
    elif format_of(Path(name)) is None:
        said = (
            f"{brief(name)} is no file of data that unikat reads: CSV, Parquet, SPSS, Stata, SAS, "
            "Excel, OpenDocument, R, SQLite, DuckDB or Arrow."
        )
    else:
        said = (
            f"{brief(name)} is not in the folder of the workbench. Copy it there, or start the "
            "workbench with the folder that holds it: unikat web FOLDER."
        )
    return _page(bench, "", entries, said, 300 if same else 404)


def database(request: Request) -> Response:
    """Open a database on a server; the address comes in a form, since it may hold a password."""
    bench, address = workbench_of(request), request.state.form.get("address", "").strip()
    try:
        bench.open_database(address)
    except UnikatError as error:
        # The address itself is not shown again.
        return _page(bench, "", bench.folder.entries(""), str(error), status_of(error))
    return bench.see("/file", path=address)


def make_town(request: Request) -> Response:
    """Write a sample of a simulated town into the folder, and open it with its keys marked."""
    from unikat.datasets import KEYS
    from unikat.files.folder import refuse_links
    from unikat.files.writing import make_folder
    from unikat.jobs.demo import TRUTH, write_town
    from unikat.web.drafts import Draft

    bench = workbench_of(request)
    place = bench.folder.place(TOWN)
    if place.exists():
        return bench.see("/file", path=TOWN)
    make_folder(place.parent)
    if (place.parent / TRUTH).exists():
        raise OutputError(
            f"{place.parent.name} holds a {TRUTH} and no sample; rename or remove the folder."
        )
    refuse_links(place.parent, (place.name, TRUTH))
    n_people, _ = write_town(place.parent)
    size = {"population_size": str(n_people)}
    bench.keep(Draft(path=TOWN, keys=tuple(KEYS), values=size))
    return bench.see("/file", path=TOWN)


def _page(
    bench: Workbench, path: str, entries: Sequence[Entry], problem: str = "", status: int = 200
) -> Response:
    from unikat.data.postgres_places import services

    parts = PurePosixPath(path).parts
    crumbs = [(part, "/".join(parts[: i + 1])) for i, part in enumerate(parts)]
    page = FilesPage(
        title=say("web.files.title"),
        nav=Nav(here="file"),
        root=bench.folder.root.name or str(bench.folder.root),
        crumbs=crumbs,
        entries=entries,
        several=bench.folder.parts(path),
        services=[(name, f"postgresql://?service={quote(name, safe='')}") for name in services()],
        town=not path and not (bench.folder.root / TOWN).exists(),
        problem=problem,
    )
    return bench.page("files.html.j2", page, status)
