"""What `protect.toml` and `plan.toml` hold: what a file has to reach, and what is done to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from unikat.errors import shown
from unikat.spec.assessment import HOUSEHOLDS, AssessmentSpec
from unikat.spec.base import Spec
from unikat.spec.perturbation import Pram, PramByKey, SwapRule, SwapText, read_matrix
from unikat.spec.tables import Names, Table, located_path
from unikat.spec.target import Target

LEFT_OUT = "left out"
"""The rule of a key that is left out."""


def _recodings(value: object) -> object:
    """Read `age: width(5), width(10); region: left out`; a mapping stays as it is."""
    if not isinstance(value, str):
        return value
    found = {}
    for part in filter(str.strip, value.split(";")):
        # A name may hold a colon, a rule has none.
        name, colon, rules = part.rpartition(":")
        if not colon or not rules.strip():
            raise ValueError(
                "name each key and its recodings, as in 'age: width(5), width(10); region: "
                f"{LEFT_OUT}'"
            )
        found[name.strip()] = _split(rules)
    return found


def _split(text: str) -> list[str]:
    """Split at commas, those within parentheses excepted."""
    items, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += char
    return [item.strip() for item in items if item.strip()]


def _tables(value: object) -> object:
    """Read `age,sex; region,income`; lists stay as they are."""
    if not isinstance(value, str):
        return value
    return [_split(part) for part in value.split(";") if part.strip()]


def _importance(value: object) -> object:
    """Read `age=2,region=0.5`; a mapping stays as it is."""
    if not isinstance(value, str):
        return value
    pairs = [part.rpartition("=") for part in value.split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("name each key and its weight, as in 'age=2,region=0.5'")
    return {name.strip(): weight.strip() for name, _, weight in pairs}


class ProtectionSpec(AssessmentSpec):
    """Everything a protection is asked to do, as `protect.toml` holds it.

    Examples
    --------
    >>> spec = ProtectionSpec.parse(
    ...     {"keys": "AGE,SEX", "target": "tau1 <= 5", "recodings": "AGE: width(5), width(10)"}
    ... )
    >>> spec.target, spec.recodings
    ('tau1 <= 5', {'AGE': ('width(5)', 'width(10)')})
    """

    command: ClassVar[str] = "protect protect.toml"
    format_version: Literal["unikat.protection/1"] = Field(  # type: ignore[assignment]
        default="unikat.protection/1", alias="schema"
    )
    target: str = ""
    """What the protected file has to reach: `tau1 <= 5`; empty: nothing is recoded."""
    keep: Names = ()
    """Keys that stay as they are."""
    weights_of_keys: Annotated[dict[str, float], BeforeValidator(_importance)] = Field(default={})
    """How much the information of each key counts; 1 for those that are not named."""
    recodings: Annotated[dict[str, tuple[Any, ...]], BeforeValidator(_recodings)] = Field(
        default={}
    )
    """Recodings of some keys to choose from, in place of those that the program makes itself."""

    tables: Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_tables)] = ()
    """Tables of the user, each as the names of its columns: what each plan keeps of them is
    told."""

    suppress: str | None = None
    """What every record has to reach by local suppression after recoding: `r1 <= 0.2` or `k >= 3`;
    None: nothing is suppressed."""
    pram: PramByKey = Field(default={})
    """Keys whose values are drawn anew after recoding: the probability of keeping a value, or a
    matrix."""
    swap: SwapText | None = None
    """Keys that records at risk exchange with records that are like them: `region: r1 > 0.2`."""
    swap_match: Names = ()
    """Keys in which the two agree; none: all that are not swapped."""

    @property
    def perturbs(self) -> bool:
        """Whether values are changed at random."""
        return bool(self.pram) or self.swap is not None

    @field_validator("swap")
    @classmethod
    def _of_keys(cls, text: str | None) -> str | None:
        return None if text is None else str(SwapRule.of(text))

    @field_validator("pram")
    @classmethod
    def _probabilities(cls, pram: Pram) -> Pram:
        for name, one in pram.items():
            if isinstance(one, float) and not 0.0 <= one < 1.0:
                raise ValueError(
                    f"the probability of keeping a value of {shown(name)} must be from 0 to below "
                    "1, such as 0.8"
                )
        return pram

    @field_validator("suppress")
    @classmethod
    def _of_a_record(cls, text: str | None) -> str | None:
        if text is None:
            return None
        target = Target.of(text)
        if target.measure not in ("r1", "k"):
            raise ValueError(
                f"--suppress is about single records; write 'r1 <= 0.2' or 'k >= 3', not {target}"
            )
        if target.measure == "k" and target.limit < 2.0:
            raise ValueError(f"{target} suppresses nothing; write 'k >= 2' or more")
        return str(target)

    @field_validator("target")
    @classmethod
    def _of_known_form(cls, text: str) -> str:
        return str(Target.of(text)) if text.strip() else ""

    @field_validator("tables")
    @classmethod
    def _of_columns(cls, tables: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        for one in tables:
            if not 1 < len(one) == len(set(one)):
                raise ValueError(
                    "a table is made of two columns or more, each named once, as in "
                    "'age,sex; region,income'"
                )
        return tables

    @field_validator("weights_of_keys")
    @classmethod
    def _not_negative(cls, weights: dict[str, float]) -> dict[str, float]:
        if any(not 0.0 <= weight < float("inf") for weight in weights.values()):
            raise ValueError("a weight of a key is negative or no number; give 0 or more")
        return weights

    @field_validator("recodings")
    @classmethod
    def _none_in_words(cls, recodings: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
        return {
            name: tuple(LEFT_OUT if rule is None else rule for rule in rules)
            for name, rules in recodings.items()
        }

    @model_validator(mode="after")
    def _of_persons(self) -> Self:
        if not self.target and not self.perturbs:
            raise ValueError("no target is named; name one as in --target 'tau1 <= 5'")
        self._check_perturbation()
        check_of_persons(self)
        if self.suppress is not None and self.data.missing == "level":
            raise ValueError(
                "a suppressed value says nothing, and --missing level takes it for a level; leave "
                "--missing out, or --suppress"
            )
        return self

    def _check_perturbation(self) -> None:
        rule = None if self.swap is None else SwapRule.of(self.swap)
        swapped = () if rule is None else rule.keys
        if not self.target and self.recodings:
            raise ValueError(
                "recodings are chosen to reach a target, and there is none; add --target, or leave "
                "--recodings out"
            )
        if self.swap_match and rule is None:
            raise ValueError("--swap-match belongs to --swap; add it, or leave --swap-match out")
        if both := [name for name in swapped if name in self.pram]:
            raise ValueError(
                f"{shown(both[0])} is named by --pram and by --swap; change a key in one way"
            )
        if both := [name for name in swapped if name in self.swap_match]:
            raise ValueError(
                f"{shown(both[0])} is to be swapped, so records cannot agree in it; leave it out "
                "of --swap-match"
            )
        if self.perturbs and self.suppress is not None and not self.suppress.startswith("k"):
            raise ValueError(
                f"--suppress {self.suppress!r} takes the values of the file for true, and --pram "
                "and --swap change them; take --suppress 'k >= 3', or leave one of them out"
            )

    def _located(self, base: Path) -> dict[str, object]:
        found = {
            name: read_matrix(located_path(one, base, f"the matrix of {name}"))
            if isinstance(one, Path)
            else one
            for name, one in self.pram.items()
        }
        # The matrices themselves stand in the specification, so that it repeats the run.
        return {**super()._located(base), "pram": found}


def check_of_persons(spec: AssessmentSpec) -> None:
    """Refuse what the risk of recoded keys is not known with (ValueError)."""
    if spec.model.name == HOUSEHOLDS:
        raise ValueError(
            f"the model {HOUSEHOLDS} does not tell what recoded keys would change; take auto, "
            "hdp, gom or latent-class, with --household for samples of whole households"
        )
    for option, given in (
        ("--margins", bool(spec.margins)),
        ("--relatives", spec.relatives is not None),
        ("--registry", spec.registry is not None),
        ("--classics", spec.classics is not None),
    ):
        if given:
            raise ValueError(f"{option} cannot be combined with protect; leave it out")


class PlanKey(Table):
    """What a plan does to one key."""

    name: str
    """Of the column."""
    key: str
    """As the keys name it, with its rule of binning if any."""
    rule: str | Mapping[str, str] | None = None
    """A rule of recoding that no record's value changes, a mapping of levels to groups, or
    `left out`; None: the key stays as it is."""
    levels: tuple[str, ...] | None = None
    """Where the rule names levels: all levels that it was made for."""


class PlanSpec(Spec):
    """A plan: recodings that can be done to other files with the same columns.

    Examples
    --------
    >>> plan = PlanSpec.parse({"keys": [{"name": "AGE", "key": "AGE", "rule": "width(10)"}]})
    >>> plan.keys[0].rule
    'width(10)'
    """

    command: ClassVar[str] = "protect --apply plan.toml FILE"
    format_version: Literal["unikat.plan/1"] = Field(default="unikat.plan/1", alias="schema")
    keys: tuple[PlanKey, ...] = ()

    def to_toml(self, folder: Path, note: str = "") -> str:
        """Write as TOML, with what repeats the recodings."""
        _, _, values = super().to_toml(folder, note).partition("\n")
        head = f"To recode another file so: unikat {self.command} --out FILE2"
        return f"# {head}\n{values}"
