"""Where the flux of a hybridised method lives in each cell, and its mass M_q = (C^-1 q, r)."""

from __future__ import annotations

from typing import Any

import basix
import basix.ufl
import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.geometry import Cells, Points
from hamfem.domain import Domain

Array = npt.NDArray[Any]


def legendre(cell: basix.CellType, degree: int) -> Any:
    """Orthonormal polynomials on the reference cell."""
    return basix.create_element(
        basix.ElementFamily.P,
        cell,
        degree,
        lagrange_variant=basix.LagrangeVariant.legendre,
        discontinuous=True,
    )


def legendre_space(domain: Domain, degree: int, shape: tuple[int, ...] = ()) -> fem.FunctionSpace:
    """Functions whose components have these polynomials for a basis in each cell."""
    element = basix.ufl.element(
        "Lagrange",
        domain.cell,
        degree,
        lagrange_variant=basix.LagrangeVariant.legendre,
        discontinuous=True,
    )
    blocked = basix.ufl.blocked_element(element, shape=shape) if shape else element
    return fem.functionspace(domain.mesh, blocked)


def cell_function(V: fem.FunctionSpace, values: Array, name: str) -> fem.Function:
    """A discontinuous function from the coefficients of own cells, component by component."""
    f = fem.Function(V, name=name)
    dofs, bs = V.dofmap.list[: len(values)], V.dofmap.bs
    components = values.reshape(len(values), bs, dofs.shape[1])
    f.x.array[dofs[:, None, :] * bs + np.arange(bs)[:, None]] = components
    f.x.scatter_forward()
    return f


class BrokenFlux:
    """Each flux component a polynomial of its own: P_k, component by component.

    Attributes:
        symbol: Of the operator D whose values the fluxes are paired with.
        degree: Of the polynomials.
        trace_degree: Of the traces on the facets that go with it.
        size: The number of basis functions in a cell.
    """

    def __init__(self, cell: basix.CellType, degree: int, symbol: Array) -> None:
        self.degree = self.trace_degree = degree
        self.symbol = symbol
        self.element = legendre(cell, degree)
        self.components = len(symbol)
        self.size = self.components * self.element.dim

    def basis(self, cells: Cells, points: Points) -> Array:
        """The basis at the points, shape (points, functions)."""
        return self.element.tabulate(0, points.X)[0, :, :, 0]

    def moments(self, basis: Array, G: Array) -> Array:
        """Sum over the points of psi . G, for G of shape (cells, points, components, columns)."""
        n, p, a, m = G.shape
        result = np.matmul(basis.T, G.reshape(n, p, a * m)).reshape(n, -1, a, m)
        return result.transpose(0, 2, 1, 3).reshape(n, self.size, m)

    def solve(self, basis: Array, weights: Array, C: Array, affine: bool, b: Array) -> Array:
        """M_q^-1 b with M_q = (C^-1 psi, psi), for the values of C, (cells, points[, a, a])."""
        n, _, m = b.shape
        if affine and C.shape[1] == 1:
            # The basis is orthonormal on the reference cell, of which the cell is an affine image.
            volume = weights.sum(axis=1) / basix_volume(self.element.cell_type)
            columns = b.reshape(n, self.components, -1)
            if C.ndim == 2:
                return b * (C[:, 0] / volume)[:, None, None]
            return np.matmul(C[:, 0] / volume[:, None, None], columns).reshape(n, self.size, m)
        return np.linalg.solve(self.mass(basis, weights, C), b)

    def inverse(self, M_q: Array) -> Array:
        """M_q^-1."""
        return np.linalg.inv(M_q)

    def mass(self, basis: Array, weights: Array, C: Array) -> Array:
        """M_q of each cell."""
        f = basis.shape[1]
        weighted = weights[:, :, None, None] * self.compliance(C)  # (n, p, a, a)
        n, p = weights.shape
        products = (basis[:, :, None] * basis[:, None, :]).reshape(p, f * f)
        blocks = np.matmul(weighted.reshape(n, p, -1).transpose(0, 2, 1), products)
        a = self.components
        blocks = blocks.reshape(n, a, a, f, f).transpose(0, 1, 3, 2, 4)
        return blocks.reshape(n, self.size, self.size)

    def compliance(self, C: Array) -> Array:
        """C^-1 on the flux components, (cells, points or 1, a, a)."""
        if C.ndim == 4:
            return np.linalg.inv(C)
        return np.eye(self.components) / C[..., None, None]

    def of_strain(self, strain: Array) -> Array:
        """The components of D u in the order of the flux: (cells, points, a)."""
        return strain


