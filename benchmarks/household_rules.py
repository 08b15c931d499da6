"""Household rules: nanoseconds for a household of three members and six rules of a census.

    python benchmarks/household_rules.py

Possible households pass all rules; random ones are looked at up to the first broken rule. The time
is that of the processor, the fastest of several blocks.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import machine

from unikat.data import Key
from unikat.kernels.household_rules import first_rules, household_scratch
from unikat.zeros.household_rules import HouseholdZeros

RELATIONS = ("head", "spouse", "child", "parent", "other")
KEYS = (
    Key.of_size("AGE", 100),
    Key(name="REL", levels=RELATIONS, labels=RELATIONS),
    Key.of_size("SEX", 2),
    Key.of_size("EDUC", 9),
)
ROLES = {name: f'REL == "{name}"' for name in RELATIONS[:4]}
RULES = (
    'count(REL == "head") != 1',
    'count(REL == "spouse") > 1',
    "spouse.AGE < 16",
    "child.AGE > head.AGE - 12",
    "parent.AGE < head.AGE + 12",
    "max(AGE) - min(AGE) > 98",
)


def main() -> None:
    """Time possible and random households."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--households", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=10)
    options = parser.parse_args()
    print(machine())
    n, m = options.households, options.members
    zeros = HouseholdZeros.of(RULES, ROLES, (), KEYS)
    rng = np.random.default_rng(1)
    random = rng.integers(0, [key.n_levels for key in KEYS], (n, m, len(KEYS))).astype(np.int32)
    possible = random.copy()
    possible[:, :, 0] = rng.integers(5, 20, (n, m))
    possible[:, :, 1] = 2
    possible[:, 0, :2] = np.column_stack([rng.integers(35, 60, n), np.zeros(n, int)])
    possible[:, 1:2, 0] = rng.integers(25, 60, (n, 1))
    possible[:, 1:2, 1] = 1
    scratch = household_scratch(zeros.program, m)
    found = np.empty(n, np.int64)
    house, sizes = np.empty((n, 0), np.int32), np.full(n, m)
    for name, members in (("possible", possible), ("random", random)):
        times = []
        for _ in range(options.blocks + 1):
            started = time.process_time()
            first_rules(zeros.program, house, members, sizes, scratch, found)
            times.append((time.process_time() - started) / n * 1e9)
        share = np.mean(found < 0)
        print(
            f"{name}: {min(times[1:]):.0f} ns a household of {m}, {len(RULES)} rules; {share:.0%} "
            "of them possible"
        )


if __name__ == "__main__":
    main()
