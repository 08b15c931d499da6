"""What the page of keys tells while it is filled in; each part is a template of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

from unikat.errors import UnikatError
from unikat.report.text.words import say
from unikat.spec.models import HOUSEHOLDS, SIMPLEST
from unikat.web.drafts import Draft, fields_on
from unikat.web.pages.pictures import few
from unikat.web.workbench import Workbench, status_of

if TYPE_CHECKING:
    from unikat.jobs.form_preview import DatesRead, Groups, KeyCounts, Told
    from unikat.jobs.levels import EditedKey
    from unikat.language.dates import DateForm
    from unikat.spec.assessment import AssessmentSpec
    from unikat.zeros import Suggestion

OF_VALUES = ("missing_values", "codebook")
"""Options that say what the values of a key are, besides how the file is read."""
OF_SIZE = ("weights", "inclusion", "strata", "stratum_sizes", "relative_weights")
"""Options that tell the size of the population, likewise."""
OF_READING = (*OF_VALUES, "missing", "zeros_conflict")
TELL_SIZE = (*OF_SIZE, "population_size", "population_households", "margins", "registry")
MOST_SUGGESTED = 30


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """The context of `grouped.html.j2`: the groups of one key."""

    column: str
    groups: Groups | None
    """None without a rule, and where it cannot be used."""
    said: str
    """Them in words."""
    problem: str
    dates: Sequence[DatesRead] = ()
    """What the forms read that the column may have, if its texts may be dates."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """The context of `missing.html.j2`: the missing values of one key."""

    n_missing: int | None
    """None if they cannot be counted."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The context of `counts.html.j2`: what the file tells of the keys together."""

    found: KeyCounts | None
    """None without keys, and if they cannot be counted."""
    n_keys: int
    problem: str


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The context of `expected.html.j2`: how long the run would take, while a form is filled in."""

    lines: Sequence[str]
    """Empty if it is not known."""
    why: str
    """Why it is not known; empty if another part says it."""
    problem: str = ""
    """What the run would be refused for."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """The context of `population.html.j2`: the size that weights or strata tell."""

    told: Told | None
    """None if they are not named, or cannot be used."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The context of `checked.html.j2`: impossible combinations held against the file."""

    lines: Sequence[str]
    """The table that `unikat zeros check` prints; empty if there are no rules."""
    n_broken: int
    """Records, or households, that break a rule."""
    unit: str
    """`record` or `household`."""
    problem: str


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """The context of `suggested.html.j2`: combinations that never occur."""

    suggestions: Sequence[Suggestion]
    said: str
    """What no sample can tell of them."""
    action: str
    """Where a rule is sent to be added."""
    problem: str


def grouped(bench: Workbench, draft: Draft, column: str) -> Grouped:
    """Group one column by its rule."""
    from unikat.jobs.form_preview import groups

    if not draft.groupings.get(column):
        return Grouped(column=column, groups=None, said="", problem="")
    dates: Sequence[DatesRead] = ()
    try:
        dates = _dates_read(bench, draft, column)
        # What else the form holds may still be wrong.
        spec = _spec(bench, _part(draft, OF_VALUES, keys=(column,)))
        held = bench.columns(draft, [column])
        found = groups(spec.data, spec.keys[0], column, held)
    except UnikatError as error:
        return Grouped(column=column, groups=None, said="", problem=str(error), dates=dates)
    low, high = few(min(found.counts)), few(max(found.counts))
    code = "groups" if len(found.counts) > 1 else "one_group"
    said = say(f"web.grouped.{code}", n=len(found.counts), low=low, high=high)
    if found.n_missing:
        said += say("web.grouped.missing", n=found.n_missing)
    return Grouped(column=column, groups=found, said=f"{said}.", problem="", dates=dates)


def form_texts(forms: Sequence[DateForm]) -> list[str]:
    """Write forms to choose from; years of two digits end with this year."""
    last = date.today().year
    return [str(one._replace(last=last) if one.has_short_year else one) for one in forms]


def _dates_read(bench: Workbench, draft: Draft, column: str) -> Sequence[DatesRead]:
    """What each form reads that a column of texts may have, and the one that was chosen."""
    from unikat.jobs.form_preview import dates_read
    from unikat.language.dates import DateForm

    known = next(one.forms for one in bench.profile(draft).columns if one.name == column)
    told = draft.of_keys.get("dates", {}).get(column)
    if not known and not told:
        return ()
    plain = replace(draft, groupings={}, of_keys={})
    spec = _spec(bench, _part(plain, OF_VALUES, keys=(column,)))
    asked = dict.fromkeys([*([told] if told else ()), *form_texts(known)])
    try:
        forms = [DateForm.of(form) for form in asked]
    except ValueError:
        # The specification says so.
        return ()
    return dates_read(spec.data, column, forms, bench.columns(draft, [column]))


