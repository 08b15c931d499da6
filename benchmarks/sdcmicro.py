"""Protection beside sdcMicro and ARX: what is lost for the true τ1 that is left.

    python benchmarks/sdcmicro.py

A sample of 3,000 of the 30,162 complete records of the Adult data, nine keys; the 30,162 are the
population, so that τ1 of every protected file is known. sdcMicro (by Rscript, where it is at hand)
suppresses values of the file as it is, and with age in groups of ten years, until it is
k-anonymous; ARX's published optimum for k = 5 recodes. Beside each file: `unikat protect` to the
same τ1, or less, by the upper end of its interval; by recoding, and by recoding and suppression.
Information lost is that of docs/design/protect.md, a suppressed value counted once.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from arx import KEYS, PUBLISHED, adult, chosen, hierarchies, table_of
from common import machine, print_table

SDCMICRO = """
suppressMessages(library(sdcMicro)); at <- commandArgs(TRUE)
x <- read.csv(at[1], colClasses = "character", check.names = FALSE)
for (name in names(x)) x[[name]] <- factor(x[[name]])
took <- system.time(found <- kAnon(createSdcObj(x, keyVars = names(x)), k = as.integer(at[2])))
write.csv(extractManipData(found), at[3], row.names = FALSE, na = ""); cat(took[["elapsed"]])
"""


class Population:
    """The census, and the sample of it that is protected."""

    def __init__(self) -> None:
        """Draw the sample."""
        from unikat.protection.hierarchies import choices

        self.frame = adult()
        self.sample = self.frame.sample(3_000, random_state=1)
        self.table = table_of(self.sample, len(self.frame))
        self.codes = self.table.cells[self.table.record_cell]
        levels = [{str(one): i for i, one in enumerate(key.levels)} for key in self.table.keys]
        # A level that the sample does not have is one more.
        self.people = np.stack(
            [
                np.array([of.get(str(value), len(of)) for value in self.frame[name]], np.int32)
                for of, name in zip(levels, KEYS, strict=True)
            ],
            axis=1,
        )
        self.parts = choices(self.table)

    def judged(self, recoding, suppressed=None) -> tuple[int, float]:
        """True τ1 of the protected sample, and the information lost."""
        from unikat.protection.lost import information_lost

        shown = recoding.codes(self.codes)
        people = np.stack(
            [
                # What the sample does not have agrees with no group of it.
                np.append(recoding.keys[j].groups, -2)[self.people[:, j]]
                for j in recoding.kept
            ],
            axis=1,
        )
        hidden = np.zeros(shown.shape, bool) if suppressed is None else suppressed
        true = 0
        # The records of each set of keys that are shown.
        sets, place = np.unique(hidden, axis=0, return_inverse=True)
        for number, gone in enumerate(sets):
            rows = np.flatnonzero(place.ravel() == number)
            sizes = []
            for table in (people, shown):
                both = np.concatenate([table[:, ~gone], shown[rows][:, ~gone]])
                _, cell, n = np.unique(both, axis=0, return_inverse=True, return_counts=True)
                alike = np.bincount(cell.ravel()[: len(table)], minlength=len(n))
                sizes.append(alike[cell.ravel()[len(table) :]])
            true += int(((sizes[0] == 1) & (sizes[1] == 1)).sum())
        lost = information_lost(self.codes, recoding, [1.0] * len(KEYS), suppressed=suppressed)
        return true, lost


def by_sdcmicro(whole: Population, age: str | None, k: int):
    """The recoding and the suppressed values of a file that sdcMicro made k-anonymous."""
    from unikat.protection.recoding import parse_recoding

    recoding = parse_recoding(whole.table, {} if age is None else {"age": age})
    codes = pd.DataFrame(recoding.codes(whole.codes), columns=KEYS)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.csv", Path(folder) / "out.csv"
        codes.to_csv(path, index=False)
        run = subprocess.run(
            ["Rscript", "-e", SDCMICRO, str(path), str(k), str(out)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        gone = pd.read_csv(out, dtype=str)[KEYS].isna().to_numpy()
    return recoding, gone, float(run.stdout)


def by_arx(whole: Population):
    """ARX's published optimum for k = 5 of the 30,162 records, done to the sample."""
    from unikat.protection.hierarchies import choices
    from unikat.protection.recoding import Recoding, level_counts

    given = hierarchies(whole.table)
    parts = choices(whole.table, given=given)
    levels = PUBLISHED[5, 0.0][0]
    keys = [
        chosen(part, level, rules, whole.table, count)
        for part, level, rules, count in zip(
            parts, levels, given.values(), level_counts(whole.table), strict=True
        )
    ]
    return Recoding(keys=tuple(keys))


def by_unikat(whole: Population, model: str, most: int, suppress: str | None):
    """The plan that `protect` carries out for the same τ1 at most."""
    import unikat
    from unikat.protection.recoding import parse_recoding

    made = unikat.protect(
        whole.sample, keys=KEYS, population_size=len(whole.frame), model=model,
        target=f"tau1 <= {most}", suppress=suppress, weight_of_suppressed=1.0, progress=False,
        seed=1, workers=2,
    )  # fmt: skip
    rules = {one.name: one.rule for one in made.plan.keys if one.rule is not None}
    recoding = parse_recoding(whole.table, rules)
    gone = None
    if made.summary.suppression is not None:
        gone = made.frame[[KEYS[j] for j in recoding.kept]].isna().to_numpy()
    return made, recoding, gone


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="auto")
    options = parser.parse_args()
    print(machine())
    whole, rows = Population(), []
    files = [("ARX, k = 5, recoding alone", (by_arx(whole), None))]
    if shutil.which("Rscript"):
        for age, k in ((None, 3), ("width(10)", 3), ("width(10)", 5)):
            recoding, gone, seconds = by_sdcmicro(whole, age, k)
            words = "as it is" if age is None else "age in tens"
            files.append((f"sdcMicro kAnon({k}), {words}, {seconds:.0f} s", (recoding, gone)))
    else:
        print("Rscript is not at hand: sdcMicro is left out")
    for name, (recoding, gone) in files:
        true, lost = whole.judged(recoding, gone)
        values = 0 if gone is None else int(gone.sum())
        rows.append([name, true, f"{lost:.1%}", f"{values:,}"])
        print(rows[-1], flush=True)
        for suppress in (None, "search"):
            made, ours, ours_gone = by_unikat(whole, options.model, max(true, 1), suppress)
            ours_true, ours_lost = whole.judged(ours, ours_gone)
            n_values = 0 if ours_gone is None else int(ours_gone.sum())
            words = "recoding" if suppress is None else "recoding and suppression"
            rows.append([f"  protect to tau1 <= {max(true, 1)}, {words}: {made.verdict}",
                         ours_true, f"{ours_lost:.1%}", f"{n_values:,}"])  # fmt: skip
            print(rows[-1], flush=True)
    print_table(["file", "true τ1", "information lost", "values suppressed"], rows)


if __name__ == "__main__":
    main()
