"""The data and the rules that a specification names, for every command that reads a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unikat.data import CellTable, Design, Key, read
from unikat.data.checks import table_warnings
from unikat.data.engine import DEFAULT_MEMORY
from unikat.data.grouping import numbered_in_both
from unikat.data.margins import read_margin, with_margins, with_unequal_chances
from unikat.data.matching import UNKNOWN as UNKNOWN_LEVEL
from unikat.data.matching import codes_among
from unikat.data.microdata import Microdata
from unikat.data.readers import open_source
from unikat.data.relatives import Relative, with_relatives
from unikat.data.releases import Linked, linked
from unikat.data.sources import Source
from unikat.data.table import Margin
from unikat.errors import DataError, SpecError, brief, option, suggest
from unikat.inference.progress import SILENT, Watcher
from unikat.interrupts import interruptible
from unikat.language.keys import column_of
from unikat.language.rules import names_in, parse
from unikat.report.text.declared import declared_words
from unikat.report.text.sentences import understood
from unikat.risk.registry import Registry
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.from_options import Inputs
from unikat.spec.households import RelativesSpec
from unikat.spec.rules import ZerosSpec
from unikat.spec.tables import DataSpec, FileSpec
from unikat.zeros import Zeros
from unikat.zeros.conflicts import Handled, apply_zeros
from unikat.zeros.household_rules import HouseholdZeros
from unikat.zeros.zeros import holds

UNKNOWN = Design(without_population=True)
"""Where the population does not matter, or is not known before the rows are read."""


def design_of(spec: AssessmentSpec | ComparisonSpec) -> Design:
    """Make the design that a specification names; margins may tell the population's size."""
    check_margins(spec)
    return Design(
        population_size=spec.population_size,
        without_population=bool(spec.margins),
        **spec.design.model_dump(),
    )


def check_margins(spec: AssessmentSpec | ComparisonSpec) -> None:
    """Refuse margins of a sample whose records had unequal chances (SpecError)."""
    if spec.margins and (spec.design.weights or spec.design.inclusion or spec.design.strata):
        raise with_unequal_chances()


def tabulate(
    data: DataSpec, keys: Sequence[str], design: Design, source: Any = None, fewest_keys: int = 2
) -> CellTable:
    """Read the file, or the frame `source`, and tabulate its keys."""
    return open_data(data, keys, design, source, fewest_keys=fewest_keys).tabulate()


def read_table(
    spec: AssessmentSpec | ComparisonSpec,
    design: Design,
    inputs: Inputs,
    watcher: Watcher,
    **how: Any,
) -> tuple[Microdata, CellTable, Handled | None]:
    """Read and tabulate the data of a specification, and tell the watcher what was found in them.

    `how` are further arguments of `open_data`.

    Returns
    -------
    tuple
        The rows; the table, without the records that the specification leaves out; and what was
        done with records that break a rule, if there are rules.
    """
    watcher.stage("Reading")
    relatives = spec.relatives if isinstance(spec, AssessmentSpec) else None
    asked = None if relatives is None else _Relatives.of(relatives, spec.keys)
    further = () if asked is None else asked.columns
    names = [*spec.keys, *further]
    microdata = open_data(spec.data, names, design, inputs.data, watcher=watcher, **how)
    table = microdata.tabulate()
    if asked is not None:
        table = asked.added(table, len(spec.keys))
    if spec.margins:
        table = with_margins(table, read_margins(spec.margins, table.keys, inputs.margins))
    table = with_clues(table, microdata)
    handled = None
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table = handled.table
    note_table(table, understood(table), watcher)
    return microdata, table, handled


def with_clues(table: CellTable, microdata: Microdata, household: Sequence[str] = ()) -> CellTable:
    """Give a table what its codebook and other columns tell; a whole population needs no telling.

    `household` names the columns that identify a household, where the records are households.
    """
    if table.n_records == table.population_size:
        return table
    return replace(table, clues=(*microdata.warnings, *microdata.clues(household)))


