"""The kinds of runs, in one table: what is asked of each, its files, and what they are called.

Jobs, folders of results, the command line and the workbench take it from here. A kind stands here
by names alone, so that `unikat --help` and a page that lists runs import nothing that computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unikat.spec.base import Spec


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run."""

    name: str
    """Of its command, of its module in `unikat.jobs`, and in addresses: `assess`."""
    noun: str
    """What messages and pages call it: `assessment`."""
    asks: str
    """Name of the class of its specification, with its module in `unikat.spec`."""
    answers: str
    """Name of the class of its numbers, with its module in `unikat.report.facts`."""
    spec: str
    """The file of the specification."""
    numbers: str
    """The file with every number of the report."""
    report: str
    others: tuple[str, ...] = ()
    """Further files that can be had from the page of a run."""
    complete: str = ""
    """The file that is written last, if it is not that of the numbers."""
    records: str = ""
    """Pattern of the names of files of records, which have the format of the input."""
    work: tuple[str, ...] = ()
    """Files and folders of an unfinished run, with which `resume` continues."""
    extends: bool = False
    """The work stays when the run is complete, so that more can be added to it."""
    sized: bool = False
    """Whether it estimates risk, so that the size of the population has to be known."""
    groups_keys: bool = True
    """Whether keys may have rules of grouping; else files are taken as they are."""
    adds: tuple[tuple[str, str, str], ...] = ()
    """Options that may differ when the workbench continues a run: name, label, help."""
    decides: bool = False
    """Whether a committee decides on a release by it, for whom it has two pages."""
    ending: str
    """Of the name of the folder that the command line makes: `unikat` of `survey-unikat`."""
    source: str = "FILE"
    """What the command line calls the data."""

    @property
    def files(self) -> tuple[str, ...]:
        """Its files but those of records, in the order in which pages list them."""
        last = (self.complete,) if self.complete else ()
        return (self.report, *self.others, self.numbers, self.spec, *last)

    @property
    def names(self) -> tuple[str, ...]:
        """All that a run may write, but files of records."""
        return (*self.files, *self.work)

    @property
    def last(self) -> str:
        """The file that is written last."""
        return self.complete or self.numbers

    @property
    def specification(self) -> type[Spec]:
        """The class of its specification."""
        return specification_of(self.asks)

    @property
    def schema(self) -> str:
        """Of its specification, without the version."""
        return str(self.specification.model_fields["format_version"].default).partition("/")[0]

    def records_among(self, names: Iterable[str]) -> list[str]:
        """Select files of records, in their order."""
        found = [name for name in names if self.records and re.fullmatch(self.records, name)]
        return sorted(found, key=lambda name: (len(name), name))

    def records_in(self, place: Path) -> list[str]:
        """List the files of records that a run has written."""
        return self.records_among(one.name for one in place.iterdir())

    def downloads(self, place: Path) -> list[str]:
        """List the files of a run that can be had, those of records first after the report."""
        found = [name for name in self.files if (place / name).is_file()]
        return [*found[:1], *self.records_in(place), *found[1:]]

    def repeat(self, id: str) -> str:
        """Return the command line that repeats a run."""
        return self.specification.again(f"{id}/{self.spec}" if id else self.spec)


def specification_of(name: str) -> type[Spec]:
    """Return the class of a specification by its name, with its module in `unikat.spec`."""
    module, _, of = name.rpartition(".")
    found: type[Spec] = getattr(import_module(f"unikat.spec.{module}"), of)
    return found


RECORDS = "records.parquet"
"""One row for each record of the file of an assessment."""
COMMITTEE, WORD = "committee.html", "committee.docx"
"""Two pages for a committee, and the same as a document of Word, which is written if it is asked
for."""
FITS, MODEL = "fits", "model"
"""What a run that was interrupted keeps: a folder for each fit, with its chains and the fits by
which `auto` selects; and that of a run of one fit."""

_MAX_SWEEPS = (
    "max_sweeps",
    "Most sweeps of a chain",
    "Leave it empty to keep the limit of the run.",
)
_MODELS = ("models", "Models", "All that are wanted, with commas between; empty: those of the run.")
_REPEATS = ("repeats", "Samples of each size", "More are added; empty: as many.")

