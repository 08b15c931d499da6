"""What `verify.toml` holds: two files to compare, and what the protected one has to reach."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from unikat.spec.assessment import AssessmentSpec, check_of_persons
from unikat.spec.limits import Limit
from unikat.spec.option import Option
from unikat.spec.protection import ProtectionSpec
from unikat.spec.scenarios import of_persons
from unikat.spec.tables import FileSpec
from unikat.spec.values import Names


class VerifySpec(AssessmentSpec):
    """Everything a verification is asked to do, as `verify.toml` holds it; `data` is the original.

    Examples
    --------
    >>> spec = VerifySpec.parse({"keys": "AGE,SEX", "protected": {"path": "safe.csv"}})
    >>> spec.protected.path.name
    'safe.csv'
    """

    command: ClassVar[str] = "verify verify.toml PROTECTED"
    format_version: Literal["unikat.verification/1"] = Field(  # type: ignore[assignment]
        default="unikat.verification/1", alias="schema"
    )
    without: ClassVar[tuple[str, ...]] = (*ProtectionSpec.without, "margins", "zeros")
    protected: Annotated[
        FileSpec | None,
        Option(
            "FILE",
            "The protected file. In Python also a frame.",
            "required",
            accepts="Any",
            positional=True,
            order=1,
            form="run",
            label="Protected file",
            run="protect",
        ),
    ] = None
    id: Annotated[
        str | None,
        Option(
            "COLUMN",
            "Column by whose values records of the two files are matched.",
            "by their order",
            first=True,
            form="run",
            label="Column that matches records",
        ),
    ] = None
    target: Annotated[
        str | None,
        Option(
            "TEXT",
            "What the protected file has to reach, as for `unikat.protect`: 'tau1 <= 5'.",
            first=True,
            form="run",
            label="Target",
        ),
    ] = None

    sensitive: Annotated[
        Names,
        Option(
            "A,B",
            "Sensitive variables of both files: what an intruder learns about them from the "
            "protected file, and from the original, beyond what is known of similar persons.",
            first=True,
        ),
    ] = ()

    @field_validator("target")
    @classmethod
    def _of_known_form(cls, text: str | None) -> str | None:
        if text is None or not text.strip():
            return None
        return str(of_persons(Limit.of_file(text)))

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.protected is None:
            raise ValueError(
                "no protected file is named; name it: unikat verify ORIGINAL PROTECTED "
                "(in Python: protected='safe.csv')"
            )
        check_of_persons(self)
        if self.margins:
            raise ValueError("--margins cannot be combined with a verification; leave it out")
        if self.data.missing == "level":
            raise ValueError(
                "a suppressed value says nothing, and --missing level takes it for a level; leave "
                "--missing out"
            )
        if self.data.missing == "wildcard" and self.target and Limit.of(self.target).plain != "k":
            # Suppressed values of others would hide who is alone.
            raise ValueError(
                "--missing wildcard gives lower bounds of the risk, which tell of no --target but "
                "k that it is met; leave one of them out"
            )
        if self.zeros is not None:
            raise ValueError("--zeros cannot be combined with a verification; leave it out")
        for key in self.keys:
            if ":" in key:
                raise ValueError(
                    "keys are compared as the files hold them; name them without rules of grouping"
                )
        return self
