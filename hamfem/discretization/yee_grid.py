"""The staggered grid of the Yee scheme: where its numbers stand, on which rank, between what walls.

Along each axis a number stands at nodes, i h, or at middles, (i + 1/2) h. E_a is at middles along
axis a and at nodes across it, H_a the other way round: edges and faces of the cells. There always
are three axes. A plane has the axes (1, 2), and axis 0 is the direction across it, with one cell
that is periodic: (z, x, y) is right-handed as (x, y, z) is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt

from hamfem.domain import Box
from hamfem.layout import Piece
from hamfem.physics.boundary import Clamped, Condition, Impedance, Periodic
from hamfem.physics.coefficient import Coefficient, call
from hamfem.physics.maxwell import Maxwell

Array = npt.NDArray[Any]
# Whether the numbers of a family stand at nodes, along each axis.
Stagger = tuple[bool, bool, bool]
NODES: Stagger = (True, True, True)
CELLS: Stagger = (False, False, False)
# What the sides of a grid are to E along them.
OPEN, FREE, CONDUCTING = 0, 1, 2


def edges(a: int) -> Stagger:
    """The middles of the edges along axis a."""
    return (a != 0, a != 1, a != 2)


def faces(a: int) -> Stagger:
    """The middles of the faces across axis a."""
    return (a == 0, a == 1, a == 2)


class Grid:
    """A box cut into cells, spread over the ranks in pencils: the last axis is never divided.

    Attributes:
        n: The number of cells along each axis; `origin` and `h` say where they are.
        periodic: Whether both sides across an axis are one.
        walls: OPEN, FREE or CONDUCTING for both sides across each axis.
        absorbing: Whether the sides are absorbing walls; these are FREE but for the damping.
        processes: How many parts axes 0 and 1 are cut into; `place` is that of this rank.
        low: The first cell of this rank along each axis; `high` is one after its last.
        electric: The components of E that there are; `magnetic` those of H.
    """

    def __init__(self, wave: Maxwell) -> None:
        box = wave.domain
        cells = ("quadrilateral", "hexahedron")
        if not isinstance(box, Box) or box.cell not in cells or not box.uniform:
            raise ValueError(
                "the Yee scheme needs the uniform grid of hf.box(..., cell='quadrilateral') or "
                "cell='hexahedron': take one of these, or hf.mixed for other meshes."
            )
        self.wave, self.box, self.comm, self.dim = wave, box, box.comm, box.dim
        self.first = first = 3 - box.dim  # the first axis of the box
        lower, upper = np.array(box.lower), np.array(box.upper)
        self.n = (1,) * first + tuple(box.n)
        self.origin = np.concatenate([np.zeros(first), lower])
        self.h = np.concatenate([np.ones(first), (upper - lower) / box.n])
        across = {"TE": ((1, 2), (0,)), "TM": ((0,), (1, 2))}
        self.electric, self.magnetic = across.get(wave.polarization or "", ((0, 1, 2),) * 2)
        self._set_walls(box, wave.boundary)
        self.processes = self._divided()
        self.place = (*divmod(self.comm.rank, self.processes[1]), 0)
        self.low, self.high = zip(*(self._part(a, p) for a, p in enumerate(self.place)))

    def _set_walls(self, box: Box, boundary: Sequence[Condition]) -> None:
        sides = [name for pair in box.sides for name in pair]
        if set(box.boundaries) != set(sides):
            raise ValueError(
                "the Yee scheme knows whole sides of the box only, and parts of them have names of "
                "their own: take a box without these, or hf.mixed."
            )
        walls = [[OPEN, OPEN] if a < self.first else [FREE, FREE] for a in range(3)]
        absorbing = [[False, False] for _ in range(3)]
        periodic = [a < self.first for a in range(3)]
        for c in boundary:
            if isinstance(c, Periodic):
                a, b = (sides.index(name) for name in c.names)
                if a // 2 != b // 2:
                    raise ValueError(
                        f"sides '{c.first}' and '{c.second}' are no translates of each other: "
                        "periodic sides of a box are opposite ones."
                    )
                axis = self.first + a // 2
                periodic[axis], walls[axis] = True, [OPEN, OPEN]
                continue
            if c.value is not None:
                raise ValueError(
                    f"the Yee scheme has walls without data, and hf.{type(c).__name__} has a value "
                    f"on '{c.names[0]}': leave it out, or take hf.mixed."
                )
            for name in c.names:
                axis, end = self.first + sides.index(name) // 2, sides.index(name) % 2
                walls[axis][end] = CONDUCTING if isinstance(c, Clamped) else FREE
                absorbing[axis][end] = isinstance(c, Impedance)
        self.periodic, self.walls, self.absorbing = periodic, walls, absorbing

    # ------------------------------------------------------------ ranks

    def _divided(self) -> tuple[int, int, int]:
        """The division with the smallest surface; of equal ones that along axis 0."""
        size = self.comm.size
        choices = [
            (p, size // p)
            for p in range(size, 0, -1)
            if size % p == 0 and p <= self.n[0] and size // p <= self.n[1]
        ]
        if not choices:
            raise ValueError(
                f"{size} ranks are too many for a grid of {' x '.join(map(str, self.box.n))} "
                "cells, whose last axis is not divided: take fewer."
            )
        p, q = min(choices, key=lambda c: (c[0] - 1) / self.n[0] + (c[1] - 1) / self.n[1])
        return p, q, 1

    def _part(self, axis: int, place: int) -> tuple[int, int]:
        """The cells of one part of an axis."""
        p, n = self.processes[axis], self.n[axis]
        return place * n // p, (place + 1) * n // p

    def count(self, axis: int, place: int, node: bool) -> int:
        """How many nodes or middles the ranks at a place own along an axis."""
        low, high = self._part(axis, place)
        last = place == self.processes[axis] - 1
        return high - low + int(node and last and not self.periodic[axis])

    def whole(self, axis: int, node: bool) -> int:
        """How many nodes or middles all ranks own along an axis."""
        return self.n[axis] + int(node and not self.periodic[axis])

    def shape(self, stagger: Stagger) -> tuple[int, int, int]:
        """Of the block of a family on this rank."""
        return tuple(map(self.count, range(3), self.place, stagger))  # type: ignore[return-value]

    def rank(self, axis: int, step: int) -> int:
        """The neighbour along axis 0 or 1, or MPI.PROC_NULL beyond a wall."""
        place = list(self.place)
        place[axis] += step
        if self.periodic[axis]:
            place[axis] %= self.processes[axis]
        elif not 0 <= place[axis] < self.processes[axis]:
            return MPI.PROC_NULL
        return place[0] * self.processes[1] + place[1]

    def end(self, axis: int, side: int) -> int:
        """What the first (0) or last (1) numbers of this rank along an axis have beside them."""
        last = self.processes[axis] - 1 if side else 0
        return self.walls[axis][side] if self.place[axis] == last else OPEN

    def beyond(self, u: Array, axis: int, step: int) -> Array:
        """The plane of a block's neighbours below (-1) or above (1) it; zeros beyond walls."""
        sent = np.ascontiguousarray(np.moveaxis(u, axis, 0)[-1 if step < 0 else 0])
        if self.processes[axis] == 1:
            plane = sent if self.periodic[axis] else np.zeros_like(sent)
        else:
            plane = np.zeros_like(sent)
            to, source = self.rank(axis, -step), self.rank(axis, step)
            self.comm.Sendrecv(sent, to, recvbuf=plane, source=source)
        return np.expand_dims(plane, axis)

    def around_nodes(self, u: Array, axis: int) -> tuple[Array, Array]:
        """Of numbers at middles those below and above each node of this rank; 0 beyond walls."""
        below, last = self.beyond(u, axis, -1), self.count(axis, self.place[axis], True)
        both = np.concatenate([below, u, np.zeros_like(below)], axis)
        return _piece(both, axis, 0, last), _piece(both, axis, 1, last + 1)

    def around_cells(self, u: Array, axis: int) -> tuple[Array, Array]:
        """Of numbers at nodes those below and above each middle of this rank."""
        above, last = self.beyond(u, axis, 1), self.count(axis, self.place[axis], False)
        both = np.concatenate([u, above], axis)
        return _piece(both, axis, 0, last), _piece(both, axis, 1, last + 1)

    # ------------------------------------------------------------ places and measures

    def indices(self, stagger: Stagger) -> list[Array]:
        """The numbers of nodes or middles along each axis."""
        return [low + np.arange(n) for low, n in zip(self.low, self.shape(stagger))]

    def points(self, stagger: Stagger) -> list[Array]:
        """Where a family stands along each axis of the grid."""
        return [
            x + h * (i + (0.0 if node else 0.5))
            for x, h, i, node in zip(self.origin, self.h, self.indices(stagger), stagger)
        ]

    def mesh_of(self, lines: Sequence[Array]) -> Array:
        """Points of space, (3, points), of a grid of lines: what callables get."""
        x = np.zeros((3, int(np.prod([len(line) for line in lines]))))
        grids = np.meshgrid(*lines, indexing="ij")
        for i in range(self.dim):
            x[i] = grids[self.first + i].ravel()
        return x

    def ends(self, stagger: Stagger) -> list[Array]:
        """How much of a cell's length belongs to each place along each axis: 1, at walls 1/2."""
        lines = []
        for a, (i, node) in enumerate(zip(self.indices(stagger), stagger)):
            half = node and not self.periodic[a]
            lines.append(np.where(half & ((i == 0) | (i == self.n[a])), 0.5, 1.0))
        return lines

    @property
    def volume(self) -> float:
        """Of a cell."""
        return float(np.prod(self.h))

    def volumes(self, stagger: Stagger) -> Array:
        """The dual volumes: of the part of space that is closest along each axis."""
        return self.volume * _product(self.ends(stagger))

    def conducting(self, stagger: Stagger) -> Array:
        """Which of the numbers stand on conducting walls."""
        return self.on_walls(stagger, lambda a, s: self.walls[a][s] == CONDUCTING)

    def conducting_at(self, stagger: Stagger, index: Sequence[Array]) -> Array:
        """Whether the numbers at these places of the whole grid stand on conducting walls."""
        found = np.zeros(np.broadcast_shapes(*(i.shape for i in index)), bool)
        for a in range(3):
            for s, place in enumerate((0, self.n[a])):
                if stagger[a] and self.walls[a][s] == CONDUCTING:
                    found |= index[a] == place
        return found

    def on_walls(self, stagger: Stagger, chosen: Any) -> Array:
        """Which of the numbers stand on sides (axis, end) that are chosen."""
        found = np.zeros(self.shape(stagger), bool)
        for a, i in enumerate(self.indices(stagger)):
            for s, place in enumerate((0, self.n[a])):
                if stagger[a] and chosen(a, s):
                    np.moveaxis(found, a, 0)[i == place] = True
        return found

    # ------------------------------------------------------------ coefficients

    def coefficient(self, c: Coefficient, axis: int, stagger: Stagger) -> float | Array:
        """A coefficient for fields along an axis: a number, or an array like the family.

        Per region it is the mean over the cells around a place; callables are called there.
        """
        components = self.electric if c.size == len(self.electric) else self.magnetic
        i = components.index(axis)
        if c.value is not None and isinstance(c.value, np.ndarray):
            return float(_entry(c.value, i, c.name))
        if isinstance(c.value, dict):
            return self._mean(stagger, lambda lines: self._per_region(c, i, lines))
        if hasattr(c.value, "ufl_shape"):
            raise ValueError(
                f"the Yee scheme takes the {c.name} as a number, {{region: number}} or a callable "
                "x -> array, and it is a UFL expression: write it as one of these."
            )
        return self._called(c, i, stagger)

    def _called(self, c: Coefficient, i: int, stagger: Stagger) -> Array:
        """A callable at the places of a family; where periodic sides meet, the mean of both."""
        seams = [a for a in range(self.first, 3) if stagger[a] and self.periodic[a]]
        shape, total = self.shape(stagger), np.zeros(self.shape(stagger))
        for shifts in itertools.product((0, 1), repeat=len(seams)):
            lines = self.points(stagger)
            for a, shift in zip(seams, shifts):
                first = self.indices(stagger)[a] == 0
                lines[a] = np.where(first, lines[a] + shift * self.n[a] * self.h[a], lines[a])
            x = self.mesh_of(lines)[: self.dim].T[:, None]
            values = call(c.value, x, f"the {c.name}", (), (c.size, c.size))[:, 0]
            values = _entry(np.moveaxis(values, 0, -1), i, c.name)
            total += values.reshape(shape) / 2 ** len(seams)
        return total

    def _per_region(self, c: Coefficient, i: int, lines: Sequence[Array]) -> Array:
        """In cells, given by their first corners along each axis."""
        result = np.zeros(tuple(map(len, lines)))
        corners = []
        for shift in itertools.product((0, 1), repeat=3):
            place = [x + s * h for x, s, h in zip(lines, shift, self.h)]
            corners.append(self.mesh_of(place))
        for region, where in self.box.where.items():
            if region in c.value:
                inside = np.all([where(x) for x in corners], axis=0).reshape(result.shape)
                result[inside] = _entry(np.asarray(c.value[region], float), i, c.name)
        return result

    def _mean(self, stagger: Stagger, of_cells: Any) -> Array:
        """Means over the cells around each place, as far as there are some."""
        lines, weights = [], []
        for a, (i, node) in enumerate(zip(self.indices(stagger), stagger)):
            cells = np.concatenate([i[:1] - 1, i]) if node else i
            inside = self.periodic[a] | ((cells >= 0) & (cells < self.n[a]))
            weights.append(np.where(inside, 1.0, 0.0))
            lines.append(self.origin[a] + self.h[a] * np.clip(cells % self.n[a], 0, self.n[a] - 1))
        total = of_cells(lines) * _product(weights)
        count = _product(weights)
        for a, node in enumerate(stagger):
            if node:
                total, count = (_pairs(x, a) for x in (total, count))
        return total / count


