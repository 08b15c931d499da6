"""Facts of any names, as a model of somebody else may have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unikat.models.base import Facts


@dataclass(frozen=True, kw_only=True)
class AnyFacts(Facts):
    given: Mapping[str, Any]

    def named(self) -> dict[str, Any]:
        return dict(self.given)
