"""Functions sampled at points of facets and cells, and the loads that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
import ufl

from hamfem.communicator import lasting
from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.local import Hybrid, frames
from hamfem.discretization.trace import facets_of_cells
from hamfem.domain import Domain
from hamfem.loads import Load, SampledLoad
from hamfem.physics.boundary import Clamped, Periodic
from hamfem.physics.coefficient import Coefficient, call, evaluate
from hamfem.physics.data import Amplitude, Data, Sampled, Separated, vector
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]


def facet_pairs(domain: Domain, facets: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """(cell, facet of the cell) for those of the facets that bound a cell of this rank."""
    table = facets_of_cells(domain)
    return np.argwhere(np.isin(table, facets)).astype(np.int32)


def free_facets(wave: Wave) -> npt.NDArray[np.int32]:
    """The facets of own cells on the boundary that no condition names.

    Own cells know all their neighbours; ghosts do not, and look as if they lay at the boundary.
    """
    topology, dim = wave.domain.mesh.topology, wave.domain.dim
    topology.create_connectivity(dim - 1, dim)
    alone = np.diff(topology.connectivity(dim - 1, dim).offsets) == 1
    for condition in wave.boundary:
        alone[wave.domain.facets(*condition.names)] = False
    return np.intersect1d(np.flatnonzero(alone), facets_of_cells(wave.domain)).astype(np.int32)


class Kind(Protocol):
    """What values of a field look like: u of a wave, or another field."""

    @property
    def domain(self) -> Domain:
        """Where it lives."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of its values."""

    @property
    def components(self) -> int:
        """How many numbers a value is."""

    @property
    def scalar(self) -> bool:
        """Whether it is one."""


def sample(f: Any, wave: Kind, cells: npt.NDArray[np.int32], points: Points, what: str) -> Array:
    """A number or vector, callable or UFL expression like u at the points: (cells, points, i)."""
    shape = (*points.x.shape[:2], wave.components)
    if isinstance(f, ufl.core.expr.Expr):
        if f.ufl_shape != wave.shape:
            raise ValueError(f"{what} has shape {f.ufl_shape} and must have {wave.shape}.")
        return evaluate(f, wave.domain, cells, points.X).reshape(shape)
    if callable(f):
        return call(f, points.x, what, wave.shape).reshape(shape)
    return np.broadcast_to(constant(f, wave, what), shape)


def constant(f: Any, wave: Kind, what: str) -> Array:
    """A number, or as many numbers as u has components; 0 is a vector too."""
    if isinstance(f, int | float | np.number) and np.isfinite(f) and (wave.scalar or f == 0):
        return np.full(wave.components, float(f))
    if isinstance(f, list | tuple | np.ndarray) and not wave.scalar:
        if np.shape(f) == wave.shape:
            return vector(f)
        raise ValueError(f"{what} has shape {np.shape(f)} and must have {wave.shape}.")
    kind = "a number" if wave.scalar else f"0, a vector of {wave.components} numbers"
    raise TypeError(f"{what} is {kind}, a callable x -> array or a UFL expression: {f!r} is none.")


def weighted(c: Coefficient, cells: Cells, points: Points, values: Array) -> Array:
    """A coefficient times a field at points."""
    factor = c.at(cells.cells, points.X, points.x)
    if factor.ndim == 2:
        return factor[..., None] * values
    return np.matmul(factor, values[..., None])[..., 0]


