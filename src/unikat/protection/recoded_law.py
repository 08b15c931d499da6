"""The law of recoded keys under a fitted model, and the exposure of recoded cells."""

from __future__ import annotations

import numpy as np

from unikat._typing import Bool, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import AnyModel, GroupsLevels
from unikat.models.groups import Groups
from unikat.models.recoded import Recoded
from unikat.protection.recoding import Recoding
from unikat.risk.exposure import BySampling, Exposure, exposure_of
from unikat.risk.margins import ByMargins
from unikat.spec.models import either, models_with


def grouping(model: AnyModel) -> GroupsLevels:
    """Return a model that tells the risk of recoded keys; refuse any other one (SpecError)."""
    if not isinstance(model, GroupsLevels):
        raise SpecError(
            f"The model {model.as_specified.name} does not tell what recoded keys would change; "
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
    model: AnyModel, fitted: CellTable, table: CellTable, recoding: Recoding, recoded: CellTable
) -> Recoded:
    """Return the law of the recoded table's keys under a model.

    Parameters
    ----------
    model, fitted
        What was fitted to what: with a design the class of the records is one more key.
    table, recoding, recoded
        The sample, what becomes of its keys, and the sample then.
    """
    of_columns = recoding.columns(table)
    kept = list(of_columns.kept)
    n_levels = fitted.n_levels
    members: list[Bool] = []
    recode = np.zeros((fitted.n_keys, max(n_levels)), np.int32)
    for j, n in enumerate(n_levels):
        groups = of_columns.groups[j] if j < table.n_keys else np.arange(n, dtype=np.int32)
        recode[j, :n] = groups
        members.append(groups == np.arange(groups.max() + 1)[:, None])
    finer = tuple(sorted({j for margin in table.margins for j in margin.keys}))
    for j in finer:
        members[j] = np.vstack((members[j], np.eye(n_levels[j], dtype=bool)))
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
            own = np.vstack((own, np.ones((1, own.shape[1]), bool)))
            joined = (own[:, None, :] & of_class[None]).reshape(-1, own.shape[1])
            pairs = np.full((len(own), exposure.width + 1), -1, np.int32)
            pairs[:, :-1] = len(members[j]) + np.arange(len(joined)).reshape(len(own), -1)
            pairs[:-1, -1] = np.arange(len(own) - 1)
            members[j] = np.vstack((members[j], joined))
            pairs_of = (kept.index(j) if j in kept else -1, j)
    return Recoded(
        wrapped=grouping(model),
        groups=Groups.of(members),
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
