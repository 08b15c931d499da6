"""The page that starts a run of any kind: its account in plain words, options, command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.spec.kinds import KINDS, Kind
from unikat.spec.models import AUTO, EXAMPLE, USUAL, models_with
from unikat.spec.option import Defined
from unikat.web.drafts import RULES, Draft, fields_on
from unikat.web.folder import NotInFolderError
from unikat.web.kinds import check_models
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

MODELS = [
    (name, f"{name}: several are fitted, the best gives the answer (recommended)")
    if name == AUTO
    else (name, name)
    for name in models_with()
]
"""Names of the models of persons, with what the list shows."""


VERBS = {
    "assess": "Assess",
    "compare": "Compare models on",
    "evaluate": "Evaluate models on samples from",
    "protect": "Protect",
}
"""What the title of the page says of each kind of run."""
TARGETS = (
    ("tau1", "Population uniques (τ1) at most: upper end of the interval"),
    ("tau1_estimate", "Population uniques (τ1) at most: estimate"),
    ("tau2", "Correct matches (τ2) at most: upper end of the interval"),
    ("tau2_estimate", "Correct matches (τ2) at most: estimate"),
    ("r1", "Risk of the record most at risk (r1) at most, from 0 to 1"),
    ("k", "Records of the file with the same keys at least (k-anonymity)"),
    ("population_k", "People in the population with the same keys at least"),
)
"""Measures of a target that need one number, with what the list shows."""
MEASURE, LIMIT = "target:measure", "target:limit"
"""Fields of which a target is made."""
PATH = "option:path"
"""Field of the option `path` of a comparison."""
MODEL = "models:"
"""Beginning of the name of the field of a model, before its name."""


@dataclass(frozen=True, kw_only=True)
class StartPage:
    """The context of `start.html.j2`."""

    title: str
    nav: Nav
    path: str
    kinds: Sequence[Kind]
    """What can be done with the file."""
    draft: Draft
    models: Sequence[tuple[str, str]]
    """The one that is taken without a word first."""
    usual: str
    """Model of an evaluation that names none."""
    example: str
    """Of a model with an option."""
    ticked: Sequence[str]
    """Of these, those that are compared or evaluated."""
    others: str
    """Models with options, which no box has."""
    targets: Sequence[tuple[str, str]]
    target: Mapping[str, str]
    """The fields of the target."""
    listed: Sequence[Defined]
    """Options that the page lists by their labels."""
    out: str
    """Folder of the results, from that of the workbench."""
    command: str
    """The command line that does the same."""
    rules_name: str
    """Name of the file of rules that it reads."""
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
    bench.keep(draft)
    out = form.get("out", "").strip()
    try:
        spec = draft.asked(bench.folder.resolve(draft.path), bench.folder.root)
        if form.get("action") == "command":
            return _page(bench, draft, out)
        check_models(spec)
        id = bench.runs.start(spec, out)
    except UnikatError as error:
        return _page(bench, draft, out, str(error), status_of(error))
    return bench.see(f"/runs/{id}")


def _kind(name: str) -> Kind:
    kind = KINDS.get(name)
    if kind is None or not kind.form:
        raise NotInFolderError("The workbench has no form for runs of this kind.")
    return kind


def _whole(form: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Return the fields with those of the models, and of the target, made into one text each."""
    found = dict(form)
    if kind.name in ("compare", "evaluate"):
        boxes = [name for name, _ in MODELS if form.get(MODEL + name)]
        found["models"] = ",".join([*boxes, *filter(None, [form.get("models", "").strip()])])
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
    if target.measure not in dict(TARGETS):
        return {"target": text}
    return {MEASURE: target.measure, LIMIT: f"{target.bound:.15g}"}


def _stem(path: str) -> str:
    return PurePosixPath(path).name.split(".")[0].strip("*") or "data"


def _page(
    bench: Workbench, draft: Draft, out: str, problem: str = "", status: int = 200
) -> Response:
    from unikat.language.keys import split_keys

    names = [name for name, _ in MODELS]
    asked = split_keys(draft.values.get("models", ""))
    page = StartPage(
        title=f"{VERBS[draft.kind.name]} {PurePosixPath(draft.path).name}",
        nav=Nav(here="run", path=draft.path),
        path=draft.path,
        kinds=[kind for kind in KINDS.values() if kind.form],
        draft=draft,
        models=MODELS,
        usual=USUAL,
        example=EXAMPLE,
        ticked=[name for name in asked if name in names],
        others=",".join(name for name in asked if name not in names),
        targets=TARGETS,
        target=_target(draft.values.get("target", "")),
        listed=[one for one in fields_on("run", draft.kind).values() if one.option.label],
        out=out,
        command=draft.command(out),
        rules_name=RULES,
        problem=problem,
    )
    return bench.page("start.html.j2", page, status)
