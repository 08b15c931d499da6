"""JSON: reading files that may be damaged or hostile, and writing numbers that are not finite."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any


def parse_json(text: str | bytes, *, constants: bool = False) -> Any:
    """Read JSON, whatever it holds.

    Parameters
    ----------
    text
        The document.
    constants
        Let NaN and Infinity be numbers, as Python writes them.

    Raises
    ------
    ValueError
        If it is none, is nested too deeply, or has a number that is none or has thousands of
        digits. The message repeats nothing of the text.

    Examples
    --------
    >>> parse_json('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    try:
        return json.loads(text, parse_constant=float if constants else _refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not valid JSON (line {error.lineno}: {error.msg})") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply") from None
    except ValueError:
        raise ValueError("it has a number that is none, or that has thousands of digits") from None


def _refuse(_: str) -> float:
    raise ValueError


def facts_text(facts: Any) -> str:
    """Write a dataclass as JSON, beginning with its schema."""
    return json_text({"schema": facts.schema, **asdict(facts)})


def json_text(values: Any) -> str:
    """Write as JSON; what is not finite becomes null."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return value

    return json.dumps(plain(values), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
