"""Array types used throughout; shapes and units are in the docstrings."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Float64: TypeAlias = NDArray[np.float64]
Float32: TypeAlias = NDArray[np.float32]
Int64: TypeAlias = NDArray[np.int64]
Int32: TypeAlias = NDArray[np.int32]
Int16: TypeAlias = NDArray[np.int16]
UInt32: TypeAlias = NDArray[np.uint32]
UInt64: TypeAlias = NDArray[np.uint64]
Bool: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]
