"""What all discretizations of Maxwell's equations share: roles of the fields, starts, charges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem, la
from dolfinx.fem.petsc import assemble_matrix
from dolfinx.mesh import exterior_facet_indices

from hamfem.discretization.basis import Basis
from hamfem.discretization.constraints import Constraint
from hamfem.discretization.initial_fields import InitialFields
from hamfem.discretization.nodal import owned_vector
from hamfem.discretization.sampling import FacetPoints, facet_pairs, free_facets
from hamfem.discretization.start import check_start
from hamfem.discretization.trace import facets_of_cells
from hamfem.discretization.tracked import Tracking
from hamfem.physics.boundary import Clamped, Free, Periodic, names
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.maxwell import Maxwell
from hamfem.state import State
from hamfem.system import finite

Array = npt.NDArray[Any]
# How much of the energy of an initial B the discrete one may miss.
MISSING = 0.3


@dataclass(frozen=True, eq=False)
class Roles:
    """Both halves are v = -E and q = B, or dually v = H and q = D.

        (eps v', w) = -(q/mu, curl w) + (J, w) + <K, w> - <Y v - g, w>,    q' = curl v,
        (mu v', w)  = -(q/eps, curl w) + <E x n, w> - <Z v + Z (g x n), w>,  q' = curl v - J,

    with K = H x n on Free sides, H x n - Y E_t = g on absorbing ones, and Z = 1/Y there.
    """

    wave: Maxwell
    dual: bool = False

    @cached_property
    def rho(self) -> Coefficient:
        """The mass of v."""
        return self.wave.mu if self.dual else self.wave.eps

    @cached_property
    def C(self) -> Coefficient:
        """The energy of q is 1/2 (C q, q)."""
        return self.wave.eps.inverse() if self.dual else self.wave.C

    @property
    def across(self) -> bool:
        """Whether v stands across the plane."""
        return self.wave.domain.dim == 2 and self.wave.scalar != self.dual

    @property
    def components(self) -> int:
        """Of v."""
        if self.wave.domain.dim == 3:
            return 3
        return 1 if self.across else 2

    @property
    def holding(self) -> type[Clamped] | type[Free]:
        """The kind of condition that prescribes v along a wall."""
        return Free if self.dual else Clamped

    def held_facets(self) -> npt.NDArray[np.int32]:
        """The facets on this rank where v is prescribed."""
        named = self.wave.facets(self.holding)
        return np.union1d(named, free_facets(self.wave)).astype(np.int32) if self.dual else named

    @property
    def order(self) -> int:
        """Which time derivative of the data of those sides v is: of a potential, or of K."""
        return 0 if self.dual else 1

    def held(self, values: Array, normals: Array) -> Array:
        """What the data prescribe of v along the wall: H_t = n x K."""
        return -turned(values, normals, self.components) if self.dual else values

    def pushing(self, condition: Any, walls: FacetPoints, values: Array) -> Array:
        """What the data of another side do in the equation of v."""
        if not self.dual:
            return values
        across = turned(values, walls.normals, self.components)
        if isinstance(condition, Clamped):
            return -across  # the data are a potential, whose derivative is -E
        return -np.einsum("fpij,fpj->fpi", self.impedance(walls), across)

    def impedance(self, walls: FacetPoints) -> Array:
        """Y, or dually Z = R Y^-1 R' with R a = a x n: (facets, points, i, i)."""
        Y = walls.impedance()
        if not self.dual:
            return Y
        n, i = self.components, Y.shape[-1]
        # The inverse on the tangential part.
        values, vectors = np.linalg.eigh(Y)
        large = values > 1e-8 * values.max(initial=0.0)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=large)
        inverse = (vectors * inverse[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        unit = np.broadcast_to(np.eye(i), (*Y.shape[:-1], i))
        R = turned(unit, walls.normals[:, :, None], n)  # row j: e_j x n
        return np.swapaxes(R, -1, -2) @ inverse @ R


class ElectromagneticState:
    """How a system of Maxwell's equations makes its states."""

    space: Any

    def state(
        self, E: Any = 0, B: Any = None, H: Any = None, A: Any = None, start: str = "steady"
    ) -> State:
        """The state at t = 0 from E and one of B, H and A: callables x -> array, UFL, or 0.

        The charges of the start are those of the data: no projection adds any.

        Args:
            E: The electric field.
            B: The magnetic flux density; its divergence must be 0.
            H: The magnetic field B / mu.
            A: The potential, B = curl A.
            start: "steady" for what keeps the orders of the method, or "projection" for the nearest
                functions in the mean square (which differ for HDG only).
        """
        check_start(start)
        fields = InitialFields(self.space.wave, self.space.degree, E, B, H, A)
        halves = ("E", "B") if self.space.dual else ("B or A", "E")
        return finite(self.space.start(fields, start), *halves)

    def charges(self, state: State) -> dict[str, float]:
        """The electric and the magnetic charge; `invariants` has them among other quantities."""
        return self.space.charges(state)


class ElectromagneticSpace(Tracking):
    """Fields, energies and charges."""

    wave: Maxwell
    degree: int

    def invariants(self, state: State) -> dict[str, Any]:
        """Energies of the fields, charges, and the totals of the tracked quantities."""
        electric, magnetic = self.system.kinetic(state), self.system.potential(state)
        if self.dual:
            electric, magnetic = magnetic, electric
        energies = {"electric_energy": electric, "magnetic_energy": magnetic}
        return {**energies, **self.charges(state), **self.track(state).totals()}

    dual = False

    def charges(self, state: State) -> dict[str, float]:
        """The electric and the magnetic charge."""
        raise NotImplementedError

    @cached_property
    def weak_magnetic(self) -> WeakDivergence | None:
        """(B, grad psi); None where B is across the plane."""
        return WeakDivergence(self.wave, self.degree) if len(self.wave.symbol) > 1 else None


class WeakDivergence:
    """The largest |(B, grad psi)| / |grad psi| over psi in CG_(k+1) that are 0 on walls."""

    def __init__(self, wave: Maxwell, k: int) -> None:
        domain = wave.domain
        V = fem.functionspace(domain.mesh, ("Lagrange", k + 1))
        self.S = Basis(V)
        facets = facets_of_cells(domain)
        outer = np.intersect1d(facets, exterior_facet_indices(domain.mesh.topology))
        periodic = domain.facets(*names(wave.boundary, Periodic))
        walls = np.setdiff1d(outer, periodic).astype(np.int32)
        self.constraint = Constraint(self.S, wave, walls)
        u, psi = ufl.TrialFunction(V), ufl.TestFunction(V)
        A = assemble_matrix(fem.form(ufl.inner(ufl.grad(u), ufl.grad(psi)) * ufl.dx))
        A.assemble()
        self._lengths = self.constraint.form(A).getDiagonal()
        self._lengths.sqrtabs()
        self._form: Any = None
        self._B: fem.Function | None = None

    def __call__(self, B: fem.Function) -> float:
        """Of a function B, which must be of one space in all calls."""
        if self._B is None:
            self._B = fem.Function(B.function_space)
            psi = ufl.TestFunction(self.S.V)
            self._form = fem.form(ufl.inner(self._B, ufl.grad(psi)) * ufl.dx)
        self._B.x.array[:] = B.x.array
        r = fem.assemble_vector(self._form)
        r.scatter_reverse(la.InsertMode.add)
        c = self.constraint.forces(owned_vector(self.S.V, r.array))
        if not c.size:
            return 0.0
        c.pointwiseDivide(c, self._lengths)
        return float(c.norm(PETSc.NormType.INFINITY))


def check_curl(fields: InitialFields, whole: float, found: float) -> None:
    """Refuse an initial B that is not the curl of a potential that is 0 along clamped walls.

    Args:
        fields: B has no part normal to these walls, but for the angles of a mesh.
        whole: The energy (H, B) of the data.
        found: That of the discrete B.
    """
    wave, comm = fields.wave, fields.wave.domain.comm
    walls = FacetPoints(wave, facet_pairs(wave.domain, wave.facets(Clamped)), 2 * fields.degree + 2)
    normal = largest = 0.0
    for mine, cells, points in walls.by_facet:
        B = fields.B(cells, points)
        largest = max(largest, float(np.linalg.norm(B, axis=-1).max(initial=0.0)))
        if B.shape[-1] > 1:
            through = (B * walls.normals[mine]).sum(axis=-1)
            normal = max(normal, float(np.abs(through).max(initial=0.0)))
    normal, largest = comm.allreduce(normal, MPI.MAX), comm.allreduce(largest, MPI.MAX)
    missing = 1 - found / whole if whole > 0 else 0.0
    if normal > 0.2 * largest or missing > MISSING:
        raise ValueError(
            "the initial B is not the curl of a potential that is 0 along the clamped walls "
            f"({normal:.2g} of {largest:.2g} goes through them, {missing:.0%} of its energy is no "
            "curl): take hf.mixed, which needs no potential."
        )


def in_space(values: Array) -> Array:
    """Numbers across the plane, or vectors of the plane, as vectors of space."""
    n = values.shape[-1]
    result = np.zeros((*values.shape[:-1], 3))
    result[..., slice(2, 3) if n == 1 else slice(0, n)] = values
    return result


def turned(values: Array, normals: Array, components: int) -> Array:
    """The products a x n: from vectors of the plane numbers across it, and the other way round."""
    crossed = np.cross(in_space(values), in_space(normals))
    return crossed[..., 2:] if components == 1 else crossed[..., :components]
