"""What a specification says of households, and of relatives in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from unikat.errors import shown
from unikat.language.keys import entry_of, parts_of
from unikat.spec.models import HOUSEHOLDS
from unikat.spec.option import Option
from unikat.spec.tables import FileSpec
from unikat.spec.values import Names, Table, Whole

NO_HOUSEHOLD = (
    f"the model {HOUSEHOLDS} needs to know which persons live together; name the column that tells "
    "households apart: --household COLUMN"
)


class HouseholdsSpec(FileSpec):
    """The `[households]` table: what a household is, where its risk is estimated.

    The file is one of households, with a row for each, where their keys are not in the data.
    """

    path: Annotated[
        Path | None,
        Option(
            "FILE",
            "File with a row for each household, which has the keys of --household-keys.",
            name="household_file",
            accepts="str | PathLike[str] | None",
            form="keys",
        ),
    ] = None
    keys: Annotated[
        Names,
        Option(
            "A,B",
            "Keys that all members of a household share (with --model households).",
            name="household_keys",
            form="keys",
        ),
    ] = ()
    population: Annotated[
        Whole | None,
        Option(
            "N",
            "Households in the population. Can be left out where weights tell it.",
            name="population_households",
            form="keys",
        ),
    ] = None
    head: Annotated[
        str | None,
        Option("RULE", "A rule that is true of the head alone: 'REL == 1'.", form="keys"),
    ] = None
    head_keys: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of which the head's value is taken as the household's.",
            rare=True,
            form="keys",
        ),
    ] = ()
    drop_headless: Annotated[
        bool,
        Option(
            "",
            "Leave households with no head or several out (with --head).",
            rare=True,
            form="keys",
        ),
    ] = False
    scattered: Annotated[
        bool, Option("", "Members of a household are not neighbours.", rare=True, form="keys")
    ] = False

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


def name_households(models: Sequence[str]) -> bool:
    """Whether models, with options or without, are those of households.

    Examples
    --------
    >>> name_households(["households:beta=by-class"]), name_households(["hdp"])
    (True, False)
    """
    return HOUSEHOLDS in map(_name, models)


def _name(model: str) -> str:
    return model.partition(":")[0].strip()


def units_are_households(
    models: Sequence[str],
    household: Sequence[str],
    described: HouseholdsSpec | None,
    about_persons: Mapping[str, bool],
) -> bool:
    """Whether the units are households, which the models that are named tell.

    Parameters
    ----------
    models
        Names, with options or without.
    household
        Columns that identify a household.
    described
        What a household is.
    about_persons
        Whether an option is given, by its name, for those that households cannot have.

    Raises
    ------
    ValueError
        If models have different units, or what is given does not go with them.
    """
    others = list(dict.fromkeys(one for one in map(_name, models) if one != HOUSEHOLDS))
    if not name_households(models):
        if described is not None:
            raise ValueError(
                "households are described, but the model is "
                f"{', '.join(others)}; add --model {HOUSEHOLDS}, or leave --household-keys, "
                "--head, --population-households and --household-file out"
            )
        return False
    if others:
        raise ValueError(
            f"{', '.join(others)} and {HOUSEHOLDS} have different units, persons and households, "
            "and estimates of different units cannot be compared; name models of persons alone, "
            f"or {HOUSEHOLDS} alone, with several options if you like, such as "
            f"{HOUSEHOLDS},{HOUSEHOLDS}:composition=none"
        )
    if not household:
        raise ValueError(NO_HOUSEHOLD)
    for option, given in about_persons.items():
        if given:
            raise ValueError(
                f"{option} is about persons, and the model {HOUSEHOLDS} about households; "
                "leave it out"
            )
    return True


def _roles(value: object) -> object:
    """Read `head: REL == 1; spouse: REL == 2`."""
    if not isinstance(value, str):
        return value
    found = {}
    for part in parts_of(value):
        role, rule = entry_of(part)
        if not role or not rule:
            raise ValueError(
                f"{shown(part)} is no role with its rule; write head: REL == 1, and a "
                "semicolon between several"
            )
        found[role] = rule
    return found


class RelativesSpec(Table):
    """The `[relatives]` table: what is known of a person's relatives in the household.

    Examples
    --------
    >>> RelativesSpec(keys="head.AGE", roles="head: REL == 1").roles
    {'head': 'REL == 1'}
    """

    keys: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of relatives in the household that an intruder may know too, such as "
            "head.AGE,spouse.AGE (with --household and --roles).",
            name="relatives",
            form="keys",
        ),
    ] = ()
    roles: Annotated[
        dict[str, str],
        BeforeValidator(_roles),
        Option(
            "ROLES",
            "Who is which relative: 'head: REL == 1; spouse: REL == 2'.",
            accepts="str | Mapping[str, str]",
            form="keys",
        ),
    ] = Field(default_factory=dict)
