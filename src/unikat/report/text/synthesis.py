"""The sentences of a synthesis."""

from __future__ import annotations

from unikat.report.facts.synthesis import IntervalFacts, SynthesisSummary
from unikat.report.text.numbers import counted, listed, percent, verb

ORDERS = {1: "one-way", 2: "two-way", 3: "three-way"}
METHODS = {
    "truncated": "The model obeys the household rules in the fit and in drawing.",
    "untruncated": "Comparator: the household rules were ignored, so impossible households occur.",
    "reject": "Comparator: the fit ignored the household rules, and impossible households were "
    "thrown away when drawn.",
    "flat": "Comparator: persons were drawn one by one by latent classes, without regard to "
    "households.",
}
_MOST_LISTED = 20


def sentences(found: SynthesisSummary) -> dict[str, str]:
    """Say what every number means, by its place."""
    said = {
        "files": _files(found),
        "fit": _fit(found),
        "margins": "Distance is the share of records that would have to change for the synthetic "
        "margin to be that of the original; chance alone would give the expected one between two "
        "samples of this size. A pMSE ratio of 1 is that of records drawn from the original's own "
        "shares, of 2 that of a second sample of the population; far above 2, the synthetic files "
        "differ from the original by more than chance.",
        "repeated": f"{percent(found.repeated)} of the synthetic records have the values of "
        "exactly one original record in all keys. This is no measure of disclosure by itself: "
        "records drawn at random repeat frequent and rare combinations too.",
    }
    if found.replaced:
        said["margins"] += (
            " Shares are compared given the keys that were kept; margins of kept keys alone agree "
            "and are left out."
        )
    if weighted(found):
        said["margins"] += (
            " The weighted distance counts each record by its sample weight, as estimates for the "
            "population do."
        )
    if found.original.n_households is not None:
        said["margins"] += (
            " Margins are those of persons. Members of a household are alike, so that samples of "
            "households differ by more than these numbers expect."
        )
    if found.original.left_out:
        n = len(found.original.left_out)
        said["left_out"] = (
            f"{counted(n, 'column')} of the input {'is no key' if n == 1 else 'are no keys'} and "
            f"{verb(n, 'were')} left out: {_some(found.original.left_out)}."
        )
    if n_broken := found.original.n_rows_left_out:
        said["rows_left_out"] = (
            f"{counted(n_broken, 'row')} of the input {verb(n_broken, 'break')} a rule and "
            f"{verb(n_broken, 'have')} no counterpart in the synthetic files."
        )
    if found.fit.method is not None and (found.fit.method == "flat" or found.impossible):
        said["method"] = METHODS[found.fit.method]
    if found.impossible is not None:
        worst = max(found.impossible.shares)
        said["impossible"] = (
            f"No synthetic {found.impossible.unit} breaks a rule."
            if worst == 0.0
            else f"Up to {percent(worst)} of the {found.impossible.unit}s of a synthetic file "
            "break a rule."
        )
    if found.shares:
        said["shares"] = (
            f"Probabilities within households with {percent(found.level)} confidence intervals, "
            f"from the original as {'a sample' if weighted(found) else 'a simple random sample'} "
            f"of households{' with these weights' if weighted(found) else ''}, and from the "
            "synthetic files by the combining rule of Reiter (2003)."
        )
    return said


def warnings(found: SynthesisSummary) -> tuple[str, ...]:
    """Warn of what should be looked at before the files are used."""
    said = []
    if not found.converged:
        said.append(
            f"The chains have not converged ({found.fit.stop_reason}): the synthetic files may "
            "not be draws from the posterior distribution. Raise the limit and continue with "
            "--resume."
        )
    return tuple(said)


def weighted(found: SynthesisSummary) -> bool:
    """Whether records have sample weights."""
    return any(one.distance_weighted is not None for one in found.margins)


def _files(found: SynthesisSummary) -> str:
    units = counted(found.original.n_records, "record")
    if found.original.n_households is not None:
        units = f"{counted(found.original.n_households, 'household')} and {units}"
    what = (
        f"in which {listed(found.replaced)} {verb(len(found.replaced), 'were')} drawn "
        f"for each {'record' if found.original.n_households is None else 'household'} given its "
        "other keys"
        if found.replaced
        else "all of whose keys were drawn"
        if found.original.n_households is None
        else "all of whose keys were drawn; the sizes of the households are those of the original"
    )
    each = "" if found.datasets == 1 else "each "
    return f"{counted(found.datasets, 'synthetic file')}, {each}with {units}, {what}."


def _fit(found: SynthesisSummary) -> str:
    fit = found.fit
    state = "converged" if fit.converged else f"did not converge ({fit.stop_reason})"
    return (
        f"The model {fit.model} was fitted by {counted(fit.chains, 'chain')} of "
        f"{counted(fit.sweeps, 'sweep')}, which {state}. Each file was drawn from a posterior "
        "state of its own."
    )


def _some(names: tuple[str, ...]) -> str:
    if len(names) <= _MOST_LISTED:
        return listed(names)
    return f"{', '.join(names[:_MOST_LISTED])} and {len(names) - _MOST_LISTED} more"


def terminal_rows(found: SynthesisSummary) -> list[tuple[str, ...]]:
    """Rows of the table of margins."""
    more = ("weighted",) if weighted(found) else ()
    rows: list[tuple[str, ...]] = [
        ("margins", "number", "distance", "by chance", *more, "pMSE ratio")
    ]
    rows += [
        (
            ORDERS[one.order],
            f"{one.n_margins:,}",
            f"{one.distance:.4f}",
            f"{one.distance_expected:.4f}",
            *(() if one.distance_weighted is None else (f"{one.distance_weighted:.4f}",)),
            f"{one.pmse_ratio:.2f}",
        )
        for one in found.margins
    ]
    return rows


def share_rows(found: SynthesisSummary) -> list[tuple[str, ...]]:
    """Rows of the table of probabilities within households."""
    rows: list[tuple[str, ...]] = [("within households", "original", "synthetic")]
    for share in found.shares:
        rows.append((share.text, interval(share.original), interval(share.synthetic)))
    return rows


def interval(found: IntervalFacts | None) -> str:
    """Write a probability with its interval."""
    if found is None:
        return "no such household"
    return f"{found.estimate:.3f} ({found.lower:.3f} to {found.upper:.3f})"
