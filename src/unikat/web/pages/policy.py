"""The page that makes a policy: a template that answers fill in, written into the folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import OutputError, SpecError, UnikatError, why
from unikat.language.keys import entries_of
from unikat.report.text.words import say
from unikat.spec.addresses import is_address
from unikat.spec.kinds import CHECK
from unikat.spec.policy import Answers, template, templates
from unikat.web.drafts import Draft
from unikat.web.workbench import Nav, Workbench, is_part, status_of, workbench_of

Recipients = Literal["public", "researchers", "room"]
KEY, SENSITIVE, NEVER = "key:", "sensitive:", "never:"
"""Beginnings of the names of fields, before the name of a column."""


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The context of `policy-text.html.j2`: the policy of the answers."""

    text: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class PolicyPage(Preview):
    """The context of `policy.html.j2`."""

    title: str
    nav: Nav
    path: str
    recipients: Sequence[tuple[str, str]]
    templates: Sequence[tuple[str, str]]
    """Names, with what each is for; the first is none."""
    columns: Sequence[str]
    given: Mapping[str, str]
    """The fields."""
    out: str
    """Path of the file, from the folder of the workbench."""


def show(request: Request) -> Response:
    """Show the questions, answered as far as the draft tells."""
    bench = workbench_of(request)
    draft = bench.draft(request.query_params.get("path", ""))
    roles = dict(entries_of(draft.values.get("columns", ""), last=True))
    given = {f"{KEY}{key}": "on" for key in draft.keys}
    given |= {f"{SENSITIVE}{name}": "on" for name, role in roles.items() if role == "sensitive"}
    given |= {f"{NEVER}{name}": "on" for name, role in roles.items() if role == "identifier"}
    return _page(bench, draft, given | {"recipients": "researchers", "contract": "yes"})


def submit(request: Request) -> Response:
    """Write the policy and go on to the check, or show what it would be."""
    bench, form = workbench_of(request), request.state.form
    draft = bench.draft(form.get("path", ""))
    if is_part(request):
        text, problem = _made(form)
        return bench.page("policy-text.html.j2", Preview(text=text, problem=problem))
    if form.get("do") == "show":
        return _page(bench, draft, form)
    try:
        path = _write(bench, form.get("out", "").strip(), _text(form))
    except UnikatError as error:
        return _page(bench, draft, form, str(error), status_of(error))
    bench.keep(replace(draft, values={**draft.values, "policy": path}))
    return bench.see("/run", path=draft.path, kind=CHECK.name)


def _text(form: Mapping[str, str]) -> str:
    """Write the policy of a form.

    Raises
    ------
    SpecError
        If the answers contradict each other.
    """
    if form.get("template"):
        return template(form["template"])
    recipients = form.get("recipients", "")
    if recipients not in get_args(Recipients):
        raise SpecError("Say who gets the file.")

    def ticked(start: str) -> tuple[str, ...]:
        return tuple(name.removeprefix(start) for name in form if name.startswith(start))

    return Answers(
        recipients=cast("Recipients", recipients),
        # The public signs nothing.
        contract=bool(form.get("contract")) and recipients != "public",
        repeated=bool(form.get("repeated")),
        keys=ticked(KEY),
        sensitive=ticked(SENSITIVE),
        never=ticked(NEVER),
    ).policy()


def _made(form: Mapping[str, str]) -> tuple[str, str]:
    try:
        return _text(form), ""
    except UnikatError as error:
        return "", str(error)


def _write(bench: Workbench, name: str, text: str) -> str:
    """Write a new file into the folder; return its path from there.

    Raises
    ------
    OutputError, NotInFolderError
        If there is one, or it cannot be written.
    """
    from unikat.files.writing import create

    if not re.fullmatch(r"[^/\\].*\.toml", name):
        raise SpecError("The name of the file of a policy ends in .toml.")
    place = bench.folder.place(name)
    try:
        with create(place) as file:
            file.write(text.encode())
    except FileExistsError:
        raise OutputError(
            f"{place.name} is there already; choose another name, or name it under Check."
        ) from None
    except OSError as error:
        raise OutputError(f"{place.name} cannot be written ({why(error)}).") from None
    return bench.folder.relative(place)


def _page(
    bench: Workbench,
    draft: Draft,
    given: Mapping[str, str],
    problem: str = "",
    status: int = 200,
) -> Response:
    columns: Sequence[str] = ()
    try:
        columns = [one.name for one in bench.profile(draft).columns]
    except UnikatError as error:
        problem, status = str(error), status_of(error)
    text, wrong = _made(given)
    folder = PurePosixPath() if is_address(draft.path) else PurePosixPath(draft.path).parent
    free = next(
        str(folder / f"policy{n}.toml")
        for n in ("", *(f"-{i}" for i in range(2, 10_000)))
        if not bench.folder.place(str(folder / f"policy{n}.toml")).exists()
    )
    page = PolicyPage(
        title=say("web.policy.title"),
        nav=Nav(here="run", path=draft.path),
        path=draft.path,
        recipients=[(one, say(f"web.policy.to.{one}")) for one in get_args(Recipients)],
        templates=[("", say("web.policy.of_answers")), *templates().items()],
        columns=columns,
        given=given,
        out=given.get("out") or free,
        text=text,
        problem=problem or wrong,
    )
    return bench.page("policy.html.j2", page, status)
