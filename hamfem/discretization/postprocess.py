"""Local post-processing: from (u, q) to a u_star in P_(k+1) that is one order better."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.flux_spaces import cell_function, legendre, legendre_space
from hamfem.discretization.local import Hybrid

Array = npt.NDArray[Any]


class Postprocessed:
    """(C D u*, D w) = (q, D w) for all w in P_(k+1) of a cell, and (u*, 1) = (u, 1)."""

    def __init__(self, hybrid: Hybrid) -> None:
        wave = hybrid.wave
        degree = hybrid.degree + 1
        element = legendre(hybrid.cells.type, degree)
        from_flux, from_u = [], []
        for _, cells in hybrid.batches():
            points = cells.volume(2 * degree + (0 if cells.affine else 2))
            table = element.tabulate(1, points.X)[..., 0]
            n, p, d = len(cells), len(points.X), cells.dim
            inverse = np.broadcast_to(points.inverse, (n, p, d, d))
            gradient = np.einsum("rpf,cprj->cpfj", table[1:], inverse, optimize=True)
            D = np.einsum("aj,cpfj->cpaf", wave.symbol[:, 0], gradient, optimize=True)
            C = wave.C.at(cells.cells, points.X, points.x)
            CD = C[..., None, None] * D if C.ndim == 2 else np.matmul(C, D)
            w = points.weights[:, :, None, None]
            a, f = D.shape[2:]
            stiffness = np.matmul(
                D.reshape(n, p * a, f).transpose(0, 2, 1), (w * CD).reshape(n, p * a, f)
            )
            basis = hybrid.flux.basis(cells, points)
            q = hybrid.flux.moments(basis, w * D).transpose(0, 2, 1)  # (q, D w)
            # The first basis function is the constant: its row says what the mean is.
            mean = np.einsum("cp,pf->cf", points.weights, table[0])
            phi = hybrid.element.tabulate(0, points.X)[0, :, :, 0]
            stiffness[:, 0] = mean
            q[:, 0] = 0.0
            u = np.zeros((n, f, hybrid.size))
            u[:, 0] = points.weights @ phi
            inverse = np.linalg.inv(stiffness)
            from_flux.append(np.matmul(inverse, q))
            from_u.append(np.matmul(inverse, u))
        size = element.dim
        self._q = np.concatenate([np.zeros((0, size, hybrid.flux.size)), *from_flux])
        self._u = np.concatenate([np.zeros((0, size, hybrid.size)), *from_u])
        self.V = legendre_space(wave.domain, degree)

    def function(self, u: Array, q: Array, name: str) -> fem.Function:
        """u* from the coefficients of u and q in own cells."""
        values = np.matmul(self._q, q[..., None])[..., 0] + np.matmul(self._u, u[..., None])[..., 0]
        return cell_function(self.V, values, name)
