"""The field with continuous normal parts and a given divergence that is nearest to given data.

    (C q, r) + (p, div r) = (e, r),   (div q, w) = d(w),

hybridised: q in RT_k of each cell, p in P_k, and traces that keep q(n) continuous. Through walls q
goes as it likes. Projections without the divergence, and interpolants, would bring in charges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import la

from hamfem.discretization.basis import Basis
from hamfem.discretization.cell_products import (
    add_from_trace,
    add_local,
    add_to_trace,
    add_transposed,
)
from hamfem.discretization.condensation import CondensedSolver
from hamfem.discretization.flux_spaces import RaviartThomas
from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.hybrid_stage import FluxBlocks
from hamfem.discretization.local import Hybrid
from hamfem.discretization.nodal import owned_vector
from hamfem.discretization.sampling import free_facets
from hamfem.discretization.trace import Trace
from hamfem.physics.boundary import Periodic
from hamfem.physics.coefficient import Coefficient
from hamfem.physics.operators import gradient
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]
Values = Callable[[Cells, Points], Array]


class Solenoidal:
    """The projection for one mesh and one coefficient.

    Args:
        wave: Whose domain and periodic sides are taken.
        W: The space of q.
        k: Its degree.
        inverse: C^-1.
    """

    def __init__(self, wave: Wave, W: Basis, k: int, inverse: Coefficient) -> None:
        domain, self.W = wave.domain, W
        periodic = [c for c in wave.boundary if isinstance(c, Periodic)]
        one = Coefficient(domain, 1.0, "density", 1)
        scalar = Wave(domain, periodic, (), gradient(domain.dim), one, inverse, ())
        self.flux = RaviartThomas(basix.CellType[domain.cell], k, scalar.symbol)
        self.hybrid = Hybrid(scalar, k, self.flux, None)
        self.blocks = FluxBlocks.of(self.hybrid)
        walls = free_facets(scalar)
        self.trace = Trace(domain, self.hybrid.trace_size, walls, scalar.boundary)
        M = np.zeros(self.blocks.M.shape)
        self._closed = not domain.comm.allreduce(len(walls))
        if self._closed and domain.comm.rank == 0:
            # Without walls p is open up to a constant, which is fixed in one cell.
            M[0, 0] = self.blocks.X[0][0, 0, 0] or self.blocks.X[2][0, 0, 0]
        self._solve = CondensedSolver(self.trace, M, self.blocks.X, 1.0)

    def project(self, e: Values, divergence: Values | None) -> PETSc.Vec:
        """All dofs of q for the data e, with (div q, w) = -(D, grad w) + <D(n), w>.

        Where all sides are periodic there is no net charge, and that of data which are not as
        periodic is taken from all cells alike.

        Args:
            e: C q, at points.
            divergence: The field D, at points; None for div q = 0.
        """
        hybrid, flux, trace, blocks = self.hybrid, self.flux, self.trace, self.blocks
        cells_count, n = blocks.M.shape[:2]
        r, d = np.zeros((cells_count, flux.size)), np.zeros((cells_count, n))
        for part, cells in hybrid.batches():
            points = cells.volume(hybrid.quadrature + 8)
            G = (e(cells, points) * points.weights[..., None])[..., None]
            r[part] = flux.moments(flux.basis(cells, points), G)[..., 0]
            if divergence is not None:
                d[part] = self._divergence(cells, points, divergence)
        if self._closed and divergence is not None:
            self._neutralise(d)
        q = np.zeros((cells_count, flux.size))
        add_local(blocks.inverse, r, q)
        f, g = -d, np.zeros(trace.length)
        minus = np.zeros_like(f)
        add_transposed(blocks.b_u, q, minus)
        f -= minus
        add_to_trace(blocks.b_l, trace.slots, trace.size, q, g)
        np.negative(g, out=g)
        p, m = np.zeros((cells_count, n)), np.zeros(trace.length)
        self._solve(np.zeros((cells_count, n)), f, g, p, m)
        add_local(blocks.c_u, p, q)
        add_from_trace(blocks.c_l, trace.slots, trace.size, m, q)
        return self._joined(q)

    def _neutralise(self, d: Array) -> None:
        """Take the mean of a divergence away, given its moments."""
        domain, element = self.hybrid.wave.domain, self.hybrid.element
        volumes = np.concatenate(
            [cells.volume(0).weights.sum(axis=1) for _, cells in self.hybrid.batches()]
            or [np.empty(0)]
        )
        # The first function of the basis is constant, and the others have no mean.
        constant = element.tabulate(0, np.zeros((1, domain.dim)))[0, 0, 0, 0]
        charge, volume = domain.comm.allreduce(np.array([d[:, 0].sum() / constant, volumes.sum()]))
        d[:, 0] -= charge / volume * constant * volumes

    def _divergence(self, cells: Cells, points: Points, D: Values) -> Array:
        """-(D, grad w) + <D(n), w> in the cells."""
        element = self.hybrid.element
        table = element.tabulate(1, points.X)[1:, :, :, 0]
        inverse = np.broadcast_to(points.inverse, (*points.x.shape, cells.dim))
        values = D(cells, points)
        pulled = np.einsum("cpj,cprj,cp->cpr", values, inverse, points.weights, optimize=True)
        moments = -np.einsum("cpr,rpf->cf", pulled, table, optimize=True)
        for k in range(cells.facet_count):
            side = cells.facet(k, self.hybrid.quadrature + 8)
            phi = element.tabulate(0, side.X)[0, :, :, 0]
            assert side.normals is not None
            through = (D(cells, side) * side.normals).sum(axis=-1) * side.weights
            moments += through @ phi
        return moments

    def _joined(self, q: Array) -> PETSc.Vec:
        """The dofs of W of coefficients in the cells; both cells of a facet agree on them."""
        W, own = self.W, self.hybrid.wave.domain.own_cells
        X = W.element.points
        table = self.flux.element.tabulate(0, X)[0]  # (points, functions, d)
        Pi = W.element.interpolation_matrix.reshape(W.element.dim, -1, len(X))
        reference = np.einsum("icp,pjc->ij", Pi, table)
        local = np.linalg.solve(np.swapaxes(W.T, 1, 2), np.broadcast_to(reference, W.T.shape))
        points = Cells(self.hybrid.wave.domain).at(X[:1], np.ones(1))
        # DOLFINx's map of fluxes has the sign of the Jacobian.
        sign = np.sign(np.linalg.det(points.inverse[:, 0]))[:, None]
        values = np.einsum("cij,cj->ci", local[W.orders(own)], q, optimize=True) * sign
        index_map = W.V.dofmap.index_map
        total, count = la.vector(index_map, 1), la.vector(index_map, 1)
        dofs = W.dofs(own).reshape(-1)
        np.add.at(total.array, dofs, values.reshape(-1))
        np.add.at(count.array, dofs, 1.0)
        for x in (total, count):
            x.scatter_reverse(la.InsertMode.add)
        owned = index_map.size_local
        return owned_vector(W.V, total.array[:owned] / count.array[:owned])
