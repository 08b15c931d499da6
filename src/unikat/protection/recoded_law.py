"""The law of recoded keys under a fitted model, and the exposure of recoded cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unikat._typing import Float64, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import AnyModel, GroupsLevels
from unikat.models.groups import Groups
from unikat.models.recoded import Recoded
from unikat.protection.recoding import Recoding
from unikat.risk.exposure import BySampling, Exposure, exposure_of
from unikat.risk.margins import ByMargins
from unikat.spec.models import either, models_with


def grouping(model: AnyModel, told: str = "what recoded keys would change") -> GroupsLevels:
    """Return a model that tells the risk of recoded keys; refuse any other one (SpecError).

    `told`: what the message says that the model does not tell.
    """
    if not isinstance(model, GroupsLevels):
        raise SpecError(
            f"The model {model.as_specified.name} does not tell {told}; "
            f"take {either(models_with(knows_groups=True))}; "
            f"{either(models_with(of_households=True, knows_groups=True))} for households as units."
        )
    return model


def recoded_exposure(table: CellTable, recoding: Recoding, recoded: CellTable) -> Exposure:
    """How unobserved units relate to the recoded records; known margins are of the finer keys."""
    exposure = exposure_of(table) if table.margins else None
    if isinstance(exposure, ByMargins):
        return exposure.recoded(*recoding.columns(table))
    return exposure_of(recoded)


def recoded_model(
    model: AnyModel,
    fitted: CellTable,
    table: CellTable,
    recoding: Recoding,
    recoded: CellTable,
    matrices: Mapping[int, Float64] | None = None,
) -> Recoded:
    """Return the law of the recoded table's keys under a model.

    Parameters
    ----------
    model, fitted
        What was fitted to what: with a design the class of the records is one more key.
    table, recoding, recoded
        The sample, what becomes of its keys, and the sample then.
    matrices
        Of some recoded keys, by their column, (n_levels, n_levels): what becomes of each level, at
        random and independently of other keys. The law is then that of the changed keys.
    """
    of_columns = recoding.columns(table)
    kept = list(of_columns.kept)
    n_levels = fitted.n_levels
    members: list[Float64] = []
    recode = np.zeros((fitted.n_keys, max(n_levels)), np.int32)
    for j, n in enumerate(n_levels):
        groups = of_columns.groups[j] if j < table.n_keys else np.arange(n, dtype=np.int32)
        recode[j, :n] = groups
        column = kept.index(j) if matrices and j in kept else -1
        share = (matrices or {}).get(column, np.eye(int(groups.max()) + 1))
        members.append(np.ascontiguousarray(share[groups].T))
    finer = tuple(sorted({j for margin in table.margins for j in margin.keys}))
    for j in finer:
        members[j] = np.vstack((members[j], np.eye(n_levels[j])))
    columns, pairs, pairs_of = list(kept), np.empty((0, 0), np.int32), (-1, -1)
    exposure = exposure_of(recoded)
    if isinstance(exposure, BySampling) and exposure.appended:
        if fitted.n_keys > table.n_keys:
            columns.append(table.n_keys)
        else:
            telling = exposure_of(table)
            assert isinstance(telling, BySampling)
            j = telling.column
            if table.layout is not None and j >= len(table.layout.household_keys):
                raise SpecError(
                    "The classes of the sampling design are told by a key of a member, which is "
                    "recoded; leave that key as it is."
                )
            of_class = telling.class_of == np.arange(exposure.width)[:, None]
            own = members[j]
            own = np.vstack((own, np.ones((1, own.shape[1]))))
            joined = (own[:, None, :] * of_class[None]).reshape(-1, own.shape[1])
            pairs = np.full((len(own), exposure.width + 1), -1, np.int32)
            pairs[:, :-1] = len(members[j]) + np.arange(len(joined)).reshape(len(own), -1)
            pairs[:-1, -1] = np.arange(len(own) - 1)
            members[j] = np.vstack((members[j], joined))
            pairs_of = (kept.index(j) if j in kept else -1, j)
    return Recoded(
        wrapped=grouping(model),
        groups=Groups.weighted(members) if matrices else Groups.of([one > 0.0 for one in members]),
        columns=tuple(columns),
        pairs=pairs,
        pairs_of=pairs_of,
        order=_imputed_order(fitted, recoded),
        recode=recode,
        layout=recoded.layout,
        finer=finer,
    )


def _imputed_order(fitted: CellTable, recoded: CellTable) -> Int64:
    """Places among the imputed records of those that are incomplete after recoding."""
    records = fitted.imputed_records
    place = np.full(fitted.n_records, -1, np.int64)
    place[records] = np.arange(len(records))
    return place[recoded.imputed_records]
