"""The sentences and tables of continuous variables."""

from __future__ import annotations

from functools import partial
from itertools import starmap

from unikat.protection.numeric.change import NumericColumn, NumericFacts
from unikat.protection.numeric.risk import Linkage
from unikat.report.text.language import wording
from unikat.report.text.numbers import digits, in_turn, listed, number, percent, significant, titled
from unikat.report.text.words import say
from unikat.spec.numeric import AS_IT_IS, Method

_LINKED = 0.2
"""Share of the records that are still found, above which it is told as a warning."""


def sentences(found: NumericFacts, tau2: float) -> dict[str, str]:
    """Say what was done to continuous variables, by the places of the sentences.

    Parameters
    ----------
    found
        The facts.
    tau2
        Correct matches by the keys of one who does not know who is in the file.
    """
    risk, exact = found.risk, found.risk.linkage[0]
    speak = partial(say, risk=risk, exact=exact, utility=found.utility, tau2=tau2)
    moved = max(found.utility.correlations, key=lambda one: abs(one.value.change), default=None)
    # Columns that were changed together are named once.
    done = {
        listed(sorted((one.name, *one.together), key=found.names.index)): method_words(one)
        for one in found.columns
    }
    said = in_turn(starmap(titled, done.items()))
    return {
        "numeric": say("numeric.changed", n=len(found.columns), done=said),
        "numeric_risk": speak("numeric.linkage"),
        "numeric_kept": speak(
            "numeric.kept",
            moved and "numeric.correlation",
            "numeric.near",
            "numeric.references",
            moved=moved,
        ),
    }


def warnings(found: NumericFacts) -> tuple[str, ...]:
    """Say what should be looked at."""
    exact, keys = found.risk.linkage[0], found.risk.keys_after
    linked = exact.after > max(_LINKED, 2.0 * keys)
    return tuple([say("numeric.warning.linked", exact=exact, keys=keys)] if linked else []) + tuple(
        say(f"numeric.warning.{code}", one=one)
        for one in found.columns
        for code, told in (
            ("labelled", one.n_labelled),
            ("emptied", one.n_emptied),
            ("unchanged", not one.n_changed and one.methods != (AS_IT_IS,)),
            ("idle", one.n_changed and one.idle),
        )
        if told
    )


def method_words(one: NumericColumn) -> str:
    """Say what was done to a variable: `values above 50,000 set to it, rounded to ...`."""
    said = []
    for method in map(Method.of, one.methods):
        is_whole = method.amount.is_integer()
        amount = number(method.amount) if is_whole else significant(method.amount, 15)
        if method.name in ("top", "bottom"):
            amount = say(f"numeric.{'percentile' if method.percent else 'value'}", amount=amount)
        elif method.percent:
            amount = say("numeric.share", amount=amount)
        code = "_".join((*method.name.split(), method.variant)).rstrip("_")
        within = say("numeric.within", by=listed(method.by)) if method.by else ""
        said.append(say(f"numeric.method.{code}", amount=amount, within=within))
    if one.by_household:
        said.append(say("numeric.by_household"))
    return ", ".join(said)


def numeric_rows(found: NumericFacts) -> list[tuple[str, ...]]:
    """Rows of the table of variables, its head first."""
    rows: list[tuple[str, ...]] = [tuple(wording("numeric.head.variables"))]
    for one in found.columns:
        moved = (one.kept.mean, one.kept.variance, one.kept.worst_quantile)
        near = (one.near_share, one.near_deviations, one.near_ranks)
        rows.append(
            (
                one.name,
                number(one.n_changed),
                # A change that rounds to nothing has no sign.
                *(digits(round(change.change, 2) + 0.0, 2) for change in moved),
                percent(one.kept.lost),
                *map(percent, near),
            )
        )
    return rows


def linkage_rows(found: NumericFacts) -> list[tuple[str, ...]]:
    """Rows of the table of linkage by what the intruder knows, its head first."""
    risk = found.risk

    def knows(one: Linkage) -> str:
        return say("numeric.digits" if one.digits else "numeric.exact", n=one.digits)

    return [
        tuple(wording("numeric.head.linkage")),
        (say("numeric.keys"), percent(risk.keys_before), percent(risk.keys_after)),
        *((knows(one), percent(one.before), percent(one.after)) for one in risk.linkage),
    ]
