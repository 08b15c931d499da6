"""The questionnaire of `unikat policy`: answers as options, or asked for one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from unikat.errors import SpecError


def asked(question: Mapping[str, Any]) -> Any:
    """Ask a question of the person at the terminal; SpecError if there is nobody."""
    try:
        return click.prompt(err=True, **question)
    except click.Abort as error:
        # Click takes the end of a file for Ctrl-C.
        if isinstance(error.__context__, EOFError):
            raise SpecError(
                f"{question['text']}: there is nobody to ask, since the input has ended. Give the "
                "answers as options; --help lists them."
            ) from None
        raise


def answered(given: Mapping[str, Any], ask: bool) -> str:
    """Fill a template in by answers; those that are not given are asked for, or refused."""
    from unikat.language.keys import split_keys
    from unikat.spec.policy import Answers

    found: dict[str, Any] = dict(given)
    if found.get("recipients") == "public" and found.get("contract") is None:
        # The public signs nothing.
        found["contract"] = False
    questions: dict[str, dict[str, Any]] = {
        "recipients": {
            "text": "Who gets the file",
            "type": click.Choice(["public", "researchers", "room"]),
        },
        "contract": {"text": "Do they sign a contract to identify nobody", "type": bool},
        "repeated": {"text": "Are the same persons in several releases", "type": bool},
        "keys": {"text": "Columns that an intruder may know (A,B)"},
        "sensitive": {"text": "Columns of sensitive content (A,B), or nothing", "default": ""},
        "never": {"text": "Further columns that never leave (A,B), or nothing", "default": ""},
    }
    for name, question in questions.items():
        if found.get(name) is None and ask:
            found[name] = asked(question)
        elif found.get(name) is None and "default" in question:
            found[name] = question["default"]
    room = found.get("recipients") == "room"
    missing = [name for name in questions if found.get(name) is None]
    if missing and not (room and missing == ["keys"]):
        names = {"contract": "--contract or --no-contract", "repeated": "--repeated or --once"}
        said = ", ".join(names.get(name, f"--{name}") for name in missing)
        raise SpecError(f"Answers are missing: {said}. Give them, or add --ask.")
    listed = {name: tuple(split_keys(found[name] or "")) for name in ("keys", "sensitive", "never")}
    return Answers(**(found | listed)).policy()
