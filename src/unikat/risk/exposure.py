"""Expected unobserved units of each cell, from a model's probabilities and the design.

Drawn with equal chances, all M = N - n unobserved units are like the records, and M p_c of them are
expected in cell c. Drawn otherwise, records fall into classes of equal chances (`Sampling`), and
within a class unobserved units are like the records: of the M_h = N_h - n_h of class h a share

    q(c | h) = q(c, h) / q(h)

falls in cell c, with q the law of the keys *and the class*, which is what the model is fitted to
(`fitted_table`); where margins of the population are known, their cells are classes (`margins`).
Where the law of the population is Poisson, q(h) = n_h / n: the weights are
exposures. Where a key tells the class, every cell lies in one class.

`EqualChances` and `ByClass` turn a model's probabilities into *chances* of cells, and these into
risks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.companions import Companions
from unikat.data.design import CLASS, Sampling
from unikat.data.keys import Key
from unikat.data.sampling import telling_key
from unikat.data.table import CellTable
from unikat.errors import SpecError, option
from unikat.kernels import cells as kernels
from unikat.kernels.zeros import Diagram
from unikat.models.base import Stream
from unikat.risk.by_class import ByClass, ClassChances, Error, Look, probabilities
from unikat.risk.margins import ByMargins
from unikat.rng import chain_key

MOST_ROWS = 1 << 20
"""Cells with a class that a model is asked for at a time."""


class Exposure(Protocol):
    """How unobserved units relate to the records. Chances are whatever the kind makes of them."""

    @property
    def width(self) -> int:
        """Combinations that a model is asked for, for each cell."""
        ...

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        ...

    def chances(self, look: Look, cells: Int32, companions: Companions | None = None) -> Any:
        """Chances of cells, (n, n_keys) codes; -1 leaves a key out.

        As if their companions had not been sampled, where these are given.
        """
        ...

    def probabilities(self, chances: Any) -> Float64:
        """Probability that a record of the sample falls in each cell, (n,)."""
        ...

    def scaled(self, chances: Any, probabilities: Float64) -> Any:
        """Chances of cells that have these probabilities instead."""
        ...

    def taken(self, chances: Any, which: Int64 | Bool) -> Any:
        """Chances of some cells."""
        ...

    def means(self, chances: Any) -> Float64:
        """Expected unobserved units of each cell, (n,)."""
        ...

    def population(self, chances: Any) -> Float64 | None:
        """Units of the population expected in each cell, over its probability, (n,).

        None: the population's size.
        """
        ...

    def risk(self, chances: Any, counts: Float64, poisson: bool) -> tuple[Float64, Float64]:
        """r1 and r2 of cells with so many records."""
        ...

    def draw(self, stream: Stream, chances: Any, poisson: bool) -> tuple[float, float]:
        """Population uniques among the cells, and the sum of 1/F, in a drawn population."""
        ...

    def alone(self, chances: Any, poisson: bool) -> Float64:
        """Probability that no unobserved unit is in each cell, (n,)."""
        ...

    def alone_joined(
        self, margin: Any, cell: Any, with_error: Any, error: Error, poisson: bool
    ) -> Float64:
        """As `alone`, of margins that hold a cell and others, with the model's error."""
        ...

    def within(self, p: Any, q: Any) -> Float64:
        """What of cells with records `filled` wants summed within its margins, (n, n_sums).

        p are their chances, q the same with the model's error.
        """
        ...

    def filled(self, margin: Any, sums: Float64, error: Error) -> Any:
        """Chances of margins with the model's error, some of whose cells have records."""
        ...


