"""The role of every column of a file, proposed with the reason for it.

| role | what it is |
|---|---|
| `key` | an intruder may know it |
| `sensitive` | what an intruder would learn; only the user says so |
| `linked` | it tells a key, or follows from one (`protection.linked`) |
| `identifier` | it names a person: removed |
| `household` | it says which records are of one household: renumbered |
| `weight` | of the sampling design |
| `other` | anything else: copied |

A column is an identifier only for a reason that is certain of the values: a name such as `id` alone
is none, since a person's number within the household has it too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unikat._typing import AnyArray, Float64, Int32
from unikat.data.clues import household_columns
from unikat.spec.columns import Role

if TYPE_CHECKING:
    import pyarrow as pa

NEARLY_UNIQUE = 0.9
"""Different values for each known one, from which on values are those of persons."""
_LEAST_KNOWN = 20
"""Records with a value, at least, of whose number anything is concluded."""
_MANY = 0.5
"""Different values for each known one, from which on the name of a column or the form of its values
says that it names persons; and from which on a measurement is called exact."""
_LOOKED_AT = 2_000
"""Different values whose form is looked at."""
_OF_FORM = 0.9
"""Share of these that have a form."""
_WORDS = 4.0
"""Mean number of words of free text."""
_DECADES = 40.0
"""Years between the first and the last of dates that are dates of birth."""
_DIGITS = 7
"""Digits of a number that all values have, from which on it is no measurement."""

_CALLED = {
    reason: frozenset(words.split())
    for reason, words in {
        "number": """id ids pid uid uuid guid nin ssn idnr persid personid respid respondentid
            caseid recordid serial serialno passport iban dni nie nif cedula curp rut cpf mrn ahv
            nhs account username licence license plate identifier folio expediente matricula""",
        "name": """name names surname firstname lastname forename fullname nombre nombres apellido
            apellidos nom prenom vorname nachname""",
        "contact": """email mail phone telephone mobile tel telefono celular correo address street
            direccion calle url ip""",
        "birth": "birth birthdate birthday dob born geburtsdatum nacimiento naissance",
        "coordinates": """lat latitude latitud lon lng long longitude longitud coord coordinate
            coordinates coordenada gps easting northing""",
    }.items()
}
"""Words in the names of columns, by what they say that the values are."""
_HOMES = frozenset(
    """household hh hhid hid hhno hhnum hhnr home dwelling family fam famid hogar idhogar vivienda
    familia menage foyer haushalt""".split()  # noqa: SIM905
)
_OF_NUMBERS = frozenset(("id", "no", "num", "nr", "number", "numero", "serial"))
"""Words of which the name of a column of household numbers is made, the first kind at least."""
_HOME_VALUES = 0.1, 0.95
"""Different values for each known one of such a column: households of one to ten."""
_FORMS = {
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"),
    "coordinates": re.compile(r"\(?-?\d{1,3}\.\d{3,}\s*[,; ]\s*-?\d{1,3}\.\d{3,}\)?"),
    "phone": re.compile(r"(\+|00?)?\(?\d{2,}\)?([\s./()-]+\d{2,}){2,}|\+\d{8,15}"),
}
_DATE = re.compile(r"(\d{4})[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4})")


@dataclass(frozen=True, kw_only=True)
class ColumnRole:
    """The role of a column."""

    name: str
    role: Role
    reason: str
    """Why: `told` by the user, `design`, `unique` (nearly every value is of one record), `number`,
    `name`, `contact`, `email`, `phone`, `text` (free text), `birth` (dates over decades),
    `coordinates`, `members` (values repeat as members of a household do), `continuous` (an exact
    measurement, which nothing makes an identifier), `linked`, or `plain`."""
    n_values: int = 0
    """Different values."""
    n_known: int = 0
    """Records with a value."""
    key: str | None = None
    """Of a linked column, the key."""
    measure: float | None = None
    """Of a linked column, how much one of both tells of the other: 1 tells all, 0 what chance
    does."""
    member: bool = False
    """Whether it is the key of another member of the household."""

    @property
    def removed(self) -> bool:
        """Whether the column is not in the protected file."""
        return self.role in ("identifier", "removed")


def encoded(column: pa.ChunkedArray) -> tuple[Int32, list[object]] | None:
    """Number the values of a column, -1 where missing or an empty text; None if they are nested."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return None
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    found = column.combine_chunks()
    if not pa.types.is_dictionary(found.type):
        found = found.dictionary_encode()
    codes = np.asarray(pc.fill_null(found.indices, -1), np.int32)
    values = found.dictionary.to_pylist()
    nothing = [place for place, value in enumerate(values) if value is None or value == ""]
    if nothing:
        codes = np.where(np.isin(codes, nothing), -1, codes).astype(np.int32)
    return codes, values