class WeaklySymmetricStress(BrokenFlux):
    """Stresses with all d x d components in P_(k+1), orthogonal to skew tensors in P_k.

    With velocities in P_k and traces in P_(k+1) this is the method of Arnold, Falk and Winther,
    rows of BDM_(k+1) x P_k with rotations in P_k, hybridised: the trace keeps sigma n continuous,
    and the rotation r, which acts in its own cell only, is eliminated there,

        M_q q + b_r r = g,  b_r'q = 0,  b_r = (psi, skew chi):    q = P g,
        P = M_q^-1 - M_q^-1 b_r (b_r'M_q^-1 b_r)^-1 b_r'M_q^-1.
    """

    def __init__(self, cell: basix.CellType, degree: int, mandel: Array) -> None:
        d = mandel.shape[1]
        symbol = np.eye(d * d).reshape(d * d, d, d)  # the whole gradient, row by row
        super().__init__(cell, degree + 1, symbol)
        self.rotations = legendre(cell, degree).dim
        self._mandel = mandel.reshape(len(mandel), d * d)
        pairs = [(0, 1)] if d == 2 else [(1, 2), (0, 2), (0, 1)]
        skew = np.zeros((len(pairs), d, d))
        for m, (i, j) in enumerate(pairs):
            skew[m, i, j], skew[m, j, i] = np.sqrt(0.5), -np.sqrt(0.5)
        self._skew = skew.reshape(len(pairs), d * d)

    def compliance(self, C: Array) -> Array:
        """C^-1 on symmetric tensors; on skew ones, which are small, its largest eigenvalue."""
        A = np.einsum("ai,cpab,bj->cpij", self._mandel, np.linalg.inv(C), self._mandel)
        largest = 1 / np.linalg.eigvalsh(C)[..., 0]
        return A + largest[..., None, None] * (self._skew.T @ self._skew)

    def asymmetry(self, q: Array) -> Array:
        """The skew part of q in P_k, in the orthonormal basis of the reference cell: (cells, r)."""
        # The basis is hierarchical: its first functions span P_k.
        shaped = q.reshape(len(q), self.components, -1)[:, :, : self.rotations]
        return np.einsum("ma,caf->cmf", self._skew, shaped).reshape(len(q), -1)

    def inverse(self, M_q: Array) -> Array:
        """P of each cell."""
        inverse = np.linalg.inv(M_q)
        f = self.element.dim
        b_r = np.zeros((self.components, f, len(self._skew), self.rotations))
        i = np.arange(self.rotations)
        b_r[:, i, :, i] = self._skew.T
        b = b_r.reshape(self.size, -1)
        c = inverse @ b
        return inverse - c @ np.linalg.solve(b.T @ c, np.swapaxes(c, 1, 2))

    def solve(self, basis: Array, weights: Array, C: Array, affine: bool, b: Array) -> Array:
        """P b."""
        return np.matmul(self.inverse(self.mass(basis, weights, C)), b)

    def of_strain(self, strain: Array) -> Array:
        """The strain as a tensor, row by row."""
        return strain @ self._mandel


class RaviartThomas:
    """RT_k in each cell; that the normal flux is continuous is left to the trace."""

    def __init__(self, cell: basix.CellType, degree: int, symbol: Array) -> None:
        self.degree, self.trace_degree, self.symbol = degree + 1, degree, symbol
        self.element = basix.create_element(
            basix.ElementFamily.RT, cell, degree + 1, basix.LagrangeVariant.legendre
        )
        self.size = self.element.dim

    def basis(self, cells: Cells, points: Points) -> Array:
        """The basis at the points, shape (cells, functions, points, components)."""
        n, p, d = len(cells), len(points.X), cells.dim
        table = self.element.tabulate(0, points.X)[0]  # (points, functions, d)
        J = np.linalg.inv(points.inverse)
        piola = J / np.abs(np.linalg.det(J))[..., None, None]  # (n, p or 1, d, d)
        piola = np.broadcast_to(piola, (n, p, d, d))
        return np.ascontiguousarray(np.einsum("cpjr,pfr->cfpj", piola, table, optimize=True))

    def moments(self, basis: Array, G: Array) -> Array:
        """Sum over the points of psi . G, for G of shape (cells, points, components, columns)."""
        n, p, a, m = G.shape
        return np.matmul(basis.reshape(n, self.size, p * a), G.reshape(n, p * a, m))

    def mass(self, basis: Array, weights: Array, C: Array) -> Array:
        """M_q of each cell."""
        n, f, p, a = basis.shape
        if C.ndim == 4:
            inverse = np.broadcast_to(np.linalg.inv(C), (n, p, a, a))
            scaled = np.einsum("cpab,cfpb->cfpa", inverse * weights[:, :, None, None], basis)
        else:
            scaled = basis * (weights / C)[:, None, :, None]
        rows = basis.reshape(n, f, p * a)
        return np.matmul(rows, scaled.reshape(n, f, p * a).transpose(0, 2, 1))

    def solve(self, basis: Array, weights: Array, C: Array, affine: bool, b: Array) -> Array:
        """M_q^-1 b."""
        return np.linalg.solve(self.mass(basis, weights, C), b)

    def inverse(self, M_q: Array) -> Array:
        """M_q^-1."""
        return np.linalg.inv(M_q)

    def of_strain(self, strain: Array) -> Array:
        """The components of D u in the order of the flux: (cells, points, a)."""
        return strain


def basix_volume(cell: basix.CellType) -> float:
    """The volume of the reference cell."""
    return float(basix.cell.volume(cell))
