"""Continuous Galerkin: a physics becomes a second-order system on a continuous space.

    M_ij = (rho phi_j, phi_i),   K_ij = (C D phi_j, D phi_i),   f = (f, w) + <flux, w>,

with impedance walls in R_ij = <Y phi_j, phi_i>. Clamped dofs have 1 on the diagonal of M and 0 in
K: their frequency is 0. Where they move, u = u_0 + G(t) with the prescribed values G at the clamped
dofs, and M u_0'' = -K u_0 - K G - M G'' on the others.
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem, la
from dolfinx.fem.petsc import assemble_matrix

from hamfem.discretization.assembly import diagonal_matrix
from hamfem.discretization.degree import checked_degree
from hamfem.discretization.geometry import Cells
from hamfem.discretization.nodal import ClampedNodes, NodalFacets, NodalSamples, NodalSpace
from hamfem.discretization.periodic import identification
from hamfem.discretization.sampling import data_loads, facet_pairs, source_load
from hamfem.discretization.spectral import SpectralStiffness
from hamfem.physics.boundary import Clamped, Free, Impedance
from hamfem.physics.wave import Wave
from hamfem.system import SecondOrder

Array = npt.NDArray[Any]


def cg(wave: Wave, degree: int, lumped: bool = False) -> SecondOrder:
    """Continuous P_degree (Q_degree on quadrilaterals and hexahedra).

    Args:
        wave: The physics.
        degree: k, at least 1; u and v converge with order k + 1.
        lumped: Gauss-Lobatto quadrature on quadrilaterals and hexahedra: the mass is diagonal and
            the stiffness is applied by a compiled kernel, which is what explicit methods want.
    """
    degree = checked_degree(degree, 1, "continuous elements")
    domain = wave.domain
    if lumped and domain.cell not in ("quadrilateral", "hexahedron"):
        raise ValueError(
            f"lumped masses need quadrilaterals or hexahedra and the mesh has {domain.cell} cells: "
            "take lumped=False, or another mesh."
        )
    V = fem.functionspace(domain.mesh, ("Lagrange", degree))
    domain.mesh.topology.create_connectivity(domain.dim - 1, domain.dim)
    clamped = fem.locate_dofs_topological(V, domain.dim - 1, wave.facets(Clamped))
    matrices = _Matrices(wave, V, clamped, lumped)
    samples = NodalSamples(domain, V, clamped)
    moving = [
        ClampedNodes(
            V, fem.locate_dofs_topological(V, domain.dim - 1, domain.facets(*c.names)), c.value
        )
        for c in wave.boundary
        if isinstance(c, Clamped) and c.value is not None
    ]
    P = identification(wave, V)
    space = NodalSpace(wave, samples, P, moving, lumped)
    M, R = matrices.M(), matrices.R()
    K = matrices.K() if P is None else matrices.assembled_K()
    loads: list[Any] = [source_load(samples.source(s.shape), s.amplitude) for s in wave.sources]
    for condition in wave.boundary:
        if isinstance(condition, Free | Impedance) and condition.value is not None:
            pairs = facet_pairs(domain, domain.facets(*condition.names))
            points = NodalFacets(samples, pairs, 2 * degree + 2)
            loads += data_loads(condition.value, points, points.vector)
    if moving:
        space.full_K, space.full_M = matrices.K(False), matrices.M(False)
        for nodes in moving:
            loads += nodes.loads(space.full_K, clamped, 0) + nodes.loads(space.full_M, clamped, 2)
    if P is not None:
        M, K, R = (None if A is None else A.ptap(P) for A in (M, K, R))
        if lumped:
            M = _diagonal_of(M)
    for A in (M, K):
        A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    M.setOption(PETSc.Mat.Option.SPD, True)
    loads = [space.reduced_load(load) for load in loads]
    system = SecondOrder(M, K, R, loads, space.rigid(), space)
    space.system = system
    return system


class _Matrices:
    """M, K and R of a continuous space, with clamped dofs taken out."""

    def __init__(self, wave: Wave, V: fem.FunctionSpace, clamped: Array, lumped: bool) -> None:
        self.wave, self.V, self.lumped, self.clamped = wave, V, lumped, clamped
        self.degree = V.ufl_element().basix_element.degree
        self.bcs = [fem.dirichletbc(PETSc.ScalarType(0), clamped, V)]
        self.metadata = {}
        if lumped:
            self.metadata = {"quadrature_rule": "GLL", "quadrature_degree": 2 * self.degree - 1}
        self.dx = ufl.Measure("dx", domain=wave.domain.mesh, metadata=self.metadata)

    def _assembled(self, form: Any, bcs: Any, diagonal: float) -> PETSc.Mat:
        A = assemble_matrix(fem.form(form), bcs, diagonal)
        A.assemble()
        return A

    def M(self, constrained: bool = True) -> PETSc.Mat:
        """(rho u, w)."""
        u, w = ufl.TrialFunction(self.V), ufl.TestFunction(self.V)
        rho = self.wave.rho.ufl(self.degree + 1)
        if not self.lumped:
            return self._assembled(rho * u * w * self.dx, self.bcs if constrained else [], 1.0)
        diagonal = fem.assemble_vector(fem.form(rho * w * self.dx))
        diagonal.scatter_reverse(la.InsertMode.add)
        diagonal.scatter_forward()
        if constrained:
            diagonal.array[self.clamped] = 1.0
        owned = diagonal.array[: self.V.dofmap.index_map.size_local]
        return diagonal_matrix(self.wave.domain.comm, owned)

    def K(self, constrained: bool = True) -> PETSc.Mat:
        """(C D u, D w): assembled, or a kernel with an assembled twin."""
        if not self.lumped:
            return self.assembled_K(constrained)
        cells = Cells(self.wave.domain)
        X = self.V.ufl_element().basix_element.points
        C = self.wave.C.at(cells.cells, X, cells.at(X, np.ones(len(X))).x)
        C = np.broadcast_to(C, (len(cells), len(X), *C.shape[2:]))
        kernel = SpectralStiffness(self.V, C, self.clamped if constrained else ())
        kernel.mat.getPythonContext().assembled = lambda: self.assembled_K(constrained)
        return kernel.mat

    def assembled_K(self, constrained: bool = True) -> PETSc.Mat:
        """(C D u, D w) with its entries."""
        u, w = ufl.TrialFunction(self.V), ufl.TestFunction(self.V)
        stress = self.wave.stress(self.wave.D(u), self.degree + 1)
        form = ufl.inner(stress, self.wave.D(w)) * self.dx
        return self._assembled(form, self.bcs if constrained else [], 0.0)

    def R(self) -> PETSc.Mat | None:
        """<Y u, w> on impedance walls."""
        if not self.wave.absorbing:
            return None
        domain = self.wave.domain
        mesh = domain.mesh
        tags = [
            domain.boundaries[n]
            for c in self.wave.boundary
            if isinstance(c, Impedance)
            for n in c.names
        ]
        ds = ufl.Measure(
            "ds", domain=mesh, subdomain_data=domain.facet_tags, metadata=self.metadata
        )
        u, w = ufl.TrialFunction(self.V), ufl.TestFunction(self.V)
        n = ufl.FacetNormal(mesh)
        at_normal = ufl.as_vector(
            [sum(float(row[0, j]) * n[j] for j in range(domain.dim)) for row in self.wave.symbol]
        )
        Y = ufl.sqrt(
            self.wave.rho.ufl(self.degree + 1)
            * ufl.inner(at_normal, self.wave.stress(at_normal, self.degree + 1))
        )
        R = self._assembled(Y * u * w * ds(tuple(tags)), self.bcs, 0.0)
        if self.lumped:  # what is not on the diagonal are zeros
            R = _diagonal_of(R)
        return R


def _diagonal_of(A: PETSc.Mat) -> PETSc.Mat:
    return diagonal_matrix(A.comm.tompi4py(), A.getDiagonal().array)
