"""The states that an assessment kept, together with its data, which are read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unikat.errors import DataError, SpecError, option
from unikat.inference.progress import SILENT
from unikat.jobs.households import read_sample
from unikat.models.named import build_model
from unikat.protection.kept import Kept
from unikat.protection.what_if import Posterior
from unikat.report.folders.assessment import Results
from unikat.report.folders.outputs import SPEC, STATES
from unikat.spec.from_options import Inputs
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

    spec, path = results.spec, results.root / STATES
    if STATES not in results.digests:
        raise SpecError(
            f"The assessment in {results.folder} has kept no states of the model, so recodings "
            "cannot be looked at without another fit. Assess the file again with "
            f"{option('keep_states', True)}."
        )
    if spec.data.name is None:
        raise SpecError(
            f"The assessment in {results.folder} is of a data frame, which no folder holds. Assess "
            "the frame again, and look at recodings of that assessment."
        )
    trust.check(spec, str(results.folder / SPEC), results.root)
    file = spec.data.path or spec.data.name
    tell("Reading the file")
    kept = Kept.read(path)
    table = read_sample(spec, Inputs(), SILENT).table
    if table.fingerprint != kept.fingerprint:
        raise DataError(
            f"{file} has changed since it was assessed, so the states in {results.folder} are none "
            "of it. Put the file back as it was, or assess it again."
        )
    asked = build_model(spec.model.name, spec.model.options)
    words = "Drawing states of the model"
    tell(words, 0.0)
    found = kept.posterior(path, table, asked, lambda share: tell(words, share))
    return replace(found, stop_reason=results.result.stop_reason)
