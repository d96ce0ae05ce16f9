"""Material coefficients: numbers or matrices, per region, as functions of x or as UFL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt
import ufl
from dolfinx import fem

from hamfem.dolfinx_versions import cell_nodes, geometry_degree, interpolation_points
from hamfem.domain import Box, Domain

Array = npt.NDArray[Any]


class Coefficient:
    """A positive number, or a symmetric positive definite matrix, at every point.

    Args:
        domain: The mesh, whose regions have names.
        value: A number or matrix; {region name: number or matrix}; a callable x -> array, which
            gets points of shape (3, n) and returns n numbers or an array (size, size, n); or a
            UFL expression.
        name: What it is called in messages.
        size: The number of rows that a matrix must have.
    """

    def __init__(self, domain: Domain, value: Any, name: str, size: int) -> None:
        self.domain, self.name, self.size = domain, name, size
        self.value = value
        self._regions: dict[str, Array] = {}
        if isinstance(value, Mapping):
            self._regions = self._per_region(value)
        elif not callable(value) and not isinstance(value, ufl.core.expr.Expr):
            self.value = self._constant(value)
        self._functions: dict[int, Any] = {}
        self._check()

    def _constant(self, value: Any) -> Array:
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(
                f"the {self.name} is a number, {{region: number}}, a callable x -> array or a UFL "
                f"expression: {value!r} is none."
            ) from None
        if array.shape not in ((), (self.size, self.size)):
            raise ValueError(
                f"the {self.name} must be a positive number or a {self.size} x {self.size} matrix "
                f"and has shape {array.shape}."
            )
        return array

    def _per_region(self, value: Mapping[str, Any]) -> dict[str, Array]:
        values = {region: self._constant(v) for region, v in value.items()}
        if self.domain.outside(*values):
            known = ", ".join(self.domain.regions) or "none"
            raise ValueError(
                f"the {self.name} is not given everywhere: some cells lie in no region of "
                f"{list(value)} (the mesh has: {known})."
            )
        return values

    @cached_property
    def _by_cell(self) -> Array:
        """Its value in each cell of this rank, if it is given per region."""
        index_map = self.domain.mesh.topology.index_map(self.domain.dim)
        shape = (self.size, self.size) if self.is_matrix else ()
        result = np.full((index_map.size_local + index_map.num_ghosts, *shape), np.nan)
        for region, v in self._regions.items():
            full = v if v.ndim == len(shape) else v * np.eye(self.size)
            result[self.domain.cells(region)] = full
        return result

    @property
    def cellwise(self) -> bool:
        """Whether it is constant in each cell."""
        return isinstance(self.value, np.ndarray) or bool(self._regions)

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix; callables tell by what they return."""
        if self._regions:
            return any(v.ndim == 2 for v in self._regions.values())
        if isinstance(self.value, ufl.core.expr.Expr):
            return len(self.value.ufl_shape) == 2
        if callable(self.value):
            return np.asarray(self.value(np.full((3, 1), 0.5))).ndim == 3
        return self.value.ndim == 2

    def at(self, cells: npt.NDArray[np.int32], X: Array, x: Array) -> Array:
        """Its values at the reference points X of the cells, which are the points x.

        Args:
            cells: The local numbers of the cells.
            X: Reference points, shape (points, dim).
            x: The same points in space, shape (cells, points, dim).

        Returns:
            Shape (cells, points), or (cells, points, size, size) for a matrix; the second axis has
            length 1 where the coefficient is constant in each cell.
        """
        if self._regions:
            return self._by_cell[cells][:, None]
        if isinstance(self.value, np.ndarray):
            return np.broadcast_to(self.value, (len(cells), 1, *self.value.shape))
        if isinstance(self.value, ufl.core.expr.Expr):
            return evaluate(self.value, self.domain, cells, X)
        return call(self.value, x, f"the {self.name}", (), (self.size, self.size))

    def ufl(self, degree: int) -> Any:
        """A UFL expression; a callable is interpolated by discontinuous P_degree."""
        if isinstance(self.value, ufl.core.expr.Expr):
            return self.value
        if isinstance(self.value, np.ndarray):
            return fem.Constant(self.domain.mesh, self.value)
        degree = 0 if self.cellwise else degree
        if degree not in self._functions:
            self._functions[degree] = self._function(degree)
        return self._functions[degree]

    def _function(self, degree: int) -> fem.Function:
        shape = (self.size, self.size) if self.is_matrix else ()
        element = ("Discontinuous Lagrange", degree, shape)
        f = fem.Function(fem.functionspace(self.domain.mesh, element))
        if self._regions:
            blocks = f.x.array.reshape(-1, int(np.prod(shape)))
            dofs = f.function_space.dofmap.list[:, 0]
            blocks[dofs] = self._by_cell.reshape(len(self._by_cell), -1)
        elif isinstance(self.value, ufl.core.expr.Expr):
            points = interpolation_points(f.function_space.element)
            f.interpolate(fem.Expression(self.value, points))
        else:
            f.interpolate(
                lambda x: np.asarray(self.value(x), float).reshape(int(np.prod(shape)), -1)
            )
        return f

    def inverse_ufl(self, degree: int) -> Any:
        """Its inverse as a UFL expression, interpolated where it is no simple one."""
        if isinstance(self.value, np.ndarray):
            inverse = np.linalg.inv(self.value) if self.value.ndim else 1 / self.value
            return fem.Constant(self.domain.mesh, inverse)
        if not self.is_matrix:
            return 1 / self.ufl(degree)
        f = self._function(0 if self.cellwise else degree)
        blocks = f.x.array.reshape(-1, self.size, self.size)
        blocks[:] = np.linalg.inv(blocks)
        return f

    def inverse(self) -> Coefficient:
        """Its inverse as a coefficient of the same kind."""
        value, name = self.value, f"inverse {self.name}"
        if isinstance(value, ufl.core.expr.Expr):
            inverse: Any = ufl.inv(value) if value.ufl_shape else 1 / value
        elif isinstance(value, Mapping):
            inverse = {region: _inverted(self._constant(v)) for region, v in value.items()}
        elif callable(value):

            def inverse(x: Array) -> Array:
                return _inverted(np.asarray(value(x), float))
        else:
            inverse = _inverted(value)
        return Coefficient(self.domain, inverse, name, self.size)

    def _check(self) -> None:
        """Refuse what is not positive, at the vertices and the middle of each cell."""
        problems = [p for p in self.domain.comm.allgather(self._problem()) if p]
        if problems:
            kind = "definite symmetric matrix" if self.is_matrix else "number"
            raise ValueError(
                f"the {self.name} must be a positive {kind} everywhere and is {problems[0]}."
            )

    def _problem(self) -> str:
        """What is wrong with its values on this rank, if anything; a box needs no mesh for it."""
        if isinstance(self.value, np.ndarray):
            return _wrong(self.value[None, None])
        if self._regions:
            found = (_wrong(v[None, None]) for v in self._regions.values())
            return next((words for words in found if words), "")
        if isinstance(self.domain, Box) and not isinstance(self.value, ufl.core.expr.Expr):
            none = np.empty(0, np.int32)
            found = (_wrong(self.at(none, x[0], x)) for x in self.domain.samples())
            return next((words for words in found if words), "")
        mesh, dim = self.domain.mesh, self.domain.dim
        cells = self.domain.own_cells
        x = mesh.geometry.x[cell_nodes(mesh)[cells]][:, :, :dim]
        x = np.concatenate([x, x.mean(axis=1, keepdims=True)], axis=1)
        X = reference_vertices(self.domain.cell)
        X = np.concatenate([X, X.mean(axis=0, keepdims=True)])
        if geometry_degree(mesh) > 1:  # the reference vertices are not all the nodes
            x = x[:, -1:]
            X = X[-1:]
        return _wrong(self.at(cells, X, x))

    def middle(self, cells: npt.NDArray[np.int32]) -> Array:
        """Its value in the middle of each of the cells, (cells,) or (cells, size, size)."""
        mesh, dim = self.domain.mesh, self.domain.dim
        X = reference_vertices(self.domain.cell).mean(axis=0, keepdims=True)
        x = mesh.geometry.x[cell_nodes(mesh)[cells]][:, :, :dim].mean(axis=1, keepdims=True)
        return self.at(cells, X, x)[:, 0]

    def bounds(self, cells: npt.NDArray[np.int32]) -> tuple[Array, Array]:
        """Its smallest and largest value (of a matrix: eigenvalue) in the middle of each cell."""
        values = self.middle(cells)
        if values.ndim == 1:
            return values, values
        eigenvalues = np.linalg.eigvalsh(values)
        return eigenvalues[:, 0], eigenvalues[:, -1]

    def largest(self, cells: npt.NDArray[np.int32]) -> Array:
        """Its largest value (of a matrix: eigenvalue) in each cell, by what it is in the middle."""
        return self.bounds(cells)[1]

    def extreme(self, largest: bool) -> float:
        """Its largest or smallest value on the whole mesh."""
        low, high = self.bounds(self.domain.own_cells)
        if largest:
            return self.domain.comm.allreduce(high.max(initial=0.0), MPI.MAX)
        return self.domain.comm.allreduce(low.min(initial=np.inf), MPI.MIN)


