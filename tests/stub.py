"""Writes `unikat/__init__.pyi`: the public names, and the options of each run with their types.

`python tests/stub.py` writes it again; `tests/jobs/test_door.py` holds it equal to the fields of
the specifications.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import unikat
from unikat.spec.kinds import KINDS
from unikat.spec.option import options_of

STUB = Path(unikat.__file__).with_suffix(".pyi")
HEAD = '''"""Public names and their types. Made by tests/stub.py from fields of specifications."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal

'''


def function(name: str) -> str:
    """Write the function of a kind of run with its options."""
    defaults = {one.name: one for one in options_of(KINDS[name].specification)}
    signature = inspect.signature(getattr(unikat, name))
    lines = [f"def {name}("]
    for one in signature.parameters.values():
        if one.name in defaults:
            default = repr(one.default)
            kind = defaults[one.name].accepted
            lone = f"{kind} | None" if one.default is None and not optional(kind) else kind
            lines.append(f"    {one.name}: {lone} = {default},")
        elif one.default is one.empty:
            lines += [f"    {one.name}: {one.annotation},", "    *,"]
        else:
            annotation = str(one.annotation).replace("os.PathLike", "PathLike")
            lines.append(f"    {one.name}: {annotation} = {one.default!r},")
    return "\n".join([*lines, f") -> {signature.return_annotation}: ..."])


def optional(kind: str) -> bool:
    """Whether a type takes None."""
    return kind == "Any" or kind.endswith("| None")


def text() -> str:
    """Write the whole stub."""
    modules = {name: module for name, module in unikat._MODULES.items() if name not in KINDS}
    imports = [
        f"from {module} import {name} as {name}"
        for name, module in sorted(modules.items(), key=lambda one: (one[1], one[0].lower()))
    ]
    functions = [function(name) for name in KINDS]
    listed = "\n".join(f'    "{name}",' for name in sorted(unikat.__all__))
    body = "\n".join(["__version__: str", "", *functions, "", f"__all__ = [\n{listed}\n]", ""])
    return HEAD + "\n".join([*imports, "", body])


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
