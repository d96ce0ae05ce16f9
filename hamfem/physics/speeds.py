"""The speeds of plane waves, and how finely a mesh resolves them.

A plane wave along n in a material with density rho has a speed c and a displacement w with

    D(n)'C D(n) w = rho c² w        (Christoffel's equation).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def christoffel(symbol: Array, C: Array, n: Array) -> Array:
    """D(n)'C D(n) for C (..., a, a) or numbers (...,), and directions n (..., d)."""
    D = np.einsum("aij,...j->...ai", symbol, n)
    C = np.asarray(C, float)
    if C.shape[-2:] != (len(symbol),) * 2:
        C = C[..., None, None] * np.eye(len(symbol))
    return np.einsum("...ai,...ab,...bj->...ij", D, C, D)


def star(dim: int) -> Array:
    """Unit vectors in all directions, opposite ones left out."""
    if dim == 1:
        return np.ones((1, 1))
    if dim == 2:
        angle = np.linspace(0, np.pi, 36, endpoint=False)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    i = np.arange(200) + 0.5  # Fibonacci's spiral on a half of the sphere
    z = 1 - i / len(i)
    angle = np.pi * (1 + np.sqrt(5)) * i
    r = np.sqrt(1 - z * z)
    spiral = np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
    return np.concatenate([np.eye(3), spiral])


def slowest_and_fastest(
    symbol: Array, C: Array, rho: Array, directions: Array, at_rest: int = 0
) -> Array:
    """The extreme speeds over some directions in each of n materials: shape (2, n).

    Args:
        symbol: Of D.
        C: The stiffness, (n,) or (n, a, a).
        rho: The density, (n,) or (n, i, i).
        directions: Unit vectors, (directions, d).
        at_rest: How many displacements are no waves (those along n, for D = curl).
    """
    slow, fast = np.full(len(rho), np.inf), np.zeros(len(rho))
    if rho.ndim == 1:
        rho = rho[:, None, None] * np.eye(symbol.shape[1])
    root = np.linalg.inv(np.linalg.cholesky(rho)) if len(rho) else rho
    for direction in directions:
        n = np.broadcast_to(direction, (len(rho), len(direction)))
        A = root @ christoffel(symbol, C, n) @ np.swapaxes(root, 1, 2)
        values = np.linalg.eigvalsh(A)
        slow = np.minimum(slow, np.sqrt(values[:, at_rest]))
        fast = np.maximum(fast, np.sqrt(values[:, -1]))
    return np.stack([slow, fast])
