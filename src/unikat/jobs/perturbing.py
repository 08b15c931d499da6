"""What is perturbed, checked before any work, and its facts."""

from __future__ import annotations

import numpy as np

from unikat.data.table import CellTable
from unikat.protection.perturbed import CorrectMatches, check_perturbation, links
from unikat.protection.release import Release, Releases
from unikat.report.facts.protection import PerturbationFacts, PerturbedKey, RiskFacts
from unikat.risk.estimate import RiskEstimate
from unikat.spec.perturbation import SwapRule
from unikat.spec.protection import ProtectionSpec


def check_perturbed(spec: ProtectionSpec, table: CellTable) -> None:
    """Refuse a perturbation that cannot be done, before any work is (SpecError)."""
    swap = SwapRule.of(spec.swap).keys if spec.swap else ()
    for pram in spec.perturbations:
        check_perturbation(table, pram=pram, swap=swap, match=spec.swap_match)


def not_recoded(spec: ProtectionSpec) -> list[str]:
    """Keys that a search may not recode: a matrix names the levels of the key as it is."""
    return [name for name, one in spec.pram.items() if isinstance(one, dict)]


def not_left_out(spec: ProtectionSpec) -> list[str]:
    """Keys that a search may not leave out, since they are perturbed, or partners agree in them."""
    # Where it may stay unperturbed it may be left out, too.
    some = [name for name in spec.perturbed if 1.0 not in _probabilities(spec.pram.get(name))]
    return [*some, *spec.swap_match]


def _probabilities(given: object) -> tuple[float, ...]:
    """Several probabilities of a key; none where one, or a matrix, is told."""
    return given if isinstance(given, tuple) else ()


def perturbation_facts(
    releases: Releases, release: Release, matches: CorrectMatches
) -> PerturbationFacts | None:
    """Say what was perturbed, and the risk after it; None if nothing was."""
    made, true, recoding = release.perturbed, release.recoded, release.plan.recoding
    if made is None:
        return None
    others = made.codes != true
    names = [recoding.keys[j].name for j in recoding.kept]
    exchanged = () if releases.swap is None else releases.swap.keys
    linked = None
    if not exchanged:
        shown = release.visible[release.rows]
        linked = links(releases.posterior, recoding, shown, made.matrices)
    return PerturbationFacts(
        keys=tuple(
            PerturbedKey(
                name=name,
                method="PRAM" if name in release.pram else "swapping",
                kept=None
                if name in exchanged
                else float(np.diag(made.matrices[j])[true[true[:, j] >= 0, j]].mean()),
                n_changed=int(others[:, j].sum()),
            )
            for j, name in enumerate(names)
            if name in release.pram or name in exchanged
        ),
        n_records=int(others.any(axis=1).sum()),
        n_left=made.n_left if exchanged else None,
        n_uniques=matches.n_uniques,
        smallest=matches.smallest,
        n_true=matches.n_true,
        tau1=matches.tau1,
        tau2=matches.tau2,
        ignored=matches.ignored,
        links=linked,
    )


def released_facts(
    plan: RiskFacts, released: RiskFacts | None, refit: RiskEstimate | None
) -> RiskFacts:
    """The risk of the file as it is released: the less favourable of plan and new fit.

    Parameters
    ----------
    plan
        After the recoding, by the model of the file as it was.
    released
        The same after suppression and perturbation; None if there was none.
    refit
        By a fit of the released file; None of a perturbed one, which no fit takes for what it is.
    """
    found = [released or plan]
    if refit is not None:
        found.append(RiskFacts.of(refit))
    worst = max(found, key=lambda one: (one.tau1.upper, one.tau1.mean))
    return RiskFacts(
        n_uniques=found[0].n_uniques,
        n_alone=max((one.n_alone for one in found if one.n_alone is not None), default=None),
        smallest=min(one.smallest for one in found),
        tau1=worst.tau1,
        tau1_bins=worst.tau1_bins,
        tau2=max((one.tau2 for one in found), key=lambda tau: (tau.upper, tau.mean)),
        tau1_hidden=found[-1].tau1_hidden,
    )
