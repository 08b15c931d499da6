"""What `attack.toml` holds: everything an attack on synthetic files is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from unikat.language.keys import column_of
from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec
from unikat.spec.model import ModelSpec, read_model
from unikat.spec.models import HOUSEHOLDS, SIMPLEST, either, models_with
from unikat.spec.option import Option
from unikat.spec.paths import paths_in
from unikat.spec.tables import FileSpec, PageSpec, SamplingSpec, SeveralFiles
from unikat.spec.values import Keys, Names, PopulationSize, Table, Whole


class RiskSpec(Table):
    """The `[risk]` table: the folder of an assessment of the original."""

    path: Annotated[
        Path,
        Option(
            "DIR",
            "Folder of an assessment of the original: its record risks say how many claims about "
            "synthetic uniques are true.",
            name="risk",
            accepts="str | PathLike[str] | None",
        ),
    ]


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
    without: ClassVar[tuple[str, ...]] = (
        "zeros.on_conflict",
        "households.path",
        "households.population",
    )
    keys: Keys = ()
    targets: Annotated[
        Names,
        Option(
            "A,B",
            "Variables that an intruder wants to learn from the keys.",
            "each key from the other keys",
        ),
    ] = ()
    link: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of one of two sources that an intruder wants to link; the other keys are those "
            "of the other source.",
            "the first half of the keys",
        ),
    ] = ()
    household: Annotated[
        Names,
        Option(
            "COLUMN",
            "Columns that together identify the household: intervals and τ1 of the original then "
            "take its persons together. With --model households the synthetic files have them too.",
            first=True,
        ),
    ] = ()
    households: HouseholdsSpec | None = None
    synthetic: Annotated[
        SeveralFiles,
        Option(
            "DIR|FILE,FILE",
            "Synthetic files, of any generator, or the folder of unikat synthesize. In Python "
            "also frames.",
            "required",
            first=True,
            accepts="Any",
        ),
    ] = ()
    control: Annotated[
        FileSpec | None,
        Option(
            "FILE",
            "Records of the same population that the generator never saw. What an intruder learns "
            "of them is the baseline. In Python also a frame.",
            first=True,
            accepts="Any",
        ),
    ] = None
    population: Annotated[
        FileSpec | None,
        Option(
            "FILE",
            "The whole population, where it is known: which claims about synthetic uniques are "
            "true. In Python also a frame.",
            accepts="Any",
        ),
    ] = None
    population_size: PopulationSize = None
    risk: RiskSpec | None = None
    attacks: Annotated[
        Whole,
        Option("N", "Records that are attacked one by one, where that takes a search.", first=True),
    ] = Field(default=10_000, ge=1, le=1_000_000_000)
    model: Annotated[
        ModelSpec | None,
        Option(
            "MODEL",
            "Mixture model of the generator, with its options "
            f"({either(models_with(all_but_one=True))}, or {HOUSEHOLDS} for whole households): "
            "also an intruder who knows it, and all records but one. And the "
            "model by which τ1 is estimated with --population-size.",
            f"no such intruder; {SIMPLEST} for τ1",
            first=True,
            accepts="Any",
            read=read_model,
        ),
    ] = None
    sampling: SamplingSpec = SamplingSpec()
    report: PageSpec = PageSpec()

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
                "--household-keys, --head and other values of households are about attacks on "
                f"households; add --model {HOUSEHOLDS}, or leave them out"
            )
        known = {column_of(name) for name in self.keys}
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