def _wrong(values: Array) -> str:
    """What is wrong with numbers (cells, points) or matrices (cells, points, i, i), if anything."""
    if not np.all(np.isfinite(values)):
        return "not finite"
    if values.ndim == 2:
        smallest = values.min(initial=np.inf)
        return f"{smallest:.6g}" if smallest <= 0 else ""
    scale = np.abs(values).max(initial=1e-300)
    if np.abs(values - np.swapaxes(values, 2, 3)).max(initial=0) > 1e-12 * scale:
        return "not symmetric"
    smallest = np.linalg.eigvalsh(values).min(initial=np.inf)
    return "singular or indefinite" if smallest <= 0 else ""


def _inverted(values: Array) -> Array:
    """1 / a number or n numbers, or the inverse of a matrix (size, size) or (size, size, n)."""
    if values.ndim < 2:
        return 1 / values
    return np.moveaxis(np.linalg.inv(np.moveaxis(values, (0, 1), (-2, -1))), (-2, -1), (0, 1))


def call(f: Any, x: Array, what: str, *shapes: tuple[int, ...]) -> Array:
    """F at the points x, (cells, points, dim): arrays of one of the shapes, () for numbers."""
    cells, points, dim = x.shape
    n = cells * points
    padded = np.zeros((3, n))
    padded[:dim] = x.reshape(-1, dim).T
    values = np.asarray(f(padded), dtype=float)
    if () in shapes and values.ndim == 0:
        values = np.broadcast_to(values, n)
    if () in shapes and values.shape == (1, n):
        values = values[0]
    for shape in shapes:
        if values.shape == (*shape, n):
            return np.moveaxis(values, -1, 0).reshape(cells, points, *shape)
    wanted = " or ".join(str((*shape, n)) for shape in shapes)
    raise ValueError(
        f"{what} must return an array of shape {wanted} for {n} points and returned {values.shape}."
    )


def evaluate(
    expression: Any, domain: Domain, cells: npt.NDArray[np.int32], X: Array
) -> npt.NDArray[np.float64]:
    """A UFL expression at the reference points X of the cells: (cells, points, *shape)."""
    compiled = fem.Expression(expression, X)
    values = compiled.eval(domain.mesh, cells)
    return np.asarray(values).reshape(len(cells), len(X), *expression.ufl_shape)


def reference_vertices(cell: str) -> Array:
    """The corners of the reference cell, shape (corners, dim)."""
    import basix

    return basix.geometry(basix.CellType[cell])
