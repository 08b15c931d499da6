"""Work of every fit of `auto`: sweeps, processor seconds, convergence.

    python benchmarks/stages.py --records 5000 --keys 10

On a machine that others use too, processor seconds say more than those of the clock; two idle cores
take half of them, and a little more.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
from accuracy import TEN, prepare
from common import machine, print_table


def processor_seconds() -> float:
    """Of this process and of all that came from it, also those that have ended."""
    tick = os.sysconf("SC_CLK_TCK")
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        seconds[int(folder.name)] = sum(map(int, fields[11:15])) / tick
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    todo, total = [os.getpid()], 0.0
    while todo:
        process = todo.pop()
        total += seconds.get(process, 0.0)
        todo += children.get(process, [])
    return total


def watched(sample: Any, rows: list[list[object]]) -> Any:
    """Return `sample` that writes down what it did."""

    def run(model: Any, table: Any, observer: Any, **options: Any) -> Any:
        begin, before = time.monotonic(), processor_seconds()
        draws = sample(model, table, observer, **options)
        found = draws.diagnostics.values()
        rows.append(
            [
                getattr(model, "wrapped", model).name,
                type(observer).__name__,
                draws.n_chains,
                draws.n_sweeps,
                draws.thin,
                draws.stop_reason,
                f"{max(one.rhat for one in found):.3f}",
                f"{min(min(one.ess_bulk, one.ess_tail) for one in found):,.0f}",
                f"{processor_seconds() - before:.1f}",
                f"{time.monotonic() - begin:.1f}",
            ]
        )
        return draws

    return run


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--keys", type=int, default=10, help="so many of the ten of accuracy.py")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    from unikat import Design, read
    from unikat.inference.chains import sample
    from unikat.models.auto import Auto
    from unikat.studies import compare, fit

    print(machine())
    rows: list[list[object]] = []
    from unikat.studies import first_answer

    compare.sample = fit.sample = first_answer.sample = watched(sample, rows)
    with tempfile.TemporaryDirectory(prefix="unikat-benchmark-") as folder:
        path, size = prepare("acs-northeast-10", Path(folder))
        frame = pd.read_parquet(path).sample(options.records, random_state=1)
    keys = TEN.split(",")[: options.keys]
    table = read(frame, keys, Design(population_size=size), missing="level").tabulate()
    begin, before = time.monotonic(), processor_seconds()
    found = fit.fit(Auto(), table, seed=options.seed)
    total, used = time.monotonic() - begin, processor_seconds() - before
    head = "model|fit|chains|sweeps|thin|end|R-hat|ESS|processor seconds|seconds"
    print_table(head.split("|"), rows)
    tau1 = found.estimate().tau1
    print(f"tau1 {tau1.mean:.1f} ({tau1.lower:.0f} to {tau1.upper:.0f})")
    print(f"{used:.0f} processor seconds, {total:.0f} s")


if __name__ == "__main__":
    main()
