"""What is known of a person's relatives, as keys of the person.

Somebody who looks for a person may know the age of the head of the household or of the spouse too.
Such a key is called `ROLE.KEY`. It has the levels of KEY, and two more: `none` where no other
member of the household has the role, and `self` where the person has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, listed, option, suggest

NONE, SELF = "none", "self"
"""Labels of the levels that a key of a relative has besides those of the key."""


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A key of a relative.

    Examples
    --------
    >>> Relative.of("head.AGE", ["head", "spouse"])
    Relative(role='head', key='AGE')
    """

    role: str
    key: str

    @classmethod
    def of(cls, text: str, roles: Sequence[str]) -> Relative:
        """Read a name such as `head.AGE`."""
        role, point, key = text.partition(".")
        if not point or not role or not key:
            raise SpecError(
                f"{option('relatives')} names {brief(text)!r}; write a role, a point and a key, "
                "such as head.AGE."
            )
        if role not in roles:
            known = f" The roles are {listed(list(roles))}." if roles else ""
            raise SpecError(
                f"{option('relatives')} names {brief(text)!r}, but no rule says who is the "
                f"{brief(role)}.{suggest(role, roles)}{known} Give it: "
                f"{option('roles', f'{role}: REL == 1')}."
            )
        return cls(role=role, key=key)


def with_relatives(
    table: CellTable,
    relatives: Sequence[Relative],
    has_role: Mapping[str, Bool],
    n_keys: int,
) -> CellTable:
    """Add keys of relatives to a table of persons whose households are known.

    Of several other members with a role the first in the file counts.

    Parameters
    ----------
    table
        Persons; its first `n_keys` keys are theirs, further ones were read for the relatives and
        are left out.
    relatives
        What to add.
    has_role
        (n_records,) by role: who has it.
    n_keys
        See `table`.
    """
    assert table.households is not None
    names = [key.name for key in table.keys]
    codes = table.cells[table.record_cell]
    keys, columns = list(table.keys[:n_keys]), [codes[:, :n_keys]]
    for relative in relatives:
        has = has_role[relative.role]
        if not has.any():
            raise SpecError(
                f"Nobody in the file has the role {brief(relative.role)!r}; correct its rule, or "
                f"leave {relative.role}.{relative.key} out."
            )
        j = names.index(relative.key)
        key = table.keys[j]
        keys.append(
            Key(
                name=f"{relative.role}.{relative.key}",
                levels=(*key.levels, NONE, SELF),
                labels=(*key.labels, NONE, SELF),
                binning=key.binning,
                private=key.private,
            )
        )
        other = _first_other(table.households, has)
        values = np.where(other >= 0, codes[other, j], key.n_levels)
        columns.append(np.where(has, key.n_levels + 1, values)[:, None])
    return table.with_keys(keys, np.concatenate(columns, axis=1))


def _first_other(households: Int32, has: Bool) -> Int64:
    """Row of the first member of each record's household that has a role, -1 if none has."""
    rows = np.flatnonzero(has)
    first = np.full(int(households.max()) + 1, -1, np.int64)
    # Backwards, so that the first row is written last.
    first[households[rows[::-1]]] = rows[::-1]
    found: Int64 = first[households]
    return found