ASSESS = Kind(
    name="assess",
    noun="assessment",
    asks="assessment.AssessmentSpec",
    answers="result.Result",
    spec="assessment.toml",
    numbers="result.json",
    report="report.html",
    others=(
        "records-at-risk.csv",
        RECORDS,
        "households.parquet",
        "registry.parquet",
        "draws.nc",
        "states.checkpoint",
    ),
    complete="manifest.json",
    work=(FITS,),
    sized=True,
    adds=(_MAX_SWEEPS,),
    ending="unikat",
)
COMPARE = Kind(
    name="compare",
    noun="comparison",
    asks="comparison.ComparisonSpec",
    answers="comparison.ComparisonSummary",
    spec="comparison.toml",
    numbers="summary.json",
    report="comparison.html",
    others=("comparison.parquet",),
    work=(FITS,),
    extends=True,
    sized=True,
    adds=(_MODELS, _MAX_SWEEPS),
    ending="comparison",
)
EVALUATE = Kind(
    name="evaluate",
    noun="evaluation",
    asks="evaluation.EvaluationSpec",
    answers="evaluation.EvaluationSummary",
    spec="evaluation.toml",
    numbers="summary.json",
    report="evaluation.html",
    others=("evaluation.parquet", "samples.parquet", "synthesizers.parquet"),
    work=("tasks",),
    extends=True,
    adds=(_REPEATS, _MODELS),
    ending="evaluation",
    source="POPULATION",
)
PROTECT = Kind(
    name="protect",
    noun="protection",
    asks="protection.ProtectionSpec",
    answers="protection.ProtectionSummary",
    spec="protect.toml",
    numbers="protect.json",
    report="report.html",
    others=("plan.toml", "plans.parquet", COMMITTEE, WORD),
    decides=True,
    records=r"protected\.[a-zA-Z0-9.]+",
    work=(FITS,),
    adds=(_MAX_SWEEPS,),
    sized=True,
    ending="protected",
)
SYNTHESIZE = Kind(
    name="synthesize",
    noun="synthesis",
    asks="synthesis.SynthesisSpec",
    answers="synthesis.SynthesisSummary",
    spec="synthesis.toml",
    numbers="utility.json",
    report="synthesis.html",
    records=r"synthetic_[0-9]+\.[a-zA-Z0-9.]+",
    work=(FITS,),
    adds=(_MAX_SWEEPS,),
    ending="synthetic",
)
ATTACK = Kind(
    name="attack",
    noun="attack",
    asks="attack.AttackSpec",
    answers="attack.AttackSummary",
    spec="attack.toml",
    numbers="attack.json",
    report="attack.html",
    others=("attack-records.parquet", "links.parquet"),
    work=(FITS,),
    adds=(_MAX_SWEEPS,),
    ending="attack",
    source="ORIGINAL",
)
VERIFY = Kind(
    name="verify",
    noun="verification",
    sized=True,
    groups_keys=False,
    asks="verification.VerifySpec",
    answers="verification.VerifySummary",
    spec="verify.toml",
    numbers="verify.json",
    report="report.html",
    work=(FITS,),
    adds=(_MAX_SWEEPS,),
    ending="verified",
    source="ORIGINAL",
)
CHECK = Kind(
    name="check",
    noun="check",
    groups_keys=False,
    asks="check.CheckSpec",
    answers="check.CheckSummary",
    spec="check.toml",
    numbers="check.json",
    report="report.html",
    others=("certificate.json", "policy.toml", COMMITTEE, WORD),
    decides=True,
    work=(FITS,),
    adds=(_MAX_SWEEPS,),
    ending="checked",
)
KINDS = {
    kind.name: kind
    for kind in (ASSESS, COMPARE, EVALUATE, PROTECT, SYNTHESIZE, ATTACK, VERIFY, CHECK)
}
"""By name, in the order in which the workbench offers them."""


def kind_in(place: Path) -> Kind | None:
    """Return the kind of the complete run in a folder; None if there is none."""
    for kind in KINDS.values():
        if (place / kind.numbers).is_file() and (place / kind.spec).is_file():
            return kind
    return None
