"""The mixed method and the potential form on edge elements.

    mixed:      M_v dv/dt = B q - R v + f,   dq/dt = curl v + g,        B = -curl' M_q,
    potential:  du/dt = v,   M_v dv/dt = -K u - R v + f,                K = curl' M_q curl.

`curl` is a sparse matrix that knows no coefficient: the update of q needs no solve, and div q stays
what it was at every point. The potential is what the mixed method is with q = curl u.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from petsc4py import PETSc

from hamfem.discretization.edge_space import EdgeSpace, PotentialSpace
from hamfem.discretization.edges import Edges
from hamfem.discretization.electromagnetic import ElectromagneticState
from hamfem.flow import Half
from hamfem.loads import Load, Loads
from hamfem.physics.maxwell import Maxwell
from hamfem.system import FirstOrder, SecondOrder


def edge_mixed(wave: Maxwell, degree: int, dual: bool) -> FirstOrder:
    """E in NED_degree and B in RT_degree, or dually H and D; both of order degree + 1."""
    return EdgeMixed(Edges(wave, degree, dual))


def edge_potential(wave: Maxwell, degree: int, lumped: bool) -> SecondOrder:
    """A and E in NED_degree: order degree + 1 for E and B = curl A."""
    edges = Edges(wave, degree, lumped=lumped)
    if lumped and not edges.diagonal:
        raise ValueError(
            "lumped masses of edge elements need quadrilaterals or hexahedra with right angles and "
            "coefficients that are numbers or have the axes of the cells: take lumped=False."
        )
    return EdgePotential(edges)


class EdgeMixed(ElectromagneticState, FirstOrder):  # type: ignore[misc]
    """The first-order system above."""

    def __init__(self, edges: Edges) -> None:
        self.edges, self.curl = edges, edges.curl
        B = self.curl.transposeMatMult(edges.M_q).copy()
        B.scale(-1.0)
        space: Any = EdgeSpace(edges, self)
        super().__init__(edges.M_q, edges.M_v, B, None, edges.R, space=space)
        self.at_rest = edges.gradients
        order = edges.roles.order
        loads = edges.loads()
        flux_loads: list[Any] = []
        if edges.held:
            P = edges.forces_of
            loads += edges.held_loads(P.matMult(edges.full_M), order + 1)
            if edges.full_R is not None:
                loads += edges.held_loads(P.matMult(edges.full_R), order)
            minus = edges.M_q.matMult(edges.on_W.rows(edges.complex.curl))
            minus.scale(-1.0)
            flux_loads += edges.held_loads(minus, order)
        for amplitude, J in edges.currents_in_flux():
            g = self.new_q()
            self.M_q.mult(J, g)
            g.scale(-1.0)
            flux_loads.append(Load(amplitude.value, g, amplitude.integral))
        self.loads = Loads(loads, self.new_v())
        self.flux_loads = Loads(flux_loads, self.new_q())
        space.begin()

    def flux(self, w: PETSc.Vec, out: PETSc.Vec) -> None:
        """The change curl w of q."""
        self.curl.mult(w, out)

    @cached_property
    def _sparse_K(self) -> PETSc.Mat:
        """K = curl' M_q curl."""
        K = self.edges.M_q.ptap(self.curl).copy()
        K.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        return K

    def _scaled_transpose(self, h: float) -> PETSc.Mat:
        """H curl."""
        S = self.curl.copy()
        S.scale(h)
        return S

    @cached_property
    def drift(self) -> Half:
        """dq/dt = curl v + g, v standing still: without g no solve."""
        half = FirstOrder.drift.func(self)  # type: ignore[attr-defined]
        if self.flux_loads:
            return half

        def solve(r: PETSc.Vec, x: PETSc.Vec) -> None:
            r.copy(x)

        return replace(half, force=self.curl.mult, solve=solve)


class EdgePotential(ElectromagneticState, SecondOrder):  # type: ignore[misc]
    """The second-order system above."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        K = edges.M_q.ptap(edges.curl).copy()
        K.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        space: Any = PotentialSpace(edges, self)
        super().__init__(edges.M_v, K, edges.R, space=space)
        loads = edges.loads()
        if edges.held:
            P = edges.forces_of
            full_K = edges.full_M_q.ptap(edges.complex.curl)
            loads += edges.held_loads(P.matMult(full_K), 0)
            loads += edges.held_loads(P.matMult(edges.full_M), 2)
            if edges.full_R is not None:
                loads += edges.held_loads(P.matMult(edges.full_R), 1)
            for held in edges.held:
                held.dofs(0.0, 0)  # says at once if a potential is not known
        self.loads = Loads(loads, self.new_v())
        self.at_rest = edges.gradients
        space.begin()