def note_table(table: CellTable, words: str, watcher: Watcher) -> None:
    """Tell, before anything is sampled, what was read, and what cannot be trusted about it."""
    watcher.note(words)
    for said in declared_words(table.variables):
        watcher.note(said)
    for warning in table_warnings(table):
        watcher.note(f"Warning: {warning}")


class _Relatives(NamedTuple):
    """Keys of relatives to be read."""

    asked: tuple[Relative, ...]
    roles: Mapping[str, str]
    columns: tuple[str, ...]
    """What they need besides the keys."""

    @classmethod
    def of(cls, spec: RelativesSpec, keys: Sequence[str]) -> _Relatives:
        """Read the names and the rules of the roles."""
        asked = tuple(Relative.of(text, list(spec.roles)) for text in spec.keys)
        needed = [relative.key for relative in asked]
        for role in {relative.role: None for relative in asked}:
            needed += names_in(parse(spec.roles[role], f"The rule of the {role}"))
        known = {*keys, *(column_of(text) for text in keys)}
        return cls(asked, spec.roles, tuple(dict.fromkeys(n for n in needed if n not in known)))

    def added(self, table: CellTable, n_keys: int) -> CellTable:
        """Add them to a table."""
        has_role = {
            role: holds(self.roles[role], table.keys, table.cells, f"The rule of the {role}")[
                table.record_cell
            ]
            for role in {relative.role: None for relative in self.asked}
        }
        return with_relatives(table, self.asked, has_role, n_keys)


def open_data(
    data: DataSpec,
    keys: Sequence[str],
    design: Design,
    source: Any = None,
    *,
    watcher: Watcher = SILENT,
    fewest_keys: int = 2,
    constant_keys: bool = False,
    empty_rows: bool = False,
    answers: Mapping[str, Sequence[str]] | None = None,
    others_stay: bool = False,
) -> Microdata:
    """Read the file, or the frame `source`, and find the levels of its keys.

    The watcher is told what is unsafe about the source.
    """
    microdata = read(
        data_named(data, source),
        list(keys),
        design,
        codebook=data.codebook,
        missing=data.missing,
        missing_values=data.missing_values,
        dates=data.dates,
        **reading(data),
        memory_limit=data.memory_limit or DEFAULT_MEMORY,
        fewest_keys=fewest_keys,
        constant_keys=constant_keys,
        empty_rows=empty_rows,
        answers=answers,
        levels=data.levels,
        groups=data.groups,
        others_stay=others_stay,
    )
    for warning in microdata.source.warnings:
        watcher.note(f"Warning: {warning}")
    return microdata


PASS_IT = ", or pass the file or frame itself with the options"


def frame_or_file(
    frame: Any, path: Path | str | None, without: str, table: str, remedy: str = ""
) -> Any:
    """Return the frame, or else the file that a table of the specification names (DataError)."""
    found = path if frame is None else frame
    if found is None:
        raise DataError(
            f"{without}, as in a run of a data frame. Write its path as path under {table} in the "
            f"specification{remedy}."
        )
    return found


def data_named(data: DataSpec, frame: Any) -> Any:
    """Return the frame, or else the file or database of a specification (DataError)."""
    path = data.path or data.database
    return frame_or_file(frame, path, "No data file is named", "[data]", PASS_IT)


def open_file(data: DataSpec, source: Any) -> Source:
    """Open a file or frame as a specification says, without reading its rows."""
    how = reading(data)
    del how["decimal"]
    return open_source(source, **how, memory_limit=data.memory_limit or DEFAULT_MEMORY)


def reading(file: FileSpec) -> dict[str, Any]:
    """Return how a file is read, as arguments."""
    return {name: getattr(file, name) for name in FileSpec.model_fields if name != "path"}


