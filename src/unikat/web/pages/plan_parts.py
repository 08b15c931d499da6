"""The plan of the sliders in pictures: its keys, where its risk is, and what columns would tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.report.text.words import say
from unikat.web.pages.what_if_state import LONGEST, State, filled

if TYPE_CHECKING:
    from unikat.jobs.plan_pictures import ColumnsLeft, Pictures
    from unikat.report.pages.canvas import Drawing

SHOWN, OTHERS = "pictures", "others"
"""Fields of an address that shows them in the page, without scripts."""
ROWS, COLUMNS = "rows", "columns"
"""Fields of the two keys whose tables are drawn."""


@dataclass(frozen=True, kw_only=True)
class KeyBars:
    """How records spread over the levels of a key."""

    name: str
    before: Markup
    after: Markup
    words: str


@dataclass(frozen=True, kw_only=True)
class PlanPictures:
    """The context of `what-if-pictures.html.j2`."""

    problem: str
    keys: Sequence[KeyBars]
    groups: Drawing | None
    """Population uniques among the sample uniques of some levels."""
    maps: Sequence[tuple[str, Drawing]]
    """Risk by two keys, before and now."""
    table: Drawing | None
    """The records in the cells of these two keys, before and now."""
    kept: str
    """What is left of their table."""
    names: Sequence[str]
    """Keys to choose from."""
    pair: tuple[str, str]
    address: str
    """To which a script sends the choice."""
    page: str
    """To which it goes without scripts."""
    fields: Mapping[str, str]
    columns_at: str
    """Address of what other columns would tell."""
    columns_page: str
    """The same as a page."""
    others: Markup
    """What other columns would tell, if it was asked for."""
    of_households: bool
    """Whether the units are households."""
    unknown: bool
    """Whether the risk of single records is not known."""


@dataclass(frozen=True, kw_only=True)
class OtherColumnsPart:
    """The context of `what-if-columns.html.j2`: what columns that are no keys would tell."""

    problem: str
    picture: Drawing | None
    words: str


def pictures(request: Request) -> Response:
    """Answer with the pictures of the plan."""
    state = State.of(request)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    return Response(str(pictures_part(state)), media_type="text/html")


def columns(request: Request) -> Response:
    """Answer with what columns that are no keys would tell."""
    state = State.of(request)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    return Response(str(columns_part(state)), media_type="text/html")


def columns_part(state: State) -> Markup:
    """Draw what columns that are no keys would tell."""
    question = state.explorer.pictures("columns", state.steps, state.besides, (), columns=True)
    state.explorer.wait(lambda: question.done, LONGEST)
    picture, words = None, ""
    if question.answer is not None and question.answer["kind"] == "columns":
        from unikat.report.pages.release_figures import with_columns

        found: ColumnsLeft = _adapter("ColumnsLeft").validate_python(question.answer)
        words = say("web.what_if_columns.none")
        if found.left_over is not None:
            picture, words = with_columns(found.columns, found.left_over), ""
    part = OtherColumnsPart(problem=question.problem, picture=picture, words=words)
    return filled(state, "what-if-columns.html.j2", part)


def pictures_part(state: State) -> Markup:
    """Draw the pictures of the plan of the sliders."""
    names = [key["name"] for key in state.explorer.keys]
    given = state.given.get(ROWS, ""), state.given.get(COLUMNS, "")
    pair = given if given[0] != given[1] and set(given) <= set(names) else ()
    question = state.explorer.pictures("plan", state.steps, state.besides, pair)
    state.explorer.wait(lambda: question.done, LONGEST)
    found = None
    if question.answer is not None and question.answer["kind"] == "pictures":
        found = _adapter("Pictures").validate_python(question.answer)
    drawn = _drawn(found) if found is not None else {}
    fields = state.fields(state.steps)
    return filled(
        state,
        "what-if-pictures.html.j2",
        PlanPictures(
            problem=question.problem,
            keys=drawn.get("keys", ()),
            groups=drawn.get("groups"),
            maps=drawn.get("maps", ()),
            table=drawn.get("table"),
            kept=drawn.get("kept", ""),
            names=names,
            pair=drawn.get("pair", ("", "")),
            address=state.bench.pages.at(f"/what-if-pictures/{state.id}"),
            page=state.bench.pages.at(f"/what-if/{state.id}"),
            fields=fields | {SHOWN: "1"},
            columns_page=state.at("what-if", state.steps, **{SHOWN: "1", OTHERS: "1"}),
            others=columns_part(state) if state.given.get(OTHERS) else Markup(""),
            columns_at=state.bench.pages.at(f"/what-if-columns/{state.id}", **fields),
            of_households=found is not None and not found.keys,
            unknown=found is not None
            and bool(found.keys)
            and found.after is None
            and not found.breakdowns,
        ),
    )


def _drawn(found: Pictures) -> dict[str, Any]:
    from unikat.report.pages.committee import bars
    from unikat.report.pages.figures import groups
    from unikat.report.pages.release_figures import risk_cells, table_cells
    from unikat.report.text.numbers import listed
    from unikat.report.text.overview import MOST_GROUPS, riskiest
    from unikat.report.text.words import say

    keys = [
        KeyBars(
            name=one.name,
            before=bars(one.before),
            after=bars([share for _, share in one.after]),
            words=say(
                "web.what_if_pictures.levels",
                n=sum(share > 0 for share in one.before),
                left=sum(share > 0 for _, share in one.after),
                missing=one.missing[1] if one.after else 0,
            ),
        )
        for one in found.keys
    ]
    sides = [
        (say("web.level_counts.before"), found.before),
        (say("web.level_counts.now"), found.after),
    ]
    # On one scale, so that less risk is lighter.
    most = max((one.largest for _, one in sides if one is not None), default=0.0)
    maps = [(name, risk_cells(one, most)) for name, one in sides if one is not None]
    # Each key has all records, so that the first tells the totals.
    levels = [] if not found.breakdowns else _all(found.breakdowns[0])
    total, n = sum(one.tau1 for one in levels), sum(one.n_records for one in levels)
    shown = riskiest(found.breakdowns, total, n, MOST_GROUPS) if total > 0.0 else ()
    kept, table = "", found.table
    if table is not None:
        kept = say(
            "web.what_if_pictures.kept",
            names=listed(table.variables),
            share=table.distance,
            expected=table.distance_expected,
        )
        if found.counts is not None and found.counts.joined:
            kept = f"{say('figures.table.joined')} {kept}"
    pair = next((one.names for one in (found.after, found.before) if one is not None), ("", ""))
    drawn = groups(shown) if shown else None
    cells = None if found.counts is None else table_cells(found.counts)
    return {
        "keys": keys,
        "maps": maps,
        "groups": drawn,
        "kept": kept,
        "table": cells,
        "pair": pair,
    }


def _all(found: Any) -> list[Any]:
    return [*found.levels, *([] if found.other is None else [found.other])]


@cache
def _adapter(name: str) -> Any:
    """Reads what the process wrote."""
    from pydantic import TypeAdapter

    from unikat.jobs import plan_pictures

    return TypeAdapter(getattr(plan_pictures, name))
