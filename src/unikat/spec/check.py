"""What `check.toml` holds: a file, and the policy that it has to meet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from unikat.spec.assessment import AssessmentSpec
from unikat.spec.option import Option
from unikat.spec.protection import ProtectionSpec, check_of_persons
from unikat.spec.values import Names


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
        ),
    ] = None
    left_out: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of the policy that are no columns of the file any more. Any other that is not "
            "there is an error.",
            first=True,
        ),
    ] = ()
    original: Annotated[
        Path | None,
        Option(
            "FILE",
            "The file before protection, of which the certificate then has a salted SHA-256.",
            accepts="str | PathLike[str] | None",
            first=True,
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
    ] = Field(default=None, pattern=r"^[0-9a-f]{32,128}$")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.policy is None and self.certificate is None:
            raise ValueError(
                "no policy is named; name it as in --policy policy.toml, or make one with unikat "
                "policy"
            )
        if any(":" in key for key in self.keys):
            raise ValueError(
                "keys are judged as the file holds them; name them without rules of grouping"
            )
        check_of_persons(self)
        return self