class FacetPoints:
    """Quadrature points on some facets of own cells.

    Attributes:
        cells: The cell of each facet, as a number among the cells of this rank.
        facets: Which facet of the cell it is.
        x: The points, (facets, points, dim).
        weights: Weights times the measure, (facets, points).
        normals: The outward normals, (facets, points, dim).
    """

    def __init__(
        self,
        wave: Wave,
        pairs: npt.NDArray[np.int32],
        degree: int,
        rule: basix.QuadratureType = basix.QuadratureType.default,
    ) -> None:
        self.cells, self.facets = pairs[:, 0], pairs[:, 1]
        domain, self.wave = wave.domain, wave
        own = Cells(domain)
        # For each facet of a cell: which of the facets here are that one, and their points.
        self.by_facet: list[tuple[Array, Cells, Points]] = []
        for f in range(own.facet_count):
            mine = np.flatnonzero(self.facets == f)
            cells = Cells(domain, own.cells[self.cells[mine]])
            self.by_facet.append((mine, cells, cells.facet(f, degree, rule)))
        shape = (len(pairs), len(self.by_facet[0][2].X))
        self.x, self.weights = np.zeros((*shape, domain.dim)), np.zeros(shape)
        self.normals = np.zeros((*shape, domain.dim))
        for mine, _, points in self.by_facet:
            self.x[mine], self.weights[mine] = points.x, points.weights
            assert points.normals is not None
            self.normals[mine] = points.normals

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of values like those of u at the points: (facets, points, components)."""
        return (*self.weights.shape, self.wave.components)

    def values(self, f: Any) -> Array:
        """A number or vector, callable or UFL expression at the points."""
        result = np.zeros(self.shape)
        for mine, cells, points in self.by_facet:
            result[mine] = sample(f, self.wave, cells.cells, points, "boundary data")
        return result

    def impedance(self) -> Array:
        """Y with Y rho^-1 Y = D(n)'C D(n), a matrix at each point: (facets, points, i, i).

        A plane wave along n that goes out has the flux -Y v. For D = curl it acts on the tangential
        part; the normal part of v, where no flux acts on it, is eliminated from rho.
        """
        wave, n = self.wave, self.wave.components
        Y = np.zeros((*self.weights.shape, n, n))
        for mine, cells, points in self.by_facet:
            rho, C = (c.at(cells.cells, points.X, points.x) for c in (wave.rho, wave.C))
            D = np.einsum("aij,fpj->fpai", wave.symbol, self.normals[mine])
            C_D = C[..., None, None] * D if C.ndim == 2 else np.matmul(C, D)
            A = np.matmul(np.swapaxes(D, 2, 3), C_D)
            if rho.ndim == 2:
                rho = rho[..., None, None] * np.eye(n)
            frame = frames(wave, self.normals[mine])
            back = np.swapaxes(frame, 2, 3)
            reduced = np.linalg.inv(frame @ np.linalg.inv(rho) @ back)
            Y[mine] = back @ geometric_mean(reduced, frame @ A @ back) @ frame
        return Y

    def cell_moments(self, element: Any, values: Array) -> Array:
        """<values, w> for the functions w of an element: (facets, components, functions)."""
        result = np.zeros((len(self.cells), self.wave.components, element.dim))
        for mine, _, points in self.by_facet:
            phi = element.tabulate(0, points.X)[0, :, :, 0]
            weights = self.weights[mine]
            result[mine] = np.einsum("cp,cpi,pf->cif", weights, values[mine], phi, optimize=True)
        return result

    def call(self, g: Callable[[Any, float], Any], t: float) -> Array:
        """g(x, t) at the points."""
        values = call(lambda x: g(x, t), self.x, "boundary data", self.wave.shape)
        return values.reshape(self.shape)


def geometric_mean(A: Array, B: Array) -> Array:
    """Y with Y A^-1 Y = B for symmetric positive definite matrices A and B."""
    L = np.linalg.cholesky(A)
    inverse = np.linalg.inv(L)
    values, vectors = np.linalg.eigh(inverse @ B @ np.swapaxes(inverse, -1, -2))
    vectors = L @ vectors
    return (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)


class FacetSamples(FacetPoints):
    """Quadrature points on some facets, and moments against the trace basis."""

    def __init__(
        self, hybrid: Hybrid, pairs: npt.NDArray[np.int32], degree: int | None = None
    ) -> None:
        degree = hybrid.quadrature if degree is None else degree
        super().__init__(hybrid.wave, pairs, degree)
        tables = hybrid.trace_tables(degree)
        self.eta = np.zeros((len(pairs), *tables.shape[1:]))
        for f, (mine, cells, _) in enumerate(self.by_facet):
            self.eta[mine] = tables[cells.orientation(f)]
        self.size = hybrid.trace_size

    @cached_property
    def frame(self) -> Array:
        """The directions of the trace's components: (facets, points, t, i)."""
        return frames(self.wave, self.normals)

    def moments(self, values: Array) -> Array:
        """<values, eta> for values (facets, points, i): shape (facets, size)."""
        along = np.einsum("fpti,fpi->fpt", self.frame, values)
        moments = np.einsum("fp,fpt,fpl->ftl", self.weights, along, self.eta, optimize=True)
        return moments.reshape(len(values), self.size)

    def mass(self, Y: Array | None = None) -> Array:
        """<Y eta, eta> for matrices Y at the points, 1 by default: (facets, size, size)."""
        if Y is None:
            Y = np.broadcast_to(np.eye(self.wave.components), (*self.shape, self.shape[2]))
        along: Array = self.frame @ Y @ np.swapaxes(self.frame, 2, 3)
        weighted = self.weights[..., None, None] * along
        mass = np.einsum("fpij,fpl,fpm->filjm", weighted, self.eta, self.eta, optimize=True)
        return mass.reshape(len(mass), self.size, self.size)

    def project(self, values: Array) -> Array:
        """The trace that is nearest to the values (facets, points, i): shape (facets, size)."""
        if not len(values):
            return np.zeros((0, self.size))
        return np.linalg.solve(self.mass(), self.moments(values)[..., None])[..., 0]

    def from_cells(self, hybrid: Hybrid, u: Array) -> Array:
        """The trace nearest to the displacement of the cells, (facets, size)."""
        values = np.zeros(self.shape)
        for mine, _, points in self.by_facet:
            phi = hybrid.element.tabulate(0, points.X)[0, :, :, 0]
            cells = u[self.cells[mine]].reshape(len(mine), self.wave.components, phi.shape[1])
            values[mine] = np.einsum("fin,pn->fpi", cells, phi)
        return self.project(values)

    def _columns(self) -> Array:
        """Where the facets' numbers stand among those of their cells, (facets, size)."""
        return self.facets[:, None] * self.size + np.arange(self.size)

    def on_diagonal(self, X: Array, values: Array) -> Array:
        """X, (cells, m, m), with the values (facets, size, size) added where the facets stand."""
        result = X.astype(np.result_type(X, values))
        at = self._columns()
        result[self.cells[:, None, None], at[:, :, None], at[:, None, :]] += values
        return result

    def pulled(self, blocks: Array, traces: Array) -> Array:
        """The sum over facets of trace times block, for blocks (cells, m, n): (cells, n)."""
        r = np.zeros((len(blocks), blocks.shape[2]))
        np.add.at(r, self.cells, np.einsum("fl,fln->fn", traces, self.picked(blocks)))
        return r

    def picked(self, blocks: Array) -> Array:
        """Of blocks (cells, m, n) the rows of the facets: (facets, size, n)."""
        return blocks[self.cells[:, None], self._columns()]


