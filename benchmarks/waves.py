"""One method for one kind of waves on one mesh: what acoustic.py and its like have in common.

One JSON line is printed. Times are seconds: `space` until the system is there, `limit` for the
largest stable step, `bind` for what the method factorises, `step` the best chunk of steps divided
by their number, `solve` the sparse solve in it. `memory` is the largest resident set in MB;
`of_read` and `of_copy` compare the rate at which a step must have moved memory with a read-only
pass (dot) and a copy over arrays of the same total size in the same run. `error` is that of what is
marched, against a standing wave. Of edge elements, `products` is the time of the bare products with
the sparse matrices of a step.
"""

import cProfile
import json
import pstats
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from mpi4py import MPI

import numpy as np
import typer
from timing import COMM, Factors, bandwidth, best, memory

import hamfem as hf


@dataclass(frozen=True)
class Method:
    """A discretization and its time-marcher; pairs are for 2D and 3D.

    Attributes:
        space: The discretization, of the physics and the degree.
        marcher: The method in time.
        cells: Cells in each direction.
        degrees: The degrees.
        cubes: On quadrilaterals and hexahedra instead of simplices.
        bound: A known bound of the largest frequency over `cells`, for long runs; None without.
    """

    space: Callable[[Any, int], Any]
    marcher: Any
    cells: tuple[int, int]
    degrees: tuple[int, int]
    cubes: bool = False
    bound: float | None = None


@dataclass(frozen=True)
class Physics:
    """A kind of waves.

    Attributes:
        wave: The physics in the unit square or cube.
        exact: A standing wave in it, of the dimension and the phase.
        methods: What is measured.
        state: The state of a system that is the standing wave at a time.
    """

    wave: Callable[[Any], Any]
    exact: Callable[[int, float], Any]
    methods: Mapping[str, Method]
    state: Callable[[Any, Any, float], Any] = lambda system, exact, t: system.state(
        u=exact.u(t), v=exact.v(t), start="projection"
    )


def lumped(wave: Any, degree: int) -> Any:
    """Spectral elements."""
    return hf.cg(wave, degree, lumped=True)


def box(dim: int, n: int, cubes: bool) -> Any:
    """The unit square or cube."""
    simplex, cube = ("triangle", "quadrilateral") if dim == 2 else ("tetrahedron", "hexahedron")
    return hf.box(COMM, (0,) * dim, (1,) * dim, n, cube if cubes else simplex)


def traffic(system: Any, method: Method, points: int, factor: float) -> float:
    """The bytes that a step must move: matrices once for each use, vectors for each in and out."""
    size = system.M.size[0]
    if edges := getattr(system, "edges", None):
        pair = isinstance(system, hf.FirstOrder)
        matrices = [system.B, edges.curl] if pair else [system.K]
        entries = sum(A.getInfo()["nz_used"] for A in matrices)
        return (
            12 * entries + 2 * factor + 48 * sum(x.size for x in (system.new_q(), system.new_v()))
        )
    if method.cubes:
        factors = system.K.getPythonContext().operator.lib.factors()
        return float(points * (8 * factors + 4) + 56 * size)
    if isinstance(system, hf.FirstOrder):
        blocks = system.blocks
        uses = [blocks.inverse, blocks.b_l, blocks.c_l, blocks.b_u, blocks.b_u]
        if np.isinf(method.marcher.stable_dt(system)):  # implicit
            uu, ul, _ = blocks.X  # the sizes of the inverses in the cells and of those times X_ul
            uses = [blocks.b_u, blocks.b_l, blocks.c_u, blocks.c_l, uu, uu, ul, ul]
        return 8.0 * sum(A.size for A in uses) + 2 * factor + 48 * (system.M_q.size[0] + size)
    if hasattr(system, "_X"):
        X_uu, X_ul, _ = system._X
        return 8.0 * (X_uu.size + 2 * X_ul.size) + 2 * factor + 80 * size
    return 12 * system.K.getInfo()["nz_used"] + 2 * factor + 80 * size


def unknowns(system: Any) -> int:
    """The dimension of what is marched, without the displacement of second-order systems."""
    if not isinstance(system, hf.FirstOrder):
        return system.M.size[0]
    if hasattr(system, "edges"):
        return system.M.size[0] + system.M_q.size[0]
    # Of the fluxes only those with continuous normal part.
    return system.M.size[0] + system.M_q.size[0] - system.trace.total * system.trace.size


