"""The states that an assessment kept, together with its data, which are read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, option
from unikat.inference.progress import SILENT
from unikat.jobs.households import read_sample
from unikat.models.named import build_model
from unikat.protection.kept import Kept
from unikat.protection.what_if import Posterior
from unikat.report.folders.assessment import Results, load
from unikat.report.folders.outputs import SPEC, STATES
from unikat.spec.from_options import Inputs
from unikat.spec.model import ModelSpec
from unikat.spec.trust import FOREIGN, Trust


def posterior_of(
    results: Results,
    progress: Callable[[str, float | None], None] | None = None,
    trust: Trust = FOREIGN,
) -> Posterior:
    """Return the posterior of an assessment that was loaded, the same as that of the fresh one.

    Parameters
    ----------
    results
        The folder of the run.
    progress
        Given what is done, and the share of it that is, where that is known.
    trust
        What counts of the specification in the folder, by which the data are read.

    Raises
    ------
    SpecError
        If its states were not kept, or its data are named in a way that only the user may.
    DataError
        If the file of data is missing, cannot be read, or has changed.
    OutputError
        If the states cannot be read.
    """

    def tell(words: str, share: float | None = None) -> None:
        if progress is not None:
            progress(words, share)

    spec = results.spec
    _check_kept(results)
    if spec.data.name is None:
        raise SpecError(
            f"The assessment in {results.folder} is of a data frame, which no folder holds. Assess "
            "the frame again, and look at recodings of that assessment."
        )
    trust.check(spec, str(results.folder / SPEC), results.root)
    tell("Reading the file")
    return posterior_beside(results, read_sample(spec, Inputs(), SILENT).table, tell)


def posterior_beside(
    results: Results,
    table: CellTable,
    tell: Callable[[str, float | None], None],
) -> Posterior:
    """Return the posterior of an assessment, given the table of its file that was read again."""
    path, spec = results.root / STATES, results.spec
    kept = Kept.read(path)
    if kept.fingerprint != table.fingerprint:
        raise DataError(
            f"{spec.data.path or spec.data.name} has changed since it was assessed, or is read or "
            f"described in another way, so the states in {results.folder} are none of it. Put it "
            "back as it was, or assess it again."
        )
    asked = build_model(spec.model.name, spec.model.options)
    words = "Drawing states of the model"
    tell(words, 0.0)
    found = kept.posterior(path, table, asked, lambda share: tell(words, share))
    return replace(found, stop_reason=results.result.stop_reason)


def saved_fit(folder: Path, model: ModelSpec, table: CellTable) -> Results:
    """Return an assessment whose fit stands for one that is asked for."""
    results = load(folder)
    _check_kept(results)
    if results.spec.model != model:
        raise SpecError(
            f"The assessment in {folder} is by the model {results.spec.model.name}, with options "
            f"of its own, and {model.name} is asked for; name the same ({option('model')}), or "
            f"leave {option('assessed')} out."
        )
    if Kept.read(results.root / STATES).fingerprint != table.fingerprint:
        raise DataError(
            f"The assessment in {folder} is of another file than this one, or of the same with "
            "other keys, codes of missing values, population, design or rules. Leave "
            f"{option('assessed')} out, or assess this file with {option('keep_states', True)}."
        )
    return results


def _check_kept(results: Results) -> None:
    if STATES not in results.digests:
        raise SpecError(
            f"The assessment in {results.folder} has kept no states of the model, so recodings "
            "cannot be looked at without another fit. Assess the file again with "
            f"{option('keep_states', True)}."
        )
