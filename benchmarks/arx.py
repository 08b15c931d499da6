"""The search and local suppression beside the optima that ARX publishes for the same file.

    python benchmarks/arx.py

The file: the 30,162 complete records of the training part of the Adult data, nine keys, with the
hierarchies that ARX comes with. ARX's test suite holds its optima by non-uniform entropy
(TestAnonymizationKAnonymity): the levels of the hierarchies and the bits lost, without suppression
and with up to 4% of the records suppressed. Here: the search for 'k >= K' among the same
recodings, and among those that the program makes; what suppression of single values loses for the
recodings that ARX chose with suppressed records; and, for a sample of these records taken as a
population, what a limit of τ1 loses in place of k-anonymity.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
from common import DATA, data_file, machine, print_table

KEYS = ["sex", "age", "race", "marital_status", "education", "native_country", "workclass",
        "occupation", "income"]  # fmt: skip
EDUCATION = [
    "Bachelors Some-college",
    "11th HS-grad 9th 7th-8th 12th 10th",
    "Prof-school Assoc-acdm Assoc-voc",
    "Masters Doctorate",
    "1st-4th 5th-6th Preschool",
]
HIERARCHIES = {
    "age": [[range(5 * i + 1, 5 * i + 6) for i in range(20)],
            [range(10 * i + 1, 10 * i + 11) for i in range(10)],
            [range(20 * i + 1, 20 * i + 21) for i in range(5)]],
    "marital_status": [["Married-civ-spouse Married-AF-spouse",
                        "Divorced Never-married Separated Widowed Married-spouse-absent"]],
    "education": [EDUCATION,
                  [f"{EDUCATION[0]} {EDUCATION[2]} {EDUCATION[3]}", EDUCATION[1], EDUCATION[4]]],
    "native_country": [[
        "United-States Puerto-Rico Canada Outlying-US(Guam-USVI-etc) Cuba Honduras Jamaica Mexico "
        "Dominican-Republic Haiti Guatemala El-Salvador",
        "Cambodia India Japan China Iran Philippines Vietnam Laos Taiwan Thailand Hong",
        "Germany Greece Italy Poland Portugal Ireland France Hungary Scotland Yugoslavia "
        "Holand-Netherlands",
        "Ecuador Columbia Nicaragua Trinadad&Tobago Peru",
    ]],
    "workclass": [["Private Self-emp-not-inc Self-emp-inc", "Federal-gov Local-gov State-gov",
                   "Without-pay Never-worked"]],
    "occupation": [["Tech-support Craft-repair Prof-specialty Machine-op-inspct",
                    "Sales Exec-managerial Handlers-cleaners",
                    "Other-service Adm-clerical Farming-fishing Transport-moving Priv-house-serv "
                    "Protective-serv Armed-Forces"]],
}  # fmt: skip
PUBLISHED = {
    # k, share of records that may be suppressed: levels of the hierarchies by key, bits lost
    (5, 0.0): ((1, 2, 1, 1, 3, 2, 2, 1, 1), 407289.5388925293),
    (100, 0.0): ((0, 4, 1, 1, 3, 2, 2, 1, 1), 453196.8932458743),
    (5, 0.04): ((1, 0, 1, 1, 3, 2, 2, 0, 1), 255559.85455731067),
    (100, 0.04): ((1, 1, 1, 1, 3, 2, 2, 1, 1), 379417.3460570988),
}


def adult() -> pd.DataFrame:
    """The records that ARX's example holds."""
    frame = pd.read_parquet(data_file("adult_48842"))
    names = json.loads((DATA / "adult_48842.codebook.json").read_text())
    for key, labels in names.items():
        if isinstance(labels, dict):
            frame[key] = frame[key].astype(str).map(labels)
    frame = frame.iloc[:32_561]
    return frame[(frame != "?").all(axis=1)].reset_index(drop=True)[KEYS]


def table_of(frame: pd.DataFrame, population_size: int):
    """The records as a table of cells."""
    import unikat

    design = unikat.Design(population_size=population_size)
    return unikat.read(frame, KEYS, design, constant_keys=True).tabulate()


def hierarchies(table) -> dict[str, list]:
    """Recodings of each key by its hierarchy, levels that no record has left out."""
    found = {}
    for key in table.keys:
        rules: list = []
        for groups in HIERARCHIES.get(key.name, []):
            lists = [list(one) if isinstance(one, range) else one.split() for one in groups]
            rules.append([kept for one in lists if (kept := [x for x in one if x in key.levels])])
        found[key.name] = [*rules, None]
    return found


