"""The data and the rules that a specification names, for every command that reads a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unikat.data import CellTable, Design, Key, read
from unikat.data.checks import table_warnings
from unikat.data.engine import DEFAULT_MEMORY
from unikat.data.microdata import Microdata
from unikat.errors import DataError, SpecError
from unikat.inference.progress import Watcher
from unikat.interrupts import interruptible
from unikat.report.text.sentences import understood
from unikat.risk.registry import Registry
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.tables import DataSpec, DesignSpec, FileSpec, ZerosSpec
from unikat.zeros import Zeros
from unikat.zeros.conflicts import Handled, apply_zeros

UNKNOWN = Design(without_population=True)
"""Where the population does not matter, or is not known before the rows are read."""


def design_of(spec: DesignSpec, population_size: int | None) -> Design:
    """Make the design that a specification names.

    Raises
    ------
    SpecError
        If it lacks something, or contradicts itself.
    """
    return Design(population_size=population_size, **spec.model_dump())


def tabulate(data: DataSpec, keys: Sequence[str], design: Design, source: Any = None) -> CellTable:
    """Read the file, or the frame `source`, and tabulate its keys.

    Raises
    ------
    DataError, SpecError
        If no file is named, or it cannot be read as asked.
    """
    return open_data(data, keys, design, source).tabulate()


def read_table(
    spec: AssessmentSpec | ComparisonSpec, design: Design, source: Any, watcher: Watcher
) -> tuple[Microdata, CellTable, Handled | None]:
    """Read and tabulate the data of a specification, and tell the watcher what was found in them.

    Returns
    -------
    tuple
        The rows; the table, without the records that the specification leaves out; and what was
        done with records that break a rule, if there are rules.

    Raises
    ------
    DataError, SpecError
        If the data cannot be read as asked, or a record breaks a rule and that stops the run.
    """
    watcher.stage("Reading")
    microdata = open_data(spec.data, spec.keys, design, source)
    clues = microdata.clues()
    table = microdata.tabulate()
    if table.n_records < table.n_units:
        table = replace(table, clues=clues)
    handled = None
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table = handled.table
    watcher.note(understood(table))
    for warning in table_warnings(table):
        watcher.note(f"Warning: {warning}")
    return microdata, table, handled


def open_data(data: DataSpec, keys: Sequence[str], design: Design, source: Any = None) -> Microdata:
    """Read the file, or the frame `source`, and find the levels of its keys.

    Raises
    ------
    DataError, SpecError
        If no file is named, or it cannot be read as asked.
    """
    if data.path is None and source is None:
        raise DataError(
            "No data file is named, as in a run of a data frame. Write its path as path under "
            "[data] in the specification, or pass the file or frame itself with the options."
        )
    return read(
        data.path if source is None else source,
        list(keys),
        design,
        codebook=data.codebook,
        missing=data.missing,
        missing_values=data.missing_values,
        **_reading(data),
        memory_limit=data.memory_limit or DEFAULT_MEMORY,
    )


def _reading(file: FileSpec) -> dict[str, Any]:
    return {name: getattr(file, name) for name in FileSpec.model_fields if name != "path"}


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
    name = "the data" if data.path is None else data.path.name
    return apply_zeros(table, found, zeros.on_conflict, name=name)


def make_zeros(spec: ZerosSpec, keys: Sequence[Key], data: DataSpec) -> Zeros:
    """Make the rules of a specification, for some keys of a file.

    Raises
    ------
    SpecError, DataError
        If a rule or a table of conditions is wrong.
    """
    try:
        return Zeros.of(
            [(rule.name, rule.rule) for rule in spec.rules],
            keys,
            tables=spec.tables,
            encoding=data.encoding,
        )
    except (SpecError, DataError) as error:
        # A table of conditions may be missing or not readable.
        said = str(error) if spec.source is None else f"{spec.source}: {error}"
        raise type(error)(said) from None


def read_registry(spec: AssessmentSpec, survey: CellTable, source: Any = None) -> Registry:
    """Read the registry that a specification names, or the frame `source`, in the survey's levels.

    Raises
    ------
    DataError, SpecError
        If it cannot be read, or does not have the survey's keys.
    """
    assert spec.registry is not None
    if spec.registry.path is None and source is None:
        raise DataError(
            "No file of the registry is named, as in a run of a data frame. Write its path as path "
            "under [registry] in the specification."
        )
    data = spec.data
    table = read(
        spec.registry.path if source is None else source,
        list(spec.keys),
        UNKNOWN,
        codebook=data.codebook,
        missing="integrate" if data.missing == "wildcard" else data.missing,
        missing_values=data.missing_values,
        **_reading(spec.registry),
        constant_keys=True,
    ).tabulate()
    return Registry.of(table, survey)
