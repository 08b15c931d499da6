"""What a protection reads, and what it checks before the first fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.hierarchies import Hierarchy, read_hierarchy
from unikat.data.microdata import Microdata
from unikat.data.table import CellTable
from unikat.errors import SpecError, option
from unikat.inference.progress import Watcher
from unikat.jobs.columns import FileColumns
from unikat.jobs.households import read_sample
from unikat.jobs.numeric import numeric_entries
from unikat.jobs.perturbing import check_perturbed, not_left_out, not_recoded
from unikat.jobs.protection_target import explicit_plan, scenarios_of
from unikat.models.named import build_model
from unikat.protection.hierarchies import Choices, check_apart, choices, codes_apart
from unikat.protection.numeric.change import Entry
from unikat.protection.recoding import Recoding, Rule, recodable, unchanged
from unikat.protection.scenarios import Scenario
from unikat.protection.search import Plan
from unikat.protection.subsample import Shares
from unikat.protection.utility import Tables
from unikat.report.facts.levels import LevelsFacts
from unikat.report.text.plan_words import assumed_words
from unikat.spec.from_options import Inputs
from unikat.spec.paths import hierarchy_file
from unikat.spec.protection import ProtectionSpec
from unikat.zeros.conflicts import Handled


class Loaded(NamedTuple):
    """Everything that is known before the first fit."""

    model: Any
    microdata: Microdata
    table: CellTable
    handled: Handled | None
    scenarios: list[Scenario]
    parts: list[Choices]
    """Recodings of each key to choose from."""
    weights: list[float]
    plan: Plan
    """The recoding that is asked for."""
    every: CellTable
    """With the records that are not assessed."""
    tables: Tables
    columns: FileColumns
    """Those that are no keys, with their roles."""
    numeric: list[Entry]
    """Continuous variables that are to be changed."""
    household: Int32 | None
    """(n_rows,): household of each row of the file, if there are households."""
    shares: Shares | None
    """Of the records of the file, of which one is released; None: all are."""
    assessed: Int64
    """(n_assessed,): rows of the file that are assessed: the records of the table, in its order, or
    the members of its households."""

    def of_persons(self, recoding: Recoding) -> Recoding:
        """The recoding of the columns of the file, in their order.

        A household's recoding is that of its members' columns.
        """
        if self.table.layout is None:
            return recoding
        by_name = {one.name: one for one in recoding.keys}
        keys = tuple(by_name.get(key.name) or unchanged(key) for key in self.microdata.keys)
        return Recoding(keys=keys)

    def released(self, recoding: Recoding) -> tuple[float, Int64]:
        """The share of the records that a plan releases, and their numbers in the file."""
        if self.shares is None or recoding.held is None:
            return 1.0, np.arange(self.every.n_records)
        parts = zip(self.shares.shares, self.shares.held, strict=True)
        share, held = next(
            (share, held)
            for share, held in parts
            if held is not None and np.array_equal(held[self.assessed], recoding.held)
        )
        return share, np.flatnonzero(~held)


def load_and_check(spec: ProtectionSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read all that a protection reads, and check all that can be checked before the first fit.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong.
    """
    model = build_model(spec.model.name, spec.model.options)
    microdata, table, handled, households = read_sample(spec, inputs, watcher)
    check_perturbed(spec, table)
    numeric = numeric_entries(spec, microdata)
    scenarios = scenarios_of(spec, table)
    parts = _parts(spec, table)
    keys = recodable(table)
    weights = _weights(spec, [key.name for key in keys])
    plan = explicit_plan(table, spec.recode, weights)
    for key, one in zip(keys, plan.recoding.keys, strict=True):
        check_apart(key, [one], codes_apart(key, spec.apart.get(key.name, ())))
    if spec.seeks and (assumed := assumed_words(list(map(LevelsFacts.of, keys)))):
        watcher.note(assumed)
    every = microdata.tabulate()
    tables = Tables.of(microdata, microdata.keys, every.cells[every.record_cell], spec.tables)
    assessed = np.arange(every.n_records) if handled is None else np.flatnonzero(handled.kept)
    if households is not None:
        assessed = np.flatnonzero(households.of_record >= 0)
    shares = _shares(spec, every, scenarios)
    if shares is not None and not spec.seeks:
        recoding = replace(plan.recoding, held=shares.assessed(assessed).held[0])
        plan = replace(plan, recoding=recoding, lost=shares.lost(plan.lost, shares.shares[0]))
    changed = [one.name for entry in numeric for one in entry.columns]
    return Loaded(
        model,
        microdata,
        table,
        handled,
        scenarios,
        parts,
        weights,
        plan,
        every,
        tables,
        FileColumns.of(spec, microdata, every, changed),
        numeric,
        every.households if households is None else households.of_record,
        shares,
        assessed,
    )


def _shares(spec: ProtectionSpec, every: CellTable, scenarios: Sequence[Scenario]) -> Shares | None:
    """The shares that are asked for, of all records of the file."""
    if not spec.subsample:
        return None
    found = Shares.of(
        spec.subsample,
        every.n_records,
        household=every.households,
        classes=None if every.sampling is None else every.sampling.strata,
        cost=spec.weight_of_records,
        seed=0 if spec.perturbation_seed is None else spec.perturbation_seed,
    )
    return found.for_limits([(one.target, one.in_sample) for one in scenarios])


def _recodings(spec: ProtectionSpec) -> dict[str, list[Rule | Hierarchy]]:
    """The recodings that are named, with the hierarchies of files."""
    return {
        name: [
            read_hierarchy(Path(path), spec.data.encoding)
            if (path := hierarchy_file(rule))
            else rule
            for rule in rules
        ]
        for name, rules in spec.recodings.items()
    }


def _weights(spec: ProtectionSpec, names: list[str]) -> list[float]:
    for name in spec.weights_of_keys:
        if name not in names:
            raise SpecError(
                f"{option('weights_of_keys')} names {name!r}, which is none of the keys: "
                f"{', '.join(names)}."
            )
    return [spec.weights_of_keys.get(name, 1.0) for name in names]


def _parts(spec: ProtectionSpec, table: CellTable) -> list[Choices]:
    """Recodings of every key; a key that is perturbed is not left out."""
    if not spec.seeks:
        return []
    return choices(
        table,
        given=_recodings(spec),
        keep=list(dict.fromkeys((*spec.keep, *not_recoded(spec)))),
        there=not_left_out(spec),
        apart=spec.apart,
    )
