"""Ties of members to the head of their household: held-out households, and who lives together.

    python benchmarks/couples.py --source eph --households 2000 --sweeps 1000
    python benchmarks/couples.py --source seattle --households 1200
    python benchmarks/couples.py --source eph --rules

A sample of households is drawn from a file, and the nested model with the composition by role is
fitted to it with ties and without. Of other households of the file the log score, nats per
household, under the mean of their probabilities over the kept states. Of synthetic files, of the
sizes of the sample, shares within households, beside those of the sample and the range that holds
95% of 200 other samples of as many households. With `--rules` every household has one head, one
spouse at most, and no child who is hardly younger than the head; others are dropped from the file.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

from common import data_file, machine, print_table


class Source(NamedTuple):
    """A file of households and what is asked of it."""

    keys: str
    household_keys: str
    roles: dict[str, str]
    shares: tuple[str, ...]


COUPLES = (
    "share(spouse present)",
    "share(spouse.SEX == head.SEX | spouse present)",
    "share(spouse.AGE > head.AGE + 10 | spouse present)",
    "share(head.AGE > spouse.AGE + 10 | spouse present)",
    "share(child.AGE > head.AGE - 12 | count(REL == 3) > 0)",
)
SOURCES = {
    "eph": Source(
        "REGION,REL,SEX,AGE:width(5),MARST,EDU",
        "REGION",
        {"head": "REL == 1", "spouse": "REL == 2", "child": "REL == 3"},
        (
            *COUPLES,
            "share(spouse.EDU == head.EDU | spouse present)",
            "share(spouse.MARST == head.MARST | spouse present)",
            "share(all same EDU | size = 2)",
            "share(all same SEX | size = 3)",
            "share(all same MARST | size = 2)",
            "share(count(AGE < 15) >= 1)",
            "share(count(AGE < 15) >= 2)",
            "share(count(AGE >= 65) == size)",
        ),
    ),
    "seattle": Source(
        "PUMA,REL,SEX,AGE:width(5),RACE,WORK",
        "PUMA",
        {"head": "REL == 1", "spouse": "REL == 2", "child": "REL == 3"},
        (
            *COUPLES,
            "share(spouse.RACE == head.RACE | spouse present)",
            "share(all same RACE | size = 2)",
            "share(all same RACE | size = 3)",
            "share(all same RACE | size = 4)",
            "share(count(AGE < 15) >= 1)",
            "share(count(AGE >= 65) == size)",
        ),
    ),
}


def eph() -> Any:
    """Argentine households of at most six of one quarter."""
    import pandas as pd

    rows = pd.read_parquet(data_file("eph_argentina_4_quarters"))
    rows = rows[rows["YQ"] == rows["YQ"].min()]
    rows = rows[rows.groupby("HH")["HH"].transform("size") <= 6]
    names = {"CH03": "REL", "CH04": "SEX", "CH06": "AGE", "CH07": "MARST", "NIVEL_ED": "EDU"}
    found = rows.rename(columns=names)[["HH", "REGION", *names.values()]]
    found = found[~found["HH"].isin(found.loc[~found["MARST"].between(1, 5), "HH"])]
    return found.assign(AGE=found["AGE"].clip(0, 98)).reset_index(drop=True)


def seattle() -> Any:
    """Households of the ACS in Seattle, of at most six, without group quarters."""
    import pandas as pd

    rows = pd.read_parquet(data_file("acs2016_seattle_relp"))
    # Relations count from 1: head, spouse, children of any kind, others as they are.
    relation = rows["RELP"].replace({3: 2, 4: 2}) + 1
    names = {"AGEP": "AGE", "RAC1P": "RACE", "ESR": "WORK"}
    found = rows.assign(REL=relation).rename(columns=names)
    found = found[~found["HH"].isin(found.loc[found["RELP"] >= 16, "HH"])]
    found = found[found.groupby("HH")["HH"].transform("size") <= 6]
    return found[["HH", "PUMA", "REL", "SEX", "AGE", "RACE", "WORK"]].reset_index(drop=True)


FILES = {"eph": eph, "seattle": seattle}
RULES = ("count(REL == 1) != 1", "count(REL == 2) > 1", "child.AGE > head.AGE - 12")


def table_of(name: str, rules: bool) -> Any:
    """All households of a source; with rules those alone that obey them."""
    from unikat.inference.progress import SILENT
    from unikat.jobs.households import read_households
    from unikat.spec.synthesis import SynthesisSpec

    source = SOURCES[name]
    zeros = {"rules": list(RULES), "roles": source.roles, "on_conflict": "drop"}
    spec = SynthesisSpec.parse(
        {
            "keys": source.keys,
            "model": "households",
            "design": {"household": "HH"},
            "households": {"keys": source.household_keys},
            "data": {"missing": "level"},
        }
        | ({"zeros": zeros} if rules else {})
    )
    return read_households(spec, FILES[name](), SILENT)[1].table


def shares_of(name: str, table: Any, cells: Any) -> list[float]:
    """Shares within households, rows of codes (n, n_columns)."""
    import numpy as np

    from unikat.synthesis.persons import Plain
    from unikat.synthesis.shares import parse_formula, share_of

    layout = table.layout
    houses, members = layout.parts(np.asarray(cells))
    plain = Plain(layout.household_keys, layout.person_keys, houses, members)
    source = SOURCES[name]
    return [share_of(parse_formula(text), plain, source.roles).share for text in source.shares]


def fitted(asked: argparse.Namespace, ties: str, sample: Any, others: Any) -> Any:
    """Log probabilities of other households, and synthetic files, after some sweeps."""
    import numpy as np

    from unikat.models.base import Stream
    from unikat.models.households.nested import NestedHouseholds
    from unikat.synthesis.generate import PosteriorState, draw_households

    model = NestedHouseholds(composition="REL", ties=ties)
    data = model.prepare(sample)
    total, n_kept, files = np.zeros(len(others)), 0, []
    begin = time.perf_counter()
    for chain in range(asked.chains):
        state = model.init(Stream(asked.seed, chain, 0), data)
        for sweep in range(1, asked.sweeps + 1):
            at = Stream(asked.seed, chain, sweep)
            state, _ = model.step(at, state, data, 2)
            if sweep > asked.sweeps // 2 and sweep % 20 == 0:
                total += model.cell_probabilities(at, state, data, others)
                n_kept += 1
            if sweep > asked.sweeps // 2 and sweep % (asked.sweeps // 8) == 0:
                files.append(
                    draw_households(PosteriorState(at, state), data, data.rules, sample, sample)
                )
    seconds = time.perf_counter() - begin
    print(f"ties {ties}: {1e3 * seconds / asked.chains / asked.sweeps:.0f} ms a sweep", flush=True)
    return np.log(total / n_kept), files


def main() -> None:
    import numpy as np

    from unikat.data.table import CellTable

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=list(SOURCES), default="eph")
    parser.add_argument("--households", type=int, default=2000)
    parser.add_argument("--held", type=int, default=4000)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(machine())
    table = table_of(asked.source, asked.rules)
    cells = table.cells[table.record_cell]
    rng = np.random.default_rng(asked.seed)
    order = rng.permutation(len(cells))
    first, rest = order[: asked.households], order[asked.households :]
    sample = CellTable.from_codes(cells[first], table.keys, len(cells), layout=table.layout)
    others = np.ascontiguousarray(cells[rest[: asked.held]])
    print(f"{asked.source}: {len(first):,} households, {len(others):,} held out of {len(cells):,}")
    again = np.array(
        [
            shares_of(asked.source, table, cells[rng.choice(len(cells), len(first), replace=False)])
            for _ in range(200)
        ]
    )
    low, high = np.nanquantile(again, [0.025, 0.975], axis=0)
    of_sample = shares_of(asked.source, table, cells[first])
    found, scores = {}, {}
    for ties in ("none", "head"):
        scores[ties], files = fitted(asked, ties, sample, others)
        found[ties] = np.mean([shares_of(asked.source, table, one) for one in files], axis=0)
    gain = scores["head"] - scores["none"]
    error = gain.std() / len(gain) ** 0.5
    print(
        f"log score, nats per household: {scores['none'].mean():.3f} without ties, "
        f"{scores['head'].mean():.3f} with ties, difference {gain.mean():.3f} (SE {error:.3f})"
    )
    rows = [
        (
            text[6:-1],
            f"{of_sample[i]:.3f}",
            f"{low[i]:.3f}–{high[i]:.3f}",
            *(
                f"{one[i]:.3f}{'' if low[i] <= one[i] <= high[i] else ' *'}"
                for one in found.values()
            ),
        )
        for i, text in enumerate(SOURCES[asked.source].shares)
    ]
    print_table(("share", "sample", "other samples", "no ties", "ties"), rows)
    print("* outside the range of other samples")


if __name__ == "__main__":
    main()
