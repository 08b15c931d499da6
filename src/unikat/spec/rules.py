"""The `[zeros]` table: rules of what is impossible, and the files that hold them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from unikat.errors import SpecError, shown
from unikat.files.toml import read_toml
from unikat.spec.option import Asked, Option
from unikat.spec.paths import is_path, located_path, with_paths
from unikat.spec.problems import all_problems
from unikat.spec.trust import FOREIGN, Trust
from unikat.spec.values import Table


class NamedRule(Table):
    """A rule with a name, under which messages and reports speak of it."""

    rule: str
    name: str | None = None


class ZerosSpec(Table):
    """The `[zeros]` table: which combinations are impossible, and what is done with records of one.

    Examples
    --------
    >>> ZerosSpec(rules=("AGE < 14 and MARST == 'married'",)).on_conflict
    'stop'
    """

    rules: tuple[NamedRule, ...] = ()
    """Each a text, or a table of `rule` and `name`."""
    tables: tuple[Path, ...] = ()
    """Files of conditions: a column per key, an empty field standing for any level."""
    on_conflict: Annotated[
        Literal["stop", "drop", "missing"],
        Option(
            "HOW",
            "Records that break a rule: stop; drop them; or set the keys of the rule missing in "
            "them.",
            name="zeros_conflict",
            form="keys",
        ),
    ] = "stop"
    roles: dict[str, str] = Field(default_factory=dict)
    """What members of a household the rules may name: a condition on one person by role."""
    _source: str | None = PrivateAttr(default=None)

    @field_validator("rules", mode="before")
    @classmethod
    def _texts(cls, rules: object) -> object:
        if not isinstance(rules, (list, tuple)):
            return rules
        for number, rule in enumerate(rules, start=1):
            known = isinstance(rule, (str, NamedRule))
            table = isinstance(rule, Mapping) and "rule" in rule and set(rule) <= {"rule", "name"}
            if not known and not table:
                raise ValueError(
                    f"entry {number} is neither a text such as 'AGE < 14 and EDUC >= 11' nor a "
                    "table { rule = '...', name = '...' }"
                )
            if table:
                _check_texts(rule, number)
        return [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]

    @field_validator("roles", mode="before")
    @classmethod
    def _conditions(cls, roles: object) -> object:
        for role, condition in roles.items() if isinstance(roles, Mapping) else ():
            if not isinstance(condition, str):
                raise ValueError(
                    f"the condition of {shown(role)} is {shown(condition)}; it must be a text such "
                    "as 'RELATE == \"spouse\"'"
                )
        return roles

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.rules and not self.tables:
            raise ValueError(
                "there are no rules; name their file with --zeros zeros.toml, or list them as "
                "rules = ['AGE < 14 and EDUC >= 11'], or files of conditions as tables = "
                "['conditions.csv']"
            )
        return self

    @property
    def source(self) -> str | None:
        """The file in which the rules stand, for messages."""
        return self._source

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        on_conflict: str | None = None,
        trust: Trust = FOREIGN,
    ) -> Self:
        """Read the file that --zeros names: a TOML file of rules, or a table of conditions.

        Raises
        ------
        SpecError
            If it cannot be read, holds anything unknown or wrong, or names a table outside of its
            folder that the user has not allowed.
        """
        path = Path(path)
        from_toml = path.suffix.lower() == ".toml"
        values: dict[str, Any] = read_toml(path) if from_toml else {"tables": [path.resolve()]}
        if from_toml and isinstance(values.get("zeros"), dict):
            raise SpecError(
                f"{path} has a table [zeros], as an assessment.toml has. The file that --zeros "
                "names has rules, tables and on_conflict at its top: take the line [zeros] out, or "
                "name the file itself instead of the data."
            )
        if on_conflict is not None:
            values["on_conflict"] = on_conflict
        try:
            found = cls.model_validate(values)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise SpecError(all_problems(problems, str(path), cls)) from None
        folder = path.resolve().parent
        if from_toml:
            trust.check(found, str(path), folder)
            found.stands_in(str(path))
        located: Self = with_paths(found, lambda table: located_path(table, folder))
        return located

    def stands_in(self, source: str) -> None:
        """Say in which file the rules stand, unless that is known already."""
        self._source = self._source or source


def _check_texts(rule: Mapping[str, object], number: int) -> None:
    """Refuse a table of a rule whose rule or name is no text."""
    remedies = {
        "rule": "it must be a text such as 'AGE < 14 and EDUC >= 11'",
        "name": "it must be a text, in quotes, or be left out",
    }
    for part, remedy in remedies.items():
        value = rule.get(part)
        left_out = part == "name" and value is None
        if not left_out and not isinstance(value, str):
            raise ValueError(f"entry {number}: its {part} is {shown(value)}; {remedy}")


def _read_rules(value: Any, asked: Asked) -> Any:
    """Read rules that are given as a file, as a list of rules, or as a table."""
    on_conflict = asked.given.get("zeros_conflict")
    if isinstance(value, str) and re.search(r"[<>=]", value) and not Path(value).exists():
        raise SpecError(
            "--zeros names a file, and a rule was given. Write rules = ['...'] with the rule to "
            "zeros.toml, and give --zeros zeros.toml."
        )
    if is_path(value):
        # The user gave the file, and not what stands in it.
        return ZerosSpec.read(value, on_conflict, asked.trust._replace(given=()))
    return dict(value) if isinstance(value, Mapping) else {"rules": list(value)}


Zeros = Annotated[
    ZerosSpec | None,
    Option(
        "FILE",
        "Structural zeros (impossible combinations): a file of rules (.toml) or a table of "
        "conditions; in Python also a list of rules.",
        accepts="str | PathLike[str] | Sequence[str] | Mapping[str, Any] | None",
        read=_read_rules,
    ),
]
"""Impossible combinations; None if every combination is possible."""
