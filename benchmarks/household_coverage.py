"""How right `--model households` is on populations of known truth: samples of 2,000 households.

    python benchmarks/household_coverage.py FOLDER [--samples 4]
    python benchmarks/household_coverage.py FOLDER --table

For every population and set of keys: the mean error of τ1 and τ2, in how many samples the 95%
interval holds the truth, the error of the model alone, and what independence of the members would
give. The prior of the model's error is the program's, which was learned from other samples of the
same surveys (but of Mexico and Colombia from none), and, below, one that was learned without the
survey (from the cases of household_calibration.py in the folders --learned and
--learned-composition). Samples are fitted with as many sweeps as there, and kept, so that the study
goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import machine, print_table
from household_calibration import (
    APART,
    SOURCES,
    SWEEPS,
    WARM_UP,
    Wanted,
    homes_of,
    read_households,
    study,
    tabulated,
)
from learning import SHARES, Cases, experience, fit_case, learn, scored, shares, survey


class Setting(NamedTuple):
    """A population with keys."""

    source: str
    shared: str
    own: str
    width: int
    """Years of a group of ages."""
    apart: bool = False
    """Whether the head's keys are the household's."""
    n: int = 2_000
    """Households of a sample."""

    @property
    def by_role(self) -> bool:
        """Whether the composition by role takes the place of the size."""
        return bool(SOURCES[self.source].relation) and SOURCES[self.source].relation in self.own


SETTINGS = (
    Setting("eph", "REGION", "CH03 CH04 CH06", 10),
    Setting("eph", "", "CH03 CH04 CH06 CH07 NIVEL_ED", 20, apart=True),
    Setting("eph", "REGION", "CH04 CH06 ESTADO", 10),
    Setting("acs-northeast", "ST", "AGEP SEX RAC1P", 10),
    Setting("acs-northeast", "ST TEN", "AGEP SEX RAC1P HISP MAR", 20, apart=True),
    Setting("acs-west", "ST", "AGEP SEX HISP", 10),
    Setting("acs-west", "TEN BLD", "AGEP SEX RAC1P CIT", 20),
    Setting("mexico", "REGION LOCSIZE", "AGE SEX REL", 10),
    Setting("mexico", "LOCSIZE", "AGE SEX HEALTHINS", 10),
    Setting("colombia", "STRATUM", "AGE SEX REL EDUC", 20, n=1_000),
    Setting("colombia", "STRATUM INCDEC", "AGE SEX EDUC", 10, n=1_000),
)


def run_case(number: int, folder: Path) -> str:
    """Fit a sample, and keep what a table needs."""
    from unikat.models.households.nested import NestedHouseholds

    of, sample = divmod(number, 1000)
    setting = SETTINGS[of]
    source, homes = SOURCES[setting.source], homes_of(setting.source)
    every = int(homes.household[-1]) + 1
    sampled = np.sort(
        np.random.default_rng([25, of, sample]).choice(every, setting.n, replace=False)
    )
    wanted = Wanted(
        shared=setting.shared.split(),
        own=setting.own.split(),
        age=source.age,
        width=setting.width,
        head=source.head[0] if setting.apart else "",
        relation=source.relation if setting.by_role else "",
    )
    table, counts = tabulated(homes, np.arange(every), sampled, wanted, True)
    model = NestedHouseholds(composition="auto" if setting.by_role else "none")
    note = {"source": setting.source, "by_hh": False, "studied": False, "levels": "sample"}
    path = folder / f"case-{number}.npz"
    state, data = fit_case(model, table, counts, path, note, (WARM_UP, SWEEPS))
    p = model.independent_probabilities(state, data, table.cells[table.counts == 1])
    np.save(folder / f"independent-{number}.npy", ((1.0 - p) ** (every - setting.n)).sum())
    true = int((counts[table.counts == 1] == 1).sum())
    return f"{number} {setting.source}: {table.n_uniques} uniques, {true} of the population"


def priors(learned_from: Path | None, known: Any) -> dict[str, Any]:
    """What is known of the model's error, by the survey that it was learned without."""
    found = {"": known}
    if learned_from is None:
        return found
    paths = sorted(learned_from.glob("case-*.npz"))
    cases = [case for case in map(read_households, paths) if survey(case) not in APART]
    for name in {survey(case) for case in cases}:
        kept = [case for case in cases if survey(case) != name]
        found[name] = experience(learn(kept, study()), study())
    return found


def rows_of(folder: Path, learned_from: dict[bool, Path | None]) -> list[list[object]]:
    """Rows of the table."""
    from unikat.studies.calibrate import COMPOSITION_EXPERIENCE, HOUSEHOLD_EXPERIENCE

    known = {True: COMPOSITION_EXPERIENCE, False: HOUSEHOLD_EXPERIENCE}
    prior = {by_role: priors(learned_from[by_role], known[by_role]) for by_role in known}
    rows: list[list[object]] = []
    for of, setting in enumerate(SETTINGS):
        numbers = sorted(int(path.stem[5:]) for path in folder.glob(f"case-{of or ''}*.npz"))
        numbers = [number for number in numbers if number // 1000 == of]
        if not numbers:
            continue
        cases = [read_households(folder / f"case-{number}.npz") for number in numbers]
        alone = [np.load(folder / f"independent-{number}.npy") for number in numbers]
        true = np.array([case["true1"] for case in cases])
        name = survey(cases[0])
        keys = f"{setting.shared} {setting.own}".strip() + (", head apart" if setting.apart else "")
        independent = f"{100 * (np.array(alone) / true - 1.0).mean():+.0f}%"
        group = Cases(cases, study())
        for label, kind, of_prior in (
            ("model alone", "model alone", ""),
            ("all surveys", "rare cells", ""),
            (f"without {name}", "rare cells", name),
        ):
            if of_prior not in prior[setting.by_role]:
                continue
            weights = group.weights(prior[setting.by_role][of_prior], kind)
            part = np.array([scored(c, w) for c, w in zip(cases, weights, strict=True)])
            rows.append([setting.source, keys, len(cases), round(true.mean()), label,
                         *shares(part), independent])  # fmt: skip
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--learned", type=Path)
    parser.add_argument("--learned-composition", type=Path)
    parser.add_argument("--table", action="store_true", help="print what is there, fit nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        every = [1000 * of + sample for sample in range(options.samples)
                 for of in range(len(SETTINGS))]  # fmt: skip
        todo = [n for n in every if not (options.folder / f"independent-{n}.npy").exists()]
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            for line in pool.map(run_case, todo, [options.folder] * len(todo)):
                print(line, flush=True)
    print(machine(), end="\n\n")
    learned_from = {False: options.learned, True: options.learned_composition}
    head = ["population", "keys", "samples", "true τ1", "prior learned from", *SHARES]
    print_table([*head, "independence"], rows_of(options.folder, learned_from))


if __name__ == "__main__":
    main()
