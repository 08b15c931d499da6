"""What a run says of a registry: facts for `result.json`, sentences, and `registry.parquet`."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.report.facts.registry import RegistryResult
from unikat.report.text.numbers import counted, interval, number, percent


def sentences(found: RegistryResult | None) -> Mapping[str, str]:
    """Return sentences for the numbers of a registry, if there is one."""
    if found is None:
        return {}
    unknown = (
        f" {counted(found.n_unknown, 'record')} of it {_have(found.n_unknown)} a value that no "
        "record of the survey has: of these nothing is known, and they may well be at risk."
        if found.n_unknown
        else ""
    )
    if found.n_impossible:
        unknown += (
            f" {counted(found.n_impossible, 'record')} of it {_have(found.n_impossible)} a "
            "combination that the model takes for impossible, and that occurs: of these nothing is "
            "known either."
        )
    return {
        "registry": (
            f"{_uniques(found)} Of {_possible(found)}, about "
            f"{number(found.tau1.median)} {'is' if number(found.tau1.median) == '1' else 'are'} "
            f"also unique in the population ({interval(found.tau1)}).{unknown}"
        ),
        "registry.tau2": (
            "Correct matches of an intruder who links each of these records "
            f"({found.n_possible:,}) to a unit of the population, at random among those that agree "
            f"with it: {number(found.tau2.median)} ({interval(found.tau2)})."
        ),
        "registry.n_uniques": (
            f"complete records that are alone with their combination in the registry, "
            f"{percent(found.n_uniques / max(found.n_records, 1))} of its "
            f"{counted(found.n_records, 'record')}"
        ),
        "registry.n_possible": (
            "of these, the records that may be unique in the population: the survey has at most "
            "one record with the combination, and the model knows it"
        ),
        "registry.limit": (
            "The population's counts come from the survey alone: the registry is taken to be no "
            "sample of anything. A record of the survey with the combination of one of the "
            "registry is taken to be the same unit, which makes the risk higher than otherwise, "
            "never lower. How many of the units that the survey does not have are registered, and "
            "so would be seen, is told by single keys: where it is more of a combination than of "
            "any of its values, the risk comes out too low. A unit of the registry that is outside "
            "the survey's population is not counted rightly."
        ),
    }


def _uniques(found: RegistryResult) -> str:
    """Say how many records are unique in the registry, and which of them cannot be at risk."""
    n, shared = found.n_uniques, found.n_shared
    said = f"{counted(n, 'record')} {'is' if n == 1 else 'are'} unique in the registry."
    if shared:
        share = "shares its" if shared == 1 else "share their"
        said += (
            f" {counted(shared, 'record')} of these {share} combination with two or more records "
            "of the survey and cannot be unique in the population."
        )
    n_open = n - shared - found.n_possible
    if n_open:
        said += f" Of {counted(n_open, 'record')} nothing is known."
    return said


def _possible(found: RegistryResult) -> str:
    n = found.n_possible
    if n == found.n_uniques:
        return "these"
    return f"the other {n:,}"


def _have(n: int) -> str:
    return "has" if n == 1 else "have"
