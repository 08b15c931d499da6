"""What `unikat zeros` does: rules against a file, and rules as a table."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from unikat._typing import Int32, Int64
from unikat.data import CellTable, Key
from unikat.data.grouping import HouseholdSample
from unikat.data.named_levels import Levels
from unikat.data.numbers import rows_shown
from unikat.errors import OutputError, SpecError
from unikat.files.folder import keep_inputs, locked_file
from unikat.files.toml import toml_literal
from unikat.files.writing import replace_file
from unikat.inference.progress import SILENT, Watcher
from unikat.interrupts import interruptible
from unikat.jobs.households import broken_rules, read_households
from unikat.jobs.inputs import UNKNOWN, make_zeros, tabulate
from unikat.report.text.numbers import columns, counted, number, percent, verb
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.models import HOUSEHOLDS
from unikat.spec.synthesis import SynthesisSpec
from unikat.spec.tables import DesignSpec
from unikat.zeros import Suggestion, Zeros, disjoint, suggest
from unikat.zeros.conflicts import Conflicts, cut, find_conflicts, shown
from unikat.zeros.household_conflicts import HouseholdConflicts
from unikat.zeros.suggest import MOST_COMBINATIONS, not_looked_at
from unikat.zeros.tables import csv_field

NO_RULES = (
    "There are no rules: name a file of rules, or a table of impossible combinations, with "
    "--zeros FILE. A file zeros.toml may hold rules = ['AGE < 14 and EDUC >= 11'], or, with "
    "--household, rules = ['count(REL == 1) != 1']."
)


MOST_SKIPPED = 5
"""Sets of keys that are named as not looked at."""
MOST_CONDITIONS = 20
"""Broken conditions of a table that are printed."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Rules held against a file."""

    data: str
    """Name of the file."""
    n: int
    """Rows, or households, of the file."""
    conflicts: Conflicts | HouseholdConflicts

    @property
    def unit(self) -> str:
        """What is counted."""
        return "record" if isinstance(self.conflicts, Conflicts) else "household"

    @property
    def n_broken(self) -> int:
        """Rows, or households, that break a rule."""
        found = self.conflicts
        return found.n_records if isinstance(found, Conflicts) else found.n_households


def read_rules(spec: AssessmentSpec, table: CellTable | None = None) -> tuple[CellTable, Zeros]:
    """Read the file and the rules of a specification; no population size is needed.

    `table` is that of the file, if it was read before.
    """
    if spec.zeros is None:
        raise SpecError(NO_RULES)
    table = read_keys(spec) if table is None else table
    return table, make_zeros(spec.zeros, table.keys, spec.data)


def read_keys(spec: AssessmentSpec) -> CellTable:
    """Read the file of a specification and tabulate its keys; no population size is needed."""
    return tabulate(spec.data, spec.keys, UNKNOWN)


def as_rules_spec(spec: SynthesisSpec) -> AssessmentSpec:
    """Return what a synthesis says of its file, keys, households and rules."""
    alike = ("data", "keys", "zeros", "households", "model")
    return AssessmentSpec(
        **{name: getattr(spec, name) for name in alike},
        design=DesignSpec(household=spec.design.household),
    )


def read_grouped(spec: AssessmentSpec, watcher: Watcher = SILENT) -> HouseholdSample:
    """Read the file of a specification, grouped into households; its rules are not looked at."""
    persons = spec.model_copy(update={"zeros": None})
    return read_households(persons, None, watcher, of_population=False)[1]


@interruptible
def check(
    spec: AssessmentSpec,
    table: CellTable | HouseholdSample | None = None,
    *,
    watcher: Watcher = SILENT,
) -> Checked:
    """Find the rows, or the households, of a file that break a rule.

    `table` is that of the file, or its households, if they were read before.
    """
    name = spec.data.name or "the data"
    if spec.model.name == HOUSEHOLDS:
        if spec.zeros is None:
            raise SpecError(NO_RULES)
        sample = table if isinstance(table, HouseholdSample) else read_grouped(spec, watcher)
        head = None if spec.households is None else spec.households.head
        broken = broken_rules(sample, spec.zeros, head, spec.data)
        return Checked(data=name, n=sample.table.n_records, conflicts=broken)
    assert not isinstance(table, HouseholdSample)
    table, zeros = read_rules(spec, table)
    return Checked(data=name, n=table.n_records, conflicts=find_conflicts(table, zeros))