def prescribed_sides(hybrid: Hybrid) -> list[tuple[Any, FacetSamples]]:
    """The conditions that prescribe something, each with the points of its sides."""
    domain = hybrid.wave.domain
    sides = []
    for condition in hybrid.wave.boundary:
        if not isinstance(condition, Periodic) and condition.value is not None:
            pairs = facet_pairs(domain, domain.facets(*condition.names))
            samples = FacetSamples(hybrid, pairs)
            check_along_wall(condition, samples)
            sides.append((condition, samples))
    return sides


def check_along_wall(condition: Any, samples: FacetPoints) -> None:
    """Refuse tangential data with a normal part, at some times; a curved side may leave a little.

    Only fields whose tangential part has a trace are concerned.
    """
    wave, data = samples.wave, condition.value
    if not wave.tangential:
        return
    if isinstance(data, Separated):
        values = [samples.values(data.shape)]
    else:
        # The potential on a clamped side may not be known: its derivative is the field.
        g = data.first or data.value if isinstance(condition, Clamped) else data.value
        values = [samples.call(g, t) for t in (0.0, 0.3, 1.1)]
    facets = facets_of_cells(wave.domain)[samples.cells, samples.facets]
    for name in condition.names:
        mine = np.isin(facets, wave.domain.facets(name))
        n = samples.normals[mine]
        local = [
            *n.max(axis=(0, 1), initial=-1.0),
            *-n.min(axis=(0, 1), initial=1.0),
            max(np.abs((v[mine] * n).sum(axis=-1)).max(initial=0.0) for v in values),
            max(np.abs(v[mine]).max(initial=0.0) for v in values),
        ]
        found = np.empty(len(local))
        wave.domain.comm.Allreduce(np.array(local), found, MPI.MAX)
        highest, lowest = np.split(found[:-2], 2)
        flat = bool(np.all(highest + lowest < 1e-8))
        normal, largest = found[-2:]
        if normal > (1e-8 if flat else 0.3) * largest:
            raise ValueError(
                f"the value on side '{name}' must be tangential and has a part normal to the wall "
                f"({normal:.2g} of {largest:.2g}): take that part away."
            )


