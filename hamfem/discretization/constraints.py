"""Dofs that walls hold, and periodic sides whose dofs are one: u = P z with free numbers z."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import fem
from scipy.spatial import cKDTree

from hamfem.discretization.assembly import assembled
from hamfem.discretization.basis import Basis
from hamfem.discretization.geometry import Cells
from hamfem.discretization.sampling import facet_pairs
from hamfem.discretization.trace import translation
from hamfem.physics.boundary import Periodic
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]


class Constraint:
    """u = P z: held dofs are 0, and those on second sides follow from those on first sides.

    Attributes:
        P: One row for each dof, one column for each free number.
        free: The global numbers of the dofs that z holds.
        partners: For each periodic pair, the dofs on its second side, and of each the one dof on
            the first side that it is most like; known to all ranks.
    """

    def __init__(self, basis: Basis, wave: Wave, held: npt.NDArray[np.int32]) -> None:
        V, domain = basis.V, wave.domain
        index_map = V.dofmap.index_map
        owned, start = index_map.size_local, index_map.local_range[0]
        own = start + np.arange(owned)
        facets_dim = domain.dim - 1
        domain.mesh.topology.create_connectivity(facets_dim, domain.dim)
        is_free = np.ones(owned, bool)
        dofs = fem.locate_dofs_topological(V, facets_dim, held)
        is_free[dofs[dofs < owned]] = False
        P = None
        self.partners: list[tuple[Array, Array]] = []
        for pair in wave.boundary:
            if not isinstance(pair, Periodic):
                continue
            rows, columns, values = _identified(basis, wave, pair)
            likest = np.abs(values).argmax(axis=1)[:, None] if values.size else rows[:, None]
            self.partners.append((rows, np.take_along_axis(columns, likest, axis=1)[:, 0]))
            mine = (rows >= start) & (rows < start + owned)
            rows, columns, values = rows[mine], columns[mine], values[mine]
            alone = np.ones(owned, bool)
            alone[rows - start] = False
            is_free &= alone
            rows = np.concatenate([np.repeat(rows, columns.shape[1]), own[alone]])
            columns = np.concatenate([columns.ravel(), own[alone]])
            values = np.concatenate([values.ravel(), np.ones(alone.sum())])
            keep = values != 0.0
            matrix = assembled(domain.comm, rows[keep], columns[keep], values[keep], owned)
            P = matrix if P is None else P.matMult(matrix)
        if P is None:
            P = assembled(domain.comm, own, own, np.ones(owned), owned)
        self.free = PETSc.IS().createGeneral(own[is_free].astype(PETSc.IntType), comm=P.comm)
        all_rows = PETSc.IS().createStride(owned, start, 1, comm=P.comm)
        self.P = P.createSubMatrix(all_rows, self.free)

    def identified(self, numbers: Array) -> Array:
        """The global numbers of the dofs that stand for these, if dofs correspond one by one."""
        for second, first in self.partners:
            if len(second):
                place = np.minimum(np.searchsorted(second, numbers), len(second) - 1)
                numbers = np.where(second[place] == numbers, first[place], numbers)
        return numbers

    def full(self, z: PETSc.Vec) -> PETSc.Vec:
        """All dofs of free numbers."""
        u = self.P.createVecLeft()
        self.P.mult(z, u)
        return u

    def forces(self, f: PETSc.Vec) -> PETSc.Vec:
        """What forces on all dofs are for the free numbers: P'f."""
        x = self.P.createVecRight()
        self.P.multTranspose(f, x)
        return x

    def picked(self, u: PETSc.Vec) -> PETSc.Vec:
        """The free numbers of a u that the constraint allows."""
        x = self.P.createVecRight()
        part = u.getSubVector(self.free)
        x.array[:] = part.array_r
        u.restoreSubVector(self.free, part)
        return x

    def form(self, A: PETSc.Mat) -> PETSc.Mat:
        """P'AP."""
        if not self.partners:
            return A.createSubMatrix(self.free, self.free)
        return A.ptap(self.P).copy()  # a product keeps its factors, a copy does not

    def mapped(self, A: PETSc.Mat, to: Constraint) -> PETSc.Mat:
        """A map of this space into another one, between free numbers."""
        return to.rows(A.matMult(self.P))

    def rows(self, A: PETSc.Mat) -> PETSc.Mat:
        """Of a map into this space the rows of the free numbers."""
        first, last = A.getOwnershipRangeColumn()
        columns = PETSc.IS().createStride(last - first, first, 1, comm=A.comm)
        return A.createSubMatrix(self.free, columns)


