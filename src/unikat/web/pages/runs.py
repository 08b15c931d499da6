"""The list of runs in the folder of the workbench, what each was asked, two side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from unikat.web.folder import NotInFolderError
from unikat.web.runs import Run
from unikat.web.workbench import Nav, Workbench, workbench_of

ABSENT = "–"
"""What a run does not have."""


@dataclass(frozen=True, kw_only=True)
class RunsPage:
    """The context of `runs.html.j2`."""

    title: str
    nav: Nav
    runs: Sequence[Run]
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
    """List the runs."""
    return _page(workbench_of(request))


def asked(request: Request) -> Response:
    """Show the specification of a run."""
    bench, id = workbench_of(request), request.path_params["id"]
    run = bench.runs.get(id)
    name, text = bench.runs.specification(id)
    page = AskedPage(
        title=f"Specification of {id or 'this folder'}",
        nav=Nav(here="runs", path=bench.runs.asked(id)[0]),
        run=run,
        name=name,
        text=text,
    )
    return bench.page("asked.html.j2", page)


def beside(request: Request) -> Response:
    """Show two runs side by side."""
    bench, query = workbench_of(request), request.query_params
    chosen = {name: query[name] for name in ("one", "other") if name in query}
    if len(set(chosen.values())) < 2:
        return _page(bench, chosen, "Choose two different runs, one in each column.", 422)
    one, other = (bench.runs.get(id) for id in chosen.values())
    if one.answer is None or other.answer is None:
        without = one if one.answer is None else other
        raise NotInFolderError(f"The run in {without.id!r} has no result.")
    found = [
        {"File": run.answer.data, "State": run.words, "Begun (UTC)": run.answer.created}
        | dict(run.answer.figures)
        for run in (one, other)
        if run.answer is not None
    ]
    specs = [dict(_asked(bench, run)) for run in (one, other)]
    page = BesidePage(
        title="Two runs side by side",
        nav=Nav(here="runs"),
        one=one,
        other=other,
        numbers=_rows(*found, shared=one.kind != other.kind),
        asked=_rows(*specs),
    )
    return bench.page("beside.html.j2", page)


def _page(
    bench: Workbench, chosen: Mapping[str, str] | None = None, problem: str = "", status: int = 200
) -> Response:
    page = RunsPage(
        title="Runs",
        nav=Nav(here="runs"),
        runs=bench.runs.all(),
        chosen=chosen or {},
        problem=problem,
    )
    return bench.page("runs.html.j2", page, status)


def _rows(one: Mapping[str, str], other: Mapping[str, str], *, shared: bool = False) -> list[Row]:
    """Put what two runs have beside each other; `shared`: only what both have."""
    names = [name for name in one if not shared or name in other]
    names += [] if shared else [name for name in other if name not in one]
    return [
        Row(name=name, one=one.get(name, ABSENT), other=other.get(name, ABSENT)) for name in names
    ]


def _asked(bench: Workbench, run: Run) -> Iterator[tuple[str, str]]:
    """Yield what a run was asked, by its place in the specification."""
    path, values = bench.runs.asked(run.id)
    if path:
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
