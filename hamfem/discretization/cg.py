"""Continuous Galerkin: a physics becomes a second-order system on a continuous space.

    M_ij = (rho phi_j, phi_i),   K_ij = (C D phi_j, D phi_i),   f = (f, w) + <flux, w>,

with impedance walls in R_ij = <Y phi_j, phi_i>. Clamped dofs have 1 on the diagonal of M and 0 in
K: their frequency is 0. Where they move, u = u_0 + G(t) with the prescribed values G at the clamped
dofs, and M u_0'' = -K u_0 - K G - M G'' on the others.
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem, la
from dolfinx.fem.petsc import assemble_matrix

from hamfem.discretization.assembly import diagonal_matrix
from hamfem.discretization.degree import checked_degree
from hamfem.discretization.edge_systems import edge_potential
from hamfem.discretization.geometry import Cells
from hamfem.discretization.nodal import (
    ClampedNodes,
    NodalFacets,
    NodalSamples,
    unrolled,
)
from hamfem.discretization.nodal_space import NodalSpace
from hamfem.discretization.periodic import identification
from hamfem.discretization.sampling import data_loads, facet_pairs, source_load
from hamfem.discretization.spectral import SpectralStiffness
from hamfem.physics.boundary import Clamped, Free, Impedance
from hamfem.physics.maxwell import Maxwell
from hamfem.physics.wave import Wave
from hamfem.system import SecondOrder

Array = npt.NDArray[Any]


def cg(wave: Wave, degree: int, lumped: bool = False) -> SecondOrder:
    """Continuous P_degree (Q_degree on quadrilaterals and hexahedra).

    For electromagnetic waves the potential form: A and E in NED_degree, with tangential parts that
    are continuous, degree at least 0, and order degree + 1 for E and B = curl A.

    Args:
        wave: The physics.
        degree: k, at least 1; u and v converge with order k + 1.
        lumped: Gauss-Lobatto quadrature on quadrilaterals and hexahedra: the mass is diagonal and
            the stiffness is applied by a compiled kernel (of electromagnetic waves, a sparse
            matrix), which is what explicit methods want.
    """
    if isinstance(wave, Maxwell):
        return edge_potential(wave, degree, lumped)
    degree = checked_degree(degree, 1, "continuous elements")
    domain = wave.domain
    if lumped and domain.cell not in ("quadrilateral", "hexahedron"):
        raise ValueError(
            f"lumped masses need quadrilaterals or hexahedra and the mesh has {domain.cell} cells: "
            "take lumped=False, or another mesh."
        )
    V = fem.functionspace(domain.mesh, ("Lagrange", degree, wave.shape))
    domain.mesh.topology.create_connectivity(domain.dim - 1, domain.dim)
    nodes = fem.locate_dofs_topological(V, domain.dim - 1, wave.facets(Clamped))
    clamped = unrolled(V, nodes).reshape(-1)
    samples = NodalSamples(wave, V, clamped)
    matrices = _Matrices(samples, nodes, lumped)
    moving = [
        ClampedNodes(
            wave,
            V,
            fem.locate_dofs_topological(V, domain.dim - 1, domain.facets(*c.names)),
            c.value,
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
            M = diagonal_matrix(domain.comm, M.getDiagonal().array)
    for A in (M, K):
        A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
    M.setOption(PETSc.Mat.Option.SPD, True)
    loads = [space.reduced_load(load) for load in loads]
    system = SecondOrder(M, K, R, loads, space.rigid(M), space)
    space.system = system
    return system


class _Matrices:
    """M, K and R of a continuous space, with clamped dofs taken out."""

    def __init__(self, samples: NodalSamples, nodes: Array, lumped: bool) -> None:
        self.samples, self.wave, self.V = samples, samples.wave, samples.V
        self.lumped, self.clamped = lumped, samples.clamped
        self.degree = samples.element.degree
        zero = np.zeros(self.wave.shape, PETSc.ScalarType)
        self.bcs = [fem.dirichletbc(zero, nodes, self.V)]
        metadata = {}
        if lumped:
            metadata = {"quadrature_rule": "GLL", "quadrature_degree": 2 * self.degree - 1}
        self.dx = ufl.Measure("dx", domain=self.wave.domain.mesh, metadata=metadata)

    def _assembled(self, form: Any, bcs: Any, diagonal: float) -> PETSc.Mat:
        A = assemble_matrix(fem.form(form), bcs, diagonal)
        A.assemble()
        return A

    def M(self, constrained: bool = True) -> PETSc.Mat:
        """(rho u, w)."""
        u, w = ufl.TrialFunction(self.V), ufl.TestFunction(self.V)
        rho = self.wave.rho.ufl(self.degree + 1)
        if not self.lumped:
            form = rho * ufl.inner(u, w) * self.dx
            return self._assembled(form, self.bcs if constrained else [], 1.0)
        ones = w if self.wave.scalar else sum(w)
        diagonal = fem.assemble_vector(fem.form(rho * ones * self.dx))
        diagonal.scatter_reverse(la.InsertMode.add)
        diagonal.scatter_forward()
        if constrained:
            diagonal.array[self.clamped] = 1.0
        owned = self.V.dofmap.index_map.size_local * self.V.dofmap.index_map_bs
        return diagonal_matrix(self.wave.domain.comm, diagonal.array[:owned])

    def K(self, constrained: bool = True) -> PETSc.Mat:
        """(C D u, D w): assembled, or a kernel with an assembled twin."""
        if not self.lumped:
            return self.assembled_K(constrained)
        cells = Cells(self.wave.domain)
        X = self.samples.element.points
        C = self.wave.C.at(cells.cells, X, cells.at(X, np.ones(len(X))).x)
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
        """<Y u, w> on impedance walls; lumped, at the Gauss-Lobatto points of the sides."""
        wave = self.wave
        if not wave.absorbing:
            return None
        pairs = facet_pairs(wave.domain, wave.facets(Impedance))
        if self.lumped:
            rule, degree = basix.QuadratureType.gll, 2 * self.degree - 1
        else:
            rule, degree = basix.QuadratureType.default, 2 * self.degree + 2
        walls = NodalFacets(self.samples, pairs, degree, rule)
        return walls.matrix(walls.impedance())
