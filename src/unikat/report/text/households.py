"""Which sentences are said on the households of a file, where they are the units."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.report.facts.households import HouseholdsFacts, HouseholdsResult
from unikat.report.facts.result import Result
from unikat.report.text.numbers import some
from unikat.report.text.words import say


def sentences(result: Result) -> Mapping[str, str]:
    """Return the sentences on the households; none where the units are persons."""
    found = result.households
    if found is None:
        return {}
    said = {
        "households": assessed(found),
        "households.size": say("households.size"),
        "sample.n_records": say("households.records", found=found),
    }
    if found.tau1_independent is not None:
        said["households.tau1_independent"] = independent(found)
    if found.rules:
        said["households.rules"] = rules(found)
    return said


def described(found: HouseholdsFacts | None) -> str:
    """Say what a household is and what is impossible; nothing where the units are persons."""
    if found is None:
        return ""
    parts = [assessed(found), say("households.size"), rules(found) if found.rules else ""]
    return " ".join(part for part in parts if part)


def rules(found: HouseholdsFacts) -> str:
    """Say how many rules there are, and how many households were left out for them."""
    return say(
        "households.rule" if len(found.rules) == 1 else "households.rules",
        found.n_left_out and "households.left_out",
        found=found,
        n=len(found.rules),
        part=found.n_left_out / max(found.n_left_out + found.n_households, 1),
    )


def assessed(found: HouseholdsFacts) -> str:
    """Say what was taken as known of a household."""
    own = [name for name in found.household_keys if name != "size"]
    keys = say("households.size_and", own=some(own, 6)) if own else say("households.size_alone")
    head = found.head_apart and "households.head"
    return say("households.assessed", head, found=found, keys=keys)


def independent(found: HouseholdsResult) -> str:
    """Say what the risk would be if members were independent."""
    assert found.tau1_independent is not None
    compared = ""
    if found.tau1.mean > 0:
        ratio = found.tau1_independent.mean / found.tau1.mean
        same = 0.95 < ratio < 1.05
        compared = say("households.same" if same else "households.times", ratio=ratio)
    return say("households.independent", found=found, compared=compared)
