"""The roles that a user gives to columns: `pid: identifier; mun: linked(region); x: other`."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias, cast, get_args

from pydantic import AfterValidator, BeforeValidator

from unikat.errors import shown
from unikat.language.keys import Call, entries_of
from unikat.spec.tables import DesignSpec

Role: TypeAlias = Literal[
    "key", "sensitive", "linked", "identifier", "household", "weight", "other", "removed"
]
ROLES: tuple[str, ...] = get_args(Role)


def alike(name: str) -> str:
    """What names of columns are compared by that are the same to a reader.

    Case, blanks, underscores, hyphens, invisible characters and forms of Unicode do not count.

    Examples
    --------
    >>> alike("Full_Name ") == alike("full name"), alike("name") == alike("names")
    (True, False)
    """
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in plain if c not in "_-" and unicodedata.category(c)[0] not in "ZC")


class RoleTold(NamedTuple):
    """A role that the user gives."""

    role: Role
    key: str | None
    """Of `linked(KEY)`."""

    @classmethod
    def of(cls, text: str) -> RoleTold:
        """Read a role (ValueError if it is none).

        Examples
        --------
        >>> RoleTold.of("linked(region)"), RoleTold.of("other")
        (RoleTold(role='linked', key='region'), RoleTold(role='other', key=None))
        """
        call = Call.of(text)
        if call is not None and call.word == "linked" and len(call.arguments) == 1:
            return cls("linked", call.arguments[0])
        role = text.strip().lower()
        if role not in ROLES:
            raise ValueError(
                f"{shown(text)} is no role; write {', '.join(ROLES[:-1])} or {ROLES[-1]}, or "
                "linked(KEY)"
            )
        return cls(cast(Role, role), None)


def _by_column(value: object) -> object:
    """Read `pid: identifier; note: removed`; a mapping stays as it is."""
    if not isinstance(value, str):
        return value
    pairs = entries_of(value, last=True)
    if not all(name and role for name, role in pairs):
        raise ValueError("name each column and its role, as in 'pid: identifier; note: removed'")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a column is named twice; give each column one role")
    return found


def _of_known_roles(value: Mapping[str, str]) -> dict[str, str]:
    for text in value.values():
        RoleTold.of(text)
    return dict(value)


ColumnRoles = Annotated[
    dict[str, str], BeforeValidator(_by_column), AfterValidator(_of_known_roles)
]


def design_roles(design: DesignSpec) -> dict[str, Role]:
    """Role of each column by the sampling design."""
    found: dict[str, Role] = dict.fromkeys(design.household, "household")
    return found | {name: "weight" for name in (design.weights, design.inclusion) if name}


def check_roles(
    told: Mapping[str, str],
    keys: Collection[str],
    design: DesignSpec,
    numeric: Collection[str] = (),
) -> None:
    """Refuse roles that contradict the keys or the design, all in one message (ValueError).

    Parameters
    ----------
    told
        Role of each column that the user names.
    keys
        Names of the keys.
    design
        The sampling design.
    numeric
        Continuous variables that are to be changed.
    """
    said, by_design = [], design_roles(design)
    for name, text in told.items():
        role, key = RoleTold.of(text)
        if name in keys and role != "key":
            said.append(f"{shown(name)} is a key, and {text} by --columns")
        elif role == "key" and name not in keys:
            said.append(f"{shown(name)} is a key by --columns, and --keys does not name it")
        if role not in (by_design.get(name, role), "removed"):
            said.append(f"{shown(name)} is a {by_design[name]} of the design, and {text}")
        if key is not None and key not in keys:
            said.append(f"{shown(name)} is linked to {shown(key)}, which is no key")
    for name in numeric:
        role = RoleTold.of(told[name]).role if name in told else by_design.get(name, "other")
        if role not in ("other", "sensitive"):
            said.append(f"{shown(name)} is to be changed by --numeric, and is {role}")
    for name, role in by_design.items():
        if name in keys:
            said.append(f"{shown(name)} is a key, and a {role} of the design")
    if said:
        raise ValueError(f"roles contradict: {'; '.join(said)}. Give each column one role")
