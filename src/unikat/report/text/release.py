"""Which sentences are said on the risk of who has another release of the same persons, too."""

from __future__ import annotations

from collections.abc import Mapping

from unikat.report.facts.result import Result
from unikat.report.text.numbers import listed
from unikat.report.text.words import say


def sentences(result: Result) -> Mapping[str, str]:
    """Return the sentences on another release, if there is one."""
    found = result.release
    if found is None:
        return {}
    guessed = found.links - found.n_certain
    said = say(
        "release.all",
        found.n_both is not None and "release.both",
        "release.certain",
        found.n_wrong and "release.wrong",
        found.n_both is None and "release.unknown",
        round(guessed) > 0 and "release.guess",
        "release.none" if found.tau1 is None else "release.risk",
        found=found,
        result=result,
        other=found.data or say("release.other"),
        shared=listed(found.shared),
        guessed=round(guessed),
    )
    return {"release": said}
