"""What a specification says of households, and of relatives in them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from unikat.errors import shown
from unikat.spec.tables import FileSpec, Names, Table, Whole


class HouseholdsSpec(FileSpec):
    """The `[households]` table: what a household is, where its risk is estimated.

    The file is one of households, with a row for each, where their keys are not in the data.
    """

    keys: Names = ()
    """Keys that all members of a household share."""
    population: Whole | None = None
    """Households in the population; None: the sum of the weights."""
    head: str | None = None
    """A rule that is true of the head alone: `REL == 1`."""
    head_keys: Names = ()
    """Keys of persons that are taken as the household's where they are the head's."""
    scattered: bool = False
    """Members of a household may stand anywhere in the file."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.head_keys and self.head is None:
            raise ValueError(
                "keys of the head are named, but nothing says who is the head; give a rule that is "
                "true of the head alone, such as --head 'REL == 1'"
            )
        if self.path is not None and not self.keys:
            raise ValueError(
                "a file of households is named, but no key of it; name them with --household-keys"
            )
        return self


def _roles(value: object) -> object:
    """Read `head: REL == 1; spouse: REL == 2`."""
    if not isinstance(value, str):
        return value
    found = {}
    for part in value.split(";"):
        role, colon, rule = part.partition(":")
        if part.strip() and (not colon or not role.strip() or not rule.strip()):
            raise ValueError(
                f"{shown(part.strip())} is no role with its rule; write head: REL == 1, and a "
                "semicolon between several"
            )
        if part.strip():
            found[role.strip()] = rule.strip()
    return found


class RelativesSpec(Table):
    """The `[relatives]` table: what is known of a person's relatives in the household.

    Examples
    --------
    >>> RelativesSpec(keys="head.AGE", roles="head: REL == 1").roles
    {'head': 'REL == 1'}
    """

    keys: Names = ()
    """Keys of relatives, such as `head.AGE`."""
    roles: Annotated[dict[str, str], BeforeValidator(_roles)] = Field(default_factory=dict)
    """A rule that is true of who has the role, by role; one text may hold several."""
