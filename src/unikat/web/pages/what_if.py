"""The page on which recodings of an assessment are looked at, searched and done.

The address holds where the sliders stand, so that reloading, going back and links keep them. A
process of its own computes (`web.explorer`); the page asks for a first answer by some states of the
model, and then for that of all.
"""

from __future__ import annotations

import secrets
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import SpecError, UnikatError
from unikat.language.keys import quoted
from unikat.language.levels import FOUND
from unikat.report.text.words import say, small
from unikat.spec.kinds import ASSESS, PROTECT
from unikat.web.drafts import flag_of
from unikat.web.explorers import STATES, Explorer, Question
from unikat.web.pages.group_files import place_of
from unikat.web.pages.plan_parts import SHOWN, pictures_part
from unikat.web.pages.plans import GO, candidates_part, frontier_part, searched
from unikat.web.pages.what_if_state import (
    BESIDES,
    LONGEST,
    PLAN,
    Control,
    State,
    ends,
    english,
    filled,
    folder_of,
    limit_of,
    seen_in,
)
from unikat.web.runs import Run
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.report.pages.canvas import Drawing
    from unikat.report.text.verdict import VerdictText

PATIENCE = 1.0
"""Seconds that a page waits for the numbers of all states; a part of it then asks for them."""
SOON = 0.1
"""Seconds after which counts are shown by themselves."""
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHARES = ("", "90%", "75%", "50%", "33%", "25%", "10%")
"""Shares of the records that the page offers."""


@dataclass(frozen=True, kw_only=True)
class WhatIfPage:
    """The context of `what-if.html.j2`."""

    title: str
    nav: Nav
    id: str
    """Of the run."""
    run: Run
    problem: str
    kept: bool
    """Whether the run has kept its states."""
    keep: str
    """The command line that keeps them."""
    controls: Sequence[Control]
    """Empty until the process is ready."""
    page: str
    """Tells the questions of this page from those of others."""
    target: str
    besides: Mapping[str, str]
    """What is done besides recoding, as the fields have it."""
    of_households: bool
    """Whether the units are households, of which recodings alone can be looked at."""
    shares: Sequence[tuple[str, str]]
    """Shares of the records to choose from, each with its words."""
    name: str
    """Offered for a candidate."""
    numbers: Markup
    brief: str
    """The most important of them, which stay in sight on a phone."""
    waiting: Markup
    """What is being prepared or searched; empty if nothing is."""
    frontier: Markup
    candidates: Markup
    pictures: str
    """Address of the pictures of the plan."""
    pictures_page: str
    """Of this page with them in it, for browsers without scripts."""
    drawn: Markup
    """The pictures, if they were asked for."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The context of `what-if-numbers.html.j2`: the risk before and now."""

    id: str
    problem: str
    rows: Sequence[tuple[str, str, str]]
    """Measure, before and now."""
    verdict: VerdictText | None
    picture: Drawing | None
    """τ1 before and now; None until it is known."""
    early: str
    """That the search that found the recoding stopped early; else empty."""
    n_states: int
    n_all: int
    refine: str
    """Address of the same numbers by all states; empty if these are."""
    fields: Mapping[str, str]
    """What the form that applies the recoding sends."""
    out: str
    """Folder of the protection."""
    command: str
    """The command line that does the same; empty if nothing is recoded."""
    files: Sequence[tuple[str, str]]
    """Files of groups that it names and that the folder lacks, each with its address."""
    now: Mapping[int, str]
    """Expected population uniques of each group of the key whose levels are shown."""
    brief: str
    part: bool
    """Whether it takes the place of a part of a page, and of the brief one of the page."""
    others: Markup
    """Other parts of the page that change with it."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The context of `what-if-waiting.html.j2`: what is being prepared or searched."""

    words: Markup
    share: float | None
    again: str
    """Address to ask again; empty if there is nothing to wait for."""
    here: str
    """Address of the page, without a search."""


def show(request: Request) -> Response:
    """Show the page: what is being prepared, or the sliders with the numbers."""
    bench, id = workbench_of(request), request.path_params["id"]
    if not (folder_of(bench, id) / STATES).is_file():
        return page(bench, id, None)
    state = State.of(request)
    explorer = state.explorer
    if explorer.state == "failed":
        # The next one who loads the page starts another.
        bench.explorers.forget(explorer)
        return page(bench, id, None, explorer.text, 409)
    if explorer.state == "preparing":
        return page(bench, id, state)
    if state.given.get(GO) and (there := state.planned(state.given.get(PLAN, ""))) is not None:
        return bench.see(f"/what-if/{id}", **there.fields(there.steps))
    if not state.given.get("find"):
        return page(bench, id, state)
    question = explorer.find(state.target)
    explorer.wait(lambda: question.done, 0.5)
    if question.done and question.answer is not None and question.answer["kind"] == "found":
        steps = question.answer["steps"]
        return bench.see(f"/what-if/{id}", **state.fields(steps))
    return page(bench, id, state, question.problem, finding=not question.done)


