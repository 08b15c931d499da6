"""What every command is asked to do: read from TOML, written as TOML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import ValidationError

from unikat.errors import SpecError, all_problems, brief
from unikat.files.toml import read_toml, write_toml
from unikat.spec.tables import DataSpec, Table, ZerosSpec, located_path


class Spec(Table):
    """Everything a command is asked to do; read from TOML and written as TOML."""

    command: ClassVar[str]
    """What repeats the run, in the folder that holds the file."""
    data: DataSpec = DataSpec()
    zeros: ZerosSpec | None = None
    """Impossible combinations; None if every combination is possible."""

    @classmethod
    def parse(
        cls,
        values: Mapping[str, Any],
        *,
        where: str = "The specification",
        folder: Path | None = None,
        spoken: Mapping[str, str] | None = None,
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

        Raises
        ------
        SpecError
            If anything is unknown or has a wrong value; the message lists all of it.
        """
        spec = cls._checked(values, where, spoken or {})
        base = Path.cwd() if folder is None else folder
        paths = {
            name: located_path(path, base, what)
            for name, what in (("path", "the data"), ("codebook", "the codebook"))
            if isinstance(path := getattr(spec.data, name), Path)
        }
        source = None if folder is None else where
        zeros = None if spec.zeros is None else spec.zeros.located(base, source)
        data = spec.data.model_copy(update=paths)
        return spec.model_copy(update={"data": data, "zeros": zeros, **spec._located(base)})

    def input_files(self) -> list[Path]:
        """Files that the run reads."""
        found = [self.data.path, self.data.codebook, *(self.zeros.tables if self.zeros else ())]
        return [Path(path) for path in found if isinstance(path, (str, os.PathLike))]

    def _located(self, base: Path) -> dict[str, object]:
        """Tables with paths of their own, relative ones counting from a folder."""
        return {}

    def _as_written(self, values: dict[str, Any], folder: Path) -> None:
        """Change values as they are written into a folder."""

    @classmethod
    def _checked(cls, values: Mapping[str, Any], where: str, spoken: Mapping[str, str]) -> Self:
        own = cls.model_fields["format_version"].default
        other = values.get("schema", own)
        if isinstance(other, str) and other.partition("/")[0] != own.partition("/")[0]:
            raise SpecError(
                f"{where} is of another kind: its schema is {brief(other)!r}, and {own!r} is "
                f"needed here. Name a file for unikat {cls.command}."
            )
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise SpecError(all_problems(problems, where, cls, spoken)) from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a TOML specification; relative paths in it count from its folder.

        Raises
        ------
        SpecError
            If the file cannot be read, is no TOML, or holds anything unknown or wrong.
        """
        values = read_toml(path)
        return cls.parse(values, where=str(path), folder=Path(path).resolve().parent)

    def to_toml(self, folder: Path, note: str = "") -> str:
        """Write as TOML.

        Parameters
        ----------
        folder
            Where it will lie: paths are relative to it unless they share nothing with it.
        note
            A line of comment.
        """
        values = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        # The tables of what was not asked for.
        if values.get("design") == {"relative_weights": False}:
            del values["design"]
        for table in ("registry", "households", "control", "population", "risk", "protected"):
            if "path" in values.get(table, {}):
                values[table]["path"] = relative_path(Path(values[table]["path"]), folder)
        for name in ("margins", "scenario"):
            if not values.get(name):
                values.pop(name, None)
        for file in (*values.get("margins", ()), *values.get("synthetic", ())):
            if "path" in file:
                file["path"] = relative_path(Path(file["path"]), folder)
        for name in ("path", "codebook"):
            if isinstance(path := getattr(self.data, name), Path):
                values["data"][name] = relative_path(path, folder)
        if self.zeros is not None:
            values["zeros"]["rules"] = [
                rule["rule"] if len(rule) == 1 else rule for rule in values["zeros"]["rules"]
            ]
            if not self.zeros.roles:
                del values["zeros"]["roles"]
            values["zeros"]["tables"] = [relative_path(path, folder) for path in self.zeros.tables]
        self._as_written(values, folder)
        lines = [f"The run as run. To repeat it: unikat {self.command} --out NEW_FOLDER"]
        head = "".join(f"# {line}\n" for line in (*lines, note) if line)
        return head + write_toml(values)


def relative_path(path: Path, folder: Path) -> str:
    """Return a path from a folder, unless they share nothing."""
    folder = Path(os.path.abspath(folder))
    try:
        shared = Path(os.path.commonpath([path, folder]))
    except ValueError:
        return str(path)
    return str(path) if shared == Path(shared.anchor) else os.path.relpath(path, folder)
