"""The risk of a registry's records in words."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.report.facts.registry import RegistryResult
from unikat.report.text.numbers import counted, interval, number, percent


def sentences(found: RegistryResult | None) -> Mapping[str, str]:
    """Return sentences for the numbers of a registry, if there is one."""
    if found is None:
        return {}
    unknown = (
        f" {counted(found.n_unknown, 'registry record')} {_have(found.n_unknown)} a value that no "
        "survey record has. Their risk is not known and may be high."
        if found.n_unknown
        else ""
    )
    if found.n_impossible:
        unknown += (
            f" {counted(found.n_impossible, 'registry record')} {_have(found.n_impossible)} a "
            "combination with probability zero under the model. Their risk is not known either."
        )
    return {
        "registry": (
            f"{_uniques(found)} Of {_possible(found)}, about "
            f"{number(found.tau1.median)} {'is' if number(found.tau1.median) == '1' else 'are'} "
            f"also unique in the population ({interval(found.tau1)}).{unknown}"
        ),
        "registry.tau2": (
            f"An intruder who matches each of these {found.n_possible:,} records to a population "
            "unit with the same key values, at random among several, would be correct about "
            f"{number(found.tau2.median)} times ({interval(found.tau2)})."
        ),
        "registry.n_uniques": (
            f"complete records that are unique in the registry, "
            f"{percent(found.n_uniques / max(found.n_records, 1))} of its "
            f"{counted(found.n_records, 'record')}"
        ),
        "registry.n_possible": (
            "of these, the records that may be unique in the population: the survey has at most "
            "one record with the combination, and its probability is not zero"
        ),
        "registry.limit": (
            "Population counts are estimated from the survey alone; the registry is not treated as "
            "a sample. Units of the survey are assumed to be registered as often as others with "
            "the same combination; if they are registered more often, the risk is understated. "
            "How many units outside the survey are registered is estimated from single keys. "
            "If registration is higher for a combination than for each of its values, the risk is "
            "understated. Registry units outside the survey's population are counted wrongly."
        ),
    }


def _uniques(found: RegistryResult) -> str:
    """Say how many records are unique in the registry, and how many cannot be at risk."""
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
        said += f" The risk of {counted(n_open, 'record')} is not known."
    return said


def _possible(found: RegistryResult) -> str:
    n = found.n_possible
    if n == found.n_uniques:
        return "these"
    return f"the other {n:,}"


def _have(n: int) -> str:
    return "has" if n == 1 else "have"
