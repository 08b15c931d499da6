"""What `attack.toml` holds: everything an attack on synthetic files is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from unikat.spec.assessment import HOUSEHOLDS
from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec
from unikat.spec.paths import paths_in
from unikat.spec.tables import (
    FileSpec,
    ModelSpec,
    Names,
    SamplingSpec,
    SeveralFiles,
    Share,
    Table,
    Whole,
)


class RiskSpec(Table):
    """The `[risk]` table: the folder of an assessment of the original."""

    path: Path


class AttackSpec(Spec):
    """Everything an attack is asked to do.

    Examples
    --------
    >>> spec = AttackSpec.parse({"keys": "AGE,SEX", "synthetic": "made.csv"})
    >>> spec.synthetic[0].path.name
    'made.csv'
    """

    command: ClassVar[str] = "attack attack.toml"
    format_version: Literal["unikat.attack-spec/1"] = Field(
        default="unikat.attack-spec/1", alias="schema"
    )
    keys: Names = ()
    """Names of the key variables, each with its binning rule if any."""
    targets: Names = ()
    """Columns that an intruder wants to learn; none: each key from the others."""
    link: Names = ()
    """Keys of one of the two sources that an intruder wants to link, the other keys being those of
    the other; none: the first half."""
    household: Names = ()
    """Columns that together identify the household: its persons are not independent."""
    households: HouseholdsSpec | None = None
    synthetic: SeveralFiles = ()
    """Synthetic files, or a folder of files synthetic_1, synthetic_2, ...; by path or frame."""
    control: FileSpec | None = None
    """Records of the same population that the generator never saw; by path or frame."""
    population: FileSpec | None = None
    """The whole population; by path or frame."""
    population_size: Whole | None = None
    risk: RiskSpec | None = None
    attacks: Whole = Field(default=10_000, ge=1, le=1_000_000_000)
    """Records that are attacked one by one, where that takes a search."""
    level: Share = Field(default=0.95, gt=0, lt=1)
    """Probability of the intervals."""
    model: ModelSpec | None = None
    """Model of the generator, for the attack with all records but one known, and of τ1; None: no
    such attack, and latent classes for τ1."""
    sampling: SamplingSpec = SamplingSpec()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.synthetic:
            raise ValueError(
                "no synthetic file is named; name the files, or the folder that holds them "
                "(--synthetic made.csv; in Python: synthetic='made.csv')"
            )
        if self.data.missing == "wildcard":
            raise ValueError(
                "a missing value is a value of its own in attacks, no wildcard; leave --missing out"
            )
        if self.of_households:
            if not self.household:
                raise ValueError(
                    f"the model {HOUSEHOLDS} needs to know which persons live together; name the "
                    "column that tells households apart: --household COLUMN"
                )
            if self.households is not None and self.households.path is not None:
                raise ValueError(
                    "synthetic files hold keys of households as columns, so the original must "
                    "too; join the two files first"
                )
        elif self.households is not None:
            raise ValueError(
                "--household-keys, --head, --head-keys and --scattered are about attacks on "
                f"households; add --model {HOUSEHOLDS}, or leave them out"
            )
        known = {name.partition(":")[0].strip() for name in self.keys}
        if strange := [name for name in self.link if name not in known]:
            raise ValueError(
                f"--link names {', '.join(strange)}, which is none of the keys; name some of the "
                "keys"
            )
        if self.link and len(set(self.link)) == len(known):
            raise ValueError("--link names all keys; leave some for the other source")
        return self

    @property
    def of_households(self) -> bool:
        """Whether households are attacked too."""
        return self.model is not None and self.model.name == HOUSEHOLDS

    @property
    def all_keys(self) -> list[str]:
        """The keys, those of households among them."""
        shared = () if self.households is None else self.households.keys
        return [*self.keys, *(text for text in shared if text not in self.keys)]

    def input_files(self) -> list[Path]:
        """Files that the run reads; results may go to the folder of the assessment."""
        return list(paths_in(self.model_copy(update={"risk": None})))
