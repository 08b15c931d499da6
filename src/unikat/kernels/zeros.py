"""Kernels of structural zeros: decision diagrams of the possible cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Diagram(NamedTuple):
    """The possible cells as a decision diagram: one layer per key, in the order `order`.

    Node 0 is the root, in layer 0; the nodes of layer d are `first[d]` to `first[d + 1] - 1`; the
    last node, alone in layer n_keys, is the end of every possible cell.
    """

    order: npt.NDArray[np.int64]
    """(n_keys,): key of each layer."""
    first: npt.NDArray[np.int64]
    """(n_keys + 2,): first node of each layer, and the number of nodes."""
    child: npt.NDArray[np.int32]
    """(n_nodes - 1, most levels): node of the next layer by level, -1 where nothing is possible."""
