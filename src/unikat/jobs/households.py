"""The households of a specification: the file of persons grouped, checked and coded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Int32
from unikat.data import CellTable, Design
from unikat.data.first_look import of_one_member
from unikat.data.grouping import (
    Grouping,
    HouseholdSample,
    group,
    joined_keys,
    numbered_households,
    without_households,
)
from unikat.data.margins import with_margins
from unikat.data.microdata import Microdata
from unikat.data.shared_keys import known_values, shared_keys
from unikat.errors import DataError, SpecError, brief, listed, option, suggest
from unikat.inference.progress import Watcher
from unikat.interrupts import interruptible
from unikat.jobs.inputs import (
    UNKNOWN,
    check_margins,
    design_of,
    make_household_zeros,
    note_table,
    open_data,
    read_margins,
    read_table,
    with_clues,
)
from unikat.language.keys import column_of, quoted
from unikat.language.rules import names_in, parse
from unikat.models.households.records import columns_of, possible
from unikat.report.text.numbers import counted, verb
from unikat.report.text.sentences import understood_households
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.attack import AttackSpec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.from_options import Inputs
from unikat.spec.households import HouseholdsSpec
from unikat.spec.rules import ZerosSpec
from unikat.spec.synthesis import SynthesisSpec
from unikat.spec.tables import DataSpec, DesignSpec, FileSpec
from unikat.synthesis.attacks.files import Files, Named
from unikat.zeros.conflicts import Handled
from unikat.zeros.household_conflicts import HouseholdConflicts, find_household_conflicts
from unikat.zeros.zeros import holds

HEAD = "The rule of the head"


@interruptible
def read_households(
    spec: AssessmentSpec | ComparisonSpec | EvaluationSpec | SynthesisSpec,
    source: Any,
    watcher: Watcher,
    *,
    of_population: bool = True,
) -> tuple[Microdata, HouseholdSample]:
    """Read the persons of a specification and group them into households.

    The file of an evaluation is the population. To a synthesis it does not matter, nor where
    `of_population` is not set; without weights it is taken as the sample.

    Returns
    -------
    tuple
        The rows, and the households.
    """
    watcher.stage("Reading")
    asked = HouseholdsSpec() if spec.households is None else spec.households
    shared = () if asked.path is not None else asked.keys
    # A key that is listed with its rule may be named without it as one of the household.
    known = _plain(spec.keys)
    texts = [*spec.keys, *(text for text in shared if text not in known)]
    columns = spec.household if isinstance(spec, EvaluationSpec) else spec.design.household
    if both := [name for name in columns if name in _plain(texts)]:
        raise SpecError(
            f"{brief(both[0])!r} tells households apart, so it is no key of theirs; leave it "
            f"out of {option('keys')}."
        )
    rule = None if asked.head is None else parse(asked.head, HEAD)
    further = () if rule is None else tuple(n for n in names_in(rule) if n not in _plain(texts))
    microdata = open_data(
        spec.data, [*texts, *further], UNKNOWN, source, watcher=watcher, fewest_keys=1
    )
    names = {key.name: key.name for key in microdata.keys}
    names |= dict(zip(texts, list(names), strict=False))
    grouping = Grouping(
        household_keys=_named(shared, names, "household_keys"),
        head_keys=_named(asked.head_keys, names, "head_keys"),
        scattered=asked.scattered,
        drop_headless=asked.drop_headless,
        aside=further,
        role=None if rule is None else _role(names_in(rule)),
    )
    of_record = numbered_households(microdata, columns, spec.data.missing_values)
    joined = None
    if asked.path is not None:
        file = spec.data.model_copy(update=asked.model_dump(include=set(FileSpec.model_fields)))
        joined = joined_keys(
            microdata, open_data(file, asked.keys, UNKNOWN, fewest_keys=1), columns, of_record
        )
    if isinstance(spec, EvaluationSpec):
        design = Design(population_size=int(of_record.max()) + 1)
    else:
        of_population = of_population and not isinstance(spec, SynthesisSpec)
        design = _design(spec.design, asked.population, of_record, of_population)
    weights = design.weights or design.inclusion
    persons = microdata.tabulate()
    if asked.path is None:
        _note_shared(persons, of_record, grouping.household_keys, watcher)
    if asked.head is None and isinstance(spec, SynthesisSpec):
        _note_head(persons, of_record, watcher)
    head = None
    if asked.head is not None:
        head = holds(asked.head, persons.keys, persons.cells, HEAD)[persons.record_cell]
    sample = group(
        persons,
        of_record,
        design,
        grouping,
        name=microdata.name,
        head=head,
        joined=joined,
        weights=None if weights is None else microdata.numbers(weights),
        strata=None if design.strata is None else microdata.codes(design.strata),
    )
    n_headless = int(of_record.max()) + 1 - sample.table.n_records
    if spec.zeros is not None:
        sample = _possible(sample, spec.zeros, asked.head, spec.data, microdata.name, watcher)
    table = with_clues(sample.table, microdata, columns)
    if n_headless:
        were = (
            f"{counted(n_headless, 'household')} with no head or several {verb(n_headless, 'were')}"
        )
        said = f"{were} left out."
        watcher.note(said)
        table = replace(table, clues=(*table.clues, said))
    return microdata, sample._replace(table=table)


def _note_shared(
    persons: CellTable, of_record: Int32, known: Sequence[str], watcher: Watcher
) -> None:
    """Say which keys no two members of a household differ in, and that nothing names so."""
    codes = persons.cells[persons.record_cell]
    differ = known_values(codes, of_record)[1]
    alike = [key.name for key in shared_keys(replace(persons, households=of_record))]
    agree = [key.name for key, apart in zip(persons.keys, differ, strict=True) if not apart]
    names = [name for name in agree if name in alike and name not in known]
    # One key at least is of the members.
    if names and len(names) + len(known) < len(persons.keys):
        said = ",".join(map(quoted, [*known, *names]))
        watcher.note(
            f"All members of every household have the same {listed(names)}. Say so: "
            f"{option('household_keys', said)}. Else the model takes it as a key of the members, "
            "in which they may differ. unikat start FILE --for synthetic proposes it, and who "
            "the head is."
        )


def _note_head(persons: CellTable, of_record: Int32, watcher: Watcher) -> None:
    """Say which key tells who the head is where no rule does, and of how many households not."""
    codes = persons.cells[persons.record_cell]
    found = [
        (share, -n_without, key.name)
        for key, column in zip(persons.keys, codes.T, strict=True)
        for _, share, n_without in of_one_member(of_record, column, key.n_levels)
    ]
    if not found:
        return
    share, n_without, name = max(found)
    of_others = f"; in {counted(-n_without, 'household')} nobody has it, or several" * (
        n_without < 0
    )
    watcher.note(
        f"One value of {brief(name)} is that of exactly one member in {share:.0%} of the "
        f"households of two or more, as a head's is{of_others}. No head is named, so synthetic "
        f"households may have none or several. Name it: {option('head', f'{name} == VALUE')}. "
        "unikat start FILE --for synthetic proposes the rule."
    )


def _design(
    asked: DesignSpec, population: int | None, of_record: Int32, of_population: bool
) -> Design:
    """How the households were drawn; without a population and weights they are the population."""
    if not (of_population or asked.weights or asked.inclusion):
        population = int(of_record.max()) + 1 if asked.stratum_sizes is None else None
    return Design(
        population_size=population,
        without_population=population is None,
        **asked.model_dump(exclude={"household"}),
    )


def attacked_households(
    spec: AttackSpec,
    files: Files,
    original: Named,
    synthetic: Sequence[Named],
    watcher: Watcher,
) -> tuple[CellTable, list[Int32]]:
    """Group the persons of an attack into households.

    Returns
    -------
    tuple
        The households of the original, with the rules; and those of each synthetic file in its
        levels and slots, (n_households, n_columns).

    Raises
    ------
    DataError
        If a household contradicts itself, breaks a rule, or is larger than any of the original.
    SpecError
        If keys or rules do not fit.
    """
    asked = HouseholdsSpec() if spec.households is None else spec.households
    keys = original.table.keys[: files.n_keys]
    names = {key.name: key.name for key in keys}
    names |= dict(zip(spec.all_keys, list(names), strict=True))
    rule = None if asked.head is None else parse(asked.head, HEAD)
    further = [] if rule is None else sorted(set(names_in(rule)) - _plain(spec.all_keys))
    if further:
        raise SpecError(
            f"The rule of the head reads {brief(further[0])!r}, which is no key, and synthetic "
            f"files have keys alone. Add it to {option('keys')}."
        )
    grouping = Grouping(
        household_keys=_named(asked.keys, names, "household_keys"),
        head_keys=_named(asked.head_keys, names, "head_keys"),
        scattered=asked.scattered,
        drop_headless=asked.drop_headless,
        role=None if rule is None else _role(names_in(rule)),
    )

    def grouped(file: Named, records: Int32) -> HouseholdSample:
        assert file.of_record is not None
        persons = CellTable.from_codes(
            records[:, : len(keys)], keys, len(records) + 1, original.table.missing
        )
        head = None
        if asked.head is not None:
            head = holds(asked.head, persons.keys, persons.cells, HEAD)[persons.record_cell]
        design = Design(population_size=int(file.of_record.max()) + 2)
        return group(persons, file.of_record, design, grouping, name=file.name, head=head)

    sample = grouped(original, files.original)
    if spec.zeros is not None:
        sample = _possible(sample, spec.zeros, asked.head, spec.data, original.name, watcher)
    layout = sample.table.layout
    assert layout is not None
    found = []
    for file, records in zip(synthetic, files.synthetic, strict=True):
        made = grouped(file, records).table
        assert made.layout is not None
        houses, members = made.layout.parts(made.cells[made.record_cell])
        if made.layout.n_slots > layout.n_slots:
            n_larger = int((houses[:, 0] >= layout.household_keys[0].n_levels).sum())
            raise DataError(
                f"{file.name}: {n_larger:,} household(s) are larger than any of the original, so "
                "its model did not draw them. Check the column of the households in both files."
            )
        if len(houses) != sample.table.n_records:
            raise DataError(
                f"{file.name} has {len(houses):,} households, and the original "
                f"{sample.table.n_records:,}. The generator keeps their number, so this is a file "
                "of another original; check both, and the column of the households."
            )
        slots = np.empty((len(houses), layout.n_slots, len(layout.person_keys)), np.int32)
        slots[:] = layout.absent
        slots[:, : made.layout.n_slots] = members
        cells = layout.joined(houses, slots)
        columns = columns_of(layout, sample.table)
        if layout.rules is not None and not (good := possible(columns, layout.rules, cells)).all():
            raise DataError(
                f"{file.name}: {np.count_nonzero(~good):,} household(s) break the household rules, "
                "so the generator did not obey them. Give the rules that it obeyed, or leave "
                f"{option('zeros')} out."
            )
        found.append(cells)
    return sample.table, found


class Sample(NamedTuple):
    """The records of a sample, of persons or of households."""

    microdata: Microdata
    table: CellTable
    handled: Handled | None
    """What was done with persons that break a rule; None without rules, and of households."""
    households: HouseholdSample | None


def read_sample(spec: AssessmentSpec | ComparisonSpec, inputs: Inputs, watcher: Watcher) -> Sample:
    """Read the persons, or the households, of a sample, and tell what was found in them."""
    if not spec.of_households:
        return Sample(*read_table(spec, design_of(spec), inputs, watcher), None)
    check_margins(spec)
    known = not spec.margins
    microdata, households = read_households(spec, inputs.data, watcher, of_population=known)
    table = households.table
    if spec.margins:
        assert table.layout is not None
        given = None if spec.households is None else spec.households.population
        margins = read_margins(spec.margins, table.layout.household_keys, inputs.margins)
        table = with_margins(replace(table, population_size=given), margins)
    note_table(table, understood_households(table, microdata.n_records), watcher)
    return Sample(microdata, table, None, households._replace(table=table))


def _possible(
    sample: HouseholdSample,
    rules: ZerosSpec,
    head: str | None,
    data: DataSpec,
    name: str,
    watcher: Watcher,
) -> HouseholdSample:
    """Give a sample of households the rules of what is impossible.

    Raises
    ------
    SpecError
        If a rule is wrong; the message names the file in which it stands.
    DataError
        If households break rules and that is to stop the run.
    """
    layout = sample.table.layout
    assert layout is not None
    if rules.on_conflict == "missing":
        raise SpecError(
            "Keys of members cannot be set missing where a household breaks a rule; leave these "
            f"households out, {option('zeros_conflict', 'drop')}, or correct them."
        )
    conflicts = broken_rules(sample, rules, head, data)
    for warning in conflicts.warnings:
        watcher.note(f"Warning: {warning}")
    if conflicts.n_households and rules.on_conflict == "stop":
        raise DataError(conflicts.message(name))
    sample = without_households(sample, conflicts.in_conflict)
    table = replace(sample.table, layout=replace(layout, rules=conflicts.zeros.program))
    return sample._replace(table=table, conflicts=conflicts)


def broken_rules(
    sample: HouseholdSample, rules: ZerosSpec, head: str | None, data: DataSpec
) -> HouseholdConflicts:
    """Hold the rules of a specification against households.

    Raises
    ------
    SpecError
        If a rule is wrong; the message names the file in which it stands.
    """
    layout = sample.table.layout
    assert layout is not None
    found = make_household_zeros(
        rules,
        layout.household_keys,
        layout.person_keys,
        data,
        head=head,
        head_apart=layout.head_apart,
    )
    houses, members = layout.parts(sample.table.cells[sample.table.record_cell])
    return find_household_conflicts(
        found, houses, members, layout.n_members(houses[:, 0]), sample.of_record
    )


def _named(asked: Sequence[str], names: Mapping[str, str], what: str) -> tuple[str, ...]:
    """Names of the keys that an option lists."""
    for text in asked:
        if text not in names:
            raise SpecError(
                f"{option(what)} names {brief(text)!r}, which is no key."
                f"{suggest(text, names)} Add it to the keys."
            )
    return tuple(names[text] for text in asked)


def _role(names: Sequence[str]) -> str | None:
    """The column that says who is the head, if it is one."""
    return names[0] if len(names) == 1 else None


def _plain(texts: Sequence[str]) -> set[str]:
    """Names of keys without the rules that group them."""
    return {*texts, *(column_of(text) for text in texts)}
