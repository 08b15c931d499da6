"""What `plan.toml` holds: recodings that can be done to other files with the same columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from unikat.errors import shown
from unikat.language.dates import Period
from unikat.language.keys import Call
from unikat.spec.base import Spec
from unikat.spec.recodings import LEFT_OUT
from unikat.spec.values import Table


def _one_key(text: str) -> str:
    if not text.strip():
        raise ValueError("a key of a plan has a column, such as AGE")
    return text


OneKey = Annotated[str, AfterValidator(_one_key)]


class PlanKey(Table):
    """What a plan does to one key."""

    name: str
    """Of the column."""
    key: OneKey
    """As the keys name it, with its rule of binning if any."""
    rule: str | Mapping[str, str] | None = None
    """A rule of recoding that no record's value changes, a mapping of levels to groups, or
    `left out`; None: the key stays as it is."""
    levels: tuple[str, ...] | None = None
    """Where the rule names levels: all levels that it was made for."""
    rest: str | None = None
    """The group of rare levels, if there is one."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Where the rule names levels that have labels: these."""
    answers: tuple[str, ...] = ()
    """Codes that the file declares missing, and that are levels."""
    made_valid: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Groups of valid levels that join levels which are declared missing: the labels of these."""
    groups: Mapping[str, str] = Field(default_factory=dict)
    """Where groups have codes of a code system as names: what these mean."""
    codes: Mapping[str, int | str] = Field(default_factory=dict)
    """Where the column holds codes that have labels: the code of each group."""
    whole_numbers: bool | None = None
    """Where the rule groups numbers: whether they are whole, and groups are called `20-29` and not
    `[20, 30)`; None: as the file has them."""

    @field_validator("rule")
    @classmethod
    def _of_any_records(cls, rule: str | Mapping[str, str] | None) -> Any:
        call = Call.of(rule) if isinstance(rule, str) else None
        numbers = ("width", "cut", "top", "bottom", "prefix")
        of_any = call is not None and (call.word in numbers or Period.of(call) is not None)
        if isinstance(rule, str) and rule != LEFT_OUT and not of_any:
            raise ValueError(
                f"{shown(rule)} is no rule of a plan, which does the same to any records; write "
                f"width(10), cut(18,65), top(80), bottom(20), prefix(2), year, years(5), "
                f"'{LEFT_OUT}', or groups by level"
            )
        return rule

    @model_validator(mode="after")
    def _of_its_groups(self) -> Self:
        if len(set(map(str, self.codes.values()))) < len(self.codes):
            raise ValueError("two groups have the same code; give each its own under codes")
        groups = self.rule.values() if isinstance(self.rule, Mapping) else ()
        if self.rest is not None and self.rest not in groups:
            raise ValueError(
                "rest is no group of the rule; name one of its groups, or leave rest out"
            )
        return self


class PlanSpec(Spec):
    """A plan: recodings that can be done to other files with the same columns.

    Examples
    --------
    >>> plan = PlanSpec.parse({"keys": [{"name": "AGE", "key": "AGE", "rule": "width(10)"}]})
    >>> plan.keys[0].rule
    'width(10)'
    """

    command: ClassVar[str] = "apply plan.toml FILE"
    without: ClassVar[tuple[str, ...]] = ("zeros", "data.missing", "set")
    format_version: Literal["unikat.plan/1"] = Field(default="unikat.plan/1", alias="schema")
    keys: tuple[PlanKey, ...] = ()
    linked: tuple[PlanKey, ...] = ()
    """Columns that are no keys, recoded as the keys that they follow are."""
    removed: tuple[str, ...] = ()
    """Columns that are left out of the file."""
    renumbered: tuple[str, ...] = ()
    """Columns whose values become 1, 2, ... in the order of the file."""
    also: tuple[str, ...] = ()
    """What was done besides, which is not repeated, such as `perturbed` or `suppressed`."""

    @model_validator(mode="after")
    def _estimates_nothing(self) -> Self:
        if self.zeros is not None:
            raise ValueError("a plan has no use for zeros, since it estimates nothing; remove them")
        return self

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        done = [*(one.name for one in (*self.keys, *self.linked)), *self.removed, *self.renumbered]
        if twice := [name for name, n in Counter(done).items() if n > 1]:
            raise ValueError(
                f"the plan does two things to the column {shown(twice[0])}; name it once among "
                "keys, linked, removed and renumbered"
            )
        return self

    def to_toml(self, folder: Path, note: str = "") -> str:
        """Write as TOML, with what repeats the recodings."""
        _, _, values = super().to_toml(folder, note).partition("\n")
        head = f"To recode another file so: unikat {self.command} --out FILE2"
        return f"# {head}\n{values}"
