"""The editor of the levels of a key: what a page shows that merges them (`web.pages.levels`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from unikat.language.levels import FOUND, Group, LevelGroups
from unikat.report.text.numbers import number, to
from unikat.report.text.words import counted, say
from unikat.spec.level_kinds import SYSTEMS
from unikat.web.explorers import Choice, Question
from unikat.web.folder import NotInFolderError
from unikat.web.pages.what_if import risk_words
from unikat.web.pages.what_if_state import LONGEST, State, filled, seen_in

MOST_EDGES = 24
"""Edges of bands that can be dragged; of more none can be told from its neighbour."""
MOST_NAMED = 4
"""Levels of a group that are named beside it."""
KINDS = ("nominal", "ordered")
MOST_LISTED = 200
"""Levels on a page."""
MOST_LEAVES = 1_000
"""Levels of a tree that are shown in it; of more its branches are, and levels are searched."""
LISTING = ("find", "sort", "at")
"""Fields that say which levels are listed."""
SORTS = ("", "few", "many", "risk", "name")


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
class Host:
    """The page that an editor belongs to."""

    path: str
    """Of its address."""
    measure: str
    """What is told of each level besides its records."""
    explained: str
    numbers: Callable[[State, Question, bool], tuple[Markup, str]]
    """Makes the numbers of a question, and the most important of them."""
    back: Callable[[State], str]
    """Address of the page to go back to, which keeps what was done to the levels."""
    back_to: str
    """What that page is called."""
    files: Sequence[str] = ()
    """Files that may hold the tree of a key."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Which levels are listed, of many."""

    find: str
    sort: str
    page: int
    n_pages: int
    n_found: int
    n_levels: int
    as_tree: bool
    """Whether the branches of a tree are shown instead."""
    sorts: Sequence[tuple[str, str]]
    ticked: Sequence[int]
    """Levels that are ticked."""
    elsewhere: Sequence[int]
    """Those of them that this page does not show."""


@dataclass(frozen=True, kw_only=True)
class Editor:
    """The context of `levels.html.j2`, the part that an edit changes."""

    action: str
    """Address that takes its form."""
    measure: str
    explained: str
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
    listed: Listed
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
    back: str
    back_to: str


@dataclass(frozen=True, kw_only=True)
class EditedLevels:
    """The key that is edited, as far as it is known."""

    state: State
    name: str
    problem: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, state: State) -> EditedLevels:
        """Take the key that the address names (NotInFolderError if there is none)."""
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


def typed_edges(key: EditedLevels, starts: Sequence[int]) -> str | None:
    """Numbers at which bands begin; empty if no levels are together."""
    order = list(key.known["order"])
    values = [key.levels[code]["value"] for code in order]
    if not order or not all(map(is_number, values)):
        return None
    return ", ".join(values[start] for start in starts) if key.made.groups else ""


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        return float(text) == float(text)
    except ValueError:
        return False


def editor_of(
    key: EditedLevels,
    host: Host,
    question: Question,
    said: str,
    ticks: Sequence[str],
    *,
    part: bool,
) -> Markup:
    """Fill the editor of a key.

    Parameters
    ----------
    key
        The key.
    host
        The page that the editor belongs to.
    question
        What was asked about its groups.
    said
        What was just done.
    ticks
        Levels that are ticked.
    part
        Whether a script asks for the editor alone.
    """
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
    found = say("web.levels.kinds.found", kind=known["kind"] if made.kind == FOUND else "")
    kinds = [(FOUND, found), *((kind, say(f"web.levels.kinds.{kind}")) for kind in KINDS)]
    kinds += [(name, say("web.levels.kinds.tree", name=of)) for name, of in SYSTEMS.items()]
    kinds += [(f"file({file})", say("web.levels.kinds.file", file=file)) for file in host.files]
    if made.kind not in dict(kinds):
        kinds.append((made.kind, say("web.levels.kinds.tree", name=made.kind)))
    steps = state.steps
    fields = state.fields([*steps], edit=key.name, undo=state.given.get("undo", ""))
    sequence = order if order else list(range(len(rows)))
    placed = set(sequence)
    sequence += [code for code in rows if code not in placed]
    shown, listed = _listed(key, rows, sequence, ticks)
    editor = Editor(
        action=state.bench.pages.at(host.path),
        measure=host.measure,
        explained=host.explained,
        problem=problem,
        fields={name: text for name, text in fields.items() if text},
        kind=made.kind,
        kinds=kinds,
        words=known["words"],
        steps=control.labels,
        step_at=control.at if not control.by_hand else -1,
        groups=merged,
        rows=shown,
        listed=listed,
        branches=_tree(key, rows, in_group, counted) if listed.as_tree else [],
        heights=[
            (i, title or say("web.levels.height", n=i))
            for i, title in enumerate(known["heights"], start=1)
        ],
        edges=_edges(key, order, starts) if len(starts) <= MOST_EDGES else [],
        ticks=[key.called(code) for code in order],
        counts=[key.levels[code]["n"] for code in order],
        typed=typed_edges(key, starts),
        n_missing=known["n_missing"],
        can_undo=bool(undone(state.given.get("undo", ""))),
        part=part,
        said=said,
        numbers=host.numbers(state, question, part)[0] if part else Markup(""),
        back=host.back(state),
        back_to=host.back_to,
    )
    return filled(state, "levels.html.j2", editor)


