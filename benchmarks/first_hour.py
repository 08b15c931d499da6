"""The first hour with four programs: what a newcomer gets of a file whose truth is known.

    python benchmarks/first_hour.py --r-library FOLDER --arx CLASSPATH
    python benchmarks/first_hour.py --table

sdcMicro and synthpop are run by Rscript, with their packages in FOLDER or in R's own library; ARX
by java, with its classes and the jars of its folder lib/ant in CLASSPATH. A program that is not at
hand is left out, and said so. Samples of the simulated town and of the Adult data (whose 48,842
rows are the population). Three parts, of which --only names one:

estimates   the number of population uniques and of correct matches, as each program has it
limit       a file in which at most five sample uniques are population uniques, as each asks for it
synthetic   a synthetic file, and the attacks on it that each offers

Each answer is a line in results/first_hour.jsonl (the last counts); what is there is not run again.
`--table` makes the tables of docs/explanation/first-hour.md of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, print_table
from leaderboard import population

RESULTS = Path(__file__).parent / "results" / "first_hour.jsonl"
HERE = Path(__file__).parent
LIMIT = 5
"""Sample uniques that may be population uniques, in the part `limit`."""
POPULATIONS = {"town": 4_000, "adult": 2_000}
"""Sizes of the samples."""


class Case:
    """A sample, and what is true of it."""

    def __init__(self, name: str, seed: int) -> None:
        """Draw the sample."""
        from unikat.datasets import KEYS, draw_sample, simulate_town, truth

        self.name, self.seed = name, seed
        if name == "town":
            self.people, self.keys = simulate_town(), list(KEYS)
        else:
            self.people, self.keys = population(name)
            self.people = self.people.astype(str)
        share = POPULATIONS[name] / len(self.people)
        self.sample = draw_sample(self.people, share, seed=seed)
        known = truth(self.people, self.sample, self.keys)
        counts = self.people.groupby(self.keys).size()
        self.truth = {
            "uniques": known.n_uniques,
            "tau1": known.tau1,
            "tau2": known.tau2,
            # Over all records: what sdcMicro calls the expected number of re-identifications.
            "all": float((1.0 / self.sample.join(counts.rename("F"), self.keys)["F"]).sum()),
            "population": int((counts == 1).sum()),
        }  # fmt: skip

    def write(self, folder: str) -> str:
        """Write the keys as CSV, with the weight that sdcMicro asks for."""
        path = str(Path(folder) / "sample.csv")
        weight = len(self.people) / len(self.sample)
        self.sample[self.keys].assign(weight=weight).to_csv(path, index=False)
        return path


class Programs:
    """Where the others are."""

    def __init__(self, library: str | None, arx: str | None) -> None:
        """Compile what calls ARX."""
        self.environment = os.environ | ({"R_LIBS": library} if library else {})
        self.has = {"unikat"}
        if shutil.which("Rscript"):
            told = self._rscript("-e", "cat(rownames(installed.packages()))")
            self.has |= {"sdcMicro", "synthpop"} & set(told.split())
        if arx and shutil.which("javac"):
            self.classes = tempfile.mkdtemp()
            self.path = f"{self.classes}{os.pathsep}{arx}"
            source = str(HERE / "FirstHour.java")
            subprocess.run(["javac", "-cp", arx, "-d", self.classes, source], check=True)
            self.has.add("ARX")
        for name in sorted({"sdcMicro", "synthpop", "ARX"} - self.has):
            print(f"{name} is not at hand: it is left out")

    def _rscript(self, *words: str) -> str:
        return subprocess.run(
            ["Rscript", *words], env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    def r(self, task: str, *words: str) -> dict[str, Any]:
        """Call a task of first_hour.R: its last line is its answer."""
        return json.loads(self._rscript(str(HERE / "first_hour.R"), task, *words).splitlines()[-1])

    def arx(self, *words: str) -> dict[str, Any]:
        """Call ARX."""
        told = subprocess.run(
            ["java", "-cp", self.path, "FirstHour", *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(told.stdout.splitlines()[-1])


def population_uniques(shown: pd.DataFrame, people: pd.DataFrame) -> int:
    """Records whose shown values no other person of the population has; a missing value fits all.

    `people` has the values that the population would show, were it recoded like the file.
    """
    found = 0
    hidden = shown.isna()
    for _, rows in shown.groupby([hidden[name] for name in shown]):
        seen = [name for name in shown if rows[name].notna().all()]
        if seen:
            sizes = people.groupby(seen).size()
            here = rows.groupby(seen).size()
            found += int((sizes.reindex(here.index[here == 1]) == 1).sum())
    return found


# --- estimates ------------------------------------------------------------------------------------


def estimates(case: Case, programs: Programs) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Every program's numbers for a file."""
    import unikat

    def ours() -> dict[str, Any]:
        found = unikat.assess(
            case.sample, case.keys, population_size=len(case.people), progress=False, workers=2
        ).result
        both = {"tau1": found.tau1, "tau2": found.tau2}
        return {
            "uniques": found.sample.n_uniques,
            **{name: [one.median, one.lower, one.upper] for name, one in both.items()},
        }

    def theirs(ask: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            return ask(case.write(folder))

    size = str(len(case.people))
    if "sdcMicro" in programs.has:
        yield "sdcMicro", partial(theirs, lambda path: programs.r("risk", path, size))
    if "ARX" in programs.has:
        yield "ARX", partial(theirs, lambda path: programs.arx("risk", path, size))
    yield "unikat", ours


# --- limit ----------------------------------------------------------------------------------------


def limit(case: Case, programs: Programs) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """A protected file, by what each program can be asked for."""
    import unikat

    def judged(made: pd.DataFrame, **more: Any) -> dict[str, Any]:
        shown = made[[name for name in case.keys if name in made and made[name].notna().any()]]
        people = case.people[list(shown)].copy()
        for name in shown:
            # What the file says of a level is what the whole population would show.
            known = pd.DataFrame(
                {"was": case.sample[name].to_numpy(), "is": shown[name].to_numpy()}
            )
            known = known.dropna().drop_duplicates("was")
            people[name] = people[name].map(dict(known.itertuples(index=False)))
        return {
            "tau1": population_uniques(shown, people),
            "values": int(shown.isna().sum().sum()),
            "levels": [int(shown[name].nunique()) for name in shown],
            **more,
        }

    def ours(suppress: str | None) -> dict[str, Any]:
        made = unikat.protect(
            case.sample, case.keys, population_size=len(case.people), target=f"tau1 <= {LIMIT}",
            suppress=suppress, progress=False, workers=2,
        )  # fmt: skip
        return judged(made.frame, verdict=made.verdict)

    def theirs(ask: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder) / "out.csv")
            told = ask(case.write(folder), out)
            if told.get("refused"):
                return told
            made = pd.read_csv(out, dtype=str, keep_default_na=False, na_values=["", "*"])
            return judged(made, **told)

    yield "unikat, recoding", partial(ours, None)
    yield "unikat, recoding and suppression", partial(ours, "search")
    if "sdcMicro" in programs.has:
        for k in (2, 3):
            yield (
                f"sdcMicro, localSuppression k = {k}",
                partial(theirs, lambda path, out, k=k: programs.r("suppress", path, out, str(k))),
            )
    if "ARX" in programs.has:
        size = len(case.people)
        share = LIMIT / len(case.sample)
        for name, word in (("population uniqueness", "uniqueness"), ("k = 2", "2"), ("k = 3", "3")):
            ask = partial(_arx_limit, programs, word, size, share, case)
            yield f"ARX, {name}", partial(theirs, ask)