def page(
    bench: Workbench,
    id: str,
    state: State | None,
    problem: str = "",
    status: int = 200,
    *,
    finding: bool = False,
) -> Response:
    """Show the page of a run with its state; None: the run has kept none."""
    ready = state is not None and state.explorer.state == "ready"
    token = secrets.token_hex(4)
    numbers = frontier_ = waiting_ = candidates_ = drawn = Markup("")
    shown_at = ""
    brief = ""
    of_households = False
    if state is not None:
        if ready:
            of_households = _before(state).get("persons") is not None
            question = state.look(token)
            state.explorer.wait(lambda: question.done, PATIENCE)
            state.explorer.wait(lambda: question.answer is not None, LONGEST)
            found = numbers_of(state, question, part=False)
            numbers, brief = filled(state, "what-if-numbers.html.j2", found), found.brief
            frontier_ = frontier_part(state, part=False, now=question)
            candidates_ = candidates_part(state, part=False, now=question)
            shown_at = state.at("what-if", state.steps, **{SHOWN: "1"})
            drawn = pictures_part(state) if state.given.get(SHOWN) else drawn
        if finding or not ready:
            waiting_ = _waiting(state, finding=finding)
    spec = shlex.quote(f"{id}/{ASSESS.spec}" if id else ASSESS.spec)
    context = WhatIfPage(
        title=say("web.what_if.title", id=id),
        nav=bench.nav(id),
        id=id,
        run=bench.runs.get(id),
        problem=problem,
        kept=state is not None or bool(problem),
        keep=f"unikat assess {spec} --trust-spec --keep-states --out NEW_FOLDER",
        controls=state.controls if state is not None and ready else [],
        page=token,
        target="" if state is None else state.target,
        besides=dict.fromkeys(BESIDES, "") | ({} if state is None else state.besides),
        of_households=of_households,
        shares=shares_offered("" if state is None else state.besides.get("subsample", "")),
        name=_free_name(bench, id),
        numbers=numbers,
        brief=brief,
        waiting=waiting_,
        frontier=frontier_,
        candidates=candidates_,
        pictures=bench.pages.at(f"/what-if-pictures/{id}"),
        pictures_page=shown_at,
        drawn=drawn,
    )
    return bench.page("what-if.html.j2", context, status)


def shares_offered(at: str) -> list[tuple[str, str]]:
    """Shares of the records with their words, that of the address among them."""
    every = SHARES if at in SHARES else (*SHARES, at)
    return [
        (one, say("web.what_if.of_records" if one else "web.what_if.all_records", share=one))
        for one in every
    ]


def _free_name(bench: Workbench, id: str) -> str:
    taken = {one.name for one in bench.candidates.of(id)}
    return next(
        name for letter in ALPHABET if (name := say("web.what_if.plan", letter=letter)) not in taken
    )


def numbers(request: Request) -> Response:
    """Answer with the numbers of where the sliders stand: the first, or with `seen` better ones."""
    state = State.of(request)
    page, explorer = request.headers.get("x-page", ""), state.explorer
    key = state.given.get("edit", "")
    if seen := state.given.get("seen"):
        asked = explorer.asked(page, state.steps, state.target, key, state.besides)
        if asked is None:
            # The sliders have moved on.
            return _nothing()
        question = asked
        explorer.wait(lambda: question.done or question.stage > int(seen), LONGEST)
    else:
        explorer.wait(lambda: explorer.state == "ready", LONGEST)
        question = state.look(page, key)
        first_numbers(explorer, question)
    if question.answer is not None and question.answer["kind"] == "obsolete":
        return _nothing()
    if explorer.state == "failed":
        state.bench.explorers.forget(explorer)
    found = filled(state, "what-if-numbers.html.j2", numbers_of(state, question, part=True))
    part = Response(str(found), media_type="text/html")
    if not key and question.done:
        # What takes all states is drawn again.
        part.headers["HX-Trigger"] = "moved"
    if not key:
        part.headers["HX-Replace-Url"] = state.at("what-if", state.steps, **state.chosen)
    return part


def first_numbers(explorer: Explorer, question: Question) -> None:
    """Wait for the first look, or, if that takes longer, for the counts of the file."""
    explorer.wait(lambda: question.stage > 1 or question.done, SOON)
    explorer.wait(lambda: question.answer is not None, LONGEST)


def _nothing() -> Response:
    """An answer that leaves the page as it is."""
    return Response("", media_type="text/html", headers={"HX-Reswap": "none"})


