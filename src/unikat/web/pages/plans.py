"""Plans beside the one of the sliders: the frontier, and candidates that were saved by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.report.text.words import say
from unikat.web.explorers import Question
from unikat.web.pages.what_if_state import (
    LONGEST,
    PLAN,
    State,
    ends,
    english,
    filled,
    limit_of,
    look_in,
)

if TYPE_CHECKING:
    from unikat.report.pages.canvas import Drawing
    from unikat.report.pages.release_figures import Point

NOW = "Now"
"""Name of the plan of the sliders."""
SHOWN = 0.1
"""Seconds that a page waits for the numbers of a candidate."""
GO, CHOSE = "go", "chose"
"""Fields of an address: the sliders move to the chosen plan; a plan was chosen just now."""


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The context of `what-if-frontier.html.j2`."""

    problem: str
    picture: Drawing | None
    plans: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    """By kind, every plan as the address names it and in words, in the order of the frontier."""
    here: str
    """The one that is chosen, else that of the sliders; empty: neither is."""
    drawn: str
    """`here`, if nobody chose it."""
    address: str
    """To which a chosen plan is sent."""
    chosen_at: str
    """To which a script sends it, so that the address of the page holds it."""
    fields: Mapping[str, str]
    said: str
    """How complete it is."""
    words: Markup
    """How far the search is."""
    again: str
    part: bool
    """Whether it takes the place of a part of a page."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A plan of the table side by side."""

    name: str
    address: str
    here: bool
    """Whether the sliders stand there."""
    saved: bool
    cells: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The context of `what-if-candidates.html.j2`: saved plans side by side."""

    id: str
    rows: Sequence[str]
    """What each row is about."""
    columns: Sequence[Column]
    fields: Mapping[str, str]
    """Where the sliders stand."""
    again: str
    """Address to ask again; empty if all numbers are there."""
    part: bool


def frontier(request: Request) -> Response:
    """Answer with the frontier, or with how far its search is."""
    state = State.of(request)
    if state.given.get(CHOSE):
        at = state.at("what-if", state.steps, **state.chosen)
        return Response("", media_type="text/html", headers={"HX-Replace-Url": at})
    if state.explorer.state == "ready":
        question = state.explorer.frontier()
        stage = int(state.given.get("seen", "0") or 0)
        state.explorer.wait(lambda: question.done or question.stage > stage, 1.0)
    return Response(str(frontier_part(state, part=False)), media_type="text/html")


def searched(question: Question) -> Markup:
    """How far a search is, in words, which are those of a terminal once it has begun."""
    told = question.answer is not None and question.answer["kind"] == "searching"
    if told and question.answer:
        return english(str(question.answer["text"]).replace("  ", " · "))
    return Markup.escape(say("web.what_if_frontier.searching"))


def frontier_part(state: State, *, part: bool, now: Question | None = None) -> Markup:
    """Draw the frontier with the plan of the sliders, of which `now` is asked, and candidates."""
    from unikat.report.facts.protection import KINDS
    from unikat.report.pages.release_figures import Point, frontier
    from unikat.report.text.numbers import number
    from unikat.report.text.plan_words import key_words
    from unikat.report.text.words import say

    question = state.explorer.frontier()
    found = question.last.get("frontier")
    picture, said, here = None, "", ""
    plans: dict[str, list[tuple[str, str]]] = {}
    sliders, chosen = state.named(state.steps, state.besides), state.chosen.get(PLAN, "")
    if found is not None:
        points = []
        marked = _marked(state, now)
        for one in found["points"]:
            rules = [key_words(name, rule) for name, rule in one["rules"].items()]
            rules = [_also(one["besides"])] * bool(one["besides"]) + rules
            words = say("web.what_if_frontier.loses", lost=one["lost"], rules="; ".join(rules))
            tau1 = SimpleNamespace(**one["tau1"])
            value = ends(one["tau1"]) if question.done else number(tau1.mean)
            plan = one["steps"], one["besides"]
            listed = plans.setdefault(say(f"figures.plans.{one['kind']}"), [])
            listed.append((state.named(*plan), f"τ1 {value}, {words}"))
            label = next((_called(name) for name, at, _ in marked if at == plan), "")
            there = state.moved({"target": state.target or " ", **one["besides"]})
            points.append(
                Point(
                    words,
                    one["lost"],
                    tau1,
                    label,
                    there.at("what-if", one["steps"]),
                    kind=one["kind"],
                    faint=one["beaten"],
                )
            )
        known = [(one["steps"], one["besides"]) for one in found["points"]]
        points += [point for _, at, point in marked if at not in known]
        picture = frontier(points, state.explorer.level, limit_of(state.target))
        names = {plan for some in plans.values() for plan, _ in some}
        if chosen and chosen not in names:
            # It stays chosen until somebody chooses another one.
            beaten = say("web.what_if_frontier.beaten")
            plans[say("figures.plans.chosen")] = [(chosen, beaten)]
        here = chosen or (sliders if sliders in names else "")
        of_kinds = Counter(one["kind"] for one in found["points"])
        n, n_others = of_kinds[KINDS[0]], len(found["points"]) - of_kinds[KINDS[0]]
        said = say(
            "web.what_if_frontier.every" if found["every"] else "web.what_if_frontier.some",
            "" if found["every"] or not question.done else "web.what_if_frontier.stopped",
            n_others and f"web.what_if_frontier.{'samples' if found['understated'] else 'others'}",
            of_kinds["suppress"] and "web.what_if_frontier.left",
            found["understated"] and "web.what_if_frontier.understated",
            "" if question.done else "web.what_if_frontier.by_few",
            n=n,
            n_plans=found["n_plans"],
            n_others=n_others,
            n_looked_at=found["n_others"],
            model=found["understated"],
        )
    fields, at = state.fields(state.steps), state.bench.pages.at
    more = {"seen": str(question.stage), **state.chosen}
    return filled(
        state,
        "what-if-frontier.html.j2",
        Frontier(
            problem=question.problem,
            picture=picture,
            plans=[*plans.items()],
            here=here,
            drawn="" if chosen else here,
            address=at(f"/what-if/{state.id}"),
            chosen_at=at(f"/what-if-frontier/{state.id}"),
            fields=fields,
            said=said,
            words=searched(question),
            again="" if question.done else at(f"/what-if-frontier/{state.id}", **fields, **more),
            part=part,
        ),
    )


def _marked(state: State, now: Question | None) -> list[tuple[str, Any, Point]]:
    """The candidates and the plan of the sliders: name, where it is, and its point."""
    from unikat.report.facts.protection import kind_of
    from unikat.report.pages.release_figures import Point

    found = []
    for name, one in [*_saved(state), (NOW, state)]:
        look = look_in(now if now is not None and name == NOW else _asked(one, name))
        if look is not None:
            words = say("web.what_if_frontier.lost", name=_called(name), lost=look["lost"])
            tau1 = SimpleNamespace(**look["tau1"])
            at = one.at("what-if", one.steps)
            kind, called = kind_of(one.besides), _called(name)
            point = Point(words, look["lost"], tau1, called, at, beaten=True, kind=kind)
            found.append((name, (one.steps, one.besides), point))
    return found


def _called(name: str) -> str:
    return say("web.level_counts.now") if name == NOW else name


def _saved(state: State) -> list[tuple[str, State]]:
    return [(one.name, state.moved(one.fields)) for one in state.bench.candidates.of(state.id)]


def _asked(one: State, name: str) -> Question:
    """Ask for the numbers of a candidate, or of the sliders."""
    page = "whole" if name == NOW else f"candidate {name}"
    return one.explorer.look(page, one.steps, one.target, besides=one.besides)


def candidates_part(state: State, *, part: bool, now: Question | None = None) -> Markup:
    """Put the saved plans side by side, with that of the sliders, of which `now` is asked."""
    from unikat.report.text.plan_words import key_words

    names = [key["name"] for key in state.explorer.keys]
    rows = [
        say("titles.verdict"),
        "τ1",
        "τ2",
        say("titles.sample_uniques"),
        "k",
        say("web.what_if.lost"),
        say("web.what_if_candidates.also"),
        *names,
    ]
    saved, columns, done = _saved(state), [], True
    for name, one in [(NOW, state), *saved] if saved else []:
        question = now if now is not None and name == NOW else _asked(one, name)
        one.explorer.wait(partial(getattr, question, "done"), SHOWN)
        # The numbers of the sliders come with each of their moves.
        done = done and (question.done or question is now)
        look = look_in(question)
        cells = [""] * len(rows) if look is None else _cells(one, look)
        if look is not None:
            rules = look["rules"]
            cells += [
                _by_hand(one, key) or key_words("", rules[key])
                if key in rules
                else say("web.what_if_candidates.as_it_is")
                for key in names
            ]
        elif question.problem:
            cells[0] = english(question.problem)
        here = name != NOW and (one.steps, one.besides, one.target) == (
            state.steps, state.besides, state.target,
        )  # fmt: skip
        at = one.at("what-if", one.steps)
        columns.append(
            Column(name=_called(name), address=at, here=here, saved=name != NOW, cells=cells)
        )
    return filled(
        state,
        "what-if-candidates.html.j2",
        Beside(
            id=state.id,
            rows=rows,
            columns=columns,
            fields=state.fields(state.steps),
            again="" if done else state.at("what-if-candidates", state.steps),
            part=part,
        ),
    )


def _cells(one: State, look: Mapping[str, Any]) -> list[str]:
    from unikat.report.text.numbers import number, percent
    from unikat.report.text.verdict import verdict_text
    from unikat.risk.limits import Judged

    said = ""
    if look["judged"] is not None:
        said = verdict_text(Judged(**look["judged"]), one.explorer.level).title
    return [
        said or say("web.what_if_candidates.no_target"),
        ends(look["tau1"]),
        ends(look["tau2"]),
        number(look["n_uniques"]),
        number(look["smallest"]),
        percent(look["lost"]),
        _also(one.besides) or say("web.what_if_candidates.nothing"),
    ]


def _also(besides: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in besides.items())


def _by_hand(one: State, key: str) -> str:
    step = dict(zip((key["name"] for key in one.explorer.keys), one.steps, strict=True))[key]
    return say("web.what_if_candidates.by_hand") if isinstance(step, str) else ""


def candidates(request: Request) -> Response:
    """Answer with the saved plans side by side."""
    state = State.of(request)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    return Response(str(candidates_part(state, part=False)), media_type="text/html")
