"""The page on which the levels of a key are merged, cut into bands, or folded up their tree.

What was done is in the address, as on the page *What if* that it belongs to: the groups
(`language.levels`), and in `undo` those of before. Every form is sent by GET and answered with the
address of the new groups, or, if a script asks, with the part of the page that changes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from unikat.language.levels import FOUND, Group, LevelGroups
from unikat.spec.level_kinds import SYSTEMS
from unikat.web.explorers import Choice, Question
from unikat.web.folder import NotInFolderError
from unikat.web.pages.pictures import few
from unikat.web.pages.what_if import first_numbers, numbers_of, risk_words
from unikat.web.pages.what_if_state import LEVELS, LONGEST, State, filled, seen_in
from unikat.web.workbench import Nav, is_part

MOST_UNDONE = 20
MOST_EDGES = 24
"""Edges of bands that can be dragged; of more none can be told from its neighbour."""
MOST_NAMED = 4
"""Levels of a group that are named beside it."""
KINDS = (("nominal", "nominal: any levels can be merged"), ("ordered", "ordered: in bands"))
NAME, EDGE, TICK = "name:", "edge:", "tick:"
"""Beginnings of the names of fields of a group, an edge and a level."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Levels that are counted together."""

    title: str
    code: str
    """Value in the file, if that is not the title."""
    n: str
    share: str
    risk: str
    """Expected population uniques in the file as it is."""


@dataclass(frozen=True, kw_only=True)
class Row(Counted):
    """A level."""

    place: int
    valid: bool
    group: str
    """The group that it is in; empty if it is in none."""


@dataclass(frozen=True, kw_only=True)
class Merged(Counted):
    """A group of several levels."""

    place: int
    given: str
    """Its name, if somebody named it."""
    members: str
    at: int
    """Its place among the groups of the recoded key."""
    now: str
    """Expected population uniques now; empty until they are known."""