def missing(bench: Workbench, draft: Draft, column: str) -> Missing:
    """Count the missing values of one column, with the codes that the form names."""
    from unikat.jobs.form_preview import groups

    try:
        spec = _spec(bench, _part(replace(draft, groupings={}), OF_VALUES, keys=(column,)))
        found = groups(spec.data, column, column, bench.columns(draft, [column]))
    except UnikatError as error:
        return Missing(n_missing=None, problem=str(error))
    return Missing(n_missing=found.n_missing, problem="")


def counts(bench: Workbench, draft: Draft) -> Counts:
    """Count the combinations of the keys as the form has them."""
    from unikat.jobs.form_preview import key_counts

    n_keys = len(draft.keys)
    if not n_keys:
        return Counts(found=None, n_keys=0, problem="")
    try:
        spec = _spec(bench, _part(draft, (*OF_VALUES, "missing"), keys=draft.keys))
        found = key_counts(bench.key_table(draft, spec))
    except UnikatError as error:
        return Counts(found=None, n_keys=n_keys, problem=str(error))
    return Counts(found=found, n_keys=n_keys, problem="")


def expected(bench: Workbench, draft: Draft) -> Expected:
    """Say how long the run would take that the forms describe."""
    try:
        spec = draft.asked(bench.source(draft), bench.folder.root)
    except UnikatError:
        # The command, or the page of keys, says what is wrong.
        return Expected(lines=(), why="")
    try:
        lines = bench.expected_time(draft, spec)
    except UnikatError as error:
        return Expected(lines=(), why="", problem=str(error))
    return Expected(lines=lines, why="" if lines else say("web.expected.large"))


def population(bench: Workbench, draft: Draft) -> Population:
    """Add up what the columns of the design tell."""
    from unikat.jobs.form_preview import population_told

    given = {name: draft.values.get(name, "") for name in OF_SIZE}
    weighted = given["weights"] or given["inclusion"]
    if given["relative_weights"] or not (weighted or (given["strata"] and given["stratum_sizes"])):
        return Population(told=None, problem="")
    try:
        design = _spec(bench, _part(draft, OF_SIZE, keys=())).design
        named = (design.weights, design.inclusion, design.strata)
        names = list(dict.fromkeys(name for name in named if name))
        found = population_told(design, bench.columns(draft, names))
    except UnikatError as error:
        return Population(told=None, problem=str(error))
    return Population(told=found, problem="")


def checked(bench: Workbench, draft: Draft) -> tuple[Checked, int]:
    """Hold the rules against the file; also the status of an answer that shows it."""
    from unikat.jobs.zeros import check, check_lines

    if not draft.rule_texts:
        return Checked(lines=(), n_broken=0, unit="", problem=""), 200
    try:
        spec = _of_units(bench, draft)
        homes = spec.model.name == HOUSEHOLDS
        found = check(spec, bench.households(spec) if homes else bench.table(draft, spec))
    except UnikatError as error:
        return Checked(lines=(), n_broken=0, unit="", problem=str(error)), status_of(error)
    lines = check_lines(found)
    return Checked(lines=lines, n_broken=found.n_broken, unit=found.unit, problem=""), 200


def suggested(bench: Workbench, draft: Draft) -> tuple[Suggested, int]:
    """Look for combinations that never occur; also the status of an answer that shows them."""
    from unikat.jobs.zeros import find_suggestions, not_proved

    action = bench.pages.at("/keys/suggest")
    try:
        spec = _of_rules(bench, draft)
        table, found = find_suggestions(spec, most=MOST_SUGGESTED, table=bench.table(draft, spec))
    except UnikatError as error:
        nothing = Suggested(suggestions=(), said="", action=action, problem=str(error))
        return nothing, status_of(error)
    return Suggested(suggestions=found, said=not_proved(table), action=action, problem=""), 200


