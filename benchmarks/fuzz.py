"""Hostile inputs: the fuzzer of `tests/hostile`, at length, and a table of how it ended.

    python benchmarks/fuzz.py                      10,000 cases (about 15 minutes)
    python benchmarks/fuzz.py --seed 8 --cases 500 --out findings.jsonl

What was not answered rightly is printed with its seed and number:
`PYTHONPATH=src:tests python -m hostile.fuzz 8 17 18` runs case 17 of seed 8 alone.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hostile.fuzz import Outcome, campaign

HEAD = ("kind", "cases", "exit 0", "exit 1", "exit 2", "not right", "longest, s")


def main() -> None:
    """Run a campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument(
        "--out", type=Path, help="write outcomes, a line of JSON each, and go on after those there"
    )
    asked = parser.parse_args()
    # So that the server of PostgreSQL ends, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begin = time.monotonic()
    outcomes: list[Outcome] = []
    if asked.out is not None and asked.out.exists():
        outcomes = [Outcome(**json.loads(line)) for line in asked.out.read_text().splitlines()]
        if any(one.seed != asked.seed for one in outcomes):
            parser.error(f"{asked.out} has outcomes of another seed")
    for outcome in campaign(asked.seed, len(outcomes), asked.cases):
        outcomes.append(outcome)
        if asked.out is not None:
            with asked.out.open("a") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        if outcome.problems:
            print(f"{outcome.seed}-{outcome.i} {outcome.kind}: {outcome.problems}", flush=True)
    print("\n".join(table(outcomes)))
    minutes = (time.monotonic() - begin) / 60
    print(f"\nSeed {asked.seed}, {len(outcomes):,} cases, {minutes:.0f} minutes.")


def table(outcomes: list[Outcome]) -> list[str]:
    """Count outcomes by kind, as Markdown."""
    lines = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for kind in [*sorted({one.kind for one in outcomes}), "all"]:
        ours = [one for one in outcomes if kind in (one.kind, "all")]
        codes = Counter(one.code for one in ours)
        wrong = sum(bool(one.problems) for one in ours)
        longest = max((one.seconds for one in ours), default=0.0)
        cells = (len(ours), codes[0], codes[1], codes[2], wrong)
        numbers = " | ".join(f"{cell:,}" for cell in cells)
        lines.append(f"| {kind} | {numbers} | {longest:.0f} |")
    return lines


if __name__ == "__main__":
    main()
