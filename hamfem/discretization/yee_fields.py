"""Numbers of the Yee scheme as functions on the mesh: lowest-order edge and face elements."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem.discretization.de_rham import DeRham
from hamfem.discretization.yee_grid import Family, Stagger

Array = npt.NDArray[Any]


class Transfer:
    """From vectors on the grid to functions; the mesh is made here, once."""

    def __init__(self, system: Any) -> None:
        grid = system.grid
        self.system = system
        self.complex = DeRham(grid.wave.domain, 0, across=len(grid.electric) == 1)

    @cached_property
    def _electric(self) -> _Dofs:
        return _Dofs(self.complex.V.V, self.system.E, self.system.new_v())

    @cached_property
    def _magnetic(self) -> _Dofs:
        return _Dofs(self.complex.W.V, self.system.H, self.system.new_q())

    def electric(self, x: PETSc.Vec, name: str) -> fem.Function:
        """A field along edges."""
        return self._electric.function(x, name)

    def magnetic(self, x: PETSc.Vec, name: str) -> fem.Function:
        """A field through faces."""
        return self._magnetic.function(x, name)


class _Dofs:
    """Which number of the grid each dof is, and how much of it.

    A dof is a component at a point times a length or an area with a sign. The dofs of constant and
    of linear fields tell both: no orientation of the mesh has to be known.
    """

    def __init__(self, V: fem.FunctionSpace, family: Family, template: PETSc.Vec) -> None:
        self.V, grid = V, family.grid
        owned = V.dofmap.index_map.size_local
        self.factors, numbers = np.zeros(owned), np.zeros(owned, np.int64)
        for i, (a, stagger) in enumerate(zip(family.axes, family.staggers)):
            unit = self._dofs(i, len(family.axes), lambda x: np.ones(x.shape[1]))[:owned]
            mine = np.abs(unit) > 1e-6 * np.abs(unit).max(initial=1e-300)
            index = [np.zeros(mine.sum(), int)] * 3
            for b in range(grid.first, 3):
                line = b - grid.first
                moment = self._dofs(i, len(family.axes), lambda x, n=line: x[n])[:owned]
                index[b] = _place(moment[mine] / unit[mine], b, grid, stagger)
            self.factors[mine] = unit[mine]
            numbers[mine] = family.numbers(a, *index)
        wanted = PETSc.IS().createGeneral(numbers.astype(PETSc.IntType), comm=grid.comm)
        self.found = PETSc.Vec().createWithArray(np.zeros(owned), comm=PETSc.COMM_SELF)
        self.scatter = PETSc.Scatter().create(template, wanted, self.found, None)

    def _dofs(self, i: int, components: int, f: Any) -> Array:
        """Of the field with f for its component i."""

        def field(x: Array) -> Array:
            values = np.zeros((components, x.shape[1]))
            values[i] = f(x)
            return values

        u = fem.Function(self.V)
        u.interpolate(field)
        return u.x.array

    def function(self, x: PETSc.Vec, name: str) -> fem.Function:
        """The function with these numbers."""
        u = fem.Function(self.V, name=name)
        self.scatter.scatter(x, self.found)
        u.x.array[: len(self.factors)] = self.factors * self.found.array_r
        u.x.scatter_forward()
        return u


def _place(x: Array, axis: int, grid: Any, stagger: Stagger) -> Array:
    """The number of a node or middle along an axis."""
    place = (x - grid.origin[axis]) / grid.h[axis] - (0.0 if stagger[axis] else 0.5)
    return np.rint(place).astype(int)
