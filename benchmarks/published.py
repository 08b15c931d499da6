"""Plans of six real files, in words: would an office publish them?

    python benchmarks/published.py --target 'tau1 <= 5' --records 2000 --only acs adult

Of each file a simple random sample is protected by the recodings that the program makes itself. The
data are those of `../shared/data`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pandas as pd
from common import machine

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
FILES: dict[str, dict[str, Any]] = {
    "acs": {
        "file": "acs2024_persons_northeast",
        "codebook": "acs2024_persons",
        "keys": "AGEP,SEX,RAC1P,MAR,SCHL,ESR,CIT,OCC",
    },
    "uk": {
        "file": "uk2011_teaching_srs_10k",
        "population": 569_741,
        "keys": "age,sex,marital_status,ethnic_group,religion,economic_activity,occupation,health",
        "levels": "age: ordered; health: ordered; marital_status: nominal; ethnic_group: nominal; "
        "religion: nominal; economic_activity: nominal; occupation: nominal",
    },
    "eph": {
        "file": "eph_argentina_4_quarters",
        "codebook": "eph_argentina_2003_2014",
        "keys": "CH04,CH06,CH07,CH03,ESTADO,CAT_OCUP,NIVEL_ED",
        "levels": "CH06: age",
    },
    "adult": {
        "file": "adult_48842",
        "keys": "age,sex,race,marital_status,education,workclass,occupation,hours_per_week,"
        "native_country",
    },
    "chile": {
        "file": "chile_census2024_sample25k",
        "keys": "region,sexo,edad,p23_est_civil,p31_religion,cine11,sit_fuerza_trabajo,cod_ciuo",
        "levels": "edad: age",
    },
    "nist": {"file": "nist_excerpt_ma", "keys": "AGEP,SEX,MSP,RAC1P,EDU,PINCP_DECILE,INDP_CAT"},
}


def main() -> None:
    """Protect each file, and print its plan."""
    import unikat

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(FILES), choices=FILES)
    parser.add_argument("--target", default="tau1 <= 5")
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-sweeps", type=int, default=400)
    options = parser.parse_args()
    print(machine())
    for name in options.only:
        asked = FILES[name]
        whole = labelled(asked, asked["keys"].split(","))
        sample = whole.sample(options.records, random_state=options.seed).reset_index(drop=True)
        started = time.monotonic()
        try:
            found = unikat.protect(
                sample, keys=asked["keys"], target=options.target, levels=asked.get("levels"),
                population_size=asked.get("population", len(whole)), model="latent-class",
                chains=2, workers=1, max_sweeps=options.max_sweeps, seed=options.seed,
                progress=False,
            )  # fmt: skip
        except unikat.UnikatError as error:
            print(f"\n{name}: {error}")
            continue
        facts = found.summary
        plan = next(one for one in facts.plans if one.chosen)
        print(f"\n{name}: N {facts.population_size:,}, τ1 {facts.before.tau1.mean:.0f} before, "
              f"{facts.by_plan:.3g} after, {facts.lost:.0%} lost, "
              f"{time.monotonic() - started:.0f} s")  # fmt: skip
        for key, column in zip(facts.keys, facts.columns, strict=True):
            print(f"  {key.name}: {plan.recodings.get(key.name) or 'as it is'}", end="")
            print(f" -> {', '.join(column.groups)}" if getattr(column, "groups", ()) else "")


def labelled(asked: dict[str, Any], keys: list[str]) -> pd.DataFrame:
    """The keys of a file, with labels in place of codes where its codebook has them."""
    frame = pd.read_parquet(DATA / f"{asked['file']}.parquet", columns=keys)
    book = json.loads((DATA / f"{asked.get('codebook', asked['file'])}.codebook.json").read_text())
    for key in keys:
        labels = book.get(key)
        missing = frame[key] == -1 if asked["keys"].find("CH06") < 0 else frame[key] == -9
        codes = set(map(str, frame[key][~missing].unique()))
        if isinstance(labels, dict) and 2 * len(codes & {*labels}) > len(codes):
            named = frame[key].map(lambda code, of=labels: of.get(str(code), f"code {code}"))
            frame[key] = named.where(~missing & (named != "NA"))
        else:
            frame[key] = frame[key].astype("Int64").where(~missing)
    return frame


if __name__ == "__main__":
    main()
