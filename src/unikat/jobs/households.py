"""The households of a specification: the file of persons grouped, checked and coded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unikat.data import Design
from unikat.data.grouping import (
    Grouping,
    HouseholdSample,
    group,
    joined_keys,
    numbered_households,
    without_households,
)
from unikat.data.microdata import Microdata
from unikat.errors import DataError, SpecError, brief, option, suggest
from unikat.inference.progress import Watcher
from unikat.interrupts import interruptible
from unikat.jobs.inputs import UNKNOWN, make_household_zeros, open_data
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.households import HouseholdsSpec
from unikat.spec.synthesis import SynthesisSpec
from unikat.spec.tables import DataSpec, FileSpec, ZerosSpec
from unikat.zeros.household_conflicts import find_household_conflicts
from unikat.zeros.rules import names_in, parse
from unikat.zeros.zeros import holds

HEAD = "The rule of the head"


@interruptible
def read_households(
    spec: AssessmentSpec | SynthesisSpec, source: Any, watcher: Watcher
) -> tuple[Microdata, HouseholdSample]:
    """Read the persons of a specification and group them into households.

    The population does not matter to a synthesis; without weights it is taken as the sample.

    Returns
    -------
    tuple
        The rows, and the households.

    Raises
    ------
    DataError
        If the data cannot be read, or a household contradicts itself.
    SpecError
        If keys, rules or the population do not fit.
    """
    watcher.stage("Reading")
    asked = HouseholdsSpec() if spec.households is None else spec.households
    shared = () if asked.path is not None else asked.keys
    texts = [*spec.keys, *(text for text in shared if text not in spec.keys)]
    rule = None if asked.head is None else parse(asked.head, HEAD)
    further = () if rule is None else tuple(n for n in names_in(rule) if n not in _plain(texts))
    microdata = open_data(spec.data, [*texts, *further], UNKNOWN, source, fewest_keys=1)
    names = {key.name: key.name for key in microdata.keys}
    names |= dict(zip(texts, list(names), strict=False))
    grouping = Grouping(
        household_keys=_named(shared, names, "household_keys"),
        head_keys=_named(asked.head_keys, names, "head_keys"),
        scattered=asked.scattered,
        aside=further,
        role=None if rule is None else _role(names_in(rule)),
    )
    columns = spec.design.household
    of_record = numbered_households(microdata, columns, spec.data.missing_values)
    joined = None
    if asked.path is not None:
        file = spec.data.model_copy(update=asked.model_dump(include=set(FileSpec.model_fields)))
        joined = joined_keys(
            microdata, open_data(file, asked.keys, UNKNOWN, fewest_keys=1), columns, of_record
        )
    population = asked.population
    if isinstance(spec, SynthesisSpec) and not (spec.design.weights or spec.design.inclusion):
        population = int(of_record.max()) + 1 if spec.design.stratum_sizes is None else None
    design = Design(
        population_size=population,
        without_population=population is None,
        **spec.design.model_dump(exclude={"household"}),
    )
    weights = design.weights or design.inclusion
    persons = microdata.tabulate()
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
    if spec.zeros is not None:
        sample = _possible(sample, spec.zeros, asked.head, spec.data, microdata.name, watcher)
    return microdata, sample


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
    found = make_household_zeros(
        rules,
        layout.household_keys,
        layout.person_keys,
        data,
        head=head,
        head_apart=layout.head_apart,
    )
    houses, members = layout.parts(sample.table.cells[sample.table.record_cell])
    conflicts = find_household_conflicts(
        found, houses, members, layout.n_members(houses[:, 0]), sample.of_record
    )
    for warning in conflicts.warnings:
        watcher.note(f"Warning: {warning}")
    if conflicts.n_households and rules.on_conflict == "stop":
        raise DataError(conflicts.message(name))
    sample = without_households(sample, conflicts.in_conflict)
    table = replace(sample.table, layout=replace(layout, rules=found.program))
    return sample._replace(table=table, conflicts=conflicts)


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
    return {*texts, *(text.partition(":")[0].strip() for text in texts)}
