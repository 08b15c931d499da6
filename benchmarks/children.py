"""A population with children, with and without the rules that children obey, beside its adults.

    python benchmarks/children.py FOLDER --repeats 8

ACS 2024 persons of the Northeast, all ages (597,775), as a population whose truth is known. Age,
education, marital status, employment and military service exclude each other in many combinations.
Three arms on the same keys: all ages with the rules, all ages without them, and the adults alone,
who need no rules. `unikat evaluate` keeps its results in FOLDER; a study that was interrupted goes
on where it stopped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pandas as pd
from common import data_file, machine, print_table

KEYS = "AGEP,SEX,RAC1P,MAR,SCHL,ESR,MIL"
RULES = [
    "AGEP < 15 and MAR != 5",
    "AGEP < 16 and ESR != -1",
    "AGEP >= 16 and ESR == -1",
    "AGEP < 17 and MIL != -1",
    "AGEP >= 17 and MIL == -1",
    "AGEP < 3 and SCHL != -1",
    "AGEP >= 3 and SCHL == -1",
    "SCHL >= 4 and AGEP < 5",
    "6 <= SCHL <= 15 and AGEP < SCHL",
    "SCHL >= 16 and AGEP < 15",
    "SCHL >= 19 and AGEP < 16",
    "SCHL >= 21 and AGEP < 19",
    "SCHL >= 22 and AGEP < 20",
]
"""What the survey's own editing makes impossible; -1 stands for too young to be asked."""
ARMS = ("all ages, rules", "all ages, no rules", "adults")


def prepare(arm: str, folder: Path) -> Path:
    """Write the population of an arm, once, and the rules."""
    path = folder / ("adults.parquet" if arm == "adults" else "persons.parquet")
    if not path.exists():
        source = data_file("acs2024_persons_northeast")
        frame = pd.read_parquet(source, columns=KEYS.split(","))
        if arm == "adults":
            frame = frame[frame["AGEP"] >= 18]
        frame.reset_index(drop=True).to_parquet(path)
    lines = ",\n".join(f"  '{rule}'" for rule in RULES)
    (folder / "rules.toml").write_text(f"rules = [\n{lines},\n]\n", encoding="utf-8")
    return path


def evaluate(arm: str, folder: Path, options: argparse.Namespace) -> None:
    """Run `unikat evaluate` on an arm, or go on with it."""
    out = folder / arm.replace(",", "").replace(" ", "-")
    command = [
        sys.executable, "-m", "unikat.cli.main", "evaluate", str(prepare(arm, folder)),
        "--keys", KEYS, "--n", ",".join(map(str, options.sizes)),
        "--repeats", str(options.repeats), "--models", ",".join(options.models), "--seed", "1",
        "--chains", "2", "--set", "sampling.rhat=1.05", "--set", "sampling.ess=100",
        "--max-seconds", str(options.seconds), "--allow-unconverged", "--out", str(out),
    ]  # fmt: skip
    if arm == ARMS[0]:
        command += ["--zeros", str(folder / "rules.toml")]
    if out.exists():
        command.append("--resume")
    subprocess.run(command, check=True)


def rows_of(arm: str, folder: Path) -> list[list[object]]:
    """Rows of the table of an arm: a model and size each."""
    out = folder / arm.replace(",", "").replace(" ", "-")
    if not (out / "evaluation.parquet").exists():
        return []
    rows = []
    for (n, model), fits in pd.read_parquet(out / "evaluation.parquet").groupby(["n", "model"]):
        row: list[object] = [arm, n, model]
        for tau in ("tau1", "tau2"):
            true = fits[f"{tau}_true"]
            error = 100 * (fits[f"{tau}_mean"] - true) / true.mean()
            held = (fits[f"{tau}_lower"] <= true) & (true <= fits[f"{tau}_upper"])
            row += [
                f"{true.mean():.0f}", f"{error.mean():+.0f}%", f"{(error**2).mean() ** 0.5:.0f}%",
                f"{held.sum()}/{len(fits)}",
            ]  # fmt: skip
        rows.append([*row, int(fits["converged"].sum()), f"{fits['seconds'].median():.0f}"])
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--sizes", nargs="+", type=int, default=[2000, 6000])
    parser.add_argument("--models", nargs="+", default=["hdp", "latent-class"])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seconds", type=float, default=20.0, help="for each fit")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        for arm in options.arms:
            evaluate(arm, options.folder, options)
    print(machine(), end="\n\n")
    print_table(
        ["population", "n", "model", "τ1", "bias", "RMSE", "held", "τ2", "bias", "RMSE", "held",
         "converged", "seconds"],
        [row for arm in ARMS for row in rows_of(arm, options.folder)],
    )  # fmt: skip


if __name__ == "__main__":
    main()
