"""The matrices of each cell in a hybridised method, for any first-order operator D.

On each cell, with the displacement u, the flux q and the trace uh on its facets,

    (C^-1 q, r) = b(r; u, uh),    b(r; w, wh) = (r, D w) - <r, D(n)(w - wh)>,
    force on w  = -b(q; w, 0) - <tau (u - uh), w>,

so that the stiffness on (u, uh) is b'(C^-1)^-1 b + s, with s(w, wh) = <tau (w - wh), w - wh>. With
discontinuous fluxes this is HDG; with Raviart-Thomas fluxes and tau = 0 the mixed method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hamfem.discretization.flux_spaces import basix_volume, legendre
from hamfem.discretization.geometry import Cells, Points, tangents
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]
# Cells are treated in batches that fit into the cache and bound the memory.
_BATCH = 512


@dataclass
class Blocks:
    """The matrices of a batch of cells: displacements u, fluxes q, traces l of all its facets.

    Attributes:
        cells: The batch, as a slice of the cells of this rank.
        M: (rho u, w).
        b_u: b(q; u, 0).
        b_l: b(q; 0, uh).
        c_u: M_q^-1 b_u.
        c_l: M_q^-1 b_l.
        s_uu: <tau u, w>.
        s_ul: -<tau uh, w>.
        s_ll: <tau uh, wh>.
        M_q: (C^-1 q, r), where it was asked for, and its inverse.
    """

    cells: slice
    M: Array
    b_u: Array
    b_l: Array
    c_u: Array
    c_l: Array
    s_uu: Array
    s_ul: Array
    s_ll: Array
    M_q: Array | None = None
    inverse: Array | None = None


class Hybrid:
    """The spaces of a hybridised method on the cells of this rank.

    Args:
        wave: The physics.
        degree: k, the degree of the displacement.
        flux: The space of the flux.
        tau: The stabilisation in each cell, or None.
    """

    def __init__(self, wave: Wave, degree: int, flux: Any, tau: Array | None) -> None:
        self.wave, self.degree, self.flux, self.tau = wave, degree, flux, tau
        self.cells = Cells(wave.domain)
        self.element = legendre(self.cells.type, degree)
        self.components = wave.symbol.shape[1]
        self.size = self.components * self.element.dim
        dim = wave.domain.dim
        facet = self.cells.facet_type
        self.trace_element = None if dim == 1 else legendre(facet, flux.trace_degree)
        functions = 1 if self.trace_element is None else self.trace_element.dim
        self.trace_components = dim - 1 if wave.tangential else self.components
        self.trace_size = self.trace_components * functions
        # Enough for the products of the basis; one more where the geometry is not affine.
        extra = 0 if self.cells.affine else 2
        self.quadrature = 2 * max(degree, flux.degree) + extra

    def batches(self) -> Iterator[tuple[slice, Cells]]:
        """The cells of this rank, a batch at a time."""
        for start in range(0, len(self.cells), _BATCH):
            part = slice(start, min(start + _BATCH, len(self.cells)))
            yield part, Cells(self.wave.domain, self.cells.cells[part])

    def trace_tables(self, degree: int) -> Array:
        """The trace basis at a facet's points, for each orientation: (orientations, points, l)."""
        own = self.cells.own_coordinates(degree)
        if self.trace_element is None:
            return np.ones((1, 1, 1))
        return np.stack([self.trace_element.tabulate(0, s)[0, :, :, 0] for s in own])

    def frames(self, points: Points) -> Array:
        """The directions of the trace's components: (cells, points or 1, t, i)."""
        assert points.normals is not None
        return frames(self.wave, points.normals)

    def blocks(self, with_mass: bool = False) -> Iterator[Blocks]:
        """The matrices of all cells, a batch at a time."""
        tables = self.trace_tables(self.quadrature)
        for part, cells in self.batches():
            yield self._blocks(part, cells, tables, with_mass)

    def _blocks(self, part: slice, cells: Cells, tables: Array, with_mass: bool) -> Blocks:
        wave, flux, n = self.wave, self.flux, len(cells)
        points = cells.volume(self.quadrature)
        table = self.element.tabulate(1, points.X)[..., 0]
        phi, dphi = table[0], table[1:]
        rho = wave.rho.at(cells.cells, points.X, points.x)
        M = self._mass(phi, points.weights, rho, cells.affine)
        # gradients (cells, points, functions, directions), then D of each basis function
        gradient = np.einsum(
            "rpf,cprj->cpfj",
            dphi,
            np.broadcast_to(points.inverse, (n, len(phi), cells.dim, cells.dim)),
            optimize=True,
        )
        G = np.einsum("aij,cpfj->cpaif", flux.symbol, gradient, optimize=True)
        G *= points.weights[:, :, None, None, None]
        basis = flux.basis(cells, points)
        b_u = flux.moments(basis, G.reshape(*G.shape[:3], -1))
        m = self.trace_size * cells.facet_count
        b_l = np.zeros((n, flux.size, m))
        s_uu = np.zeros((n, self.size, self.size))
        s_ul, s_ll = np.zeros((n, self.size, m)), np.zeros((n, m, m))
        for k in range(cells.facet_count):
            columns = slice(k * self.trace_size, (k + 1) * self.trace_size)
            self._facet(
                part,
                cells,
                k,
                tables,
                b_u,
                b_l[:, :, columns],
                s_uu,
                s_ul[:, :, columns],
                s_ll[:, columns, columns],
            )
        C = wave.C.at(cells.cells, points.X, points.x)
        both = np.concatenate([b_u, b_l], axis=2)
        M_q = inverse = None
        if with_mass:
            M_q = flux.mass(basis, points.weights, C)
            inverse = flux.inverse(M_q)
            c = np.matmul(inverse, both)
        else:
            c = flux.solve(basis, points.weights, C, cells.affine, both)
        c_u, c_l = c[:, :, : self.size], c[:, :, self.size :]
        return Blocks(part, M, b_u, b_l, c_u, c_l, s_uu, s_ul, s_ll, M_q, inverse)

    def _mass(self, phi: Array, weights: Array, rho: Array, affine: bool) -> Array:
        """(rho u, w), shape (cells, size) if it is diagonal, else (cells, size, size)."""
        n, f = len(weights), phi.shape[1]
        if rho.ndim == 4:
            weighted = weights[..., None, None] * rho
            mass = np.einsum("cpij,pf,pg->cifjg", weighted, phi, phi, optimize=True)
            return mass.reshape(n, self.size, self.size)
        if affine and rho.shape[1] == 1:
            volume = weights.sum(axis=1) / basix_volume(self.cells.type)
            return np.repeat((rho[:, 0] * volume)[:, None], self.size, axis=1)
        products = (phi[:, :, None] * phi[:, None, :]).reshape(len(phi), -1)
        block = ((rho * weights) @ products).reshape(n, f, f)
        return np.einsum("ij,cfg->cifjg", np.eye(self.components), block).reshape(
            n, self.size, self.size
        )

    def _facet(
        self,
        part: slice,
        cells: Cells,
        k: int,
        tables: Array,
        b_u: Array,
        b_l: Array,
        s_uu: Array,
        s_ul: Array,
        s_ll: Array,
    ) -> None:
        symbol, n = self.flux.symbol, len(cells)
        points = cells.facet(k, self.quadrature)
        assert points.normals is not None
        phi = self.element.tabulate(0, points.X)[0, :, :, 0]
        eta = tables[cells.orientation(k)]  # (cells, points, l)
        w = points.weights
        p = len(phi)
        at_normal = np.einsum("aij,cpj->cpai", symbol, points.normals)  # D(n)
        at_normal = np.broadcast_to(at_normal, (n, p, *at_normal.shape[2:])) * w[:, :, None, None]
        frame = np.broadcast_to(F := self.frames(points), (n, p, *F.shape[2:]))
        basis = self.flux.basis(cells, points)
        G = at_normal[..., None] * phi[None, :, None, None, :]
        b_u -= self.flux.moments(basis, G.reshape(n, p, len(symbol), -1))
        G = np.einsum("cpai,cpti->cpat", at_normal, frame)[..., None] * eta[:, :, None, None, :]
        b_l += self.flux.moments(basis, G.reshape(n, p, len(symbol), -1))
        if self.tau is None:
            return
        weights = w * self.tau[part, None]
        u: Array = (frame[..., None] * phi[None, :, None, None, :]).reshape(n, p, -1, self.size)
        t = self.trace_components
        eye = np.broadcast_to(np.eye(t), (n, p, t, t))
        uh: Array = (eye[..., None] * eta[:, :, None, None, :]).reshape(n, p, t, -1)
        u, uh = u.reshape(n, p * t, -1), uh.reshape(n, p * t, -1)
        scaled = np.repeat(weights, t, axis=1)[..., None]
        s_uu += np.matmul(u.transpose(0, 2, 1), scaled * u)
        s_ul -= np.matmul(u.transpose(0, 2, 1), scaled * uh)
        s_ll += np.matmul(uh.transpose(0, 2, 1), scaled * uh)


def frames(wave: Wave, normals: Array) -> Array:
    """The directions of the trace's components at normals (n, p, d): (n, p, t, i)."""
    if wave.tangential:
        return tangents(normals)
    n = wave.symbol.shape[1]
    return np.broadcast_to(np.eye(n), (*normals.shape[:2], n, n))
