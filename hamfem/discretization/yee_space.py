"""What the numbers of the Yee scheme stand for: starts, currents, charges, momentum, chirality."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem
from numpy.polynomial.legendre import leggauss

from hamfem.discretization.assembly import assembled
from hamfem.discretization.electromagnetic import MISSING, ElectromagneticSpace
from hamfem.discretization.gradients import Charges
from hamfem.discretization.initial_fields import InitialFields
from hamfem.discretization.named_fields import Makers, made
from hamfem.discretization.sampling import constant, source_load
from hamfem.discretization.yee_fields import Transfer
from hamfem.discretization.yee_grid import (
    CELLS,
    CONDUCTING,
    NODES,
    Family,
    Stagger,
    edges,
    faces,
)
from hamfem.loads import Load
from hamfem.physics.coefficient import call
from hamfem.physics.source import Source
from hamfem.state import State

Array = npt.NDArray[Any]
# A divergence of B below this, relative to |B| / h, is that of round-off.
_ROUND_OFF = 1e-13


class YeeSpace(ElectromagneticSpace):
    """v = -E on edges and q = H on faces."""

    degree = 0

    def __init__(self, system: Any) -> None:
        self.system, self.grid, self.wave = system, system.grid, system.wave

    # ------------------------------------------------------------ data

    def averages(self, f: Any, axis: int, stagger: Stagger, what: str) -> Array:
        """The mean of a component of a field along its edge, or over its face, by Gauss points."""
        grid, electric = self.grid, stagger == edges(axis)
        components = grid.electric if electric else grid.magnetic
        scalar = len(components) == 1
        kind = _Kind(() if scalar else (len(components),))
        if isinstance(f, ufl.core.expr.Expr):
            raise ValueError(
                f"the Yee scheme takes {what} as a number, a vector or a callable x -> array, and "
                "it is a UFL expression: write it as one of these."
            )
        i = components.index(axis)
        if not callable(f):
            return np.full(grid.shape(stagger), constant(f, kind, what)[i])  # type: ignore[arg-type]
        nodes, weights = leggauss(3 if electric else 5)
        total = np.zeros(grid.shape(stagger))
        inner = [a for a in range(grid.first, 3) if not stagger[a]]
        for places in itertools.product(range(len(nodes)), repeat=len(inner)):
            lines = grid.points(stagger)
            weight = 1.0
            for a, p in zip(inner, places):
                lines[a] = lines[a] + 0.5 * grid.h[a] * nodes[p]
                weight *= 0.5 * weights[p]
            x = grid.mesh_of(lines)[: grid.dim].T[:, None]
            values = call(f, x, what, kind.shape).reshape(len(x), -1)
            total += weight * values[:, i].reshape(total.shape)
        return total

    def current(self, source: Source) -> Load:
        """(J, w) for the edges: their dual volumes times the mean of J."""
        system, grid = self.system, self.grid
        f = system.new_v()
        with f as array:
            for a, block in system.E.blocks(array).items():
                J = self.averages(source.shape, a, edges(a), "a source")
                block[...] = np.where(grid.conducting(edges(a)), 0.0, J * grid.volumes(edges(a)))
        return source_load(f, source.amplitude)

    # ------------------------------------------------------------ starts

    def start(self, fields: InitialFields, start: str) -> State:
        """The means of E along edges; B from the means of A, or those over faces."""
        system = self.system
        v = system.new_v()
        if not fields.without_E:
            with v as array:
                for a, block in system.E.blocks(array).items():
                    E = self.averages(fields.given_E, a, edges(a), "the initial E")
                    block[...] = np.where(self.grid.conducting(edges(a)), 0.0, -E)
        state = State(self._start_q(fields), v)
        if self._electric is not None:
            self._electric.remember(state)
        return state

    def _start_q(self, fields: InitialFields) -> PETSc.Vec:
        """H with B = curl A, or without the divergence that the means of B have."""
        system, q = self.system, self.system.new_q()
        if fields.without_B:
            return q
        if fields.A is not None:
            # The discrete curl has no divergence.
            A = system.new_v()
            with A as array:
                for a, block in system.E.blocks(array).items():
                    block[...] = self.averages(fields.A, a, edges(a), "the initial A")
            system.stencil.curl(A, q)
            return q
        given_B = fields.given_B is not None
        f, what = (fields.given_B, "B") if given_B else (fields.given_H, "H")
        with q as array:
            for a, block in system.H.blocks(array).items():
                values = self.averages(f, a, faces(a), f"the initial {what}")
                block[...] = values * system.inverse_mu[a] if given_B else values
        if len(system.H.axes) > 1:
            self._remove_divergence(q)
        return q

    def _remove_divergence(self, q: PETSc.Vec) -> None:
        """The nearest B without one: B - mu U^-1 D' phi, with D mu U^-1 D' phi = D B.

        Through walls B goes as it likes; a divergence that is more than an error of quadrature is
        one of the data.
        """
        system, grid = self.system, self.grid
        d = self.divergence(q)
        B = self.magnetic_flux(q)
        largest = max((np.abs(b).max(initial=0.0) for b in B.values()), default=0.0)
        size = float(max(grid.comm.allgather(largest))) / grid.h[grid.first :].min()
        if max(grid.comm.allgather(np.abs(d).max(initial=0.0))) <= _ROUND_OFF * size:
            return
        whole = system.potential(State(q, system.new_v()))
        # B is what D acts on: B -= mu U^-1 D' phi takes the least of the energy (H, B).
        D, mu = self._divergence_matrix, system.new_q()
        mu.pointwiseDivide(system._mass_q, system._volumes_q)
        weight = mu.copy()
        weight.pointwiseDivide(weight, system._volumes_q)
        scaled = D.transpose(PETSc.Mat())
        scaled.diagonalScale(L=weight)
        A = D.matMult(scaled)
        r, phi = D.createVecLeft(), D.createVecLeft()
        r.array[:] = d.ravel()
        if all(grid.periodic):
            A.setNullSpace(PETSc.NullSpace().create(constant=True, comm=grid.comm))
        ksp = PETSc.KSP().create(grid.comm)
        ksp.setOperators(A)
        ksp.setType(PETSc.KSP.Type.CG)
        ksp.getPC().setType(PETSc.PC.Type.GAMG)
        ksp.setTolerances(rtol=1e-12, atol=0.0, max_it=2000)
        ksp.setErrorIfNotConverged(True)
        ksp.solve(r, phi)
        correction = system.new_q()
        D.multTranspose(phi, correction)
        correction.pointwiseMult(correction, weight)
        correction.pointwiseDivide(correction, mu)
        q.axpy(-1.0, correction)
        found = system.potential(State(q, system.new_v()))
        if found < (1 - MISSING) * whole:
            raise ValueError(
                f"the initial B is not free of divergence ({1 - found / whole:.0%} of its energy "
                "is no curl): there are no magnetic charges, correct it."
            )

    # ------------------------------------------------------------ derivatives

    def magnetic_flux(self, q: PETSc.Vec) -> dict[int, Array]:
        """B = mu H on the faces."""
        system = self.system
        return {a: H / system.inverse_mu[a] for a, H in system.H.blocks(q.array_r).items()}

    def divergence(self, q: PETSc.Vec) -> Array:
        """Div B in the cells."""
        grid = self.grid
        total = np.zeros(grid.shape(CELLS))
        for a, B in self.magnetic_flux(q).items():
            if a >= grid.first:
                below, above = grid.around_cells(B, a)
                total += (above - below) / grid.h[a]
        return total

    @cached_property
    def _divergence_matrix(self) -> PETSc.Mat:
        """From faces to cells."""
        grid, H = self.grid, self.system.H
        cells = Family(grid, (0,), (CELLS,))
        index = np.meshgrid(*grid.indices(CELLS), indexing="ij")
        number = cells.numbers(0, *index).ravel()
        rows, columns, values = [], [], []
        for a in H.axes:
            for step in (0, 1):
                place = [i + step * (x == a) for x, i in enumerate(index)]
                rows.append(number)
                columns.append(H.numbers(a, *place).ravel())
                values.append(np.full(len(number), (2 * step - 1) / grid.h[a]))
        i, j, D = (np.concatenate(x) for x in (rows, columns, values))
        return assembled(grid.comm, i, j, D, cells.size, H.size)

    # ------------------------------------------------------------ charges

    @cached_property
    def _electric(self) -> Charges | None:
        """What counts them; E across the plane has none."""
        if len(self.grid.electric) == 1:
            return None
        return Charges(NodeCharges(self.system), self.system.loads)

    def charges(self, state: State) -> dict[str, float]:
        """The electric charge as a drift since the start; the total one; the largest div B."""
        result, grid = {}, self.grid
        if self._electric is not None:
            counter: Any = self._electric.counter
            result["electric_charge"] = self._electric.drift(state)
            result["total_charge"] = counter.total(self._electric.of(state))
        if len(grid.magnetic) > 1:
            largest = np.abs(self.divergence(state.q)).max(initial=0.0)
            result["magnetic_charge"] = float(max(grid.comm.allgather(largest)))
        return result

    def invariants(self, state: State) -> dict[str, Any]:
        """Energies, charges, momentum and, where it is exact, optical chirality; without a mesh."""
        system = self.system
        result: dict[str, Any] = {
            "electric_energy": system.kinetic(state),
            "magnetic_energy": system.potential(state),
            **self.charges(state),
            "linear_momentum": self.momentum(state),
        }
        if self.grid.dim == 3 and all(self.grid.periodic) and system.uniform is not None:
            result["optical_chirality"] = self.chirality(state)
        return result

    def momentum(self, state: State) -> Array:
        """The sum over cells of volume times D x B, with the means of their edges and faces."""
        system, grid = self.system, self.grid
        D: list[Any] = [0.0] * 3
        B: list[Any] = [0.0] * 3
        for a, v in system.E.blocks(state.v.array_r).items():
            D[a] = self._in_cells(-system.eps[a] * v, edges(a))
        for a, b in self.magnetic_flux(state.q).items():
            B[a] = self._in_cells(b, faces(a))
        total = [
            np.sum(D[(a + 1) % 3] * B[(a + 2) % 3] - D[(a + 2) % 3] * B[(a + 1) % 3])
            for a in range(grid.first, 3)
        ]
        return grid.volume * grid.comm.allreduce(np.array(total))

    def _in_cells(self, u: Array, stagger: Stagger) -> Array:
        """Means over the numbers around each cell."""
        for a in range(self.grid.first, 3):
            if stagger[a]:
                below, above = self.grid.around_cells(u, a)
                u = 0.5 * (below + above)
        return u

    def chirality(self, state: State) -> float:
        """1/2 z'Sz with S = (eps sym(T curl), mu sym(T' curl')), which is exactly invariant.

        T moves a field by half the diagonal of a cell: faces to edges. On a uniform periodic grid
        with eps and mu two numbers it commutes with both curls.
        """
        system, grid = self.system, self.grid
        eps, mu = system.uniform
        curl_v, curl_q = system.new_q(), system.new_v()
        system.flux(state.v, curl_v)  # curl v / mu
        system.restoring(state.q, curl_q)  # -curl' q times the volume of a cell
        total = 0.0
        E, H = system.E.blocks(state.v.array_r), system.H.blocks(state.q.array_r)
        curls = system.H.blocks(curl_v.array_r), system.E.blocks(curl_q.array_r)
        for a in range(3):
            u, w = curls[0][a], curls[1][a]
            for b in ((a + 1) % 3, (a + 2) % 3):
                u, w = grid.around_nodes(u, b)[0], grid.around_cells(w, b)[1]
            total += mu * eps * grid.volume * np.sum(E[a] * u) - mu * np.sum(H[a] * w)
        return float(0.5 * grid.comm.allreduce(total))

    # ------------------------------------------------------------ fields

    @cached_property
    def _transfer(self) -> Transfer:
        return Transfer(self.system)

    def primary(self, state: State) -> Makers:
        """E, B and H in the lowest edge and face elements."""

        def electric() -> fem.Function:
            E = self.system.new_v()
            E.axpy(-1.0, state.v)
            return self._transfer.electric(E, "E")

        def induction() -> fem.Function:
            B = self.system.new_q()
            with B as array:
                array[:] = self.system.H.filled(self.magnetic_flux(state.q))
            return self._transfer.magnetic(B, "B")

        return {
            "E": electric,
            "B": induction,
            "H": lambda: self._transfer.magnetic(state.q, "H"),
        }

    def tracked(self, state: State) -> dict[str, fem.Function]:
        """The fields that densities are made of."""
        return made(self.primary(state))


class _Kind:
    """What values of a field look like; `constant` asks for no more."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.components, self.scalar = shape, int(np.prod(shape)), shape == ()


