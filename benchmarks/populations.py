"""Populations whose truth is known, with their keys, and what `auto` knows without their survey."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from accuracy import POPULATIONS as MEASURED
from learning import without

POPULATIONS = {
    **{name: (source, keys.split(",")) for name, (source, keys) in MEASURED.items()},
    "chile": (
        "chile_census2024_sample25k",
        ["region", "area", "sexo", "edad", "p23_est_civil", "p31_religion", "cine11"],
    ),
    "uk": (
        "uk2011_teaching_srs_10k",
        ["region", "sex", "age", "marital_status", "health", "ethnic_group", "religion"],
    ),
    "seattle": ("acs2016_seattle_relp", ["PUMA", "RELP", "AGEP", "SEX", "ESR", "RAC1P"]),
}
"""Files taken whole as populations, and their keys."""
APART = {
    f"{name}-{number}": (source, keys.split())
    for name, source, *sets in (
        ("pakistan", "pk_pslm2015", "REGION URBAN AGE SEX MARST EDUC EMPSTAT",
         "REGION TENURE ROOMS AGE SEX REL READ"),
        ("mexico", "mx_enut2019", "REGION LOCSIZE AGE SEX HEALTHINS",
         "LOCSIZE ROOMS WATER CAR AGE SEX REL"),
        ("spain-2011", "es_ecv2011", "REGION URBAN AGE SEX MARST EDUC ACTIVITY",
         "REGION HHTYPE AGE SEX COB OCC HEALTH"),
        ("spain-2017", "es_ense2017", "REGION STRATUM AGE SEX EDUC ACTIVITY",
         "REGION HHTYPE CLASSPR AGE SEX REL"),
        ("colombia", "co_geih2018_bogota", "STRATUM AGE SEX REL EDUC ACTIVITY",
         "AGE SEX MAXEDUC OCC FIRMSIZE PENSION"),
        ("bolivia", "bo_census1976_pando", "PROV AREA AGE SEX MARST LANG ACTIVITY",
         "CANTON AGE SEX REL BIRTH OCC1 EMPSTAT"),
    )
    for number, keys in enumerate(sets, 1)
}  # fmt: skip
"""Likewise, of six other surveys."""


HOUSEHOLD = {
    **dict.fromkeys(
        ("acs", "seattle", "pakistan", "mexico", "spain", "colombia", "bolivia"), ("HH",)
    ),
    "eph": ("YQ", "HH"),
    "chile": ("id_vivienda", "id_hogar"),
}
"""Columns that together identify the household, by how the name of a population begins."""
STRATA = {
    **dict.fromkeys(("pakistan", "mexico", "spain", "eph"), "REGION"),
    **dict.fromkeys(("chile", "uk"), "region"),
    **dict.fromkeys(("seattle", "nist"), "PUMA"),
    "acs": "ST", "colombia": "STRATUM", "bolivia": "PROV",
}  # fmt: skip
"""Column of the strata of which as many persons are drawn, likewise."""


def of_survey(name: str, columns: dict[str, Any]) -> Any:
    """What a population has of `HOUSEHOLD` or `STRATA`; None if nothing."""
    return next((found for start, found in columns.items() if name.startswith(start)), None)


def without_survey(name: str, experience: Any, study: str = "persons") -> Any:
    """Parameters that were found without the survey of a population.

    By calibration.py, or in the study of ``"households"`` by sampled_households.py.
    """
    named = {"spain-2017": "ense", "seattle": "acs"}
    survey = next((of for one, of in named.items() if name.startswith(one)), name.split("-")[0])
    return replace(experience, **without(study, survey))
