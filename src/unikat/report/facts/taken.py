"""Facts that a page has from a lower room, by inheritance: each is defined and told once."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def taken(kind: type[Any], source: Any) -> dict[str, Any]:
    """Return the fields that a dataclass defines, as one of its subclasses (`source`) has them."""
    return {field.name: getattr(source, field.name) for field in fields(kind)}