def numbers_of(state: State, question: Question, *, part: bool) -> Numbers:
    """Write the numbers of a question, as far as they are known."""
    from unikat.report.text.numbers import number, percent
    from unikat.report.text.verdict import verdict_text
    from unikat.risk.limits import Judged

    explorer = state.explorer
    key, first = state.given.get("edit", ""), _before(state)
    # In this order: a better answer may come in between.
    done = question.done
    answer, problem = question.answer, question.problem
    look = answer["look"] if answer is not None and answer["kind"] == "look" else None
    rows: list[tuple[str, str, str]] = []
    verdict, picture, refine, brief, now = None, None, "", "", {}
    counted = {} if problem or answer is None else seen_in(question)
    if first and counted:
        rows = [
            (
                say("titles.sample_uniques"),
                number(first["n_uniques"]),
                number(counted["n_uniques"]),
            ),
            (say("web.what_if.smallest"), number(first["smallest"]), number(counted["smallest"])),
        ]
        brief = say("web.what_if.brief", n=counted["n_uniques"], k=counted["smallest"])
    if first and look is not None:
        of = look["persons"] is not None
        rows = [
            (
                say("web.what_if.tau1_households" if of else "web.what_if.tau1"),
                ends(first["tau1"]),
                ends(look["tau1"]),
            ),
            *(
                [(say("web.what_if.persons"), ends(first["persons"]), ends(look["persons"]))]
                if of
                else []
            ),
            (say("web.what_if.tau2"), ends(first["tau2"]), ends(look["tau2"])),
            (say("web.what_if.lost"), percent(0.0), percent(look["lost"])),
            *rows,
        ]
        brief = say("web.what_if.whole", tau1=ends(look["tau1"]), lost=look["lost"], brief=brief)
        picture = _drawn(first, look, state.target)
        if look["judged"] is not None:
            verdict = verdict_text(Judged(**look["judged"]), explorer.level)
        if look["groups"] is not None:
            n_of = Counter(look["groups"]["of_level"])
            risks = enumerate(look["groups"]["risk"])
            now = {group: risk_words(risk) for group, risk in risks if n_of[group] > 1}
    if not done:
        more = {"edit": key} if key else state.chosen
        refine = state.at("what-if-numbers", state.steps, seen=str(question.stage), **more)
    files = {} if look is None else look["files"]
    places = {
        name: place_of(state.bench.folder.root, PurePosixPath(), name, rows)
        for name, rows in files.items()
    }
    rules = {} if look is None else dict(look["rules"])
    rules |= {name: f"file({place.path})" for name, place in places.items()}
    free = state.bench.runs.free_name(state.id.rpartition("/")[2] or "data", PROTECT)
    # What was typed stays where the run was refused.
    out = state.given.get("out", "") or free
    words = ["unikat", "protect", f"{state.id}/{ASSESS.spec}" if state.id else ASSESS.spec]
    told = "; ".join(f"{quoted(name)}: {rule}" for name, rule in rules.items())
    for name, text in asked_of(state, {"recode": told} if told else {}).items():
        words += [flag_of(name), text]
    if kinds := _kinds(state):
        words += ["--levels", "; ".join(f"{quoted(name)}: {kind}" for name, kind in kinds.items())]
    words += [flag_of("assessed"), state.id or "."]
    return Numbers(
        id=state.id,
        problem=problem,
        rows=rows,
        verdict=verdict,
        picture=picture,
        early=explorer.early(state.steps, state.target),
        n_states=0 if look is None else look["n_states"],
        n_all=explorer.n_states,
        refine=refine,
        fields=state.fields(state.steps),
        out=out,
        command=shlex.join([*words, "--out", out]) if rules or state.besides else "",
        files=[
            (str(place.path), state.at("what-if-groups", state.steps, edit=name))
            for name, place in places.items()
            if not place.is_there
        ],
        now=now if part else {},
        brief=brief,
        part=part,
        others=_others(state, question) if part and not key else Markup(""),
    )


def _kinds(state: State) -> dict[str, str]:
    """Kinds of levels that were chosen on the page, beside those of the run; empty if none was."""
    from unikat.files.toml import read_toml
    from unikat.spec.paths import with_paths

    kinds = {
        key["name"]: kind
        for key, at in zip(state.explorer.keys, state.steps, strict=True)
        if isinstance(at, str) and (kind := at.partition("\n")[0]) != FOUND
    }
    if not kinds:
        return {}
    # The option takes the place of what the specification says.
    said = read_toml(state.place / ASSESS.spec).get("data", {}).get("levels", {})
    moved = with_paths(said, lambda path: Path(normpath(Path(state.id) / path)), texts=True)
    return {**moved, **kinds}


def _others(state: State, question: Question) -> Markup:
    """What else of the page shows where the sliders stand."""
    found = candidates_part(state, part=True, now=question)
    # While it is searched it asks for itself.
    if state.explorer.frontier().done:
        found += frontier_part(state, part=True, now=question)
    return found


