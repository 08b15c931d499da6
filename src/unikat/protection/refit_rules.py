"""The rules of impossible households as a new fit of recoded households has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unikat._typing import Int64
from unikat.data.table import CellTable
from unikat.protection.recoding import Recoding
from unikat.zeros.household_groups import coarser, n_rules_that_forbid


@dataclass(frozen=True, kw_only=True)
class RefitRules:
    """Rules of impossible households, and what a new fit of coarser keys has of them."""

    n_rules: int
    n_in_refit: int
    """Rules that forbid some household of the recoded keys: all that it stands for break them."""


def under_rules(
    recoded: CellTable, recoding: Recoding, table: CellTable
) -> tuple[CellTable, RefitRules | None]:
    """Give a recoded table the rules of the table, as far as they are about its groups.

    A household of groups is impossible if every household that it stands for breaks the same
    clause. So the rules forbid less than before, and no household of the recoded file.

    Parameters
    ----------
    recoded
        The recoded table, also with suppressed keys.
    recoding, table
        What was done to the keys, and the table as it was.
    """
    layout = table.layout
    if layout is None or layout.rules is None:
        return recoded, None
    n_rules = n_rules_that_forbid(layout.rules)
    if recoded.layout is None:
        # Members have no key any more, so that households are records.
        return recoded, RefitRules(n_rules=n_rules, n_in_refit=0) if n_rules else None
    groups_of = {
        one.name: None if one.key is None else one.groups.astype(np.int64) for one in recoding.keys
    }
    sizes: Int64 = np.arange(layout.household_keys[0].n_levels)
    rules = coarser(
        layout.rules,
        [sizes, *(groups_of[layout.name_of(key)] for key in layout.household_keys[1:])],
        [groups_of[key.name] for key in layout.person_keys],
    )
    ruled = replace(recoded, layout=replace(recoded.layout, rules=rules))
    n_left = n_rules_that_forbid(rules)
    return ruled, RefitRules(n_rules=n_rules, n_in_refit=n_left) if n_rules else None