@dataclass(frozen=True, kw_only=True)
class EqualChances:
    """All unobserved units are like the records: chances are the probabilities, (n,)."""

    unobserved: float
    """M = N - n."""

    @property
    def width(self) -> int:
        """The cell alone."""
        return 1

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        one = np.ones(1)
        kernels.cell_risk(one, 0.5 * one, one, False, np.empty(1), np.empty(1))
        kernels.draw_population(chain_key(0, 0), 0, 1.0, 0.5 * one, False)

    def chances(self, look: Look, cells: Int32, companions: Companions | None = None) -> Float64:
        """Chances of cells, (n, n_keys) codes; -1 leaves a key out."""
        return probabilities(look, cells, companions)

    def probabilities(self, chances: Float64) -> Float64:
        """Probability that a record of the sample falls in each cell, (n,)."""
        return chances

    def scaled(self, chances: Float64, probabilities: Float64) -> Float64:
        """Chances of cells that have these probabilities instead."""
        return probabilities

    def taken(self, chances: Float64, which: Int64 | Bool) -> Float64:
        """Chances of some cells."""
        return chances[which]

    def means(self, chances: Float64) -> Float64:
        """Expected unobserved units of each cell, (n,)."""
        return self.unobserved * chances

    def population(self, chances: Float64) -> None:
        """Return None: the population's size for all cells."""
        return

    def risk(self, chances: Float64, counts: Float64, poisson: bool) -> tuple[Float64, Float64]:
        """r1 and r2 of cells with so many records."""
        r1, r2 = np.empty(len(chances)), np.empty(len(chances))
        unobserved = np.full(len(chances), self.unobserved)
        kernels.cell_risk(unobserved, chances, counts, poisson, r1, r2)
        return r1, r2

    def draw(self, stream: Stream, chances: Float64, poisson: bool) -> tuple[float, float]:
        """Population uniques among the cells, and sum of 1/F, in a drawn population."""
        key = chain_key(stream.seed, stream.chain)
        # With a model's error probabilities need not add up to one at most, as a multinomial asks.
        free = poisson or float(chances.sum()) > 1.0
        found: tuple[float, float] = kernels.draw_population(
            key, stream.sweep, self.unobserved, chances, free
        )
        return found

    def alone(self, chances: Float64, poisson: bool) -> Float64:
        """Probability that no unobserved unit is in each cell, (n,)."""
        if poisson:
            return np.exp(-self.unobserved * chances)
        return np.exp(self.unobserved * np.log1p(-np.minimum(chances, 1.0 - 1.2e-16)))

    def alone_joined(
        self, margin: Float64, cell: Float64, with_error: Float64, error: Error, poisson: bool
    ) -> Float64:
        """As `alone`, of margins that hold a cell and others, with the model's error."""
        # The cell itself, with its error, and the cells that join it, which no record is in.
        joining = np.maximum(margin - cell, 0.0)
        return self.alone(with_error + error(joining, np.zeros(len(joining)), None), poisson)

    def within(self, p: Float64, q: Float64) -> Float64:
        """What of cells with records `filled` wants summed: their chances."""
        return np.column_stack((p, q))

    def filled(self, margin: Float64, sums: Float64, error: Error) -> Float64:
        """Chances of margins with the model's error, some of whose cells have records."""
        joining = np.maximum(margin - sums[:, 0], 0.0)
        found: Float64 = sums[:, 1] + error(joining, np.zeros(len(joining)), None)
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class BySampling(ByClass):
    """The classes are those of a design. Made by :meth:`of`."""

    share: Float64
    """(n_classes,): n_h / n."""
    column: int
    """Key of the fitted table that tells the class."""
    n_columns: int
    """Keys of the fitted table."""
    appended: bool
    """It is no key of the sample's table."""
    class_of: Int64
    """(n_levels,): class of each level of that key, -1 where no record has it."""

    @classmethod
    def of(cls, sampling: Sampling, table: CellTable) -> BySampling:
        """Prepare for a table of several classes."""
        column = telling_key(sampling, table)
        if column is None:
            class_of = np.arange(sampling.n_strata)
        else:
            class_of = np.full(table.n_levels[column], -1)
            class_of[table.cells[table.record_cell, column]] = sampling.strata
        n_h = sampling.n_sampled
        # Whole numbers, as a multinomial asks; sums of weights below 1 may miss a record.
        unobserved = np.maximum(np.rint(sampling.sizes - n_h), 0.0)
        return cls(
            unobserved=unobserved,
            sizes=unobserved + n_h,
            share=n_h / n_h.sum(),
            column=table.n_keys if column is None else column,
            n_columns=table.n_keys + (column is None),
            appended=column is None,
            class_of=class_of.astype(np.int64),
        )

    @property
    def width(self) -> int:
        """Combinations with a class that are looked at for each cell."""
        return len(self.class_of) if self.appended else 1

    def chances(
        self, look: Look, cells: Int32, companions: Companions | None = None
    ) -> ClassChances:
        """Chances of cells, (n, n_keys) codes; -1 leaves a key out."""
        most = max(MOST_ROWS // self.width, 1)
        if self.appended and len(cells) > most:
            # In blocks, so that memory does not grow with cells times classes times keys.
            blocks = [np.arange(i, min(i + most, len(cells))) for i in range(0, len(cells), most)]
            parts = [
                self.chances(
                    look, cells[block], None if companions is None else companions.taken(block)
                )
                for block in blocks
            ]
            return ClassChances(*map(np.concatenate, zip(*parts, strict=True)))
        n, known = len(cells), np.flatnonzero(self.class_of >= 0)
        open_ = np.ones(n, bool) if self.appended else cells[:, self.column] < 0
        width = np.where(open_, len(known), 1)
        owner = np.repeat(np.arange(n), width)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(width) - width, width)
        rows = cells[owner]
        if self.appended:
            rows = np.column_stack((rows, place)).astype(np.int32)
        else:
            column = rows[:, self.column]
            rows[:, self.column] = np.where(open_[owner], known[place].astype(np.int32), column)
        q, by_class = self._with_shares(look, rows)
        if companions is not None:
            stream, model, state, data = look
            of_rows = companions.taken(owner)
            q = model.without_companions(stream, state, data, rows, q, of_rows)
        of = self.class_of[rows[:, self.column]]
        shares = by_class[of]
        given = np.divide(q, shares, out=np.zeros(len(q)), where=(of >= 0) & (shares > 0.0))
        shape = (n, int(width.max(initial=1)))
        p, classes = np.zeros(shape), np.zeros(shape, np.int64)
        p[owner, place], classes[owner, place] = np.minimum(given, 1.0), np.maximum(of, 0)
        return ClassChances(
            np.bincount(owner, q, minlength=n).astype(np.float64, copy=False), p, classes
        )

    def _with_shares(self, look: Look, rows: Int32) -> tuple[Float64, Float64]:
        """Probability of each row, (n,); and that a record is of each class, (n_classes,).

        The model is asked for both at once: a state costs as much to look at as some hundred cells.
        """
        if look.poisson:
            return probabilities(look, rows), self.share
        levels = np.flatnonzero(self.class_of >= 0)
        alone = np.full((len(levels), self.n_columns), -1, np.int32)
        alone[:, self.column] = levels
        q = probabilities(look, np.concatenate((rows, alone)))
        shares = np.bincount(self.class_of[levels], q[len(rows) :], minlength=len(self.share))
        return q[: len(rows)], shares.astype(np.float64, copy=False)