def check_lines(checked: Checked) -> list[str]:
    """Lines of the table that `unikat zeros check` prints."""
    conflicts, n = checked.conflicts, checked.n
    if isinstance(conflicts, HouseholdConflicts):
        return _household_lines(checked, conflicts)
    zeros = conflicts.zeros
    rows = [("rule", "combinations", "rows", "share", "first rows")]
    for position, rule in enumerate(conflicts.rules):
        cells = "–"
        if position < len(zeros.rules):
            cells = percent(zeros.rules[position].n_impossible / zeros.n_cells)
        rows.append((shown(rule), cells, *_counted(rule.n_records, n), rule.rows_listed))
        conditions = conflicts.conditions(position)
        for one in conditions[:MOST_CONDITIONS]:
            part = "–" if one.share is None else percent(one.share)
            shares = _counted(one.n_records, n)
            rows.append((f"  {cut(one.text)}", part, *shares, rows_shown(one.rows)))
        if len(conditions) > MOST_CONDITIONS:
            more = f"  and {len(conditions) - MOST_CONDITIONS} more conditions (--rows lists all)"
            rows.append((more, "", "", "", ""))
    broken = checked.n_broken
    rows.append(
        ("all together", percent(zeros.n_impossible / zeros.n_cells), *_counted(broken, n), "")
    )
    lines = columns(rows, left=(0, 4))
    said = (
        f"{zeros.n_impossible:,} of {zeros.n_cells:,} combinations "
        f"{verb(zeros.n_impossible, 'are')} impossible "
        f"({percent(zeros.n_impossible / zeros.n_cells)})."
    )
    rows_of_file = f"{counted(n, 'row')} of {checked.data}"
    some = (
        f"{broken:,} of {rows_of_file} break{'s' if broken == 1 else ''} a rule."
        if broken
        else f"No row of {checked.data} breaks a rule ({counted(n, 'row')})."
    )
    return [*lines, "", said, some]


def _household_lines(checked: Checked, conflicts: HouseholdConflicts) -> list[str]:
    """Lines about households, each with the row in which it begins."""
    n, broken = checked.n, checked.n_broken
    rows = [("rule", "households", "share", "first rows")]
    rows += [(shown(one), *_counted(one.n_records, n), one.rows_listed) for one in conflicts.rules]
    rows.append(("all together", *_counted(broken, n), ""))
    said = (
        f"{broken:,} of {counted(n, 'household')} of {checked.data} {verb(broken, 'break')} a rule."
        if broken
        else f"No household of {checked.data} breaks a rule ({counted(n, 'household')})."
    )
    return [*columns(rows, left=(0, 3)), "", said, *conflicts.warnings]


def write_rows(checked: Checked, path: Path, *, overwrite: bool = False) -> None:
    """Write the number of every row that breaks a rule, once for each rule, as CSV.

    For a rule that is a table of conditions there is a line for each condition that is broken.
    """
    check_file(path, overwrite=overwrite)
    conflicts = checked.conflicts
    rows: list[Int64] = []
    names: list[tuple[str, str | None]] = []
    for position, rule in enumerate(conflicts.rules):
        name = rule.name or rule.text
        conditions = conflicts.conditions(position) if isinstance(conflicts, Conflicts) else ()
        rows += [one.rows for one in conditions] or [conflicts.rows(position)]
        names += [(name, one.text) for one in conditions] or [(name, None)]
    which = np.repeat(np.arange(len(rows)), [len(found) for found in rows])
    row = np.concatenate(rows)
    order = np.lexsort((which, row))
    said = [
        pa.array([text and csv_field(text) for text in part], pa.string()).take(
            pa.array(which[order])
        )
        for part in zip(*names, strict=True)
    ]
    table = pa.table({"row": row[order], "rule": said[0], "condition": said[1]})
    _write(path, _csv(table), overwrite=overwrite)