def read_margins(
    specs: Sequence[FileSpec], keys: Sequence[Key], frames: Sequence[Any]
) -> list[Margin]:
    """Read the files of known counts; those without a path are frames, in their order."""
    left = iter(frames)
    found = []
    for number, spec in enumerate(specs, start=1):
        frame = next(left, None) if spec.path is None else None
        source = frame_or_file(frame, spec.path, f"Margin {number} names no file", "[[margins]]")
        how = reading(spec)
        del how["decimal"]
        found.append(read_margin(source, keys, **how))
    return found


@interruptible
def without_conflicts(table: CellTable, zeros: ZerosSpec, data: DataSpec) -> Handled:
    """Give a table the impossible combinations of a specification.

    Raises
    ------
    SpecError
        If a rule is wrong; the message names the file in which it stands.
    DataError
        If records break rules and that is to stop the run, or they cannot be handled as asked.
    """
    found = make_zeros(zeros, table.keys, data)
    name = data.name or "the data"
    return apply_zeros(table, found, zeros.on_conflict, name=name)


def make_zeros(spec: ZerosSpec, keys: Sequence[Key], data: DataSpec) -> Zeros:
    """Make the rules of a specification, for some keys of a file."""
    hint = (
        "\nRules that count members or name roles are about whole households, and this run is "
        "about persons. Name the column of the households, --household COLUMN, where a model is "
        "fitted with --model households."
    )
    of_households = spec.roles or any(_counts_members(rule.rule) for rule in spec.rules)
    with _named(spec, hint if of_households else ""):
        return Zeros.of(
            [(rule.name, rule.rule) for rule in spec.rules],
            keys,
            tables=spec.tables,
            encoding=data.encoding,
        )


def _counts_members(rule: str) -> bool:
    """Whether a rule can be read as one about households alone."""
    try:
        parse(rule)
    except SpecError:
        with suppress(SpecError):
            parse(rule, households=True)
            return True
    return False


def make_household_zeros(
    spec: ZerosSpec,
    household_keys: Sequence[Key],
    person_keys: Sequence[Key],
    data: DataSpec,
    *,
    head: str | None = None,
    head_apart: bool = False,
) -> HouseholdZeros:
    """Make the rules of a specification, for households.

    Parameters
    ----------
    spec
        The rules and roles.
    household_keys, person_keys
        Keys of households, and of their members.
    data
        How files are read.
    head
        Condition on one person: who is the head.
    head_apart
        Whether the head is not among the members (see :class:`HouseholdZeros`).
    """
    with _named(spec):
        if head is not None and "head" in spec.roles:
            raise SpecError(
                "The role 'head' is declared twice: by --head (head=) and under [roles]; take one "
                "of them out."
            )
        return HouseholdZeros.of(
            [(rule.name, rule.rule) for rule in spec.rules],
            spec.roles if head is None else {"head": head, **spec.roles},
            household_keys,
            person_keys,
            head_apart=head_apart,
            tables=spec.tables,
            encoding=data.encoding,
        )


@contextmanager
def _named(spec: ZerosSpec, hint: str = "") -> Iterator[None]:
    """Name the file of the rules in errors, and add a hint."""
    try:
        yield
    except (SpecError, DataError) as error:
        # A table of conditions may be missing or not readable.
        said = str(error) if spec.source is None else f"{spec.source}: {error}"
        raise type(error)(f"{said}{hint}") from None


def read_registry(spec: AssessmentSpec, survey: CellTable, source: Any = None) -> Registry:
    """Read the registry that a specification names, or a frame, in the levels of the survey."""
    assert spec.registry is not None
    data = spec.data.of_columns([column_of(key) for key in spec.keys])
    table = read(
        frame_or_file(source, spec.registry.path, "No file of the registry is named", "[registry]"),
        list(spec.keys),
        UNKNOWN,
        codebook=data.codebook,
        missing="integrate" if data.missing == "wildcard" else data.missing,
        missing_values=data.missing_values,
        dates=data.dates,
        **reading(spec.registry),
        constant_keys=True,
        answers={key.name: key.answers for key in survey.variables},
        groups=data.groups,
    ).tabulate()
    return Registry.of(table, survey)