def edited_key(bench: Workbench, draft: Draft, name: str, kind: str) -> EditedKey:
    """Return a key as the file has it, among the others as the form has them.

    Parameters
    ----------
    bench, draft
        Of the form.
    name
        The column that is not grouped, which need be no key yet.
    kind
        Of its levels; only a file of a tree has to be read with the data.

    Raises
    ------
    UnikatError
        If a field is wrong, or the file cannot be read as asked.
    """
    from unikat.spec.paths import hierarchy_file

    keys = draft.keys if name in draft.keys else (*draft.keys, name)
    groupings = {key: rule for key, rule in draft.groupings.items() if key != name}
    part = _part(replace(draft, groupings=groupings), (*OF_VALUES, "missing"), keys=keys)
    groups = draft.of_keys.get("groups", {})
    kinds = dict(draft.of_keys.get("levels", {}))
    if hierarchy_file(kind):
        kinds[name] = kind
    others = {key: file for key, file in groups.items() if key != name}
    part = replace(part, of_keys={"levels": kinds, "groups": others})
    return bench.edited_key(part, _spec(bench, part), name)


def understood(bench: Workbench, draft: Draft) -> tuple[str, ...]:
    """Read the files as the run will, and return what it notes.

    Raises
    ------
    UnikatError
        If the run would refuse them.
    """
    from unikat.jobs.evaluate import understood as as_population
    from unikat.jobs.files import understood as read_all
    from unikat.spec.evaluation import EvaluationSpec

    if draft.kind.name == "evaluate":
        spec = draft.asked(bench.source(draft), bench.folder.root)
        assert isinstance(spec, EvaluationSpec)
        return (as_population(spec),)
    if draft.kind.sized:
        spec = _spec(bench, draft)
        try:
            return read_all(spec)
        except UnikatError:
            if not draft.keys or any(draft.values.get(name) for name in TELL_SIZE):
                raise
            return (*_read(bench, draft), say("web.start.no_size"))
    # A check may take all its keys from its policy.
    return _read(bench, draft) if draft.keys else ()


def _read(bench: Workbench, draft: Draft) -> tuple[str, ...]:
    """Read a file as a run that knows of no population does."""
    from unikat.inference.progress import Watcher
    from unikat.jobs.synthesize import load_and_check
    from unikat.spec.from_options import Inputs
    from unikat.spec.kinds import SYNTHESIZE
    from unikat.spec.synthesis import SynthesisSpec

    homes = draft.values.get("model") == HOUSEHOLDS
    told = (*OF_READING, "model", *fields_on("keys", SYNTHESIZE)) if homes else OF_READING
    part = _part(draft, told, keys=draft.keys, rules=draft.rules)
    part = replace(part, kind=SYNTHESIZE, values={"model": SIMPLEST} | dict(part.values))
    spec = part.asked(bench.source(draft), bench.folder.root)
    assert isinstance(spec, SynthesisSpec)
    notes: list[str] = []
    load_and_check(spec, Inputs(), Watcher(note=notes.append))
    return tuple(notes[:1])


def _of_units(bench: Workbench, draft: Draft) -> AssessmentSpec:
    """Specification of the keys and rules, and of what the units are: of households, if they are.

    A synthesis draws households if their column is named, and no other model.
    """
    from unikat.jobs.zeros import as_rules_spec
    from unikat.spec.synthesis import SynthesisSpec

    of_synthesis = draft.kind.specification is SynthesisSpec
    if not of_synthesis and draft.values.get("model") != HOUSEHOLDS:
        return _of_rules(bench, draft)
    homes = [
        name
        for name, one in fields_on("keys").items()
        if one.place[0] == "households" and name != "population_households"
    ]
    told = (*OF_VALUES, "missing", "model", "household", *homes)
    part = _part(draft, told, keys=draft.keys, rules=draft.rules)
    if not of_synthesis:
        return _spec(bench, part)
    spec = part.asked(bench.source(draft), bench.folder.root)
    assert isinstance(spec, SynthesisSpec)
    return as_rules_spec(spec)


def _of_rules(bench: Workbench, draft: Draft) -> AssessmentSpec:
    """Specification of the keys and rules alone."""
    return _spec(bench, _part(draft, (*OF_VALUES, "missing"), keys=draft.keys, rules=draft.rules))


def _part(draft: Draft, options: Sequence[str], *, keys: tuple[str, ...], rules: str = "") -> Draft:
    known = {*fields_on("file"), *options}
    values = {name: value for name, value in draft.values.items() if name in known}
    return replace(draft, values=values, keys=keys, rules=rules)


def _spec(bench: Workbench, draft: Draft) -> AssessmentSpec:
    return draft.spec(bench.source(draft), bench.folder.root)