def exposure_of(table: CellTable) -> Exposure:
    """Return how unobserved units relate to the records of a table."""
    if table.margins:
        return ByMargins.of(table)
    sampling = table.sampling
    if sampling is None or sampling.n_strata == 1:
        return EqualChances(unobserved=float(table.n_units - table.n_records))
    return BySampling.of(sampling, table)


def views(model: Any, table: CellTable) -> tuple[CellTable, CellTable]:
    """Return the table a model is fitted to, and the table whose cells are at risk.

    They are the same where records were drawn with equal chances. A model that `uses_weights`
    itself is fitted to the table as it is, and its rates are those of the unobserved units.

    Examples
    --------
    >>> from unikat import Design, LatentClass, read
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"SEX": [1, 2, 2], "AGE": [3, 3, 4], "W": [50.0, 5.0, 5.0]})
    >>> table = read(frame, ["SEX", "AGE"], Design(weights="W")).tabulate()
    >>> fitted, at_risk = views(LatentClass(), table)
    >>> [key.name for key in fitted.keys], at_risk.n_keys
    (['SEX', 'AGE', 'sampling class'], 2)
    """
    if table.margins and model.uses_weights:
        raise SpecError(
            f"The model {model.name} sees cells and not keys, so it cannot use margins; name "
            f"another with model (--model), or leave {option('margins')} out."
        )
    if table.sampling is None:
        return table, table
    if model.uses_weights:
        return table, replace(table, sampling=None)
    return fitted_table(table), table


def fitted_table(table: CellTable) -> CellTable:
    """Return the table with the class of the records as one more key, where no key tells it."""
    if table.sampling is None:
        return table
    exposure = exposure_of(table)
    if not isinstance(exposure, BySampling) or not exposure.appended:
        return replace(table, sampling=None)
    codes = np.column_stack((table.cells[table.record_cell], table.sampling.strata))
    n_classes = table.sampling.n_strata
    fitted = CellTable.from_codes(
        codes,
        (*table.keys, Key.of_size(CLASS, n_classes)),
        table.n_units,
        table.missing,
        zeros=None if table.zeros is None else _with_free_key(table.zeros, n_classes),
        layout=table.layout,
    )
    return replace(fitted, households=table.households)


def without_class(table: CellTable) -> CellTable:
    """Return a fitted table without the class: its keys alone."""
    if table.keys[-1].name != CLASS:
        return table
    return CellTable.from_codes(
        table.cells[table.record_cell, :-1],
        table.keys[:-1],
        table.n_units,
        table.missing,
        layout=table.layout,
    )


def class_left_open(cells: Int32, fitted: CellTable) -> Int32:
    """Return cells of the keys as a model that was fitted to such a table is asked for them."""
    if fitted.keys[-1].name != CLASS:
        return cells
    return np.column_stack((cells, np.full(len(cells), -1))).astype(np.int32)


def _with_free_key(diagram: Diagram, n_levels: int) -> Diagram:
    """Append a key on which no rule depends."""
    end = int(diagram.first[-1]) - 1
    width = max(diagram.child.shape[1], n_levels)
    child = np.full((end + 1, width), -1, np.int32)
    child[:end, : diagram.child.shape[1]] = diagram.child
    child[end, :n_levels] = end + 1
    return Diagram(
        order=np.append(diagram.order, len(diagram.order)),
        first=np.append(diagram.first, end + 2),
        child=child,
    )
