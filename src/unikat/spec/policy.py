"""What `policy.toml` holds: what a file has to reach before it is released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from unikat.errors import SpecError, brief, shown, suggest, visible
from unikat.files.toml import read_bytes, toml_of, write_toml
from unikat.spec.base import checked
from unikat.spec.columns import alike
from unikat.spec.limits import COUNTED, Limit
from unikat.spec.scenarios import MOST_TARGETS, POLICY, ScenarioSpec
from unikat.spec.values import Names, Share, Table, Whole

_LONGEST = 10_000_000
"""Bytes of a file of a policy."""


class PolicyScenario(ScenarioSpec):
    """A `[[scenario]]` table of a policy, whose targets may limit diversity, too."""

    @staticmethod
    def _judged(limit: Limit) -> Limit:
        return limit

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Its targets."""
        return tuple(map(Limit.of, self.target))

    @model_validator(mode="after")
    def _without_contradictions(self) -> Self:
        for one in self.limits:
            if one.wants_more and one.bound < 2.0:
                raise ValueError(f"{one} is met by every file; write 2 or more")
        kinds = Counter((one.measure, one.above, one.column) for one in self.limits)
        if twice := [kind for kind, n in kinds.items() if n > 1]:
            raise ValueError(
                f"the scenario {shown(self.name)} limits {twice[0][0]} more than once; keep the "
                "limit that counts"
            )
        return self


class PolicySpec(Table):
    """A policy: scenarios with limits, columns that never leave, a minimum cell.

    Examples
    --------
    >>> policy = Policy.of({"scenario": [{"name": "neighbour", "keys": "AGE,SEX",
    ...                                   "target": ["k >= 3", "diversity(INCOME) >= 2"]}]}).spec
    >>> policy.known_keys, policy.needs_population
    (('AGE', 'SEX'), False)
    """

    command: ClassVar[str] = "check FILE --policy policy.toml"
    format_version: Literal["unikat.policy/1"] = Field(default=POLICY, alias="schema")
    title: str = ""
    sources: tuple[str, ...] = ()
    """Where its limits come from, and which of them are nobody's but the author's."""
    keys: Names = ()
    """Keys besides those that scenarios name."""
    scenarios: tuple[PolicyScenario, ...] = Field(default=(), alias="scenario")
    never: Names = ()
    """Columns that never leave; names are compared as readers do (`alike`)."""
    minimum_cell: Whole | None = Field(default=None, ge=2, le=1_000_000_000)
    """Fewest records of each level of each key."""
    confidence: Share = Field(default=0.95, gt=0, lt=1)
    """Probability of the intervals of which limits judge an end."""

    @field_validator("title", "sources")
    @classmethod
    def _in_one_line(cls, said: Any) -> Any:
        for text in (said,) if isinstance(said, str) else said:
            if visible(text) != text or len(text) > 2_000:
                raise ValueError("a title or a source holds control characters or is too long")
        return said

    @property
    def known_keys(self) -> tuple[str, ...]:
        """All keys that it names, each once."""
        named = (key for one in self.scenarios for key in one.keys)
        return tuple(dict.fromkeys((*self.keys, *named)))

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Columns whose diversity is limited."""
        columns = (limit.column for one in self.scenarios for limit in one.limits)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def needs_population(self) -> bool:
        """Whether a limit asks for the population, and not for the file alone."""
        return any(
            limit.plain not in COUNTED and not one.in_sample
            for one in self.scenarios
            for limit in one.limits
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.scenarios and not self.never and self.minimum_cell is None:
            raise ValueError(
                "it asks for nothing; add a [[scenario]] with a target, minimum_cell, or columns "
                "that never leave (never)"
            )
        if len({one.name for one in self.scenarios}) < len(self.scenarios):
            raise ValueError("two scenarios have the same name; give each its own")
        if sum(len(one.target) for one in self.scenarios) > MOST_TARGETS:
            raise ValueError(f"scenarios have more than {MOST_TARGETS} targets; leave some out")
        never = set(map(alike, self.never))
        for name in self.known_keys:
            if ":" in name:
                raise ValueError(
                    "keys are judged as the file holds them; name them without rules of grouping"
                )
            if alike(name) in never:
                raise ValueError(
                    f"{shown(name)} never leaves, and a scenario has it as a key; take it out of "
                    "one of them"
                )
        for name in self.sensitive:
            if name in self.known_keys or alike(name) in never:
                raise ValueError(
                    f"the diversity of {shown(name)} is limited, and it is a key or never leaves; "
                    "take it out of one of them"
                )
        return self


class Policy(NamedTuple):
    """A policy, and the bytes in which it stands: a certificate has their digest."""

    spec: PolicySpec
    content: bytes
    name: str
    """Of the file."""

    @classmethod
    def of(cls, asked: Path | Mapping[str, Any]) -> Self:
        """Read a policy from a file, or from nested values."""
        if isinstance(asked, Path):
            content, where = read_bytes(asked, _LONGEST), str(asked)
        else:
            content, where = write_toml({"schema": POLICY, **asked}).encode(), "The policy"
        spec = checked(PolicySpec, toml_of(content, where), where, {})
        return cls(spec, content, asked.name if isinstance(asked, Path) else "policy.toml")


class Answers(NamedTuple):
    """Answers to the questionnaire, from which a policy is made."""

    recipients: Literal["public", "researchers", "room"]
    contract: bool
    """Whether those who get the file sign that they identify nobody."""
    repeated: bool
    """Whether the same persons are in several releases, so that it may be known who is in the file.
    """
    sensitive: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        """Name of the template: researchers without a contract are the public."""
        if self.recipients == "room":
            return "safe-room"
        restricted = self.recipients == "researchers" and self.contract
        return "scientific-use-file" if restricted else "public-use-file"

    def policy(self) -> str:
        """Fill in the template, as TOML."""
        values = checked(PolicySpec, toml_of(template(self.template).encode(), ""), "", {})
        made = values.model_dump(mode="json", by_alias=True, exclude_none=True)
        made |= {"keys": list(self.keys), "never": [*made["never"], *self.never]}
        for one in made["scenario"]:
            one["in_sample"] = one["in_sample"] or self.repeated
            one["target"] += [f"diversity({name}) >= 2" for name in self.sensitive]
        if self.sensitive and made["scenario"]:
            made["sources"].append("diversity >= 2 for each sensitive column: our number.")
        if self.repeated and made["scenario"]:
            made["sources"].append(
                "in_sample: who was in an earlier release may be known to be in this one."
            )
        checked(PolicySpec, made, "The policy of these answers", {})
        said = ", ".join(
            (self.recipients, "contract" if self.contract else "no contract",
             "repeated" if self.repeated else "once")
        )  # fmt: skip
        return f"# From the template {self.template}; answers: {said}.\n{write_toml(made)}"


def _folder() -> Any:
    return files("unikat.spec").joinpath("policies")


def templates() -> dict[str, str]:
    """Title of each template, by its name."""
    found = sorted(one.name.removesuffix(".toml") for one in _folder().iterdir())
    return {name: toml_of(template(name).encode(), name)["title"] for name in found}


def template(name: str) -> str:
    """Return the text of a template."""
    known = sorted(one.name.removesuffix(".toml") for one in _folder().iterdir())
    if name not in known:
        raise SpecError(
            f"There is no template {brief(name)!r}.{suggest(name, known)} There are: "
            f"{', '.join(known)}."
        )
    return str(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
