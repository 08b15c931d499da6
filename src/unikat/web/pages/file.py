"""The page of a file: how it was read, and what its columns are like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.report.text.words import say
from unikat.spec.addresses import database_name
from unikat.web.drafts import Draft, fields_on
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.data.profile import Profile

N_ROWS = 8
"""Records of a preview."""


DELIMITERS = {",": "comma", ";": "semicolon", "tab": "tab", "|": "bar"}
NAMED = {"\t": "tab"} | {sign: sign for sign in DELIMITERS}
ENCODINGS = (
    ("utf-8", "UTF-8"),
    ("cp1252", "Windows, Western Europe (cp1252)"),
    ("latin-1", "ISO Western Europe (latin-1)"),
    ("cp1250", "Windows, Central Europe (cp1250)"),
    ("iso8859-2", "ISO Central Europe (8859-2)"),
    ("cp1251", "Windows, Cyrillic (cp1251)"),
    ("cp1253", "Windows, Greek (cp1253)"),
    ("cp1254", "Windows, Turkish (cp1254)"),
    ("cp850", "DOS, Western Europe (cp850)"),
    ("utf-16", "UTF-16"),
)
FORMATS = (
    ("csv", "CSV"), ("tsv", "TSV"), ("parquet", "Parquet"), ("arrow", "Arrow"), ("xlsx", "Excel"),
    ("ods", "OpenDocument"), ("sav", "SPSS"), ("dta", "Stata"), ("sas7bdat", "SAS"),
    ("xpt", "SAS transport"), ("rds", "R (.rds)"), ("rdata", "R (.RData)"), ("sqlite", "SQLite"),
    ("duckdb", "DuckDB"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class FilePage:
    """The context of `file.html.j2`."""

    title: str
    nav: Nav
    path: str
    database: str
    """Address of the database; empty of files."""
    takes_query: bool
    """Whether a query can be asked in place of a table."""
    profile: Profile | None
    """None if the file could not be read."""
    values: Mapping[str, str]
    """What the fields of how it is read hold."""
    problem: str
    """Why it could not be read; empty if it could."""
    read_as: Mapping[str, Sequence[tuple[str, str]]]
    """What can be chosen of how it is read, by option."""
    preview: tuple[Sequence[str], Sequence[Sequence[str]]] | None
    """Columns and the first records; None unless they were asked for."""


def show(request: Request) -> Response:
    """Show a file, read as its draft says."""
    bench = workbench_of(request)
    draft = bench.draft(request.query_params.get("path", ""))
    return _page(bench, draft, with_rows=request.query_params.get("rows") == "1")


def reread(request: Request) -> Response:
    """Read the file as the form says."""
    bench = workbench_of(request)
    form = request.state.form
    path, query = form.get("path", ""), form.get("query", "").strip()
    names = set(fields_on("file")) - {"query"}
    if "query" in form:
        # It takes the place of a table, and the rest stays as it was.
        names = {"query", "table"}
    elif form.get("table"):
        names |= {"query"}
    draft = bench.draft(path).updated({**form, "query": query}, names)
    if query:
        bench.sources.confirm_query(path, query)
    bench.keep(draft)
    return _page(bench, draft, with_rows=bool(form.get("rows")))


def _page(bench: Workbench, draft: Draft, *, with_rows: bool) -> Response:
    from unikat.data.formats import DATABASES, format_of
    from unikat.data.profile import preview

    file = bench.sources.find(draft.path)
    is_database = isinstance(file, str)
    found, rows, problem, status = None, None, "", 200
    try:
        found = bench.profile(draft)
        if with_rows:
            rows = preview(file, N_ROWS, **draft.reading)
    except UnikatError as error:
        problem, status = str(error), status_of(error)
    page = FilePage(
        title=database_name(file) if isinstance(file, str) else file.name,
        nav=Nav(here="file", path=draft.path),
        path=draft.path,
        database=draft.path if is_database else "",
        takes_query=isinstance(file, str)
        or (draft.values.get("format") or format_of(file)) in DATABASES,
        profile=found,
        values=draft.values,
        problem=problem,
        read_as=_choices(bench, draft, found),
        preview=rows,
    )
    return bench.page("file.html.j2", page, status)


def _choices(
    bench: Workbench, draft: Draft, found: Profile | None
) -> dict[str, list[tuple[str, str]]]:
    """What a file can be read as; what was found out stands first."""

    def listed(
        known: Sequence[tuple[str, str]], here: str | None, otherwise: str = ""
    ) -> list[tuple[str, str]]:
        otherwise = otherwise or say("web.file.found_out")
        words = dict(known).get(here or "", here)
        return [("", f"{otherwise}: {words}" if here else otherwise), *known]

    file = bench.sources.find(draft.path)
    told = draft.reading
    tables = bench.tables_in(draft)
    chosen = {
        what: [("", say("web.file.only_one") if len(names) < 2 else say("web.result.choose_one"))]
        + [(name, name) for name in names]
        for what, names in [tables]
        if names
    }
    if isinstance(file, str):
        return chosen
    return {
        "delimiter": listed(
            [
                (sign, f"{say(f'web.file.{name}')} {sign if sign != name else ''}".strip())
                for sign, name in DELIMITERS.items()
            ],
            None if found is None or "delimiter" in told else NAMED.get(found.delimiter or ""),
        ),
        "encoding": listed(
            ENCODINGS, None if found is None or "encoding" in told else found.encoding
        ),
        "decimal": [
            ("", say("web.file.found_out")),
            (".", say("web.file.point")),
            (",", say("web.file.decimal_comma")),
        ],
        **chosen,
        "format": [
            ("", say("web.file.as_named", name=file.suffix.removeprefix(".") or "–")),
            *FORMATS,
        ],
    }
