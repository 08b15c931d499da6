"""The stage of a protection that changes continuous variables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.measured import Measured
from unikat.data.microdata import Microdata
from unikat.protection.numeric.change import Entry, NumericFacts, change, entries
from unikat.protection.released import Released
from unikat.spec.missing import missing_codes_of
from unikat.spec.numeric import methods_of
from unikat.spec.protection import ProtectionSpec


def numeric_entries(spec: ProtectionSpec, microdata: Microdata) -> list[Entry]:
    """Read and check the columns that `numeric` names, before any work is done."""

    def read(name: str) -> Measured:
        missing = missing_codes_of(spec.data.missing_values, name)
        return Measured.of(microdata, name, spec.data.codebook, missing)

    return entries(
        methods_of(spec.numeric),
        microdata.source.columns,
        [key.name for key in microdata.keys],
        read,
        microdata.name,
    )


def with_numeric(
    spec: ProtectionSpec,
    some: Sequence[Entry],
    made: Released,
    codes: Int32,
    visible: Int32,
    household: Int32 | None,
) -> tuple[Released, NumericFacts | None]:
    """Change the continuous variables of a released file.

    Parameters
    ----------
    spec, some
        What is asked for, and the columns of the released records.
    made
        The released file.
    codes, visible
        (n, n_keys): what the records have, and what they show.
    household
        (n,): of each record, if there are some.
    """
    if not some:
        return made, None
    table, facts = change(
        made.table, some, _numbered(codes), _numbered(visible), household, spec.perturbation_seed
    )
    return made._replace(table=table), facts


def _numbered(codes: Int32) -> Int64:
    """Number the records by what they show of their keys, (n,)."""
    if not codes.shape[1]:
        return np.zeros(len(codes), np.int64)
    return np.unique(codes, axis=0, return_inverse=True)[1].ravel()
