"""Impossible combinations: readable rules into conditions and a diagram of what is possible."""

from unikat.zeros.disjoint_conditions import disjoint
from unikat.zeros.household_conflicts import HouseholdConflicts, find_household_conflicts
from unikat.zeros.household_rules import HouseholdZeros
from unikat.zeros.suggest import Suggestion, suggest
from unikat.zeros.tables import conditions_from_table
from unikat.zeros.writing import rule_text
from unikat.zeros.zeros import Rule, Zeros

__all__ = [
    "HouseholdConflicts",
    "HouseholdZeros",
    "Rule",
    "Suggestion",
    "Zeros",
    "conditions_from_table",
    "disjoint",
    "find_household_conflicts",
    "rule_text",
    "suggest",
]