def proposed(
    columns: Mapping[str, tuple[Int32, list[object]] | None],
    *,
    weights: Collection[str] = (),
    households: Collection[str] = (),
    told: Mapping[str, Role] | None = None,
    decimal: str = ".",
) -> tuple[ColumnRole, ...]:
    """Propose a role for each column that is no key; linked ones are found by `protection.linked`.

    Parameters
    ----------
    columns
        (n_records,) numbers of the values and the values of each, as `encoded` gives them.
    weights, households
        Columns of the design.
    told
        Roles that the user gives, which overrule all others.
    decimal
        What stands for the point in texts that are numbers.

    Examples
    --------
    >>> email = (np.arange(30, dtype=np.int32), [f"a{i}@b.org" for i in range(30)])
    >>> sex = (np.arange(30, dtype=np.int32) % 2, ["f", "m"])
    >>> [(one.role, one.reason) for one in proposed({"email": email, "sex": sex})]
    [('identifier', 'email'), ('other', 'plain')]
    """
    simple = {name: found[0] for name, found in columns.items() if found is not None}
    asked = [name for name in simple if name not in {*weights, *households, *(told or {})}]
    # Where the design names them, other columns that members share are measurements.
    homes = [] if households else _homes(simple, columns, asked, decimal)
    roles = []
    for name, found in columns.items():
        n_known = n_values = 0
        if found is not None:
            known = found[0][found[0] >= 0]
            n_known, n_values = len(known), len(np.unique(known))
        if told is not None and name in told:
            role, reason = told[name], "told"
        elif name in weights:
            role, reason = "weight", "design"
        elif name in households:
            role, reason = "household", "design"
        elif found is None:
            role, reason = "other", "plain"
        elif name in homes:
            role, reason = "household", "members"
        else:
            reason = _reason(name, *found, decimal) if n_known >= _LEAST_KNOWN else "plain"
            role = "other" if reason in ("plain", "continuous") else "identifier"
        roles.append(
            ColumnRole(name=name, role=role, reason=reason, n_values=n_values, n_known=n_known)
        )
    return tuple(roles)


def _reason(name: str, codes: Int32, values: Sequence[object], decimal: str) -> str:
    """Why a column names persons; `continuous` or `plain` if it does not."""
    there = np.unique(codes[codes >= 0])
    share = len(there) / np.count_nonzero(codes >= 0)
    some = [values[i] for i in there[np.linspace(0, len(there) - 1, _LOOKED_AT).astype(int)]]
    some = some if len(there) > _LOOKED_AT else [values[i] for i in there]
    words = words_of(name)
    years = _years(some)
    if len(years) >= max(_OF_FORM * len(some), _LEAST_KNOWN):
        are_births = words & _CALLED["birth"] or max(years) - min(years) >= _DECADES
        return "birth" if are_births else "unique" if share >= NEARLY_UNIQUE else "plain"
    numbers = _numbers([values[i] for i in there], decimal)
    if numbers is None:
        texts = [str(value).strip() for value in some]
        for form, pattern in _FORMS.items():
            if share >= _MANY and _share(pattern, texts) >= _OF_FORM:
                return form
        if share >= _MANY:
            for reason in ("name", "contact", "number"):
                if words & _CALLED[reason]:
                    return reason
            if np.mean([len(text.split()) for text in texts]) >= _WORDS:
                return "text"
        return "unique" if share >= NEARLY_UNIQUE else "plain"
    fractions = bool((numbers != np.floor(numbers)).any())
    if words & _CALLED["coordinates"] and fractions and len(there) >= _LEAST_KNOWN:
        return "coordinates"
    if not fractions and share >= _MANY and words & (_CALLED["number"] | _CALLED["contact"]):
        return "number"
    if not fractions and share >= NEARLY_UNIQUE and _are_numbers_of_persons(some, numbers, codes):
        return "unique"
    return "continuous" if share >= _MANY else "plain"


