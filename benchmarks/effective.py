"""Effective draws of tau1 per second, all cores.

    python benchmarks/effective.py --seconds 60

Four chains run until the time is up, whether they have converged or not. Effective draws are
ArviZ's bulk ESS over the retained draws; they are divided by the time of the whole call (workers
starting, burn-in and diagnostics included; kernels are compiled before) and by the time in which
the retained draws were made.
"""

from __future__ import annotations

import argparse
import itertools
import time

from common import cell_table, machine, print_table

from unikat.inference.progress import Watcher

FILES = ["ny2000_clean_10000", "hdp_synthetic_10000"]


def measure(
    name: str, label: str, *, budget: float, chains: int, seed: int, thin: int | None
) -> list[list]:
    """Rows of the result for one file."""
    from unikat import fit
    from unikat.inference.diagnostics import diagnose
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.named import build_model
    from unikat.risk.measures import RiskMeasures
    from unikat.spec.model import ModelSpec
    from unikat.studies.auto import Execution

    table = cell_table(name)
    spec = ModelSpec.of(label)
    model = build_model(spec.name, spec.options)
    model.compile()
    RiskMeasures.of(table).compile()
    clock: dict[int, float] = {}
    never = StopRule(ess=1e12, max_sweeps=10**9, max_seconds=budget)
    started = time.perf_counter()
    draws = fit(
        model,
        table,
        seed=seed,
        plan=Plan(n_chains=chains, thin=thin, stop=never),
        execution=Execution(
            watcher=Watcher(
                progress=lambda at: clock.setdefault(at.sweeps, time.perf_counter() - started)
            )
        ),
    ).draws
    total = time.perf_counter() - started
    # The discarded part ends where a round ends, so the clock was read there.
    retained = total - clock[draws.n_discarded * draws.thin]
    rows = []
    for scalar in ("tau1_expected", "tau1"):
        kept = draws.retained(scalar)
        found = diagnose(kept)
        rows.append(
            [
                name,
                label,
                scalar,
                f"{kept.mean():.1f} ± {kept.std():.1f}",
                draws.n_sweeps,
                draws.thin,
                f"{found.rhat:.3f}",
                f"{found.ess_bulk:,.0f}",
                f"{found.ess_bulk / total:.1f}",
                f"{found.ess_bulk / retained:.1f}",
            ]
        )
    print(f"{name} {label}: {total:.1f} s in all, {retained:.1f} s for the retained draws")
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each file")
    parser.add_argument("--files", nargs="+", default=FILES)
    parser.add_argument("--models", nargs="+", default=["hdp"])
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--thin", type=int, default=None, help="sweeps per kept draw")
    options = parser.parse_args()
    print(machine())
    rows = []
    for name, label in itertools.product(options.files, options.models):
        rows += measure(
            name,
            label,
            budget=options.seconds,
            chains=options.chains,
            seed=options.seed,
            thin=options.thin,
        )
    print_table(
        [
            "file",
            "model",
            "scalar",
            "mean ± sd",
            "sweeps",
            "thin",
            "R-hat",
            "ESS",
            "ESS/s",
            "retained ESS/s",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