@interruptible
def write_disjoint(spec: AssessmentSpec, path: Path, *, overwrite: bool = False) -> int:
    """Write the impossible combinations as a table whose rows do not overlap; return how many.

    A column per key holds a level's label, and nothing for any level. `--zeros` reads it back.

    Raises
    ------
    DataError, SpecError
        If the file or the rules cannot be read, or a piece cannot be written in such a table.
    OutputError
        If the file is there and `overwrite` is not set, or it cannot be written.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise SpecError(f"{path.name} must end in .csv or .parquet, the two forms it can have.")
    check_file(path, overwrite=overwrite, inputs=spec.input_files())
    _, zeros = read_rules(spec)
    pieces = disjoint(zeros.conditions, zeros.offsets)
    as_csv = path.suffix.lower() == ".csv"
    columns = {
        csv_field(key.name) if as_csv else key.name: pa.array(
            _named(key, codes, as_csv=as_csv), pa.string()
        )
        for key, codes in zip(zeros.keys, pieces.T, strict=True)
    }
    table = pa.table(columns)
    if as_csv:
        content = _csv(table)
    else:
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        content = buffer.getvalue()
    _write(path, content, overwrite=overwrite)
    return len(pieces)


@interruptible
def find_suggestions(
    spec: AssessmentSpec, *, together: int = 3, most: int = 100, table: CellTable | None = None
) -> tuple[CellTable, tuple[Suggestion, ...]]:
    """Look for combinations that never occur in a file although expected often.

    `table` is that of the file, if it was read before.
    """
    table = read_keys(spec) if table is None else table
    known = None if spec.zeros is None else make_zeros(spec.zeros, table.keys, spec.data)
    return table, suggest(table, known, n_keys=together, most=most)


def not_proved(table: CellTable) -> str:
    """Say what no sample can tell of a combination that it does not have."""
    n = table.n_records
    return (
        f"None of the {n:,} records has these combinations. Up to "
        f"{percent(1.0 - 0.05 ** (1.0 / n))} of the population can still have one (95% confidence "
        "bound). What is rare, or was left out when the sample was drawn, is not impossible: judge "
        "each."
    )


def suggestion_lines(
    table: CellTable, found: Sequence[Suggestion], *, together: int = 3, most: int = 100
) -> list[str]:
    """Lines that `unikat zeros suggest` prints, for the options with which they were found."""
    skipped = textwrap.wrap(_skipped(table, together), width=88)
    if not found:
        return ["No combination is missing beyond chance.", *skipped]
    rows = [("expected", "if rare", "seen", "chance below", "rule")]
    rows += [
        (number(one.expected), number(one.expected_if_rare), "0", _chance(one.bound), one.rule)
        for one in found
    ]
    lines = columns(rows, left=(4,))
    said = not_proved(table)
    if len(found) == most:
        said += f" No more than {most:,} are listed; --most lists more."
    return [*lines, "", *textwrap.wrap(said, width=88), *skipped]


def _skipped(table: CellTable, together: int) -> str:
    """Say which keys were not looked at together; nothing if all were."""
    skipped = not_looked_at(table, together)
    if not skipped:
        return ""
    named = "; ".join(", ".join(keys) for keys in skipped[:MOST_SKIPPED])
    more = f"; and {len(skipped) - MOST_SKIPPED:,} more sets" if len(skipped) > MOST_SKIPPED else ""
    return (
        f"Not looked at together, since their levels combine to more than {MOST_COMBINATIONS:,}: "
        f"{named}{more}. Group their levels to have them looked at."
    )


def write_suggestions(
    table: CellTable,
    found: Sequence[Suggestion],
    path: Path,
    *,
    data: str,
    active: bool = False,
    overwrite: bool = False,
    together: int = 3,
) -> None:
    """Write suggestions as a file of rules in which a person strikes or accepts each.

    The rules are comments until a person accepts them, or hold at once if `active`.
    """
    check_rules_file(path, overwrite=overwrite)
    what = "Strike" if active else "Take the # off"
    which = "a rule that is wrong" if active else "a rule to accept it"
    lines = [
        f"# Combinations that never occur in {_one_line(data)}, although many were",
        "# expected from how the keys occur one by one or two by two, even if they are as rare as",
        "# the rarest ones of the same levels that occur.",
        *(
            f"# {line}"
            for text in (f"{not_proved(table)} {what} {which}.", _skipped(table, together))
            for line in textwrap.wrap(_comment(text), width=88)
        ),
        "rules = [",
    ]
    for one in found:
        lines.append(
            f"    # expected {number(one.expected)}, if rare {number(one.expected_if_rare)}, seen "
            f"0; by chance with probability below {_chance(one.bound)}"
        )
        lines.append(f"    {'' if active else '# '}{_quoted(one.rule)},")
    _write(path, "\n".join([*lines, "]", ""]).encode(), overwrite=overwrite)


def _write(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file as a whole; of two runs that write it at a time one is refused."""
    with locked_file(path):
        check_file(path, overwrite=overwrite)
        replace_file(path, content)


