"""Margins of households under rules, as NestedCategBayesImpute has them.

The values lie beside the checkout, with how they were obtained (shared/oracles/README.md). Those of
synthetic households are compared by `benchmarks/nested_peer.py`, in a minute and a half.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.zeros.household_rules import HouseholdZeros

FOLDER = Path(__file__).parents[3] / "shared" / "oracles"
ORACLE = FOLDER / "nestedcateg.json"
RULES = (
    "head.AGE < 16",
    "count(REL == 2) > 1",
    "spouse.AGE < 16",
    "spouse.SEX == head.SEX",
    "spouse.AGE - head.AGE > 49",
    "head.AGE - spouse.AGE > 49",
    "child.AGE > head.AGE - 7",
    "adopted.AGE > head.AGE - 11",
    "step.AGE > head.AGE - 9",
    "parent.AGE < head.AGE + 4",
    "in_law.AGE < head.AGE + 4",
    "sibling.AGE - head.AGE > 37",
    "head.AGE - sibling.AGE > 37",
    "count(REL == 8) > 0 and head.AGE < 33",
    "count(REL == 8) > 0 and spouse.AGE < 17",
    "grandchild.AGE > head.AGE - 26",
)
"""By the peer's codes. The data have others, and break some of these rules; the peer does not look
at the sample."""
ROLES = {
    name: f"REL == {code}"
    for code, name in enumerate(
        ("spouse", "child", "adopted", "step", "sibling", "parent", "grandchild", "in_law"), 2
    )
}
NAMES = ("sex", "race", "hisp", "age", "relate")


def key(name: str, first: int, last: int) -> Key:
    levels = tuple(range(first, last + 1))
    return Key(name=name, levels=levels, labels=tuple(map(str, levels)))


def ruled_table(path: Path) -> tuple[CellTable, Any]:
    """The households, and the rules, which the table does not have."""
    with open(path, newline="") as file:
        names, *rows = list(csv.reader(file))
    column = {name: np.array([int(row[j]) for row in rows]) for j, name in enumerate(names)}
    ranges = {"SEX": (1, 2), "RACE": (1, 9), "HISP": (1, 5), "AGE": (1, 95)}
    persons = (*(key(name, *ends) for name, ends in ranges.items()), key("REL", 2, 12))
    households = (
        key("size", 1, 6),
        key("OWN", 1, 2),
        *(key(f"head.{name}", *ends) for name, ends in ranges.items()),
    )
    zeros = HouseholdZeros.of(RULES, ROLES, households, persons, head_apart=True)
    layout = HouseholdLayout(
        household_keys=households, person_keys=persons, n_slots=5, head_apart=True
    )
    members = np.stack([column[name] for name in NAMES], axis=1) - [1, 1, 1, 1, 2]
    first = np.flatnonzero(np.diff(column["Hhindex"], prepend=0))
    sizes = np.diff(np.append(first, len(members)))
    heads = ("ownership", "headsex", "headrace", "headhisp", "headage")
    codes = np.stack([sizes, *(column[name][first] - 1 for name in heads)], axis=1)
    rows_of_codes = layout.pack(codes, members)
    return CellTable.from_codes(rows_of_codes, layout.columns, 10**5, layout=layout), zeros.program


def sizes_of(layout: HouseholdLayout, rows: Any) -> Any:
    """Households of each size, as numbers."""
    return np.bincount(rows[:, 0], minlength=layout.household_keys[0].n_levels).astype(float)


def margins(layout: HouseholdLayout, rows: Any, sizes: Any) -> dict[str, float]:
    """Margins, the sizes weighted to be as often as in the sample."""
    codes, members = layout.parts(rows)
    seen = np.bincount(codes[:, 0], minlength=len(sizes))
    weight = np.where(seen > 0, sizes / np.maximum(seen, 1), 0.0)[codes[:, 0]]
    there = layout.present(rows)
    owner, slot = np.nonzero(there)
    persons, each = members[owner, slot] + [1, 1, 1, 1, 2], weight[owner]
    heads = codes[owner] + 1
    relation = persons[:, 4] - 1

    def mean(values: Any, which: Any) -> float:
        return float(np.average(np.asarray(values, float)[which], weights=each[which]))

    everybody = np.ones(len(each), bool)
    found = {f"P_relate_{r}": mean(relation == r, everybody) for r in range(1, 12)}
    found |= {f"P_race_{r}": mean(persons[:, 1] == r, everybody) for r in (1, 2, 6)}
    found["P_sex_1"] = mean(persons[:, 0] == 1, everybody)
    found["P_hisp_gt1"] = mean(persons[:, 2] > 1, everybody)
    found["mean_age"] = mean(persons[:, 3], everybody)
    spouse, child = relation == 1, relation == 2
    found["P_spouse_opposite_sex"] = mean(persons[:, 0] != heads[:, 2], spouse)
    found["mean_abs_age_gap_spouse"] = mean(abs(persons[:, 3] - heads[:, 5]), spouse)
    found["mean_headage_minus_child_age"] = mean(heads[:, 5] - persons[:, 3], child)
    for name, k, level in (("ownership", 1, 1), ("headsex", 2, 1), ("headrace", 3, 1)):
        here = codes[:, k] + 1 == level
        found[f"P_{name}_1"] = float(np.average(here, weights=weight))
    return found


def test_margins_are_computed_as_those_of_nestedcategbayesimpute() -> None:
    """Those of the sample itself; `benchmarks/nested_peer.py` compares the synthetic ones."""
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} is not here: the oracle values are kept beside the checkout")
    oracle = json.loads(ORACLE.read_text())
    table, _ = ruled_table(FOLDER / oracle["input"])
    layout = table.layout
    assert layout is not None
    rows = table.cells[table.record_cell]
    for name, value in margins(layout, rows, sizes_of(layout, rows)).items():
        assert abs(value - oracle["marginals"][name]["observed"]) < 1e-9, name
