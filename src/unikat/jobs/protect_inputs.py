"""What a protection reads, and what it checks before the first fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.hierarchies import Hierarchy, read_hierarchy
from unikat.data.microdata import Microdata
from unikat.data.sources import Source
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, brief, listed, option, suggest
from unikat.inference.progress import Watcher
from unikat.jobs.columns import FileColumns
from unikat.jobs.households import read_sample
from unikat.jobs.numeric import numeric_entries
from unikat.jobs.perturbing import check_perturbed, not_left_out, not_recoded
from unikat.jobs.protection_target import explicit_plan, scenarios_of
from unikat.jobs.saved_states import saved_fit
from unikat.models.auto import Auto
from unikat.models.named import build_model
from unikat.protection.foreseen import SearchSeconds, search_seconds
from unikat.protection.hierarchies import Choices, check_apart, choices, codes_apart
from unikat.protection.numeric.change import Entry, check_entry
from unikat.protection.recoding import Rule, recodable
from unikat.protection.release import Homes
from unikat.protection.scenarios import Scenario
from unikat.protection.search import Plan
from unikat.protection.subsample import Shares
from unikat.protection.utility import Tables
from unikat.report.facts.levels import LevelsFacts
from unikat.report.text.plan_words import assumed_words
from unikat.spec.columns import alike
from unikat.spec.from_options import Inputs
from unikat.spec.paths import hierarchy_file
from unikat.spec.policy import Policy
from unikat.spec.protection import ProtectionSpec
from unikat.zeros.conflicts import Handled


def looks_foreseen(model: Any, table: CellTable, seed: int) -> SearchSeconds:
    """Foresee a search for a recoding of a table."""
    if isinstance(model, Auto):
        model = build_model(model.candidates[0], {})
    return search_seconds(model, table, seed)


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
    """(n_rows,): household of each row of the file, if there are households; -1 where it was left
    out."""
    homes: Homes | None
    """None where records are the units."""
    shares: Shares | None
    """Of the records of the file, of which one is released; None: all are."""
    assessed: Int64
    """(n_assessed,): rows of the file that are assessed: the records of the table, in its order, or
    the members of its households."""


def load_and_check(spec: ProtectionSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read all that a protection reads, and check all that can be checked before the first fit."""
    model = build_model(spec.model.name, spec.model.options)
    microdata, table, handled, households = read_sample(spec, inputs, watcher)
    if spec.assessed is not None:
        saved_fit(spec.assessed, spec.model, table)
    check_perturbed(spec, table)
    numeric = numeric_entries(spec, microdata)
    scenarios = scenarios_of(spec, table)
    policy = None if spec.policy is None else Policy.of(spec.policy)
    parts = _parts(spec, table, policy)
    keys = recodable(table)
    weights = _weights(spec, [key.name for key in keys])
    recode = {name: _with_file(rule, spec) for name, rule in spec.recode.items()}
    plan = explicit_plan(table, recode, weights)
    for key, one in zip(keys, plan.recoding.keys, strict=True):
        check_apart(key, [one], codes_apart(key, spec.apart.get(key.name, ())), told=True)
    if spec.seeks and (assumed := assumed_words(list(map(LevelsFacts.of, keys)))):
        watcher.note(assumed)
    every = microdata.tabulate()
    tables = Tables.of(microdata, microdata.keys, every.cells[every.record_cell], spec.tables)
    assessed = np.arange(every.n_records) if handled is None else np.flatnonzero(handled.kept)
    if households is not None:
        assessed = np.flatnonzero(households.of_record >= 0)
    homes = None
    if households is not None:
        homes = Homes(
            table=table,
            keys=microdata.keys,
            household=households.of_record,
            head=households.head,
            weights=weights,
        )
    shares = _shares(spec, every, scenarios)
    if shares is not None:
        _check_smallest(shares, numeric)
    if shares is not None and not spec.seeks:
        recoding = replace(plan.recoding, held=shares.assessed(assessed).held[0])
        plan = replace(plan, recoding=recoding, lost=shares.lost(plan.lost, shares.shares[0]))
    changed = [one.name for entry in numeric for one in entry.columns]
    if policy is not None:
        names = [key.name for key in keys]
        roles = _columns_of_policy(policy, microdata.source, names, spec.columns)
        spec = spec.model_copy(update={"columns": roles})
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
        homes,
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


