"""Functions sampled at points of facets and cells, and the loads that are made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
import ufl

from hamfem.discretization.geometry import Cells, Points
from hamfem.discretization.local import Hybrid
from hamfem.discretization.trace import facets_of_cells
from hamfem.domain import Domain
from hamfem.loads import Load, SampledLoad
from hamfem.physics.boundary import Periodic
from hamfem.physics.coefficient import Coefficient, call, evaluate
from hamfem.physics.data import Amplitude, Data, Sampled, Separated
from hamfem.physics.wave import Wave

Array = npt.NDArray[Any]


def facet_pairs(domain: Domain, facets: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """(cell, facet of the cell) for those of the facets that bound a cell of this rank."""
    table = facets_of_cells(domain)
    return np.argwhere(np.isin(table, facets)).astype(np.int32)


def sample(
    f: Any, domain: Domain, cells: npt.NDArray[np.int32], points: Points, what: str
) -> Array:
    """A number, callable or UFL expression at the points: shape (cells, points)."""
    if isinstance(f, ufl.core.expr.Expr):
        return evaluate(f, domain, cells, points.X)
    if callable(f):
        return call(f, points.x, what)
    if isinstance(f, int | float | np.number) and np.isfinite(f):
        return np.full(points.x.shape[:2], float(f))
    raise TypeError(
        f"{what} is a number, a callable x -> array or a UFL expression: {f!r} is none."
    )


class FacetPoints:
    """Quadrature points on some facets of own cells.

    Attributes:
        cells: The cell of each facet, as a number among the cells of this rank.
        facets: Which facet of the cell it is.
        x: The points, (facets, points, dim).
        weights: Weights times the measure, (facets, points).
        normals: The outward normals, (facets, points, dim).
    """

    def __init__(self, domain: Domain, pairs: npt.NDArray[np.int32], degree: int) -> None:
        self.cells, self.facets = pairs[:, 0], pairs[:, 1]
        self.domain = domain
        own = Cells(domain)
        # For each facet of a cell: which of the facets here are that one, and their points.
        self.by_facet: list[tuple[Array, Cells, Points]] = []
        for f in range(own.facet_count):
            mine = np.flatnonzero(self.facets == f)
            cells = Cells(domain, own.cells[self.cells[mine]])
            self.by_facet.append((mine, cells, cells.facet(f, degree)))
        shape = (len(pairs), len(self.by_facet[0][2].X))
        self.x, self.weights = np.zeros((*shape, domain.dim)), np.zeros(shape)
        self.normals = np.zeros((*shape, domain.dim))
        for mine, _, points in self.by_facet:
            self.x[mine], self.weights[mine] = points.x, points.weights
            assert points.normals is not None
            self.normals[mine] = points.normals

    def values(self, f: Any) -> Array:
        """A coefficient, number, callable or UFL expression at the points, (facets, points)."""
        result = np.zeros(self.weights.shape)
        for mine, cells, points in self.by_facet:
            if isinstance(f, Coefficient):
                result[mine] = f.at(cells.cells, points.X, points.x)
            else:
                result[mine] = sample(f, self.domain, cells.cells, points, "boundary data")
        return result

    def conductance(self, C: Coefficient) -> Array:
        """How stiff the wall's normal direction is: n'C n at the points."""
        result = np.zeros(self.weights.shape)
        for mine, cells, points in self.by_facet:
            values = C.at(cells.cells, points.X, points.x)
            if values.ndim == 4:
                n = self.normals[mine]
                C_n = np.broadcast_to(values, (*n.shape, n.shape[2]))
                values = np.einsum("fpa,fpab,fpb->fp", n, C_n, n)
            result[mine] = values
        return result

    def impedance(self, wave: Wave) -> Array:
        """sqrt(rho n'C n) at the points."""
        return np.sqrt(self.values(wave.rho) * self.conductance(wave.C))

    def call(self, g: Callable[[Any, float], Any], t: float) -> Array:
        """g(x, t) at the points."""
        return call(lambda x: g(x, t), self.x, "boundary data")


class FacetSamples(FacetPoints):
    """Quadrature points on some facets, and moments against the trace basis."""

    def __init__(self, hybrid: Hybrid, pairs: npt.NDArray[np.int32]) -> None:
        super().__init__(hybrid.wave.domain, pairs, hybrid.quadrature)
        tables = hybrid.trace_tables()
        self.eta = np.zeros((len(pairs), *tables.shape[1:]))
        for f, (mine, cells, _) in enumerate(self.by_facet):
            self.eta[mine] = tables[cells.orientation(f)]
        self.size = hybrid.trace_size

    def moments(self, values: Array) -> Array:
        """<values, eta>, shape (facets, size)."""
        return np.einsum("fp,fpl->fl", self.weights * values, self.eta)

    def mass(self, values: Array | float = 1.0) -> Array:
        """<values eta, eta>, shape (facets, size, size)."""
        return np.einsum("fp,fpl,fpm->flm", self.weights * values, self.eta, self.eta)

    def project(self, values: Array) -> Array:
        """The trace that is nearest to the values, shape (facets, size)."""
        if not len(values):
            return np.zeros((0, self.size))
        return np.linalg.solve(self.mass(), self.moments(values)[..., None])[..., 0]

    def from_cells(self, hybrid: Hybrid, u: Array) -> Array:
        """The trace nearest to the displacement of the cells, (facets, size)."""
        values = np.zeros(self.weights.shape)
        for mine, _, points in self.by_facet:
            phi = hybrid.element.tabulate(0, points.X)[0, :, :, 0]
            values[mine] = u[self.cells[mine]] @ phi.T
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
        picked = blocks[self.cells[:, None], self._columns()]
        np.add.at(r, self.cells, np.einsum("fl,fln->fn", traces, picked))
        return r


def prescribed_sides(hybrid: Hybrid) -> list[tuple[Any, FacetSamples]]:
    """The conditions that prescribe something, each with the points of its sides."""
    domain = hybrid.wave.domain
    return [
        (condition, FacetSamples(hybrid, facet_pairs(domain, domain.facets(*condition.names))))
        for condition in hybrid.wave.boundary
        if not isinstance(condition, Periodic) and condition.value is not None
    ]


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
) -> list[Load | SampledLoad]:
    """The loads of data on facets, or of their derivative, from the response to values at points.

    Args:
        data: What is prescribed.
        samples: The points.
        response: The load vector that belongs to values at the points, shape (facets, points).
        derivative: Which time derivative of the data acts.
    """
    if isinstance(data, Separated):
        a = data.amplitude.derivative(derivative)
        return [Load(a.value, response(samples.values(data.shape)), a.antiderivative)]
    if isinstance(data, Sampled):
        g = data.derivative(derivative)
        template = response(np.zeros(samples.weights.shape))
        comm = template.comm.tompi4py()
        count = samples.weights.size
        W = PETSc.Mat().createPython(
            (template.sizes, (count, comm.allreduce(count))),
            Shell(lambda x: response(x.reshape(samples.weights.shape))),
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
    return Load(amplitude.value, vector, amplitude.antiderivative)