class Shell:
    """A matrix that is known by what it does to samples."""

    def __init__(self, apply: Callable[[Array], PETSc.Vec]) -> None:
        self._apply = apply

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        """Y = W x."""
        self._apply(x.array_r).copy(y)

    def multAdd(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec, z: PETSc.Vec) -> None:
        """Z = y + W x."""
        r = self._apply(x.array_r)
        if y.handle != z.handle:
            y.copy(z)
        z.axpy(1.0, r)


def data_loads(
    data: Data,
    samples: FacetPoints,
    response: Callable[[Array], PETSc.Vec],
    derivative: int = 0,
    on_flux: bool = False,
) -> list[Load | SampledLoad]:
    """The loads of data on facets, or of their derivative, from the response to values at points.

    Args:
        data: What is prescribed.
        samples: The points.
        response: The load vector that belongs to values at the points, (facets, points, i).
        derivative: Which time derivative of the data acts.
        on_flux: Whether they act on the equation of the flux, where explicit methods integrate.
    """
    if isinstance(data, Separated):
        a = data.amplitude.derivative(derivative)
        vector = response(samples.values(data.shape))
        return [Load(a.value, vector, a.antiderivative if on_flux else None)]
    if isinstance(data, Sampled):
        g = data.derivative(derivative)
        template = response(np.zeros(samples.shape))
        comm = lasting(template.comm.tompi4py())
        count = math.prod(samples.shape)
        W = PETSc.Mat().createPython(
            (template.sizes, (count, comm.allreduce(count))),
            Shell(lambda x: response(x.reshape(samples.shape))),
            comm=comm,
        )
        W.setUp()
        return [SampledLoad(W, lambda t: samples.call(g, t).reshape(-1))]
    return []


def prescribed(data: Data, samples: FacetPoints, t: float, derivative: int = 0) -> Array:
    """Prescribed data, or a time derivative of them, at the points."""
    if isinstance(data, Separated):
        return data.amplitude.derivative(derivative)(t) * samples.values(data.shape)
    assert isinstance(data, Sampled)
    return samples.call(data.derivative(derivative), t)


def source_load(vector: PETSc.Vec, amplitude: Amplitude) -> Load:
    """A volume source; one that no test function sees is refused."""
    if vector.norm() == 0.0:
        raise ValueError(
            "a source touches nothing: its shape is 0 at all quadrature points; put it into the "
            "mesh, and make it wider than a cell."
        )
    return Load(amplitude.value, vector)