def _arx_limit(
    programs: Programs, word: str, size: int, share: float, case: Case, path: str, out: str
) -> dict[str, Any]:
    folder = Path(path).parent
    for name in case.keys:
        tree = hierarchy(sorted(case.sample[name].unique()), name)
        pd.DataFrame(tree).to_csv(folder / f"{name}.tree", header=False, index=False, sep=";")
    return programs.arx("limit", path, out, word, str(size), str(share))


def hierarchy(levels: list[str], name: str) -> list[list[str]]:
    """A tree of a key's levels: neighbours by two, by four, ..., then none.

    Of ages and of all else alike: a newcomer has no better one in the first hour.
    """
    tree = []
    steps = max(int(np.ceil(np.log2(len(levels)))), 1)
    for place, level in enumerate(levels):
        groups = []
        for step in range(1, steps):
            first = place >> step << step
            group = levels[first : first + (1 << step)]
            groups.append(" or ".join(group))
        tree.append([level, *groups, "*"])
    return tree


# --- synthetic ------------------------------------------------------------------------------------


def synthetic(case: Case, programs: Programs) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """A synthetic file, what its maker says of its risk, and what an attack on it finds."""
    import unikat

    def attacked(frame: pd.DataFrame, **more: Any) -> dict[str, Any]:
        keys = case.keys
        sizes, own = case.people.groupby(keys).size(), case.sample.groupby(keys).size()
        alone = own.index[own == 1]
        here = set(map(tuple, frame[keys].astype(str).to_numpy()))
        known = [one for one in alone if sizes[one] == 1]
        other = case.people.drop_duplicates(keys, keep=False)
        inside = set(known)
        others = [one for one in map(tuple, other[keys].to_numpy()) if one not in inside]
        return {
            "reproduced": sum(one in here for one in alone) / len(alone),
            "population": sum(one in here for one in known) / max(len(known), 1),
            # Persons who are unique in the population and not in the sample: chance.
            "chance": sum(one in here for one in others) / len(others),
            **more,
        }

    def ours() -> dict[str, Any]:
        made = unikat.synthesize(
            case.sample, case.keys, datasets=2, progress=False, workers=2,
            population_size=len(case.people),
        )  # fmt: skip
        return attacked(made.frames[0])

    def synthpop() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            out = str(Path(folder) / "out.csv")
            told = programs.r("synthetic", case.write(folder), out, str(case.seed))
            return attacked(pd.read_csv(out, dtype=str), **told)

    yield "unikat", ours
    if "synthpop" in programs.has:
        yield "synthpop", synthpop


