"""The first-order operators D of the waves, as constant tensors.

    (D u)_a = sum over i, j of symbol[a, i, j] du_i/dx_j

Green's formula reads (q, D w) = (D* q, w) + <D(n)w, q> on each cell, with the symbol at the normal,
D(n)_ai = sum over j of symbol[a, i, j] n_j: all that a discretization has to know of D.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def gradient(dim: int) -> Array:
    """D = grad of a scalar: (D u)_a = du/dx_a."""
    return np.eye(dim)[:, None, :]


def symmetric_gradient(dim: int) -> Array:
    """D = eps, the symmetric gradient of a vector, in Mandel's notation: |D u| = |eps(u)|.

    The order is 11, 22, 12 in 2D and 11, 22, 33, 23, 13, 12 in 3D, the mixed ones times sqrt(2).
    """
    pairs = {1: [(0, 0)], 2: [(0, 0), (1, 1), (0, 1)]}
    pairs[3] = [(0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1)]
    symbol = np.zeros((len(pairs[dim]), dim, dim))
    for a, (i, j) in enumerate(pairs[dim]):
        weight = 1.0 if i == j else 1 / np.sqrt(2)
        symbol[a, i, j] = symbol[a, j, i] = weight
    return symbol


def curl(dim: int) -> Array:
    """D = curl of a vector: a vector in 3D, the scalar du_2/dx_1 - du_1/dx_2 in 2D."""
    symbol = np.zeros((3, 3, 3))
    for a, i, j in ((0, 2, 1), (1, 0, 2), (2, 1, 0)):
        symbol[a, i, j], symbol[a, j, i] = 1.0, -1.0
    return symbol if dim == 3 else symbol[2:, :2, :2]


def rotated_gradient() -> Array:
    """D = curl of a scalar across the plane: (du/dx_2, -du/dx_1)."""
    return np.array([[[0.0, 1.0]], [[-1.0, 0.0]]])
