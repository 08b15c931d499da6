"""Attacks on files that copy, and on files that do not: how often each succeeds, over repetitions.

    python benchmarks/attack_trials.py
    python benchmarks/attack_trials.py --units households --repeats 4
    python benchmarks/attack_trials.py --page

Original, control file and a second sample are drawn anew from a population, each repetition
without common records: persons of the American Community Survey 2024, or households of the
Argentine EPH 2003. Four synthetic files are attacked: the original itself; a second sample of which
a tenth is taken from the original; a second sample; and a file of `unikat synthesize`. A line for
each unit, situation and attack goes to results/attack-trials.jsonl, and docs/attack-trials.md is
made of it. The data are in ../shared/data.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import data_file, machine

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "attack-trials.jsonl"
PAGE = HERE.parent / "docs" / "attack-trials.md"
SITUATIONS = {
    "copy": "exact copy",
    "partial": "a tenth copied",
    "second": "second sample",
    "honest": "unikat synthesize",
}
PERSON_KEYS = ["AGEP", "SEX", "RAC1P", "HISP", "CIT", "SCHL", "MAR", "ESR"]
HOME_KEYS = ["REGION", "CH03", "CH04", "CH06"]
YEARS = {"AGEP": 5, "CH06": 10}
"""Ages are grouped by so many years."""
HOME = "HOME"
ASKED: dict[str, dict[str, Any]] = {
    "persons": {"keys": PERSON_KEYS},
    "households": {"keys": HOME_KEYS, "household": HOME},
}
GENERATOR: dict[str, dict[str, Any]] = {
    "persons": {"model": "hdp", "max_sweeps": 1_000},
    "households": {
        "model": "households", "household_keys": "REGION", "head": "CH03 == 1", "max_sweeps": 300,
    },
}  # fmt: skip
Line = dict[str, Any]


def population(unit: str) -> pd.DataFrame:
    """Persons, with the number of their household where households are drawn."""
    keys = ASKED[unit]["keys"]
    if unit == "persons":
        people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=keys)
    else:
        people = pd.read_parquet(data_file("eph_argentina_4_quarters"))
        people = people[people.YQ.min() == people.YQ]
        people[HOME] = pd.factorize(people.HH)[0]
    for key in keys:
        people[key] = people[key].fillna(-1).astype(int) // YEARS.get(key, 1)
    return people[[*keys, *([HOME] if HOME in people else [])]]


def samples(people: pd.DataFrame, n: int, generator: np.random.Generator) -> list[pd.DataFrame]:
    """Draw three samples of n units without common ones; households are numbered from 0 in each."""
    if HOME not in people:
        rows = generator.choice(len(people), 3 * n, replace=False)
        return [people.iloc[part].reset_index(drop=True) for part in np.split(rows, 3)]
    chosen = generator.choice(people[HOME].max() + 1, 3 * n, replace=False)
    parts = []
    for homes in np.split(chosen, 3):
        number = pd.Series(np.arange(n), homes)
        part = people[people[HOME].isin(homes)]
        part = part.assign(**{HOME: part[HOME].map(number)})
        parts.append(part.sort_values(HOME, kind="stable").reset_index(drop=True))
    return parts


def partly_copied(original: pd.DataFrame, other: pd.DataFrame, n: int) -> pd.DataFrame:
    """Return the other sample, of which the first n units are those of the original."""
    unit = [frame.get(HOME, frame.index) for frame in (original, other)]
    return pd.concat([original[unit[0] < n], other[unit[1] >= n]], ignore_index=True)


def files(
    unit: str, asked: dict[str, Any], n: int, seed: int, people: pd.DataFrame
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield each situation with its original, synthetic and control file."""
    import unikat

    original, second, control = samples(people, n, np.random.default_rng(seed))
    yield "copy", original, original, control
    yield "partial", original, partly_copied(original, second, n // 10), control
    yield "second", original, second, control
    made = unikat.synthesize(
        original, datasets=2, chains=2, workers=1, seed=seed, **asked, **GENERATOR[unit]
    )
    yield "honest", original, made.frames[0], control


def tried(unit: str, n: int, repeats: int) -> list[Line]:
    """Attack all situations, and count what succeeds."""
    import unikat

    people = population(unit)
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as codebook:
        # A sample need not have every level.
        levels = {key: np.unique(people[key]).tolist() for key in ASKED[unit]["keys"]}
        json.dump({key: {"levels": of} for key, of in levels.items()}, codebook)
    asked = ASKED[unit] | {"codebook": codebook.name}
    found: dict[tuple[str, str, str | None], list[tuple[bool, float, float]]] = defaultdict(list)
    note = {
        "unit": unit, "n": n, "repeats": repeats, "machine": machine(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "version": unikat.__version__,
    }  # fmt: skip
    for seed in range(repeats):
        started = time.perf_counter()
        for situation, original, synthetic, control in files(unit, asked, n, seed, people):
            answer = unikat.attack(
                original, synthetic=synthetic, control=control, seed=seed, **asked
            )
            for one in answer.summary.attacks:
                if one.excess is None:
                    continue
                target = one.target if one.kind == "false alarms" else None
                told = one.found, one.compared.value, one.baseline.value
                found[situation, one.name, target].append(told)
        seconds = time.perf_counter() - started
        print(f"{unit}, repetition {seed + 1} of {repeats}: {seconds:.0f} s", flush=True)
    results = []
    for (situation, attack, target), of_attack in found.items():
        means = np.mean(of_attack, axis=0).tolist()
        result = {"situation": situation, "attack": attack, "target": target}
        result |= {"tries": len(of_attack)}
        result |= dict(zip(("found", "success", "without"), means, strict=True))
        results.append(note | result)
    return results


def lines(path: Path = RESULTS) -> list[Line]:
    """Results that are kept."""
    if not path.exists():
        return []
    return [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]


def page(path: Path = RESULTS) -> str:
    """Text of the page of all results."""
    parts = []
    for unit in ASKED:
        found = [one for one in lines(path) if one["unit"] == unit]
        if found:
            parts += [*_heading(unit, found[0]), *_table(found), ""]
    frame = (HERE / "attack_trials.md").read_text(encoding="utf-8")
    return frame.replace("{tables}", "\n".join(parts).rstrip())


def _heading(unit: str, note: Line) -> list[str]:
    said = {
        "persons": "Persons of the American Community Survey 2024 (northeast), eight keys",
        "households": "Households of the Argentine EPH 2003, four keys of each member",
    }
    return [
        f"## {unit.capitalize()}\n",
        f"{said[unit]}: {note['n']:,} in each file, {note['repeats']} repetitions. "
        f"{note['date']}, unikat {note['version']}, {note['machine'].partition(', Python')[0]}. "
        f"`unikat synthesize` stopped after at most {GENERATOR[unit]['max_sweeps']:,} sweeps.\n",
    ]


def _table(found: Sequence[Line]) -> list[str]:
    """Rows by attack: of each situation how often it succeeds, its mean success and baseline."""
    head = ["attack", *SITUATIONS.values()]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    by = {(one["attack"], one["target"], one["situation"]): one for one in found}
    for attack, target in dict.fromkeys((one["attack"], one["target"]) for one in found):
        cells = [attack if target is None else f"{attack}, {target}"]
        for situation in SITUATIONS:
            one = by.get((attack, target, situation))
            cells.append("–" if one is None else _cell(one))
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def _cell(one: Line) -> str:
    return f"**{one['found']:.0%}** ({100 * one['success']:.1f} / {100 * one['without']:.1f})"


def main() -> None:
    """Try the attacks, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", nargs="+", choices=list(ASKED), default=list(ASKED))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--records", type=int, default=1_000, help="persons in each file")
    parser.add_argument("--homes", type=int, default=500, help="households in each file")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    options = parser.parse_args()
    for unit in [] if options.page else options.units:
        n = options.records if unit == "persons" else options.homes
        new = tried(unit, n, options.repeats)
        kept = [one for one in lines() if one["unit"] != unit]
        RESULTS.parent.mkdir(exist_ok=True)
        text = "".join(json.dumps(one) + "\n" for one in [*kept, *new])
        RESULTS.write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
