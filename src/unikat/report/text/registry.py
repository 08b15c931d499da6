"""Which sentences are said on the risk of a registry's records."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.report.facts.registry import RegistryResult
from unikat.report.text.words import say


def sentences(found: RegistryResult | None) -> Mapping[str, str]:
    """Return sentences for the numbers of a registry, if there is one."""
    if found is None:
        return {}
    n_open = found.n_uniques - found.n_shared - found.n_possible
    said = {
        f"registry.{name}": say(f"registry.{name}", found=found)
        for name in ("tau2", "n_uniques", "n_possible", "limit")
    }
    said["registry"] = say(
        "registry.unique",
        found.n_shared and "registry.shared",
        n_open and "registry.open",
        "registry.these" if found.n_possible == found.n_uniques else "registry.others",
        found.n_unknown and "registry.unknown",
        found.n_impossible and "registry.impossible",
        found=found,
        n_open=n_open,
    )
    return said
