"""Values of the Yee scheme at points, straight from the grid: no mesh is made for them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt

from hamfem.discretization.named_fields import made
from hamfem.discretization.yee_grid import Family, Grid, Stagger
from hamfem.points import refuse_lost
from hamfem.state import State

Array = npt.NDArray[Any]
# How far outside of the box a point may lie, in cells.
_ROUNDING = 1e-8


class GridPoints:
    """E, B and H at points, interpolated linearly between the places of each component.

    That keeps order 2 everywhere, and gives the numbers of the grid at their places. Within half a
    cell of a wall the last two places are extrapolated.

    Args:
        system: The Yee scheme.
        points: Shape (points, dimension).
    """

    def __init__(self, system: Any, points: Array) -> None:
        self._system, grid = system, system.grid
        self._count, self._comm = len(points), grid.comm
        inside = np.zeros((len(points), 3))
        inside[:, grid.first :] = (points - grid.origin[grid.first :]) / grid.h[grid.first :]
        beyond = np.maximum(-inside, inside - grid.n).max(axis=1) > _ROUNDING
        refuse_lost(points, np.flatnonzero(beyond), "box")
        self._stencils = {
            family: [_Stencil(grid, stagger, inside) for stagger in family.staggers]
            for family in (system.E, system.H)
        }

    def __call__(self, state: State, names: str | Sequence[str] | None = None) -> dict[str, Array]:
        """These fields, or all: (points,) of numbers, (points, components) of vectors."""
        system = self._system
        makers = {
            "E": lambda: -self._values(system.E, system.E.blocks(state.v.array_r)),
            "B": lambda: self._values(system.H, system.space.magnetic_flux(state.q)),
            "H": lambda: self._values(system.H, system.H.blocks(state.q.array_r)),
        }
        return made(makers, names)

    def _values(self, family: Family, blocks: dict[int, Array]) -> Array:
        values = np.zeros((self._count, len(family.axes)))
        for i, (a, stencil) in enumerate(zip(family.axes, self._stencils[family])):
            np.add.at(values[:, i], stencil.points, stencil.weights * blocks[a][stencil.places])
        self._comm.Allreduce(MPI.IN_PLACE, values)
        return values if len(family.axes) > 1 else values[:, 0]


class _Stencil:
    """The numbers of this rank that a component at the points is made of, and their weights.

    Args:
        grid: The grid.
        stagger: Where the component stands.
        x: The points in units of cells, (points, 3).
    """

    def __init__(self, grid: Grid, stagger: Stagger, x: Array) -> None:
        sides = [_between(grid, a, stagger[a], x[:, a]) for a in range(3)]
        points, places, weights = [], [], []
        for corner in itertools.product((0, 1), repeat=3):
            index = [side[0][s] - low for side, s, low in zip(sides, corner, grid.low)]
            weight = np.prod([side[1][s] for side, s in zip(sides, corner)], axis=0)
            here = weight != 0.0
            for i, n in zip(index, grid.shape(stagger)):
                here &= (i >= 0) & (i < n)
            points.append(np.flatnonzero(here))
            places.append([i[here] for i in index])
            weights.append(weight[here])
        self.points, self.weights = np.concatenate(points), np.concatenate(weights)
        self.places = tuple(np.concatenate(i) for i in zip(*places))


def _between(
    grid: Grid, axis: int, node: bool, x: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Along one axis the two places beside each point, and their weights."""
    place = x - (0.0 if node else 0.5)
    count, periodic = grid.whole(axis, node), grid.periodic[axis]
    if axis < grid.first or count == 1:
        zero = np.zeros(len(x), int)
        return (zero, zero), (np.ones(len(x)), np.zeros(len(x)))
    low = np.floor(place).astype(int)
    if not periodic:
        low = np.clip(low, 0, count - 2)
    weight = place - low
    return (low % count, (low + 1) % count), (1 - weight, weight)
