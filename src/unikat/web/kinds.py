"""Which kind of run a folder holds or a specification asks for, and how it is made."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.files.folder import MARK, claimed
from unikat.files.locks import held
from unikat.spec.kinds import ASSESS, KINDS, Kind, kind_in

if TYPE_CHECKING:
    from unikat.spec.base import Spec

REQUEST = "workbench.toml"
"""File of the specification in the folder of a run, until the run writes its own."""


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
    if (found := kind_in(place)) is not None:
        return found
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

    return import_module(f"unikat.jobs.{kind_of(spec).name}").run(spec, Inputs(), folder, **how)
