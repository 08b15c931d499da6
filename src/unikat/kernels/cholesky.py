"""Cholesky factors and triangular solves, in plain loops.

Those of a library may sum in an order that depends on the number of threads; results must not.
"""

from __future__ import annotations

import math

from unikat.kernels.jit import device


@device
def factor(matrix):
    """Overwrite the upper triangle of a positive definite matrix A with U, A = U'U.

    Returns the sum of log U_ii, or NaN if A is not positive definite. Row by row, from all rows
    above at once, four at a time: sums over columns side by side, which the compiler vectorises.
    """
    n = matrix.shape[0]
    total = 0.0
    for i in range(n):
        row = matrix[i]
        k = 0
        while k + 4 <= i:
            a, b, c, d = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
            ai, bi, ci, di = a[i], b[i], c[i], d[i]
            for j in range(i, n):
                row[j] -= ai * a[j] + bi * b[j] + ci * c[j] + di * d[j]
            k += 4
        while k < i:
            a = matrix[k]
            ai = a[i]
            for j in range(i, n):
                row[j] -= ai * a[j]
            k += 1
        if not row[i] > 0.0:
            return math.nan
        pivot = math.sqrt(row[i])
        total += math.log(pivot)
        for j in range(i, n):
            row[j] /= pivot
    return total


@device
def solve_lower(upper, vector):
    """Overwrite v with the solution of U'x = v."""
    n = upper.shape[0]
    for i in range(n):
        row = upper[i]
        x = vector[i] / row[i]
        vector[i] = x
        for j in range(i + 1, n):
            vector[j] -= x * row[j]


@device
def solve_upper(upper, vector):
    """Overwrite v with the solution of Ux = v."""
    n = upper.shape[0]
    for i in range(n - 1, -1, -1):
        row = upper[i]
        x = vector[i]
        for j in range(i + 1, n):
            x -= row[j] * vector[j]
        vector[i] = x / row[i]
