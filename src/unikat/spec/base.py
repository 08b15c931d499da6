"""What every command is asked to do: read from TOML, written as TOML."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import ValidationError

from unikat.errors import SpecError, brief
from unikat.files.toml import read_toml, write_toml
from unikat.spec.paths import located_path, paths_in, relative_path, with_paths
from unikat.spec.problems import all_problems
from unikat.spec.rules import Zeros
from unikat.spec.tables import DataSpec
from unikat.spec.trust import FOREIGN, Trust
from unikat.spec.values import Table

T = TypeVar("T", bound=Table)


class Spec(Table):
    """Everything a command is asked to do; read from TOML and written as TOML."""

    command: ClassVar[str]
    """What repeats the run, in the folder that holds the file."""
    data: DataSpec = DataSpec()
    zeros: Zeros = None
    without: ClassVar[tuple[str, ...]] = ()
    """Places of fields that are no options of this command, such as `households.path`."""

    @classmethod
    def parse(
        cls,
        values: Mapping[str, Any],
        *,
        where: str = "The specification",
        folder: Path | None = None,
        spoken: Mapping[str, str] | None = None,
        trust: Trust = FOREIGN,
    ) -> Self:
        """Check nested values and make a specification of them.

        Parameters
        ----------
        values
            Tables and values as TOML has them.
        where
            What the error message calls them.
        folder
            Folder from which relative paths count; the working directory if None.
        spoken
            What messages call a value, by its place: ``{"sampling.chains": "--chains"}``.
        trust
            What counts of values from a file; without a folder all do.

        Raises
        ------
        SpecError
            If anything is unknown or has a wrong value, or is for the user alone to decide; the
            message lists all of it.
        """
        spec = cls._checked(values, where, spoken or {})
        base = Path.cwd() if folder is None else folder
        if folder is not None:
            trust.check(spec, where, folder)
            if spec.zeros is not None:
                spec.zeros.stands_in(where)
        located: Self = with_paths(spec, lambda path: located_path(path, base))
        return located._completed()

    @classmethod
    def again(cls, path: str = "") -> str:
        """Return the command line that repeats a run, of which the user knows who wrote it.

        Parameters
        ----------
        path
            Of the file; without it the line is one for its folder.

        Examples
        --------
        >>> Spec.again.__func__(type("", (), {"command": "assess assessment.toml"}), "a/b.toml")
        'unikat assess a/b.toml --trust-spec --out NEW_FOLDER'
        """
        name = next(word for word in cls.command.split() if word.endswith(".toml"))
        words = cls.command.replace(name, f"{shlex.quote(path or name)} --trust-spec")
        return f"unikat {words} --out NEW_FOLDER"

    def input_files(self) -> list[Path]:
        """Files that the run reads."""
        return list(paths_in(self))

    def _completed(self) -> Self:
        """Return the specification with what is read at once from files that it names."""
        return self

    @classmethod
    def _checked(cls, values: Mapping[str, Any], where: str, spoken: Mapping[str, str]) -> Self:
        return checked(cls, values, where, spoken)

    @classmethod
    def read(cls, path: str | os.PathLike[str], trust: Trust = FOREIGN) -> Self:
        """Read a TOML specification; relative paths in it count from its folder.

        Raises
        ------
        SpecError
            If the file cannot be read, is no TOML, or holds anything unknown or wrong, or that is
            for the user alone to decide.
        """
        values = read_toml(path)
        return cls.parse(values, where=str(path), folder=Path(path).resolve().parent, trust=trust)

    def to_toml(self, folder: Path, note: str = "") -> str:
        """Write as TOML.

        Parameters
        ----------
        folder
            Where it will lie: paths are relative to it unless they share nothing with it.
        note
            A line of comment.
        """
        moved: Self = with_paths(self, lambda path: relative_path(path, folder))
        values = moved.model_dump(mode="json", by_alias=True, exclude_none=True)
        # The tables of what was not asked for.
        if values.get("design") == {"relative_weights": False}:
            del values["design"]
        for name in ("margins", "scenario"):
            if not values.get(name):
                values.pop(name, None)
        if self.zeros is not None:
            values["zeros"]["rules"] = [
                rule["rule"] if len(rule) == 1 else rule for rule in values["zeros"]["rules"]
            ]
            if not self.zeros.roles:
                del values["zeros"]["roles"]
        lines = [f"The run as run. To repeat it: {self.again()}"]
        head = "".join(f"# {line}\n" for line in (*lines, note) if line)
        return head + write_toml(values)


def checked(table: type[T], values: Mapping[str, Any], where: str, spoken: Mapping[str, str]) -> T:
    """Check values for a table with a schema and a command; arguments and errors as of `parse`."""
    own = table.model_fields["format_version"].default
    other = values.get("schema", own)
    if isinstance(other, str) and other.partition("/")[0] != own.partition("/")[0]:
        raise SpecError(
            f"{where} is of another kind: its schema is {brief(other)!r}, and {own!r} is "
            f"needed here. Name a file for unikat {table.command}."  # type: ignore[attr-defined]
        )
    if isinstance(other, str) and other != own:
        raise SpecError(
            f"{where} was written by another version of unikat: its schema is "
            f"{brief(other)!r}, and this version reads {own!r}. Read it with that version, or "
            "write it again with this one."
        )
    try:
        return table.model_validate(dict(values))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise SpecError(all_problems(problems, where, table, spoken)) from None