def _listed(
    key: EditedLevels, rows: Mapping[int, Row], sequence: Sequence[int], ticks: Sequence[str]
) -> tuple[list[Row], Listed]:
    """Return the levels of a page; none of a tree that is neither searched nor sorted."""
    given = key.state.given
    find, sort = given.get("find", "").strip(), given.get("sort", "")
    wanted = find.casefold()
    texts = {code: f"{row.title} {row.code} {row.group}".casefold() for code, row in rows.items()}
    found = [code for code in sequence if wanted in texts[code]]
    orders: dict[str, Callable[[int], Any]] = {
        "few": lambda code: key.levels[code]["n"],
        "many": lambda code: -key.levels[code]["n"],
        "risk": lambda code: -key.levels[code]["risk"],
        "name": lambda code: rows[code].title.casefold(),
    }
    if sort in orders:
        found.sort(key=orders[sort])
    n_pages = max(1, -(-len(found) // MOST_LISTED))
    asked = given.get("at", "")
    do, _, to = given.get("do", "").partition(":")
    asked = to if do == "page" else "" if do == "list" else asked
    page = min(max(int(asked), 1), n_pages) if asked.isascii() and asked.isdigit() else 1
    here = found[(page - 1) * MOST_LISTED : page * MOST_LISTED]
    as_tree = bool(key.known["heights"]) and not find and sort not in orders
    ticked = [int(one) for one in ticks if one.isascii() and one.isdigit() and int(one) in rows]
    seen = set(rows) if as_tree else set(here)
    return [] if as_tree else [rows[code] for code in here], Listed(
        find=find,
        sort=sort if sort in orders else "",
        page=page,
        n_pages=1 if as_tree else n_pages,
        n_found=len(found),
        n_levels=len(rows),
        as_tree=as_tree,
        sorts=[(one, say(f"web.levels.sorts.{one or 'file'}")) for one in SORTS],
        ticked=ticked,
        elsewhere=[code for code in ticked if code not in seen],
    )


def _members(key: EditedLevels, group: Group, title: str) -> str:
    """What is in a group: its branch, or its first levels; empty if its name tells them."""
    n, order = len(group.codes), list(key.known["order"])
    if title in key.known["labels"]:
        return f"{key.known['labels'][title]}, {counted(n, 'level')}"
    # Of a band the ends tell all.
    codes = sorted(group.codes, key=order.index) if order else list(group.codes)
    if order and n > 2:
        return to(key.called(codes[0]), key.called(codes[-1]))
    names = ", ".join(key.called(code) for code in codes[:MOST_NAMED])
    found = names + (say("web.levels.and_more", n=n - MOST_NAMED) if n > MOST_NAMED else "")
    return "" if found == title else found


def _few(n: int) -> str:
    return number(n) if n > 2 or not n else say("web.few.short")


def _edges(key: EditedLevels, order: Sequence[int], starts: Sequence[int]) -> list[Edge]:
    if not starts:
        return []
    ends = [0, *starts, len(order)]
    bands = [
        key.called(order[low])
        if high - low == 1
        else to(key.called(order[low]), key.called(order[high - 1]))
        for low, high in pairwise(ends)
    ]
    return [
        Edge(place=start, called=key.called(order[start]), below=bands[i], above=bands[i + 1])
        for i, start in enumerate(starts)
    ]


def _tree(
    key: EditedLevels, rows: Mapping[int, Row], in_group: Mapping[int, int], counted: Any
) -> list[Branch]:
    """The branches at the top of a tree, each with those below it."""
    nodes = key.branches()
    placed = {path: (place, codes) for place, (path, codes) in enumerate(nodes)}
    labels = key.known["labels"]
    children: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in placed:
        children.setdefault(path[:-1], []).append(path)

    def of(path: tuple[str, ...]) -> Branch:
        place, codes = placed[path]
        groups = {in_group.get(code, -1) for code in codes}
        whole = len(groups) == 1 and groups != {-1}
        return Branch(
            title=labels.get(path[-1], path[-1]),
            code=path[-1] if path[-1] in labels else "",
            place=place,
            n_levels=len(codes),
            is_group=whole and len(key.made.groups[next(iter(groups))].codes) == len(codes),
            is_open=not whole and groups != {-1},
            branches=[of(other) for other in children.get(path, ())],
            rows=[
                rows[code]
                for code in codes
                if len(rows) <= MOST_LEAVES and tuple(key.levels[code]["path"]) == path
            ],
            **counted(codes),
        )

    return [of(path) for path in children.get((), ())]


def undone(text: str) -> list[str]:
    """Return the groups that a field holds which can be taken back."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