class Release(NamedTuple):
    """Another release of the same persons, linked to the file."""

    table: CellTable
    """The file with the keys of both; those of the other release are missing without a partner."""
    linked: Linked
    n_records: int
    """Of the other release."""
    shared: tuple[str, ...]
    """Keys by which an intruder links."""
    further: tuple[str, ...]
    """Keys that the other release adds."""
    known: bool
    """Whether the owner said who is who."""


def read_release(
    spec: AssessmentSpec, microdata: Microdata, table: CellTable, source: Any = None
) -> Release:
    """Read the other release that a specification names, or the frame `source`, and link it.

    Raises
    ------
    DataError, SpecError
        If it cannot be read or lacks a column, no key is shared, a person is in it twice, or the
        releases cannot be linked as asked.
    """
    asked = spec.release
    assert asked is not None
    file = frame_or_file(source, asked.path, "No file of the other release is named", "[release]")

    def opened(keys: Sequence[str]) -> Microdata:
        data = spec.data.of_columns([column_of(key) for key in keys])
        return read(
            file,
            list(keys),
            UNKNOWN,
            codebook=data.codebook,
            missing=data.missing,
            missing_values=data.missing_values,
            dates=data.dates,
            **reading(asked),
            constant_keys=True,
            fewest_keys=1,
            answers={key.name: key.answers for key in table.variables},
            groups=data.groups,
        )

    columns, added = opened(asked.keys).source.columns, [column_of(one) for one in asked.keys]
    names = [key.name for key in table.keys]
    wanted = [column_of(one) for one in asked.shared]
    for name in wanted:
        if name not in names:
            raise SpecError(
                f"{option('shared')} names {brief(name)!r}, which is no key.{suggest(name, names)}"
            )
    shared = [
        (place, text)
        for place, text in enumerate(spec.keys)
        if (column_of(text) in wanted if wanted else column_of(text) in columns)
        and column_of(text) not in added
    ]
    if not shared:
        raise SpecError(
            "The releases share no key, so that no record of one can be linked to the other: name "
            f"keys of both in {option('keys')}, and those that the other release adds in "
            f"{option('release_keys')}."
        )
    both = opened([*(text for _, text in shared), *asked.keys])
    other = both.tabulate()
    places = [place for place, _ in shared]
    theirs, codes = (
        other.cells[other.record_cell],
        np.empty((both.n_records, len(shared)), np.int32),
    )
    for j, place in enumerate(places):
        known = codes_among(table.keys[place], other.keys[j], both.name, "the file")
        known[known == UNKNOWN_LEVEL] = table.keys[place].n_levels
        codes[:, j] = known[theirs[:, j]]
    ids = None
    if asked.id:
        ids = numbered_in_both(microdata, both, asked.id, "person")
        for numbers, name in zip(ids, (microdata.name, both.name), strict=True):
            twice = int((np.bincount(numbers) > 1).sum())
            if twice:
                raise DataError(
                    f"{name}: {twice:,} person(s) are there more than once by "
                    f"{', '.join(asked.id)}; a release has a record for each."
                )
    ours = table.cells[table.record_cell]
    found = linked(ours[:, places], codes, [table.keys[place].n_levels for place in places], ids)
    new = np.where(found.partner[:, None] >= 0, theirs[found.partner, len(shared) :], -1)
    keys = [
        replace(key, name=f"release.{key.name}") if key.name in names else key
        for key in other.keys[len(shared) :]
    ]
    return Release(
        table=table.with_keys((*table.keys, *keys), np.concatenate((ours, new), axis=1)),
        linked=found,
        n_records=both.n_records,
        shared=tuple(names[place] for place in places),
        further=tuple(key.name for key in keys),
        known=ids is not None,
    )
