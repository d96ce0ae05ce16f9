"""Elastic stiffness as a symmetric matrix in Mandel's notation.

The strain is (e11, e22, e33, r e23, r e13, r e12) with r = sqrt(2), the stress likewise, so that
stress = C strain, the energy is 1/2 strain'C strain, and rotations are orthogonal matrices. In 2D
the order is (e11, e22, r e12). Constants c_ij are those of Voigt's notation, as tables give them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hamfem.physics.operators import symmetric_gradient
from hamfem.physics.speeds import christoffel

Array = npt.NDArray[np.float64]


def isotropic(lam: Any, mu: Any, dim: int = 3) -> Array:
    """2 mu e + lam tr(e) 1; lam and mu may be arrays (n,), the result is then (m, m, n)."""
    size = dim * (dim + 1) // 2
    trace = np.r_[np.ones(dim), np.zeros(size - dim)]
    return np.multiply.outer(2 * np.eye(size), mu) + np.multiply.outer(np.outer(trace, trace), lam)


def from_voigt(c: npt.ArrayLike) -> Array:
    """From a matrix c_ij in Voigt's notation (11, 22, 33, 23, 13, 12; in 2D 11, 22, 12)."""
    c = np.asarray(c, float)
    if c.shape not in ((3, 3), (6, 6)):
        raise ValueError(f"a stiffness in Voigt's notation is 3 x 3 or 6 x 6, not {c.shape}.")
    dim = 2 if len(c) == 3 else 3
    scale = np.r_[np.ones(dim), np.full(len(c) - dim, np.sqrt(2))]
    return c * np.outer(scale, scale)


def orthotropic(
    c11: float,
    c22: float,
    c33: float,
    c12: float,
    c13: float,
    c23: float,
    c44: float,
    c55: float,
    c66: float,
) -> Array:
    """Three planes of symmetry, whose normals are the axes."""
    c = np.diag([c11, c22, c33, c44, c55, c66]).astype(float)
    c[0, 1] = c[1, 0] = c12
    c[0, 2] = c[2, 0] = c13
    c[1, 2] = c[2, 1] = c23
    return from_voigt(c)


def cubic(c11: float, c12: float, c44: float) -> Array:
    """A cubic crystal whose axes are the coordinates'."""
    return orthotropic(c11, c11, c11, c12, c12, c12, c44, c44, c44)


def transversely_isotropic(c11: float, c33: float, c13: float, c44: float, c66: float) -> Array:
    """Isotropic around the third axis: c12 = c11 - 2 c66."""
    return orthotropic(c11, c11, c33, c11 - 2 * c66, c13, c13, c44, c44, c66)


def rotated(C: npt.ArrayLike, rotation: npt.ArrayLike) -> Array:
    """The stiffness of the rotated material: a fibre along e now lies along `rotation` e.

    Args:
        C: 3 x 3 in 2D, 6 x 6 in 3D.
        rotation: An orthogonal 2 x 2 or 3 x 3 matrix, or an angle in 2D.
    """
    C = np.asarray(C, float)
    dim = 2 if C.shape == (3, 3) else 3
    R = np.asarray(rotation, float)
    if R.ndim == 0 and dim == 2:
        R = np.array([[np.cos(R), -np.sin(R)], [np.sin(R), np.cos(R)]])
    if R.shape != (dim, dim) or np.abs(R @ R.T - np.eye(dim)).max() > 1e-10:
        raise ValueError(f"a rotation is an orthogonal {dim} x {dim} matrix, and this is none.")
    basis = symmetric_gradient(dim)  # orthonormal symmetric matrices
    Q = np.einsum("aij,ik,jl,bkl->ab", basis, R, R, basis)
    return Q @ C @ Q.T


def plane_strain(C: npt.ArrayLike) -> Array:
    """The 3 x 3 stiffness for strains in the plane of the first two axes."""
    kept = [0, 1, 5]
    return _solid(C)[np.ix_(kept, kept)]


def plane_stress(C: npt.ArrayLike) -> Array:
    """The 3 x 3 stiffness for stresses in the plane of the first two axes."""
    kept = [0, 1, 5]
    return np.linalg.inv(np.linalg.inv(_solid(C))[np.ix_(kept, kept)])


def _solid(C: npt.ArrayLike) -> Array:
    C = np.asarray(C, float)
    if C.shape != (6, 6):
        raise ValueError(f"the stiffness of a solid is a 6 x 6 matrix, not {C.shape}.")
    return C


def speeds(C: npt.ArrayLike, density: float, direction: Sequence[float]) -> tuple[Array, Array]:
    """The speeds of plane waves along a direction, the slowest first, and their polarisations.

    Returns:
        The speeds, and a matrix whose columns are the unit displacements.
    """
    n = np.asarray(direction, float)
    symbol = symmetric_gradient(len(n))
    values, vectors = np.linalg.eigh(christoffel(symbol, np.asarray(C), n / np.linalg.norm(n)))
    return np.sqrt(values / density), vectors
