"""Kill runs at random instants, resume them, and compare with undisturbed runs.

    python benchmarks/kills.py [--kills 200] [--seed 1] [--minutes M] [--out kills.jsonl]

Small runs of all commands that fit a model, each with two worker processes, get SIGKILL, SIGTERM
or SIGINT in the parent, in a worker, or in all processes at once, at an instant that is uniform
over the time that an undisturbed run takes. Each is then resumed. A kill is bad if the results
differ in any number, if a process, a temporary file or a copy of the keys is left, if a mode is
not 0600 (folders 0700), or if the message is not one of ours. The seed fixes what is sent where
and when; which step it hits depends on the machine. Linux.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hostile.campaign import (  # found by the path above
    KINDS,
    SIGNALS,
    TARGETS,
    blows,
    disturbed,
    prepare,
    undisturbed,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="begin no kill after these")
    parser.add_argument("--out", type=Path, help="write each kill there, and go on after those")
    options = parser.parse_args()
    done: list[list[Any]] = []
    if options.out is not None and options.out.exists():
        done = [json.loads(line) for line in options.out.read_text().splitlines()]
    made: Counter[tuple[str, str, str]] = Counter()
    bad: Counter[tuple[str, str, str]] = Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unikat-kills-") as name:
        folder = Path(name)
        prepare(folder)
        references = {kind: undisturbed(kind, folder) for kind in KINDS}
        for number, blow in enumerate(blows(options.kills, options.seed)):
            cell = (blow.kind, blow.signal, blow.target)
            if number < len(done):
                if done[number][:3] != list(cell):
                    parser.error(f"{options.out} has kills of another seed")
                made[cell] += 1
                bad[cell] += bool(done[number][3])
                continue
            if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                break
            wrong = disturbed(blow, folder, number, references[blow.kind])
            made[cell] += 1
            if options.out is not None:
                with options.out.open("a") as file:
                    file.write(json.dumps([*cell, wrong]) + "\n")
            if wrong:
                bad[cell] += 1
                print(f"{blow}: {'; '.join(wrong)}", flush=True)
    print(f"| signal | sent to | {' | '.join(KINDS)} |")
    print("|---|---|" + "---|" * len(KINDS))
    for signal in SIGNALS:
        for target in TARGETS:
            cells = [(kind, signal, target) for kind in KINDS]
            shown = [f"{made[cell] - bad[cell]} of {made[cell]}" for cell in cells]
            print(f"| {signal} | {target} | {' | '.join(shown)} |")
    print(f"{made.total() - bad.total()} of {made.total()} kills ended as if undisturbed")
    return 1 if bad.total() else 0


if __name__ == "__main__":
    sys.exit(main())
