"""Walls of edge elements: what is prescribed along them, what acts on them, what absorbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt

from hamfem.discretization.assembly import assembled, diagonal_matrix, offset
from hamfem.discretization.basis import Basis
from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.sampling import FacetPoints, facet_pairs, sample
from hamfem.loads import Load, SampledLoad
from hamfem.physics.coefficient import call
from hamfem.physics.data import Data, Sampled, Separated
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]
Turn = Callable[[Array, Array], Array]


class EdgeWalls(FacetPoints):
    """Quadrature points on some facets, and moments against the basis of edge elements."""

    def __init__(self, wave: Wave, basis: Basis, names: tuple[str, ...]) -> None:
        pairs = facet_pairs(wave.domain, wave.domain.facets(*names))
        super().__init__(wave, pairs, 2 * basis.element.embedded_superdegree + 2)
        self.basis = basis

    def vector(self, values: Array) -> PETSc.Vec:
        """<values, w> for values (facets, points, components of w)."""
        moments = np.zeros((len(self.cells), self.basis.element.dim))
        for mine, cells, points in self.by_facet:
            moments[mine] = self.basis.moments(cells, points, values[mine])
        return self.basis.collected(self.cells, moments)

    def matrix(self, Y: Array) -> PETSc.Mat:
        """<Y u, w> for matrices Y at the points."""
        basis, n = self.basis, self.basis.element.dim
        blocks = np.zeros((len(self.cells), n, n))
        for mine, cells, points in self.by_facet:
            phi = basis.at(cells, points)
            weighted = self.weights[mine][..., None, None] * Y[mine]
            blocks[mine] = np.einsum("cpia,cpab,cpjb->cij", phi, weighted, phi, optimize=True)
        numbers = basis.numbers(self.cells)
        keep = np.abs(blocks) > 1e-14 * np.abs(blocks).max(initial=0.0)
        rows = np.broadcast_to(numbers[:, :, None], blocks.shape)[keep]
        columns = np.broadcast_to(numbers[:, None, :], blocks.shape)[keep]
        owned = basis.V.dofmap.index_map.size_local
        return assembled(self.wave.domain.comm, rows, columns, blocks[keep], owned)


def lumped(R: PETSc.Mat, constant: PETSc.Vec, comm: MPI.Comm) -> PETSc.Mat:
    """The diagonal matrix with the same values on a constant field, given by its dofs."""
    x = R.createVecLeft()
    R.mult(constant, x)
    d = constant.array_r
    values = np.divide(x.array_r, d, out=np.zeros(len(d)), where=np.abs(d) > 1e-12)
    return diagonal_matrix(comm, values)


class Held:
    """Some sides along which the field is prescribed, at the points that its dofs there see.

    Attributes:
        L: The dofs of values at the points, all dofs x samples of this rank.
    """

    def __init__(
        self, wave: Wave, basis: Basis, names: tuple[str, ...], data: Data, turn: Turn | None
    ) -> None:
        self.wave, self.data, self.turn = wave, data, turn
        domain, comm = wave.domain, wave.domain.comm
        pairs, own = facet_pairs(domain, domain.facets(*names)), Cells(domain)
        # For each facet of a cell: the cells, their points and normals.
        self._parts: list[tuple[Cells, Points, Array]] = []
        rows: list[Array] = []
        columns: list[Array] = []
        values: list[Array] = []
        count = 0
        a = basis.element.value_size
        for f in range(own.facet_count):
            cells = Cells(domain, own.cells[pairs[pairs[:, 1] == f, 0]])
            X, closure, M = _functionals(basis, f)
            points = cells.at(X, np.ones(len(X)))
            normals = cells.facet(f, 0).normals
            assert normals is not None
            normals = np.broadcast_to(normals[:, :1], points.x.shape)
            self._parts.append((cells, points, normals))
            n, p = len(cells), len(X)
            # Row by row: what a unit value at a point is on the reference cell, and in a dof.
            unit = np.broadcast_to(np.eye(a), (n, p, a, a))
            pulled = basis.pulled(unit, points)  # (n, p, component here, component there)
            local = np.einsum("icp,npac->nipa", M, pulled, optimize=True)
            T = basis.T[:, closure][:, :, closure]
            inverse = np.linalg.inv(np.swapaxes(T, 1, 2))[basis.orders(cells.cells)]
            local = np.einsum("nij,njpa->nipa", inverse, local, optimize=True)
            numbers = basis.numbers(cells.cells)[:, closure]
            places = count + np.arange(n * p * a).reshape(n, 1, p, a)
            rows.append(np.broadcast_to(numbers[:, :, None, None], local.shape).reshape(-1, p * a))
            columns.append(np.broadcast_to(places, local.shape).reshape(-1, p * a))
            values.append(local.reshape(-1, p * a))
            count += n * p * a
        self.count, self.comm, self.a = count, comm, a
        self.L = _once(basis, rows, columns, values, count)

    @property
    def normals(self) -> Array:
        """At all points of this rank, (points, dim)."""
        return np.concatenate([n.reshape(-1, n.shape[-1]) for _, _, n in self._parts])

    def _turned(self, values: list[Array]) -> Array:
        flat = np.concatenate([v.reshape(-1, v.shape[-1]) for v in values])
        return (flat if self.turn is None else self.turn(flat, self.normals)).reshape(-1)

    def sampled(self, f: Any) -> Array:
        """A shape at the points, turned into the field that is held."""
        parts = [
            sample(f, self.wave, cells.cells, points, "boundary data")
            for cells, points, _ in self._parts
        ]
        return self._turned(parts)

    def at(self, g: Callable[[Any, float], Any], t: float) -> Array:
        """g(x, t) at the points, likewise."""
        shape = self.wave.shape
        x = np.concatenate([p.x.reshape(-1, self.wave.domain.dim) for _, p, _ in self._parts])
        values = call(lambda x: g(x, t), x[:, None], "boundary data", shape)
        return self._turned([values.reshape(len(x), self.wave.components)])

    def loads(self, A: PETSc.Mat, derivative: int) -> list[Load | SampledLoad]:
        """A L g for the data, or a derivative of them."""
        W = A.matMult(self.L)
        if isinstance(self.data, Separated):
            amplitude = self.data.amplitude.derivative(derivative)
            x = self._vector(self.sampled(self.data.shape))
            f = W.createVecLeft()
            W.mult(x, f)
            return [Load(amplitude.value, f, amplitude.integral)]
        assert isinstance(self.data, Sampled)
        g = self.data.derivative(derivative)
        return [SampledLoad(W, lambda t: self.at(g, t))]

    def dofs(self, t: float, derivative: int) -> PETSc.Vec:
        """The dofs of what is prescribed at a time."""
        if isinstance(self.data, Separated):
            a = self.data.amplitude.derivative(derivative)(t)
            x = self._vector(a * self.sampled(self.data.shape))
        else:
            assert isinstance(self.data, Sampled)
            x = self._vector(self.at(self.data.derivative(derivative), t))
        u = self.L.createVecLeft()
        self.L.mult(x, u)
        return u

    def _vector(self, values: Array) -> PETSc.Vec:
        x = self.L.createVecRight()
        x.array[:] = values
        return x


def _functionals(basis: Basis, facet: int) -> tuple[Array, list[int], Array]:
    """What the dofs on a facet are on the reference cell.

    Returned are the points X, the dofs, and M with dof i = sum of M[i, c, p] f_c(X_p).
    """
    element, dim = basis.element, basis.V.mesh.topology.dim
    closure = basis.closure(facet)
    entities = basix.cell.sub_entity_connectivity(element.cell_type)[dim - 1][facet]
    points = [(d, e) for d in range(dim) for e in entities[d] if len(element.x[d][e])]
    X = np.concatenate([np.zeros((0, dim)), *(element.x[d][e] for d, e in points)])
    M = np.zeros((len(closure), element.value_size, len(X)))
    start = 0
    for d, e in points:
        rows = [closure.index(i) for i in element.entity_dofs[d][e]]
        n = len(element.x[d][e])
        M[rows, :, start : start + n] = element.M[d][e][..., 0]
        start += n
    return X, closure, M


def _once(
    basis: Basis, rows: list[Array], columns: list[Array], values: list[Array], count: int
) -> PETSc.Mat:
    """The matrix of rows that several facets and ranks may give: one of them counts.

    Each of the lists has arrays of global rows, places of this rank and entries, (rows, entries).
    """
    comm = basis.V.mesh.comm
    owned = basis.V.dofmap.index_map.size_local
    first = offset(comm, count)
    number = np.concatenate([r[:, 0] for r in rows if r.size] or [np.empty(0, np.int64)])
    _, chosen = np.unique(number, return_index=True)
    # The lowest rank that has a row gives it.
    everywhere = comm.allgather(number[chosen])
    before = np.concatenate([np.empty(0, np.int64), *everywhere[: comm.rank]])
    chosen = chosen[~np.isin(number[chosen], before)]
    i, j, a = [], [], []
    at = 0
    for r, c, v in zip(rows, columns, values):
        mine = chosen[(chosen >= at) & (chosen < at + len(r))] - at
        at += len(r)
        keep = np.abs(v[mine]) > 1e-14
        i.append(r[mine][keep])
        j.append(first + c[mine][keep])
        a.append(v[mine][keep])
    return assembled(comm, np.concatenate(i), np.concatenate(j), np.concatenate(a), owned, count)