def _homes(
    simple: Mapping[str, Int32],
    columns: Mapping[str, tuple[Int32, list[object]] | None],
    asked: Sequence[str],
    decimal: str,
) -> list[str]:
    """Columns of household numbers: those that are named so, or else the one that looks so.

    Of several whose values repeat as members of households do, weights and incomes of households
    among them, the first of most different values.
    """
    sizes = {
        name: (len(np.unique(one[one >= 0])), int((one >= 0).sum())) for name, one in simple.items()
    }
    if named := [name for name in asked if _named_as_homes(name, *sizes[name])]:
        return named
    alike = household_columns({name: one.astype(np.int64) for name, one in simple.items()}, asked)
    whole = []
    for name in alike:
        found = columns[name]
        numbers = None if found is None else _numbers(found[1], decimal)
        if numbers is None or (numbers == np.floor(numbers)).all():
            whole.append(name)
    return [max(whole, key=lambda name: sizes[name][0])] if whole else []


def _named_as_homes(name: str, n_values: int, n_known: int) -> bool:
    """Whether a column is named as numbers of households are, and its values repeat so."""
    words = words_of(name) - {"", name.lower()} or {name.lower()}
    low, high = _HOME_VALUES
    return (
        n_known >= _LEAST_KNOWN
        and words <= _HOMES | _OF_NUMBERS
        and bool(words & _HOMES)
        and low * n_known <= n_values <= high * n_known
    )


def words_of(name: str) -> set[str]:
    """Split the name of a column: `PersonID` and `person_id` have the word `id`."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return set(re.split(r"[\W_\d]+", apart.lower())) | {name.lower()}


def _share(pattern: re.Pattern[str], texts: Sequence[str]) -> float:
    return sum(pattern.fullmatch(text) is not None for text in texts) / len(texts)


def _years(values: Sequence[object]) -> list[int]:
    """Years of those values that are days."""
    years = []
    for value in values:
        if hasattr(value, "year") and hasattr(value, "day"):
            years.append(int(value.year))
        elif isinstance(value, str) and (found := _DATE.fullmatch(value.strip())):
            years.append(int(found[1] or found[3]))
    return years


def _numbers(values: Sequence[object], decimal: str) -> Float64 | None:
    """Return values as numbers; None if one is none, or has a leading zero as codes have."""
    found = np.empty(len(values))
    for place, value in enumerate(values):
        text = str(value).strip()
        if isinstance(value, str) and re.match(r"0\d", text):
            return None
        try:
            found[place] = float(text.replace(decimal, ".") if isinstance(value, str) else text)
        except ValueError:
            return None
    return found if np.isfinite(found).all() else None


def _are_numbers_of_persons(some: Sequence[object], numbers: Float64, codes: Int32) -> bool:
    """Whether nearly unique whole numbers count records, or have all the same many digits."""
    if numbers.max() - numbers.min() < 2.0 * np.count_nonzero(codes >= 0):
        return True
    lengths = {len(str(abs(int(float(str(value)))))) for value in some}
    return len(lengths) == 1 and min(lengths) >= _DIGITS


def renumbered(codes: Int32) -> AnyArray:
    """Number households in the order of the file, 1, 2, ...; 0 where there is none.

    Examples
    --------
    >>> renumbered(np.array([5, 2, 5, -1], np.int32)).tolist()
    [1, 2, 1, 0]
    """
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(np.where(codes[first] < 0, len(codes), first)))
    return np.where(codes < 0, 0, order[place] + 1)
