"""The levels of a key before anything is fitted: merged by hand, with what the file itself tells.

The editor is that of *What if* (`web.pages.levels`); what is done goes into the draft.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import SpecError, UnikatError
from unikat.language.dates import UNITS
from unikat.language.keys import Call
from unikat.language.levels import FOUND
from unikat.report.text.words import say
from unikat.spec.paths import hierarchy_file
from unikat.web.drafts import Draft
from unikat.web.explorers import Choice, Question
from unikat.web.pages.check_page import edited_key
from unikat.web.pages.group_files import write
from unikat.web.pages.level_editor import Host
from unikat.web.pages.levels import edited
from unikat.web.pages.what_if_state import LEVELS, State, filled
from unikat.web.workbench import Nav, Workbench, workbench_of

if TYPE_CHECKING:
    from unikat.jobs.levels import EditedKey

TREES = (".csv", ".tsv", ".txt")
"""Endings of files that may hold a tree."""
RULES = ("width", "cut", "quantile", "years", *UNITS)
"""Rules that a key can have in an assessment, too."""
PATH = "/levels"


@dataclass(frozen=True, kw_only=True)
class LevelCounts:
    """The context of `level-counts.html.j2`: what the file tells before and now."""

    problem: str
    rows: Sequence[tuple[str, str, str]]
    """Measure, before and now."""
    brief: str
    fields: Mapping[str, str]
    """What the form sends that keeps the groups."""
    rule: str
    """What is done to the key, in words; empty if nothing is."""
    is_rule: bool
    """Whether it is a rule of the key itself, which all runs take alike."""
    part: bool


class TableExplorer:
    """Answers as the process of a run does (`web.explorers`), of a table alone and at once."""

    state, n_states, level, text = "ready", 0, 0.95, ""

    def __init__(self, bench: Workbench, draft: Draft, name: str) -> None:
        self._bench, self._draft, self._name = bench, draft, name
        self.keys = [{"name": name, "ordered": False, "steps": self.key(FOUND).steps}]

    def key(self, kind: str) -> EditedKey:
        """Return the key, read with the tree of a file if its kind names one."""
        return edited_key(self._bench, self._draft, self._name, kind)

    def look(self, page: str, steps: Sequence[Choice], *_: Any, **__: Any) -> Question:
        """Count."""
        (choice,) = steps
        kind = choice.partition("\n")[0] if isinstance(choice, str) else FOUND
        return _asked("counts", look=lambda: asdict(self.key(kind).counts(choice)))

    def levels(self, name: str, kind: str) -> Question:
        """Tell the levels of the key."""
        meant = FOUND if hierarchy_file(kind) else kind
        return _asked("levels", levels=lambda: asdict(self.key(kind).levels(meant)))

    def wait(self, ready: Any, seconds: float) -> None:
        """All answers are there."""


def _asked(kind: str, **answer: Any) -> Question:
    try:
        told = {name: find() for name, find in answer.items()}
    except UnikatError as error:
        return Question(asked={}, answer={"kind": "problem", "text": str(error)}, done=True)
    return Question(asked={}, answer={"kind": kind, **told}, stage=2, done=True)


@dataclass(frozen=True, kw_only=True)
class KeyState(State):
    """Where the key stands, as the address holds it."""

    @property
    def target(self) -> str:
        """Nothing is to be reached."""
        return ""

    def fields(self, steps: Sequence[Choice], **more: str) -> dict[str, str]:
        """The query of an address."""
        found = super().fields(steps, **{"edit": self.given.get("edit", ""), **more})
        return {"path": self.id} | {name: text for name, text in found.items() if text.strip()}

    def at(self, page: str, steps: Sequence[Choice], **more: str) -> str:
        """Address of the page."""
        return self.bench.pages.at(PATH, **self.fields(steps, **more))

    def look(self, page: str, key: str = "") -> Question:
        """Count where the key stands."""
        return self.explorer.look(page, self.steps, "", key)


def show(request: Request) -> Response:
    """Show the levels of a key with their groups, or do what the form asks for."""
    state = _state(request, request.query_params)
    name = state.given.get("edit", "")
    if not any(field.startswith(("key:", LEVELS, "kind")) for field in state.given):
        before = _kept(state, state.bench.draft(state.id), name)
        if before:
            query = state.fields([before])
            return state.bench.see(PATH, **query)
    here = PurePosixPath(state.id).parent
    host = Host(
        path=PATH,
        measure=say("web.levels.uniques"),
        explained=say("web.levels.uniques_are"),
        numbers=_numbers,
        files=[
            file
            for file in state.bench.folder.files(TREES)
            if file != state.id and PurePosixPath(file).parent in (here, PurePosixPath("."))
        ],
        back=lambda now: now.bench.pages.at("/keys", path=now.id),
        back_to=say("web.head.keys"),
    )
    return edited(request, state, host, nav=Nav(here="keys", path=state.id))


def submit(request: Request) -> Response:
    """Keep what was done to the key in the draft, and go back to the keys."""
    form = request.state.form
    state = _state(request, form)
    bench, name = state.bench, state.given.get("edit", "")
    draft = bench.draft(state.id)
    (choice,) = state.steps
    kind = choice.partition("\n")[0] if isinstance(choice, str) else FOUND
    found = state.explorer.key(kind).counts(choice)  # type: ignore[attr-defined]  # a table's
    keys = draft.keys if name in draft.keys else (*draft.keys, name)
    groupings = {key: rule for key, rule in draft.groupings.items() if key != name}
    of_keys = {
        option: {key: text for key, text in texts.items() if key != name}
        for option, texts in draft.of_keys.items()
        if option in ("groups", "recode", "recodings", "levels")
    }
    rule, use = found.rule, form.get("use", "")
    if rule and _is_of_key(rule):
        groupings[name] = rule
    elif rule:
        option = use if use in ("recodings", "recode") else "groups"
        if option == "groups" or rule.startswith("groups "):
            rule = f"file({_written(bench.folder.root, state.id, name, found.rows)})"
        of_keys.setdefault(option, {})[name] = rule
    if kind == FOUND:
        kind = draft.of_keys.get("levels", {}).get(name, FOUND)
    if kind != FOUND:
        of_keys.setdefault("levels", {})[name] = kind
    changed = draft.with_keys(keys, groupings, draft.rules)
    bench.keep(replace(changed, of_keys={**draft.of_keys, **of_keys}))
    return bench.see("/keys", path=state.id)


def _is_of_key(rule: str) -> bool:
    call = Call.of(rule)
    return call is not None and call.word in RULES


def _state(request: Request, given: Mapping[str, str]) -> KeyState:
    bench, path = workbench_of(request), given.get("path", "")
    draft = bench.draft(path)
    name = given.get("edit", "")
    if name not in [one.name for one in bench.profile(draft).columns]:
        raise SpecError("The file has no such column; go back to Keys and design.")
    explorer: Any = TableExplorer(bench, draft, name)
    return KeyState(
        bench=bench, id=path, place=Path(bench.source(draft)), explorer=explorer, given=given
    )


def _kept(state: KeyState, draft: Draft, name: str) -> str:
    """What was done to the key before, as groups; empty if nothing was."""
    rule: Any = draft.groupings.get(name) or next(
        (
            texts[name]
            for option in ("groups", "recode", "recodings")
            if name in (texts := draft.of_keys.get(option, {}))
        ),
        "",
    )
    try:
        if path := hierarchy_file(rule):
            with state.bench.folder.resolve(path).open(encoding="utf-8", newline="") as file:
                rule = {row[0]: row[1] for row in csv.reader(file, delimiter=";") if len(row) == 2}
        key = state.explorer.key(FOUND)  # type: ignore[attr-defined]  # a table's
        found: str = key.groups_of(rule) if rule else ""
        return found if "\n" in found else ""
    except (UnikatError, OSError, ValueError):
        # A file that somebody else has written there, or several recodings to choose from.
        return ""


def _written(root: Path, path: str, name: str, rows: Sequence[tuple[str, str]]) -> str:
    """Write groups beside the file of data; return the path from the folder of the workbench."""
    # Where it is none of several files of data that are read as one.
    beside = PurePosixPath(path).parent if (root / path).is_file() else PurePosixPath("groups")
    return str(write(root, beside, name, rows))


def _numbers(state: State, question: Question, part: bool) -> tuple[Markup, str]:
    from unikat.report.text.numbers import number
    from unikat.report.text.plan_words import key_words

    rows, rule, brief = [], "", ""
    if not question.problem and question.answer is not None:
        before = state.explorer.look("", [0], "").answer or {}
        first, now = before["look"], question.answer["look"]
        rows = [
            (words, number(first[name]), number(now[name]))
            for words, name in (
                (say("web.what_if.n_uniques"), "n_uniques"),
                (say("web.what_if.smallest"), "smallest"),
                (say("web.what_if.n_cells"), "n_cells"),
            )
        ]
        rule = now["rule"]
        brief = say("web.what_if.brief", n=now["n_uniques"], k=now["smallest"])
    counts = LevelCounts(
        problem=question.problem,
        rows=rows,
        brief=brief,
        fields={**state.fields(state.steps), "edit": state.given.get("edit", "")},
        rule=key_words("", rule) if rule else "",
        is_rule=_is_of_key(rule),
        part=part,
    )
    return filled(state, "level-counts.html.j2", counts), brief
