"""Tables of the documentation about `auto`, made from the files of `benchmarks/results`.

    python benchmarks/accuracy_tables.py

The files have a row for each case of calibration.py (persons.csv) and of sampled_households.py
(households.csv), and r1 by decile. This command writes the tables between the lines
`<!-- table: NAME -->` and `<!-- end -->` of the pages, and prints what the file that reports quote
has of `auto`. Tests hold both equal to the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs/accuracy.md", ROOT / "docs/explanation/accuracy-by-situation.md")
LEAST = 20
"""True τ1 from which relative errors count."""
SIZES = ((200, 400), (400, 1_000), (1_000, 4_000), (4_000, 15_001))
TABLE = re.compile(r"^<!-- table: (?P<name>[\w -]+) -->\n.*?^<!-- end -->", re.M | re.DOTALL)
ERRORS = ("model alone", "error", "abs. error", "by chance", "contained", "truth above, below")
ERRORS_2 = ("τ2", "abs. error", "contained", "truth above, below")


def cases(study: str) -> pd.DataFrame:
    """Read the cases of a study, with errors and misses."""
    found = pd.read_csv(RESULTS / f"{study}.csv")
    for tau in (1, 2):
        true, mean = found[f"true{tau}"], found[f"mean{tau}"]
        found[f"error{tau}"] = mean / true.clip(lower=1.0) - 1.0
        found[f"above{tau}"] = true > found[f"upper{tau}"]
        found[f"below{tau}"] = true < found[f"lower{tau}"]
    return found


def percent(value: float) -> str:
    """Write a signed share."""
    return f"{100 * value:+.1f}%".replace("-", "−")


def summary(part: pd.DataFrame) -> list[str]:
    """Errors and coverage of τ1, then of τ2, of cases with a true τ1 of `LEAST`."""
    cells = [str(len(part)), percent((part["model"] / part["true1"] - 1.0).mean())]
    for tau in (1, 2):
        error, above, below = (part[f"{name}{tau}"] for name in ("error", "above", "below"))
        cells += [percent(error.mean()), f"{100 * error.abs().mean():.1f}%"]
        if tau == 1:
            cells.append(f"{100 * (part['chance'] / part['true1']).mean():.1f}%")
        missed = above | below
        cells += [f"{(~missed).sum()}/{len(part)}", f"{above.sum()}, {below.sum()}"]
    return cells


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def by_group(groups: dict[str, pd.DataFrame], title: str) -> str:
    """Write a table of errors and coverage by group."""
    rows = [[name, *summary(part)] for name, part in groups.items() if len(part)]
    return markdown([title, "samples", *ERRORS, *ERRORS_2], rows)


def large(study: str) -> pd.DataFrame:
    """Cases with a true τ1 of `LEAST` or more."""
    found = cases(study)
    return found[found["true1"] >= LEAST]


def default() -> str:
    """Persons and households by number of records."""
    groups = {}
    for study in ("persons", "households"):
        for low, high in SIZES:
            found = large(study)
            groups[f"{study}, {low:,} to {min(high, 15_000):,}"] = found[
                (found["n"] >= low) & (found["n"] < high)
            ]
    return by_group(groups, "sample, records")


def by_survey(study: str) -> str:
    """Each survey, left out of the calibration, and all."""
    found = large(study)
    groups = {str(name): part for name, part in found.groupby("survey")}
    return by_group(groups | {"all": found}, "survey left out")


def by_situation() -> str:
    """Persons by number of keys, by sampling fraction, and of households by shared keys."""
    found, homes = large("persons"), large("households")
    share, shared = found["n"] / found["N"], homes["shared"]
    groups = {
        f"{low} to {high} keys": found[(found["keys"] >= low) & (found["keys"] <= high)]
        for low, high in ((3, 6), (7, 9), (10, 12))
    }
    groups["less than 0.3% of the population"] = found[share < 0.003]
    groups["0.3% to 2%"] = found[(share >= 0.003) & (share < 0.02)]
    groups["2% to 12%"] = found[share >= 0.02]
    for low, high in ((0, 2), (3, 4), (5, 6)):
        groups[f"whole households, {low} to {high} shared keys"] = homes[
            (shared >= low) & (shared <= high)
        ]
    return by_group(groups, "samples")


def situations() -> str:
    """Coverage and mean error of `auto` by situation, for the page of that name."""
    persons, homes = cases("persons"), cases("households")
    share, shared = persons["n"] / persons["N"], homes["shared"]
    groups = {"persons drawn one by one": persons}
    for low, high in ((3, 6), (7, 9), (10, 12)):
        keys = persons["keys"]
        groups[f"the same, {low} to {high} keys"] = persons[(keys >= low) & (keys <= high)]
    for low, high in SIZES:
        groups[f"the same, {low:,} to {min(high, 15_000):,} records"] = persons[
            (persons["n"] >= low) & (persons["n"] < high)
        ]
    groups["the same, less than 0.3% of the population"] = persons[share < 0.003]
    homes_of = "whole households drawn, and said so"
    groups[f"{homes_of}, up to two keys that members share"] = homes[shared <= 2]
    groups["the same, three or four"] = homes[(shared > 2) & (shared <= 4)]
    groups["the same, five or six"] = homes[shared > 4]
    large_ones = {name: part[part["true1"] >= LEAST] for name, part in groups.items()}
    few = f"a true τ1 below {LEAST}"
    small_ones = {
        f"persons drawn one by one, {few}": persons[persons["true1"] < LEAST],
        f"{homes_of}, {few}": homes[homes["true1"] < LEAST],
    }
    rows = []
    for name, part in (large_ones | small_ones).items():
        held = int((~(part["above1"] | part["below1"])).sum())
        error = "" if name in small_ones else percent(part["error1"].mean())
        share_held = f"in {10 * held / len(part):.1f} of 10"
        rows.append([name, share_held, f"{held} of {len(part)}", error])
    return markdown(["situation", "interval contained τ1", "samples", "mean error of τ1"], rows)


def small() -> str:
    """True τ1 below `LEAST`: coverage, and how often the upper end is at least the truth."""
    rows = []
    for study in ("persons", "households"):
        found = cases(study)
        for low, high in ((0, 4), (5, 9), (10, 19), (0, 19)):
            part = found[(found["true1"] >= low) & (found["true1"] <= high)]
            if len(part):
                above, below = part["above1"], part["below1"]
                width = (part["upper1"] - part["lower1"]).median()
                held, most = (~(above | below)).sum(), (~above).sum()
                counts = [len(part), held, most, round(width)]
                rows.append([study, f"{low} to {high}", *map(str, counts)])
    last = ["samples", "contained", "truth at most the upper end", "median width"]
    head = ["samples of", "true τ1", *last]
    return markdown(head, rows)


def deciles(study: str) -> str:
    """Sum of r1 and true number of population uniques, by decile of r1."""
    found = pd.read_csv(RESULTS / f"{study}-deciles.csv")
    heads = {"mean": "mean r1", "predicted": "predicted", "true": "true",
             "deviation": "standard deviation by chance"}  # fmt: skip
    rows = [[head, *(f"{value:g}" for value in found[name])] for name, head in heads.items()]
    return markdown(["decile of r1", *map(str, found["decile"])], rows)


def within(study: str) -> int:
    """Deciles whose sum of r1 is within 1.96 standard deviations of the truth."""
    found = pd.read_csv(RESULTS / f"{study}-deciles.csv")
    return int(((found["predicted"] - found["true"]).abs() <= 1.96 * found["deviation"]).sum())


def shared_keys() -> str:
    """Samples of households by number of shared keys: the model alone, and with its error."""
    found, rows = large("households"), []
    for number, part in found.groupby("shared"):
        true = part["true1"]
        above, below = part["above1"], part["below1"]
        rows.append([
            str(number), str(len(part)), f"{true.mean():.0f}",
            *(percent((part[name] / true - 1.0).mean()) for name in ("all_members", "model")),
            percent(part["error1"].mean()), f"{100 * part['error1'].abs().mean():.1f}%",
            str((~(above | below)).sum()), str(above.sum()), str(below.sum()),
        ])  # fmt: skip
    head = ["shared keys", "samples", "true τ1", "all members", "model alone",
            "with its error", "abs. error", "contained", "truth above", "truth below"]  # fmt: skip
    return markdown(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "default": default,
    "by situation": by_situation,
    "persons by survey": lambda: by_survey("persons"),
    "households by survey": lambda: by_survey("households"),
    "situations": situations,
    "small risks": small,
    "deciles of persons": lambda: deciles("persons"),
    "deciles of households": lambda: deciles("households"),
    "shared keys": shared_keys,
}


def page(text: str) -> str:
    """Return a page with its tables made again."""

    def table(match: re.Match[str]) -> str:
        name = match["name"]
        return f"<!-- table: {name} -->\n\n{TABLES[name]()}\n\n<!-- end -->"

    return TABLE.sub(table, text)


def trials_of_auto() -> dict[str, float]:
    """What `trials.toml` says of `auto`; the range is that of the means by survey."""
    both = pd.concat([large("persons"), large("households")])
    rows = both.groupby("survey")["error1"].mean()
    above, below = int(both["above1"].sum()), int(both["below1"].sum())
    return {
        "samples": len(both), "covered": len(both) - above - below,
        "above": above, "below": below, "error": round(float(both["error1"].mean()), 3),
        "lowest": round(float(rows.min()), 3), "highest": round(float(rows.max()), 3),
    }  # fmt: skip


def main() -> None:
    """Write the tables, and print the sentences' numbers."""
    for path in PAGES:
        path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
    print("auto:", trials_of_auto())
    for study in ("persons", "households"):
        print(f"{study}: {within(study)} of 10 deciles within 1.96 standard deviations")


if __name__ == "__main__":
    main()
