"""What `evaluation.toml` holds: everything an evaluation is asked to do."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from unikat.errors import SpecError, brief, suggest
from unikat.language.keys import split_keys
from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec, name_households, units_are_households
from unikat.spec.model import ModelSpec, read_models
from unikat.spec.models import EXAMPLES, HOUSEHOLDS, USUAL, models_with
from unikat.spec.option import Option
from unikat.spec.tables import PageSpec, SamplingSpec
from unikat.spec.values import Keys, Names, Whole

CART, INDEPENDENCE, SECOND_SAMPLE = COMPARATORS = ("cart", "independence", "second-sample")
"""Generators of synthetic files that are no model."""
DRAWN = models_with(of_households=None, draws_records=True)
"""Models from which records can be drawn."""

_Size = Annotated[int | str, Field(union_mode="left_to_right")]

_THOUSANDS = re.compile(
    r"(?<![0-9._])([0-9]{1,2}(,[0-9]{3})+|[0-9]{3}(,[0-9]{3})*,0[0-9]{2}(,[0-9]{3})*)(?![0-9.%_])"
)
"""Sizes that look like one number: three digits follow one or two, or three that begin with 0."""


class EvaluationSpec(Spec):
    """Everything an evaluation is asked to do.

    Examples
    --------
    >>> spec = EvaluationSpec.parse({"keys": "AGE,SEX", "n": [500, "1%"], "models": ["hdp"]})
    >>> spec.sample_sizes(100_000)
    (500, 1000)
    """

    command: ClassVar[str] = "evaluate evaluation.toml"
    # Its own option of this name is another one; the file tells the households of the population.
    without: ClassVar[tuple[str, ...]] = ("data.levels", "households.population")
    format_version: Literal["unikat.evaluation-spec/1"] = Field(
        default="unikat.evaluation-spec/1", alias="schema"
    )
    keys: Keys = ()
    n: Annotated[
        tuple[_Size, ...],
        Option(
            "N,N,...",
            "Sizes of the samples, in units or as shares of the population, with commas between "
            "sizes, not in them: 1000,5%.",
            "required",
            first=True,
            accepts="int | str | Sequence[int | str]",
            form="run",
        ),
    ] = ()
    """In one text, a size that could stand between thousands ("1,500") is refused."""
    repeats: Annotated[Whole, Option("N", "Samples of each size.", form="run")] = Field(
        default=20, ge=1, le=1_000_000
    )
    models: Annotated[
        Names,
        Option(
            "A,B,...",
            f"Models, with options after colons: {EXAMPLES}.",
            USUAL,
            first=True,
            accepts="str | Sequence[Any]",
            read=read_models,
            form="run",
        ),
    ] = (USUAL,)
    design: Annotated[
        Literal["simple", "bernoulli", "stratified", "pps", "households"],
        Option(
            "HOW",
            "simple (without replacement), bernoulli, stratified, pps (with probabilities in "
            "proportion to a size), or households (whole households).",
            first=True,
            form="run",
        ),
    ] = "simple"
    strata: Annotated[str | None, Option("COLUMN", "Column of the strata.", form="keys")] = None
    allocation: Annotated[
        Literal["proportional", "equal", "power"],
        Option(
            "HOW",
            "How strata share a sample: proportional, equal, or power (of their sizes).",
            form="run",
        ),
    ] = "proportional"
    power: Annotated[
        float | None,
        Option(
            "Q",
            "Power of the strata's sizes, from 0 to 1, for --allocation power.",
            "0.5",
            form="run",
        ),
    ] = Field(default=None, ge=0, le=1)
    size: Annotated[
        str | None, Option("COLUMN", "Column of the units' sizes, for --design pps.", form="run")
    ] = None
    household: Annotated[
        Names,
        Option(
            "A,B",
            "Columns that together identify the household, for --design households and models of "
            "households.",
            first=True,
            form="keys",
        ),
    ] = ()
    households: HouseholdsSpec | None = None
    """What a household is, for models of households; None if the units are persons."""
    margins: Annotated[
        Names,
        Option(
            "A,B+C",
            "Keys whose counts in the population are known to the models, as from a census table: "
            "joined by a plus, or several tables with commas between. Of households: size and "
            "keys of the household.",
            form="run",
        ),
    ] = ()
    levels: Annotated[
        Literal["population", "sample"],
        Option(
            "WHOSE",
            "Levels of the keys that models know: all of the population, as from a codebook, or "
            "those of the sample.",
            form="run",
        ),
    ] = "population"
    blank: Annotated[
        float,
        Option(
            "SHARE",
            "Share of the keys' values that are set missing in the samples, at random: 0.02.",
            form="run",
        ),
    ] = Field(default=0.0, ge=0, lt=1)
    """The truth stays that of the complete records."""
    estimates: Annotated[
        Path | None,
        Option(
            "FILE",
            "What other programs estimate of the samples of --leaderboard (CSV or Parquet).",
            accepts="str | PathLike[str] | None",
            form="run",
        ),
    ] = None
    leaderboard: Annotated[
        bool,
        Option(
            "",
            "Compute formulas of others of the same samples too, and say which rows each has.",
            form="run",
        ),
    ] = False
    synthesizers: Annotated[
        Names,
        Option(
            "A,B,...",
            f"Generators of synthetic files, side by side: {', '.join(COMPARATORS)}, or models as "
            f"of synthesize, {HOUSEHOLDS} too, with options after colons. {SECOND_SAMPLE} is the "
            "yardstick and always there. Without --models no model is fitted for its risk.",
            accepts="str | Sequence[Any]",
            read=read_models,
            form="run",
        ),
    ] = ()
    synthetic: Annotated[
        Path | None,
        Option(
            "PATH",
            "Synthetic records that other generators made of the samples: a file, or a folder of "
            "Parquet files, with the keys and the columns synthesizer, n and repeat.",
            accepts="str | PathLike[str] | None",
            form="run",
        ),
    ] = None
    sampling: SamplingSpec = SamplingSpec()
    """`seed` is that of the study, from which those of the samples and their chains come."""
    report: PageSpec = PageSpec()

    @field_validator("n", mode="before")
    @classmethod
    def _sizes(cls, sizes: object) -> object:
        if isinstance(sizes, str):
            _check_commas(sizes)
            return split_keys(sizes)
        return (sizes,) if isinstance(sizes, int) else sizes

    @model_validator(mode="before")
    @classmethod
    def _no_model_unless_named(cls, values: object) -> object:
        if isinstance(values, dict) and (values.get("synthesizers") or values.get("synthetic")):
            return {"models": (), **values}
        return values

    @model_validator(mode="after")
    def _generators_make_records(self) -> Self:
        if not self.makes_files:
            return self
        known = (*COMPARATORS, *DRAWN)
        for one in self.synthesizers:
            name = ModelSpec.of(one).name
            if name not in known:
                raise ValueError(
                    f"there is no synthesizer {brief(name)!r}{suggest(name, known)}; take "
                    f"{', '.join(known)}"
                )
        if self.design not in ("simple", "bernoulli"):
            raise ValueError(
                "synthetic files are of units drawn with equal chances: leave out --synthesizers "
                "and --synthetic, or the design"
            )
        if self.synthetic is not None and self._units_are_households():
            raise ValueError(
                "synthetic files of other generators are of records, not of households: leave out "
                "--synthetic, or what names households"
            )
        if self.levels == "sample":
            raise ValueError(
                "synthetic files are compared with the population, so they need its levels: leave "
                "out --levels sample, or --synthesizers"
            )
        return self

    @model_validator(mode="after")
    def _columns_fit_the_design(self) -> Self:
        if self.design == "stratified" and self.strata is None:
            raise ValueError("the stratified design needs the column of the strata (--strata)")
        if self.design != "stratified" and self.strata is not None:
            raise ValueError(
                f"strata are given, but the design is {self.design}; take --design stratified, or "
                "leave the strata out"
            )
        if self.design != "stratified" and self.allocation != "proportional":
            raise ValueError(
                f"the allocation is {self.allocation}, but the design is {self.design}; add "
                "--design stratified, or leave the allocation out"
            )
        if self.power is not None and self.allocation != "power":
            raise ValueError(
                f"power is given, but the allocation is {self.allocation}; add --allocation power, "
                "or leave the power out"
            )
        if self.design == "pps" and self.size is None:
            raise ValueError("the design pps needs the column of the units' sizes (--size)")
        if self.design != "pps" and self.size is not None:
            raise ValueError(
                f"a column of sizes is given, but the design is {self.design}; add --design pps, "
                "or leave the sizes out"
            )
        if self._units_are_households():
            if self.households is not None and self.households.population is not None:
                raise ValueError(
                    "the file is the population, so that it tells the number of its households; "
                    "leave households.population out"
                )
        elif self.design == "households" and not self.household:
            raise ValueError("the design households needs the household's column (--household)")
        elif self.design != "households" and self.household:
            raise ValueError(
                f"a column of households is given, but the design is {self.design}; add --design "
                "households, or leave the column out"
            )
        if self.estimates is not None and (self.zeros is not None or self._units_are_households()):
            raise ValueError(
                "estimates of other programs are of records, and rows are those of the file: leave "
                "out estimates, or the rules and the models of households"
            )
        if self.levels == "sample" and self.zeros is not None:
            raise ValueError(
                "rules of what is impossible are about all levels, so the samples' keys need the "
                "levels of the population: leave out --levels sample, or the rules"
            )
        if self.levels == "sample" and self.margins:
            raise ValueError(
                "counts that are known are about all levels, so the samples' keys need the levels "
                "of the population: leave out --levels sample, or --margins"
            )
        if self.blank and (self._units_are_households() or self.makes_files):
            raise ValueError(
                "values are set missing in samples of records whose risk is estimated: leave out "
                "--blank, or the models of households and the synthetic files"
            )
        if self.blank and self.data.missing == "wildcard":
            raise ValueError(
                "values that are set missing are unknown to the models, which integrate over them: "
                "leave out --blank, or --missing wildcard"
            )
        if self.margins and self.design not in ("simple", "bernoulli", "households"):
            raise ValueError(
                f"margins are for records drawn with equal chances, and the design is {self.design}"
                "; leave one of them out"
            )
        return self

    def _units_are_households(self) -> bool:
        about_persons = {"--missing wildcard": self.data.missing == "wildcard"}
        # Generators of persons can make households, too: a synthesizer of households decides.
        named = [one for one in self.synthesizers if name_households([one])]
        return units_are_households(
            [*self.models, *named], self.household, self.households, about_persons
        )

    @property
    def makes_files(self) -> bool:
        """Whether generators of synthetic files are compared."""
        return bool(self.synthesizers) or self.synthetic is not None

    @property
    def of_households(self) -> bool:
        """Whether the units are households."""
        return name_households([*self.models, *self.synthesizers])

    def sample_sizes(self, population_size: int) -> tuple[int, ...]:
        """Sizes of the samples in units."""
        return tuple(_size(size, population_size) for size in self.n)


def _check_commas(text: str) -> None:
    """Refuse a list of sizes that may be one size written with commas between thousands."""
    found = _THOUSANDS.search(text)
    if found:
        number = found[0].replace(",", "")
        raise SpecError(
            f"In the sample sizes {text!r} a comma separates sizes, but {found[0]} looks like one "
            f"number. Write {number} if it is one; if it is several, put a space after the comma: "
            f'--n "{", ".join(found[0].split(","))}".'
        )


def _size(size: int | str, population_size: int) -> int:
    if isinstance(size, int):
        return size
    text = size.strip()
    if re.fullmatch(r"[0-9]{1,3}(_[0-9]{3})+|[0-9]+", text):
        return int(text.replace("_", ""))
    share: Any = re.fullmatch(r"([0-9]+(\.[0-9]+)?)\s*%", text)
    if not share:
        raise SpecError(
            f"The sample size {text!r} is neither a whole number of units nor a percentage of the "
            "population; write sizes as --n 1000,5%."
        )
    # Exact, so that 2.5% of a population is the same on every machine.
    n = round(Fraction(share[1]) * population_size / 100)
    if not 1 <= n <= population_size:
        raise SpecError(
            f"The sample size {text} is {n:,} of the {population_size:,} units of the population; "
            f"it must be at least 1 unit and at most 100%."
        )
    return n
