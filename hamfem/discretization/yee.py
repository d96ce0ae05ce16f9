"""The Yee scheme: E on the edges and H on the faces of a uniform grid, with diagonal masses.

    M_v dv/dt = B q - R v + f,   M_q dq/dt = -B'v,   B = -curl' U,   v = -E,   q = H,

where U are the dual volumes of the faces and curl the differences of E around them,
M_q = U / mean(1/mu), M_v = W mean(eps) with the dual volumes W of the edges. On hexahedra and
quadrilaterals hf.mixed(wave, 0) is the same with q = B. v stays 0 on conducting walls: its numbers
there have their mass and no force. Products are done by compiled stencils; matrices, which implicit
methods need, are assembled when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc
from slepc4py import SLEPc

import numpy as np
import numpy.typing as npt

from hamfem import stability
from hamfem.discretization.assembly import assembled, diagonal_matrix
from hamfem.discretization.electromagnetic import ElectromagneticState
from hamfem.discretization.yee_grid import (
    CONDUCTING,
    FREE,
    NODES,
    Family,
    Grid,
    edges,
    electric,
    faces,
    magnetic,
)
from hamfem.discretization.yee_march import DRIFT, KICK, Stencil
from hamfem.discretization.yee_points import GridPoints
from hamfem.discretization.yee_space import YeeSpace
from hamfem.flow import Half
from hamfem.layout import Piece
from hamfem.loads import Loads
from hamfem.matrices import generic_vector
from hamfem.physics.maxwell import Maxwell
from hamfem.solvers import Solve
from hamfem.state import State
from hamfem.system import FirstOrder

Array = npt.NDArray[Any]


def yee(wave: Maxwell) -> YeeSystem:
    """The Yee scheme for electromagnetic waves on hf.box(..., cell="quadrilateral"|"hexahedron").

    Of order 2, with E on the edges and H on the faces; coefficients are numbers or diagonal
    matrices: per region the means of eps and of 1/mu over the cells around an edge or a face,
    callables their values there. Sides are conductors (hf.Clamped), absorbing (hf.Impedance),
    periodic, or free; none has data.

    Args:
        wave: hf.Maxwell.
    """
    if not isinstance(wave, Maxwell):
        raise ValueError("the Yee scheme is for hf.Maxwell: take hf.cg for other waves.")
    return YeeSystem(Grid(wave))


class YeeSystem(ElectromagneticState, FirstOrder):  # type: ignore[misc]
    """The first-order system above."""

    R_q = None
    kernel = None
    at_rest = None

    def __init__(self, grid: Grid) -> None:
        self.grid, self.wave = grid, grid.wave
        self.E, self.H = electric(grid), magnetic(grid)
        wave = self.wave
        self.eps = {a: grid.coefficient(wave.eps, a, edges(a)) for a in self.E.axes}
        self.inverse_mu = {a: grid.coefficient(wave.C, a, faces(a)) for a in self.H.axes}
        inverse_eps = {a: 1 / eps for a, eps in self.eps.items()}
        self.stencil = Stencil(grid, (self.E, self.H), (inverse_eps, self.inverse_mu))
        self.space: Any = YeeSpace(self)
        self._damping = self._impedance() if wave.absorbing else None
        sources = [self.space.current(source) for source in wave.sources]
        self.loads = Loads(sources, self.new_v())
        self.flux_loads = Loads((), self.new_q())
        if sources or self._damping is not None:
            self.stencil.drive(sources, self._mass_v.array_r, self._damping)
            self.stencil.damped = self._damping is not None

    @property
    def comm(self) -> MPI.Comm:
        """The communicator."""
        return self.grid.comm

    def new_v(self) -> PETSc.Vec:
        """A vector of numbers on edges."""
        return self._vector(self.E.size)

    def new_q(self) -> PETSc.Vec:
        """A vector of numbers on faces."""
        return self._vector(self.H.size)

    def _vector(self, size: int) -> PETSc.Vec:
        x = PETSc.Vec().create(self.comm)
        x.setSizes((size, PETSc.DETERMINE))
        x.setType(PETSc.Vec.Type.STANDARD)
        x.zeroEntries()
        return x

    def _filled(self, x: PETSc.Vec, values: Array) -> PETSc.Vec:
        x.array[:] = values
        return x

    def _family(self, kind: str) -> Family:
        charges = Family(self.grid, (0,), (NODES,))
        return {"q": self.H, "v": self.E, "charges": charges}[kind]

    def pieces(self, kind: str, x: PETSc.Vec) -> list[Piece]:
        """By components, as arrays over the whole grid."""
        return self._family(kind).pieces(x.array_r)

    def restore(self, kind: str, pieces: Sequence[Piece], x: PETSc.Vec) -> None:
        """The vector from its components."""
        with x as array:
            for block, piece in zip(self._family(kind).blocks(array).values(), pieces):
                block[...] = piece.values

    # ------------------------------------------------------------ diagonals

    @cached_property
    def _volumes_v(self) -> PETSc.Vec:
        """The dual volumes W of the edges."""
        values = {a: self.grid.volumes(edges(a)) for a in self.E.axes}
        return self._filled(self.new_v(), self.E.filled(values))

    @cached_property
    def _volumes_q(self) -> PETSc.Vec:
        """The dual volumes U of the faces."""
        values = {a: self.grid.volumes(faces(a)) for a in self.H.axes}
        return self._filled(self.new_q(), self.H.filled(values))

    @cached_property
    def _mass_v(self) -> PETSc.Vec:
        values = {a: self.grid.volumes(edges(a)) * self.eps[a] for a in self.E.axes}
        return self._filled(self.new_v(), self.E.filled(values))

    @cached_property
    def _mass_q(self) -> PETSc.Vec:
        values = {a: self.grid.volumes(faces(a)) / self.inverse_mu[a] for a in self.H.axes}
        return self._filled(self.new_q(), self.H.filled(values))

    def _impedance(self) -> Array:
        """R: Y times the area of the absorbing walls that is closest to an edge, Y = sqrt(eps/mu).

        Across a wall and to E along it, H is along the third axis, and so is the mu of Y.
        """
        grid, result = self.grid, {}
        for a in self.E.axes:
            total = np.zeros(grid.shape(edges(a)))
            length = grid.volumes(edges(a)) / grid.volume
            eps = self.eps[a]
            for axis in range(grid.first, 3):
                if axis == a or not any(grid.absorbing[axis]):
                    continue
                third = 3 - a - axis
                inverse_mu = grid.coefficient(self.wave.C, third, edges(a))
                Y = np.sqrt(eps * inverse_mu)
                on = grid.on_walls(edges(a), lambda x, s, axis=axis: x == axis
                                   and grid.absorbing[x][s])  # fmt: skip
                # The dual length across the wall is half a cell, which is taken out.
                area = 2 * length * grid.volume / grid.h[axis]
                total += np.where(on, Y * area, 0.0)
            total[grid.conducting(edges(a))] = 0.0
            result[a] = total
        return self.E.filled(result)

    # ------------------------------------------------------------ assembled twins

    @cached_property
    def M_v(self) -> PETSc.Mat:
        """The mass of v."""
        return diagonal_matrix(self.comm, self._mass_v.array_r)

    @cached_property
    def M_q(self) -> PETSc.Mat:
        """The mass of q."""
        return diagonal_matrix(self.comm, self._mass_q.array_r)

    @property
    def M(self) -> PETSc.Mat:
        """The mass of v."""
        return self.M_v

    @cached_property
    def R_v(self) -> PETSc.Mat | None:  # type: ignore[override]
        """The damping of v by absorbing walls."""
        return None if self._damping is None else diagonal_matrix(self.comm, self._damping)

    @property
    def R(self) -> PETSc.Mat | None:  # type: ignore[override]
        """The damping of v."""
        return self.R_v

    @cached_property
    def B(self) -> PETSc.Mat:
        """-curl' U."""
        grid = self.grid
        rows, columns, values = [], [], []
        for c in self.H.axes:
            index = np.meshgrid(*grid.indices(faces(c)), indexing="ij")
            number = self.H.numbers(c, *index)
            U = grid.volumes(faces(c))
            a, b = (c + 1) % 3, (c + 2) % 3  # curl_c = d_a v_b - d_b v_a
            for along, of, sign in ((a, b, 1.0), (b, a, -1.0)):
                if of not in self.E.axes:
                    continue
                for step in (0, 1):
                    place = [i + step * (x == along) for x, i in enumerate(index)]
                    held = grid.conducting_at(edges(of), place)
                    entry = -sign * (2 * step - 1) * U / grid.h[along]
                    if along < grid.first:
                        continue
                    rows.append(self.E.numbers(of, *place)[~held])
                    columns.append(number[~held])
                    values.append(entry[~held])
        i, j, B = (np.concatenate(x) for x in (rows, columns, values))
        return assembled(self.comm, i, j, B, self.E.size, self.H.size)

    # ------------------------------------------------------------ maps

    @cached_property
    def _other(self) -> tuple[PETSc.Vec, PETSc.Vec]:
        """A v and a q for those that a product does not read."""
        return self.new_v(), self.new_q()

    def mass(self, v: PETSc.Vec, out: PETSc.Vec) -> None:
        """M_v v."""
        out.pointwiseMult(self._mass_v, v)

    def mass_solve(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """X = M_v^-1 r."""
        x.pointwiseDivide(r, self._mass_v)

    def flux(self, w: PETSc.Vec, out: PETSc.Vec) -> None:
        """1/mu curl w."""
        out.zeroEntries()
        self.stencil.apply(DRIFT, w, out, 1.0, False)

    def flux_solve(self, g: PETSc.Vec, out: PETSc.Vec) -> None:
        """M_q^-1 g."""
        out.pointwiseDivide(g, self._mass_q)

    def _minus_transpose(self, v: PETSc.Vec, out: PETSc.Vec) -> None:
        self.flux(v, out)
        out.pointwiseMult(self._mass_q, out)

    def restoring(self, q: PETSc.Vec, out: PETSc.Vec) -> None:
        """B q = W times the kick with eps = 1."""
        out.zeroEntries()
        self.stencil.apply(KICK, out, q, 1.0, True)
        out.pointwiseMult(self._volumes_v, out)

    @cached_property
    def _inverse_q(self) -> tuple[Solve, PETSc.Mat | None]:
        return self.flux_solve, diagonal_matrix(self.comm, 1 / self._mass_q.array_r)

    @cached_property
    def kick(self) -> Half:
        """M_v dv/dt = B q - R v + f, q standing still."""
        return replace(FirstOrder.kick.func(self), scaled=lambda h: None)  # type: ignore[attr-defined]

    @cached_property
    def drift(self) -> Half:
        """M_q dq/dt = -B'v, v standing still."""
        return Half(
            new=self.new_q,
            force=self.flux,
            solve=lambda r, x: r.copy(x),
            damped_solve=lambda a: self.flux_solve,
            R=None,
            loads=self.flux_loads,
            scaled=lambda h: None,
            integrate=True,
        )

    def compiled(self, parts: Sequence[Sequence[Any]], dt: float) -> Any:
        """The steps of a partitioned method without Python between them."""
        return self.stencil.marcher(parts, dt)

    # ------------------------------------------------------------ values on the grid

    def grid_values(self, state: State) -> dict[str, tuple[list[Array], Array]]:
        """The components of E and H on this rank, without a mesh.

        Returned are by name (Ex, Hz, ...) the coordinates along each axis of the box, and the
        values there, an array with as many axes.
        """
        result, first = {}, self.grid.first
        for name, family, x, sign in (("E", self.E, state.v, -1.0), ("H", self.H, state.q, 1.0)):
            blocks = family.blocks(x.array_r)
            for a, stagger in zip(family.axes, family.staggers):
                lines = self.grid.points(stagger)[first:]
                values = sign * blocks[a].reshape([len(line) for line in lines])
                # In a plane, axis 0 is the direction across it.
                result[name + "xyz"[(a - first) % 3]] = (lines, values)
        return result

    def at_points(self, points: Array) -> GridPoints:
        """What gives the fields of a state at points, without a mesh."""
        return GridPoints(self, points)

    # ------------------------------------------------------------ energies

    def kinetic(self, state: State) -> float:
        """The electric energy."""
        return self.stencil.energy(KICK, state.v, state.q)

    def potential(self, state: State) -> float:
        """The magnetic energy."""
        return self.stencil.energy(DRIFT, state.v, state.q)

    # ------------------------------------------------------------ the largest frequency

    @cached_property
    def uniform(self) -> tuple[float, float] | None:
        """Eps and mu if both are numbers."""
        values = [{*of.values()} if all(isinstance(v, float) for v in of.values()) else {0.0, 1.0}
                  for of in (self.eps, self.inverse_mu)]  # fmt: skip
        if any(len(v) > 1 for v in values):
            return None
        return float(values[0].pop()), 1 / float(values[1].pop())

    @cached_property
    def _max_frequency(self) -> float:
        grid = self.grid
        axes = range(grid.first, 3)
        slopes = [steepest(grid.n[a], grid.h[a], grid.walls[a], grid.periodic[a]) for a in axes]
        # A wave that is as steep as can be along every axis; where one has no slopes at all, which
        # waves there are depends on the walls.
        if self.uniform is not None and min(slopes) > 0:
            eps, mu = self.uniform
            return float(np.sqrt(sum(s * s for s in slopes) / (eps * mu)))
        return self._found_frequency()

    def _found_frequency(self) -> float:
        """The largest omega with M_v^-1/2 K M_v^-1/2 x = omega² x, by Krylov-Schur iteration."""
        root, x, y = self._mass_v.copy(), self.new_v(), self.new_v()
        root.sqrtabs()

        def apply(a: PETSc.Vec, b: PETSc.Vec) -> None:
            x.pointwiseDivide(a, root)
            self.stiffness(x, y)
            b.pointwiseDivide(y, root)

        sizes = (x.sizes, x.sizes)
        like = PETSc.Mat().createPython(sizes, comm=self.comm)
        eps = SLEPc.EPS().create(self.comm)
        eps.setOperators(stability.shell(like, apply))
        eps.setProblemType(SLEPc.EPS.ProblemType.HEP)
        eps.setWhichEigenpairs(SLEPc.EPS.Which.LARGEST_REAL)
        eps.setInitialSpace([generic_vector(x, 1.0)])
        # The error of the eigenvalue is the square of that of the vector.
        eps.setTolerances(1e-7, 10_000)
        eps.solve()
        largest = eps.getEigenvalue(0).real if eps.getConverged() else np.nan
        eps.destroy()
        if not np.isfinite(largest):
            raise RuntimeError("the largest frequency of the Yee scheme was not found.")
        return float(np.sqrt(max(largest, 0.0)))


def steepest(n: int, h: float, walls: Sequence[int], periodic: bool) -> float:
    """The largest singular value of the differences of n cells of length h, half ones at walls.

    2/h sin(theta/2) with the largest phase theta from cell to cell: pi between free walls (a zigzag
    ends with a crest), pi (n-1)/n between conductors and pi (2n-1)/(2n) between one of each;
    periodic cells need a whole number of waves.
    """
    if periodic:
        theta = 2 * np.pi * (n // 2) / n
    else:
        theta = np.pi * (1 - sum(wall == CONDUCTING for wall in walls) / (2 * n))
        assert all(wall in (FREE, CONDUCTING) for wall in walls)
    return float(2 / h * np.sin(theta / 2))
