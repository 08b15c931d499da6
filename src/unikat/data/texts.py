"""Columns of text: what means missing, stray blanks, and numbers and their decimals."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from unikat.errors import DataError, brief, option

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MISSING_TOKENS = frozenset(("NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "."))
"""What programs write into text where there is no value; never taken as a level unasked."""
COMMA_NUMBER = "[+-]?([0-9]+(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?"
"""Numbers with a comma before the decimals."""
_THOUSANDS = "[+-]?[1-9][0-9]{0,2},[0-9]{3}"
"""What could also be a whole number with a comma between thousands."""
_POINT = r"[0-9]\.|\.[0-9]"


def check_texts(
    counts: Mapping[object, int], declared: Set[str], missing: Set[str], *, where: str, name: str
) -> None:
    """Refuse texts that are no level of their own by the look of them, unless declared."""
    texts = {str(value): n for value, n in counts.items() if str(value) not in declared}
    tokens = sorted(texts.keys() & MISSING_TOKENS)
    if tokens:
        # The tokens are conventions, not values of records, so the message may tell them.
        rows = sum(texts[token] for token in tokens)
        raise DataError(
            f"{where}: {rows:,} record(s) hold {', '.join(tokens)}, which usually means "
            f"missing. If it does, say so: {option('missing_values', tokens)}. If it is a "
            "category of its own, name it among the levels or labels of "
            f"{brief(name)} in the codebook."
        )
    known = {str(value) for value in counts} | missing | declared | MISSING_TOKENS | {""}
    once = set[str]()
    padded = []
    for text in sorted(texts, key=len):
        bare = text.strip()
        if bare in once or (bare != text and bare in known):
            padded.append(text)
        once.add(bare)
    if padded:
        rows = sum(texts[text] for text in padded)
        raise DataError(
            f"{where}: {len(padded):,} level(s), in {rows:,} record(s), differ from "
            "another level or from a missing value only by blanks before or after the text, "
            "and would be taken as levels of their own. Remove the blanks from the column, or "
            "name these levels as they stand in the codebook."
        )


def is_text(kind: pa.DataType) -> bool:
    """Whether a type of Arrow is text, or categories of text."""
    import pyarrow as pa

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def find_decimal(connection: duckdb.DuckDBPyConnection, text: str, decimal: str | None) -> str:
    """Return what stands before the decimals in a column of texts.

    Parameters
    ----------
    connection
        Has the view ``source``.
    text
        SQL of the text.
    decimal
        What the user says. None: a comma if there are numbers with a comma that cannot be one
        between thousands, and none with a point; else a point.
    """
    if decimal is not None:
        return decimal
    number = f"regexp_full_match(trim({text}), '{COMMA_NUMBER}')"
    decimals = (
        f"{number} AND contains({text}, ',') "
        f"AND NOT regexp_full_match(trim({text}), '{_THOUSANDS}')"
    )
    found = connection.execute(
        f"SELECT count(*) FILTER (WHERE {decimals}), "
        f"count(*) FILTER (WHERE regexp_matches({text}, '{_POINT}')) FROM source"
    ).fetchall()
    n_comma, n_point = found[0]
    return "," if n_comma and not n_point else "."


def number_sql(text: str, decimal: str) -> str:
    """SQL of the number that a text is, NULL if it is none."""
    if decimal == ".":
        return f"TRY_CAST(trim({text}) AS DOUBLE)"
    return (
        f"CASE WHEN regexp_full_match(trim({text}), '{COMMA_NUMBER}') "
        f"THEN TRY_CAST(replace(trim({text}), ',', '.') AS DOUBLE) END"
    )


def decimal_hint(
    connection: duckdb.DuckDBPyConnection, text: str, broken: str, decimal: str
) -> str:
    """Say what to do about values that are no numbers only because of their decimals."""
    other = "," if decimal == "." else "."
    found = connection.execute(
        f"SELECT count(*) FILTER (WHERE ({broken}) AND contains({text}, '{other}')) FROM source"
    ).fetchall()
    if not found[0][0]:
        return ""
    called = {",": "comma", ".": "point"}
    return (
        f"{found[0][0]:,} of them have a {called[other]}, and decimals were taken to follow a "
        f"{called[decimal]}. If the {called[other]} stands before decimals, say "
        f"{option('decimal', other)}. If it separates thousands, remove it."
    )
