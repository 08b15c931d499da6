"""What a run finds beside the model's answer for the file, if it was asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.microdata import Microdata
from unikat.data.table import CellTable
from unikat.provenance import AssessmentSpec
from unikat.report.classics import ClassicsResult, classics_result, columns
from unikat.report.registry import RegistryResult, registry_result
from unikat.risk.classics.table import Classics, classics
from unikat.risk.registry import RegistryRisk
from unikat.specification import ClassicsSpec
from unikat.zeros.conflicts import Handled


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The risk of a registry, and the classic measures; None where they were not asked for."""

    registry: RegistryRisk | None = None
    classics: Classics | None = None

    def registry_result(self, spec: AssessmentSpec) -> RegistryResult | None:
        """Return what `result.json` holds of the registry."""
        if self.registry is None or spec.registry is None:
            return None
        return registry_result(self.registry, spec.registry.path)

    def classics_result(self, table: CellTable) -> ClassicsResult | None:
        """Return what `result.json` holds of the classic measures."""
        return None if self.classics is None else classics_result(self.classics, table)

    def record_columns(self, table: CellTable) -> dict[str, Float64]:
        """Further columns of `records.parquet`, each (n_records,)."""
        return {} if self.classics is None else columns(self.classics, table)


NOTHING = Beside()


def find_classics(
    microdata: Microdata, table: CellTable, spec: ClassicsSpec, handled: Handled | None
) -> Classics:
    """Compute the classic measures of a file.

    Parameters
    ----------
    microdata
        Its rows.
    table
        Its table, perhaps without records that have an impossible combination.
    spec
        What was asked.
    handled
        Which records were left out, if any were.

    Raises
    ------
    DataError, SpecError
        If a column does not exist, or an option is out of range.
    """
    kept = slice(None) if handled is None else np.flatnonzero(handled.kept)

    def codes(column: str) -> Int32:
        return microdata.codes(column)[0][kept]

    return classics(
        table,
        household=None if spec.household is None else codes(spec.household),
        sensitive={name: codes(name) for name in spec.sensitive},
        missing_match=spec.missing_match,
        recursion=spec.recursion,
        largest=spec.largest,
        dis_fraction=spec.dis_fraction,
    )
