"""The stage of a protection that perturbs records: from what is asked for to its facts.

A method that perturbs is checked, carried out and named here; `jobs/protect.py` knows none of them.
"""

from __future__ import annotations

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.table import CellTable
from unikat.protection.perturbed import (
    CorrectMatches,
    Perturbed,
    check_perturbation,
    links,
    perturb,
)
from unikat.protection.search import Plan
from unikat.protection.what_if import Posterior
from unikat.report.facts.protection import PerturbationFacts, PerturbedKey, RiskFacts
from unikat.risk.estimate import RiskEstimate
from unikat.spec.perturbation import SwapRule
from unikat.spec.protection import ProtectionSpec


def _swapped(spec: ProtectionSpec) -> SwapRule:
    """What is to be swapped; no keys if nothing is."""
    return SwapRule.of(spec.swap) if spec.swap else SwapRule((), 0.0)


def check_perturbed(spec: ProtectionSpec, table: CellTable) -> None:
    """Refuse a perturbation that cannot be done, before any work is (SpecError)."""
    check_perturbation(table, pram=spec.pram, swap=_swapped(spec).keys, match=spec.swap_match)


def not_recoded(spec: ProtectionSpec) -> list[str]:
    """Keys that a search may not recode: a matrix names the levels of the key as it is."""
    return [name for name, one in spec.pram.items() if isinstance(one, dict)]


def not_left_out(spec: ProtectionSpec) -> list[str]:
    """Keys that a search may not leave out, since they are perturbed, or partners agree in them."""
    return [*spec.perturbed, *spec.swap_match]


def perturbed_records(
    spec: ProtectionSpec,
    plan: Plan,
    risk: RiskEstimate,
    codes: Int32,
    rows: Int64,
    assessed: Int64,
    household: Int32 | None,
) -> Perturbed:
    """Perturb the recoded records, (n, n_recoded_keys).

    `rows` are those that were assessed, and `assessed` their numbers in the table of the sample.
    """
    assert spec.perturbation_seed is not None
    swap = _swapped(spec)
    keys = [one.key for one in plan.recoding.keys if one.key is not None]
    r1 = np.nan_to_num(risk.records.r1_published)[risk.table.record_cell[assessed]]
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
    posterior: Posterior,
    published: Int32,
) -> PerturbationFacts:
    """Say what was perturbed, and the risk after it.

    Parameters
    ----------
    spec, plan
        What was asked for, and the recoding before it.
    made, true
        The perturbed records, and their codes before, (n, n_recoded_keys).
    matches
        The risk of matches with the published file.
    posterior
        States of a model of the original file.
    published
        (n_assessed, n_recoded_keys): what the records show that were assessed.
    """
    others = made.codes != true
    names = [plan.recoding.keys[j].name for j in plan.recoding.kept]
    exchanged = _swapped(spec).keys
    linked = None
    if not exchanged:
        linked = links(posterior, plan.recoding, published, made.matrices)
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
    worst = max(found, key=lambda one: (one.tau1.upper, one.tau1.mean))
    return RiskFacts(
        n_uniques=found[0].n_uniques,
        smallest=min(one.smallest for one in found),
        tau1=worst.tau1,
        tau1_bins=worst.tau1_bins,
        tau2=max((one.tau2 for one in found), key=lambda tau: (tau.upper, tau.mean)),
        tau1_hidden=found[-1].tau1_hidden,
    )
