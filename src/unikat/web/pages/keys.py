"""The page on which keys, grouping rules, design and impossible combinations are said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.language.keys import quoted, split_keys
from unikat.report.text.words import say
from unikat.spec.missing import split_codes
from unikat.spec.models import HOUSEHOLDS
from unikat.web.drafts import Draft, fields_on
from unikat.web.pages import check_page
from unikat.web.pages.check_page import Checked, Counts, Expected, Grouped, Population, Suggested
from unikat.web.workbench import Nav, Tab, Workbench, is_part, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.data.profile import ColumnProfile

KEY, GROUPING, MISSING, MARGIN, DATES = "key:", "grouping:", "missing:", "margin:", "dates:"
"""Beginnings of the names of fields, before the name of a column or file."""
CODEBOOKS = (".json", ".toml")
OTHER_TAB = (
    "This form was changed in another tab after you opened it here, so what you wrote here was "
    "not kept. To keep it, press the button again; what the other tab wrote is then replaced. To "
    "see what the other tab wrote, open this page again."
)


@dataclass(frozen=True, kw_only=True)
class OtherTab:
    """The context of `other_tab.html.j2`: another tab has changed the form."""

    path: str


@dataclass(frozen=True, kw_only=True)
class KeysPage:
    """The context of `keys.html.j2`."""

    title: str
    nav: Nav
    path: str
    tab: Tab
    columns: Sequence[ColumnProfile]
    draft: Draft
    missing_codes: tuple[str, Mapping[str, str]]
    """Of all keys, and by key."""
    households: Sequence[str]
    """Columns that together tell households apart."""
    files: Sequence[str]
    """Files of data in the folder of the workbench."""
    codebooks: Sequence[str]
    """Files that may be codebooks."""
    problem: str
    """What is wrong with the form; empty if nothing is known to be."""
    forms: Mapping[str, Sequence[str]]
    """Forms to choose from, of columns whose texts or numbers may be dates."""
    grouped: Mapping[str, Grouped]
    """Groups of keys by column, of those that were asked for."""
    counts: Counts | None
    """What the file tells of the keys; None unless it was asked for."""
    population: Population | None
    """What the design tells; None unless it was asked for."""
    checked: Checked | None
    """What a check of the rules has found; None unless it was asked for."""
    suggested: Suggested | None
    """Combinations that never occur; None unless they were asked for."""


def show(request: Request) -> Response:
    """Show the form as its draft has it."""
    bench = workbench_of(request)
    return _page(bench, bench.draft(request.query_params.get("path", "")))


def submit(request: Request) -> Response:
    """Take the form: go on to the run if file and form agree, else say what is wrong."""
    bench, draft = workbench_of(request), _posted(request)
    if request.state.refused:
        return _page(bench, draft, OTHER_TAB, 409)
    try:
        notes = check_page.understood(bench, draft)
    except UnikatError as error:
        return _page(bench, draft, str(error), status_of(error))
    bench.keep(replace(draft, notes=notes))
    return bench.see("/run", path=draft.path)


def keep(request: Request) -> Response:
    """Keep what the form holds while it is filled in, for who leaves the page and comes back."""
    draft = _posted(request)
    if request.state.refused:
        return workbench_of(request).page("other_tab.html.j2", OtherTab(path=draft.path))
    return Response(status_code=204)


def groups(request: Request) -> Response:
    """Show the groups of one column, or those of all keys that have a rule."""
    bench, draft = workbench_of(request), _posted(request)
    column = request.state.form.get("column", "")
    if is_part(request):
        return bench.page("grouped.html.j2", check_page.grouped(bench, draft, column))
    found = {name: check_page.grouped(bench, draft, name) for name in draft.groupings}
    return _page(bench, draft, grouped=found)


def missing(request: Request) -> Response:
    """Tell how many values of a column are missing, with the codes that the form names."""
    bench, draft = workbench_of(request), _posted(request)
    column = request.state.form.get("column", "")
    return bench.page("missing.html.j2", check_page.missing(bench, draft, column))


def counts(request: Request) -> Response:
    """Count the combinations of the keys that are ticked."""
    bench, draft = workbench_of(request), _posted(request)
    found = check_page.counts(bench, draft)
    if is_part(request):
        return bench.page("counts.html.j2", found)
    return _page(bench, draft, counts=found)


def time(request: Request) -> Response:
    """Tell how long the run would take, of which the other forms say the rest."""
    bench, draft = workbench_of(request), _posted(request)
    if not draft.keys:
        return Response("", media_type="text/html")
    told = any(draft.values.get(name) for name in check_page.TELL_SIZE)
    if draft.kind.sized and not told:
        return bench.page(
            "expected.html.j2", Expected(lines=(), why=say("web.expected.size_needed"))
        )
    return bench.page("expected.html.j2", check_page.expected(bench, draft))


def population(request: Request) -> Response:
    """Add up what the columns of the design tell of the population."""
    bench, draft = workbench_of(request), _posted(request)
    found = check_page.population(bench, draft)
    if is_part(request):
        return bench.page("population.html.j2", found)
    return _page(bench, draft, population=found)


def check(request: Request) -> Response:
    """Hold the rules against the file."""
    bench, draft = workbench_of(request), _posted(request)
    checked, status = check_page.checked(bench, draft)
    if is_part(request):
        # A script puts it into the page whatever the status is.
        return bench.page("checked.html.j2", checked)
    return _page(bench, draft, status=status, checked=checked)


def suggest(request: Request) -> Response:
    """Look for combinations that never occur; a rule that is to be added comes with the form."""
    bench, draft = workbench_of(request), _posted(request)
    added = request.state.form.get("add", "").strip()
    if added and added not in draft.rule_texts:
        draft = replace(draft, rules="\n".join([*draft.rule_texts, added]))
        if not request.state.refused:
            bench.keep(draft)
    suggested, status = check_page.suggested(bench, draft)
    if is_part(request):
        return bench.page("suggested.html.j2", suggested)
    return _page(bench, draft, status=status, suggested=suggested)


def _posted(request: Request) -> Draft:
    """Return the form as a draft, which is kept."""
    bench, form = workbench_of(request), dict(request.state.form)
    draft = bench.draft(form.get("path", ""))
    listed = {
        start: {name.removeprefix(start): form[name] for name in form if name.startswith(start)}
        for start in (KEY, GROUPING, MISSING, MARGIN, DATES)
    }
    codes = [
        f"{quoted(name)}: {text.strip()}" for name, text in listed[MISSING].items() if text.strip()
    ]
    form["missing_values"] = "; ".join(filter(None, [form.get("missing_values", ""), *codes]))
    form["margins"] = "\n".join(listed[MARGIN])
    parts = [form.get(f"household:{i}", "").strip() for i in (1, 2)]
    form["household"] = ",".join(map(quoted, filter(None, parts)))
    draft = draft.updated(form, fields_on("keys")).with_keys(
        tuple(listed[KEY]), listed[GROUPING], form.get("rules", "")
    )
    draft = draft.with_dates(listed[DATES])
    values = dict(draft.values)
    if form.get("unit") == HOUSEHOLDS:
        values["model"] = HOUSEHOLDS
    elif values.get("model") == HOUSEHOLDS:
        del values["model"]
    draft = replace(draft, values=values)
    request.state.refused = not bench.keep_of_tab(draft, "keys", form)
    return draft


def _page(
    bench: Workbench,
    draft: Draft,
    problem: str = "",
    status: int = 200,
    *,
    grouped: Mapping[str, Grouped] | None = None,
    counts: Counts | None = None,
    population: Population | None = None,
    checked: Checked | None = None,
    suggested: Suggested | None = None,
) -> Response:
    columns: Sequence[ColumnProfile] = ()
    try:
        columns = bench.profile(draft).columns
    except UnikatError as error:
        problem, status = str(error), status_of(error)
    page = KeysPage(
        title=say("web.keys.title", name=draft.path.rpartition("/")[2]),
        nav=Nav(here="keys", path=draft.path),
        path=draft.path,
        tab=bench.opened(draft.path, "keys"),
        columns=columns,
        draft=draft,
        missing_codes=split_codes(draft.values.get("missing_values", "")),
        households=split_keys(draft.values.get("household", "")),
        files=[path for path in bench.folder.files() if path != draft.path],
        codebooks=bench.folder.files(CODEBOOKS),
        problem=problem,
        forms={one.name: check_page.form_texts(one.forms) for one in columns if one.forms},
        grouped=grouped or {},
        counts=counts,
        population=population,
        checked=checked,
        suggested=suggested,
    )
    return bench.page("keys.html.j2", page, status)
