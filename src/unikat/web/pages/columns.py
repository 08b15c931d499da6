"""The page of all columns of a file: the role of each, and what is done to its numbers.

What it asks for are the options `columns` and `numeric` of a protection, and the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.language.keys import entries_of, quoted, split_keys
from unikat.report.text.words import say
from unikat.spec.columns import ROLES
from unikat.spec.kinds import PROTECT
from unikat.spec.numeric import AS_IT_IS, METHODS, columns_named
from unikat.web.drafts import Draft, fields_on
from unikat.web.pages.check_page import OF_VALUES
from unikat.web.pages.keys import OTHER_TAB
from unikat.web.workbench import Nav, Tab, Workbench, is_part, workbench_of

if TYPE_CHECKING:
    from unikat.data.profile import ColumnProfile
    from unikat.jobs.column_preview import ColumnsSeen, NumericSeen
    from unikat.spec.protection import ProtectionSpec

ROLE, METHOD, AMOUNT = "role:", "method:", "amount:"
"""Beginnings of the names of fields, before the name of a column; of a method and its amount also
the number of the method."""
TOGETHER = "together"
"""Field of the columns that are changed together, as the option has them."""
KEY = "key"
OPTIONS = ("columns", "numeric")
"""Options that the page asks for."""
DESIGN = ("weights", "inclusion", "household")
"""Options of *Keys and design* that give columns their roles."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A row of the table."""

    profile: ColumnProfile
    role: str
    """The role that the user gives it; empty: none."""
    fixed: str
    """Its role by the design, which is changed there; empty if it has none."""
    proposed: str
    """The role that it has without a word; empty until it is known."""
    reason: str
    action: str
    """What would be done to it."""
    marked: bool
    """Whether it is identifying, or linked with a key."""
    methods: Sequence[tuple[str, str]]
    """What is done to its numbers, each with its amount."""
    seen: NumericSeen | None
    figures: Sequence[tuple[str, str]]
    """What they are before and after."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The context of `roles.html.j2`, the table that a change replaces."""

    path: str
    columns: Sequence[Column]
    roles: Sequence[tuple[str, str]]
    """Roles to choose from."""
    methods: Sequence[tuple[str, str]]
    examples: Sequence[tuple[str, str]]
    """How the amount of each method is written."""
    problem: str
    waiting: bool
    """Whether the reasons are asked for once the page is there."""
    n_changed: int
    """Records of which the pictures were made; 0: all, or none."""
    draft: Draft


@dataclass(frozen=True, kw_only=True)
class ColumnsPage(Roles):
    """The context of `columns.html.j2`."""

    title: str
    nav: Nav
    tab: Tab
    together: str
    """Columns that are changed together."""


def show(request: Request) -> Response:
    """Show all columns; the roles that a protection gives them follow."""
    bench = workbench_of(request)
    return _page(bench, bench.draft(request.query_params.get("path", "")), waiting=True)


def submit(request: Request) -> Response:
    """Take the form: show what follows from it, or go on."""
    bench, form = workbench_of(request), request.state.form
    draft = _posted(bench.draft(form.get("path", "")), form)
    kept = bench.keep_of_tab(draft, "columns", form)
    if is_part(request):
        roles = _roles(bench, draft, waiting=False)
        return bench.page("roles.html.j2", roles if kept else replace(roles, problem=OTHER_TAB))
    if not kept:
        return _page(bench, draft, OTHER_TAB, 409)
    page = _page(bench, draft)
    go_on = form.get("do") != "show" and page.status_code == 200
    return bench.see("/run", path=draft.path, kind=PROTECT.name) if go_on else page


def _posted(draft: Draft, form: Mapping[str, str]) -> Draft:
    """Return the draft with the roles and methods of the form."""
    told = {
        name.removeprefix(ROLE): role
        for name, role in form.items()
        if name.startswith(ROLE) and role
    }
    # A column whose field is not in the form stays what it was.
    asked = {name.removeprefix(ROLE) for name in form if name.startswith(ROLE)}
    keys = [key for key in draft.keys if key not in asked or told.get(key) == KEY]
    keys += [name for name, role in told.items() if role == KEY and name not in keys]
    roles = {name: role for name, role in told.items() if role != KEY}
    entries = [
        f"{quoted(name)}: {','.join(methods)}"
        for name, methods in _methods(form).items()
        if name not in keys
    ]
    entries += filter(None, [form.get(TOGETHER, "").strip()])
    texts = {
        "columns": "; ".join(f"{quoted(name)}: {role}" for name, role in roles.items()),
        "numeric": "; ".join(entries),
    }
    changed = draft.updated(texts, fields_on("columns", PROTECT))
    if tuple(keys) == draft.keys:
        return changed
    return changed.with_keys(keys, draft.groupings, draft.rules)