class NodeCharges:
    """div D at the nodes times their dual volumes: G'M_v v with the gradients G of hat functions.

    Those of nodes on conducting and absorbing walls are no charges of their own.
    """

    def __init__(self, system: Any) -> None:
        self.system, self.grid = system, system.grid
        grid = self.grid
        held = grid.on_walls(
            NODES, lambda a, s: grid.walls[a][s] == CONDUCTING or grid.absorbing[a][s]
        )
        self.free = ~held

    def _sum(self, values: dict[int, Array], signed: bool) -> PETSc.Vec:
        """Over the edges that end in a node; those that leave it count -1 if `signed`."""
        grid = self.grid
        total = np.zeros(grid.shape(NODES))
        for a, u in values.items():
            below, above = grid.around_nodes(u, a)
            total += (below - above) / grid.h[a] if signed else (below + above) / grid.h[a] ** 2
        total[~self.free] = 0.0
        x = self.system._vector(total.size)
        x.array[:] = total.ravel()
        return x

    def charges(self, x: PETSc.Vec) -> PETSc.Vec:
        """Those of v."""
        Mv = x.duplicate()
        self.system.mass(x, Mv)
        return self.forces(Mv)

    def forces(self, f: PETSc.Vec) -> PETSc.Vec:
        """Those that a load on v brings."""
        return self._sum(self.system.E.blocks(f.array_r), True)

    @cached_property
    def _lengths(self) -> Array:
        """|G phi| of each hat function."""
        masses = self.system.E.blocks(self.system._mass_v.array_r)
        lengths = np.sqrt(self._sum(masses, False).array)
        return np.where(lengths > 0, lengths, 1.0)

    def size(self, charges: PETSc.Vec) -> float:
        """The largest |charge| / |G phi|."""
        largest = np.abs(charges.array_r / self._lengths).max(initial=0.0)
        return float(max(self.grid.comm.allgather(largest)))

    def total(self, charges: PETSc.Vec) -> float:
        """Their sum."""
        return float(charges.sum())
