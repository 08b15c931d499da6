"""What `protect.toml` and `plan.toml` hold: what a file has to reach, and what is done to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from unikat.errors import shown
from unikat.language.keys import column_of, split_keys
from unikat.spec.assessment import AssessmentSpec, check_of_persons
from unikat.spec.columns import ColumnRoles, check_roles
from unikat.spec.level_kinds import Apart
from unikat.spec.limits import Limit
from unikat.spec.models import AUTO, HOUSEHOLDS
from unikat.spec.numeric import NumericByColumn, methods_of
from unikat.spec.option import Option
from unikat.spec.paths import NamesFiles
from unikat.spec.perturbation import (
    Pram,
    PramByKey,
    SwapRule,
    SwapText,
    check_probabilities,
    perturbations_of,
)
from unikat.spec.recodings import (
    LEFT_OUT,
    one_of_each,
    read_recoding,
    read_recodings,
    recodings_of,
    shares_of,
    tables_of,
    weights_of,
)
from unikat.spec.scenarios import MOST_TARGETS, ScenarioSpec, of_persons, scenarios_given
from unikat.spec.small_files import read_matrix
from unikat.spec.tables import PageSpec
from unikat.spec.values import Names

BY_SEARCH = "search"
"""Suppression that a search chooses."""
MOST_SUPPRESSED = 20
"""Keys of a file in which values can be suppressed: all sets of them are looked at."""


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
    without: ClassVar[tuple[str, ...]] = (
        "classics",
        "registry",
        "release",
        "relatives",
        "report.show_small_cells",
        "report.threshold",
        "report.by",
        "report.keep_states",
    )
    target: Annotated[
        str,
        Option(
            "TEXT",
            "What the protected file has to reach: 'tau1 <= 5' or 'tau2 <= 20' (upper end of the "
            "interval), 'tau1_estimate <= 5', 'r1 <= 0.2', 'records(r1 > 0.2) <= 10', 'k >= 3' or "
            "'population_k >= 5'. Exit code 3 if it is not met, or not known.",
            "required",
            first=True,
            form="run",
        ),
    ] = ""
    scenarios: Annotated[
        tuple[ScenarioSpec, ...],
        Option(
            "FILE",
            "Several intruders, the targets of all of whom have to be reached: a TOML file with "
            "[[scenario]] tables of name, keys, target, in_sample and errors, or a policy.toml, by "
            "which the protected file is then checked. In Python also a list of mappings.",
            "one intruder, who knows all keys",
            accepts="str | PathLike[str] | Sequence[Mapping[str, Any]]",
            read=scenarios_given,
            form="run",
        ),
    ] = Field(default=(), alias="scenario")
    policy: Path | None = None
    """The policy that the scenarios are of, by which the protected file is checked."""
    keep: Annotated[Names, Option("A,B", "Keys that stay as they are.", form="key")] = ()
    weights_of_keys: Annotated[
        dict[str, float],
        BeforeValidator(weights_of),
        Option(
            "A=2,B=0.5",
            "How much the information of each key counts.",
            "1 for each key",
            accepts="str | Mapping[str, float]",
            form="key",
        ),
    ] = Field(default={})
    columns: Annotated[
        ColumnRoles,
        Option(
            "TEXT",
            "Roles of other columns: 'pid: identifier; x: other'. Identifiers are removed.",
            "proposed",
            first=True,
            accepts="str | Mapping[str, str]",
            form="columns",
        ),
    ] = Field(default={})
    apart: Apart = Field(default={})
    recodings: Annotated[
        dict[str, tuple[Any, ...]],
        BeforeValidator(recodings_of),
        NamesFiles,
        Option(
            "TEXT",
            "Recodings of some keys to choose from: 'age: width(5), width(10); region: left out'. "
            "'age: file(age.csv)' takes them from a hierarchy: a level and ever coarser groups in "
            "each row. In Python a mapping of keys to lists, in which a mapping of levels to "
            "groups is a recoding, too.",
            "made by the program",
            accepts="str | Mapping[str, Sequence[Any]]",
            read=read_recodings,
            form="key",
        ),
    ] = Field(default={})
    recode: Annotated[
        dict[str, Any],
        BeforeValidator(one_of_each),
        NamesFiles,
        Option(
            "TEXT",
            "Do this instead of searching: 'age: width(10); region: left out'. Other keys stay. "
            "'region: file(region.csv)' takes the groups of a hierarchy.",
            "searched",
            first=True,
            accepts="str | Mapping[str, Any]",
            read=read_recoding,
            form="key",
        ),
    ] = Field(default={})
    tables: Annotated[
        tuple[tuple[str, ...], ...],
        BeforeValidator(tables_of),
        Option(
            "TEXT",
            "Tables of your own, by columns: 'age,sex; region,income'. The report says how far "
            "each of them moves.",
            "those of every two keys",
            accepts="str | Sequence[Sequence[str]]",
            form="run",
        ),
    ] = ()
    suppress: Annotated[
        str | None,
        Option(
            "TEXT",
            "Set the fewest values missing so that all records reach 'r1 <= 0.2' or 'k >= 3'; or "
            "'search'.",
            first=True,
            form="run",
        ),
    ] = None
    weight_of_suppressed: Annotated[
        float,
        Option(
            "W",
            "How much the information of a suppressed value counts in what is lost, as a "
            "multiple: a missing value costs the users of a file more than it told.",
            "3",
            form="run",
        ),
    ] = Field(default=3.0, ge=1.0, le=1000.0)
    pram: Annotated[
        PramByKey,
        Option(
            "TEXT",
            "After recoding replace some values by random ones: 'region: 0.8; education: "
            "matrix.csv'. A number is the probability of keeping a value, and the expected shares "
            "of the levels stay. With a target also several to choose from: 'region: 0.8, 0.9, 1'. "
            "A file has levels in the first row and column. In Python a mapping of keys to "
            "numbers, lists, nested mappings or pandas frames.",
            "no value is replaced",
            accepts="str | Mapping[str, Any]",
            form="key",
        ),
    ] = Field(default={})
    swap: Annotated[
        SwapText | None,
        Option(
            "TEXT",
            "After recoding let records at risk exchange these keys with records that are like "
            "them: 'region', 'region, district', or 'region: r1 > 0.2' for those above a risk "
            "only. With --household whole households exchange them.",
            "nothing is swapped",
            accepts="str | Sequence[str] | None",
            form="run",
        ),
    ] = None
    swap_match: Annotated[
        Names,
        Option(
            "A,B",
            "Keys in which records that swap agree.",
            "all keys that are not swapped",
            rare=True,
            form="run",
        ),
    ] = ()
    subsample: Annotated[
        tuple[float, ...],
        BeforeValidator(shares_of),
        Option(
            "Q",
            "Release a share of the records, drawn at random: 0.5 or 50%; of households with "
            "--household. With a target also several shares to choose from: '0.25,0.5,1'.",
            "all records are released",
            accepts="float | str | Sequence[float]",
            form="run",
        ),
    ] = ()
    weight_of_records: Annotated[
        float,
        Option(
            "W",
            "How much the number of records counts: a share q of them has q to the power of W of "
            "their information. 0.5 is by standard errors.",
            "1",
            form="run",
        ),
    ] = Field(default=1.0, ge=0.0, le=10.0)
    numeric: Annotated[
        NumericByColumn,
        Option(
            "TEXT",
            "Change continuous variables, which are no keys: 'income: microaggregate(5); wage: "
            "top(99%), round(100)'. Methods are top, bottom, round, microaggregate, noise and "
            "swap; 'income+wealth: microaggregate(3)' changes columns together.",
            "copied as they are",
            accepts="str | Mapping[Any, str | Sequence[str]]",
            form="columns",
        ),
    ] = Field(default={})
    perturbation_seed: Annotated[
        Annotated[int, Field(ge=0, lt=2**63)] | None,
        Option(
            "N",
            "Seed of --pram, --swap, --subsample, and methods of --numeric that draw. Keep it to "
            "yourself: who knows it can undo them.",
            "drawn, and written to protect.toml",
            form="run",
        ),
    ] = None
    assessed: Annotated[
        Path | None,
        Option(
            "DIR",
            "Folder of an assessment of the same file that kept its states (--keep-states): its "
            "fit tells the risk before and after, and the file is not fitted again.",
            accepts="str | PathLike[str] | None",
            form="run",
            label="Assessment whose fit is taken",
            run="assess",
        ),
    ] = None

    @classmethod
    def _checked(cls, values: Mapping[str, Any], where: str, spoken: Mapping[str, str]) -> Self:
        if str(values.get("schema", "")).partition("/")[0] == "unikat.assessment":
            # What an assessment shows besides is no part of a protection of the same file.
            others = ("schema", "report", "registry", "classics")
            asked = values.get("report", {}).items()
            page = {name: value for name, value in asked if name in PageSpec.model_fields}
            values = {k: v for k, v in values.items() if k not in others} | {"report": page}
        return super()._checked(values, where, spoken)

    @property
    def seeks(self) -> bool:
        """Whether a recoding is looked for: something has to be reached, and none is told."""
        return bool(self.target or self.scenarios) and not self.recode

    @property
    def is_random(self) -> bool:
        """Whether values are changed, or records drawn, at random."""
        methods = (one for several in methods_of(self.numeric).values() for one in several)
        drawn = any(share < 1.0 for share in self.subsample)
        return self.perturbs or drawn or any(one.is_random for one in methods)

    @property
    def changes_keys(self) -> bool:
        """Whether more than continuous variables is to be changed."""
        return bool(self.seeks or self.recode or self.perturbs or self.suppress or self.subsample)

    @property
    def perturbs(self) -> bool:
        """Whether values of keys are changed at random."""
        return bool(self.perturbed)

    @property
    def perturbations(self) -> tuple[Pram, ...]:
        """What may be perturbed by PRAM, those that change least first; see `perturbations_of`."""
        return perturbations_of(self.pram)

    @property
    def seeks_release(self) -> bool:
        """Whether a search chooses what is perturbed or suppressed, beside the recoding."""
        return self.suppress == BY_SEARCH or len(self.perturbations) > 1

    @property
    def perturbed(self) -> tuple[str, ...]:
        """Keys of which values are changed at random."""
        return (*self.pram, *(() if self.swap is None else SwapRule.of(self.swap).keys))

    @field_validator("swap")
    @classmethod
    def _of_keys(cls, text: str | None) -> str | None:
        return None if text is None else str(SwapRule.of(text))

    @field_validator("pram")
    @classmethod
    def _probabilities(cls, pram: Pram) -> Pram:
        return check_probabilities(pram)

    @field_validator("suppress")
    @classmethod
    def _of_a_record(cls, text: str | None) -> str | None:
        if text is None or text.strip() == BY_SEARCH:
            return text and text.strip()
        target = Limit.of(text)
        if target.plain not in ("r1", "k"):
            raise ValueError(
                f"--suppress is about single records; write 'r1 <= 0.2' or 'k >= 3', not {target}"
            )
        if target.plain == "k" and target.bound < 2.0:
            raise ValueError(f"{target} suppresses nothing; write 'k >= 2' or more")
        return str(target)

    @field_validator("target", mode="before")
    @classmethod
    def _written(cls, limit: Any) -> Any:
        # So that the message says how a limit is written.
        return str(limit) if isinstance(limit, (int, float)) else limit

    @field_validator("target")
    @classmethod
    def _of_known_form(cls, text: str) -> str:
        return str(Limit.of(text).not_of_policy()) if text.strip() else ""

    @field_validator("scenarios")
    @classmethod
    def _of_different_names(cls, scenarios: tuple[ScenarioSpec, ...]) -> tuple[ScenarioSpec, ...]:
        if len({one.name for one in scenarios}) < len(scenarios):
            raise ValueError("two scenarios have the same name; give each its own")
        if (n := sum(len(one.target) for one in scenarios)) > MOST_TARGETS:
            raise ValueError(
                f"scenarios have {n:,} targets, each of which is judged for every plan, and at "
                f"most {MOST_TARGETS} can be had; leave some out"
            )
        return scenarios

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

    @field_validator("recode")
    @classmethod
    def _of_known_rules(cls, recode: dict[str, Any]) -> dict[str, Any]:
        return {name: LEFT_OUT if rule is None else rule for name, rule in recode.items()}

    @model_validator(mode="after")
    def _of_persons(self) -> Self:
        self._check_told()
        self._check_subsample()
        shared = () if self.households is None else self.households.keys
        # A name may hold a plus; an entry joins columns by it.
        columns = {name for one in self.numeric for name in (one, *split_keys(one, "+"))}
        keys = [column_of(key) for key in (*self.keys, *shared)]
        check_roles(self.columns, keys, self.design, columns)
        if not (self.seeks or self.perturbs or self.recode or self.subsample or self.numeric):
            raise ValueError(
                "no target is named; name one as in --target 'tau1 <= 5', or --scenarios"
                + ("; to suppress values alone, take --target 'k >= 1'" if self.suppress else "")
            )
        self._check_perturbation()
        if self.model.name == HOUSEHOLDS:
            self._check_of_households()
        else:
            check_of_persons(self)
            for text in (self.target, self.suppress):
                if text and text != BY_SEARCH:
                    of_persons(Limit.of(text))
        if self.suppress is not None and self.data.missing != "integrate":
            # A wildcard would match all others: one blank record made the risk of a file 0.
            raise ValueError(
                "a suppressed value says nothing, and --missing "
                + (
                    "level takes it for a level"
                    if self.data.missing == "level"
                    else "wildcard takes it for a match of other records, whose risk it hides"
                )
                + "; leave --missing out, or --suppress"
            )
        if self.seeks_release:
            self._check_by_search()
        if self.suppress is not None and len(self.keys) > MOST_SUPPRESSED:
            raise ValueError(
                f"--suppress looks at all sets of keys, of at most {MOST_SUPPRESSED}, and there "
                f"are {len(self.keys)}; name fewer keys, or leave --suppress out"
            )
        return self

    def _completed(self) -> Self:
        # The matrices themselves stand in the specification, so that it repeats the run.
        pram = {
            name: read_matrix(one) if isinstance(one, Path) else one
            for name, one in self.pram.items()
        }
        return self.model_copy(update={"pram": pram})

    def _check_told(self) -> None:
        if not self.recode:
            return
        if self.recodings:
            raise ValueError(
                "--recode says what is done, and --recodings among what to choose; leave one of "
                "them out"
            )
        if both := [name for name in self.keep if name in self.recode]:
            raise ValueError(
                f"{shown(both[0])} is named by --keep, so it stays as it is, and by --recode; "
                "leave it out of one of them"
            )
        if self.keep and not self.suppress:
            raise ValueError(
                "--keep is about keys that a search may recode, and --recode says what is done; "
                "leave it out"
            )
        for name in (*self.perturbed, *self.swap_match):
            if self.recode.get(name) == LEFT_OUT:
                raise ValueError(
                    f"{shown(name)} is left out by --recode, and --pram or --swap needs it; leave "
                    "it out of one of them"
                )
            if isinstance(self.pram.get(name), dict) and name in self.recode:
                raise ValueError(
                    f"the matrix of {shown(name)} names the levels of the key as it is; leave the "
                    "key out of --recode"
                )

    def _check_of_households(self) -> None:
        refused = {
            "--suppress search": self.suppress == BY_SEARCH,
            "--pram": bool(self.pram),
            "--swap": self.swap is not None,
            "--subsample": bool(self.subsample),
            "--scenarios": bool(self.scenarios),
            "--margins": bool(self.margins),
            "--household-file": self.households is not None and self.households.path is not None,
        }
        for option, given in refused.items():
            if given:
                raise ValueError(
                    f"{option} cannot be combined with --model {HOUSEHOLDS}: households are "
                    "recoded, their keys suppressed by a rule such as 'households.r1 <= 0.1', and "
                    "nothing else is done to them; leave it out"
                )

    def _check_by_search(self) -> None:
        suppresses = self.suppress == BY_SEARCH
        asked = "--suppress search" if suppresses else "--pram with several probabilities"
        remedy = "write --suppress 'r1 <= 0.2'" if suppresses else "name one for each key"
        if not self.target or self.recode or self.scenarios:
            raise ValueError(
                f"{asked} looks for the plan that reaches one --target, without --recode and "
                f"--scenarios; {remedy} beside them"
            )
        if self.swap is not None:
            raise ValueError(
                f"{asked} looks for the plan that reaches the target, and --swap is done after "
                f"it; leave --swap out, or {remedy}"
            )
        if suppresses and not self.model.tells_what_is_left and self.target[0] != "k":
            raise ValueError(
                f"--suppress search relies on what is left of the risk of records with a low risk, "
                f"which {self.model.name} alone understates: in trials the true τ1 was 1.6 to 2 "
                f"times its estimate; take --model {AUTO}, or write --suppress 'r1 <= 0.2'"
            )
        if not Limit.of(self.target).plain.startswith("tau") and self.target[0] != "k":
            raise ValueError(
                f"{asked} is for targets of tau1, tau2 or k, not {self.target!r}; {remedy}"
            )

    def _check_subsample(self) -> None:
        for share in self.subsample:
            if not 0.0 < share <= 1.0:
                raise ValueError(
                    f"--subsample {share:g} is no share of the records, which is above 0 and at "
                    "most 1; write 0.5 or 50%"
                )
        if len(set(self.subsample)) < len(self.subsample):
            raise ValueError("--subsample names a share twice; name each once")
        if len(self.subsample) > 1 and not self.seeks:
            raise ValueError(
                "--subsample names several shares to choose from, and nothing has to be reached; "
                "name one, or add --target"
            )
        if self.subsample and self.margins:
            raise ValueError(
                "the released sample has margins of its own, so --subsample cannot be combined "
                "with --margins; leave one of them out"
            )
        if self.weight_of_records != 1.0 and not self.subsample:
            raise ValueError("--weight-of-records belongs to --subsample; leave it out")

    def _check_perturbation(self) -> None:
        rule = None if self.swap is None else SwapRule.of(self.swap)
        swapped = () if rule is None else rule.keys
        if not self.seeks and self.recodings:
            raise ValueError(
                "recodings are chosen to reach a target, and there is none; add --target, or leave "
                "--recodings out"
            )
        if both := [name for name in self.keep if name in self.perturbed]:
            raise ValueError(
                f"{shown(both[0])} is named by --keep, so it stays as it is, and by --pram or "
                "--swap; leave it out of one of them"
            )
        told = self.seeks or self.suppress or self.recode
        if not told and (self.keep or self.weights_of_keys):
            raise ValueError(
                "--keep and --weights-of-keys are about recoding and suppression, and there is "
                "neither; add --target, or leave them out"
            )
        if self.perturbation_seed is not None and not self.is_random:
            raise ValueError(
                "--perturbation-seed belongs to --pram, --swap, --subsample, and methods of "
                "--numeric that draw; leave it out"
            )
        if self.swap_match and rule is None:
            raise ValueError("swap_match belongs to --swap; add it, or leave swap_match out")
        if both := [name for name in swapped if name in self.pram]:
            raise ValueError(
                f"{shown(both[0])} is named by --pram and by --swap; change a key in one way"
            )
        if both := [name for name in swapped if name in self.swap_match]:
            raise ValueError(
                f"{shown(both[0])} is to be swapped, so records cannot agree in it; leave it out "
                "of swap_match"
            )
        if self.perturbs and self.margins:
            raise ValueError(
                "the risk after --pram and --swap is not known with --margins; leave one of them "
                "out"
            )
        by_risk = self.suppress is not None and self.suppress.startswith("r1")
        if self.perturbs and by_risk:
            raise ValueError(
                f"--suppress {self.suppress!r} takes the values of the file for true, and --pram "
                "and --swap change them; take --suppress 'k >= 3', or leave one of them out"
            )
