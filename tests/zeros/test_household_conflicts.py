"""Households that break a rule: counted by rule, with rows and never values."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.data import Key
from unikat.errors import SpecError
from unikat.zeros.household_conflicts import find_household_conflicts
from unikat.zeros.household_rules import HouseholdZeros

AGE = Key.of_size("AGE", 90)
REL = Key(name="REL", levels=(1, 2, 3), labels=("head", "spouse", "child"))
RULES = [("one head", 'count(REL == "head") != 1'), "spouse.AGE < 16", "child.AGE > head.AGE - 12"]
ROLES = {"head": 'REL == "head"', "spouse": 'REL == "spouse"', "child": 'REL == "child"'}


def conflicts():
    zeros = HouseholdZeros.of(RULES, ROLES, (), (AGE, REL))
    members = np.array(
        [
            [[40, 0], [10, 2]],
            [[40, 0], [30, 2]],
            [[40, 0], [50, 0]],
            [[77, 2], [90, 3]],
        ]
    )
    # The rows of a household need not stand together; row 5 belongs to none.
    rows = [2, 1, 0, 0, -1, 1, 2, 3]
    return find_household_conflicts(zeros, np.empty((4, 0)), members, [2, 2, 2, 1], rows)


def test_households_are_counted_by_rule_and_told_by_row():
    found = conflicts()
    assert found.n_households == 3
    assert [rule.n_records for rule in found.rules] == [2, 0, 1]
    assert [rule.first_rows for rule in found.rules] == [(1, 8), (), (2,)]
    assert found.rows(0).tolist() == [1, 7, 8]
    assert found.rows(2).tolist() == [2, 6]
    said = found.message("survey.csv")
    assert said.splitlines()[:3] == [
        "3 of 4 households break a rule of what is impossible, in survey.csv; the rows are those "
        "in which they begin:",
        "  one head: 2 households, rows 1, 8",
        "  child.AGE > head.AGE - 12: 1 household, row 2",
    ]
    assert not any(value in said for value in ("40", "77", "50"))


def test_roles_that_nobody_has_are_a_warning():
    (said,) = conflicts().warnings
    assert said.startswith("Nobody in the data has the role 'spouse' (REL == \"spouse\"), so the")


def test_rules_about_other_keys_are_refused():
    zeros = HouseholdZeros.of(RULES, ROLES, (), (AGE, REL))
    with pytest.raises(SpecError, match="made for other keys"):
        find_household_conflicts(zeros, np.empty((1, 0)), [[[1, 2, 3]]], [1], [0])
    with pytest.raises(SpecError, match="made for other keys"):
        find_household_conflicts(zeros, np.empty((1, 0)), [[[1, 9]]], [1], [0])
