"""Initial data: elliptic projections, which the orders of the methods rest on."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl

from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.sampling import constant, sample
from hamfem.physics.coefficient import evaluate
from hamfem.physics.wave import Wave
from hamfem.solvers import Solve

Array = npt.NDArray[Any]
# Callables are interpolated in P_(k+4): a steady start sees second derivatives, and with P_(k+2)
# their error, O(h^(k+1)), was measured to spoil the superconvergence of RT_1 x DG_1.
INTERPOLATION = 4


def check_start(start: str) -> None:
    """Refuse an unknown word."""
    if start not in ("steady", "projection"):
        raise ValueError(f"start is 'steady' or 'projection', not {start!r}.")


def is_constant(data: Any) -> bool:
    """Whether the initial data are a number or a vector."""
    return isinstance(data, int | float | np.number | list | tuple | np.ndarray)


def is_zero(data: Any) -> bool:
    """Whether the initial data are 0."""
    return is_constant(data) and not np.any(np.asarray(data))


class FarSolve:
    """(M + c K)^-1 with c far beyond the slowest wave, factorised when it is first applied."""

    def __init__(self, system: Any, crossing: float) -> None:
        self.system, self.c = system, 1e4 * crossing**2

    @cached_property
    def solve(self) -> Solve:
        """The solver."""
        return self.system.shifted(self.c)


def steady(system: Any, F: PETSc.Vec, far: FarSolve) -> PETSc.Vec:
    """A solution of K x = F that is orthogonal to ker K, by conjugate gradients.

    (M + c K)^-1 with c far beyond the slowest wave is so good a preconditioner that a handful of
    iterations suffice; it exists where K alone is singular.

    Args:
        system: Whose maps stiffness, shifted and kernel are used.
        F: The right-hand side; what of it lies in ker K is removed, and reported if it is large.
        far: The preconditioner, which several right-hand sides may share.
    """
    r = F.copy()
    scale = r.norm()
    x = r.duplicate()
    if scale == 0.0:
        return x
    if not np.isfinite(scale):
        x.set(np.nan)  # the state that is made of it says so
        return x
    kernel = system.kernel
    if kernel is not None:
        part = kernel.balance(r)
        lost = np.abs(part).max() * max(Mw.norm() for Mw in kernel.MW) / scale
        # Less is the error of interpolated data.
        if lost > 1e-3 and system.comm.rank == 0:
            warnings.warn(
                f"the initial data push the free body as a whole ({lost:.1e} of their force, which "
                "no state at rest balances): that part was removed.",
                stacklevel=4,
            )
    solve, c = far.solve, far.c
    z, p, Kp = r.duplicate(), r.duplicate(), r.duplicate()

    def precondition() -> float:
        solve(r, z)
        z.scale(c)
        if kernel is not None:
            kernel.remove(z)
        return float(r.dot(z))

    rz = first = precondition()
    z.copy(p)
    for _ in range(100):
        if not rz > 1e-30 * first:
            break
        system.stiffness(p, Kp)
        alpha = rz / p.dot(Kp)
        x.axpy(alpha, p)
        r.axpy(-alpha, Kp)
        old, rz = rz, precondition()
        if rz > old:
            break  # round-off: nothing more to gain
        p.aypx(rz / old, z)
    return x


def steady_but_for_rest(system: Any, F: PETSc.Vec, far: FarSolve) -> PETSc.Vec:
    """A solution of K x = F where ker K, which F must be orthogonal to, is too large to name.

    By x += (K + M/c)^-1 (F - K x): what moves converges with a factor below 1e-4, and what F has in
    ker K by round-off or quadrature is not amplified as by conjugate gradients.
    """
    x, r, z = F.duplicate(), F.copy(), F.duplicate()
    x.set(0.0)
    for _ in range(4):
        far.solve(r, z)
        x.axpy(far.c, z)
        system.stiffness(x, r)
        r.aypx(-1.0, F)
    return x


class Data:
    """Initial data on cells: the strain D u and the flux C D u at any reference points.

    A callable is interpolated in P_(degree) cell by cell before it is differentiated; a UFL
    expression is differentiated exactly.
    """

    def __init__(self, wave: Wave, data: Any, degree: int) -> None:
        self.wave, self.data, self.degree = wave, data, degree
        self.symbolic = isinstance(data, ufl.core.expr.Expr)
        if self.symbolic and data.ufl_shape != wave.shape:
            raise ValueError(
                f"the initial data have shape {data.ufl_shape} and must have {wave.shape}."
            )
        if not self.symbolic and not callable(data):
            constant(data, wave, "each of the initial data")

    def strain(self, cells: Cells, points: Points) -> Array:
        """D u at the points, (cells, points, components)."""
        wave, d = self.wave, cells.dim
        if self.symbolic:
            return evaluate(wave.D(self.data), wave.domain, cells.cells, points.X)
        if not callable(self.data):
            return np.zeros((len(cells), len(points.X), len(wave.symbol)))
        element = basix.create_element(
            basix.ElementFamily.P, cells.type, self.degree, basix.LagrangeVariant.gll_warped
        )
        nodes = cells.at(element.points, np.ones(len(element.points)))
        nodal = sample(self.data, wave, cells.cells, nodes, "initial data")
        table = element.tabulate(1, points.X)[1 : 1 + d, :, :, 0]
        reference = np.einsum("rpf,cfi->cpir", table, nodal, optimize=True)
        inverse = np.broadcast_to(points.inverse, (*points.x.shape, d))
        gradient = np.matmul(reference, inverse)  # (cells, points, i, j)
        return np.einsum("aij,cpij->cpa", wave.symbol, gradient, optimize=True)

    def flux(self, cells: Cells, points: Points) -> Array:
        """C D u at the points, (cells, points, components)."""
        strain = self.strain(cells, points)
        C = self.wave.C.at(cells.cells, points.X, points.x)
        if C.ndim == 2:
            return C[..., None] * strain
        C = np.broadcast_to(C, (*strain.shape, strain.shape[-1]))
        return np.einsum("cpab,cpb->cpa", C, strain)

    def strain_moments(self, cells: Cells, points: Points, element: Any) -> Array:
        """(C D u, D w) for the functions w of an element: (cells, components, functions)."""
        table = element.tabulate(1, points.X)[1:, :, :, 0]
        q = self.flux(cells, points) * points.weights[..., None]
        inverse = np.broadcast_to(points.inverse, (*points.x.shape, cells.dim))
        pulled = np.einsum("cpa,aij,cprj->cpri", q, self.wave.symbol, inverse, optimize=True)
        return np.einsum("cpri,rpf->cif", pulled, table, optimize=True)
