"""Hostile values, and the ways in which a good file is spoiled."""

from __future__ import annotations

import json
from random import Random
from typing import Any

NUMBERS = (
    "0", "-1", "1", "2", "3", "1.5", "-0.0", "1e-320", "1e-9", "1e9", "1e308", "1e400", "inf",
    "-inf", "nan", "999999999", "2147483648", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1" + "0" * 30, "-1" + "0" * 30, "1" * 400, "9" * 5000, "1_000",
    "0x7f", "1e5000", "1000000000000", "150000",
)  # fmt: skip
TEXTS = (
    "", " ", "true", "false", "none", "null", "a", "two words", "A,B", ",,", "é", "日本語",
    "\u202e", "\udcff", "\t", "a\nb", "\x1b[31mred\x1b[0m", "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "'; DROP TABLE x; --", "../../..", "/", "/dev/null", "-", "--", "%s%n", "{0}", "{{7*7}}",
    "$(id)", "a" * 300, "a" * 20_000, "[1,2]", "[]", "{}", "{a = 1}", "'quoted'", '"', "'", "\\",
    "2024-01-01", "1,2", "1;2", "[" * 2000, "(" * 2000, "auto", "learned", "hdp", "loglinear",
    "AGE", "AREA", "SEX", "WORK", "AGE:width(5)", "nowhere.csv",
)  # fmt: skip
"""Texts of options: what a command line can hand over, which NUL cannot be."""
RAW_TOML = (
    "[]", "{}", "[1]", "['a']", "[[1]]", "true", "''", "'a'", "{a = 1}", "[{a = 1}]", "1979-05-27",
    "07:32:00", "1979-05-27T07:32:00Z", "'''\na\n'''", "'\\u0000'", '"\\u0000"', '"\\u001b[31m"',
    "0x" + "f" * 5000, "0b1", "0o7", "+inf", "[" * 3000, "[" * 3000 + "]" * 3000,
    "{a = " * 600 + "1" + "}" * 600, "['a', 1, true]", "[1, 2, 3]", "[nan]", "",
    f"'{'a' * 20000}'", f"[{','.join(['1'] * 20000)}]",
)  # fmt: skip
RAW_JSON = (
    "null", "true", "[]", "{}", "[1]", '"a"', '""', "-1", "0", "1e308", "1e999", "NaN", "Infinity",
    "9" * 5000, "1" + "0" * 30, "[" * 100_000, "[" * 3000 + "]" * 3000, '{"a":' * 5000,
    '{"a":1,"a":2}', '"\\ud800"', '"\\u0000"', '"\\u001b[31m"', '"<script>alert(1)</script>"',
    json.dumps("a" * 20_000), "[[1, 2], [3]]", "1.5", "-0.0", "[null]", '{"": null}', "",
)  # fmt: skip
PIECES = (
    b"\x00", b'"', b"'", b"\r", b"\n", b"\r\n", b",", b";", b"\t", b"|", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x1b[2J", b'""', b'"\n', b",,,,", b"=1+1",
    b"-", b"1e999",
    b"nan", b"NULL", b"NA", b"\xe2\x80\xae", b"x" * 70_000, b"\n" * 50, b"#", b"\\", b"[", b"{",
    b"]", b"}", b"==", b" and ", b" or ", b"not ", b"(", b")", b"in ", b"9" * 5000,
    b"\x7f", b"\x80",
)  # fmt: skip


MILD = ("1", "2", "3", "5", "10", "40", "100", "0.1", "0.5", "0.9", "1.5", "20%", "true", "false")
"""What many options take, so that what comes after them is reached."""


def option(rng: Random) -> str:
    """Make a value of an option of the command line."""
    if rng.random() < 0.3:
        return rng.choice(MILD)
    return rng.choice(NUMBERS) if rng.random() < 0.55 else rng.choice(TEXTS)


def toml(rng: Random) -> str:
    """Make a value as TOML has it, or something that looks like one."""
    if rng.random() < 0.3:
        return rng.choice(MILD)
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(NUMBERS)
    if kind < 0.7:
        return rng.choice(RAW_TOML)
    text = rng.choice(TEXTS)
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def spoiled(rng: Random, content: bytes, most: int = 3) -> bytes:
    """Spoil a file in one to three places."""
    for _ in range(rng.randint(1, most)):
        content = _spoiled_once(rng, content)
    return content


def _spoiled_once(rng: Random, content: bytes) -> bytes:
    if not content:
        return rng.choice(PIECES)
    first = rng.randrange(len(content))
    if rng.random() < 0.3:  # The beginning, where headers are.
        first = min(first, rng.randrange(64))
    last = min(len(content), first + rng.choice((1, 1, 2, 8, 64, 1000)))
    how = rng.randrange(7)
    if how == 0:
        flipped = bytearray(content)
        for place in range(first, min(last, first + 8)):
            flipped[place] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    if how == 1:
        return content[:first] + content[last:]
    if how == 2:
        return content[:first] + content[first:last] * rng.choice((2, 3, 50)) + content[last:]
    if how == 3:
        return content[:first]
    if how == 4:
        other = rng.randrange(len(content))
        return content[:first] + content[other : other + last - first] + content[last:]
    return content[:first] + rng.choice(PIECES) + content[first if how == 5 else last :]


def spoiled_json(rng: Random, text: str) -> str:
    """Put something hostile in place of a value somewhere in a JSON document, or drop one."""
    tree: Any = {"top": json.loads(text)}
    holder, place = tree, "top"
    while True:
        inside = holder[place]
        if not isinstance(inside, (dict, list)) or not inside or rng.random() < 0.12:
            break
        holder = inside
        place = rng.choice(list(inside)) if isinstance(inside, dict) else rng.randrange(len(inside))
    how = rng.random()
    if how < 0.15:
        del holder[place]
        if holder is tree:
            return ""
    elif how < 0.25 and isinstance(holder, dict):
        holder["another"] = holder[place]
    elif how < 0.35 and isinstance(holder[place], (int, float)):
        holder[place] = -holder[place] * 10**12
    else:
        holder[place] = "@@"
        return json.dumps(tree["top"]).replace('"@@"', rng.choice(RAW_JSON), 1)
    return json.dumps(tree["top"])