def run(physics: Physics) -> None:
    """The command line of a benchmark."""

    def main(
        method: Annotated[str, typer.Argument(help=", ".join(physics.methods))],
        dim: Annotated[int, typer.Argument(help="2 or 3.")],
        n: Annotated[int | None, typer.Option(help="Cells in each direction.")] = None,
        degree: Annotated[int | None, typer.Option(help="The degree.")] = None,
        steps: Annotated[int, typer.Option(help="Steps in a chunk.")] = 20,
        chunks: Annotated[int, typer.Option(help="Chunks; the best one counts.")] = 4,
        bound: Annotated[bool, typer.Option(help="Take a known bound of the frequency.")] = False,
        profile: Annotated[bool, typer.Option(help="Print where the time of a step goes.")] = False,
        profile_space: Annotated[bool, typer.Option(help="The same for the set-up.")] = False,
    ) -> None:
        """Measure one method and print a JSON line."""
        profiler = cProfile.Profile()
        chosen = physics.methods[method]
        n = n or chosen.cells[dim - 2]
        degree = degree or chosen.degrees[dim - 2]
        profiled = {"space"} if profile_space else {"step"} if profile else set()
        watch = _Watch(profiler, profiled)
        record = {"code": "hamfem", "method": method, "dim": dim, "n": n, "degree": degree}
        record |= measured(physics, chosen, dim, n, degree, steps, chunks, bound, watch)
        if COMM.rank == 0:
            print(json.dumps(record), flush=True)
            if profiled:
                pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()


class _Watch:
    """Times a phase on the slowest rank, and profiles those that are to be."""

    def __init__(self, profiler: cProfile.Profile, profiled: set[str]) -> None:
        self.profiler, self.profiled = profiler, profiled

    def __call__(self, phase: str, work: Callable[[], Any]) -> tuple[Any, float]:
        COMM.barrier()
        if phase in self.profiled:
            self.profiler.enable()
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        self.profiler.disable()
        return result, COMM.allreduce(seconds, MPI.MAX)


def measured(
    physics: Physics,
    method: Method,
    dim: int,
    n: int,
    degree: int,
    steps: int,
    chunks: int,
    bound: bool,
    watch: _Watch,
) -> dict[str, Any]:
    """The record of one case."""
    factors, imports, marcher = Factors(), memory(), method.marcher
    system, space = watch(
        "space", lambda: method.space(physics.wave(box(dim, n, method.cubes)), degree)
    )
    memory_space = memory()
    # Both codes begin with what they march at its largest: v for the mixed method, else u.
    first_order = isinstance(system, hf.FirstOrder)
    exact = physics.exact(dim, -np.pi / 2 if first_order else 0.0)

    def at(t: float) -> Any:
        return physics.state(system, exact, t)

    state, start = watch("start", lambda: at(0.0))
    initial = (state.v if first_order else state.q).copy()
    if bound and method.bound:
        system._max_frequency = method.bound * n
    largest, limit = watch("limit", lambda: marcher.stable_dt(system))
    memory_start = memory()
    dt = 0.9 * largest if np.isfinite(largest) else 0.5 / n
    march = hf.march(system, marcher, state, dt, (chunks + 2) * steps * dt, every=steps)
    _, first = watch("bind", lambda: next(march))
    step = min(watch("step", lambda: next(march))[1] for _ in range(chunks)) / steps
    peak = memory()
    factor_time = factors.seconds  # before the exact state is projected, which factorises too
    solve, factor = factors.solve()
    moved = traffic(system, method, (n * (degree + 1)) ** dim, factor)
    read, copy = bandwidth(moved)
    reached = at(state.t)
    x, y = (state.v, reached.v) if first_order else (state.q, reached.q)
    record = {
        "ranks": COMM.size,
        "unknowns": unknowns(system),
        "space": space,
        "start": start,
        "limit": limit,
        "bind": max(first - steps * step, 0.0),
        "factor": factor_time,
        "step": step,
        "memory": peak,
        "memory_space": memory_space,
        "memory_start": memory_start,
        "imports": imports,
        "moved": moved / 1e6,
        "read": read / 1e9,
        "copy": copy / 1e9,
        "of_read": moved / step / read,
        "of_copy": moved / step / copy,
        "dt": dt,
        "error": (y - x).norm() / initial.norm(),
    }
    if first_order and hasattr(system, "edges"):
        record["products"] = products(system)
    return record | ({"solve": solve} if solve else {})


def products(system: Any) -> float:
    """Seconds of the products with the sparse matrices in a step of edge elements by Verlet."""
    q, v = system.new_q(), system.new_v()
    v.set(1.0)

    def both() -> None:
        system.curl.multAdd(v, q, q)
        system.B.mult(q, v)

    return best(both, 20)
