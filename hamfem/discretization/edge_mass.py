"""The mass (c u, w) of edge, face, nodal and broken spaces: by exact quadrature, or diagonal."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem
from dolfinx.fem.petsc import assemble_matrix

from hamfem.discretization.assembly import diagonal_matrix
from hamfem.discretization.basis import Basis
from hamfem.discretization.edge_elements import tensor_rule
from hamfem.discretization.geometry import Cells
from hamfem.physics.coefficient import Coefficient

Array = npt.NDArray[Any]
_BATCH = 4096


def consistent_mass(basis: Basis, c: Coefficient, degree: int) -> PETSc.Mat:
    """(c u, w) on all dofs; a callable c is interpolated in P_degree."""
    u, w = ufl.TrialFunction(basis.V), ufl.TestFunction(basis.V)
    value = c.ufl(degree)
    cu = ufl.dot(value, u) if value.ufl_shape else value * u
    A = assemble_matrix(fem.form(ufl.inner(cu, w) * ufl.dx))
    A.assemble()
    return A


def nodal_mass(basis: Basis, c: Coefficient, k: int) -> PETSc.Mat | None:
    """The diagonal mass by quadrature at the nodes, or None where it is not diagonal.

    Component a of values on the reference cell has its own rule, with its nodes for points. Then
    G = |J| F'c F, with F the derivative of Piola's map, must be diagonal: the cells have right
    angles, and a matrix c has their axes.
    """
    domain, comm = c.domain, c.domain.comm
    kind, dim = basis.map, domain.dim
    count = basis.element.value_size
    values = np.zeros((len(domain.own_cells), basis.element.dim))
    diagonal = True
    for a in range(count):
        X, w = tensor_rule(k, [_gauss(basis, i == a) for i in range(dim)])
        table = basis.element.tabulate(0, X)[0][:, :, a]  # (points, functions)
        squares = np.square(np.einsum("tij,pj->tpi", basis.T, table, optimize=True))
        for start in range(0, len(values), _BATCH):
            part = slice(start, start + _BATCH)
            cells = Cells(domain, domain.own_cells[part])
            G, right = _metric(cells, X, w, c, kind, a)
            diagonal &= right
            orders = basis.orders(cells.cells)
            for order in np.unique(orders):
                mine = orders == order
                values[part][mine] += G[mine] @ squares[order]
    if not comm.allreduce(diagonal, MPI.LAND):
        return None
    return diagonal_matrix(comm, basis.collected(domain.own_cells, values).array)


def _gauss(basis: Basis, along: bool) -> bool:
    """Whether the nodes of a component are Gauss points in a direction, along it or across."""
    if basis.map == basix.MapType.covariantPiola:
        return along
    if basis.map == basix.MapType.contravariantPiola:
        return not along
    return basis.element.discontinuous


def _metric(
    cells: Cells, X: Array, w: Array, c: Coefficient, kind: basix.MapType, a: int
) -> tuple[Array, bool]:
    """Row a of G: w G_aa at the points, (cells, points), and whether the rest of it is 0."""
    points = cells.at(X, w)
    values = c.at(cells.cells, X, points.x)
    if kind == basix.MapType.identity:
        return points.weights * values, True
    if kind == basix.MapType.covariantPiola:
        F = np.swapaxes(points.inverse, 2, 3)  # J^-T
    else:
        F = np.linalg.inv(points.inverse) * np.linalg.det(points.inverse)[..., None, None]
    cF = values[..., None, None] * F if values.ndim == 2 else np.matmul(values, F)
    row = np.einsum("cpi,cpij->cpj", F[..., a], cF)
    other = np.delete(row, a, axis=-1)
    right = bool(np.all(np.abs(other) <= 1e-10 * np.abs(row[..., a]).max(initial=0.0)))
    return points.weights * row[..., a], right


def masses(
    pairs: list[tuple[Basis, Coefficient]], k: int, lumped: bool
) -> tuple[list[PETSc.Mat], bool]:
    """The masses of several spaces: all diagonal if they can be, else all by exact quadrature."""
    if lumped:
        diagonal = [nodal_mass(basis, c, k) for basis, c in pairs]
        if all(A is not None for A in diagonal):
            return [A for A in diagonal if A is not None], True
    return [consistent_mass(basis, c, k + 1) for basis, c in pairs], False
