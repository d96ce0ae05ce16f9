"""Quantities with a local conservation law d(density)/dt + div(flux) = 0, from the fields.

Which they are, the physics says. Walls change what they let through. The finite elements conserve
the energy and the momenta of motions without strain exactly; the other quantities are tracked, and
are constant up to the order of the method.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from petsc4py import PETSc

import numpy as np
import ufl
from dolfinx import fem
from dolfinx.mesh import Mesh

from hamfem.communicator import lasting
from hamfem.discretization.cell_rows import CellRows
from hamfem.discretization.named_fields import NamedFields, degree_of, made
from hamfem.dolfinx_versions import interpolation_points
from hamfem.kernel import Kernel
from hamfem.physics.boundary import Clamped
from hamfem.physics.wave import Wave
from hamfem.state import State


class Tracked:
    """Densities, fluxes and totals.

    Args:
        wave: The physics.
        fields: The functions v, the flux, and u where the discretization has it; their values are
            replaced at each evaluation.
        degree: Of the functions.
    """

    def __init__(self, wave: Wave, fields: dict[str, fem.Function], degree: int) -> None:
        self.wave, self.degree = wave, degree
        self.mesh = wave.domain.mesh
        self.functions = {
            name: fem.Function(fields[name].function_space)
            for name in wave.tracked
            if name in fields
        }
        self.t = fem.Constant(self.mesh, 0.0)

    @cached_property
    def expressions(self) -> dict[str, tuple[Any, Any]]:
        """Name -> density and flux, in UFL."""
        return self.wave.densities(self.functions, self.t, self.degree)

    def update(self, fields: dict[str, fem.Function], t: float) -> None:
        """Take over the values of new fields."""
        for name, f in self.functions.items():
            f.x.array[:] = fields[name].x.array
        self.t.value = t

    @cached_property
    def _totals(self) -> _Integrals:
        dx = ufl.Measure("dx", domain=self.mesh)
        known = {"energy", *self.wave.motions}
        return _Integrals(
            self.mesh,
            {
                name: density
                for name, (density, _) in self.expressions.items()
                if name not in known and len(density.ufl_shape) < 2
            },
            dx,
        )

    def totals(self) -> dict[str, Any]:
        """The integrals of the densities, numbers or vectors."""
        return self._totals()

    @cached_property
    def _through_walls(self) -> _Integrals:
        ds, n = ufl.Measure("ds", domain=self.mesh), ufl.FacetNormal(self.mesh)
        return _Integrals(
            self.mesh,
            {
                name: ufl.dot(flux, n)
                for name, (density, flux) in self.expressions.items()
                if len(density.ufl_shape) < 2
            },
            ds,
        )

    def through_walls(self) -> dict[str, Any]:
        """What leaves through the boundary per time."""
        return self._through_walls()

    @cached_property
    def _interpolants(self) -> dict[str, tuple[fem.Function, fem.Expression]]:
        result = {}
        # Products of two fields, and their moments about the origin.
        degree = 2 * self.degree + 1
        for name, pair in self.expressions.items():
            for kind, expression in zip(("density", "flux"), pair):
                element = ("Discontinuous Lagrange", degree, expression.ufl_shape)
                V = fem.functionspace(self.mesh, element)
                f = fem.Function(V, name=f"{name}_{kind}")
                points = interpolation_points(V.element)
                result[f.name] = (f, fem.Expression(expression, points))
        return result

    def fields(self) -> dict[str, fem.Function]:
        """name_density and name_flux as discontinuous functions of more than twice the degree."""
        result = {}
        for name, (f, expression) in self._interpolants.items():
            f.interpolate(expression)
            result[name] = f
        return result


class _Integrals:
    """The integrals of numbers and vectors by one compiled form, which tests them cell by cell."""

    def __init__(self, mesh: Mesh, quantities: dict[str, Any], measure: Any) -> None:
        self._comm = lasting(mesh.comm)
        self._slices: dict[str, Any] = {}
        components: list[Any] = []
        for name, q in quantities.items():
            count = q.ufl_shape[0] if q.ufl_shape else 1
            start = len(components)
            components += [q[i] for i in range(count)] if q.ufl_shape else [q]
            self._slices[name] = slice(start, start + count) if count > 1 else start
        self._form, self._count = None, len(components)
        if components:
            space = ("Discontinuous Lagrange", 0, (len(components),))
            W = fem.functionspace(mesh, space)
            self._form = fem.form(
                ufl.inner(ufl.as_vector(components), ufl.TestFunction(W)) * measure
            )
            self._cells = W.dofmap.index_map.size_local

    def __call__(self) -> dict[str, Any]:
        if self._form is None:
            return {}
        # A cell that this rank does not own has got nothing here.
        values = fem.assemble_vector(self._form).array.reshape(-1, self._count)
        total = self._comm.allreduce(values[: self._cells].sum(axis=0))
        return {
            name: total[where] if isinstance(where, slice) else float(total[where])
            for name, where in self._slices.items()
        }


class Tracking(NamedFields, CellRows):
    """What a space of functions offers of tracked quantities; a base of the spaces."""

    system: Any

    def motion(self, w: Any, new: Any) -> PETSc.Vec:
        """The vector of a motion x -> array."""
        raise NotImplementedError

    @cached_property
    def clamped(self) -> bool:
        """Whether a side is clamped."""
        return bool(self.wave.domain.comm.allreduce(len(self.wave.facets(Clamped))))

    def _free(self, new: Any) -> list[PETSc.Vec]:
        """The motions without strain that the boundary allows."""
        if self.clamped:
            return []
        return [self.motion(w, new) for motions in self.wave.motions.values() for w in motions]

    def rigid(self, M: PETSc.Mat) -> list[PETSc.Vec]:
        """Those among them that nothing damps."""
        return [] if self.wave.absorbing else self._free(M.createVecRight)

    @cached_property
    def free(self) -> Kernel | None:
        """The motions that no wall forbids."""
        motions = self._free(self.system.new_v)
        return Kernel(motions, self.system.M) if motions else None

    def with_rigid_part(self, x: PETSc.Vec, of: PETSc.Vec) -> PETSc.Vec:
        """The same displacement, with the motion that a steady problem on a free body leaves open.

        It is that of another displacement: (rho x, w) = (rho of, w).
        """
        if self.free is not None:
            self.free.give(self.free.parts(of), x)
        return x

    @cached_property
    def _momenta(self) -> dict[str, list[PETSc.Vec]]:
        """(rho w, .) for the motions w."""
        result: dict[str, list[PETSc.Vec]] = {}
        for name, motions in self.wave.motions.items():
            result[name] = []
            for w in motions:
                x = self.motion(w, self.system.new_v)
                Mx = x.duplicate()
                self.system.mass(x, Mx)
                result[name].append(Mx)
        return result

    def invariants(self, state: State) -> dict[str, Any]:
        """The momenta (rho v, w) of motions w without strain, and the tracked quantities."""
        momenta: dict[str, Any] = {}
        for name, vectors in self._momenta.items():
            values = np.asarray(state.v.mDot(vectors))
            momenta[name] = float(values[0]) if len(values) == 1 else values
        return {**momenta, **self.track(state).totals()}

    def tracked(self, state: State) -> dict[str, fem.Function]:
        """The fields that tracked quantities are made of."""
        return made(self.primary(state))

    def track(self, state: State) -> Tracked:
        """The tracked quantities at a state."""
        fields = self.tracked(state)
        if not hasattr(self, "_tracked"):
            degree = max(degree_of(f) for f in fields.values())
            self._tracked = Tracked(self.wave, fields, degree)
        self._tracked.update(fields, state.t)
        return self._tracked
