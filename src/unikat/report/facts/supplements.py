"""The registry risk and the classic measures, which a run computes besides the model if asked."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64, Int32
from unikat.classics.table import Classics, classics
from unikat.data.grouping import HouseholdSample
from unikat.data.microdata import Microdata
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief
from unikat.interrupts import interruptible
from unikat.protection.learned import Learned
from unikat.protection.linkage import Linkage
from unikat.report.facts.breakdown import Column
from unikat.report.facts.classics import ClassicsResult, classics_result, columns
from unikat.report.facts.linkage import LinkageResult, linkage_result
from unikat.report.facts.registry import RegistryResult, registry_result
from unikat.report.facts.release import ReleaseResult
from unikat.risk.registry import RegistryRisk
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.tables import ClassicsSpec
from unikat.zeros.conflicts import Handled


@dataclass(frozen=True, kw_only=True)
class Supplements:
    """Registry risk, classic measures and breakdown columns; None or empty if not asked for."""

    registry: RegistryRisk | None = None
    release: ReleaseResult | None = None
    """Risk of who has another release, too."""
    classics: Classics | None = None
    learned: tuple[Learned, ...] = ()
    """What an intruder learns about the sensitive variables of the classic measures."""
    linkage: Linkage | None = None
    """Links of an intruder whose keys have errors."""
    households: HouseholdSample | None = None
    """The households of the file, where they are the units."""
    columns: tuple[Column, ...] = ()
    """Columns by which the risk is broken down, besides the keys."""

    def registry_result(self, spec: AssessmentSpec) -> RegistryResult | None:
        """Return the part of `result.json` on the registry."""
        if self.registry is None or spec.registry is None:
            return None
        return registry_result(self.registry, spec.registry.path)

    def classics_result(self, table: CellTable, show_all: bool) -> ClassicsResult | None:
        """Return the part of `result.json` on the classic measures."""
        if self.classics is None:
            return None
        return classics_result(self.classics, table, self.learned, self.columns, show_all=show_all)

    def linkage_result(self, table: CellTable) -> LinkageResult | None:
        """Return the part of `result.json` on links by keys with errors."""
        return None if self.linkage is None else linkage_result(self.linkage, table)

    def record_columns(self, table: CellTable) -> dict[str, Float64]:
        """Further columns of `records.parquet`, each (n_records,)."""
        found = {} if self.linkage is None else {"link": self.linkage.record_correct}
        if self.classics is None:
            return found
        found |= columns(self.classics, table)
        for one in self.learned:
            found |= {
                f"inferred_{one.name}": one.record_right,
                f"inferred_gain_{one.name}": one.record_gain,
            }
        return found


NO_SUPPLEMENTS = Supplements()


@interruptible
def find_classics(
    microdata: Microdata,
    table: CellTable,
    spec: ClassicsSpec,
    handled: Handled | None,
    missing_values: object = (),
) -> Classics:
    """Compute the classic measures of a file, for the records that were assessed.

    `missing_values` mean missing: in all columns, or by column.
    """
    no_sensitive_key(spec.sensitive, [key.name for key in table.keys])

    def codes(column: str) -> Int32:
        return find_column(microdata, column, handled, missing_values).codes

    return classics(
        table,
        household=table.households,
        sensitive={name: codes(name) for name in spec.sensitive},
        missing_match=spec.missing_match,
        recursion=spec.recursion,
        largest=spec.largest,
        dis_fraction=spec.dis_fraction,
    )


def no_sensitive_key(sensitive: Iterable[str], keys: Container[str]) -> None:
    """Refuse a sensitive variable that is a key (SpecError)."""
    for name in sensitive:
        if name in keys:
            raise SpecError(
                f"The sensitive variable {brief(name)!r} is a key, which an intruder knows "
                "already; take it out of one of the two lists."
            )


@interruptible
def find_column(
    microdata: Microdata,
    column: str,
    handled: Handled | None,
    missing_values: object = (),
) -> Column:
    """Read a column by which the risk can be broken down; parameters as for `find_classics`."""
    codes, values = microdata.codes(column, missing_values)
    kept = slice(None) if handled is None else np.flatnonzero(handled.kept)
    return Column(name=column, codes=codes[kept], labels=tuple(values))
