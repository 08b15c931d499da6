"""The folder of a run: page, numbers and specification, with what else the run has, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unikat.files.folder import claimed
from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, write_text
from unikat.spec.base import Spec
from unikat.spec.kinds import Kind


def write_run(
    kind: Kind,
    summary: Any,
    page: str,
    spec: Spec,
    folder: Path,
    *,
    note: str = "",
    others: Mapping[str, Callable[[Path], None]] | None = None,
) -> None:
    """Write a run into a folder, all files or none.

    Parameters
    ----------
    kind
        Of the run.
    summary
        Every number of the page: a dataclass.
    page
        HTML.
    spec
        What was asked.
    note
        Comment of the specification.
    others
        What writes the other files, by name. Files of records of an earlier run that this one does
        not have go.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    others = others or {}
    earlier = kind.records_among(claimed(folder))
    own = (kind.spec, kind.report, *kind.others, kind.numbers)
    files = tuple(dict.fromkeys([*others, *earlier, *own]))
    with all_or_nothing(folder, files, kind.numbers) as scratch:
        for name, write in others.items():
            write(scratch / name)
        write_text(scratch / kind.spec, spec.to_toml(folder, note))
        write_text(scratch / kind.report, page)
        write_text(scratch / kind.numbers, json_text(asdict(summary)))
