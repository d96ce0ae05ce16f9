"""Continuous Galerkin: a physics becomes a second-order system on a continuous space."""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

import numpy as np
import ufl
from dolfinx import fem
from dolfinx.fem.petsc import assemble_matrix

from hamfem.physics.acoustic import Acoustic
from hamfem.physics.boundary import clamped_names
from hamfem.state import State
from hamfem.system import SecondOrder


def cg(wave: Acoustic, degree: int) -> SecondOrder:
    """M_ij = (rho phi_j, phi_i), K_ij = (kappa grad phi_j, grad phi_i) on continuous P_degree.

    Clamped dofs have 1 on the diagonal of M and 0 in K: their frequency is 0, so that they stay
    where they are and do not spoil the stable step.
    """
    if not isinstance(degree, int) or degree < 1:
        raise ValueError(f"continuous elements have a degree of at least 1: {degree!r} is not one.")
    domain = wave.domain
    V = fem.functionspace(domain.mesh, ("Lagrange", degree))
    facets = domain.facets(*clamped_names(wave.boundary))
    domain.mesh.topology.create_connectivity(domain.dim - 1, domain.dim)
    clamped = fem.locate_dofs_topological(V, domain.dim - 1, facets)
    bcs = [fem.dirichletbc(PETSc.ScalarType(0), clamped, V)]

    u, w = ufl.TrialFunction(V), ufl.TestFunction(V)
    rho = fem.Constant(domain.mesh, PETSc.ScalarType(wave.density))
    kappa = fem.Constant(domain.mesh, PETSc.ScalarType(wave.stiffness))
    matrices = []
    for form, diagonal in ((rho * u * w, 1.0), (kappa * ufl.inner(ufl.grad(u), ufl.grad(w)), 0.0)):
        A = assemble_matrix(fem.form(form * ufl.dx), bcs, diagonal)
        A.assemble()
        A.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        matrices.append(A)
    M, K = matrices
    M.setOption(PETSc.Mat.Option.SPD, True)
    return SecondOrder(M, K, space=_NodalSpace(V, clamped))


class _NodalSpace:
    """Vectors of nodal values, which are 0 at the clamped dofs."""

    def __init__(self, V: fem.FunctionSpace, clamped: Any) -> None:
        self.V, self.clamped = V, clamped

    def vector(self, data: Any) -> PETSc.Vec:
        """The nodal values of a callable x -> array, or of the constant 0."""
        f = fem.Function(self.V)
        if callable(data):
            f.interpolate(data)
        elif not (np.isscalar(data) and data == 0):
            raise TypeError(f"initial data are a callable x -> array, or 0: {data!r} is neither.")
        f.x.array[self.clamped] = 0.0
        vector = f.x.petsc_vec.copy()
        vector.ghostUpdate(PETSc.InsertMode.INSERT, PETSc.ScatterMode.FORWARD)
        return vector

    def fields(self, state: State) -> dict[str, fem.Function]:
        """The displacement u and the velocity v as functions."""
        result = {}
        for name, vector in (("u", state.q), ("v", state.v)):
            f = fem.Function(self.V, name=name)
            f.x.array[: len(vector.array)] = vector.array
            f.x.scatter_forward()
            result[name] = f
        return result
