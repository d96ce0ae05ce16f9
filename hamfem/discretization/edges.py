"""Edge elements for Maxwell's equations: spaces, masses, walls and loads of all their forms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.assembly import assembled, diagonal_matrix
from hamfem.discretization.basis import Basis
from hamfem.discretization.constraints import Constraint
from hamfem.discretization.de_rham import DeRham
from hamfem.discretization.degree import checked_degree
from hamfem.discretization.edge_mass import masses
from hamfem.discretization.edge_walls import EdgeWalls, Held, lumped
from hamfem.discretization.electromagnetic import Roles
from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.gradients import Gradients
from hamfem.discretization.nodal import owned_vector
from hamfem.discretization.potentials import Potentials, side_by_side
from hamfem.discretization.sampling import (
    check_along_wall,
    data_loads,
    sample,
    source_load,
    weighted,
)
from hamfem.discretization.solenoidal import Solenoidal, Values
from hamfem.physics.boundary import Clamped, Free, Impedance, Periodic
from hamfem.physics.maxwell import Maxwell
from hamfem.solvers import solver

Array = npt.NDArray[Any]
# Cells are treated in batches that bound the memory.
_BATCH = 1024


class Edges:
    """What the mixed method and the potential form are made of.

    Args:
        wave: The physics.
        degree: k, at least 0.
        dual: Whether v is H, and not -E.
        lumped: Whether the masses are diagonal where they can be.

    Attributes:
        complex: The spaces V of v and W of q, and their derivatives, without walls.
        on_V: What walls hold and identify of v; on_W of q.
        curl: v -> q, between free numbers.
        M_v: The mass of v on free numbers; M_q that of q; R the damping of v.
        diagonal: Whether both masses are diagonal.
        gradients: The fields at rest, where there are any.
        held: The sides along which v is prescribed and not 0.
    """

    def __init__(self, wave: Maxwell, degree: int, dual: bool = False, lumped: bool = True) -> None:
        self.wave, self.k, self.roles = wave, checked_degree(degree), Roles(wave, dual)
        domain, roles, k = wave.domain, self.roles, self.k
        if not Cells(domain).affine:
            raise ValueError(
                "edge elements need affine cells (triangles, tetrahedra, parallelograms), and some "
                "cell of the mesh is not: take simplices."
            )
        self.complex = DeRham(domain, k, roles.across)
        V, W = self.complex.V, self.complex.W
        walls = roles.held_facets()
        self.on_V = Constraint(V, wave, walls)
        self.on_W = Constraint(W, wave, np.empty(0, np.int32))
        self.curl = self.on_V.mapped(self.complex.curl, self.on_W)
        (full_M, full_M_q), self.diagonal = masses(
            [(V, roles.rho), (W, roles.C)], k, lumped and self.complex.tensor
        )
        self.M_v = self._reduced(self.on_V, full_M)
        self.M_q = self._reduced(self.on_W, full_M_q)
        self.full_R = self._damping()
        self.R = None if self.full_R is None else self._reduced(self.on_V, self.full_R)
        self.gradients = self._at_rest(walls)
        self.held: list[Held] = []
        for c in wave.boundary:
            if isinstance(c, Clamped | Free) and isinstance(c, roles.holding) and c.value:
                turn = roles.held if dual else None
                self.held.append(Held(wave, V, c.names, c.value, turn))
        # On all dofs, for what is prescribed along walls.
        self.full_M: Any = full_M if self.held else None
        self.full_M_q: Any = full_M_q if self.held else None

    def _reduced(self, constraint: Constraint, M: PETSc.Mat) -> PETSc.Mat:
        """P'MP; of a diagonal M the diagonal and nothing else."""
        if not self.diagonal:
            A = constraint.form(M)
        else:
            squares = constraint.P.copy()
            indptr, indices, values = squares.getValuesCSR()
            squares.setValuesCSR(indptr, indices, values**2)
            squares.assemble()
            d = squares.createVecRight()
            squares.multTranspose(M.getDiagonal(), d)
            A = diagonal_matrix(self.wave.domain.comm, d.array)
        A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        return A

    def _at_rest(self, walls: npt.NDArray[np.int32]) -> Gradients | None:
        """The fields without curl that are 0 along walls: gradients, or across the plane 1."""
        wave, S = self.wave, self.complex.S
        walls = np.union1d(walls, wave.facets(Impedance)).astype(np.int32)
        if S is not None:
            potentials = Potentials(S, wave, walls)

            def gradient(phi: PETSc.Vec) -> PETSc.Vec:
                v = self.complex.gradient.createVecLeft()
                self.complex.gradient.mult(phi, v)
                return self.on_V.picked(v)

            inside = self.on_V.rows(self.complex.gradient.matMult(potentials.inside))
            others = [gradient(phi) for phi in potentials.others]
            return Gradients(side_by_side(inside, others), self.M_v, inside.getLocalSize()[1])
        comm = wave.domain.comm
        if comm.allreduce(len(walls)):
            return None
        one = self.on_V.picked(constant_field(self.complex.V))
        first, last = one.getOwnershipRange()
        rows = np.arange(first, last)
        columns = int(comm.rank == 0)
        G = assembled(comm, rows, 0 * rows, one.array_r, last - first, columns)
        return Gradients(G, self.M_v, 0)

    def _damping(self) -> PETSc.Mat | None:
        """<Y u, w> on absorbing walls; diagonal if the masses are."""
        wave = self.wave
        if not wave.absorbing:
            return None
        names = [n for c in wave.boundary if isinstance(c, Impedance) for n in c.names]
        walls = EdgeWalls(wave, self.complex.V, tuple(names))
        R = walls.matrix(self.roles.impedance(walls))
        return lumped(R, constant_field(self.complex.V), wave.domain.comm) if self.diagonal else R

    # ------------------------------------------------------------ loads

    def loads(self) -> list[Any]:
        """What currents and the data of free and absorbing walls do to v."""
        wave, roles = self.wave, self.roles
        found: list[Any] = []
        if not roles.dual:
            for source in wave.sources:
                f = self.on_V.forces(self.moments(partial(self._current, source.shape)))
                found.append(source_load(f, source.amplitude))
        for c in wave.boundary:
            if isinstance(c, Periodic) or c.value is None:
                continue
            walls = EdgeWalls(wave, self.complex.V, c.names)
            check_along_wall(c, walls)
            if not isinstance(c, roles.holding):
                pushed = partial(self._pushed, c, walls)
                found += data_loads(c.value, walls, pushed, int(isinstance(c, Clamped)))
        return found

    def _current(self, shape: Any, cells: Cells, points: Points) -> Array:
        return sample(shape, self.wave, cells.cells, points, "a source")

    def _pushed(self, condition: Any, walls: EdgeWalls, values: Array) -> PETSc.Vec:
        return self.on_V.forces(walls.vector(self.roles.pushing(condition, walls, values)))

    def currents_in_flux(self) -> list[Any]:
        """Of the dual form: the J_h of each current in W, with div J_h that of J on average."""
        found = []
        for source in self.wave.sources if self.roles.dual else ():
            J = partial(self._current, source.shape)

            def scaled(cells: Cells, points: Points, J: Values = J) -> Array:
                return weighted(self.roles.C, cells, points, J(cells, points))

            found.append((source.amplitude, self.nearest_flux(scaled, J)))
        return found

    def held_loads(self, A: PETSc.Mat, derivative: int) -> list[Any]:
        """-A L for what is prescribed along walls, or a derivative of it."""
        minus = A.copy()
        minus.scale(-1.0)
        return [load for held in self.held for load in held.loads(minus, derivative)]

    @cached_property
    def forces_of(self) -> PETSc.Mat:
        """P'."""
        return self.on_V.P.transpose(PETSc.Mat())

    # ------------------------------------------------------------ projections

    def moments(self, values: Values) -> PETSc.Vec:
        """(values, w) for all w in V."""
        return _moments(self.complex.V, self.wave, self.k, values)

    def nearest(self, moments: PETSc.Vec, t: float = 0.0) -> PETSc.Vec:
        """The free numbers of the v with (rho v, w) = moments, as prescribed along walls."""
        r = moments.copy()
        for held in self.held:
            Mu = r.duplicate()
            self.full_M.mult(held.dofs(t, self.roles.order), Mu)
            r.axpy(-1.0, Mu)
        return self.on_V.forces(r)

    @cached_property
    def _solenoidal(self) -> Solenoidal | None:
        """For fluxes with normal parts; None for numbers across the plane, which have none."""
        W = self.complex.W
        if W.element.value_size == 1:
            return None
        return Solenoidal(self.wave, W, self.k, self.roles.C.inverse())

    def nearest_flux(self, e: Values, divergence: Values | None) -> PETSc.Vec:
        """The free numbers of the nearest q, see Solenoidal.project."""
        if self._solenoidal is not None:
            return self.on_W.picked(self._solenoidal.project(e, divergence))
        r = self.flux_moments(e)
        q = r.duplicate()
        solver(self.M_q, "hamfem_flux_mass_").solve(r, q)
        return q

    def flux_moments(self, values: Values) -> PETSc.Vec:
        """(values, r) for the free r in W."""
        return self.on_W.forces(_moments(self.complex.W, self.wave, self.k, values))

    def integral(self, f: Values, g: Values) -> float:
        """(f, g)."""
        domain, total = self.wave.domain, 0.0
        for cells, points in _batches(self.wave, self.k):
            product = (f(cells, points) * g(cells, points)).sum(axis=-1)
            total += float((product * points.weights).sum())
        return domain.comm.allreduce(total)

    @cached_property
    def volumes(self) -> PETSc.Vec:
        """The integrals of the functions of Q."""
        assert self.complex.Q is not None
        return _moments(
            self.complex.Q, self.wave, self.k, lambda _, points: np.ones((*points.x.shape[:2], 1))
        )


def _moments(basis: Basis, wave: Maxwell, k: int, values: Values) -> PETSc.Vec:
    """(values, w) for all functions w of the basis."""
    parts = [np.zeros((0, basis.element.dim))]
    for cells, points in _batches(wave, k):
        parts.append(basis.moments(cells, points, values(cells, points)))
    return basis.collected(wave.domain.own_cells, np.concatenate(parts))


def _batches(wave: Maxwell, k: int) -> Iterator[tuple[Cells, Points]]:
    """The cells of this rank, some at a time, with points for data."""
    domain = wave.domain
    for start in range(0, len(domain.own_cells), _BATCH):
        cells = Cells(domain, domain.own_cells[start : start + _BATCH])
        yield cells, cells.volume(2 * k + 10)


def constant_field(basis: Basis) -> PETSc.Vec:
    """The dofs of a constant field that is along no axis."""
    f = fem.Function(basis.V)
    n = basis.element.value_size
    direction = np.array([1.0, np.sqrt(2.0), np.sqrt(3.0)])[:n, None]
    f.interpolate(lambda x: np.broadcast_to(direction, (n, x.shape[1])))
    return owned_vector(basis.V, f.x.array)
