"""The page on which recodings of an assessment are looked at, searched and done.

The address holds where the sliders stand, so that reloading, going back and links keep them. A
process of its own computes (`web.explorer`); the page asks for a first answer by some states of the
model, and then for that of all.
"""

from __future__ import annotations

import csv
import io
import secrets
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import SpecError, UnikatError
from unikat.spec.kinds import ASSESS, PROTECT
from unikat.web.explorers import STATES, Choice, Explorer, Question
from unikat.web.folder import NotInFolderError
from unikat.web.runs import Run
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.report.text.verdict import VerdictText

PATIENCE = 1.0
"""Seconds that a page waits for the numbers of all states; a part of it then asks for them."""
LONGEST = 120.0
SOON = 0.1
"""Seconds after which counts are shown by themselves."""
KEY, LEVELS = "key:", "levels:"
"""Beginnings of the names of fields that hold the step of a key, or its groups made by hand."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """A slider or a choice."""

    id: str
    name: str
    ordered: bool
    steps: Sequence[Mapping[str, Any]]
    """As `Step` has them."""
    at: int
    by_hand: str
    """Its groups, where they were made by hand; then it has no step."""
    edit: str
    """Address of its levels."""
    back: str
    """Address of this page with the key as it is."""

    @property
    def labels(self) -> list[str]:
        """What each step does, and what it loses of the key."""
        from unikat.report.text.numbers import percent

        return [
            f"{one['words']}, {percent(one['lost'])} lost"
            if one["rule"] and one["n_groups"]
            else str(one["words"])
            for one in self.steps
        ]


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
    numbers: Markup
    brief: str
    """The most important of them, which stay in sight on a phone."""
    waiting: Markup
    """What is being prepared or searched; empty if nothing is."""
    frontier: Markup


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The context of `what-if-numbers.html.j2`: the risk before and now."""

    id: str
    problem: str
    rows: Sequence[tuple[str, str, str]]
    """Measure, before and now."""
    verdict: VerdictText | None
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
    """Files of groups that it names, each with its address."""
    now: Mapping[int, str]
    """Expected population uniques of each group of the key whose levels are shown."""
    brief: str
    part: bool
    """Whether it takes the place of a part of a page, and of the brief one of the page."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The context of `what-if-waiting.html.j2`: what is being prepared or searched."""

    words: str
    share: float | None
    again: str
    """Address to ask again; empty if there is nothing to wait for."""
    here: str
    """Address of the page, without a search."""


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The context of `what-if-frontier.html.j2`."""

    problem: str
    points: Sequence[tuple[str, str, Mapping[str, Any], bool]]
    """Address, words, plan, and whether the sliders stand there."""
    words: str
    """How far the search is."""
    again: str


@dataclass(frozen=True, kw_only=True)
class State:
    """Where the sliders of a page stand."""

    bench: Workbench
    id: str
    place: Path
    explorer: Explorer
    given: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, given: Mapping[str, str] | None = None) -> State:
        """Take it from the query of an address, or from a form.

        Raises
        ------
        NotInFolderError
            If there is no such run, or it has kept no states.
        """
        bench, id = workbench_of(request), request.path_params["id"]
        place = _folder(bench, id)
        if not (place / STATES).is_file():
            raise NotInFolderError("This run has kept no states of the model.")
        return cls(
            bench=bench,
            id=id,
            place=place,
            explorer=bench.explorers.of(place),
            given=request.query_params if given is None else given,
        )

    @property
    def target(self) -> str:
        """What is to be reached, as the field has it; at first the threshold of the run."""
        if "target" in self.given:
            return self.given["target"].strip()
        report = self.bench.runs.asked(self.id)[1].get("report", {})
        return str(report.get("threshold") or "")

    @property
    def steps(self) -> list[Choice]:
        """The step of each key, 0 where the address has none that there is; or its groups."""
        found: list[Choice] = []
        for key in self.explorer.keys:
            if by_hand := self.given.get(f"{LEVELS}{key['name']}", "").strip():
                found.append("\n".join(by_hand.splitlines()))
                continue
            text = self.given.get(f"{KEY}{key['name']}", "")
            at = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
            found.append(at if at < len(key["steps"]) else 0)
        return found

    @property
    def controls(self) -> list[Control]:
        """The sliders."""
        steps, found = self.steps, []
        for i, key in enumerate(self.explorer.keys):
            at = steps[i]
            as_it_is = [*steps[:i], 0, *steps[i + 1 :]]
            found.append(
                Control(
                    id=f"key-{i + 1}",
                    at=0 if isinstance(at, str) else at,
                    by_hand=at if isinstance(at, str) else "",
                    edit=self.at("what-if-levels", steps, edit=key["name"]),
                    back=self.at("what-if", as_it_is),
                    **key,
                )
            )
        return found

    def fields(self, steps: Sequence[Choice], **more: str) -> dict[str, str]:
        """The query of an address."""
        keys = zip(self.explorer.keys, steps, strict=True)
        # An empty target is one that was taken back.
        return {
            f"{LEVELS if isinstance(at, str) else KEY}{key['name']}": str(at)
            for key, at in keys
            if at
        } | {"target": self.target or " ", **more}

    def at(self, page: str, steps: Sequence[Choice], **more: str) -> str:
        """Address of this page, or of a part of it, with sliders at steps."""
        return self.bench.pages.at(f"/{page}/{self.id}", **self.fields(steps, **more))

    def look(self, page: str, key: str = "") -> Question:
        """Ask for the risk of where the sliders stand."""
        return self.explorer.look(page, self.steps, self.target, key)

    def whole(self) -> Mapping[str, Any]:
        """Wait for the look of where the sliders stand, by all states.

        Raises
        ------
        SpecError
            If there is none.
        """
        question = self.explorer.look("whole", self.steps, "")
        self.explorer.wait(lambda: question.done, LONGEST)
        if question.answer is None or question.answer["kind"] != "look":
            raise SpecError(question.problem or "The recoding was not looked at; try again.")
        found: Mapping[str, Any] = question.answer["look"]
        return found


def _folder(bench: Workbench, id: str) -> Path:
    run, place = bench.runs.get(id), bench.folder.resolve(id)
    if run.kind is not ASSESS or run.active or not (place / ASSESS.complete).is_file():
        raise NotInFolderError("What if is about assessments that are complete; this run is none.")
    return place


def show(request: Request) -> Response:
    """Show the page: what is being prepared, or the sliders with the numbers."""
    bench, id = workbench_of(request), request.path_params["id"]
    if not (_folder(bench, id) / STATES).is_file():
        return _page(bench, id, None)
    state = State.of(request)
    explorer = state.explorer
    if explorer.state == "failed":
        # The next one who loads the page starts another.
        bench.explorers.forget(explorer)
        return _page(bench, id, None, explorer.text, 409)
    if explorer.state == "preparing":
        return _page(bench, id, state)
    if not state.given.get("find"):
        return _page(bench, id, state)
    question = explorer.find(state.target)
    explorer.wait(lambda: question.done, 0.5)
    if question.done and question.answer is not None and question.answer["kind"] == "found":
        steps = question.answer["steps"]
        return bench.see(f"/what-if/{id}", **state.fields(steps))
    return _page(bench, id, state, question.problem, finding=not question.done)


def _page(
    bench: Workbench,
    id: str,
    state: State | None,
    problem: str = "",
    status: int = 200,
    *,
    finding: bool = False,
) -> Response:
    ready = state is not None and state.explorer.state == "ready"
    token = secrets.token_hex(4)
    numbers = frontier_ = waiting_ = Markup("")
    brief = ""
    if state is not None:
        if ready:
            question = state.look(token)
            state.explorer.wait(lambda: question.done, PATIENCE)
            state.explorer.wait(lambda: question.answer is not None, LONGEST)
            found = numbers_of(state, question, part=False)
            numbers, brief = filled(state, "what-if-numbers.html.j2", found), found.brief
            frontier_ = _frontier(state)
        if finding or not ready:
            waiting_ = _waiting(state, finding=finding)
    spec = shlex.quote(f"{id}/{ASSESS.spec}" if id else ASSESS.spec)
    page = WhatIfPage(
        title=f"What if: {id}",
        nav=Nav(here="runs", path=bench.runs.asked(id)[0]),
        id=id,
        run=bench.runs.get(id),
        problem=problem,
        kept=state is not None or bool(problem),
        keep=f"unikat assess {spec} --trust-spec --keep-states --out NEW_FOLDER",
        controls=state.controls if state is not None and ready else [],
        page=token,
        target="" if state is None else state.target,
        numbers=numbers,
        brief=brief,
        waiting=waiting_,
        frontier=frontier_,
    )
    return bench.page("what-if.html.j2", page, status)


def numbers(request: Request) -> Response:
    """Answer with the numbers of where the sliders stand: the first, or with `seen` better ones."""
    state = State.of(request)
    page, explorer = request.headers.get("x-page", ""), state.explorer
    key = state.given.get("edit", "")
    if seen := state.given.get("seen"):
        asked = explorer.asked(page, state.steps, state.target, key)
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
    if not key:
        part.headers["HX-Replace-Url"] = state.at("what-if", state.steps)
    return part


def first_numbers(explorer: Explorer, question: Question) -> None:
    """Wait for the first look, or, if that takes longer, for the counts of the file."""
    explorer.wait(lambda: question.stage > 1 or question.done, SOON)
    explorer.wait(lambda: question.answer is not None, LONGEST)


def _nothing() -> Response:
    """An answer that leaves the page as it is."""
    return Response("", media_type="text/html", headers={"HX-Reswap": "none"})


def filled(state: State, name: str, context: Any) -> Markup:
    """Fill a part of a page."""
    # The template has escaped what it was given.
    return Markup(state.bench.pages.fill(name, context))


def numbers_of(state: State, question: Question, *, part: bool) -> Numbers:
    """Write the numbers of a question, as far as they are known."""
    from unikat.report.text.numbers import number, percent
    from unikat.report.text.verdict import verdict_text
    from unikat.risk.limits import Judged

    explorer = state.explorer
    answer, problem = question.answer, question.problem
    key = state.given.get("edit", "")
    look = answer["look"] if answer is not None and answer["kind"] == "look" else None
    rows: list[tuple[str, str, str]] = []
    verdict, refine, brief, now = None, "", "", {}
    first = {} if answer is None or problem else _before(state)
    counted = seen_in(question)
    if first and counted:
        rows = [
            ("Sample uniques", number(first["n_uniques"]), number(counted["n_uniques"])),
            ("Smallest combination, k", number(first["smallest"]), number(counted["smallest"])),
        ]
        brief = f"{number(counted['n_uniques'])} sample uniques, k {number(counted['smallest'])}"
    if look is not None:

        def ends(one: Mapping[str, float]) -> str:
            return f"{number(one['mean'])} ({number(one['lower'])} to {number(one['upper'])})"

        rows = [
            ("τ1, population uniques", ends(first["tau1"]), ends(look["tau1"])),
            ("τ2, expected correct matches", ends(first["tau2"]), ends(look["tau2"])),
            ("Information lost", "0%", percent(look["lost"])),
            *rows,
        ]
        brief = f"τ1 {ends(look['tau1'])}, {percent(look['lost'])} lost, {brief}"
        if look["judged"] is not None:
            verdict = verdict_text(Judged(**look["judged"]), explorer.level)
        if look["groups"] is not None:
            n_of = Counter(look["groups"]["of_level"])
            risks = enumerate(look["groups"]["risk"])
            now = {group: risk_words(risk) for group, risk in risks if n_of[group] > 1}
    if not question.done:
        more = {"edit": key} if key else {}
        refine = state.at("what-if-numbers", state.steps, seen=str(question.stage), **more)
    rules = {} if look is None else look["rules"]
    out = state.bench.runs.free_name(state.id.rpartition("/")[2] or "data", PROTECT)
    words = ["unikat", "protect", f"{state.id}/{ASSESS.spec}" if state.id else ASSESS.spec]
    words += ["--recode", "; ".join(f"{name}: {rule}" for name, rule in rules.items())]
    words += ["--target", state.target] if state.target else []
    files = {} if look is None else look["files"]
    return Numbers(
        id=state.id,
        problem=problem,
        rows=rows,
        verdict=verdict,
        early=explorer.early(state.steps, state.target),
        n_states=0 if look is None else look["n_states"],
        n_all=explorer.n_states,
        refine=refine,
        fields=state.fields(state.steps),
        out=out,
        command=shlex.join([*words, "--out", out]) if rules else "",
        files=[
            (rules[name][5:-1], state.at("what-if-groups", state.steps, edit=name))
            for name in files
        ],
        now=now if part else {},
        brief=brief,
        part=part,
    )


def seen_in(question: Question) -> Mapping[str, Any]:
    """What a question was answered by a look or by counts; empty if neither is there."""
    answer = question.answer
    return answer["look"] if answer is not None and answer["kind"] in ("look", "counts") else {}


def risk_words(risk: float) -> str:
    """Write expected population uniques of a level; below ten with one decimal."""
    from unikat.report.text.numbers import number

    return number(round(risk, 1)) if risk < 10.0 else number(round(risk))


def _before(state: State) -> Mapping[str, Any]:
    """The look at the file as it is; empty if it cannot be had."""
    start = state.explorer.look("as it is", [0] * len(state.explorer.keys), "")
    state.explorer.wait(lambda: start.done, LONGEST)
    return start.answer.get("look", {}) if start.answer else {}


def groups(request: Request) -> Response:
    """Serve the groups of a key that were made by hand, as a hierarchy for the command line."""
    state = State.of(request)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    name = state.given.get("edit", "")
    look = state.whole()
    if name not in look["files"]:
        raise NotInFolderError("No groups of this key were made by hand.")
    text = io.StringIO()
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(look["files"][name])
    file = look["rules"][name][5:-1]
    said = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=said)


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
    words, share = state.explorer.text, state.explorer.share
    more = {}
    if finding:
        words, share, more = _searched(state.explorer.find(state.target)), None, {"find": "1"}
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


def _searched(question: Question) -> str:
    told = question.answer is not None and question.answer["kind"] == "searching"
    return str(question.answer["text"]) if told and question.answer else "Searching"


def frontier(request: Request) -> Response:
    """Answer with the frontier, or with how far its search is."""
    state = State.of(request)
    if state.explorer.state == "ready":
        question = state.explorer.frontier()
        state.explorer.wait(lambda: question.done, 1.0)
    return Response(str(_frontier(state)), media_type="text/html")


def _frontier(state: State) -> Markup:
    from unikat.report.text.numbers import number, percent
    from unikat.report.text.plan_words import key_words

    question = state.explorer.frontier()
    points = []
    if question.answer is not None and question.answer["kind"] == "frontier":
        for one in question.answer["points"]:
            rules = "; ".join(key_words(name, rule) for name, rule in one["rules"].items())
            tau1 = one["tau1"]
            words = (
                f"τ1 {number(tau1['mean'])} ({number(tau1['lower'])} to {number(tau1['upper'])}), "
                f"{percent(one['lost'])} of the information lost: {rules or 'nothing is recoded'}"
            )
            here = one["steps"] == state.steps
            points.append((state.at("what-if", one["steps"]), words, one, here))
    part = Frontier(
        problem=question.problem,
        points=points,
        words=_searched(question),
        again="" if question.done else state.at("what-if-frontier", state.steps),
    )
    return filled(state, "what-if-frontier.html.j2", part)


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
        if not rules:
            raise SpecError("Nothing is recoded; move a slider first.")
        spec, _ = specify(
            ProtectionSpec,
            state.place / ASSESS.spec,
            {"recode": rules, "target": state.target or None},
            shell=True,
            caller="The page",
            inside=state.bench.folder.root,
        )
        id = state.bench.runs.start(spec, state.given.get("out", ""))
    except UnikatError as error:
        return _page(state.bench, state.id, state, str(error), status_of(error))
    return state.bench.see(f"/runs/{id}")
