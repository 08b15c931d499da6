"""A `[[scenario]]` table: what an intruder knows, and what has to be reached against him."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from unikat.errors import SpecError, brief, visible
from unikat.files.toml import read_toml
from unikat.spec.limits import Limit
from unikat.spec.models import HOUSEHOLDS
from unikat.spec.option import Asked, plain
from unikat.spec.paths import given_path, is_path
from unikat.spec.values import Names, Table

MOST_TARGETS = 200
"""Targets of all scenarios together."""
POLICY: Literal["unikat.policy/1"] = "unikat.policy/1"
"""Schema of a policy, whose scenarios can be taken."""
_LONGEST_NAME = 200


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class ScenarioSpec(Table):
    """A `[[scenario]]` table: what an intruder knows, and what has to be reached against him."""

    name: str
    keys: Names = ()
    """Keys that he knows, by the names of their columns; empty: all."""
    target: Annotated[tuple[str, ...], BeforeValidator(_several)]
    """One target or more, each as `tau1 <= 5`."""
    in_sample: bool = False
    """Whether he knows that the person is in the file, so that a sample unique is identified."""
    errors: float = Field(default=0.0, ge=0.0, le=0.5)
    """Probability that his value of a key is wrong (`Limit.without_errors`)."""

    @field_validator("name")
    @classmethod
    def _not_empty(cls, name: str) -> str:
        if not name.strip():
            raise ValueError("a scenario has no name; give it one, such as 'neighbour'")
        name = " ".join(name.split())
        if visible(name) != name or len(name) > _LONGEST_NAME:
            raise ValueError(
                f"the name of a scenario holds control characters or more than {_LONGEST_NAME}; "
                "give it another name, such as 'neighbour'"
            )
        return name

    @field_validator("target")
    @classmethod
    def _of_known_form(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        if not texts:
            raise ValueError("a scenario has no target; give it one, as in 'tau1 <= 5'")
        return tuple(str(cls._judged(of_persons(Limit.of(text)))) for text in texts)

    @staticmethod
    def _judged(limit: Limit) -> Limit:
        """Refuse limits that are judged elsewhere (ValueError)."""
        return limit.not_of_policy()


def read_scenarios(path: Path) -> tuple[list[Any], dict[str, Any] | None]:
    """Read the `[[scenario]]` tables of a file; and what else it says, if it is a policy.

    A search reaches what depends on keys alone: limits of diversity are left to `check`.
    """
    values = read_toml(path)
    found = values.pop("scenario", None)
    if is_policy := values.get("schema") == POLICY:
        others: dict[str, Any] = {}
        found = _without_diversity(found) if isinstance(found, list) else found
    else:
        others = values
    if others or not isinstance(found, list) or not found:
        other = f"; it has {brief(next(iter(others)))!r}" if others else ""
        raise SpecError(
            f"{brief(path.name)} has to hold [[scenario]] tables and nothing else{other}. Write "
            "for each: name, keys, target, in_sample if the intruder knows who is in the file, and "
            "errors if some of his values are wrong."
        )
    return found, values if is_policy else None


def _without_diversity(scenarios: list[Any]) -> list[Any]:
    """Leave out limits of diversity, and scenarios that have no others."""
    found = []
    for one in scenarios:
        if isinstance(one, dict) and "target" in one:
            targets = _several(one["target"])
            kept = [text for text in targets if not str(text).lstrip().startswith("diversity")]
            if kept or not targets:
                found.append(one | {"target": kept})
        else:
            found.append(one)
    return found


def scenarios_given(value: Any, asked: Asked) -> Any:
    """Read the scenarios of a file that is named; others stay as they are.

    A policy is kept beside its scenarios, since the protected file is checked by it.
    """
    asked.values.pop("policy", None)
    if not is_path(value):
        return plain(value)
    path = given_path(value)
    found, policy = read_scenarios(Path(path))
    if policy is not None:
        asked.values["policy"] = path
        report = asked.values.setdefault("report", {})
        if isinstance(report, dict):
            report.setdefault("level", policy.get("confidence", 0.95))
    return found


def of_persons(limit: Limit) -> Limit:
    """Refuse a limit of the risk of households (ValueError)."""
    if limit.of_households:
        raise ValueError(
            f"{limit.measure} is of households, and the units here are persons; write "
            f"{limit.plain}, or assess with --model {HOUSEHOLDS}"
        )
    return limit
