"""The last states of a fit in a file, with which recodings are looked at later.

The file has the format of a checkpoint and holds what one holds: the states say something about
every record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from unikat._version import __version__
from unikat.data.table import CellTable
from unikat.errors import OutputError, SpecError
from unikat.inference import checkpoint as checkpoints
from unikat.inference.identity import digest
from unikat.inference.restored import check_states
from unikat.models.calibrated import SHIFTS, Calibrated, values_of_k
from unikat.models.named import build_model
from unikat.protection.going_on import Ends, GoingOn
from unikat.protection.recoded_law import grouping
from unikat.protection.what_if import Posterior
from unikat.risk.exposure import fitted_table
from unikat.studies.fit import Fit


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What :meth:`Posterior.of` needs of a fit, besides the data."""

    fingerprint: str
    """Of the table that was fitted."""
    name: str = ""
    """Of the model whose states these are; in place of `auto` the selected one."""
    options: dict[str, Any] | None = None
    digest: str = ""
    """Of the model with its options."""
    weights: tuple[float, ...] | None = None
    """Of the model's error, see `Calibrated`; None if it has none and cannot have one."""
    ends: Ends | None = None
    """None where the file itself tells the risk."""
    version: str = __version__

    @classmethod
    def of(cls, fit: Fit) -> Kept:
        """Take it from a fit."""
        if fit.draws is None:
            return cls(fingerprint=fit.table.fingerprint)
        calibrated = fit.model if isinstance(fit.model, Calibrated) else None
        model: Any = fit.model if calibrated is None else calibrated.wrapped
        return cls(
            fingerprint=fit.table.fingerprint,
            name=model.name,
            options={one.name: getattr(model, one.name) for one in fields(model)},
            digest=digest(model),
            weights=None if calibrated is None else calibrated.weights,
            ends=Ends.of(fit.draws),
        )

    def write(self, path: Path) -> None:
        """Write it."""
        checkpoints.save(path, {}, {one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def read(cls, path: Path) -> Kept:
        """Read what `write` wrote."""
        try:
            content = checkpoints.load(path, {})
            assert content is not None
            found = cls(**content)
        except (OutputError, TypeError):
            raise _not_understood(path) from None
        if found.version != __version__:
            raise OutputError(
                f"The states in {path} were kept by unikat {found.version}, and this is "
                f"{__version__}, whose numbers may differ. Assess the file again, or use that "
                "version."
            )
        return found

    def posterior(
        self, path: Path, table: CellTable, asked: Any, progress: Callable[[float], None] | None
    ) -> Posterior:
        """Go on from the states, as :meth:`Posterior.of` does from those of the fit."""
        if self.ends is None:
            return Posterior(table=table, fitted=table, model=asked, data=None, states=())
        fitted = fitted_table(table)
        try:
            model = build_model(self.name, self.options or {})
            if digest(model) != self.digest:
                raise ValueError
            grouping(model)
            if self.weights is not None:
                n_pairs = len(values_of_k(table)) * len(SHIFTS)
                if self.weights and np.shape(self.weights) != (n_pairs,):
                    raise ValueError
                model = Calibrated(wrapped=model, weights=self.weights, asked=asked)
            data, states = model.prepare(fitted), self.ends.states
            check_states(states, model, data, seed=self.ends.seed, n_chains=len(states))
        except (SpecError, ValueError, TypeError, LookupError, AttributeError):
            raise _not_understood(path) from None
        states = GoingOn(ends=self.ends, progress=progress).states(model, data)
        return Posterior(table=table, fitted=fitted, model=model, data=data, states=states)


def _not_understood(path: Path) -> OutputError:
    return OutputError(
        f"{path} cannot be read: it is damaged, or of another version of unikat. Assess the file "
        "again."
    )
