"""The kinds of runs that the workbench knows, in one table: their files, and who has a form.

A kind stands here by names alone, so that a page that lists runs imports nothing that computes.
`tests/web/test_kinds.py` holds the table against the jobs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.files.folder import MARK, claimed
from unikat.files.locks import held

if TYPE_CHECKING:
    from unikat.spec.base import Spec

REQUEST = "workbench.toml"
"""File of the specification in the folder of a run, until the run writes its own."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run."""

    name: str
    """Of its command, and in addresses: `assess`."""
    noun: str
    """What pages call it, and the end of the name of its folder: `assessment`."""
    schema: str
    """Of its specification, without the version."""
    job: str
    """Name of the module in `unikat.jobs`."""
    asks: str
    """Name of the class of its specification, with its module in `unikat.spec`."""
    takes: str
    """Name of the definition of its options, likewise."""
    numbers: str
    """The file with every number of the report."""
    complete: str
    """The file that is written last."""
    spec: str
    """The file of the specification."""
    report: str
    files: tuple[str, ...]
    """What can be had from the page of a run, in the order of the page."""
    data: str = ""
    """Pattern of the names of files of records, which have the format of the input."""
    work: tuple[str, ...] = ()
    """What `resume` continues from; without any, a run begins again."""
    form: bool = False
    """Whether the workbench starts such runs."""
    adds: tuple[tuple[str, str, str], ...] = ()
    """Options that may differ when a run is continued: name, label, help."""

    @property
    def specification(self) -> type[Spec]:
        """The class of its specification."""
        found: type[Spec] = _named(self.asks)
        return found

    @property
    def options(self) -> Any:
        """The definition of its options."""
        return _named(self.takes)

    def records(self, place: Path) -> list[str]:
        """List the files of records that a run has written."""
        if not self.data:
            return []
        found = [one.name for one in place.iterdir() if re.fullmatch(self.data, one.name)]
        return sorted(found, key=lambda name: (len(name), name))

    def downloads(self, place: Path) -> list[str]:
        """List the files of a run that can be had, those of records first after the report."""
        found = [name for name in self.files if (place / name).is_file()]
        return [*found[:1], *self.records(place), *found[1:]]

    def repeat(self, id: str) -> str:
        """Return the command line that repeats a run."""
        return self.specification.again(f"{id}/{self.spec}" if id else self.spec)


