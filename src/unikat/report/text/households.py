"""Sentences on the households of a file, where they are the units."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.errors import listed
from unikat.report.facts.households import HouseholdsResult
from unikat.report.facts.result import Result
from unikat.report.text.numbers import counted, interval, number, percent


def sentences(result: Result) -> Mapping[str, str]:
    """Return the sentences on the households; none where the units are persons."""
    found = result.households
    if found is None:
        return {}
    said = {
        "households": assessed(found),
        "households.size": (
            "Size, household keys and the keys of all members together make a household unique; "
            "members have no order."
        ),
        "sample.n_records": f"The file has {counted(found.n_households, 'household')} of "
        f"{counted(found.n_persons, 'person')}.",
    }
    if found.tau1_independent is not None:
        said["households.tau1_independent"] = independent(found)
    if found.rules:
        said["households.rules"] = _rules(found)
    return said


def assessed(found: HouseholdsResult) -> str:
    """Say what was taken as known of a household."""
    own = listed([name for name in found.household_keys if name != "size"], 6)
    keys = f"its size{' and ' + own if own else ''}"
    head = " The head counts by the household's keys alone." if found.head_apart else ""
    return (
        f"{counted(found.n_households, 'household')} hold {counted(found.n_persons, 'person')}. "
        f"An intruder is assumed to know of a household {keys}, and of every member "
        f"{listed(found.person_keys, 6)}.{head}"
    )


def independent(found: HouseholdsResult) -> str:
    """Say what the risk would be if members were independent."""
    assert found.tau1_independent is not None
    mean, compared = found.tau1_independent.mean, ""
    if found.tau1.mean > 0:
        ratio = mean / found.tau1.mean
        compared = ", about as many" if 0.95 < ratio < 1.05 else f", {number(ratio)} times as many"
    return (
        "If the members of a household were independent of each other, about "
        f"{number(mean)} of the sample uniques would be unique in the population (95% "
        f"{interval(found.tau1_independent)}){compared}. Members depend on each other, so this "
        "is not an estimate of the risk; it shows what multiplying the risks of persons would give."
    )


def _rules(found: HouseholdsResult) -> str:
    said = f"{counted(len(found.rules), 'rule')} say what is impossible in a household."
    if len(found.rules) == 1:
        said = "One rule says what is impossible in a household."
    if found.n_left_out:
        share = percent(found.n_left_out / (found.n_left_out + found.n_households))
        said += f" {counted(found.n_left_out, 'household')} ({share}) broke one and were left out."
    return said
