"""The page that starts a run of any kind: its account in plain words, options, command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.report.text.words import say, table
from unikat.spec.addresses import database_name, is_address
from unikat.spec.kinds import KINDS, Kind
from unikat.spec.models import AUTO, EXAMPLE, models_with
from unikat.web.drafts import RULES, Draft, fields_on
from unikat.web.fields import (
    Field,
    Offered,
    asks_for_column,
    asks_for_run,
    fields_of,
    models_of,
    several,
)
from unikat.web.folder import NotInFolderError
from unikat.web.kinds import check_models
from unikat.web.pages.check_page import Checked, checked, expected
from unikat.web.sources import RunSource
from unikat.web.workbench import (
    Nav,
    Tab,
    Workbench,
    is_part,
    status_of,
    workbench_of,
)

TARGETS = ("tau1", "tau1_estimate", "tau2", "tau2_estimate", "r1", "k", "population_k")
"""Measures of a target that need one number."""
MEASURE, LIMIT = "target:measure", "target:limit"
"""Fields of which a target is made."""
CHANGED = (
    "Keys or design were changed in another tab after you opened this page. The command below has "
    "them as they are now. If they are what you want, press Start again."
)
OTHER_TAB = (
    "Another tab has changed this form since you opened it here. What you write here is not kept, "
    "but it is what Start begins."
)
PATH = "option:path"
"""Field of the option `path` of a comparison."""
MODEL = "models:"
"""Beginning of the name of the field of a model, before its name."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """The context of `command.html.j2`: the command line that does the same as the form."""

    command: str
    rules_file: str
    """Content of the file of rules that it reads; empty without rules."""
    rules_name: str
    """Name of that file."""
    wrong: str
    """Why the command would be refused; empty if nothing is known against it."""


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """The context of `foreseen.html.j2`: what the run would do, and how long it would take."""

    lines: Sequence[str]
    """As a dry run prints them."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class StartPage(Command):
    """The context of `start.html.j2`."""

    title: str
    nav: Nav
    path: str
    tab: Tab
    kinds: Sequence[Kind]
    """What can be done with the file."""
    draft: Draft
    models: Sequence[tuple[str, str]]
    """The one that is taken without a word first."""
    example: str
    """Of a model with an option."""
    ticked: Sequence[str]
    """Of these, those that are compared or evaluated."""
    others: str
    """Models with options, which no box has."""
    targets: Sequence[tuple[str, str]]
    target: Mapping[str, str]
    """The fields of the target."""
    intro: Sequence[str]
    """What such a run does."""
    fields: Sequence[Field]
    """Fields that are made of options."""
    further: Sequence[Field]
    """Those that few runs need."""
    common: Sequence[Field]
    """Those for statisticians, of all kinds of runs."""
    out: str
    """Folder of the results, from that of the workbench."""
    foreseen: Foreseen | None
    """None unless it was asked for."""
    checked: Checked | None
    """What a check of the rules has found; None unless it was asked for."""
    problem: str


def show(request: Request) -> Response:
    """Show the form as its draft has it; for another kind of run, if one is named."""
    bench, query = workbench_of(request), request.query_params
    draft = bench.draft(query.get("path", ""))
    if query.get("kind"):
        kind = _kind(query["kind"])
        if (kind.name == "evaluate") != (draft.kind.name == "evaluate"):
            # A file is not the same as a sample and as a population.
            draft = replace(draft, notes=())
        draft = replace(draft, kind=kind)
        if draft.values.get("model", "").partition(":")[0] not in (*models_of(kind), ""):
            # Records cannot be drawn from it.
            kept = {name: text for name, text in draft.values.items() if name != "model"}
            draft = replace(draft, values=kept)
        if kind.name == "evaluate" and not draft.values.get("models"):
            draft = replace(draft, values={**draft.values, "models": AUTO})
        bench.keep(draft)
    return _page(bench, draft, bench.runs.free_name(_stem(draft.path), draft.kind))


