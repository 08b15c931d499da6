"""The table of an attack."""

from __future__ import annotations

import pyarrow as pa

from unikat.report.facts.attack import AttackSummary


def table(summary: AttackSummary) -> pa.Table:
    """Return a row for each attack."""
    rows = []
    for result in summary.attacks:
        row: dict[str, object] = {"attack": result.name, "target": result.target, "n": result.n}
        for name in ("rate", "compared", "baseline", "excess"):
            found = getattr(result, name)
            for part in ("value", "lower", "upper"):
                column = name if part == "value" else f"{name}_{part}"
                row[column] = None if found is None else getattr(found, part)
        rows.append(row)
    return pa.Table.from_pylist(rows)
