"""Verification: from a file and what was made of it elsewhere to the risk that is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unikat._typing import Int32, Int64
from unikat.data.frames import frame_of_codes
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.data.roles import NEARLY_UNIQUE, encoded
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, brief, listed, option, suggest
from unikat.inference.progress import Watcher
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.inputs import (
    PASS_IT,
    UNKNOWN,
    design_of,
    frame_or_file,
    open_data,
    open_file,
    read_table,
)
from unikat.jobs.job import Job, in_folder
from unikat.jobs.outcome import Tabled
from unikat.jobs.schedule import ORIGINAL, PROTECTED, Part, Schedule
from unikat.jobs.sensitive import inferred
from unikat.models.base import GroupsLevels
from unikat.models.named import build_model
from unikat.protection.compared import (
    Compared,
    KeyChange,
    compare_key,
    left_out_change,
)
from unikat.protection.linked import telling, told
from unikat.protection.perturbed import most_matches
from unikat.protection.recoding import Recoding, unchanged
from unikat.protection.subsample import table_of
from unikat.protection.what_if import Posterior
from unikat.report.facts.protection import RiskFacts
from unikat.report.facts.supplements import no_sensitive_key
from unikat.report.facts.verification import SCHEMA, VerifySummary
from unikat.report.pages.verification import render
from unikat.report.text.summary import explained
from unikat.report.text.track_record import unknown_of
from unikat.report.text.verification import HEAD, key_rows
from unikat.risk.limits import Measured, Verdict, judge
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import VERIFY, Kind
from unikat.spec.limits import Limit
from unikat.spec.verification import VerifySpec


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Verification(Tabled):
    """What protection elsewhere did to a file, and the risk left; from :func:`unikat.verify`.

    `table` has one row per key.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> original = pd.DataFrame({"sex": ["f", "m"] * 20, "age": [20 + i // 2 for i in range(40)]})
    >>> safe = original.assign(age="20-39")
    >>> found = unikat.verify(original, protected=safe, keys=["sex", "age"], population_size=40,
    ...                       target="k >= 3")
    >>> found.verdict, found.table.shape[0]
    ('met', 2)
    """

    summary: VerifySummary
    spec: VerifySpec
    kind: ClassVar[Kind] = VERIFY

    @property
    def verdict(self) -> Verdict | None:
        """Whether the target is met; None if there is none."""
        return self.summary.verdict

    def _page(self, summary: VerifySummary) -> str:
        return render(summary)

    def _table(self) -> pa.Table:
        return pa.Table.from_pylist(
            [dict(zip(HEAD, row, strict=True)) for row in key_rows(self.summary)]
        )

    def _said_first(self) -> list[str]:
        return repr(self).splitlines()

    def __repr__(self) -> str:
        said = self.summary.sentences
        return "\n".join(said[place] for place in ("verdict", "answer", "records") if place in said)


@documented(VERIFY)
def verify(data: Any, *given: Any, **options: Any) -> Verification:
    """Assess a file that was protected elsewhere, by any program, against its original.

    Parameters
    ----------
    data
        The original, as for :func:`unikat.assess`; or the path of a ``verify.toml``.

    Returns
    -------
    Verification
        What was done to each key, the risk of both files, and whether a target is met.

    Raises
    ------
    SpecError, DataError
        If an option or the files are wrong, or records cannot be matched. Nothing was written.
    OutputError
        If `out` holds a verification and `overwrite` is not set, or it cannot be written.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> original = pd.DataFrame({"sex": ["f", "m"] * 20, "age": [20 + i // 2 for i in range(40)]})
    >>> safe = original.assign(age=[f"{a // 10 * 10}-{a // 10 * 10 + 9}" for a in original["age"]])
    >>> found = unikat.verify(original, protected=safe, keys=["sex", "age"], population_size=40,
    ...                       target="k >= 3")
    >>> found.verdict, [key.action for key in found.summary.keys]
    ('met', ['as it is', 'recoded'])
    """
    return run_from_python(VERIFY, run, (data, *given), options)


@in_folder(VERIFY)
def run(job: Job[VerifySpec]) -> Verification:
    """Verify what a specification names, in a folder of its own (see :func:`in_folder`)."""
    spec, watcher = job.spec, job.watcher
    asked = load_and_check(spec, job.inputs, watcher)
    model, table, protected, rows = asked.model, asked.table, asked.protected, asked.rows
    keys = asked.keys
    changes, recoding, target = asked.changes, asked.recoding, asked.target
    perturbed, identical = asked.perturbed, asked.identical
    original = table.cells[table.record_cell]
    level, seed = spec.report.level, spec.sampling.seed
    # A perturbed file is looked at by the states of the fit, which takes long, too.
    parts = [Part(name="original", like="fit", tau1_of=ORIGINAL)]
    if not identical:
        parts.append(Part(name="protected", like="fit", tau1_of=PROTECTED))
    schedule = Schedule(watcher=watcher, parts=parts)
    told = job if perturbed else schedule.job(job, "original")
    fitted = told.fit("original", model, table)
    before = after = fitted.estimate(level)
    codes = np.stack([one.codes for one in keys if one is not None], axis=1)
    shown = _published(table, recoding, codes, rows)
    matches = by_original = None
    knows_groups = fitted.draws is None or isinstance(fitted.model, GroupsLevels)
    learned = {}
    if asked.sensitive and knows_groups:
        watcher.stage("Inferring sensitive variables")
        learned = inferred(Posterior.of(fitted), recoding, codes, asked.sensitive, level, seed)
    if perturbed:
        watcher.stage("Going on from the fit")
        hidden = [one.name for one in changes if one.n_otherwise]
        matches = most_matches(Posterior.of(fitted), recoding, codes, level, hidden, rows)
    elif not identical:
        watcher.stage("Assessing the protected file")
        again = schedule.job(job, "protected").fit("protected", model, shown)
        after = again.estimate(level)
        if knows_groups:
            by_original = most_matches(Posterior.of(fitted), recoding, codes, level, [], rows)
    converged = before.converged and after.converged
    judged = None
    if target is not None:
        found = [Measured.of(after)] if matches is None else [matches.measured]
        found += [] if by_original is None else [by_original.measured]
        unknown = unknown_of(spec.model, before, converged=converged)
        judged = judge(target, [one.value(target) for one in found], unknown)
    summary = VerifySummary(
        schema=SCHEMA,
        original=spec.data.name,
        protected=_name_of(spec),
        n_original=table.n_records,
        n_protected=len(rows),
        matched_by=spec.id,
        population_size=table.n_units,
        keys=changes,
        identical=identical,
        before=RiskFacts.of(before),
        after=None if identical or perturbed else RiskFacts.of(after),
        matches=matches,
        by_original=by_original,
        verdict=None if judged is None else judged.verdict,
        target=judged,
        telling=telling(
            _others_of(protected, [key.name for key in table.keys]),
            original[rows],
            recoding.keys,
            {one.name for one in changes if one.n_otherwise or one.n_suppressed},
        ),
        identifying=_identifying(asked.others),
        inferred=learned,
        model=spec.model.name,
        converged=converged,
        level=level,
        # A fingerprint of the original would confirm guesses of what was hidden.
        provenance=job.record(),
    )
    return job.finished(Verification(summary=explained(summary), spec=spec, folder=job.folder))


class Loaded(NamedTuple):
    """Everything that is known before the first fit."""

    model: Any
    table: CellTable
    protected: Microdata
    rows: Int64
    """Record of the original for each record of the protected file."""
    keys: list[Compared | None]
    """By key of the original; None for those that are left out."""
    others: list[tuple[str, pa.ChunkedArray, pa.ChunkedArray]]
    """Columns that are no keys, of both files."""
    changes: tuple[KeyChange, ...]
    recoding: Recoding
    target: Limit | None
    perturbed: bool
    identical: bool
    sensitive: list[tuple[str, Int64, Int64]]
    """Sensitive columns, with numbers of the values of all records of both files."""


def load_and_check(spec: VerifySpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read both files, match their records, and check all that can be before the first fit."""
    model = build_model(spec.model.name, spec.model.options)
    microdata, table, _ = read_table(spec, design_of(spec), inputs, watcher)
    answers = {key.name: key.answers for key in table.keys}
    protected = _protected(spec, inputs.protected, answers)
    rows = _matched(microdata, protected, spec.id)
    original = table.cells[table.record_cell]
    keys = _compared(table, original[rows], protected)
    others = _columns(microdata, protected, rows, [key.name for key in table.keys])
    if spec.id is None:
        _check_order(original, keys, others, protected.name)
    changes = tuple(
        left_out_change(key, len(rows)) if one is None else one.change
        for key, one in zip(table.keys, keys, strict=True)
    )
    perturbed = any(one.n_otherwise for one in changes)
    identical = len(rows) == table.n_records and not any(map(_was_changed, changes))
    recoding = Recoding(
        keys=tuple(
            unchanged(key).left_out() if one is None else one.recoding
            for key, one in zip(table.keys, keys, strict=True)
        )
    )
    target = None if spec.target is None else Limit.of(spec.target)
    if perturbed and target is not None and target.measure in ("r1", "records"):
        raise SpecError(
            f"Values of the protected file were perturbed, and after perturbation {target.measure} "
            "of single records is not known; set a target of tau1 or tau2."
        )
    return Loaded(
        model=model,
        table=table,
        protected=protected,
        rows=rows,
        keys=keys,
        others=others,
        changes=changes,
        recoding=recoding,
        target=target,
        perturbed=perturbed,
        identical=identical,
        sensitive=_sensitive(spec, microdata, protected),
    )


def _sensitive(
    spec: VerifySpec, original: Microdata, protected: Microdata
) -> list[tuple[str, Int64, Int64]]:
    """Columns whose values an intruder would learn; refuse those that are not in both files."""
    if not spec.sensitive:
        return []
    no_sensitive_key(spec.sensitive, spec.keys)
    for name in spec.sensitive:
        for file in (original, protected):
            if name not in file.source.columns:
                raise DataError(
                    f"{file.name} has no column {brief(name)!r}."
                    f"{suggest(name, list(file.source.columns))} An intruder learns of a "
                    f"{option('sensitive')} variable from a file that has it."
                )
    every = np.arange(original.n_records)
    others = [one for one in original.source.columns if one not in spec.sensitive]
    return _columns(original, protected, every, others)


def _name_of(spec: VerifySpec) -> str | None:
    assert spec.protected is not None
    return None if spec.protected.path is None else spec.protected.path.name


def _protected(spec: VerifySpec, frame: Any, answers: Mapping[str, Sequence[str]]) -> Microdata:
    """Read the protected file, with the keys that it has."""
    assert spec.protected is not None
    if isinstance(frame, np.ndarray):
        frame = frame_of_codes(frame, spec.keys)
    own = spec.protected.model_dump(exclude_none=True)
    path = own.pop("path", None)
    # Another program may have written it otherwise; the codes for missing values are one list.
    data = spec.data.model_copy(
        update=dict.fromkeys(("format", "delimiter", "sheet", "table", "query", "database"))
        | {"path": path}
        | own
        | {"codebook": None}
    )
    frame = frame_or_file(frame, path, "No protected file is named", "[protected]", PASS_IT)
    source = open_file(data, frame)
    keys = [name for name in spec.keys if name in source.columns]
    if not keys:
        raise DataError(
            f"{source.name} has none of the keys: {listed(spec.keys)}. Keys have the same names in "
            "both files; rename the columns."
        )
    data = data.of_columns(keys)
    return open_data(
        data,
        keys,
        UNKNOWN,
        frame,
        fewest_keys=1,
        constant_keys=True,
        answers=answers,
        # Groups that were recoded further are no levels of the original.
        others_stay=True,
    )


def _matched(original: Microdata, protected: Microdata, column: str | None) -> Int64:
    """Record of the original that each one of the protected file is, (n_protected,)."""
    if column is None:
        if original.n_records != protected.n_records:
            raise DataError(
                f"{original.name} has {original.n_records:,} records and {protected.name} "
                f"{protected.n_records:,}, so they cannot be matched by their order. Name a column "
                f"that identifies records in both files: {option('id', 'COLUMN')}."
            )
        return np.arange(original.n_records)
    found = []
    for file in (original, protected):
        codes, values = file.codes(column)
        n_missing, n_same = int((codes < 0).sum()), len(codes) - len(values)
        if n_missing or n_same:
            raise DataError(
                f"{file.name}: {option('id', brief(column))} does not identify records, since "
                f"{n_missing:,} lack a value and {n_same - n_missing:,} share it with another. "
                "Name a column with a value of its own for each record."
            )
        found.append([values[code] for code in codes.tolist()])
    ours, theirs = found
    place = {value: row for row, value in enumerate(ours)}
    if strange := sum(value not in place for value in theirs):
        raise DataError(
            f"{protected.name} has {strange:,} records whose {brief(column)!r} is not in "
            f"{original.name}. Leave them out, or check that both files have the same codes."
        )
    return np.array([place[value] for value in theirs], np.int64)


def _compared(table: CellTable, original: Int32, protected: Microdata) -> list[Compared | None]:
    """Compare each key of the original; None if it was left out."""
    there = protected.tabulate()
    shown = there.cells[there.record_cell]
    place = {key.name: j for j, key in enumerate(there.keys)}
    return [
        compare_key(key, original[:, j], there.keys[place[key.name]], shown[:, place[key.name]])
        if key.name in place
        else None
        for j, key in enumerate(table.keys)
    ]


def _check_order(
    original: Int32,
    keys: Sequence[Compared | None],
    others: Sequence[tuple[str, Int64, Int64]],
    name: str,
) -> None:
    """Refuse files whose records seem to stand in different orders (DataError).

    A copied column has then the same values at other places; or no key of the protected file tells
    more of the original than it tells of another record.
    """
    moved = [
        column
        for column, ours, theirs in others
        if (ours != theirs).any() and np.array_equal(np.sort(ours), np.sort(theirs))
    ]
    chance = []
    for column, one in zip(original.T, keys, strict=True):
        if one is None or len(column) < _MOST_FEW:
            continue
        true, other = told(column, one.codes), told(column, np.roll(one.codes, len(column) // 2))
        if other < 1.0:
            chance.append(true - other <= _BY_CHANCE * (1.0 - other))
    if moved or (chance and all(chance)):
        raise DataError(
            f"{name}: the records seem to stand in another order than in the original"
            + (f", since {brief(moved[0])} has the same values in other rows" if moved else "")
            + ". Bring both files into the same order, or name a column that identifies records "
            f"in both: {option('id', 'COLUMN')}."
        )


_BY_CHANCE = 0.1
"""Share of what a key could tell of the original at most, that it tells by chance."""
_MOST_FEW = 30
"""Records with which chance is not told from order."""


def _others_of(protected: Microdata, keys: Sequence[str]) -> Iterator[tuple[str, Int32]]:
    """Columns that are no keys, with numbers of their values."""
    names = [name for name in protected.source.columns if name not in keys]
    values = protected.values(names) if names else pa.table({})
    for name in names:
        if (found := encoded(values[name])) is not None:
            yield name, found[0]


def _identifying(others: Sequence[tuple[str, Int64, Int64]]) -> tuple[str, ...]:
    """Columns that are copied, and have a value of its own for nearly every record."""
    found = []
    for name, ours, theirs in others:
        copied = (ours == theirs) & (theirs >= 0)
        if copied.any() and len(np.unique(theirs[copied])) >= NEARLY_UNIQUE * len(theirs):
            found.append(name)
    return tuple(found)


def _was_changed(key: KeyChange) -> bool:
    return bool(key.action == "left out" or key.n_recoded or key.n_suppressed or key.n_otherwise)


def _published(table: CellTable, recoding: Recoding, codes: Int32, rows: Int64) -> CellTable:
    """The table of the protected records; values that are true of nobody are further levels."""
    there = [one.key for one in recoding.keys if one.key is not None]
    keys = tuple(
        Key.of_size(key.name, max(key.n_levels, int(column.max(initial=0)) + 1))
        for key, column in zip(there, codes.T, strict=True)
    )
    return table_of(table, codes, rows, keys)


def _columns(
    original: Microdata, protected: Microdata, rows: Int64, keys: Sequence[str]
) -> list[tuple[str, Int64, Int64]]:
    """Columns of both files that are no keys, as numbers of their values."""
    shared = [
        name
        for name in protected.source.columns
        if name in original.source.columns and name not in keys
    ]
    if not shared:
        return []
    ours, theirs = original.values(shared), protected.values(shared)
    found = []
    for name in shared:
        try:
            texts = [pc.cast(part[name].combine_chunks(), pa.string()) for part in (ours, theirs)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        codes = pc.dictionary_encode(pa.concat_arrays(texts)).indices
        numbers = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        found.append((name, numbers[: len(ours)][rows], numbers[len(ours) :]))
    return found
