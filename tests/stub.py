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

from numpy.typing import ArrayLike

'''


def function(name: str) -> str:
    """Write the function of a kind of run with its options."""
    defaults = {one.name: one for one in options_of(KINDS[name].specification)}
    signature = inspect.signature(getattr(unikat, name))
    lines, by_name = [f"def {name}("], False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not by_name:
            lines.append("    *,")
            by_name = True
        default = one.default
        if one.name in defaults:
            annotation = defaults[one.name].accepted_or_none
        else:
            annotation = str(one.annotation).replace("os.PathLike", "PathLike")
        given = "" if default is one.empty else f" = {default!r}"
        lines.append(f"    {one.name}: {annotation}{given},")
    return "\n".join([*lines, f") -> {signature.return_annotation}: ..."])


def text() -> str:
    """Write the whole stub."""
    modules = {name: module for name, module in unikat._MODULES.items() if name not in KINDS}
    imports = [
        f"from {'unikat' if module == f'unikat.{name}' else module} import {name} as {name}"
        for name, module in sorted(modules.items(), key=lambda one: (one[1], one[0].lower()))
    ]
    functions = [function(name) for name in KINDS]
    listed = "\n".join(f'    "{name}",' for name in sorted(unikat.__all__))
    body = "\n".join(["__version__: str", "", *functions, "", f"__all__ = [\n{listed}\n]", ""])
    return HEAD + "\n".join([*imports, "", body])


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
