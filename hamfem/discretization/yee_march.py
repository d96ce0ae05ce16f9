"""Kicks and drifts of the Yee scheme by compiled stencils, for many steps at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

from hamfem import kernels
from hamfem.discretization.yee_grid import FREE, Family, Grid
from hamfem.loads import Load
from hamfem.state import State

Array = npt.NDArray[Any]
Values = dict[int, float | Array]

DECLARATIONS = """
typedef struct {
    double *x;
    const double *inverse;
    double number;
    long planes, rows, length;
    const double *beyond[2];
    long stride[2];
    const int *start;
    const int *place;
    const double *inverse_mass, *damping, *load;
    double *old;
} Block;
typedef struct { int component, axis, last; double *buffer; } Parcel;
typedef struct { int requests, parcels; void *request, *status; Parcel *parcel; } Exchange;
typedef struct {
    Block half[2][3];
    double rate[3];
    int end[3][2];
    int periodic, ahead, unit;
    const double *zero;
    int amplitudes;
    Exchange exchange[2];
    int (*startall)(int, void *);
    int (*waitall)(int, void *, void *);
    double work, outflow;
} Grid;
void march(Grid *g, long count, const int *drift, const double *h, const double *amplitude,
           int depth, long tile);
double energy(const Grid *g, int half);
long cache(int level);
"""
# How many kicks and drifts may share a sweep. The first one is taken whose tiles are not much
# smaller than what they share with others.
DEPTHS = (16, 8, 4, 2)
# How much of the caches of the second and third level the planes under way may then fill. The third
# one belongs to many cores; with an eighth of it, which often is one core's part, steps at 128³ and
# 256³ were measured to take 0.8 to 0.95 of the time that they take with the second one alone.
SHARES = {2: 0.8, 3: 0.125}
# How many cells there must be for each of them between open sides.
ROOM = 4
# Beyond so many bytes, rows are asked for ahead of time.
LARGE = 2**24
KICK, DRIFT = 0, 1


class Stencil:
    """The block of a rank as the kernel sees it.

    Args:
        grid: The grid.
        families: Those of v and q.
        inverses: 1/eps and 1/mu by components.
    """

    def __init__(self, grid: Grid, families: Sequence[Family], inverses: Sequence[Values]) -> None:
        self.grid, self.families = grid, tuple(families)
        self.ffi, self.lib = kernels.load("yee", DECLARATIONS, {}, grid.comm)
        self._kept: list[Any] = []
        self.c = c = self.ffi.new("Grid *")
        c.zero = self._doubles(np.zeros(max(grid.n) + 2))
        c.periodic = int(grid.periodic[2])
        for a in range(3):
            c.rate[a] = 1 / grid.h[a] if a >= grid.first else 0.0
            for side in range(2):
                c.end[a][side] = grid.end(a, side)
        for half, (family, inverse) in enumerate(zip(families, inverses)):
            for a, stagger in zip(family.axes, family.staggers):
                b = c.half[half][a]
                b.planes, b.rows, b.length = grid.shape(stagger)
                b.number = 1.0
                if isinstance(inverse[a], float):
                    b.number = inverse[a]
                else:
                    b.inverse = self._doubles(np.ascontiguousarray(inverse[a]))
        # Which rows stand in another place of this block, by half, component and axis.
        self._wrapped: list[tuple[int, int, int]] = []
        self._requests: list[MPI.Prequest] = []
        for half in (KICK, DRIFT):
            self._connect(half)
        varying = sum(c.half[i][a].inverse != self.ffi.NULL for i in range(2) for a in range(3))
        components = len(grid.electric) + len(grid.magnetic)
        self._row_bytes = 8 * (components + varying) * (grid.n[2] + 1)
        size = sum(family.size for family in self.families)
        c.ahead = int(size * self._row_bytes / components / (grid.n[2] + 1) > LARGE)
        self._times: list[Callable[[float], float]] = []

    def _doubles(self, array: Array, kind: str = "double[]") -> Any:
        self._kept.append(array)
        return self.ffi.from_buffer(kind, array)

    # ------------------------------------------------------------ neighbours

    def _connect(self, half: int) -> None:
        """Where the rows stand that are beyond the block: above it for v, below it for q."""
        grid, step = self.grid, 1 if half == KICK else -1
        parcels, requests = [], []
        for axis in range(2):
            for a, stagger in zip(self.families[half].axes, self.families[half].staggers):
                if a == axis:  # nobody differentiates a component along its own axis
                    continue
                if grid.processes[axis] == 1:
                    if grid.periodic[axis]:
                        self._wrapped.append((half, a, axis))
                    continue
                b = self.c.half[half][a]
                size = b.length * (b.rows if axis == 0 else b.planes)
                sent, got = np.zeros(size), np.zeros(size)
                source, to = grid.rank(axis, step), grid.rank(axis, -step)
                b.beyond[axis] = self._doubles(got)
                b.stride[axis] = b.length
                parcels.append((a, axis, int(step < 0), self._doubles(sent)))
                requests.append(grid.comm.Recv_init(got, source, tag=8 * half + a))
                requests.append(grid.comm.Send_init(sent, to, tag=8 * half + a))
        if not requests:
            return
        exchange = self.c.exchange[half]
        exchange.requests, exchange.parcels = len(requests), len(parcels)
        exchange.parcel = array = self.ffi.new("Parcel[]", len(parcels))
        for i, parcel in enumerate(parcels):
            array[i].component, array[i].axis, array[i].last, array[i].buffer = parcel
        # Handles as MPI's own functions take them, whatever they are there.
        size = MPI._sizeof(MPI.Request)
        handles = b"".join(ctypes.string_at(MPI._addressof(r), size) for r in requests)
        bytes_ = (np.frombuffer(handles, np.uint8).copy(),
                  np.zeros(len(requests) * MPI._sizeof(MPI.Status), np.uint8))  # fmt: skip
        exchange.request, exchange.status = (self._doubles(x, "char[]") for x in bytes_)
        mpi = ctypes.CDLL(MPI.__file__)  # its symbols and those of the MPI that it stands on
        for name, function in (("startall", mpi.MPI_Startall), ("waitall", mpi.MPI_Waitall)):
            address = ctypes.cast(function, ctypes.c_void_p).value
            setattr(self.c, name, self.ffi.cast(self.ffi.typeof(getattr(self.c, name)), address))
        self._kept.append(array)
        self._requests += requests

    def _point(self, v: PETSc.Vec, q: PETSc.Vec, writing: bool = True) -> list[Any]:
        """Let the kernel work on these vectors."""
        buffers = [x.getBuffer(not writing) for x in (v, q)]
        for half, (buffer, family) in enumerate(zip(buffers, self.families)):
            x = self.ffi.from_buffer("double[]", buffer)
            for a, start in zip(family.axes, family.starts):
                self.c.half[half][a].x = x + int(start)
        for half, a, axis in self._wrapped:
            b = self.c.half[half][a]
            last = 0 if half == KICK else (b.planes if axis == 0 else b.rows) - 1
            b.beyond[axis] = b.x + last * b.length * (b.rows if axis == 0 else 1)
            b.stride[axis] = b.length * (1 if axis == 0 else b.rows)
        return buffers

    # ------------------------------------------------------------ loads and damping

    def drive(self, loads: Sequence[Load], mass: Array, damping: Array | None) -> None:
        """Add loads on v and its damping, both along the diagonal mass."""
        family = self.families[KICK]
        vectors = [load.vector.array_r for load in loads]
        touched = np.zeros(family.size, bool) if damping is None else damping > 0
        for f in vectors:
            touched = touched | (f != 0)
        if not vectors and damping is None:
            return
        self._times = [load.amplitude for load in loads]
        self.c.amplitudes = len(loads)
        for a, start, stop in zip(family.axes, family.starts, family.starts[1:]):
            places = start + np.flatnonzero(touched[start:stop])
            b = self.c.half[KICK][a]
            row, place = np.divmod(places - start, b.length)
            starts = np.searchsorted(row, np.arange(b.planes * b.rows + 1)).astype(np.int32)
            f = np.stack([f[places] for f in vectors], axis=-1) if vectors else np.zeros((0, 1))
            b.start = self._doubles(starts, "int[]")
            b.place = self._doubles(place.astype(np.int32), "int[]")
            b.inverse_mass = self._doubles(1 / mass[places])
            if damping is not None:
                b.damping = self._doubles(damping[places])
            b.load = self._doubles(np.ascontiguousarray(f))
            b.old = self._doubles(np.zeros(b.length))

    # ------------------------------------------------------------ work

    def apply(self, kind: int, v: PETSc.Vec, q: PETSc.Vec, h: float, unit: bool) -> None:
        """One kick or drift without loads and damping; `unit`: with eps = mu = 1."""
        self.c.unit = int(unit)
        kept = self._starts()
        self._run(v, q, np.array([kind], np.int32), np.array([h]), np.zeros(1))
        self._starts(kept)
        self.c.unit = 0

    def curl(self, u: PETSc.Vec, q: PETSc.Vec) -> None:
        """Add 1/mu curl u, for a u that need not vanish along conducting walls."""
        ends = [(a, side) for a in range(3) for side in range(2) if self.c.end[a][side]]
        for a, side in ends:
            self.c.end[a][side] = FREE
        self.apply(DRIFT, u, q, 1.0, False)
        for a, side in ends:
            self.c.end[a][side] = self.grid.end(a, side)

    def _starts(self, values: list[Any] | None = None) -> list[Any]:
        """Where loads and damping are, which a plain force does without."""
        blocks = [self.c.half[KICK][a] for a in range(3)]
        kept = [b.start for b in blocks]
        for b, start in zip(blocks, values or [self.ffi.NULL] * 3):
            b.start = start
        return kept

    def energy(self, kind: int, v: PETSc.Vec, q: PETSc.Vec) -> float:
        """1/2 v'M_v v or 1/2 q'M_q q."""
        buffers = self._point(v, q, writing=False)
        value = 0.5 * self.grid.volume * self.lib.energy(self.c, kind)
        del buffers
        return float(self.grid.comm.allreduce(value))

    @cached_property
    def blocking(self) -> tuple[int, int]:
        """How many kicks and drifts share a sweep, and how many rows a tile has.

        Near periodic sides and other ranks a sweep does its first updates only, so that these must
        not be near each other.
        """
        grid = self.grid
        axes = [a for a in range(grid.first, 2) if grid.periodic[a] or grid.processes[a] > 1]
        room = min((grid.n[a] // grid.processes[a] for a in axes), default=max(grid.n)) // ROOM
        cache = max(2**18, *(share * self.lib.cache(level) for level, share in SHARES.items()))
        for depth in DEPTHS:
            planes = depth // 2 + 2 if grid.dim == 3 else 1
            rows = int(cache / planes / self._row_bytes) - depth // 2
            if depth <= room and rows >= depth // 2 + 3:
                break
        return depth, max(rows, 1)

    def _run(self, v: PETSc.Vec, q: PETSc.Vec, kinds: Array, h: Array, amplitudes: Array) -> None:
        buffers, (depth, tile) = self._point(v, q), self.blocking
        arrays = (("int[]", kinds), ("double[]", h), ("double[]", amplitudes))
        pointers = [self.ffi.from_buffer(*pair) for pair in arrays]
        self.lib.march(self.c, len(kinds), *pointers, depth, tile)
        del buffers

    def marcher(self, parts: Sequence[Sequence[Any]], dt: float) -> Callable[[State, int], None]:
        """The advance of a partitioned method: head, n times body with joints between, tail."""
        head, body, joint, tail = ([op for op in part if op[1]] for part in parts)
        repeated = [*body, *joint]

        def advance(state: State, n: int) -> None:
            operations = [(0, op) for op in head]
            operations += [(i, op) for i in range(n - 1) for op in repeated]
            operations += [(n - 1, op) for op in (*body, *tail)]
            kinds = np.array([op[0] == "drift" for _, op in operations], np.int32)
            h = np.array([op[1] * dt for _, op in operations])
            f = np.zeros((len(h), max(len(self._times), 1)))
            if self._times:
                for row, (i, op) in zip(f, operations):
                    if op[0] == "kick":
                        t = state.t + i * dt + op[2] * dt
                        row[:] = [amplitude(t) for amplitude in self._times]
            self._run(state.v, state.q, kinds, h, f)
            if self.c.amplitudes or self.damped:
                sums = np.array([self.c.work, self.c.outflow])
                self.grid.comm.Allreduce(MPI.IN_PLACE, sums)
                state.work += sums[0]
                state.outflow += sums[1]

        return advance

    damped = False
