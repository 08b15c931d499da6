"""The list of runs in the folder of the workbench, what each was asked, two side by side."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError, hidden
from unikat.report.text.words import say
from unikat.spec.addresses import is_address
from unikat.web import decisions
from unikat.web.archive import Archived
from unikat.web.folder import NotInFolderError
from unikat.web.runs import Run
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

ABSENT = "–"
"""What a run does not have."""


@dataclass(frozen=True, kw_only=True)
class RunsPage:
    """The context of `runs.html.j2`."""

    title: str
    nav: Nav
    runs: Sequence[Run]
    """Those that are looked for, in the order that is asked for."""
    n_runs: int
    """All that there are."""
    decided: Mapping[str, str]
    """What was decided last of runs of which anything was, and by whom."""
    archived: Sequence[Archived]
    query: Mapping[str, str]
    """What is looked for, and the order."""
    sorts: Sequence[tuple[str, str]]
    zone: str
    """The time of this machine."""
    chosen: Mapping[str, str]
    """The runs that are to be seen side by side: `one` and `other`."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class AskedPage:
    """The context of `asked.html.j2`: the specification of a run."""

    title: str
    nav: Nav
    run: Run
    name: str
    """Of its file."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """What two runs have in one place."""

    name: str
    one: str
    other: str
    english: bool = False
    """Whether it is so in all languages."""

    @property
    def differs(self) -> bool:
        """Whether they have not the same."""
        return self.one != self.other


@dataclass(frozen=True, kw_only=True)
class BesidePage:
    """The context of `beside.html.j2`."""

    title: str
    nav: Nav
    one: Run
    other: Run
    numbers: Sequence[Row]
    """What the runs found; of runs of two kinds what both have."""
    asked: Sequence[Row]
    """What the runs were asked."""


def show(request: Request) -> Response:
    """List the runs that are looked for."""
    return _page(workbench_of(request), query=request.query_params)


def rename(request: Request) -> Response:
    """Give a run another name."""
    bench, id = workbench_of(request), request.path_params["id"]

    def move() -> None:
        bench.candidates.rename(id, bench.archive.rename(id, request.state.form.get("name", "")))

    return _moved(bench, move)


def archive(request: Request) -> Response:
    """Put a run away."""
    bench, id = workbench_of(request), request.path_params["id"]
    return _moved(bench, lambda: bench.archive.put(id))


def take_back(request: Request) -> Response:
    """Take a run back from the archive."""
    bench, id = workbench_of(request), request.path_params["id"]
    return _moved(bench, lambda: bench.archive.take_back(id))


def _moved(bench: Workbench, move: Callable[[], object]) -> Response:
    try:
        move()
    except UnikatError as error:
        return _page(bench, problem=str(error), status=status_of(error))
    return bench.see("/runs")


def asked(request: Request) -> Response:
    """Show the specification of a run."""
    bench, id = workbench_of(request), request.path_params["id"]
    run = bench.shown(id)
    name, text = bench.runs.specification(id)
    page = AskedPage(
        title=say("web.runs.specification_of", name=id or say("web.beside.this_folder")),
        nav=bench.nav(id),
        run=run,
        name=name,
        # A file of somebody else may hold a password.
        text="\n".join(map(hidden, text.split("\n"))),
    )
    return bench.page("asked.html.j2", page)


def beside(request: Request) -> Response:
    """Show two runs side by side."""
    bench, query = workbench_of(request), request.query_params
    chosen = {name: query[name] for name in ("one", "other") if name in query}
    if len(set(chosen.values())) < 2:
        return _page(bench, chosen, "Choose two different runs, one in each column.", 422)
    one, other = (bench.shown(id) for id in chosen.values())
    if one.answer is None or other.answer is None:
        without = one if one.answer is None else other
        raise NotInFolderError(f"The run in {without.id!r} has no result.")
    of_page = [
        {
            say("titles.file"): answer.data,
            say("web.runs.state"): run.words,
            say("web.runs.begun"): run.begun,
        }
        for run, answer in ((one, one.answer), (other, other.answer))
    ]
    found = [of_page[0] | dict(one.answer.figures), of_page[1] | dict(other.answer.figures)]
    specs = [dict(_asked(bench, run)) for run in (one, other)]
    page = BesidePage(
        title=say("web.beside.title"),
        nav=Nav(here="runs"),
        one=one,
        other=other,
        numbers=_rows(*found, shared=one.kind != other.kind, ours=of_page[0]),
        asked=_rows(*specs),
    )
    return bench.page("beside.html.j2", page)


def _page(
    bench: Workbench,
    chosen: Mapping[str, str] | None = None,
    problem: str = "",
    status: int = 200,
    query: Mapping[str, str] | None = None,
) -> Response:
    asked = {name: text for name in ("search", "sort") if (text := (query or {}).get(name, ""))}
    runs = [run for run in bench.runs.all() if not bench.read_only or run.decidable]
    page = RunsPage(
        title=say("web.runs.title"),
        nav=Nav(here="runs"),
        runs=_found(runs, asked),
        n_runs=len(runs),
        decided={run.id: decisions.last(bench.folder.root / run.id) for run in runs},
        archived=bench.archive.all(),
        query=asked,
        sorts=[(name, say(f"web.runs.sorts.{name or 'change'}")) for name in SORTS],
        zone=datetime.now().astimezone().tzname() or say("web.runs.local_time"),
        chosen=chosen or {},
        problem=problem,
    )
    return bench.page("runs.html.j2", page, status)


SORTS: dict[str, Callable[[Run], str]] = {
    "": lambda run: "",
    "begun": lambda run: run.begun,
    "folder": lambda run: run.id.casefold(),
    "kind": lambda run: say(f"web.kinds.{run.kind.name}"),
    "state": lambda run: run.words,
    "file": lambda run: run.answer.data.casefold() if run.answer else "",
}
"""Orders of the list: by what runs are sorted."""


def _found(runs: Sequence[Run], query: Mapping[str, str]) -> Sequence[Run]:
    """Select the runs that have every word that is looked for, in the order that is asked for."""
    words = query.get("search", "").casefold().split()
    found = [run for run in runs if all(word in _words_of(run) for word in words)]
    key = SORTS.get(query.get("sort", ""), SORTS[""])
    return sorted(found, key=key, reverse=query.get("sort") == "begun")


def _words_of(run: Run) -> str:
    said = [run.id, say(f"web.kinds.{run.kind.name}"), run.words, run.begun]
    if run.answer is not None:
        said += [run.answer.data, *run.answer.models, run.answer.headline]
        said += [say(f"verdict.word.{run.answer.verdict}")] if run.answer.verdict else []
    return " ".join(said).casefold()


def _rows(
    one: Mapping[str, str],
    other: Mapping[str, str],
    *,
    shared: bool = False,
    ours: Container[str] = (),
) -> list[Row]:
    """Put what two runs have beside each other; `shared`: only what both have.

    Names in `ours` are in the language of the page, the others English.
    """
    names = [name for name in one if not shared or name in other]
    names += [] if shared else [name for name in other if name not in one]
    return [
        Row(
            name=name,
            one=one.get(name, ABSENT),
            other=other.get(name, ABSENT),
            english=name not in ours,
        )
        for name in names
    ]


def _asked(bench: Workbench, run: Run) -> Iterator[tuple[str, str]]:
    """Yield what a run was asked, by its place in the specification."""
    path, values = bench.runs.asked(run.id)
    if path and not is_address(path):
        # Paths count from the folder of each run.
        values = values | {"data": values["data"] | {"path": path}}
    values.pop("schema", None)
    yield from _flat(values, "")


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for part, one in value.items():
            yield from _flat(one, f"{name}.{part}" if name else str(part))
    elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        for number, one in enumerate(value, start=1):
            yield from _flat(one, f"{name} {number}")
    elif isinstance(value, list):
        yield name, ", ".join(map(str, value)) or ABSENT
    else:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)
