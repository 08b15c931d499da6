"""What an intruder learns about sensitive variables, beside the truth in populations.

    python benchmarks/attributes.py --populations adult,chile --samples 2

Samples of files that are taken as populations, with keys and sensitive variables. The truth is that
of the same inferences: the share of the persons of the population with a record's keys for whom
they are right, summed over the records. `released` is the sample without its key of most levels,
and with a tenth of the values of others.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from common import data_file, machine, print_table

POPULATIONS = {
    name: (source, keys.split(), sensitive.split())
    for name, source, keys, sensitive in (
        ("adult", "adult_48842", "age sex race marital_status education workclass",
         "occupation income relationship hours_per_week"),
        ("acs-west", "acs2024_persons_west", "AGEP SEX RAC1P MAR SCHL ST",
         "ESR OCC DIS CIT JWTRNS"),
        ("acs-northeast", "acs2024_persons_northeast", "PUMA AGEP SEX MAR",
         "ESR IND RAC1P DIS SCHL"),
        ("chile", "chile_census2024_sample25k", "region area sexo edad p23_est_civil cine11",
         "p31_religion discapacidad sit_fuerza_trabajo cod_ciuo p28_autoid_pueblo"),
        ("pakistan", "pk_pslm2015", "REGION URBAN AGE SEX MARST TENURE ROOMS",
         "EDUC EMPSTAT READ WATER MOBILE"),
        ("mexico", "mx_enut2019", "REGION LOCSIZE AGE SEX REL", "HEALTHINS ROOMS CAR WATER"),
        ("spain-2011", "es_ecv2011", "REGION URBAN AGE SEX MARST EDUC",
         "ACTIVITY HEALTH INCDEC CHRONIC OCC"),
        ("spain-2017", "es_ense2017", "REGION STRATUM AGE SEX REL",
         "EDUC ACTIVITY INCGRP CLASSPR"),
        ("colombia", "co_geih2018_bogota", "STRATUM AGE SEX REL EDUC",
         "ACTIVITY HEALTHREG INCDEC OCC PENSION"),
        ("bolivia", "bo_census1976_pando", "CANTON AGE SEX REL MARST",
         "LANG LITER OCC1 BIRTH GRADE"),
        ("eph", "eph_argentina_4_quarters", "REGION CH04 CH06 CH07 NIVEL_ED",
         "ESTADO CAT_OCUP CH08 CH03"),
        ("nist-ma", "nist_excerpt_ma", "PUMA AGEP SEX MSP EDU OWN_RENT",
         "RAC1P PINCP_DECILE INDP_CAT DPHY"),
    )
}  # fmt: skip
"""File, keys and sensitive variables."""
SIZES = 3_000, 2_000, 1_000
MEASURES = "right", "before", "gain", "released"


def measured(name: str, seed: int, model: str) -> list[dict[str, object]]:
    """Estimates with their intervals and the truth, of each sensitive variable of one sample."""
    import unikat
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.auto import Auto
    from unikat.protection.learned import Released, learned
    from unikat.protection.recoding import parse_recoding
    from unikat.protection.what_if import Posterior
    from unikat.studies.fit import fit

    source, keys, sensitive = POPULATIONS[name]
    people = pd.read_parquet(data_file(source), columns=[*keys, *sensitive])
    sample = people.sample(SIZES[seed % len(SIZES)], random_state=seed)
    whole = unikat.Design(population_size=len(people))
    table = unikat.read(sample, keys, whole, missing="level").tabulate()
    asked = Auto(candidates=("latent-class",), evidence_seconds=15.0) if model == "auto" else model
    fitted = fit(asked, table, plan=Plan(n_chains=2, stop=StopRule(max_sweeps=500)))
    posterior = Posterior.of(fitted, n_states=80)
    # The key of most levels is left out, and a tenth of the values are those of other records.
    most = max(table.keys, key=lambda key: key.n_levels)
    recoding = parse_recoding(table, {most.name: None})
    codes = recoding.columns(table).codes(table.cells[table.record_cell])
    generator = np.random.default_rng(seed)
    rows = []
    for variable in sensitive:
        levels = np.unique(sample[variable])
        begun = time.perf_counter()
        values = np.searchsorted(levels, sample[variable])
        swapped = generator.random(len(values)) < 0.1
        shown = np.where(swapped, generator.permutation(values), values)
        released = Released(recoding, codes, shown)
        found = learned(posterior, variable, values, 0.95, 1, released)
        seconds = time.perf_counter() - begun
        assert found is not None
        assert found.released is not None
        assert found.record_released is not None
        counts = people.groupby([*keys, variable]).size().unstack(fill_value=0)
        shares = counts[levels].div(counts.sum(axis=1), axis=0)
        of_records = shares.loc[list(sample[keys].itertuples(index=False, name=None))].to_numpy()
        right, before, second_right = (
            of_records[np.arange(len(sample)), chosen].sum()
            for chosen in (found.record_chosen, found.record_usual, found.record_released)
        )
        of_all = right, before, right - before, second_right - before
        truth = dict(zip(MEASURES, of_all, strict=True))
        row: dict[str, object] = {"population": name, "n": len(sample), "variable": variable}
        for measure in MEASURES:
            one = found.released.gain if measure == "released" else getattr(found, measure)
            row[measure] = f"{one.mean:.0f} ({one.lower:.0f} to {one.upper:.0f})"
            row[f"{measure}_true"] = round(truth[measure])
            row[f"{measure}_covered"] = one.lower <= truth[measure] <= one.upper
        rows.append(row | {"error": found.gain.mean / truth["gain"] - 1.0, "seconds": seconds})
    return rows


def main() -> None:
    """Print estimates with their intervals, the truth, and how often these contained it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--populations", default=",".join(POPULATIONS))
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--model", default="auto", help="auto is that of latent classes alone")
    options = parser.parse_args()
    print(machine())
    rows = []
    for seed in range(1, options.samples + 1):
        for name in options.populations.split(","):
            of_sample = pd.DataFrame(measured(name, seed, options.model))
            # As they come, since a run takes an hour.
            print_table(list(of_sample), of_sample.round(2).to_numpy().tolist())
            rows.append(of_sample)
    found = pd.concat(rows)
    covered = [f"{measure}_covered" for measure in MEASURES]
    print(found.groupby("population")[[*covered, "error"]].mean().round(2).to_string())
    print(found[covered].sum().to_dict(), "of", len(found))
    print(
        f"error of gain: median {found['error'].median():+.1%}, seconds: {found.seconds.max():.1f}"
    )


if __name__ == "__main__":
    main()