@dataclass(frozen=True, kw_only=True)
class Branch(Counted):
    """A node of a tree, with what is below it."""

    place: int
    n_levels: int
    is_group: bool
    is_open: bool
    branches: Sequence[Branch]
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The beginning of a band, which can be dragged."""

    place: int
    """Number of levels below it."""
    called: str
    below: str
    """The bands on its two sides."""
    above: str


@dataclass(frozen=True, kw_only=True)
class LevelsPage:
    """The context of `what-if-levels.html.j2`."""

    title: str
    label: str
    """Of the column in a statistical file."""
    nav: Nav
    id: str
    back: str
    page: str
    """Tells the questions of this page from those of others."""
    editor: Markup
    numbers: Markup
    brief: str
    said: str


@dataclass(frozen=True, kw_only=True)
class Editor:
    """The context of `levels.html.j2`, the part that an edit changes."""

    id: str
    problem: str
    fields: Mapping[str, str]
    """Hidden fields: where the other keys stand."""
    kind: str
    kinds: Sequence[tuple[str, str]]
    words: str
    steps: Sequence[str]
    """Recodings to start from."""
    step_at: int
    """The one that stands; -1: groups made by hand."""
    groups: Sequence[Merged]
    rows: Sequence[Row]
    branches: Sequence[Branch]
    heights: Sequence[tuple[int, str]]
    """Heights of a tree to which all levels can go up."""
    edges: Sequence[Edge]
    ticks: Sequence[str]
    """What each level in order is called, for the edges; empty if it is not ordered."""
    counts: Sequence[int]
    """Records of each level in order."""
    typed: str | None
    """Numbers at which bands begin; None if the levels are no numbers."""
    n_missing: int
    can_undo: bool
    part: bool
    said: str
    numbers: Markup
    """With a part of a page: the numbers that belong to it."""


@dataclass(frozen=True, kw_only=True)
class _Key:
    """The key that is edited, as far as it is known."""

    state: State
    name: str
    problem: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, state: State) -> _Key:
        name = state.given.get("edit", "")
        if name not in [key["name"] for key in state.explorer.keys]:
            raise NotInFolderError("There is no such key.")
        return cls(state=state, name=name)

    @property
    def place(self) -> int:
        """Among the keys."""
        return [key["name"] for key in self.state.explorer.keys].index(self.name)

    @property
    def choice(self) -> Choice:
        """What becomes of it."""
        return self.state.steps[self.place]

    @cached_property
    def made(self) -> LevelGroups:
        """Its groups of several levels; those of a step, too."""
        if isinstance(self.choice, str):
            try:
                return LevelGroups.parse(self.choice)
            except ValueError as error:
                raise NotInFolderError(f"The address is none of a page: {error}.") from None
        groups: dict[int, list[int]] = {}
        if self.choice:
            for code, group in enumerate(self.found["of_level"]):
                groups.setdefault(group, []).append(code)
        several = (Group(tuple(codes)) for codes in groups.values() if len(codes) > 1)
        return LevelGroups(groups=tuple(several))

    @cached_property
    def found(self) -> Mapping[str, Any]:
        """The groups of the recoded key; empty if it is left out."""
        question = self.state.look("levels", self.name)
        self.state.explorer.wait(lambda: question.stage > 0, LONGEST)
        return seen_in(question).get("groups") or {"of_level": []}

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """Its levels, as its kind has them, or as the file has them if they cannot be of it."""
        for kind in dict.fromkeys([self.made.kind, FOUND]):
            question = self.state.explorer.levels(self.name, kind)
            self.state.explorer.wait(lambda asked=question: asked.done, LONGEST)  # type: ignore[misc]
            if question.answer is not None and question.answer["kind"] == "levels":
                found: Mapping[str, Any] = question.answer["levels"]
                return found
            self.problem.append(question.problem)
        raise NotInFolderError(self.problem[0] or "The levels of the key are not known.")

    @property
    def levels(self) -> list[Mapping[str, Any]]:
        """Its levels, by code."""
        return list(self.known["levels"])

    def called(self, code: int) -> str:
        """What a level is called: by its own label, or that of its code in a list."""
        one = self.levels[code]
        label = str(one["label"])
        return self.known["labels"].get(label, label) if label == one["value"] else label

    def branches(self) -> list[tuple[tuple[str, ...], list[int]]]:
        """Nodes of the tree, each with the codes of its levels, from the top."""
        found: dict[tuple[str, ...], list[int]] = {}
        for code, one in enumerate(self.levels):
            for height in range(1, len(one["path"]) + 1):
                found.setdefault(tuple(one["path"][:height]), []).append(code)
        return sorted(found.items())


def show(request: Request) -> Response:
    """Show the levels of a key with their groups, or do what the form asks for."""
    state = State.of(request)
    if state.explorer.state != "ready":
        return state.bench.see(f"/what-if/{state.id}", **_query(state))
    key = _Key.of(state)
    changed = _changed(key, request.query_params.getlist("tick"))
    said = ""
    if changed is not None:
        choice, undo, said = changed
        steps = state.steps
        steps[key.place] = choice
        query = state.fields(steps, edit=key.name, undo=json.dumps(undo) if undo else "")
        if not is_part(request):
            return state.bench.see(f"/what-if-levels/{state.id}", **query)
        state = State.of(request, query)
        key = _Key.of(state)
    token = request.headers.get("x-page") or secrets.token_hex(4)
    question = state.look(token, key.name)
    first_numbers(state.explorer, question)
    if is_part(request):
        part = Response(str(_editor(key, question, said, part=True)), media_type="text/html")
        if changed is not None:
            at = state.bench.pages.at(f"/what-if-levels/{state.id}", **dict(state.given))
            part.headers["HX-Push-Url"] = at
        return part
    numbers = numbers_of(state, question, part=False)
    page = LevelsPage(
        title=f"Levels of {key.name}",
        label=key.known["title"],
        nav=Nav(here="runs", path=state.bench.runs.asked(state.id)[0]),
        id=state.id,
        back=state.at("what-if", state.steps),
        page=token,
        editor=_editor(key, question, said, part=False),
        numbers=filled(state, "what-if-numbers.html.j2", numbers),
        brief=numbers.brief,
        said=said,
    )
    return state.bench.page("what-if-levels.html.j2", page)


def _query(state: State) -> dict[str, str]:
    """Where the sliders stand, as the address has it: the keys are not known yet."""
    kept = ("key:", LEVELS, "target")
    return {name: text for name, text in state.given.items() if name.startswith(kept)}


def _changed(key: _Key, ticked: Sequence[str]) -> tuple[Choice, list[str], str] | None:
    """What the form makes of the key, what can be undone, and what is said; None: nothing new."""
    given, made = key.state.given, key.made
    do, _, argument = given.get("do", "").partition(":")
    undo = _undone(given.get("undo", ""))
    number = int(argument) if argument.isascii() and argument.isdigit() else -1
    codes = [int(one) for one in ticked if one.isascii() and one.isdigit()]
    if do == "undo":
        before = undo.pop() if undo else "0"
        return (int(before) if before.isdigit() else before), undo, "The last step was undone."
    undo = [*undo, str(key.choice)][-MOST_UNDONE:]
    if do == "split":
        return _choice(made.split(number)), undo, "The group was split into its levels."
    if do == "clear":
        return _choice(LevelGroups(kind=made.kind)), undo, "All levels are as in the file."
    if do == "branch" and 0 <= number < len(key.branches()):
        path, below = key.branches()[number]
        new = made.merged([code for code in below if key.levels[code]["valid"]])
        called = key.known["labels"].get(path[-1], path[-1])
        return _choice(new), undo, f"{len(below)} levels of {called} are merged."
    if do == "height" and number > 0:
        paths: dict[tuple[str, ...], list[int]] = {}
        for code, one in enumerate(key.levels):
            if len(one["path"]) >= number:
                paths.setdefault(tuple(one["path"][:number]), []).append(code)
        new = LevelGroups(kind=made.kind)
        for below in paths.values():
            new = new.merged(below)
        return _choice(new), undo, "All levels went up the tree."
    if do == "merge" and len(set(codes)) > 1:
        order = list(key.known["order"])
        places = [order.index(code) for code in codes if code in order]
        if places:
            # Bands have no gaps.
            codes = order[min(places) : max(places) + 1]
        new = made.merged(codes, given.get("name", "").strip())
        return _choice(new), undo, f"{len(set(codes))} levels are merged."
    new_choice = _adjusted(key)
    if new_choice is not None:
        return new_choice, undo, "The groups were changed."
    if do == "merge":
        return key.choice, undo[:-1], "Tick two levels or more to merge them."
    return None


def _adjusted(key: _Key) -> Choice | None:
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
    if typed is not None and typed.strip() != (_typed(key, starts) or ""):
        return _choice(made.banded(order, _places(key, order, typed)))
    return None


def _choice(made: LevelGroups) -> Choice:
    return str(made) if made.groups or made.kind != FOUND else 0


def _undone(text: str) -> list[str]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _typed(key: _Key, starts: Sequence[int]) -> str | None:
    """Numbers at which bands begin; empty if no levels are together."""
    order = list(key.known["order"])
    values = [key.levels[code]["value"] for code in order]
    if not order or not all(map(_is_number, values)):
        return None
    return ", ".join(values[start] for start in starts) if key.made.groups else ""


def _places(key: _Key, order: Sequence[int], typed: str) -> list[int]:
    """Places in the order of typed numbers; without any, all levels are apart."""
    values = [float(key.levels[code]["value"]) for code in order]
    numbers = [float(one) for one in typed.replace(";", ",").split(",") if _is_number(one)]
    if not numbers:
        return list(range(1, len(order)))
    return [sum(value < number for value in values) for number in numbers]


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def _editor(key: _Key, question: Question, said: str, *, part: bool) -> Markup:
    state, known, made = key.state, key.known, key.made
    control = state.controls[key.place]
    recoded = seen_in(question).get("groups") or {"of_level": [], "labels": [], "risk": []}
    in_group = {code: i for i, one in enumerate(made.groups) for code in one.codes}
    labels = [
        recoded["labels"][recoded["of_level"][one.codes[0]]] if recoded["of_level"] else one.name
        for one in made.groups
    ]
    total = max(sum(one["n"] for one in key.levels), 1)

    def counted(codes: Sequence[int]) -> dict[str, str]:
        from unikat.report.text.numbers import percent

        n = sum(key.levels[code]["n"] for code in codes)
        risk = sum(key.levels[code]["risk"] for code in codes)
        return {"n": _few(n), "share": percent(n / total), "risk": risk_words(risk)}

    rows = {
        code: Row(
            title=key.called(code),
            code="" if key.called(code) == one["value"] else one["value"],
            place=code,
            valid=one["valid"],
            group=labels[in_group[code]] if code in in_group else "",
            **counted([code]),
        )
        for code, one in enumerate(key.levels)
    }
    merged = []
    for i, one in enumerate(made.groups):
        at = recoded["of_level"][one.codes[0]] if recoded["of_level"] else -1
        merged.append(
            Merged(
                title=labels[i],
                code="",
                place=i,
                given=one.name,
                members=_members(key, one, labels[i]),
                at=at,
                now=risk_words(recoded["risk"][at]) if recoded["risk"] else "",
                **counted(one.codes),
            )
        )
    order = list(known["order"])
    starts = made.starts(order) if made.groups else []
    problem = "\n".join(filter(None, [*key.problem, question.problem]))
    kinds = [(FOUND, f"as found: {known['kind']}" if made.kind == FOUND else "as found"), *KINDS]
    kinds += [(name, f"hierarchy: {of}") for name, of in SYSTEMS.items()]
    if made.kind not in dict(kinds):
        kinds.append((made.kind, f"hierarchy: {made.kind}"))
    steps = state.steps
    fields = state.fields([*steps], edit=key.name, undo=state.given.get("undo", ""))
    sequence = order if order else list(range(len(rows)))
    sequence += [code for code in rows if code not in set(sequence)]
    editor = Editor(
        id=state.id,
        problem=problem,
        fields={name: text for name, text in fields.items() if text},
        kind=made.kind,
        kinds=kinds,
        words=known["words"],
        steps=control.labels,
        step_at=control.at if not control.by_hand else -1,
        groups=merged,
        rows=[] if known["heights"] else [rows[code] for code in sequence],
        branches=_tree(key, rows, in_group, counted),
        heights=[(i, title or f"height {i}") for i, title in enumerate(known["heights"], start=1)],
        edges=_edges(key, order, starts) if len(starts) <= MOST_EDGES else [],
        ticks=[key.called(code) for code in order],
        counts=[key.levels[code]["n"] for code in order],
        typed=_typed(key, starts),
        n_missing=known["n_missing"],
        can_undo=bool(_undone(state.given.get("undo", ""))),
        part=part,
        said=said,
        numbers=filled(state, "what-if-numbers.html.j2", numbers_of(state, question, part=part))
        if part
        else Markup(""),
    )
    return filled(state, "levels.html.j2", editor)


def _members(key: _Key, group: Group, title: str) -> str:
    """What is in a group: its branch, or its first levels; empty if its name tells them."""
    n, order = len(group.codes), list(key.known["order"])
    if title in key.known["labels"]:
        return f"{key.known['labels'][title]}, {n} levels"
    # Of a band the ends tell all.
    codes = sorted(group.codes, key=order.index) if order else list(group.codes)
    if order and n > 2:
        return f"{key.called(codes[0])} to {key.called(codes[-1])}"
    names = ", ".join(key.called(code) for code in codes[:MOST_NAMED])
    found = names + (f" and {n - MOST_NAMED} more" if n > MOST_NAMED else "")
    return "" if found == title else found


def _few(n: int) -> str:
    return f"{n:,}" if n > 2 or not n else few(n).removesuffix(" records")


def _edges(key: _Key, order: Sequence[int], starts: Sequence[int]) -> list[Edge]:
    if not starts:
        return []
    ends = [0, *starts, len(order)]
    bands = [
        key.called(order[low])
        if high - low == 1
        else f"{key.called(order[low])} to {key.called(order[high - 1])}"
        for low, high in pairwise(ends)
    ]
    return [
        Edge(place=start, called=key.called(order[start]), below=bands[i], above=bands[i + 1])
        for i, start in enumerate(starts)
    ]


def _tree(
    key: _Key, rows: Mapping[int, Row], in_group: Mapping[int, int], counted: Any
) -> list[Branch]:
    """The branches at the top of a tree, each with those below it."""
    nodes = key.branches()
    placed = {path: (place, codes) for place, (path, codes) in enumerate(nodes)}
    labels = key.known["labels"]

    def of(path: tuple[str, ...]) -> Branch:
        place, codes = placed[path]
        groups = {in_group.get(code, -1) for code in codes}
        whole = len(groups) == 1 and groups != {-1}
        below = [other for other in placed if other[:-1] == path]
        return Branch(
            title=labels.get(path[-1], path[-1]),
            code=path[-1] if path[-1] in labels else "",
            place=place,
            n_levels=len(codes),
            is_group=whole and len(key.made.groups[next(iter(groups))].codes) == len(codes),
            is_open=not whole and groups != {-1},
            branches=[of(other) for other in below],
            rows=[rows[code] for code in codes if tuple(key.levels[code]["path"]) == path],
            **counted(codes),
        )

    return [of(path) for path in placed if len(path) == 1]