def _piece(u: Array, axis: int, first: int, last: int) -> Array:
    return u[(slice(None),) * axis + (slice(first, last),)]


def _pairs(x: Array, axis: int) -> Array:
    """Sums of neighbours along an axis."""
    x = np.moveaxis(x, axis, 0)
    return np.moveaxis(x[1:] + x[:-1], 0, axis)


def _product(lines: Sequence[Array]) -> Array:
    return lines[0][:, None, None] * lines[1][:, None] * lines[2]


def _entry(values: Array, i: int, name: str) -> Array:
    """A number or the i-th entry of a diagonal matrix, which may vary along the last axis."""
    if values.ndim < 2:
        return values
    others = values.copy()
    for j in range(len(values)):
        others[j, j] = 0.0
    if np.any(others):
        raise ValueError(
            f"the Yee scheme takes numbers and diagonal matrices, and the {name} is a matrix with "
            "other entries: turn the box along its axes, or take hf.mixed."
        )
    return values[i, i]


@dataclass(frozen=True, eq=False)
class Family:
    """Blocks of numbers, one for each component, one after the other in a vector on each rank.

    Attributes:
        grid: The grid.
        axes: The axes of the components.
        staggers: Where each of them stands.
    """

    grid: Grid
    axes: tuple[int, ...]
    staggers: tuple[Stagger, ...]

    @cached_property
    def starts(self) -> Array:
        """Where the blocks begin on this rank, and where the last one ends."""
        return np.cumsum([0, *(int(np.prod(self.grid.shape(s))) for s in self.staggers)])

    @property
    def size(self) -> int:
        """How many numbers this rank has."""
        return int(self.starts[-1])

    def blocks(self, x: Array) -> dict[int, Array]:
        """The blocks of a vector of this rank, as views, by their axes."""
        return {
            a: x[i:j].reshape(self.grid.shape(s))
            for a, s, i, j in zip(self.axes, self.staggers, self.starts, self.starts[1:])
        }

    def pieces(self, x: Array) -> list[Piece]:
        """The blocks of a vector of this rank as parts of arrays over the whole grid."""
        grid, blocks = self.grid, self.blocks(x)
        return [
            Piece(
                str(a),
                tuple(map(grid.whole, range(3), s)),
                tuple(slice(low, low + n) for low, n in zip(grid.low, blocks[a].shape)),
                blocks[a].copy(),
            )
            for a, s in zip(self.axes, self.staggers)
        ]

    def filled(self, values: Mapping[int, Any]) -> Array:
        """The vector of this rank, from blocks or numbers."""
        x = np.empty(self.size)
        for a, block in self.blocks(x).items():
            block[...] = values[a]
        return x

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """For each rank the counts of its blocks along each axis, and where its vector begins."""
        grid, counts = self.grid, []
        for rank in range(grid.comm.size):
            place = (*divmod(rank, grid.processes[1]), 0)
            counts.append([[grid.count(a, place[a], s[a]) for a in range(3)]
                           for s in self.staggers])  # fmt: skip
        shapes = np.array(counts)
        sizes = shapes.prod(axis=2)
        starts = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))[:-1]])
        return shapes, starts[:, None] + np.cumsum(sizes, axis=1) - sizes

    def numbers(self, axis: int, i: Array, j: Array, k: Array) -> Array:
        """The places of numbers in the vectors of all ranks, from their places on the grid."""
        grid, c = self.grid, self.axes.index(axis)
        shapes, starts = self._table
        index = [np.where(p, x % n, x) for p, x, n in zip(grid.periodic, (i, j, k), grid.n)]
        parts, local = [], []
        for a in range(2):
            lows = np.array([grid._part(a, p)[0] for p in range(grid.processes[a])])
            part = np.searchsorted(lows, index[a], side="right") - 1
            parts.append(part)
            local.append(index[a] - lows[part])
        rank = parts[0] * grid.processes[1] + parts[1]
        shape = shapes[rank, c]
        row = local[0] * shape[..., 1] + local[1]
        return starts[rank, c] + row * shape[..., 2] + index[2]


def electric(grid: Grid) -> Family:
    """E along the edges."""
    return Family(grid, grid.electric, tuple(edges(a) for a in grid.electric))


def magnetic(grid: Grid) -> Family:
    """H through the faces."""
    return Family(grid, grid.magnetic, tuple(faces(a) for a in grid.magnetic))