def _identified(basis: Basis, wave: Wave, pair: Periodic) -> tuple[Array, Array, Array]:
    """The dofs on the second side, and what each is of the dofs on the first side; on all ranks.

    The traces of both sides are compared at the points of each facet. Returned are global dofs
    (n,), sorted, and the numbers and the factors, (n, m), of the m dofs of the partner facet.
    """
    domain, comm = wave.domain, wave.domain.comm
    shift = translation(domain, pair)[: domain.dim]
    sides = []
    for name, sign in ((pair.first, 1.0), (pair.second, -1.0)):
        sides.append(_traces(basis, wave, name, sign))
    parts = zip(*comm.allgather(sides[0]))
    x1, traces1, numbers1 = (np.concatenate(part) for part in parts)
    x2, traces2, numbers2 = sides[1]
    m = numbers1.shape[1]
    far, scale = 0.0, wave.diameter
    rows: Array = np.empty(0, np.int64)
    columns: Array = np.empty((0, m), np.int64)
    values: Array = np.empty((0, m))
    if len(x2) and m:
        x2 = x2 - shift
        distance, partner = cKDTree(x1.mean(axis=1)).query(x2.mean(axis=1))
        far = float(distance.max())
        apart = np.linalg.norm(x2[:, :, None] - x1[partner][:, None], axis=-1)
        order = np.argmin(apart, axis=2)  # the same point as seen from the first side
        far = max(far, float(np.take_along_axis(apart, order[..., None], axis=2).max()))
        there = np.take_along_axis(traces1[partner], order[:, :, None, None], axis=1)

        def flat(t: Array) -> Array:
            return t.transpose(0, 1, 3, 2).reshape(len(t), -1, m)

        factors = np.linalg.pinv(flat(traces2)) @ flat(there)  # (facets, dofs 2, dofs 1)
        factors[np.abs(factors) < 1e-11] = 0.0
        rows = numbers2.reshape(-1)
        columns = np.repeat(numbers1[partner][:, None], m, axis=1).reshape(-1, m)
        values = factors.reshape(-1, m)
    if comm.allreduce(far, MPI.MAX) > 1e-6 * scale:
        raise ValueError(
            "periodic sides must be translates of each other: a facet of the second side has no "
            "partner on the first."
        )
    parts = zip(*comm.allgather((rows, columns, values)))
    rows, columns, values = (np.concatenate(part) for part in parts)
    rows, first = np.unique(rows, return_index=True)
    return rows, columns[first], values[first]


def _traces(basis: Basis, wave: Wave, name: str, sign: float) -> tuple[Array, Array, Array]:
    """On each facet of a side: points, what of the basis is continuous there, global dofs."""
    domain = wave.domain
    pairs = facet_pairs(domain, domain.facets(name))
    own = Cells(domain)
    degree = 2 * basis.element.embedded_superdegree + 2
    x, traces, numbers = [], [], []
    for f in range(own.facet_count):
        cells = Cells(domain, own.cells[pairs[pairs[:, 1] == f, 0]])
        points = cells.facet(f, degree)
        closure = basis.closure(f)
        phi = basis.at(cells, points)[:, :, closure]
        assert points.normals is not None
        normals = sign * np.broadcast_to(points.normals, points.x.shape)[:, :, None]
        x.append(points.x)
        traces.append(_continuous_part(basis.map, phi, normals))
        numbers.append(basis.numbers(cells.cells)[:, closure])
    return np.concatenate(x), np.concatenate(traces), np.concatenate(numbers)


def _continuous_part(kind: basix.MapType, phi: Array, normals: Array) -> Array:
    """What neighbours agree on: values, tangential or normal parts, (..., components)."""
    if kind == basix.MapType.identity:
        return phi
    if kind == basix.MapType.contravariantPiola:
        return (phi * normals).sum(axis=-1, keepdims=True)
    if phi.shape[-1] == 2:
        return (phi[..., 1] * normals[..., 0] - phi[..., 0] * normals[..., 1])[..., None]
    return np.cross(np.broadcast_to(normals, phi.shape), phi)
