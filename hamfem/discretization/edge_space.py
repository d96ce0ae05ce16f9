"""What the numbers of edge elements stand for: starts, fields and charges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from petsc4py import PETSc

import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.basis import Basis
from hamfem.discretization.constraints import Constraint
from hamfem.discretization.edges import Edges
from hamfem.discretization.electromagnetic import MISSING, ElectromagneticSpace, check_curl
from hamfem.discretization.gradients import Charges
from hamfem.discretization.initial_fields import InitialFields
from hamfem.discretization.named_fields import Makers, made
from hamfem.discretization.start import FarSolve, steady_but_for_rest
from hamfem.loads import Load, Loads
from hamfem.state import State

Array = npt.NDArray[Any]


class EdgeSpace(ElectromagneticSpace):
    """v in V and q in W: -E and B, or dually H and D."""

    def __init__(self, edges: Edges, system: Any) -> None:
        self.edges, self.system, self.wave = edges, system, edges.wave
        self.degree, self.dual = edges.k, edges.roles.dual
        self._weak: Charges | None = None
        self._strong: Charges | None = None

    def begin(self) -> None:
        """Once the system has its loads: what counts the conserved charges."""
        edges = self.edges
        if edges.gradients is not None and not edges.roles.across:
            self._weak = Charges(edges.gradients, self.system.loads)
        if self.dual and edges.complex.Q is not None:
            currents = [
                Load(lambda t, a=a: -a(t), J)  # type: ignore[misc]
                for a, J in edges.currents_in_flux()
            ]
            self._strong = Charges(Divergence(edges), Loads(currents, self.system.new_q()), "q")

    # ------------------------------------------------------------ starts

    def start(self, fields: InitialFields, start: str) -> State:
        """The nearest v, and the nearest q with the divergence of the data."""
        state = State(self._start_q(fields), self._start_v(fields))
        for charges in (self._weak, self._strong):
            if charges is not None:
                charges.remember(state)
        return state

    def _start_v(self, fields: InitialFields) -> PETSc.Vec:
        """(rho v, w) = (-D, w), or dually (B, w)."""
        edges = self.edges
        if fields.without_B if self.dual else fields.without_E:
            r = edges.on_V.P.createVecLeft()
        else:
            r = edges.moments(fields.B if self.dual else fields.D)
            r.scale(1.0 if self.dual else -1.0)
        r = edges.nearest(r)
        v = r.duplicate()
        self.system.mass_solve(r, v)
        return v

    def _start_q(self, fields: InitialFields) -> PETSc.Vec:
        """B without divergence, or D with that of the data."""
        edges = self.edges
        if fields.without_E if self.dual else fields.without_B:
            return self.system.new_q()
        if self.dual:
            return edges.nearest_flux(fields.E, fields.D)
        if fields.A is not None:
            # The curl of an interpolant has no divergence.
            u = edges.complex.V.interpolant(fields.A, self.wave.shape)
            q = edges.complex.curl.createVecLeft()
            edges.complex.curl.mult(u, q)
            return edges.on_W.picked(q)
        q = edges.nearest_flux(fields.H, None)
        r = q.duplicate()
        self.system.M_q.mult(q, r)
        whole, found = edges.integral(fields.H, fields.B), float(q.dot(r))
        if found < (1 - MISSING) * whole:
            raise ValueError(
                f"the initial B is not free of divergence ({1 - found / whole:.0%} of its energy "
                "is no curl): there are no magnetic charges, correct it."
            )
        return q

    # ------------------------------------------------------------ rows of cells

    def _places(self, half: str) -> tuple[Basis, Constraint]:
        """Where a half of the state lives."""
        edges = self.edges
        if half == "q":
            return edges.complex.W, edges.on_W
        return edges.complex.V, edges.on_V

    def cell_rows(self, half: str, x: PETSc.Vec) -> Array:
        """The coefficients in each cell."""
        basis, constraint = self._places(half)
        return basis.rows(constraint.full(x))

    def set_cell_rows(self, half: str, rows: Array, x: PETSc.Vec) -> None:
        """The vector with these coefficients."""
        basis, constraint = self._places(half)
        constraint.picked(basis.from_rows(rows)).copy(x)

    # ------------------------------------------------------------ fields

    def v_dofs(self, state: State) -> PETSc.Vec:
        """All dofs of v, with what walls prescribe."""
        edges = self.edges
        u = edges.on_V.full(state.v)
        for held in edges.held:
            u.axpy(1.0, held.dofs(state.t, edges.roles.order))
        return u

    def q_dofs(self, state: State) -> PETSc.Vec:
        """All dofs of the flux."""
        return self.edges.on_W.full(state.q)

    def primary(self, state: State) -> Makers:
        """E and B, or dually H and D."""
        V, W = self.edges.complex.V, self.edges.complex.W
        name, flux = ("H", "D") if self.dual else ("E", "B")

        def on_edges() -> fem.Function:
            v = self.v_dofs(state)
            if not self.dual:
                v.scale(-1.0)
            return V.function(v, name)

        return {name: on_edges, flux: lambda: W.function(self.q_dofs(state), flux)}

    def tracked(self, state: State) -> dict[str, fem.Function]:
        """The fields, and in 3D what both curls are."""
        fields = made(self.primary(state))
        if self.wave.domain.dim == 2:
            return fields
        V, W, system = self.edges.complex.V, self.edges.complex.W, self.system
        force, rate = system.new_v(), system.new_v()
        curl = self.edges.complex.curl.createVecLeft()
        self.edges.complex.curl.mult(self.v_dofs(state), curl)
        system.restoring(state.q, force)
        system.mass_solve(force, rate)
        rate = self.edges.on_V.full(rate)
        exact, weak = ("curl_H", "rate_H") if self.dual else ("curl_E", "rate_E")
        for x in (curl, rate):
            x.scale(1.0 if self.dual else -1.0)
        return {**fields, exact: W.function(curl, exact), weak: V.function(rate, weak)}

    # ------------------------------------------------------------ charges

    def charges(self, state: State) -> dict[str, float]:
        """The electric charge as a drift since the start; the magnetic one, which is 0."""
        edges, weak, strong, result = self.edges, self._weak, self._strong, {}
        if self.dual:
            if strong is not None:
                result["electric_charge"] = strong.drift(state)
                result["total_charge"] = float(self.edges.volumes.dot(strong.of(state)))
            if weak is not None and edges.gradients is not None:
                # Not the flux through holes, which is no charge.
                result["magnetic_charge"] = edges.gradients.size(weak.of(state), inside=True)
            return result
        if weak is not None and edges.gradients is not None:
            result["electric_charge"] = weak.drift(state)
            result["total_charge"] = edges.gradients.total(weak.of(state))
        if self.weak_magnetic is not None:
            q, divergence = self.q_dofs(state), self.edges.complex.divergence
            d = divergence.createVecLeft()
            divergence.mult(q, d)
            result["magnetic_charge"] = float(d.norm(PETSc.NormType.INFINITY))
            B = self.edges.complex.W.function(q, "B")
            result["magnetic_charge_weak"] = self.weak_magnetic(B)
        return result


class PotentialSpace(EdgeSpace):
    """u and v in V: A and -E, with B = curl A."""

    def _places(self, half: str) -> tuple[Basis, Constraint]:
        """Both halves live in V."""
        return super()._places("v")

    def _start_q(self, fields: InitialFields) -> PETSc.Vec:
        """A: its interpolant, or the one with the curl B that vanishes along held walls."""
        system, edges = self.system, self.edges
        if fields.without_B:
            return system.new_q()
        if fields.A is not None:
            full = edges.complex.V.interpolant(fields.A, self.wave.shape)
            for held in edges.held:
                full.axpy(-1.0, held.dofs(0.0, 0))
            u = edges.on_V.picked(full)
            apart = edges.on_V.full(u)
            apart.axpy(-1.0, full)
            if apart.norm() < 1e-8 * full.norm():
                return u
        # K u = curl' (H, r): the part of H that is a curl.
        F = system.new_v()
        edges.curl.multTranspose(edges.flux_moments(fields.H), F)
        u = steady_but_for_rest(system, F, FarSolve(system, self.wave.slowest_crossing))
        found = 2 * system.potential(State(u, system.new_v()))
        check_curl(fields, edges.integral(fields.H, fields.B), found)
        return u

    def q_dofs(self, state: State) -> PETSc.Vec:
        """All dofs of B."""
        # A static charge makes A grow for ever, which must not hide its curl.
        moving = replace(state, q=self.system.moving(state.q))
        A, curl = self.potential_dofs(moving), self.edges.complex.curl
        B = curl.createVecLeft()
        curl.mult(A, B)
        return B

    def potential_dofs(self, state: State) -> PETSc.Vec:
        """All dofs of A."""
        A = self.edges.on_V.full(state.q)
        for held in self.edges.held:
            A.axpy(1.0, held.dofs(state.t, 0))
        return A

    def primary(self, state: State) -> Makers:
        """A, E and B = curl A."""
        V = self.edges.complex.V
        return {
            "A": lambda: V.function(self.potential_dofs(state), "A"),
            **super().primary(state),
        }


class Divergence:
    """div q at the nodes of Q."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges

    def charges(self, x: PETSc.Vec) -> PETSc.Vec:
        """The divergence of q."""
        d = self.edges.complex.divergence.createVecLeft()
        self.edges.complex.divergence.mult(self.edges.on_W.full(x), d)
        return d

    forces = charges

    def size(self, charges: PETSc.Vec) -> float:
        """The largest |div q|."""
        return float(charges.norm(PETSc.NormType.INFINITY))
