"""Quantities with a local conservation law d(density)/dt + div(flux) = 0, from the fields.

With L = 1/2 q.C^-1 q - 1/2 rho v² and D = (d-1)/2 u + x.grad u + t v, for constant coefficients:

    linear_momentum          rho v                 -q
    energy                   kinetic + potential   -v q
    pseudomomentum           rho v q               -q (x) q + L C
    angular_pseudomomentum   x x (rho v q)         x x (flux of pseudomomentum)
    dilation                 rho D v + t L         -D q + x L

Walls change all but the first two by the flux through them. The finite elements conserve the first
two exactly; the others are tracked, and are constant up to the order of the method.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from petsc4py import PETSc

import numpy as np
import ufl
from dolfinx import fem

from hamfem.dolfinx_versions import interpolation_points
from hamfem.physics.boundary import Clamped
from hamfem.physics.wave import Wave
from hamfem.state import State


class Tracked:
    """Densities, fluxes and totals of a scalar wave.

    Args:
        wave: The physics.
        fields: Functions v and q, and u where the discretization has it; their values are replaced
            at each evaluation.
        degree: Of the functions.
    """

    def __init__(self, wave: Wave, fields: dict[str, fem.Function], degree: int) -> None:
        self.wave, self.degree = wave, degree
        self.mesh = wave.domain.mesh
        self.functions = {
            name: fem.Function(fields[name].function_space)
            for name in ("u", "v", "q")
            if name in fields
        }
        self.t = fem.Constant(self.mesh, 0.0)

    @cached_property
    def expressions(self) -> dict[str, tuple[Any, Any]]:
        """Name -> density and flux, in UFL."""
        wave, d, t = self.wave, self.wave.domain.dim, self.t
        v, q = self.functions["v"], self.functions["q"]
        rho, C = wave.rho.ufl(self.degree), wave.C.ufl(self.degree)
        matrix = C if C.ufl_shape else C * ufl.Identity(d)
        strain = wave.compliance(q, self.degree)
        kinetic, potential = rho * v**2 / 2, ufl.inner(q, strain) / 2
        L = potential - kinetic
        x = ufl.SpatialCoordinate(self.mesh)
        p, p_flux = rho * v * q, -ufl.outer(q, q) + L * matrix
        result = {
            "linear_momentum": (rho * v, -q),
            "energy": (kinetic + potential, -v * q),
            "pseudomomentum": (p, p_flux),
        }
        if d == 2:
            turn = ufl.as_matrix([[0, 1], [-1, 0]])  # x.(turn p) = x_1 p_2 - x_2 p_1
            result["angular_pseudomomentum"] = (
                ufl.dot(x, turn * p),
                ufl.dot(ufl.dot(x, turn), p_flux),
            )
        elif d == 3:
            rows = [p_flux[:, j] for j in range(3)]
            columns = [ufl.cross(x, row) for row in rows]
            flux = ufl.as_matrix([[columns[j][i] for j in range(3)] for i in range(3)])
            result["angular_pseudomomentum"] = (ufl.cross(x, p), flux)
        if "u" in self.functions:
            shift = (d - 1) / 2 * self.functions["u"] + ufl.dot(x, strain) + t * v
            result["dilation"] = (rho * shift * v + t * L, -shift * q + x * L)
        return result

    def update(self, fields: dict[str, fem.Function], t: float) -> None:
        """Take over the values of new fields."""
        for name, f in self.functions.items():
            f.x.array[:] = fields[name].x.array
        self.t.value = t

    @cached_property
    def _forms(self) -> dict[str, list[Any]]:
        dx = ufl.Measure("dx", domain=self.mesh)
        return {
            name: [fem.form(part * dx) for part in _components(density)]
            for name, (density, _) in self.expressions.items()
            if name not in ("linear_momentum", "energy")
        }

    def totals(self) -> dict[str, Any]:
        """The integrals of the densities, numbers or vectors."""
        return self._assembled(self._forms)

    @cached_property
    def _wall_forms(self) -> dict[str, list[Any]]:
        ds, n = ufl.Measure("ds", domain=self.mesh), ufl.FacetNormal(self.mesh)
        result = {}
        for name, (_, flux) in self.expressions.items():
            through = ufl.dot(flux, n)
            result[name] = [fem.form(part * ds) for part in _components(through)]
        return result

    def through_walls(self) -> dict[str, Any]:
        """What leaves through the boundary per time."""
        return self._assembled(self._wall_forms)

    def _assembled(self, forms: dict[str, list[Any]]) -> dict[str, Any]:
        comm = self.mesh.comm
        result: dict[str, Any] = {}
        for name, parts in forms.items():
            values = np.array([fem.assemble_scalar(form) for form in parts])
            total = comm.allreduce(values)
            result[name] = float(total[0]) if len(total) == 1 else total
        return result

    @cached_property
    def _interpolants(self) -> dict[str, tuple[fem.Function, fem.Expression]]:
        result = {}
        degree = 2 * self.degree
        for name, pair in self.expressions.items():
            for kind, expression in zip(("density", "flux"), pair):
                element = ("Discontinuous Lagrange", degree, expression.ufl_shape)
                V = fem.functionspace(self.mesh, element)
                f = fem.Function(V, name=f"{name}_{kind}")
                points = interpolation_points(V.element)
                result[f.name] = (f, fem.Expression(expression, points))
        return result

    def fields(self) -> dict[str, fem.Function]:
        """name_density and name_flux as discontinuous functions of twice the degree."""
        result = {}
        for name, (f, expression) in self._interpolants.items():
            f.interpolate(expression)
            result[name] = f
        return result


def _components(expression: Any) -> list[Any]:
    """The components of a vector, or the number itself."""
    if not expression.ufl_shape:
        return [expression]
    return [expression[i] for i in range(expression.ufl_shape[0])]


class Tracking:
    """What a space of functions offers of tracked quantities; a base of the spaces."""

    wave: Wave
    system: Any

    @property
    def one(self) -> PETSc.Vec:
        """The displacement 1."""
        raise NotImplementedError

    @cached_property
    def M_one(self) -> PETSc.Vec:
        """(rho 1, w)."""
        x = self.one.duplicate()
        self.system.mass(self.one, x)
        return x

    @cached_property
    def clamped(self) -> bool:
        """Whether a side is clamped."""
        return bool(self.wave.domain.comm.allreduce(len(self.wave.facets(Clamped))))

    def with_mean(self, x: PETSc.Vec, of: PETSc.Vec) -> PETSc.Vec:
        """The same displacement, with the mean that a steady problem on a free body leaves open."""
        if not self.clamped:
            difference = of.dot(self.M_one) - x.dot(self.M_one)
            x.axpy(difference / self.one.dot(self.M_one), self.one)
        return x

    def invariants(self, state: State) -> dict[str, Any]:
        """The linear momentum (rho v, 1) and the tracked quantities."""
        return {"linear_momentum": float(state.v.dot(self.M_one)), **self.track(state).totals()}

    def fields(self, state: State) -> dict[str, fem.Function]:
        """The fields of a state."""
        raise NotImplementedError

    def primary(self, state: State) -> dict[str, fem.Function]:
        """The fields that tracked quantities are made of."""
        return self.fields(state)

    def track(self, state: State) -> Tracked:
        """The tracked quantities at a state."""
        fields = self.primary(state)
        if not hasattr(self, "_tracked"):
            degree = max(_degree(f) for f in fields.values())
            self._tracked = Tracked(self.wave, fields, degree)
        self._tracked.update(fields, state.t)
        return self._tracked


def _degree(f: fem.Function) -> int:
    return f.function_space.ufl_element().embedded_superdegree
