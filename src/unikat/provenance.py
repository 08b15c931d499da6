"""What a run was asked to do and what did it: `assessment.toml` and the record of versions."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError, field_validator

from unikat._toml import read_toml, write_toml
from unikat.errors import SpecError, all_problems
from unikat.specification import (
    ClassicsSpec,
    DataSpec,
    DesignSpec,
    ModelSpec,
    RegistrySpec,
    ReportSpec,
    SamplingSpec,
    Table,
    Whole,
    ZerosSpec,
    located_path,
    split_keys,
)


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

    def _located(self, base: Path) -> dict[str, object]:
        """Tables with paths of their own, relative ones counting from a folder."""
        return {}

    @classmethod
    def _checked(cls, values: Mapping[str, Any], where: str, spoken: Mapping[str, str]) -> Self:
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
        if "path" in values.get("registry", {}):
            values["registry"]["path"] = _relative(Path(values["registry"]["path"]), folder)
        for name in ("path", "codebook"):
            if isinstance(path := getattr(self.data, name), Path):
                values["data"][name] = _relative(path, folder)
        if self.zeros is not None:
            values["zeros"]["rules"] = [
                rule["rule"] if len(rule) == 1 else rule for rule in values["zeros"]["rules"]
            ]
            values["zeros"]["tables"] = [_relative(path, folder) for path in self.zeros.tables]
        lines = [f"The run as run. To repeat it: unikat {self.command} --out NEW_FOLDER"]
        head = "".join(f"# {line}\n" for line in (*lines, note) if line)
        return head + write_toml(values)


class AssessmentSpec(Spec):
    """Everything an assessment is asked to do, as `assessment.toml` holds it.

    Examples
    --------
    >>> spec = AssessmentSpec.parse({"keys": ["AGE", "SEX"], "population_size": 1000})
    >>> spec.keys, spec.sampling.chains
    (('AGE', 'SEX'), 4)
    """

    command: ClassVar[str] = "assess assessment.toml"
    format_version: Literal["unikat.assessment/1"] = Field(
        default="unikat.assessment/1", alias="schema"
    )
    population_size: Whole | None = None
    keys: tuple[str, ...] = ()
    """Names of the key variables, each with its binning rule if any: `AGE:width(5)`."""
    design: DesignSpec = DesignSpec()
    classics: ClassicsSpec | None = None
    """The classic measures; None if they are not asked for."""
    registry: RegistrySpec | None = None
    """A file of registered units, whose risk is found by the sample; None if there is none."""
    model: ModelSpec = ModelSpec()
    """A table, or a text as `ModelSpec.of` reads it."""
    sampling: SamplingSpec = SamplingSpec()
    report: ReportSpec = ReportSpec()

    @field_validator("keys", mode="before")
    @classmethod
    def _listed(cls, keys: object) -> object:
        return split_keys(keys) if isinstance(keys, str) else keys

    def _located(self, base: Path) -> dict[str, object]:
        if self.registry is None or self.registry.path is None:
            return {}
        path = located_path(self.registry.path, base, "the registry")
        return {"registry": self.registry.model_copy(update={"path": path})}

    @field_validator("model", mode="before")
    @classmethod
    def _named(cls, model: object) -> object:
        return ModelSpec.of(model) if isinstance(model, str) else model


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What ran: versions, kind of machine, when, and on which data."""

    unikat: str
    python: str
    numpy: str
    numba: str
    platform: str
    started: str
    """Time at which the run began, ISO 8601 in UTC."""
    seed: int
    data_fingerprint: str
    """SHA-256 of keys, patterns, counts, population size and possible cells
    (`CellTable.fingerprint`)."""

    @classmethod
    def now(cls, *, seed: int, data_fingerprint: str, started: datetime | None = None) -> Self:
        """Record this machine and the moment; `started` defaults to now."""
        moment = datetime.now(UTC) if started is None else started
        return cls(
            unikat=package_version(),
            python=platform.python_version(),
            numpy=metadata.version("numpy"),
            numba=metadata.version("numba"),
            platform=f"{sys.platform}-{platform.machine()}",
            started=moment.astimezone(UTC).isoformat(timespec="seconds"),
            seed=seed,
            data_fingerprint=data_fingerprint,
        )


def package_version() -> str:
    """Return the version of this package."""
    import unikat

    return str(unikat.__version__)


def _relative(path: Path, folder: Path) -> str:
    folder = Path(os.path.abspath(folder))
    try:
        shared = Path(os.path.commonpath([path, folder]))
    except ValueError:
        return str(path)
    return str(path) if shared == Path(shared.anchor) else os.path.relpath(path, folder)
