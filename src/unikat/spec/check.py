"""What `check.toml` holds: a file, and the policy that it has to meet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from unikat.errors import SpecError, option
from unikat.spec.assessment import AssessmentSpec, check_of_persons
from unikat.spec.option import Asked, Option
from unikat.spec.paths import given_path
from unikat.spec.protection import ProtectionSpec
from unikat.spec.values import Names

_BESIDE_CERTIFICATE = ("certificate", "policy", "original", "salt", "language", "trust_spec")


def certificate_given(value: Any, asked: Asked) -> Any:
    """Read the path of a certificate; refuse options that mean nothing beside it (SpecError)."""
    if others := [option(name) for name in asked.given if name not in _BESIDE_CERTIFICATE]:
        raise SpecError(
            f"{', '.join(others)}: files are compared with a certificate byte by byte, and nothing "
            f"is judged again; leave this out, or leave {option('certificate')} out."
        )
    return given_path(value)


class CheckSpec(AssessmentSpec):
    """Everything a check is asked to do, as `check.toml` holds it; `data` is the released file.

    Examples
    --------
    >>> CheckSpec.parse({"data": {"path": "safe.csv"}, "policy": "policy.toml"}).policy.name
    'policy.toml'
    """

    command: ClassVar[str] = "check check.toml"
    format_version: Literal["unikat.check/1"] = Field(  # type: ignore[assignment]
        default="unikat.check/1", alias="schema"
    )
    without: ClassVar[tuple[str, ...]] = (*ProtectionSpec.without, "households", "report.level")
    policy: Annotated[
        Path | dict[str, Any] | None,
        Option(
            "FILE",
            "What the file has to meet: a policy.toml (see unikat policy). Its keys are taken; "
            "--keys names further ones.",
            "required, unless --certificate is given",
            accepts="str | PathLike[str] | Mapping[str, Any] | None",
            first=True,
            order=1,
            form="run",
            label="Policy",
            endings=(".toml",),
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        Option(
            "FILE",
            "Compare FILE with this certificate.json instead, byte by byte; nothing is estimated "
            "or written.",
            accepts="str | PathLike[str] | None",
            first=True,
            read=certificate_given,
        ),
    ] = None
    left_out: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of the policy that are no columns of the file any more. Any other that is not "
            "there is an error.",
            first=True,
            form="run",
            label="Keys that were removed",
        ),
    ] = ()
    original: Annotated[
        Path | None,
        Option(
            "FILE",
            "The file before protection, of which the certificate then has a salted SHA-256.",
            accepts="str | PathLike[str] | None",
            first=True,
            form="run",
            label="The file before protection",
        ),
    ] = None
    salt: Annotated[
        str | None,
        Option(
            "HEX",
            "Salt of the digest of the original. Keep it to yourself: who knows it can try values "
            "that were hidden.",
            "drawn, and written to check.toml",
        ),
    ] = None

    @field_validator("salt")
    @classmethod
    def _hexadecimal(cls, salt: str | None) -> str | None:
        if salt is not None and not re.fullmatch("[0-9a-fA-F]{32,128}", salt):
            raise ValueError(
                "a salt, by which the digest of the original cannot be guessed, is 32 to 128 "
                "hexadecimal digits; leave it out, so that one is drawn, or take that of the "
                "check.toml that belongs to the certificate"
            )
        return salt and salt.lower()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.salt is not None and self.original is None:
            raise ValueError(
                "--salt is of the digest of the original, and none is named; add --original, or "
                "leave --salt out"
            )
        if self.policy is None and self.certificate is None:
            raise ValueError(
                "no policy is named; name it as in --policy policy.toml, or make one with unikat "
                "policy"
            )
        if any(":" in key for key in self.keys):
            raise ValueError(
                "keys are judged as the file holds them; name them without rules of grouping"
            )
        if self.data.missing == "wildcard":
            # One blank record would match all others, and certify any file.
            raise ValueError(
                "--missing wildcard gives lower bounds of the risk, by which a file that misses "
                "the policy would be certified; leave --missing out"
            )
        check_of_persons(self)
        return self