def _drawn(first: Mapping[str, Any], look: Mapping[str, Any], target: str) -> Drawing:
    from unikat.report.pages.release_figures import Side, posteriors

    sides = [
        Side(small(say(f"web.level_counts.{name}")), SimpleNamespace(**one["tau1"]), one["bins"])
        for name, one in (("before", first), ("now", look))
    ]
    return posteriors(sides, limit_of(target))


def asked_of(state: State, recode: Mapping[str, Any]) -> dict[str, Any]:
    """What a protection is asked to do: what the sliders say, and nothing that is searched."""
    besides = state.besides
    target = state.target if recode else "k >= 1" if besides.get("suppress") else ""
    return {**recode, **besides, **({"target": target} if target else {})}


def risk_words(risk: float) -> str:
    """Write expected population uniques of a level; below ten with one decimal."""
    from unikat.report.text.numbers import number

    return number(round(risk, 1)) if risk < 10.0 else number(round(risk))


def _before(state: State) -> Mapping[str, Any]:
    """The look at the file as it is; empty if it cannot be had."""
    start = state.explorer.look("as it is", [0] * len(state.explorer.keys), "")
    state.explorer.wait(lambda: start.done, LONGEST)
    return start.answer.get("look", {}) if start.answer else {}


def waiting(request: Request) -> Response:
    """Tell how far the preparing or the search is; when it is over, the page is loaded again."""
    state = State.of(request)
    explorer, finding = state.explorer, bool(state.given.get("find"))
    if explorer.state == "ready" and finding:
        question = explorer.find(state.target)
        explorer.wait(lambda: question.done, 0.5)
        over = question.done
    else:
        explorer.wait(lambda: explorer.state != "preparing", 0.5)
        over = explorer.state != "preparing"
    if over and finding and explorer.keys:
        found = state.at("what-if", state.steps, find="1")
        return Response("", headers={"HX-Redirect": found})
    if over:
        return Response("", headers={"HX-Refresh": "true"})
    return Response(str(_waiting(state, finding=finding)), media_type="text/html")


def _waiting(state: State, *, finding: bool) -> Markup:
    words, share = english(state.explorer.text), state.explorer.share
    more = {}
    if finding:
        words, share, more = searched(state.explorer.find(state.target)), None, {"find": "1"}
    # Where nothing is known of the keys yet, the query stays as it is.
    query = {**state.given, **more} if not state.explorer.keys else None
    again = (
        state.bench.pages.at(f"/what-if-waiting/{state.id}", **query)
        if query is not None
        else state.at("what-if-waiting", state.steps, **more)
    )
    here = state.at("what-if", state.steps) if state.explorer.keys else ""
    part = Waiting(words=words, share=share, again=again, here=here)
    return filled(state, "what-if-waiting.html.j2", part)


def apply(request: Request) -> Response:
    """Start the protection that does the recoding, and go to its page."""
    from unikat.spec.from_options import specify
    from unikat.spec.protection import ProtectionSpec

    state = State.of(request, request.state.form)
    try:
        look = state.whole()
        rules: dict[str, Any] = dict(look["rules"])
        for name, rows in look["files"].items():
            n_of = Counter(group for _, group in rows)
            # Levels that stay as they are are not named.
            rules[name] = {level: to for level, to in rows if n_of[to] > 1 or level != to}
        if not rules and not state.besides:
            raise SpecError("Nothing is recoded; move a slider first.")
        spec, _ = specify(
            ProtectionSpec,
            state.place / ASSESS.spec,
            asked_of(state, {"recode": rules} if rules else {}) | {"assessed": str(state.place)},
            shell=True,
            caller="The page",
            trust=state.bench.sources.trust(state.bench.connected(state.id)),
        )
        id = state.bench.runs.start(spec, state.given.get("out", ""))
    except UnikatError as error:
        return page(state.bench, state.id, state, str(error), status_of(error))
    return state.bench.see(f"/runs/{id}")


def save(request: Request) -> Response:
    """Save the plan of the sliders by the name that was given."""
    return _changed(
        request,
        lambda state, name: state.bench.candidates.save(state.id, name, state.fields(state.steps)),
    )


def remove(request: Request) -> Response:
    """Forget a saved plan."""
    return _changed(request, lambda state, name: state.bench.candidates.remove(state.id, name))


def _changed(request: Request, change: Callable[[State, str], None]) -> Response:
    state = State.of(request, request.state.form)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    try:
        change(state, state.given.get("name", ""))
    except UnikatError as error:
        return page(state.bench, state.id, state, str(error), status_of(error))
    return state.bench.see(f"/what-if/{state.id}", **state.fields(state.steps))
