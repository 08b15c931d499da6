"""Error and coverage of the models on populations whose truth is known.

    python benchmarks/accuracy.py FOLDER --repeats 10

Every population is a file of real microdata taken whole; `unikat evaluate` draws the samples, fits
the models and keeps its results, with a page for each population, in FOLDER. A study that was
interrupted goes on where it stopped. The table printed at the end is that of docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pandas as pd
from common import DATA, machine, print_table

PAPER = "profile_concentration=1:profile_base=uniform"
MODELS = [
    f"latent-class:{PAPER}:top_shape=0.25:top_rate=0.25",
    "latent-class",
    f"hdp:{PAPER}:alpha=per-record",
    "hdp",
    f"gom:{PAPER}",
    "gom",
]
SHORT = dict(
    zip(
        MODELS,
        ["latent-class, paper", "latent-class, learned", "hdp, paper", "hdp, learned",
         "gom, paper", "gom, learned"],
        strict=True,
    )
)  # fmt: skip
SIX = "AGEP,SEX,RAC1P,MAR,SCHL,ESR"
TEN = "AGEP:width(5),SEX,RAC1P,MAR,SCHL,ESR,CIT,DIS,LANX,MIL"
POPULATIONS = {
    "acs-northeast-6": ("acs2024_persons_northeast", SIX),
    "acs-northeast-10": ("acs2024_persons_northeast", TEN),
    "acs-west-6": ("acs2024_persons_west", SIX),
    "acs-west-10": ("acs2024_persons_west", TEN),
    "eph": ("eph_argentina_4_quarters", "REGION,CH03,CH04,CH06,CH07,NIVEL_ED,ESTADO,CAT_OCUP"),
    "adult": ("adult_48842", "age,sex,race,marital_status,education,occupation,workclass"),
    "nist-ma": (
        "nist_excerpt_ma",
        "PUMA,AGEP,SEX,MSP,RAC1P,HOUSING_TYPE,OWN_RENT,EDU,INDP_CAT",
    ),
}
SHARES = (0.01, 0.05)
LEAST = 500


def prepare(name: str, folder: Path) -> tuple[Path, int]:
    """Write the population's file once: the keys of adults for the ACS, all rows elsewhere."""
    source, keys = POPULATIONS[name]
    columns = [key.split(":")[0] for key in keys.replace("(5)", "").split(",")]
    path = folder / f"{name}.parquet"
    if not path.exists():
        frame = pd.read_parquet(DATA / f"{source}.parquet", columns=columns)
        if "AGEP" in frame and source.startswith("acs"):
            frame = frame[frame["AGEP"] >= 18]
        frame.reset_index(drop=True).to_parquet(path)
    return path, len(pd.read_parquet(path, columns=columns[:1]))


def evaluate(name: str, folder: Path, options: argparse.Namespace) -> Path:
    """Run `unikat evaluate` on a population, or go on with it."""
    path, size = prepare(name, folder)
    out = folder / f"{name}-evaluation"
    sizes = sorted({max(LEAST, round(share * size)) for share in SHARES})
    command = [
        sys.executable, "-m", "unikat.cli.main", "evaluate", str(path),
        "--keys", POPULATIONS[name][1], "--n", ",".join(map(str, sizes)),
        "--repeats", str(options.repeats), "--models", ",".join(options.models),
        "--missing", "level", "--seed", "1", "--chains", str(options.chains),
        "--set", f"sampling.rhat={options.rhat}", "--set", f"sampling.ess={options.ess}",
        "--max-seconds", str(options.seconds), "--allow-unconverged", "--out", str(out),
    ]  # fmt: skip
    if out.exists():
        command.append("--resume")
    subprocess.run(command, check=True)
    return out


def rows_of(name: str, out: Path, tau: str) -> list[list[object]]:
    """Rows of a table: a population and size each, a column per model."""
    frame = pd.read_parquet(out / "evaluation.parquet")
    rows = []
    for n, of_size in frame.groupby("n"):
        row: list[object] = [name, n, f"{of_size[f'{tau}_true'].mean():.0f}"]
        for model in MODELS:
            fits = of_size[of_size["model"] == model]
            true = fits[f"{tau}_true"]
            error = 100 * (fits[f"{tau}_mean"] - true) / true.mean()
            held = (fits[f"{tau}_lower"] <= true) & (true <= fits[f"{tau}_upper"])
            row.append(
                f"{error.mean():+.0f}% ({(error**2).mean() ** 0.5:.0f}%) {held.sum()}/{len(fits)}"
                if len(fits)
                else "–"
            )
        rows.append(row)
    return rows


def together(folder: Path, names: list[str]) -> list[list[object]]:
    """Every model over all populations: errors, coverage, convergence, seconds of a fit."""
    frames = [pd.read_parquet(folder / f"{name}-evaluation" / "evaluation.parquet")
              for name in names]  # fmt: skip
    fits = pd.concat(frames)
    rows: list[list[object]] = []
    for model in MODELS:
        here = fits[fits["model"] == model]
        cells: list[object] = [SHORT[model], len(here)]
        for tau in ("tau1", "tau2"):
            true = here[f"{tau}_true"]
            error = 100 * (here[f"{tau}_mean"] / true - 1)
            held = (here[f"{tau}_lower"] <= true) & (true <= here[f"{tau}_upper"])
            low, high = error.quantile([0.05, 0.95])
            cells += [f"{error.mean():+.0f}%", f"{low:+.0f}% to {high:+.0f}%",
                      f"{100 * held.mean():.0f}%"]  # fmt: skip
        rows.append([*cells, int(here["converged"].sum()), f"{here['seconds'].median():.0f}"])
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--populations", nargs="+", default=list(POPULATIONS))
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15.0, help="for each fit")
    parser.add_argument("--rhat", type=float, default=1.05)
    parser.add_argument("--ess", type=float, default=100.0)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    done = []
    for name in options.populations:
        out = options.folder / f"{name}-evaluation"
        if not options.table:
            out = evaluate(name, options.folder, options)
        if (out / "evaluation.parquet").exists():
            done.append(name)
    print(machine(), end="\n\n")
    print_table(
        ["model", "fits", "τ1: bias", "90% of errors", "held", "τ2: bias", "90% of errors",
         "held", "converged", "seconds"],
        together(options.folder, done),
    )  # fmt: skip
    for tau, sign in (("tau1", "τ1"), ("tau2", "τ2")):
        rows = [
            row
            for name in done
            for row in rows_of(name, options.folder / f"{name}-evaluation", tau)
        ]
        print()
        print_table(["population", "n", sign, *SHORT.values()], rows)


if __name__ == "__main__":
    main()