MAX_SWEEPS = (
    "max_sweeps",
    "Most sweeps of a chain",
    "Leave it empty to keep the limit of the run.",
)
_MODELS = ("models", "Models", "All that are wanted, with commas between; empty: those of the run.")

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="assess",
            noun="assessment",
            schema="unikat.assessment",
            job="assess",
            asks="assessment.AssessmentSpec",
            takes="options.AssessOptions",
            numbers="result.json",
            complete="manifest.json",
            spec="assessment.toml",
            report="report.html",
            files=(
                "report.html",
                "result.json",
                "records-at-risk.csv",
                "records.parquet",
                "households.parquet",
                "registry.parquet",
                "draws.nc",
                "states.checkpoint",
                "assessment.toml",
                "manifest.json",
            ),
            work=("sampling.checkpoint", "evidence"),
            form=True,
            adds=(MAX_SWEEPS,),
        ),
        Kind(
            name="compare",
            noun="comparison",
            schema="unikat.comparison-spec",
            job="compare",
            asks="comparison.ComparisonSpec",
            takes="options.CompareOptions",
            numbers="summary.json",
            complete="summary.json",
            spec="comparison.toml",
            report="comparison.html",
            files=("comparison.html", "comparison.parquet", "summary.json", "comparison.toml"),
            work=("fits",),
            form=True,
            adds=(_MODELS, MAX_SWEEPS),
        ),
        Kind(
            name="evaluate",
            noun="evaluation",
            schema="unikat.evaluation-spec",
            job="evaluate",
            asks="evaluation.EvaluationSpec",
            takes="options.EvaluateOptions",
            numbers="summary.json",
            complete="summary.json",
            spec="evaluation.toml",
            report="evaluation.html",
            files=("evaluation.html", "evaluation.parquet", "summary.json", "evaluation.toml"),
            work=("tasks",),
            form=True,
            adds=(
                (
                    "repeats",
                    "Samples of each size",
                    "More are added; empty: as many.",
                ),
                _MODELS,
            ),
        ),
        Kind(
            name="protect",
            noun="protection",
            schema="unikat.protection",
            job="protect",
            asks="protection.ProtectionSpec",
            takes="protection_options.ProtectOptions",
            numbers="protect.json",
            complete="protect.json",
            spec="protect.toml",
            report="report.html",
            files=("report.html", "plan.toml", "plans.parquet", "protect.json", "protect.toml"),
            data=r"protected\.[a-zA-Z0-9.]+",
            form=True,
        ),
        Kind(
            name="synthesize",
            noun="synthesis",
            schema="unikat.synthesis-spec",
            job="synthesize",
            asks="synthesis.SynthesisSpec",
            takes="synthesis_options.SynthesizeOptions",
            numbers="utility.json",
            complete="utility.json",
            spec="synthesis.toml",
            report="synthesis.html",
            files=("synthesis.html", "utility.json", "synthesis.toml"),
            data=r"synthetic_[0-9]+\.[a-zA-Z0-9.]+",
            work=("sampling.checkpoint",),
            adds=(MAX_SWEEPS,),
        ),
        Kind(
            name="attack",
            noun="attack",
            schema="unikat.attack-spec",
            job="attack",
            asks="attack.AttackSpec",
            takes="attack_options.AttackOptions",
            numbers="attack.json",
            complete="attack.json",
            spec="attack.toml",
            report="attack.html",
            files=("attack.html", "attack.json", "attack.toml"),
        ),
        Kind(
            name="verify",
            noun="verification",
            schema="unikat.verification",
            job="verify",
            asks="verification.VerifySpec",
            takes="verification_options.VerifyOptions",
            numbers="verify.json",
            complete="verify.json",
            spec="verify.toml",
            report="report.html",
            files=("report.html", "verify.json", "verify.toml"),
        ),
    )
}
"""By name, in the order in which the workbench offers them."""
ASSESS = KINDS["assess"]


def kind_of(spec: Spec) -> Kind:
    """Return the kind of run that a specification asks for."""
    schema = str(type(spec).model_fields["format_version"].default).partition("/")[0]
    return next(kind for kind in KINDS.values() if kind.schema == schema)


def kind_at(place: Path) -> Kind | None:
    """Return the kind of the run in a folder; None if there is none.

    What the workbench asked for tells it; else results; else what a run that goes on, or has kept
    its work, has set out to write.
    """
    from unikat.errors import UnikatError
    from unikat.files.toml import read_toml

    if (place / REQUEST).is_file():
        try:
            schema = str(read_toml(place / REQUEST).get("schema", "")).partition("/")[0]
        except UnikatError:
            schema = ""
        return next((kind for kind in KINDS.values() if kind.schema == schema), ASSESS)
    for kind in KINDS.values():
        if (place / kind.numbers).is_file() and (place / kind.spec).is_file():
            return kind
    names = claimed(place)
    for kind in KINDS.values():
        # A folder whose results were deleted is none of a run.
        if kind.spec in names and (
            held(place / MARK) or any((place / name).exists() for name in kind.work)
        ):
            return kind
    return ASSESS if (place / ASSESS.numbers).is_file() else None


def check_models(spec: Spec) -> None:
    """Refuse models that do not exist, before the turn of the run has come.

    Raises
    ------
    SpecError
        With what to do.
    """
    from unikat.models.named import compared_models, models_by_label
    from unikat.spec.comparison import ComparisonSpec
    from unikat.spec.evaluation import EvaluationSpec

    if isinstance(spec, ComparisonSpec):
        compared_models(spec)
    elif isinstance(spec, EvaluationSpec):
        models_by_label(spec.models)


def run(spec: Spec, folder: Path, **how: Any) -> Any:
    """Make the run that a specification asks for; see `run` of its job."""
    from unikat.spec.from_options import Inputs

    return import_module(f"unikat.jobs.{kind_of(spec).job}").run(spec, Inputs(), folder, **how)


def _named(name: str) -> Any:
    module, _, of = name.rpartition(".")
    return getattr(import_module(f"unikat.spec.{module}"), of)