def _check_smallest(shares: Shares, numeric: Sequence[Entry]) -> None:
    """Refuse methods for continuous variables that the smallest sample has too few records for."""
    held = shares.held[-1]
    if held is None:
        return
    try:
        for entry in numeric:
            check_entry(entry.of_rows(np.flatnonzero(~held)))
    except (SpecError, DataError) as error:
        raise type(error)(
            f"In the sample of {shares.shares[-1]:.3g} of the records ({option('subsample')}): "
            f"{error} A larger share has more records."
        ) from None


def _recodings(spec: ProtectionSpec) -> dict[str, list[Rule | Hierarchy]]:
    """The recodings that are named, with the hierarchies of files."""
    return {
        name: [_with_file(rule, spec) for rule in rules] for name, rules in spec.recodings.items()
    }


def _with_file(rule: Rule, spec: ProtectionSpec) -> Rule | Hierarchy:
    path = hierarchy_file(rule)
    return rule if path is None else read_hierarchy(Path(path), spec.data.encoding)


def _weights(spec: ProtectionSpec, names: list[str]) -> list[float]:
    for name in spec.weights_of_keys:
        if name not in names:
            raise SpecError(
                f"{option('weights_of_keys')} names {name!r}, which is none of the keys: "
                f"{', '.join(names)}."
            )
    return [spec.weights_of_keys.get(name, 1.0) for name in names]


def _parts(spec: ProtectionSpec, table: CellTable, policy: Policy | None) -> list[Choices]:
    """Recodings of every key, of those that reach the minimum cell of a policy.

    A key that is perturbed is not left out.
    """
    if not spec.seeks:
        return []
    fewest = 1.0
    if policy is not None and policy.spec.minimum_cell is not None:
        # As many as are left of them in the smallest sample, in the mean.
        fewest = policy.spec.minimum_cell / min(spec.subsample, default=1.0)
    return choices(
        table,
        given=_recodings(spec),
        keep=list(dict.fromkeys((*spec.keep, *not_recoded(spec)))),
        there=not_left_out(spec),
        apart=spec.apart,
        fewest=fewest,
    )


def _columns_of_policy(
    policy: Policy, source: Source, keys: Sequence[str], told: Mapping[str, str]
) -> dict[str, str]:
    """Give roles to the columns that a policy names, for a protection by it.

    Parameters
    ----------
    policy, source
        The policy, and the file that is to be protected.
    keys
        Names of the keys.
    told
        Roles that the user tells, which go on.

    Returns
    -------
    dict
        Role of each column; those that never leave are removed.
    """
    asked, found = policy.spec, dict(told)
    if strange := [name for name in asked.known_keys if name not in keys]:
        raise SpecError(
            f"{policy.name} names the key {brief(strange[0])!r}, which is none of the keys: "
            f"{listed(list(keys))}.{suggest(strange[0], keys)} Add it: {option('keys')}."
        )
    never = set(map(alike, asked.never))
    for name in source.columns:
        if alike(name) not in never:
            continue
        role = found.setdefault(name, "removed")
        if name in keys or role not in ("removed", "identifier"):
            raise SpecError(
                f"{brief(name)!r} never leaves by {policy.name}, and is "
                f"{'a key' if name in keys else f'{role} by ' + option('columns')}; leave it out "
                "there."
            )
    for name in asked.sensitive:
        if name not in source.columns:
            raise SpecError(
                f"{policy.name} limits the diversity of {brief(name)!r}, which is no column of "
                f"{source.name}.{suggest(name, list(source.columns))}"
            )
        if found.setdefault(name, "sensitive") in ("removed", "identifier") or name in keys:
            raise SpecError(
                f"{policy.name} limits the diversity of {brief(name)!r}, which is to be a key or "
                f"removed; leave it out of {option('keys')} and {option('columns')}."
            )
    return found
