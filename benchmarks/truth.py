"""Estimates beside known truths, for several seeds: do they converge, agree, and cover?

    python benchmarks/truth.py
    python benchmarks/truth.py --files hdp_synthetic_1000 --seeds 1 2 --max-seconds 60
    python benchmarks/truth.py --files ny2000_sz_1000 ny2000_sz_10000 --models latent-class hdp

Seeds agree when the squared distances of their means from the common mean, in Monte Carlo
standard errors (ArviZ), are what chi-square with (seeds - 1) degrees of freedom gives.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common import TRUTH, cell_table, machine, markdown_row, zeros_table

if TYPE_CHECKING:
    from unikat.inference.draws import Draws

ZEROS: dict[str, int | None] = {"ny2000_sz_1000": 11, "ny2000_sz_10000": None}
"""Samples with structural zeros, N = 953,076; the sources disagree on the larger: 88 or 125."""
HEAD = [
    "file",
    "model",
    "seed",
    "stopped",
    "sweeps",
    "seconds",
    "R-hat",
    "ESS",
    "τ1 [95%]",
    "expected τ1 [95%]",
    "true τ1",
    "inside",
]


def mcse(draws: Draws, name: str) -> float:
    """Monte Carlo standard error of a scalar's mean."""
    from arviz_stats.base import array_stats

    return float(array_stats.mcse(draws.retained(name), method="mean"))


def agreement(means: Sequence[float], errors: Sequence[float]) -> str:
    """Chi-square of means about their weighted mean, with its probability."""
    import numpy as np
    from scipy.stats import chi2

    mean, error = np.array(means), np.array(errors)
    common = np.average(mean, weights=error**-2)
    distance, freedom = float((((mean - common) / error) ** 2).sum()), len(mean) - 1
    return f"{common:.2f}, χ²({freedom}) = {distance:.1f}, p = {chi2.sf(distance, freedom):.3f}"


def run(name: str, label: str, seeds: Sequence[int], max_seconds: float | None) -> str:
    """Print a row per seed and return what the seeds say together."""
    from unikat import fit
    from unikat.inference.diagnostics import worst_ess, worst_rhat
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.named import build_model
    from unikat.spec.model import ModelSpec

    known: dict[str, int | None] = {**TRUTH, **ZEROS}
    true = known[name]
    table = zeros_table(name) if name in ZEROS else cell_table(name)
    plan = Plan(stop=StopRule(max_seconds=max_seconds))
    spec = ModelSpec.of(label)
    model = build_model(spec.name, spec.options)
    means: dict[str, list[float]] = {"tau1": [], "tau1_expected": []}
    errors: dict[str, list[float]] = {"tau1": [], "tau1_expected": []}
    n_converged = n_inside = 0
    for seed in seeds:
        fitted = fit(model, table, seed=seed, plan=plan)
        draws, estimate = fitted.draws, fitted.estimate()
        tau1, expected = estimate.tau1, estimate.tau1_expected
        inside = true is not None and tau1.lower <= true <= tau1.upper
        n_converged += draws.converged
        n_inside += inside
        for scalar in means:
            means[scalar].append(float(draws.retained(scalar).mean()))
            errors[scalar].append(mcse(draws, scalar))
        values = [
            name,
            label,
            seed,
            draws.stop_reason,
            draws.n_sweeps,
            f"{draws.seconds:.1f}",
            f"{worst_rhat(draws.diagnostics):.3f}",
            f"{worst_ess(draws.diagnostics):.0f}",
            f"{tau1.mean:.2f} [{tau1.lower:.0f}, {tau1.upper:.0f}]",
            f"{expected.mean:.2f} [{expected.lower:.2f}, {expected.upper:.2f}]",
            "unknown" if true is None else true,
            "–" if true is None else "yes" if inside else "no",
        ]
        print(markdown_row(values), flush=True)
    parts = [f"{n_converged} of {len(seeds)} converged"]
    if true is not None:
        parts[0] += f", {n_inside} of {len(seeds)} hold {true}"
    if len(seeds) > 1:
        parts += [
            f"{label} {agreement(means[scalar], errors[scalar])}"
            for scalar, label in (("tau1", "τ1"), ("tau1_expected", "expected τ1"))
        ]
    return f"- {name}, {label}: {'; '.join(parts)}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", nargs="+", choices=[*TRUTH, *ZEROS], default=list(TRUTH))
    parser.add_argument("--models", nargs="+", default=["hdp"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--max-seconds", type=float, default=None, help="for each file and seed")
    options = parser.parse_args()
    print(machine(), end="\n\n")
    print(markdown_row(HEAD))
    print(markdown_row("-" * len(title) for title in HEAD))
    together = [
        run(name, label, options.seeds, options.max_seconds)
        for name in options.files
        for label in options.models
    ]
    print("\n" + "\n".join(together))


if __name__ == "__main__":
    main()
