"""Runs read back from their folders."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from unikat.jobs import assessment
from unikat.report.folders.assessment import load as load_assessment
from unikat.report.folders.assessment import write_report
from unikat.report.folders.folder import read_run, replace_page
from unikat.spec.kinds import ASSESS, PROTECT, kind_in
from unikat.spec.plan import PlanSpec
from unikat.spec.trust import SHOWN


def load(folder: str | os.PathLike[str], *, trust_spec: bool = False) -> Any:
    """Read a run from its folder.

    Parameters
    ----------
    folder
        The folder that `out` or `save` named.
    trust_spec
        Whether `what_if` of an assessment may read the file or database that the specification in
        the folder names, also outside of the folder. Only if you know who wrote it.

    Returns
    -------
    Assessment, Comparison, Evaluation, Protection, Synthesis, Attacks or Verification
        What the run gave; whichever lies there.

    Raises
    ------
    OutputError
        If there is no complete run, it is of another version, or a file of an assessment was
        changed since it was written.

    Examples
    --------
    >>> import unikat
    >>> unikat.load("no such folder")
    Traceback (most recent call last):
    unikat.errors.OutputError: no such folder is not a folder; name the folder of a run (its --out).
    """
    folder = Path(folder).expanduser()
    kind = kind_in(folder)
    if kind in (None, ASSESS):
        return assessment.load(folder, trust_spec=trust_spec)
    summary, spec = read_run(kind, folder)
    module = vars(import_module(f"unikat.jobs.{kind.name}"))
    answer: Any = next(one for one in module.values() if getattr(one, "kind", None) is kind)
    more = {"plan": PlanSpec.read(folder / PROTECT.others[0], SHOWN)} if kind is PROTECT else {}
    return answer(summary=summary, spec=spec, folder=folder.resolve(), **more)


def write_page(folder: Path) -> Path:
    """Render the page of a run again, in place of the old one; return where it is.

    Raises
    ------
    OutputError
        As of `load`, or if it cannot be written; the old page is then still there.
    """
    kind = kind_in(folder.expanduser())
    if kind in (None, ASSESS):
        return write_report(load_assessment(folder))
    return replace_page(folder, kind, load(folder).to_html)
