"""The folder of a run: written as a whole or not at all, and read back.

That of an assessment has a manifest besides; see `assessment`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from jinja2 import TemplateError
from pydantic import TypeAdapter

from unikat.data.readers import open_source
from unikat.errors import OutputError, brief, shown
from unikat.files.folder import claimed, locked, refuse_links
from unikat.files.json import facts_text, parse_json
from unikat.files.writing import all_or_nothing, replace_file, write_bytes, write_text
from unikat.spec.base import Spec
from unikat.spec.kinds import Kind
from unikat.spec.trust import SHOWN

_INCONSISTENT = (
    ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TemplateError,
)  # fmt: skip
"""Errors of a page whose numbers have the right types, and are not what a run writes."""


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
        write_text(scratch / kind.numbers, facts_text(summary))


def copied_files(kind: Kind, source: Path) -> dict[str, Callable[[Path], None]]:
    """Return what copies the other files of a run from its folder; see `write_run`."""
    names = [name for name in (*kind.records_in(source), *kind.others) if (source / name).exists()]
    return {
        name: lambda path, name=name: write_bytes(path, (source / name).read_bytes())  # type: ignore[misc]
        for name in names
    }


def read_run(kind: Kind, folder: Path) -> tuple[Any, Spec]:
    """Read the numbers of a run, and what was asked."""
    refuse_links(folder, [*kind.files, *kind.records_in(folder)])
    path = folder / kind.numbers
    module, _, name = kind.answers.rpartition(".")
    facts: Any = import_module(f"unikat.report.facts.{module}")
    try:
        content = parse_json(path.read_bytes())
        schema = content.get("schema")
        if schema == facts.SCHEMA:
            found = TypeAdapter(getattr(facts, name)).validate_python(content)
            return found, kind.specification.read(folder / kind.spec, SHOWN)
    except (OSError, ValueError, AttributeError) as error:
        raise not_understood(path, error) from None
    raise OutputError(
        f"{path} has schema {shown(schema)}; this version of unikat reads {facts.SCHEMA!r}. Use "
        "the version that wrote it."
    )


def read_records(kind: Kind, folder: Path, name: str) -> pa.Table:
    """Read a file of records of a run: all columns."""
    # A name may lead anywhere in a folder of somebody else.
    if name not in kind.records_in(folder):
        raise OutputError(f"The {kind.noun} in {folder} has no file {brief(name)!r} any more.")
    found: pa.Table = open_source(folder / name).native()
    return found


def replace_page(folder: Path, kind: Kind, render: Callable[[], str], name: str = "") -> Path:
    """Render a page of a run again, in place of the old one: the report, or the one of a name.

    Raises
    ------
    OutputError
        If it cannot be written, or the numbers contradict each other; the old page is then still
        there.
    """
    try:
        page = render().encode()
    except _INCONSISTENT as error:
        # What was read has the right types; it may still be what no run writes.
        raise not_understood(folder / kind.numbers, error) from error
    path = folder / (name or kind.report)
    with locked(folder):
        replace_file(path, page)
    return path


def not_understood(path: Path, error: Exception) -> OutputError:
    """Say that the numbers of a run are not what a run writes."""
    return OutputError(
        f"{path} cannot be understood ({type(error).__name__}): it is damaged, or of another "
        "version of unikat. Make the run again."
    )
