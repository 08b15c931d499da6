"""The stage of a protection that perturbs records: from what is asked for to its facts."""

from __future__ import annotations

import numpy as np

from unikat._typing import Int32, Int64
from unikat.protection.perturbed import CorrectMatches, Links, Perturbed, perturb
from unikat.protection.search import Plan
from unikat.report.facts.protection import PerturbationFacts, PerturbedKey, RiskFacts
from unikat.risk.estimate import RiskEstimate
from unikat.spec.perturbation import SwapRule
from unikat.spec.protection import ProtectionSpec


def swapped(spec: ProtectionSpec) -> SwapRule:
    """What is to be swapped; no keys if nothing is."""
    return SwapRule.of(spec.swap) if spec.swap else SwapRule((), 0.0)


def perturbed_records(
    spec: ProtectionSpec,
    plan: Plan,
    risk: RiskEstimate,
    codes: Int32,
    rows: Int64,
    household: Int32 | None,
) -> Perturbed:
    """Perturb the recoded records, (n, n_recoded_keys); `rows` are those that were assessed."""
    assert spec.perturbation_seed is not None
    swap = swapped(spec)
    keys = [one.key for one in plan.recoding.keys if one.key is not None]
    r1 = np.nan_to_num(risk.records.r1_published)[risk.table.record_cell]
    targets = np.zeros(len(codes))
    targets[rows] = np.where(r1 > swap.above, r1, 0.0)
    names = {key.name for key in keys}
    return perturb(
        codes,
        keys,
        pram=spec.pram,
        swap=swap.keys,
        match=[name for name in spec.swap_match if name in names],
        targets=targets,
        household=household,
        seed=spec.perturbation_seed,
    )


def perturbation_facts(
    spec: ProtectionSpec,
    plan: Plan,
    made: Perturbed,
    true: Int32,
    matches: CorrectMatches,
    linked: Links | None,
) -> PerturbationFacts:
    """Say what was perturbed, and the risk after it."""
    others = made.codes != true
    names = [plan.recoding.keys[j].name for j in plan.recoding.kept]
    exchanged = swapped(spec).keys
    return PerturbationFacts(
        keys=tuple(
            PerturbedKey(
                name=name,
                method="PRAM" if name in spec.pram else "swapping",
                kept=None
                if name in exchanged
                else float(np.diag(made.matrices[j])[true[true[:, j] >= 0, j]].mean()),
                n_changed=int(others[:, j].sum()),
            )
            for j, name in enumerate(names)
            if name in spec.pram or name in exchanged
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
    return RiskFacts(
        n_uniques=found[0].n_uniques,
        smallest=min(one.smallest for one in found),
        tau1=max((one.tau1 for one in found), key=lambda tau: (tau.upper, tau.mean)),
        tau2=max((one.tau2 for one in found), key=lambda tau: (tau.upper, tau.mean)),
        tau1_hidden=found[-1].tau1_hidden,
    )
