"""The law of a column's values among the units of each combination, from the records of a file.

Records of other combinations that agree in ever more keys tell what to expect in a combination:
contexts, from the whole file down to all keys but one. Interpolated as columns left beside the keys
are (`left_over`), they make the expected law

    b = Σ_k λ_k m_k

with m_k the law among the records of context k that are in none of the finer ones, and λ_k the
larger the more these are. The law of a combination varies about it,

    π ~ Dirichlet(α c),    c = b with probability 1 - τ, else m_k with probability λ_k.

A single record with a value that b takes to be rare speaks less for b, and more for a coarser
context: persons of the combination are other than the nearest ones. α is estimated from
combinations with several records, apart for small ones, whose persons are more alike. τ is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.protection.left_over import best, draw_concentration, nested, numbered

SMALL = 3
"""Known records of a small cell at most."""
OTHER_LAW = 0.4
"""τ. Of 0, 0.1, 0.2, 0.3 and 0.5 the last two made the records of cells with several most probable,
over 59 columns of eleven populations."""
_AT_ONCE = 1_000_000
"""Entries of a table of cells and values."""
N_ALPHAS = 40
"""Draws of α."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares:
    """The law of a column in each cell. Made by :meth:`of`.

    Its parts are b, all values alike, and the contexts, coarse first.
    """

    n_levels: int
    places: tuple[Int64, ...] = field(repr=False)
    """(n_cells,) each: context of each cell, coarse first; last the cell itself."""
    counts: tuple[Any, ...] = field(repr=False)
    """For each of `places`, the records by context and value, a sparse array."""
    chances: Float64 = field(repr=False)
    """(n_parts - 1, n_cells): λ of the parts after the first."""
    seed: int
    """Of the draws of α."""

    @classmethod
    def of(
        cls,
        values: Int64,
        n_levels: int,
        cell: Int64,
        codes: Int32,
        seed: int = 1,
        coarse: Int32 | None = None,
    ) -> Shares:
        """Estimate it.

        Parameters
        ----------
        values, cell
            (n,): of the records whose value is known, the value and the cell.
        n_levels
            Values that the column may have.
        codes
            (n_cells, n_keys): the cells, no two alike, also those without such records.
        seed
            Of the draws of α.
        coarse
            (n_cells, n_columns): the cells by columns that tell less, such as recoded keys. The
            contexts are of these, the finest one all cells that they do not tell apart. None: of
            `codes`.
        """
        from scipy import sparse

        columns = (codes if coarse is None else coarse).astype(np.int64).T
        places = [np.zeros(len(codes), np.int64)]
        for column, _ in nested(values, [one[cell] for one in columns]):
            places.append(numbered(places[-1], columns[column]))
        places = places[:-1] if coarse is None else places
        places.append(np.arange(len(codes)))
        ones = np.ones(len(values))
        counts = [
            sparse.csr_array((ones, (at[cell], values)), shape=(int(at.max()) + 1, n_levels))
            for at in places
        ]
        sizes = [one.sum(axis=1)[at] for one, at in zip(counts, places, strict=True)]
        chances = np.ones((1, len(codes)))
        seen, alpha = np.full(len(values), 1.0 / n_levels), 0.5 * n_levels
        for k in range(len(places) - 1):
            # What the other records say; else each context would be predicted by itself.
            others = sizes[k] - sizes[k + 1]
            chances = np.vstack((chances * alpha, others)) / (others + alpha)
            finer, coarser = (counts[i][places[i][cell], values] for i in (k + 1, k))
            seen = (coarser - finer + alpha * seen) / (others[cell] + alpha)
            if k + 2 < len(places):
                alpha = best(values, places[k + 1][cell], seen)
        return cls(
            n_levels=n_levels,
            places=tuple(places),
            counts=tuple(counts),
            chances=chances,
            seed=seed,
        )

    @property
    def n_cells(self) -> int:
        """Cells."""
        return len(self.places[-1])

    @cached_property
    def sizes(self) -> Float64:
        """(n_contexts + 1, n_cells): records of each context whose value is known."""
        return np.stack(
            [one.sum(axis=1)[at] for one, at in zip(self.counts, self.places, strict=True)]
        )

    @property
    def known(self) -> Float64:
        """(n_cells,): records of each cell whose value is known."""
        found: Float64 = self.sizes[-1]
        return found

    def records(self, values: Int64) -> Float64:
        """Records of each cell with a value, (n_cells,), given for each cell."""
        found: Float64 = self.counts[-1][self.places[-1], values]
        return found

    def parts(self, values: Int64, cells: Int64 | None = None) -> Float64:
        """Share of a value by each part, (n_parts, n), given for each cell, or for some cells."""
        some = np.arange(self.n_cells) if cells is None else cells
        if not len(some):
            return np.empty((len(self.chances) + 1, 0))
        of_value = np.stack(
            [one[at[some], values] for one, at in zip(self.counts, self.places, strict=True)]
        )
        others = of_value[:-1] - of_value[1:]
        totals = self.sizes[:-1, some] - self.sizes[1:, some]
        found = np.vstack((np.full((1, len(some)), 1.0 / self.n_levels), others / _one(totals)))
        base = (self.chances[:, some] * found).sum(axis=0)
        shares: Float64 = np.maximum(np.vstack((base, found)), 1e-12)
        return shares

    def outside(self, values: Int64, cell: Int64) -> Float64:
        """Probability of the value of each record, (n,), by the records of other cells."""
        found: Float64 = (self._before[:, cell] * self.parts(values, cell)).sum(axis=0)
        return found

    def usual(self) -> Int64:
        """The most frequent value by b, (n_cells,)."""
        only_base = np.zeros((len(self.chances) + 1, self.n_cells))
        only_base[0] = 1.0
        return self._largest(only_base, np.zeros(self.n_cells))

    def inferred(self, inverse: Float64) -> Int64:
        """The value that is most probable of a random unit of each cell, (n_cells,).

        Parameters
        ----------
        inverse
            (n_cells,): E[1/F].
        """
        own, parts = self._expected
        left = 1.0 - self.known * inverse
        return self._largest(parts * left, own * left + inverse)

    def right(self, values: Int64, inverse: Float64) -> Float64:
        """Probability that a random unit of each cell has a value, (n_cells,); as `inferred`."""
        own, parts = self._expected
        n = self.records(values)
        share = own * n + (parts * self.parts(values)).sum(axis=0)
        found: Float64 = share + (n - self.known * share) * inverse
        return found

    @cached_property
    def _expected(self) -> tuple[Float64, Float64]:
        """E π = own n + Σ parts c, (n_cells,) and (n_parts, n_cells)."""
        own, parts = np.zeros(self.n_cells), np.zeros((len(self.chances) + 1, self.n_cells))
        for one in self.alphas.T:
            alpha = self.alpha(one)
            own += 1.0 / (self.known + alpha) / self.alphas.shape[1]
            parts += self.weights(alpha) * alpha / (self.known + alpha) / self.alphas.shape[1]
        return own, parts

    def _largest(self, parts: Float64, own: Float64) -> Int64:
        """The value with the largest own n + Σ parts c, (n_cells,)."""
        contexts = parts[1:] + parts[0] * self.chances
        scales = contexts[1:] / _one(self.sizes[:-1] - self.sizes[1:])
        found = np.empty(self.n_cells, np.int64)
        step = max(1, _AT_ONCE // self.n_levels)
        for start in range(0, self.n_cells, step):
            some = slice(start, start + step)
            rows = [
                one[at[some]].toarray() for one, at in zip(self.counts, self.places, strict=True)
            ]
            total = own[some, None] * rows[-1]
            for scale, coarser, finer in zip(scales, rows, rows[1:], strict=False):
                total += scale[some, None] * (coarser - finer)
            found[some] = total.argmax(axis=1)
        return found

    def alpha(self, draw: Float64) -> Float64:
        """α of each cell, (n_cells,), by those of small cells and of others."""
        found: Float64 = draw[(self.known > SMALL).astype(np.int64)]
        return found

    @cached_property
    def alphas(self) -> Float64:
        """Draws of α of small cells and of others, (2, N_ALPHAS), given what such cells tell."""
        generator = np.random.default_rng([self.seed])
        found = []
        for large in (False, True):
            some = (self.known > SMALL)[self._several.cells] == large

            def log(alpha: float, some: Bool = some) -> float:
                return float(self._evidence(np.full(self.n_cells, alpha))[1][some].sum())

            found.append(draw_concentration(log, N_ALPHAS, generator))
        return np.stack(found)

    def weights(self, alpha: Float64) -> Float64:
        """Probability of each part given the records, (n_parts, n_cells), by α of each cell."""
        found = self._alone.copy()
        found[:, self._several.cells] = self._evidence(alpha)[0]
        return found

    @cached_property
    def _before(self) -> Float64:
        """Probability of each part before the records of the cell, (n_parts, n_cells)."""
        base = np.full((1, self.n_cells), 1.0 - OTHER_LAW)
        return np.vstack((base, OTHER_LAW * self.chances))

    @cached_property
    def _alone(self) -> Float64:
        """The same given one record, whatever α is; of cells with more, before they are seen."""
        found = self._before.copy()
        alone = np.flatnonzero(self.known == 1.0)
        values = self.counts[-1][alone].indices.astype(np.int64)
        found[:, alone] *= self.parts(values, alone)
        found[:, alone] /= found[:, alone].sum(axis=0)
        return found

    @cached_property
    def _several(self) -> _Several:
        cells = np.flatnonzero(self.known > 1.0)
        seen = self.counts[-1][cells].tocoo()
        place, values = (one.astype(np.int64) for one in seen.coords)
        return _Several(cells, place, seen.data, self.parts(values, cells[place]))

    def _evidence(self, alpha: Float64) -> tuple[Float64, Float64]:
        """What the records of cells with several say, by α of all cells.

        Returns
        -------
        tuple
            Probability of the parts given these, (n_parts, n_several), and their log-probability.
        """
        from scipy.special import gammaln

        cells, place, n, shares = self._several
        before = alpha[cells[place]] * shares
        of_values = gammaln(before + n) - gammaln(before)
        with np.errstate(divide="ignore"):
            total = np.log(self._before[:, cells])
        for part, one in zip(total, of_values, strict=True):
            part += np.bincount(place, one, minlength=len(cells))
        top = total.max(axis=0, initial=-np.inf)
        found = np.exp(total - top)
        whole = found.sum(axis=0)
        scale = gammaln(alpha[cells]) - gammaln(alpha[cells] + self.known[cells])
        return found / whole, np.log(whole) + top + scale


def stacked(first: Float64, second: Float64) -> float:
    """Share of the second of two laws in their mixture that is most probable (stacking).

    Parameters
    ----------
    first, second
        (n,) probability of each record by either law, which it did not help to make.

    Returns
    -------
    float
        0 to 1.

    Examples
    --------
    >>> stacked(np.array([0.2, 0.9]), np.array([0.1, 0.3]))
    0.0
    """
    share = 0.5
    for _ in range(200):
        parts = share * second
        share = float(np.mean(parts / (parts + (1.0 - share) * first)))
    return share if share > 1e-3 else 0.0


class _Several(NamedTuple):
    """Cells with several known records, which alone tell α."""

    cells: Int64
    place: Int64
    """(n_seen,): for each value that one of them has, its place in `cells`."""
    n: Float64
    """(n_seen,): records with the value."""
    shares: Float64
    """(n_parts, n_seen): share of the value by the parts."""


def _one(totals: Float64) -> Float64:
    """Take 1 for 0, to divide by."""
    return np.where(totals > 0.0, totals, 1.0)
