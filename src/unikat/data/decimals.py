"""Numbers that stand as text, with a point or a comma before the decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unikat.errors import option

if TYPE_CHECKING:
    import duckdb

COMMA_NUMBER = "[+-]?([0-9]+(,[0-9]*)?|,[0-9]+)([eE][+-]?[0-9]+)?"
"""Numbers with a comma before the decimals."""
_THOUSANDS = "[+-]?[1-9][0-9]{0,2},[0-9]{3}"
"""What could also be a whole number with a comma between thousands."""
_POINT = r"[0-9]\.|\.[0-9]"


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