def _methods(form: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the methods of each column; one without an amount gets the usual one."""
    found: dict[str, list[str]] = {}
    for field, word in form.items():
        if not field.startswith(METHOD) or not word:
            continue
        place, _, name = field.removeprefix(METHOD).partition(":")
        amount = form.get(f"{AMOUNT}{place}:{name}", "").strip()
        if word != AS_IT_IS:
            usual = METHODS.get(word, "()").partition("(")[2].partition(")")[0]
            word = f"{word}({amount or usual})"
        found.setdefault(name, []).append(word)
    return found


def _page(
    bench: Workbench, draft: Draft, problem: str = "", status: int = 200, *, waiting: bool = False
) -> Response:
    roles = _roles(bench, draft, waiting=waiting)
    if roles.problem and not problem:
        problem, status = roles.problem, 422
    alone = dict(_numeric(roles))
    values = {name: getattr(roles, name) for name in Roles.__dataclass_fields__}
    page = ColumnsPage(
        **values | {"problem": problem},
        title=say("web.columns.title", name=draft.path.rpartition("/")[2]),
        nav=Nav(here="columns", path=draft.path),
        tab=bench.opened(draft.path, "columns"),
        together="; ".join(
            f"{name}: {methods}" for name, methods in _entries(draft) if name not in alone
        ),
    )
    return bench.page("columns.html.j2", page, status)


def _entries(draft: Draft) -> list[tuple[str, str]]:
    """What is done to numbers: columns and methods, as the option has them."""
    return [one for one in entries_of(draft.values.get("numeric", ""), last=True) if all(one)]


def _numeric(roles: Roles) -> list[tuple[str, Sequence[tuple[str, str]]]]:
    return [(one.profile.name, one.methods) for one in roles.columns if one.methods]


def _roles(bench: Workbench, draft: Draft, *, waiting: bool) -> Roles:
    from unikat.report.text.columns import reason_words

    problem = ""
    profiles: Sequence[ColumnProfile] = ()
    seen: ColumnsSeen | None = None
    try:
        profiles = bench.profile(draft).columns
        waiting = waiting and bool(draft.keys)
        if draft.keys and not waiting:
            seen = bench.columns_seen(draft, _spec(bench, draft))
    except UnikatError as error:
        problem = str(error)
        # What is wrong with a method or a role says nothing against the other proposals.
        asked = {name: text for name, text in draft.values.items() if name not in OPTIONS}
        with suppress(UnikatError):
            if draft.keys:
                plain = replace(draft, values=asked)
                seen = bench.columns_seen(plain, _spec(bench, plain))
    names = [one.name for one in profiles]
    told = dict(entries_of(draft.values.get("columns", ""), last=True))
    design = {
        name: option
        for option in DESIGN
        for name in split_keys(draft.values.get(option, ""))
        if name in names
    }
    methods = {
        one: [_method(text) for text in split_keys(texts)]
        for name, texts in _entries(draft)
        for one in [columns_named(name, names)[0]]
        if len(columns_named(name, names)) == 1
    }
    facts = {} if seen is None else {one.name: one for one in seen.columns}
    changes = {} if seen is None else {one.facts.name: one for one in seen.numeric}
    columns = []
    for profile in profiles:
        name = profile.name
        one = facts.get(name)
        change = changes.get(name)
        # That numbers are to be changed says by itself that they are to be in the file.
        silent = ("plain", "told") if change else ("plain",)
        columns.append(
            Column(
                profile=profile,
                role=KEY if name in draft.keys else told.get(name, ""),
                fixed=design.get(name, ""),
                proposed="" if one is None else say(f"columns.role.{one.role}"),
                reason="" if one is None or one.reason in silent else reason_words(one),
                action="" if one is None else say(f"columns.action.{one.action}"),
                marked=one is not None and one.role in ("identifier", "linked"),
                methods=methods.get(name, ()),
                seen=change,
                figures=() if change is None else _figures(change),
            )
        )
    whole = seen is None or not seen.numeric or seen.n_changed >= bench.profile(draft).n_records
    return Roles(
        path=draft.path,
        columns=columns,
        roles=[
            *((role, _called(role)) for role in ROLES),
            *((f"linked({key})", say("web.roles.of.linked_with", key=key)) for key in draft.keys),
        ],
        methods=[(name, say(f"web.roles.by.{name}")) for name in (*METHODS, AS_IT_IS)],
        examples=[(say(f"web.roles.by.{name}"), example) for name, example in METHODS.items()],
        problem=problem,
        waiting=waiting,
        n_changed=0 if whole or seen is None else seen.n_changed,
        draft=draft,
    )


def _called(role: str) -> str:
    own = role in (KEY, "linked")
    return say(f"web.roles.of.{role}" if own else f"columns.role.{role}")


def _method(text: str) -> tuple[str, str]:
    """Split a method into its word and its amount.

    Examples
    --------
    >>> _method("round(100, random)"), _method("as it is")
    (('round', '100, random'), ('as it is', ''))
    """
    word, _, rest = text.strip().partition("(")
    return word.strip(), rest.removesuffix(")")


def _figures(change: NumericSeen) -> list[tuple[str, str]]:
    from unikat.report.text.numbers import number, percent

    one, kept = change.facts, change.facts.kept
    spread = [number(value**0.5) for value in (kept.variance.before, kept.variance.after)]
    return [
        (say("web.roles.mean"), f"{number(kept.mean.before)} → {number(kept.mean.after)}"),
        (say("web.roles.deviation"), " → ".join(spread)),
        (say("web.roles.n_changed"), percent(one.n_changed / max(one.n_values, 1))),
        (say("web.roles.near"), percent(one.near_share)),
    ]


def _spec(bench: Workbench, draft: Draft) -> ProtectionSpec:
    """Specification of the columns alone: nothing has to be reached."""
    names = {*fields_on("file"), *OF_VALUES, *DESIGN, *fields_on("columns", PROTECT)}
    values = {name: text for name, text in draft.values.items() if name in names}
    part = replace(draft, kind=PROTECT, values={**values, "target": "k >= 1"}, of_keys={}, rules="")
    return cast("ProtectionSpec", part.asked(bench.source(draft), bench.folder.root))
