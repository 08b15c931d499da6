"""Where the sliders of the page *What if* stand, as its address holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup
from starlette.requests import Request

from unikat.errors import SpecError
from unikat.report.text.words import say
from unikat.spec.kinds import ASSESS
from unikat.web.explorers import STATES, Choice, Explorer, Question
from unikat.web.folder import NotInFolderError
from unikat.web.workbench import Workbench, workbench_of

LONGEST = 120.0
"""Seconds that an answer is waited for."""
KEY, LEVELS = "key:", "levels:"
"""Beginnings of the names of fields that hold the step of a key, or its groups made by hand."""
BESIDES = ("subsample", "suppress", "pram", "swap")
"""Options of `protect` for what is done besides recoding."""
PLAN, DRAWN = "plan", "was"
"""Fields of the list of the frontier: the plan that is chosen, and the one it was drawn with."""


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
        return [
            say("web.what_if.step", words=one["words"], lost=one["lost"])
            if one["rule"] and one["n_groups"]
            else str(one["words"])
            for one in self.steps
        ]


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
        NotConnectedError
            As of `Workbench.connected`.
        """
        bench, id = workbench_of(request), request.path_params["id"]
        place = folder_of(bench, id)
        if not (place / STATES).is_file():
            raise NotInFolderError("This run has kept no states of the model.")
        return cls(
            bench=bench,
            id=id,
            place=place,
            explorer=bench.explorers.of(place, bench.connected(id).digest),
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

    @property
    def besides(self) -> dict[str, str]:
        """What is done besides recoding, as options of `protect`."""
        given = ((name, self.given.get(name, "").strip()) for name in BESIDES)
        return {name: text for name, text in given if text}

    def moved(self, given: Mapping[str, str]) -> State:
        """The same with the sliders elsewhere."""
        return replace(self, given=given)

    def fields(self, steps: Sequence[Choice], **more: str) -> dict[str, str]:
        """The query of an address."""
        keys = zip(self.explorer.keys, steps, strict=True)
        found = {
            f"{LEVELS if isinstance(at, str) else KEY}{key['name']}": str(at)
            for key, at in keys
            if at
        }
        # An empty target is one that was taken back.
        return found | {"target": self.target or " ", **self.besides, **more}

    def named(self, steps: Sequence[Choice], besides: Mapping[str, str]) -> str:
        """Write a plan as the list of the frontier names it: the query of its address."""
        fields = self.moved(besides).fields(steps)
        return "?" + urlencode({name: text for name, text in fields.items() if name != "target"})

    def planned(self, text: str) -> State | None:
        """The same with the sliders at a plan of the list; None if none is named."""
        if not text.startswith("?"):
            return None
        plan = {
            name: value
            for name, value in parse_qsl(text[1:])
            if name in BESIDES or name.startswith((KEY, LEVELS))
        }
        return self.moved(plan | {"target": self.target or " "})

    @property
    def chosen(self) -> dict[str, str]:
        """The plan that is chosen in the list, as a field; empty if it is the one drawn."""
        plan = self.given.get(PLAN, "")
        return {PLAN: plan} if plan.startswith("?") and plan != self.given.get(DRAWN) else {}

    def at(self, page: str, steps: Sequence[Choice], **more: str) -> str:
        """Address of this page, or of a part of it, with sliders at steps."""
        return self.bench.pages.at(f"/{page}/{self.id}", **self.fields(steps, **more))

    def look(self, page: str, key: str = "") -> Question:
        """Ask for the risk of where the sliders stand."""
        return self.explorer.look(page, self.steps, self.target, key, self.besides)

    def whole(self) -> Mapping[str, Any]:
        """Wait for the look of where the sliders stand, by all states.

        Raises
        ------
        SpecError
            If there is none.
        """
        # Of a page of its own: another plan, that of a slider that moves on, ends none of these.
        question = self.look(f"whole {self.fields(self.steps)}")
        self.explorer.wait(lambda: question.done, LONGEST)
        if question.answer is None or question.answer["kind"] != "look":
            raise SpecError(question.problem or "The recoding was not looked at; try again.")
        found: Mapping[str, Any] = question.answer["look"]
        return found


def folder_of(bench: Workbench, id: str) -> Path:
    """Return the folder of an assessment that is complete.

    Raises
    ------
    NotInFolderError
        If there is no such run.
    """
    run, place = bench.runs.get(id), bench.folder.resolve(id)
    if run.kind is not ASSESS or run.active or not (place / ASSESS.complete).is_file():
        raise NotInFolderError("What if is about assessments that are complete; this run is none.")
    return place


def filled(state: State, name: str, context: Any) -> Markup:
    """Fill a part of a page."""
    # The template has escaped what it was given.
    return Markup(state.bench.pages.fill(name, context))


def seen_in(question: Question) -> Mapping[str, Any]:
    """What a question was answered by a look or by counts; empty if neither is there."""
    answer = question.answer
    return answer["look"] if answer is not None and answer["kind"] in ("look", "counts") else {}


def look_in(question: Question) -> Mapping[str, Any] | None:
    """The look that a question was answered by; None if there is none yet."""
    answer = question.answer
    return answer["look"] if answer is not None and answer["kind"] == "look" else None


def english(words: str) -> Markup:
    """Mark words that are English in all languages."""
    return Markup('<span lang="en">{}</span>').format(words)


def ends(one: Mapping[str, float]) -> str:
    """Write a number with its interval; alone if it has none."""
    from unikat.report.text.numbers import number, to

    if one["lower"] == one["mean"] == one["upper"]:
        return number(one["mean"])
    return f"{number(one['mean'])} ({to(number(one['lower']), number(one['upper']))})"


def limit_of(target: str) -> str | None:
    """The target, if it is a limit of τ1 that a picture shows."""
    from unikat.report.pages.release_figures import bound_of

    try:
        return target if bound_of(target) is not None else None
    except ValueError:
        return None
