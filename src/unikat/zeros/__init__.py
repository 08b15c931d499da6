"""Impossible combinations: readable rules into conditions and a diagram of what is possible."""

from unikat.zeros.tables import conditions_from_table
from unikat.zeros.zeros import Rule, Zeros

__all__ = ["Rule", "Zeros", "conditions_from_table"]
