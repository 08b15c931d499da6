"""The answer of a synthesis, fresh from a run or read from its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa

from unikat.data.frames import FILE
from unikat.data.microdata import Microdata
from unikat.files.folder import keep_inputs
from unikat.jobs.outcome import Outcome
from unikat.report.facts.synthesis import (
    SynthesisSummary,
)
from unikat.report.folders import synthesis as results
from unikat.report.folders.folder import copied_files, read_records
from unikat.report.pages.synthesis import render
from unikat.spec.kinds import SYNTHESIZE, Kind
from unikat.spec.paths import is_path
from unikat.spec.synthesis import SynthesisSpec
from unikat.synthesis.combine import Combined, combine_partially_synthetic


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Synthesis(Outcome):
    """Synthetic files; from :func:`unikat.synthesize`.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"] * 9, "age": [31, 44, 68] * 9})
    >>> made = unikat.synthesize(frame, keys=["sex", "age"], datasets=2, chains=2,
    ...                          max_sweeps=60, workers=1)
    >>> share = made.combine(lambda one: ((one["sex"] == "f").mean(), 0.01))
    >>> len(made.frames), 0 < share.estimate < 1
    (2, True)
    """

    summary: SynthesisSummary
    spec: SynthesisSpec
    _tables: tuple[results.Records, ...] = field(default=())
    _microdata: Microdata | None = None
    _data: Any = None

    kind: ClassVar[Kind] = SYNTHESIZE

    @property
    def utility(self) -> SynthesisSummary:
        """What the files are good for: margins, pMSE, probabilities within households."""
        return self.summary

    @cached_property
    def frames(self) -> tuple[Any, ...]:
        """The synthetic files as frames of the kind of the data; of a file, pandas frames."""
        if not self._tables:
            assert self.folder is not None
            tables = [read_records(SYNTHESIZE, self.folder, name) for name in self.summary.files]
            return tuple(FILE.frame(one, same_rows=False) for one in tables)
        kind = self._frames
        found = tuple(kind.frame(one.table, same_rows=False) for one in self._tables)
        if kind.name != "pandas" or self._data is None:
            return found
        return tuple(_typed(frame, self._data) for frame in found)

    def handed(self, data: Any, asked: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the synthetic files for `unikat.attack`, and how the original was read."""
        spec = self.spec
        # What a household is matters to the intruder alone who knows that model.
        households = spec.households if asked.get("model") is not None else None
        read = {
            "keys": list(spec.keys),
            "missing_values": spec.data.missing_values,
            "codebook": spec.data.codebook,
            "levels": spec.data.levels,
            "groups": spec.data.groups,
            "dates": spec.data.dates,
            "household": list(spec.design.household),
            "household_keys": [] if households is None else list(households.keys),
            "head": None if households is None else households.head,
        }
        # Files are read as the original is; what only was made is as it was typed.
        here = None if self.folder is None else [self.folder / one for one in self.summary.files]
        made = here if here and is_path(data) else list(self.frames)
        return made, {name: value for name, value in read.items() if value}

    def combine(
        self, estimand: Callable[[Any], tuple[float, float]], level: float | None = None
    ) -> Combined:
        """Combine an estimand of your own over the synthetic files (Reiter 2003).

        Parameters
        ----------
        estimand
            Given a frame, returns an estimate and its variance.
        level
            Probability of the interval; None: that of the run.
        """
        pairs = [estimand(frame) for frame in self.frames]
        estimates, variances = zip(*pairs, strict=True)
        return combine_partially_synthetic(
            estimates, variances, self.spec.report.level if level is None else level
        )

    def _as_frame(self) -> Any:
        name = "dataset"
        if isinstance(self.frames[0], pd.DataFrame):
            while name in self.frames[0]:
                name += "_"
            several = dict(enumerate(self.frames, start=1))
            return pd.concat(several, names=[name]).reset_index(name).reset_index(drop=True)
        while name in self._tables[0].table.column_names:
            name += "_"
        numbered = [
            one.table.add_column(0, name, [np.full(len(one.table), number)])
            for number, one in enumerate(self._tables, start=1)
        ]
        return self._frames.frame(pa.concat_tables(numbered), same_rows=False)

    def _said_first(self) -> list[str]:
        return [self.summary.sentences[place] for place in ("files", "fit")]

    def _page(self, summary: SynthesisSummary) -> str:
        return render(summary)

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        if self._microdata is None:
            assert self.folder is not None
            return copied_files(SYNTHESIZE, self.folder)
        keep_inputs([folder / name for name in self.summary.files], self.spec.input_files())
        return {
            name: results.writer(one, self._microdata.source)
            for name, one in zip(self.summary.files, self._tables, strict=True)
        }

    def __repr__(self) -> str:
        said = self.summary.sentences
        lines = [said["files"], said["fit"]]
        lines += [
            f"Margins of {found.order}: distance {found.distance:.4f} "
            f"(expected by chance {found.distance_expected:.4f}), pMSE ratio {found.pmse_ratio:.2f}"
            for found in self.summary.margins
        ]
        return "\n".join(lines)


def _typed(frame: Any, data: Any) -> Any:
    """A pandas frame with the types that its columns have in the data, where they hold it."""
    for name in frame.columns:
        if frame[name].dtype != data[name].dtype:
            with contextlib.suppress(TypeError, ValueError):
                frame[name] = frame[name].astype(data[name].dtype)
    return frame