def submit(request: Request) -> Response:
    """Queue the run, or say what is wrong."""
    bench, form = workbench_of(request), request.state.form
    draft = bench.draft(form.get("path", ""))
    draft = replace(draft, kind=_kind(form.get("kind", draft.kind.name)))
    draft = draft.updated(_whole(form, draft.kind), fields_on("run", draft.kind))
    if draft.kind.name == "protect":
        draft = draft.with_key_options(form)
    out = form.get("out", "").strip()
    is_asked = form.get("action") in ("command", "foresee", "time", "check")
    if not is_asked and form.get("asked_before", draft.asked_before) != draft.asked_before:
        return _page(bench, draft, out, CHANGED, 409)
    # What is started is what the page shows, whatever another tab has.
    mine = {} if is_asked else {"mine": "yes"}
    kept = bench.keep_of_tab(draft, "run", {**form, **mine})
    if form.get("action") == "time":
        return bench.page("expected.html.j2", expected(bench, draft))
    if form.get("action") == "check":
        found, status = checked(bench, draft)
        if is_part(request):
            return bench.page("checked.html.j2", found)
        return _page(bench, draft, out, status=status, found=found)
    try:
        spec = draft.asked(bench.source(draft), bench.folder.root)
        if form.get("action") == "foresee":
            foreseen = Foreseen(lines=bench.foreseen(draft.kind, spec), problem="")
            if is_part(request):
                return bench.page("foreseen.html.j2", foreseen)
            return _page(bench, draft, out, foreseen=foreseen)
        if is_asked and is_part(request):
            wrong = "" if kept else OTHER_TAB
            return bench.page("command.html.j2", Command(wrong=wrong, **_command(draft, out)))
        if is_asked:
            return _page(bench, draft, out)
        check_models(spec)
        id = bench.runs.start(spec, out)
        # Its user chose the table, and need not confirm it to continue the run.
        bench.sources.confirm(RunSource.of_spec(spec))
    except UnikatError as error:
        if form.get("action") == "foresee" and is_part(request):
            return bench.page("foreseen.html.j2", Foreseen(lines=(), problem=str(error)))
        if is_asked and is_part(request):
            refused = Command(wrong=str(error), **_command(draft, out))
            return bench.page("command.html.j2", refused)
        return _page(bench, draft, out, str(error), status_of(error))
    return bench.see(f"/runs/{id}")


def _kind(name: str) -> Kind:
    kind = KINDS.get(name)
    if kind is None:
        raise NotInFolderError("The workbench has no form for runs of this kind.")
    return kind


def _whole(form: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Return the fields with those of the models, and of the target, made into one text each."""
    found = dict(form)
    if kind.name in ("compare", "evaluate"):
        boxes = [name for name in models_with() if form.get(MODEL + name)]
        found["models"] = ",".join([*boxes, *filter(None, [form.get("models", "").strip()])])
    if kind.name == "evaluate" and not (found["models"] or found.get("synthesizers", "").strip()):
        # What is evaluated without a word is what an assessment does without a word.
        found["models"] = AUTO
    for name in several(kind):
        start = f"{name}:"
        found[name] = "\n".join(one.removeprefix(start) for one in form if one.startswith(start))
    # Of the form `path` is the file.
    found["path"] = form.get(PATH, "")
    measure = form.get(MEASURE, "")
    if measure and not form.get("target", "").strip():
        sign = ">=" if measure in ("k", "population_k") else "<="
        found["target"] = f"{measure} {sign} {form.get(LIMIT, '').strip()}"
    return found


def _target(text: str) -> dict[str, str]:
    """Return the fields of a target: measure and number, or the text as it is."""
    from unikat.spec.limits import Limit

    try:
        target = Limit.of(text)
    except ValueError:
        return {"target": text}
    if target.measure not in TARGETS:
        return {"target": text}
    return {MEASURE: target.measure, LIMIT: f"{target.bound:.15g}"}


def _command(draft: Draft, out: str) -> dict[str, str]:
    return {
        "command": draft.command(out),
        "rules_file": draft.rules_file,
        "rules_name": RULES,
    }


def _columns(bench: Workbench, draft: Draft) -> Sequence[str]:
    try:
        return [one.name for one in bench.profile(draft).columns]
    except UnikatError:
        # The page of the file says why it cannot be read.
        return ()


def _stem(path: str) -> str:
    if is_address(path):
        return "".join(c if c.isalnum() else "-" for c in database_name(path))
    return PurePosixPath(path).name.split(".")[0].strip("*") or "data"


def _page(
    bench: Workbench,
    draft: Draft,
    out: str,
    problem: str = "",
    status: int = 200,
    *,
    foreseen: Foreseen | None = None,
    found: Checked | None = None,
) -> Response:
    from unikat.language.keys import split_keys

    names = list(models_with())
    offered = Offered(
        folder=bench.folder,
        # They take time to find, and few kinds of runs ask for them.
        columns=_columns(bench, draft) if asks_for_column(draft.kind) else (),
        runs=bench.runs.all() if asks_for_run(draft.kind) else (),
        values=draft.values,
    )
    own, common = fields_of(draft.kind, offered)
    asked = split_keys(draft.values.get("models", ""))
    page = StartPage(
        title=say(f"web.verbs.{draft.kind.name}", name=PurePosixPath(draft.path).name),
        nav=Nav(here="run", path=draft.path),
        path=draft.path,
        tab=bench.opened(draft.path, "run"),
        kinds=list(KINDS.values()),
        draft=draft,
        models=[
            (name, say("web.start.auto", name=name) if name == AUTO else name) for name in names
        ],
        example=EXAMPLE,
        ticked=[name for name in asked if name in names],
        others=",".join(name for name in asked if name not in names),
        targets=[(one, say(f"web.targets.{one}")) for one in TARGETS],
        target=_target(draft.values.get("target", "")),
        intro=[say(code) for code in table(f"web.intro.{draft.kind.name}")],
        fields=[one for one in own if one.first],
        further=[one for one in own if not one.first],
        common=common,
        out=out,
        foreseen=foreseen,
        checked=found,
        problem=problem,
        wrong="",
        **_command(draft, out),
    )
    return bench.page("start.html.j2", page, status)
