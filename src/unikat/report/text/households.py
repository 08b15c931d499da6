"""Sentences on household risk; and a report whose units are households, in words for households."""

from __future__ import annotations

import re
from collections.abc import Mapping

from unikat.errors import listed
from unikat.report.facts.households import HouseholdsResult
from unikat.report.facts.result import Result
from unikat.report.text.numbers import counted, interval, number, percent

_WORDS = (
    ("anyone who knows these values of a person can find the person's record",
     "anyone who knows these values of a household can find it in the file"),
    ("anyone who knows these values of a person can find the person&#39;s record",
     "anyone who knows these values of a household can find it in the file"),
    ("by row number (the first record is 1)", "by the row in which they begin"),
    ("by row number (the first record is row 1)", "by the row in which they begin"),
    ("matched to the right person", "matched to the right household"),
    ("of a person", "of a household"),
    ("of people", "of households"),
    ("population unit", "household of the population"),
    ("population units", "households of the population"),
    ("Records", "Households"),
    ("records", "households"),
    ("Record", "Household"),
    ("record", "household"),
)  # fmt: skip
"""In this order; names of files stay."""
_FILE = re.compile(r"records(?:-at-risk\.csv|\.parquet)")
_IN_FIGURES = re.compile(r"\b([\d,.]+) in ([\d,]+) records?")
"""Labels that would not fit in a figure."""
_TAG = re.compile(r"(<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>)", re.DOTALL)


def of_households(text: str) -> str:
    """Return a text about records in words for households.

    Examples
    --------
    >>> of_households("The file has 9 records; records.parquet lists them.")
    'The file has 9 households; records.parquet lists them.'
    """
    parts = [_IN_FIGURES.sub(r"\1 of \2", part) for part in _FILE.split(text)]
    for before, after in _WORDS:
        parts = [re.sub(rf"\b{re.escape(before)}(?!\w)", after, part) for part in parts]
    files = _FILE.findall(text)
    return "".join(part + file for part, file in zip(parts, [*files, ""], strict=True))


def page_of_households(page: str) -> str:
    """Return an HTML page about records in words for households; tags stay as they are."""
    parts = _TAG.split(page)
    return "".join(part if i % 2 else of_households(part) for i, part in enumerate(parts))


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
    mean = found.tau1_independent.mean
    ratio = mean / found.tau1.mean if found.tau1.mean > 0 else float("inf")
    compared = "about as many" if 0.95 < ratio < 1.05 else f"{number(ratio)} times as many"
    return (
        "If the members of a household were independent of each other, about "
        f"{number(mean)} of the sample uniques would be unique in the population (95% "
        f"{interval(found.tau1_independent)}), {compared}. Members depend on each other, so this "
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
