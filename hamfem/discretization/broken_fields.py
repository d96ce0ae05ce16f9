"""What the numbers of HDG methods for Maxwell's equations stand for: starts, fields and charges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.assembly import assembled, offset
from hamfem.discretization.basis import Basis
from hamfem.discretization.broken import BrokenSpace
from hamfem.discretization.electromagnetic import ElectromagneticSpace, check_curl
from hamfem.discretization.flux_spaces import cell_function, legendre_space
from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.gradients import Charges, Gradients
from hamfem.discretization.initial_fields import InitialFields
from hamfem.discretization.local import Hybrid
from hamfem.discretization.named_fields import Makers, made
from hamfem.discretization.potentials import Potentials, side_by_side
from hamfem.discretization.start import INTERPOLATION, Data, FarSolve, is_zero, steady_but_for_rest
from hamfem.physics.boundary import Clamped, Impedance
from hamfem.state import State

Array = npt.NDArray[Any]


class BrokenFields(ElectromagneticSpace, BrokenSpace):
    """A and -E, or -E alone, in P_k of each cell."""

    def __init__(self, hybrid: Hybrid, system: Any) -> None:
        BrokenSpace.__init__(self, hybrid, system)
        self.degree = hybrid.degree
        self._charges: Charges | None = None
        self.gradients: Gradients | None = None

    def begin(self) -> None:
        """Once the system has its loads: what counts the charges."""
        if self.wave.scalar:
            return
        G, inside = gradients_in_cells(self.hybrid, self.system.new_v().local_size)
        self.gradients = Gradients(G, self.system.M, inside)
        self._charges = Charges(self.gradients, self.system.loads)
        self.system.at_rest = self.gradients

    # ------------------------------------------------------------ starts

    def start(self, fields: InitialFields, start: str) -> State:
        """A and -E by shifted elliptic projections, whose charges are those of the data."""
        state = State(self._start_q(fields, start), self._start_v(fields, start))
        if self._charges is not None:
            self._charges.remember(state)
        return state

    def _start_v(self, fields: InitialFields, start: str) -> PETSc.Vec:
        return self._shifted(fields.given_E, "the initial E", start, 1)

    def _start_q(self, fields: InitialFields, start: str) -> PETSc.Vec:
        """A, or the potential of B that has no gradients in it."""
        system = self.system
        if fields.A is not None:
            return self._shifted(fields.A, "the initial A", start, 0)
        if fields.without_B:
            return system.new_q()
        F = self.steady_forces(system, MagneticData(fields))
        u = steady_but_for_rest(system, F, FarSolve(system, self.wave.slowest_crossing))
        found = 2 * system.potential(State(u, system.new_v()))
        check_curl(fields, self.energy_of(fields), found)
        return u

    def energy_of(self, fields: InitialFields) -> float:
        """(H, B) of the data."""
        total = 0.0
        for _, cells in self.hybrid.batches():
            points = cells.volume(self.quadrature)
            product = (fields.H(cells, points) * fields.B(cells, points)).sum(axis=-1)
            total += float((product * points.weights).sum())
        return self.domain.comm.allreduce(total)

    def _shifted(self, f: Any, what: str, start: str, derivative: int) -> PETSc.Vec:
        """A or -E from (K + M/c) x = K f + M f/c, with c the square of the time to cross.

        With nothing but a projection in the mean square, E was measured to lose half an order and
        more. A steady problem K x = K f leaves gradients open, which the shift takes from f.
        """
        system, wave, sign = self.system, self.wave, -1.0 if derivative else 1.0
        moments = self.vector(self.moments(f, what, wave.rho), system.new_v)
        moments.scale(sign)
        data = Data(wave, f, self.hybrid.degree + INTERPOLATION)
        loads = system.boundary_loads(derivative)
        if start == "projection" or loads is None or (is_zero(f) and not loads):
            return self._projected(moments, f, what, sign)
        r, c = self.steady_forces(system, data), wave.slowest_crossing**2
        r.scale(sign)
        loads.add([0.0], [1.0], r)
        r.scale(c)
        r.axpy(1.0, moments)
        x = r.duplicate()
        system.shifted(c)(r, x)
        if self.gradients is not None:
            self.gradients.give(self.gradients.forces(moments), x)
        return x

    def _projected(self, moments: PETSc.Vec, f: Any, what: str, sign: float) -> PETSc.Vec:
        """The nearest function in the norm of the energy, with its traces on absorbing walls."""
        system = self.system
        if not system.massless:
            x = moments.duplicate()
            system.mass_solve(moments, x)
            return x
        cells = sign * self.project(f, what)
        x = self.vector(cells, system.new_q)
        system.set_wall(x, system.wall.from_cells(self.hybrid, cells))
        return x

    # ------------------------------------------------------------ fields

    @property
    def V_q(self) -> fem.FunctionSpace:
        """H: a number if it stands across the plane."""
        n = len(self.wave.symbol)
        if not hasattr(self, "_V_q"):
            self._V_q = legendre_space(self.domain, self.hybrid.degree, () if n == 1 else (n,))
        return self._V_q

    def flux_function(self, q: Array) -> fem.Function:
        """H from its coefficients, (cells, components x functions)."""
        return cell_function(self.V_q, q, "H")

    def _primary(self, state: State, flux: Callable[[], Array]) -> Makers:
        split = self.system.split
        return {
            "A": lambda: self.function(split(state.q)[0], "A"),
            "E": lambda: self.function(-split(state.v)[0], "E"),
            "H": lambda: self.flux_function(flux()),
        }

    def makers(self, state: State) -> Makers:
        """A, E, H and B, and of fields across the plane A_star and E_star in P_(k+1)."""
        result = dict(super().makers(state))
        for star, name, sign in (("u_star", "A_star", 1.0), ("v_star", "E_star", -1.0)):
            if star in result:
                result[name] = partial(_scaled, result.pop(star), sign, name)
        return result

    def tracked(self, state: State) -> dict[str, fem.Function]:
        """The fields, and in 3D the rates that curls stand for."""
        system, fields = self.system, made(self.primary(state))
        if self.domain.dim == 2 or system.massless:
            return fields
        force, rate = system.new_v(), system.new_v()
        system.restoring(state.q, force)
        system.mass_solve(force, rate)
        rate_E = self.function(-system.split(rate)[0], "rate_E")
        rate_H = self.flux_function(system.flux_of(state.v, state.t, 1))
        return {**fields, "rate_E": rate_E, "rate_H": rate_H}

    # ------------------------------------------------------------ charges

    def charges(self, state: State) -> dict[str, float]:
        """The electric charge as a drift since the start; the magnetic one, which is 0."""
        result = {}
        if self._charges is not None and self.gradients is not None:
            result["electric_charge"] = self._charges.drift(state)
            result["total_charge"] = self.gradients.total(self._charges.of(state))
        if self.weak_magnetic is not None:
            result["magnetic_charge"] = self.weak_magnetic(self.fields(state, "B")["B"])
        return result


def _scaled(make: Callable[[], fem.Function], factor: float, name: str) -> fem.Function:
    """Another field times a factor."""
    f = make()
    f.name = name
    f.x.array[:] *= factor
    return f


class MagneticData(Data):
    """The H of the data in place of that of a potential."""

    def __init__(self, fields: InitialFields) -> None:
        super().__init__(fields.wave, 0, 0)
        self._fields = fields

    def flux(self, cells: Cells, points: Points) -> Array:
        """H at the points."""
        return self._fields.H(cells, points)


def gradients_in_cells(hybrid: Hybrid, length: int) -> tuple[PETSc.Mat, int]:
    """The gradients of potentials in CG_(k+1) in the basis of the cells.

    Args:
        hybrid: The spaces.
        length: How long vectors are on this rank; traces on absorbing walls are 0.

    Returns:
        One column for each potential, and how many of this rank, the first ones, are 0 on walls.
    """
    wave, comm = hybrid.wave, hybrid.wave.domain.comm
    V = fem.functionspace(wave.domain.mesh, ("Lagrange", hybrid.degree + 1))
    S, own = Basis(V), wave.domain.own_cells
    X, w = basix.make_quadrature(hybrid.cells.type, 2 * hybrid.degree)
    psi = hybrid.element.tabulate(0, X)[0, :, :, 0]
    table = S.element.tabulate(1, X)[1:, :, :, 0]
    reference = np.einsum("p,pf,rps->rfs", w, psi, table)  # the basis psi is orthonormal
    inverse = hybrid.cells.at(X[:1], w[:1]).inverse[:, 0]
    values = np.einsum("cri,rfs->cifs", inverse, reference, optimize=True)
    n = len(own) * hybrid.size
    values = values.reshape(n, -1)
    rows = np.broadcast_to(offset(comm, length) + np.arange(n)[:, None], values.shape)
    columns = np.repeat(S.numbers(own), hybrid.size, axis=0)
    keep = np.abs(values) > 1e-14 * np.abs(values).max(initial=0.0)
    G = assembled(
        comm, rows[keep], columns[keep], values[keep], length, V.dofmap.index_map.size_local
    )
    walls = np.union1d(wave.facets(Clamped), wave.facets(Impedance)).astype(np.int32)
    potentials = Potentials(S, wave, walls)
    inside, others = G.matMult(potentials.inside), []
    for phi in potentials.others:
        others.append(inside.createVecLeft())
        G.mult(phi, others[-1])
    return side_by_side(inside, others), inside.getLocalSize()[1]
