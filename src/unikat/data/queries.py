"""Queries of databases: which are accepted, and the messages for those that fail.

One rule holds for PostgreSQL, SQLite and DuckDB alike, and DuckDB's parser judges it: a query is
one SELECT that writes nothing, reads no files and sends nothing. What the parser does not
understand is refused, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from unikat.errors import DataError, SpecError, brief, has_surrogates, option
from unikat.interrupts import patience

_MOST_CHARACTERS = 100_000
_READING = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
"""Parts of a parsed query that read. Others delete, insert or update."""
_OF_VALUES = re.compile(
    "unnest|range|generate_series|generate_subscripts|jsonb?_each(_text)?|json_tree"
    "|jsonb?_array_elements(_text)?|jsonb?_object_keys|regexp_(matches|split_to_table)"
    "|string_to_table"
)
"""Functions that may stand where tables do: they make rows of values. Others may read files."""
_HARMLESS = re.compile("pg_(typeof|sleep|column_size|size_pretty)")
_BEYOND = re.compile(
    # Files, other servers, settings and statements in a text.
    "pg_.*|lo_.*|loread|lowrite|dblink.*|https?_.*|set_config|set(val|seed)|nextval"
    "|(query|table|cursor|schema|database)_to_.*|ts_(stat|rewrite)|crosstab.*|connectby"
    "|load_extension|fts3_tokenizer|(read|write)_?(file|blob|text|csv|json|parquet|log).*"
    "|(parquet|sniff)_.*|query(_table)?|shell.*|system|eval|exec.*|getenv|edit"
)
"""Functions that do more than compute."""
_COLUMNS = frozenset({"query", "system", "eval", "edit", "exec", "shell"})
"""Names of these that columns may have, and no function of PostgreSQL of one argument."""
_NAME = re.compile(r"[\w.$]+")
_REMEDY = (
    "Give one SELECT of tables and columns. For anything else make a view in the database, and "
    f"name it: {option('table')}."
)
_VOCABULARY = frozenset(
    re.findall(
        r"\w+",
        """
        a access aggregate aggregates already ambiguous an and any appear argument arguments array
        at be bigint boolean by call calls candidates cannot catalog cast casts character clause
        column columns constant contain count database date denied does double duplicate each
        element end error exist expected expression expressions explicit for found from function
        functions given group has have having in index input integer interval invalid is it join
        json left limit list lookup macro match matches mismatch missing must name named names
        near nested no not number numeric of on only operator or order other outer parser
        permission precision query reference referenced relation require required result returns
        right row rows scalar schema select set statement subquery such supplied support supported
        syntax table text the time timestamp to too type types union unique unknown unrecognized
        unterminated use used using value values varchar varying view when where which window with
        without zone
        """,
    )
)
"""Words of databases in errors about names and grammar."""


def relation_of(query: str) -> str:
    r"""Return the SQL relation of a query, which only reads.

    Examples
    --------
    >>> relation_of("SELECT age FROM persons; -- mine")
    '(SELECT age FROM persons\n) AS asked'
    """
    import duckdb

    if len(query) > _MOST_CHARACTERS or has_surrogates(query) or "\0" in query:
        raise refused(
            f"it has more than {_MOST_CHARACTERS:,} characters"
            if len(query) > _MOST_CHARACTERS
            else "it holds a character that no SQL has"
        )
    text = _without_end(query)
    parser = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_access": False,
        },
    )
    try:
        statements = parser.extract_statements(text)
        if len(statements) != 1:
            raise refused(f"it has {len(statements):,} statements")
        if statements[0].type != duckdb.StatementType.SELECT:
            raise refused(f"it is a statement of the kind {statements[0].type.name}")
        # What is run is what was parsed: no parenthesis closes the one around it.
        relation = f"({text}\n) AS asked"
        (found,) = parser.execute(
            "SELECT json_serialize_sql(?::VARCHAR, skip_null := true)", [f"FROM {relation}"]
        ).fetchall()
        tree = json.loads(found[0])
        tokens = _tokens(text)
    except (duckdb.Error, RecursionError) as error:
        deep = isinstance(error, RecursionError) or "depth" in str(error)
        why = "it is nested too deeply" if deep else without_values(error, query)
        raise refused(
            f"it cannot be parsed ({why}); the grammar of DuckDB holds for all databases"
        ) from None
    finally:
        parser.close()
    if tree.get("error") or len(tree.get("statements", ())) != 1:
        raise refused("it is not one SELECT")
    if any(
        prefix.lower() == "u" and sign == "&" and quoted[:1] in {"'", '"'}
        for prefix, sign, quoted in zip(tokens, tokens[1:], tokens[2:], strict=False)
    ):
        # PostgreSQL reads a name or text in which \ writes characters, DuckDB an operation.
        raise refused("it holds U& before a quote, which databases read in different ways")
    for part in _parts(tree["statements"]):
        _check(part)
    # The tree lacks windows that are not used, and of `(b).lower` it does not tell that PostgreSQL
    # calls a function.
    for before, word, after in zip(["", *tokens], tokens, [*tokens[1:], ""], strict=False):
        if after == "(" or (before == "." and word.strip('"').lower() not in _COLUMNS):
            _check({"function_name": word.strip('"'), "is_operator": True})
    return relation


def _tokens(query: str) -> list[str]:
    """Words, signs and quoted texts of a query, without blanks and comments."""
    import duckdb

    # Tokens are told by their bytes.
    text, tokens = query.encode(), duckdb.tokenize(query)
    ends = [*(start for start, _ in tokens[1:]), len(text)]
    return [
        text[start:end].decode().strip()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind.name != "comment"
    ]


def _without_end(query: str) -> str:
    """Return a query without the semicolons, blanks and comments at its end."""
    import duckdb

    # Tokens are told by their bytes.
    text = query.encode()
    end = len(text)
    try:
        tokens = duckdb.tokenize(query)
    except duckdb.Error:
        return query
    for start, kind in reversed(tokens):
        if kind.name != "comment" and text[start:end].strip() != b";":
            break
        end = start
    return text[:end].decode().strip()


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Walk through the parsed query."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _check(part: dict[str, Any]) -> None:
    kind, name = part.get("type"), part.get("function_name")
    if isinstance(kind, str):
        if kind == "SHOW_REF":
            raise refused("it describes tables and reads none")
        if kind.endswith("_NODE") and kind not in _READING:
            verb = kind.partition("_")[0]
            raise refused(f"a part of it is a statement of the kind {verb}, which writes")
    if kind == "TABLE_FUNCTION":
        name = part["function"].get("function_name", "")
        if not _OF_VALUES.fullmatch(str(name).lower()):
            raise refused(f"it calls the function {brief(str(name))} in place of a table")
    elif isinstance(name, str):
        plain = name.lower()
        if not _NAME.fullmatch(plain) and part.get("is_operator") is not True:
            raise refused(f"it calls the function {brief(name)}, whose name is no plain word")
        if _BEYOND.fullmatch(plain) and not _HARMLESS.fullmatch(plain):
            raise refused(f"it calls the function {brief(name)}, which does more than compute")


def refused(why: str, name: str = "") -> DataError:
    """Say that a query is not run, and why."""
    begins = f"{name} cannot be read: the" if name else "The"
    return DataError(f"{begins} query is refused: {why}. It must be one SELECT. {_REMEDY}")


def took_too_long(name: str) -> DataError:
    """Say that a query or view was ended, since a page waits for it."""
    return DataError(
        f"{name} cannot be read: it took longer than {patience.get() or 0:,.0f} seconds, for "
        "which a page waits. Choose fewer columns, or use a terminal, which waits for ever."
    )


def check_one(table: str | None) -> None:
    """Refuse a table beside a query (SpecError)."""
    if table is not None:
        raise SpecError(
            f"Both {option('table')} and {option('query')} are given; leave one of them out."
        )


def without_values(error: Exception | str, asked: str) -> str:
    """Return the first line of a database's error with the words alone that hold no values.

    These are the words of what was asked for, and those that databases use in errors about names
    and grammar. All others may quote a record and become `…`.

    Examples
    --------
    >>> without_values('relation "Smith" does not exist', "SELECT name::regclass FROM persons")
    'relation "…" does not exist'
    >>> without_values('column "agee" does not exist', "SELECT agee FROM persons")
    'column "agee" does not exist'
    """
    line = next(iter(str(error).strip().splitlines()), "")
    line = re.split("Did you mean|Candidate|Perhaps|HINT|LINE", line)[0]
    line = re.sub(r"^(\w+ )?Error: ", "", line.strip()).rstrip(".!;,: ")
    known = {word.casefold() for word in re.findall(r"\w+", asked)} | _VOCABULARY
    said = re.sub(r"\w+", lambda found: found[0] if found[0].casefold() in known else "…", line)
    return brief(re.sub(r"…[^\w\"']+(?=…)", "", said))


def failing_column(names: Sequence[str], run: Callable[[str], Any]) -> str:
    """Return ``column 'age': `` for the first column that cannot be computed by itself."""
    for name in names:
        try:
            run(name)
        except Exception:
            return f"column {brief(name)!r}: "
    return ""
