"""The page on which the levels of a key are merged, cut into bands, or folded up their tree.

What was done is in the address, as on the page *What if* that it belongs to: the groups
(`language.levels`), and in `undo` those of before. Every form is sent by GET and answered with the
address of the new groups, or, if a script asks, with the part of the page that changes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.language.levels import FOUND, LevelGroups
from unikat.report.text.words import say
from unikat.web.explorers import Choice, Question
from unikat.web.pages.level_editor import (
    LISTING,
    EditedLevels,
    Host,
    editor_of,
    is_number,
    typed_edges,
    undone,
)
from unikat.web.pages.what_if import first_numbers, numbers_of
from unikat.web.pages.what_if_state import LEVELS, State, filled
from unikat.web.workbench import Nav, is_part

MOST_UNDONE = 20
NAME, EDGE = "name:", "edge:"
"""Beginnings of the names of fields of a group and an edge."""


@dataclass(frozen=True, kw_only=True)
class LevelsPage:
    """The context of `what-if-levels.html.j2`."""

    title: str
    label: str
    """Of the column in a statistical file."""
    nav: Nav
    back: str
    back_to: str
    page: str
    """Tells the questions of this page from those of others."""
    editor: Markup
    numbers: Markup
    brief: str
    said: str


def show(request: Request) -> Response:
    """Show the levels of a key with their groups, or do what the form asks for."""
    state = State.of(request)
    if state.explorer.state != "ready":
        return state.bench.see(f"/what-if/{state.id}", **_query(state))

    def told(now: State, question: Question, part: bool) -> tuple[Markup, str]:
        found = numbers_of(now, question, part=part)
        return filled(now, "what-if-numbers.html.j2", found), found.brief

    host = Host(
        path=f"/what-if-levels/{state.id}",
        measure=say("web.what_if_levels.risk"),
        explained=say("web.levels.risk_is"),
        numbers=told,
        back=lambda now: now.at("what-if", now.steps),
        back_to=say("web.what_if.title", id=state.id),
    )
    return edited(request, state, host, nav=state.bench.nav(state.id))


def edited(request: Request, state: State, host: Host, *, nav: Nav) -> Response:
    """Show the levels of a key with their groups, or do what the form asks for.

    Parameters
    ----------
    request
        A form, sent by GET.
    state
        Where the keys stand.
    host
        The page that the editor belongs to.
    nav
        Where the page stands.
    """
    key = EditedLevels.of(state)
    ticks = request.query_params.getlist("tick")
    changed = _changed(key, ticks)
    said = ""
    if changed is not None:
        choice, undo, said = changed
        steps = state.steps
        steps[key.place] = choice
        listing = {name: state.given[name] for name in LISTING if state.given.get(name)}
        more = {"edit": key.name, "undo": json.dumps(undo) if undo else "", **listing}
        query = {name: text for name, text in state.fields(steps, **more).items() if text}
        if not is_part(request):
            return state.bench.see(host.path, **query)
        state = replace(state, given=query)
        key, ticks = EditedLevels.of(state), []
    token = request.headers.get("x-page") or secrets.token_hex(4)
    question = state.look(token, key.name)
    first_numbers(state.explorer, question)
    if is_part(request):
        part = Response(
            str(editor_of(key, host, question, said, ticks, part=True)), media_type="text/html"
        )
        if changed is not None:
            part.headers["HX-Push-Url"] = state.bench.pages.at(host.path, **dict(state.given))
        return part
    numbers, brief = host.numbers(state, question, False)
    page = LevelsPage(
        title=say("web.what_if.levels_of", name=key.name),
        label=key.known["title"],
        nav=nav,
        back=host.back(state),
        back_to=host.back_to,
        page=token,
        editor=editor_of(key, host, question, said, ticks, part=False),
        numbers=numbers,
        brief=brief,
        said=said,
    )
    return state.bench.page("what-if-levels.html.j2", page)


def _query(state: State) -> dict[str, str]:
    """Where the sliders stand, as the address has it: the keys are not known yet."""
    kept = ("key:", LEVELS, "target")
    return {name: text for name, text in state.given.items() if name.startswith(kept)}


def _changed(key: EditedLevels, ticked: Sequence[str]) -> tuple[Choice, list[str], str] | None:
    """What the form makes of the key, what can be undone, and what is said; None: nothing new."""
    given, made = key.state.given, key.made
    do, _, argument = given.get("do", "").partition(":")
    undo = undone(given.get("undo", ""))
    number = int(argument) if argument.isascii() and argument.isdigit() else -1
    codes = [int(one) for one in ticked if one.isascii() and one.isdigit()]
    if do == "merge" and given.get("find", "").strip() != given.get("found", ""):
        # Enter in the field that searches levels presses the first button.
        return None
    if do == "undo":
        before = undo.pop() if undo else "0"
        return (int(before) if before.isdigit() else before), undo, say("web.levels.undone")
    undo = [*undo, str(key.choice)][-MOST_UNDONE:]
    if do == "split":
        return _choice(made.split(number)), undo, say("web.levels.was_split")
    if do == "clear":
        return _choice(LevelGroups(kind=made.kind)), undo, say("web.levels.cleared")
    if do == "branch" and 0 <= number < len(key.branches()):
        path, below = key.branches()[number]
        new = made.merged([code for code in below if key.levels[code]["valid"]])
        called = key.known["labels"].get(path[-1], path[-1])
        return _choice(new), undo, say("web.levels.branch_merged", n=len(below), name=called)
    if do == "height" and number > 0:
        paths: dict[tuple[str, ...], list[int]] = {}
        for code, one in enumerate(key.levels):
            if len(one["path"]) >= number:
                paths.setdefault(tuple(one["path"][:number]), []).append(code)
        new = LevelGroups(kind=made.kind)
        for below in paths.values():
            new = new.merged(below)
        return _choice(new), undo, say("web.levels.went_up")
    if do == "merge" and len(set(codes)) > 1:
        order = list(key.known["order"])
        places = [order.index(code) for code in codes if code in order]
        if places:
            # Bands have no gaps.
            codes = order[min(places) : max(places) + 1]
        new = made.merged(codes, given.get("name", "").strip())
        return _choice(new), undo, say("web.levels.are_merged", n=len(set(codes)))
    new_choice = _adjusted(key)
    if new_choice is not None:
        return new_choice, undo, say("web.levels.groups_changed")
    if do == "merge":
        return key.choice, undo[:-1], say("web.levels.tick_two")
    return None


def _adjusted(key: EditedLevels) -> Choice | None:
    """What fields say that are not as the page has filled them in: None if all are so."""
    given, made = key.state.given, key.made
    kind = given.get("kind", made.kind).strip()
    if kind != made.kind:
        return _choice(LevelGroups(kind=kind, groups=made.groups))
    start = given.get("start", "")
    steps = key.state.explorer.keys[key.place]["steps"]
    if start.isascii() and start.isdigit() and start != given.get("started", ""):
        return int(start) if int(start) < len(steps) else None
    names = [given.get(f"{NAME}{i}", one.name).strip() for i, one in enumerate(made.groups)]
    if names != [one.name for one in made.groups]:
        return _choice(made.renamed(names))
    order = list(key.known["order"])
    starts = made.starts(order)
    edges = [given.get(f"{EDGE}{i}", str(start)) for i, start in enumerate(starts)]
    if edges != [str(start) for start in starts] and all(map(str.isdigit, edges)):
        return _choice(made.banded(order, map(int, edges)))
    typed = given.get("bands")
    if typed is not None and typed.strip() != (typed_edges(key, starts) or ""):
        return _choice(made.banded(order, _places(key, order, typed)))
    return None


def _choice(made: LevelGroups) -> Choice:
    return str(made) if made.groups or made.kind != FOUND else 0


def _places(key: EditedLevels, order: Sequence[int], typed: str) -> list[int]:
    """Places in the order of typed numbers; without any, all levels are apart."""
    values = [float(key.levels[code]["value"]) for code in order]
    numbers = [float(one) for one in typed.replace(";", ",").split(",") if is_number(one)]
    if not numbers:
        return list(range(1, len(order)))
    return [sum(value < number for value in values) for number in numbers]