def check_file(path: Path, *, overwrite: bool, inputs: Collection[Path] = ()) -> None:
    """Refuse a place at which a file cannot or must not be written, before any work is done.

    What is read, `inputs`, is never replaced.
    """
    keep_inputs([path], inputs)
    if path.is_dir():
        raise OutputError(f"{path} is a folder; name a file.")
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is a device, not a file; name a file.")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"The folder {path.absolute().parent} does not exist; make it first.")
    if path.exists() and not overwrite:
        raise OutputError(
            f"{path} exists already. Give --overwrite to replace it, or name another file. "
            "Nothing was written."
        )


def check_rules_file(path: Path, *, overwrite: bool, inputs: Collection[Path] = ()) -> None:
    """Refuse a place at which a file of rules cannot or must not be written."""
    check_file(path, overwrite=overwrite, inputs=inputs)
    if path.suffix.lower() != ".toml":
        raise SpecError(
            f"{path.name} must end in .toml; --zeros would take it for a table of conditions."
        )


def _named(key: Key, codes: Int32, *, as_csv: bool) -> Sequence[str | None]:
    """What a table calls the levels of a key; None for any."""
    levels = Levels(key=key)
    names: list[str | None] = []
    for code in range(key.n_levels):
        candidates = (key.labels[code], str(key.levels[code])) if code < levels.n_named else ()
        clear = (name for name in candidates if levels.called(name) == {code})
        if as_csv:
            # What is written is to be read back as the same level, too.
            clear = (
                csv_field(name)
                for name in clear
                if name and levels.called(csv_field(name)) in (set(), {code})
            )
        names.append(next(clear, None))
    for code in np.unique(codes[codes >= 0]).tolist():
        if names[code] is not None:
            continue
        if code >= levels.n_named:
            raise SpecError(
                f"A table cannot name the level of {key.name!r} that stands for missing values, "
                "and without it the combinations cannot be listed. Use --missing integrate."
            )
        raise SpecError(
            f"A table cannot name a level of {key.name!r}: its label is empty, or also the value "
            "or label of another level. Give the levels other labels in a codebook."
        )
    return [None if code < 0 else names[code] for code in codes.tolist()]


def _csv(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    pyarrow.csv.write_csv(table, buffer, options)
    return buffer.getvalue()


def _counted(n: int, total: int) -> tuple[str, str]:
    return f"{n:,}", percent(n / total)


def _chance(bound: float) -> str:
    return f"{max(bound, 1e-99):.0e}"


def _quoted(rule: str) -> str:
    """Write a rule as TOML, without escapes if it can be."""
    plain = "'" not in rule and rule.isprintable()
    return f"'{rule}'" if plain else toml_literal(rule)


def _one_line(name: str) -> str:
    return " ".join(name.split()) if name.isprintable() else "the file"


def _comment(text: str) -> str:
    """What a comment of TOML can hold of a text."""
    return "".join(c if c.isprintable() else " " for c in text)
