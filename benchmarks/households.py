"""One sweep of the nested model of households, with rules and without.

    python benchmarks/households.py --sweeps 60

With rules: 5,000 households resampled from `nestedcateg_origdata_newFormat`, the head's keys apart,
the rules of NestedCategBayesImpute, the paper's priors. Without: 10,000 households of
`eph_argentina_4_quarters`. Seconds of the clock and of the processor, medians over the sweeps after
the first third.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from common import DATA, machine, print_table

RULES = (
    "head.AGE < 16",
    "count(REL == 2) > 1",
    "spouse.AGE < 16",
    "spouse.SEX == head.SEX",
    "spouse.AGE - head.AGE > 49",
    "head.AGE - spouse.AGE > 49",
    "child.AGE > head.AGE - 7",
    "parent.AGE < head.AGE + 4",
    "in_law.AGE < head.AGE + 4",
    "sibling.AGE - head.AGE > 37",
    "head.AGE - sibling.AGE > 37",
    "count(REL == 9) > 0 and head.AGE < 33",
    "count(REL == 9) > 0 and spouse.AGE < 17",
    "grandchild.AGE > head.AGE - 26",
)
"""Those of the peer, by the codes that its data have (IPUMS)."""
ROLES = {
    "spouse": "REL == 2",
    "child": "REL == 3",
    "parent": "REL == 5",
    "in_law": "REL == 6",
    "sibling": "REL == 7",
    "grandchild": "REL == 9",
}


def ruled_table(n: int) -> Any:
    """Households resampled from those of the peer, with its rules."""
    import numpy as np
    import pyarrow.parquet as pq

    from unikat.data.households import HouseholdLayout
    from unikat.data.keys import Key
    from unikat.data.table import CellTable
    from unikat.zeros.household_rules import HouseholdZeros

    table = pq.read_table(DATA / "nestedcateg_origdata_newFormat.parquet")
    column = {name: table[name].to_numpy().astype(int) for name in table.column_names}

    def key(name: str, first: int, last: int) -> Key:
        levels = tuple(range(first, last + 1))
        return Key(name=name, levels=levels, labels=tuple(map(str, levels)))

    ranges = {"SEX": (1, 2), "RACE": (1, 9), "HISP": (1, 5), "AGE": (1, 95)}
    persons = (*(key(name, *ends) for name, ends in ranges.items()), key("REL", 2, 12))
    households = (
        key("size", 1, 6),
        key("OWN", 1, 2),
        *(key(f"head.{name}", *ends) for name, ends in ranges.items()),
    )
    zeros = HouseholdZeros.of(RULES, ROLES, households, persons, head_apart=True)
    layout = HouseholdLayout(
        household_keys=households,
        person_keys=persons,
        n_slots=5,
        head_apart=True,
        rules=zeros.program,
    )
    members = np.stack(
        [column[name] for name in ("sex", "race", "hisp", "age", "relate")], axis=1
    ) - [1, 1, 1, 1, 2]
    first = np.flatnonzero(np.diff(column["Hhindex"], prepend=0))
    sizes = np.diff(np.append(first, len(members)))
    names = ("ownership", "headsex", "headrace", "headhisp", "headage")
    codes = np.stack([sizes, *(column[name][first] - 1 for name in names)], axis=1)
    rows = layout.pack(codes, members)
    if n != len(rows):
        rows = rows[np.random.default_rng(1).integers(len(rows), size=n)]
    return CellTable.from_codes(rows, layout.columns, 100 * n, layout=layout)


def free_table(n: int) -> Any:
    """Households of the Argentine survey of up to twelve persons: relation, sex, age, region."""
    import numpy as np
    import pyarrow.parquet as pq

    from unikat.data.households import HouseholdLayout
    from unikat.data.keys import Key
    from unikat.data.table import CellTable

    table = pq.read_table(DATA / "eph_argentina_4_quarters.parquet")
    column = {name: table[name].to_numpy() for name in table.column_names}
    household = np.unique(
        np.stack([column["YQ"], column["HH"]], axis=1), axis=0, return_inverse=True
    )[1].ravel()
    order = np.argsort(household, kind="stable")

    def coded(name: str) -> Any:
        return np.unique(column[name], return_inverse=True)[1][order]

    age = np.clip(column["CH06"][order], 0, 84) // 5
    members = np.stack([coded("CH03"), coded("CH04"), age], axis=1)
    first = np.flatnonzero(np.diff(household[order], prepend=-1))
    sizes = np.diff(np.append(first, len(members)))
    kept = sizes <= 12
    layout = HouseholdLayout(
        household_keys=(Key.of_size("size", 12), Key.of_size("REGION", 6)),
        person_keys=(Key.of_size("REL", 10), Key.of_size("SEX", 2), Key.of_size("AGE", 17)),
        n_slots=12,
    )
    codes = np.stack([sizes - 1, coded("REGION")[first]], axis=1)[kept]
    rows = layout.pack(codes, members[np.repeat(kept, sizes)])
    size = len(rows)
    rows = rows[np.random.default_rng(1).choice(size, n, replace=False)]
    return CellTable.from_codes(rows, layout.columns, size, layout=layout)


def main() -> None:
    """Time both and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=["rules", "free"])
    options = parser.parse_args()

    import numpy as np

    from unikat.models.base import Stream
    from unikat.models.households.nested import NestedHouseholds

    print(machine(), end="\n\n")
    flat: dict[str, Any] = {"profile_concentration": 1.0, "profile_base": "uniform"}
    cases = {
        "rules": (NestedHouseholds(**flat, zeros_tempering=0.0), lambda: ruled_table(5_000)),
        "free": (NestedHouseholds(), lambda: free_table(10_000)),
    }
    rows = []
    for name, (model, make) in cases.items():
        if options.only not in (None, name):
            continue
        data = model.prepare(make())
        state = model.init(Stream(1, 0, 0), data)
        clock, processor, impossible = [], [], []
        for sweep in range(1, options.sweeps + 1):
            begun, used = time.perf_counter(), time.process_time()
            state, info = model.step(Stream(1, 0, sweep), state, data, options.threads)
            clock.append(time.perf_counter() - begun)
            processor.append(time.process_time() - used)
            impossible.append(info.values.get("impossible_mass", 0.0))
        late = slice(options.sweeps // 3, None)
        rows.append([
            name, f"{data.n_records:,}", f"{len(data.token_record):,}", str(state.omega.shape),
            f"{1e3 * np.median(clock[late]):.1f}", f"{1e3 * min(clock[late]):.1f}",
            f"{1e3 * np.median(processor[late]):.1f}", f"{np.mean(impossible[late]):.3f}",
        ])  # fmt: skip
    head = ["rules", "households", "members", "classes", "ms a sweep", "fastest", "processor", "p0"]
    print_table(head, rows)


if __name__ == "__main__":
    main()