# --- the study ------------------------------------------------------------------------------------

PARTS = {"estimates": estimates, "limit": limit, "synthetic": synthetic}


def known_lines() -> dict[tuple[str, str, int, str], dict[str, Any]]:
    """What was found before, by part, population, seed and program."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    found = map(json.loads, lines)
    return {(one["part"], one["population"], one["seed"], one["program"]): one for one in found}


def run(options: argparse.Namespace) -> None:
    """Ask each program, and keep what it answers."""
    programs = Programs(options.r_library, options.arx)
    for part in options.only or PARTS:
        for seed in range(1, options.repeats + 1):
            for name in options.populations:
                case = Case(name, seed)
                for program, ask in PARTS[part](case, programs):
                    if (part, name, seed, program) in known_lines():
                        continue
                    if program.split(",")[0] in options.programs:
                        keep(part, case, program, ask)


def keep(part: str, case: Case, program: str, ask: Callable[[], dict[str, Any]]) -> None:
    """Ask a program, and write what it answers."""
    started = time.perf_counter()
    answer = ask()
    line = {
        "part": part, "population": case.name, "seed": case.seed, "program": program,
        "n": len(case.sample), "truth": case.truth, "answer": answer,
        "seconds": round(time.perf_counter() - started, 1), "machine": machine(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }  # fmt: skip
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    print(part, case.name, case.seed, program, line["seconds"], answer, flush=True)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def table() -> None:
    """Print the tables."""
    parts: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in known_lines().values():
        parts[one["part"], one["population"]][one["program"]].append(one)
    for (part, name), programs in parts.items():
        print(f"\n{part}, {name}")
        TABLES[part](programs)


def estimates_table(programs: dict[str, list[dict[str, Any]]]) -> None:
    """Every estimate beside what it estimates."""
    rows: list[list[object]] = []

    def add(program: str, what: str, of: str, value: Callable[..., float], scale: str = "") -> None:
        lines = programs.get(program, [])
        pairs = [(value(one), one["truth"][of], one) for one in lines]
        if scale:
            pairs = [(a, b / one["truth"][scale], one) for a, b, one in pairs]
        pairs = [pair for pair in pairs if pair[0] == pair[0] and pair[0] != 0]
        held = "–"
        if program == "unikat":
            inside = sum(x["answer"][of][1] <= b <= x["answer"][of][2] for _, b, x in pairs)
            held = f"{inside} of {len(pairs)}"
        off = [a / b - 1 for a, b, _ in pairs]
        rows.append(
            [program, what, f"{_mean([b for _, b, _ in pairs]):,.4g}",
             f"{_mean([a for a, _, _ in pairs]):,.4g}",
             f"{_mean(off):+.0%} ({min(off):+.0%} to {max(off):+.0%})" if off else "none", held,
             f"{len(pairs)} of {len(lines)}"]
        )  # fmt: skip

    add("unikat", "τ1", "tau1", lambda one: one["answer"]["tau1"][0])
    add("unikat", "τ2", "tau2", lambda one: one["answer"]["tau2"][0])
    add("sdcMicro", "re-identifications, all records", "all", lambda one: one["answer"]["expected"])
    add("sdcMicro", "the same, sample uniques", "tau2",
        lambda one: one["answer"]["expected_of_uniques"])  # fmt: skip
    for method in ("default", "CE", "PML", "weightedLLM", "IPF"):
        for place, of in ((0, "tau1"), (1, "tau2")):

            def read(one: dict[str, Any], method: str = method, place: int = place) -> float:
                found = one["answer"]["models"][method]
                return found[place] if isinstance(found, list) else float("nan")

            add("sdcMicro", f"modRisk {method}, share for {of}", of, read, "uniques")
    for model in ("PITMAN", "ZAYATZ", "SNB", "DANKAR"):
        add("ARX", f"population uniques, {model}", "population",
            lambda one, model=model: one["answer"][model])  # fmt: skip
    print_table(["program", "what", "true", "estimate", "error", "contained", "given"], rows)
    print_table(
        ["program", "seconds"],
        [[name, " ".join(f"{one['seconds']:.0f}" for one in lines)]
         for name, lines in programs.items()],
    )  # fmt: skip


def limit_table(programs: dict[str, list[dict[str, Any]]]) -> None:
    """The true τ1 of the protected files."""
    rows = []
    for name, lines in programs.items():
        answers = [one["answer"] for one in lines]
        given = [one for one in answers if not one.get("refused")]
        rows.append(
            [name, " ".join(str(one["tau1"]) for one in given),
             " ".join(f"{one['values']:,}" for one in given),
             " | ".join(" ".join(map(str, one["levels"])) for one in given),
             " ".join(f"{one['seconds']:.0f}" for one in lines),
             f"{len(answers) - len(given)} refused"]
        )  # fmt: skip
    print_table(["program", "true τ1", "values suppressed", "levels", "seconds", ""], rows)


def synthetic_table(programs: dict[str, list[dict[str, Any]]]) -> None:
    """What of the sample stands in the synthetic files."""
    rows = [
        [name, *(f"{_mean([one['answer'][key] for one in lines]):.1%}"
                 for key in ("reproduced", "population", "chance")),
         " ".join(f"{one['seconds']:.0f}" for one in lines)]
        for name, lines in programs.items()
    ]  # fmt: skip
    print_table(
        ["program", "sample uniques", "population uniques", "others, by chance", "seconds"], rows
    )


TABLES = {"estimates": estimates_table, "limit": limit_table, "synthetic": synthetic_table}


def main() -> None:
    """Run the study, or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--r-library", help="folder of R packages")
    parser.add_argument("--arx", help="class path of ARX")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--populations", nargs="+", default=["town"], choices=list(POPULATIONS))
    parser.add_argument("--only", nargs="+", choices=list(PARTS))
    every = ["unikat", "sdcMicro", "synthpop", "ARX"]
    parser.add_argument("--programs", nargs="+", choices=every, default=every)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if not options.table:
        run(options)
    table()


if __name__ == "__main__":
    main()
