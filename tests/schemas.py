"""Writes `unikat/schemas/*.json`: a JSON schema of each file that programs read.

`python tests/schemas.py` writes them again; `tests/test_schemas.py` holds them equal to the classes
of specifications and of facts.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

import unikat
from unikat.report.facts import certificate
from unikat.spec.kinds import KINDS
from unikat.spec.plan import PlanSpec
from unikat.spec.policy import PolicySpec

FOLDER = Path(unikat.__file__).parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def of_spec(asked: type[BaseModel]) -> tuple[str, dict[str, Any]]:
    """Schema of a file that is read: its name with the version, and its content."""
    name = str(asked.model_fields["format_version"].default)
    return name, asked.model_json_schema(by_alias=True)


def of_facts(kind: str, module: Any) -> tuple[str, dict[str, Any]]:
    """Schema of a file of numbers."""
    return module.SCHEMA, TypeAdapter(getattr(module, kind)).json_schema()


def schemas() -> dict[str, str]:
    """All of them, by the name of the file."""
    found = [of_spec(PlanSpec), of_spec(PolicySpec), of_facts("Certificate", certificate)]
    for kind in KINDS.values():
        module, _, name = kind.answers.rpartition(".")
        found += [
            of_spec(kind.specification),
            of_facts(name, import_module(f"unikat.report.facts.{module}")),
        ]
    return {file_name(name): text(name, content) for name, content in found}


def file_name(name: str) -> str:
    """`unikat.result/1` is `result-1.json`."""
    return f"{name.removeprefix('unikat.').replace('/', '-')}.json"


def text(name: str, content: dict[str, Any]) -> str:
    """Write a schema; lines of the classes' own documentation stay out."""
    content = {"$schema": DIALECT, "$id": name, **bare(content), "title": name}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def bare(content: Any) -> Any:
    """Leave out titles and descriptions that repeat names and docstrings of classes."""
    if isinstance(content, list):
        return [bare(one) for one in content]
    if not isinstance(content, dict):
        return content
    left = {}
    for key, value in content.items():
        if key in ("properties", "$defs"):
            left[key] = {name: bare(one) for name, one in value.items()}
        elif not (key in ("title", "description") and isinstance(value, str)):
            left[key] = bare(value)
    return left


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    written = schemas()
    for old in FOLDER.glob("*.json"):
        if old.name not in written:
            old.unlink()
    for name, content in written.items():
        (FOLDER / name).write_text(content, encoding="utf-8")
