"""What `attack.toml` holds: everything an attack on synthetic files is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from unikat.errors import shown
from unikat.language.keys import column_of
from unikat.spec.base import Spec
from unikat.spec.households import NO_HOUSEHOLD, HouseholdsSpec
from unikat.spec.key_errors import KeyErrors
from unikat.spec.model import ModelSpec, read_model
from unikat.spec.models import HOUSEHOLDS, SIMPLEST, either, models_with
from unikat.spec.option import Option
from unikat.spec.paths import paths_in
from unikat.spec.tables import (
    FileSpec,
    MarginSpec,
    PageSpec,
    SamplingSpec,
    SeveralFiles,
    several_files,
)
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
            form="run",
            label="Assessment of the original",
            run="assess",
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
            form="run",
            label="What the intruder wants to learn",
        ),
    ] = ()
    link: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of one of two sources that an intruder wants to link; the other keys are those "
            "of the other source.",
            "the first half of the keys",
            form="run",
            label="Keys of the first source",
        ),
    ] = ()
    household: Annotated[
        Names,
        Option(
            "COLUMN",
            "Columns that together identify the household. Intervals take its persons together; "
            "where every file has them, whole households are attacked too.",
            first=True,
            form="keys",
        ),
    ] = ()
    households: HouseholdsSpec | None = None
    synthetic: Annotated[
        SeveralFiles,
        Option(
            "DIR|FILE,FILE",
            "Synthetic files, of any generator, or the folder of unikat synthesize. In Python "
            "also frames.",
            "required, or --external",
            first=True,
            order=1,
            accepts="Any",
            form="run",
            label="Synthetic files",
            run="synthesize",
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
            form="run",
            label="Control file",
        ),
    ] = None
    population: Annotated[
        FileSpec | None,
        Option(
            "FILE",
            "The whole population, where it is known: which claims about synthetic uniques are "
            "true. In Python also a frame.",
            accepts="Any",
            form="run",
            label="The whole population",
        ),
    ] = None
    external: Annotated[
        FileSpec | None,
        Option(
            "FILE",
            "In place of synthetic files: an intruder's file with the keys, whose records Splink "
            "(extra `link`) links with those of the original.",
            first=True,
            accepts="Any",
        ),
    ] = None
    id: Annotated[
        str | None,
        Option(
            "COLUMN",
            "Column of both files that tells which records are of the same person: how many links "
            "with the external file are right. The engine does not see it.",
            "the truth is not known",
        ),
    ] = None
    key_errors: KeyErrors = Field(default={})
    """Errors of the keys in the external file, by which pairs are weighed."""
    population_size: PopulationSize = None
    risk: RiskSpec | None = None
    attacks: Annotated[
        Whole,
        Option(
            "N",
            "Records that are attacked one by one, where that takes a search.",
            first=True,
            form="run",
            label="Records to attack",
        ),
    ] = Field(default=10_000, ge=1, le=1_000_000_000)
    model: Annotated[
        ModelSpec | None,
        Option(
            "MODEL",
            "Mixture model of the generator, with its options "
            f"({either(models_with(draws_records=True))}, or {HOUSEHOLDS} for whole households): "
            "also an intruder who knows it, and all records but one. With "
            "--population-size the model of τ1.",
            f"no such intruder; {SIMPLEST} for τ1",
            first=True,
            accepts="Any",
            read=read_model,
            form="run",
            label="Model that the intruder knows",
        ),
    ] = None
    margins: Annotated[
        tuple[MarginSpec, ...],
        BeforeValidator(several_files),
        Option(
            "FILE,FILE",
            "Exact counts of the population over some of the keys, such as a census table by age "
            "and sex: the prior `population` of an intruder who knows them beside the model. In "
            "Python also frames.",
            accepts="Any",
            form="keys",
        ),
    ] = ()
    sampling: SamplingSpec = SamplingSpec()
    report: PageSpec = PageSpec()

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.external is not None:
            self._check_external()
        elif not self.synthetic:
            raise ValueError(
                "no synthetic file is named; name the files, or the folder that holds them "
                "(--synthetic made.csv; in Python: synthetic='made.csv'), or a file to link with "
                "(--external)"
            )
        elif self.id is not None or self.key_errors:
            raise ValueError(
                "--id and --key-errors are about links with an external file; add --external, or "
                "leave them out"
            )
        if self.data.missing == "wildcard":
            raise ValueError(
                "a missing value is a value of its own in attacks, no wildcard; leave --missing out"
            )
        if self.of_households:
            if not self.household:
                raise ValueError(NO_HOUSEHOLD)
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
        if self.margins and (self.model is None or self.of_households):
            raise ValueError(
                "--margins is what an intruder knows of the population who also knows the "
                "generator's model and all persons but one; name a model of persons (--model), or "
                "leave --margins out"
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

    def _check_external(self) -> None:
        about_synthetic = {
            "--synthetic": bool(self.synthetic),
            "--control": self.control is not None,
            "--population": self.population is not None,
            "--population-size": self.population_size is not None,
            "--risk": self.risk is not None,
            "--model": self.model is not None,
            "--targets": bool(self.targets),
            "--link": bool(self.link),
        }
        if given := [name for name, there in about_synthetic.items() if there]:
            raise ValueError(
                f"{', '.join(given)} and --external cannot both be given: an external file is "
                "linked with the file itself; leave one of them out"
            )
        if self.id in {column_of(name) for name in self.keys}:
            raise ValueError(
                f"--id {shown(self.id)} is one of the keys, and would tell the engine who is who; "
                "take it out of one of the two"
            )
        if len(self.keys) < 2:
            raise ValueError("linking takes two keys or more; name them with --keys")

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
