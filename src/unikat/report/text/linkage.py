"""Links of an intruder whose keys have errors, in words."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.report.facts.linkage import LinkageResult
from unikat.report.text.words import say


def sentences(found: LinkageResult | None) -> Mapping[str, str]:
    """Return sentences for the numbers of linkage, if there are any."""
    if found is None:
        return {}
    names = ("correct", "exact", "without_errors", "limit")
    said = {f"linkage.{name}": say(f"linkage.{name}", found=found) for name in names}
    said["linkage"] = say("linkage.expected", "linkage.instead", found=found)
    return said