def main() -> None:
    """Print the tables."""
    from unikat.protection.hierarchies import choices
    from unikat.protection.recoding import Recoding, level_counts
    from unikat.protection.search import Search, Value
    from unikat.protection.suppression import KAnonymity, suppress
    from unikat.spec.limits import Limit

    print(machine())
    frame = adult()
    table = table_of(frame, len(frame))
    n = table.n_records
    whole = sum(one.entropy for one in choices(table)) * n

    def smallest(recoding: Recoding) -> Value:
        return Value(float(recoding.table(table).matches.min()), math.nan)

    given = hierarchies(table)
    same = choices(table, given=given)
    rows = []
    for (k, share), (_, published) in PUBLISHED.items():
        if share:
            continue
        target = Limit("k", float(k))
        for name, parts in (("ARX's hierarchies", same), ("its own recodings", choices(table))):
            search = Search.of(parts, smallest)
            # ARX adds up bits, and so keys of many levels count more.
            bits = np.zeros(())
            for part in parts:
                bits = np.add.outer(bits, part.lost)
            search.lost = bits / whole
            plan = search.best(target)
            assert plan is not None
            rows.append(
                [f"k = {k}, {name}", f"{published:,.1f}", f"{plan.lost * whole:,.1f}",
                 f"{plan.lost:.1%}", f"{len(search.seen)} of {search.lost.size:,}"]
            )  # fmt: skip
    print_table(["no suppression", "bits lost, ARX", "bits lost here", "share", "looked at"], rows)

    rows = []
    counts = level_counts(table)
    for (k, share), (levels, published) in PUBLISHED.items():
        if not share:
            continue
        keys, lost = [], 0.0
        for part, level, rules, count in zip(same, levels, given.values(), counts, strict=True):
            one = chosen(part, level, rules, table, count)
            keys.append(one)
            lost += part.lost[part.recodings.index(one)] * n
        recoding = Recoding(keys=tuple(keys))
        codes = recoding.codes(table.cells)[table.record_cell]
        kept = [one.key for one in keys if one.key is not None]
        gone = suppress(codes, [key.n_levels for key in kept], KAnonymity(k))
        _, place, size = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        small = size[place.ravel()] < k
        bits = surprise(codes)
        rows.append(
            [f"k = {k}", f"{lost:,.0f} ({published:,.0f} published)", f"{small.sum():,}",
             f"{int(small.sum()) * len(kept):,}", f"{bits[small].sum():,.0f}",
             f"{int(gone.sum()):,} of {int(gone.any(axis=1).sum()):,} records",
             f"{bits[gone].sum():,.0f}"]
        )  # fmt: skip
    print_table(
        ["recoding of ARX with up to 4% suppressed", "bits lost by it", "records below k",
         "values lost with them", "bits", "values suppressed here", "bits"],
        rows,
    )  # fmt: skip
    limits()


def limits() -> None:
    """What k-anonymity loses, and what a limit of τ1 does, of a sample of the records."""
    import unikat
    from unikat.protection.recoding import parse_recoding

    frame = adult()
    sample = frame.sample(3_000, random_state=1)
    given = {
        "keys": KEYS, "population_size": len(frame), "model": "latent-class", "progress": False,
    }  # fmt: skip
    result = unikat.assess(sample, **given)
    rows = []
    for target in ("k >= 5", "k >= 2", "tau1 <= 5", "tau1_estimate <= 5"):
        made = unikat.protect(sample, target=target, **given)
        rules = {one.name: one.rule for one in made.plan.keys if one.rule is not None}
        table = result.estimate.table
        found = result.what_if(parse_recoding(table, rules)).tau1
        whole = {name: rule for name, rule in rules.items() if not isinstance(rule, dict)}
        everybody = table_of(frame, len(frame))
        for key in everybody.keys:
            if isinstance(rules.get(key.name), dict):
                named = {str(x) for x in key.levels}
                whole[key.name] = {x: g for x, g in rules[key.name].items() if x in named}
        codes = parse_recoding(everybody, whole).codes(everybody.cells)[everybody.record_cell]
        _, place, size = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        true = int((size[place.ravel()[sample.index]] == 1).sum())
        rows.append(
            [target, f"{made.summary.chosen.lost:.1%}",
             f"{made.summary.chosen.utility.distance:.1%}",
             f"{found.mean:.1f} ({found.lower:.0f} to {found.upper:.0f})", true]
        )  # fmt: skip
        print(rows[-1], flush=True)
    print_table(["target, 3,000 records", "lost", "tables move", "τ1", "true τ1"], rows)


def chosen(part, level: int, rules: list, table, count):
    """The recoding of a key at a level of its hierarchy."""
    from unikat.protection.recoding import recode_key

    names = [key.name for key in table.keys]
    key = table.keys[names.index(part.recodings[0].name)]
    if level == 0:
        return part.recodings[0]
    wanted = recode_key(key, count, rules[level - 1])
    return next(
        one for one in part.recodings
        if (one.key is None) == (wanted.key is None) and np.array_equal(one.groups, wanted.groups)
    )  # fmt: skip


def surprise(codes: np.ndarray) -> np.ndarray:
    """Bits that each value tells: minus log2 of its share."""
    found = np.empty(codes.shape)
    for column, out in zip(codes.T, found.T, strict=True):
        share = np.bincount(column) / len(column)
        out[:] = -np.log2(share[column])
    return found


if __name__ == "__main__":
    main()
