"""Acoustic waves: one method on one mesh, measured in a process of its own.

docker/run python benchmarks/acoustic.py METHOD DIM [--n N] [--degree K] [--steps STEPS] [--profile]

METHOD is cg or hdg (midpoint rule), lumped or mixed (Verlet). One JSON line is printed;
benchmarks/run_acoustic runs all of them, and NGSolve and MFEM with the same work in turn.

Times are seconds: `space` until the system is there, `limit` for the largest stable step, `bind`
for what the method factorises, `step` the best chunk of steps divided by their number, `solve` the
sparse solve in it. `memory` is the largest resident set in MB; `of_read` and `of_copy` compare the
rate at which a step must have moved memory with a read-only pass (dot) and a copy over arrays of
the same total size in the same run. `error` is that of what is marched, against a standing wave.
"""

import cProfile
import json
import pstats
import resource
import sys
import time
from typing import Annotated, Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import typer

import hamfem as hf
from hamfem import solvers

COMM = MPI.COMM_WORLD
# Cells in each direction in 2D and 3D, and the degree in 2D and 3D.
SIZES = {
    "cg": ((128, 12), (3, 3)),
    "hdg": ((96, 8), (3, 3)),
    "lumped": ((128, 16), (4, 4)),
    "mixed": ((96, 10), (2, 1)),
}
SIDES = ("left", "right", "bottom", "top", "back", "front")


class Factors:
    """Remembers the factorisations, to time their solves and count their entries."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, PETSc.Vec]] = []
        self.seconds = 0.0
        solvers.factorised = self._remembered(solvers.factorised)
        solvers.Cholesky = self._remembered(solvers.Cholesky)

    def _remembered(self, make: Any) -> Any:
        def remembered(A: PETSc.Mat, *args: Any) -> Any:
            start = time.perf_counter()
            factor = make(A, *args)
            self.seconds += time.perf_counter() - start
            self.made.append((factor, A.createVecRight()))
            return factor

        return remembered

    def solve(self) -> tuple[float, float]:
        """Seconds of a solve with the last one, and the bytes of its factor."""
        if not self.made:
            return 0.0, 0.0
        factor, x = self.made[-1]
        y = x.duplicate()
        x.setRandom()
        if isinstance(factor, PETSc.KSP):
            entries = factor.getPC().getFactorMatrix().getInfo()["nz_used"]
        else:
            entries = factor.entries
        return best(lambda: factor.solve(x, y), 15), 8.0 * entries


def best(work: Any, rounds: int) -> float:
    """The least time of a call, on the slowest rank."""
    times = []
    for _ in range(rounds):
        COMM.barrier()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return COMM.allreduce(min(times), MPI.MAX)


def build(method: str, dim: int, n: int, degree: int) -> tuple[Any, Any]:
    """The system and its time-marcher."""
    simplex, cube = ("triangle", "quadrilateral") if dim == 2 else ("tetrahedron", "hexahedron")
    cell = cube if method == "lumped" else simplex
    domain = hf.box(COMM, (0,) * dim, (1,) * dim, n, cell)
    wave = hf.Acoustic(domain, boundary=[hf.Clamped(*SIDES[: 2 * dim])])
    if method == "cg":
        return hf.cg(wave, degree), hf.Gauss(1)
    if method == "lumped":
        return hf.cg(wave, degree, lumped=True), hf.Verlet()
    if method == "hdg":
        return hf.hdg(wave, degree), hf.Gauss(1)
    return hf.mixed(wave, degree), hf.Verlet()


def traffic(method: str, dim: int, n: int, degree: int, system: Any, factor: float) -> float:
    """The bytes that a step must move: matrices once for each use, vectors for each in and out."""
    if method == "lumped":
        cells = n**dim * (degree + 1) ** dim * (8 * dim * (dim + 1) // 2 + 4)
        return float(cells + 56 * system.M.size[0])
    if method == "cg":
        return 12 * system.K.getInfo()["nz_used"] + 2 * factor + 80 * system.M.size[0]
    if method == "hdg":
        _, X_ul, _ = system._X
        uu = len(X_ul) * X_ul.shape[1] ** 2
        return 8.0 * (uu + 2 * X_ul.size) + 2 * factor + 80 * system.M.size[0]
    blocks = system.blocks
    sizes = blocks.inverse.size + blocks.b_l.size + blocks.c_l.size + 2 * blocks.b_u.size
    return 8.0 * sizes + 2 * factor + 48 * (system.M_q.size[0] + system.M.size[0])


def bandwidth(size: float) -> tuple[float, float]:
    """Bytes per second of a read-only pass and of a copy over `size` bytes, shared by the ranks."""
    length = max(int(size) // COMM.size // 16, 1)
    a, b = np.ones(length), np.ones(length)
    total = 16 * length * COMM.size
    return total / best(lambda: np.dot(a, b), 20), total / best(lambda: np.copyto(a, b), 20)


def main(
    method: Annotated[str, typer.Argument(help="cg, hdg, lumped or mixed.")],
    dim: Annotated[int, typer.Argument(help="2 or 3.")],
    n: Annotated[int | None, typer.Option(help="Cells in each direction.")] = None,
    degree: Annotated[int | None, typer.Option(help="The degree.")] = None,
    steps: Annotated[int, typer.Option(help="Steps in a chunk.")] = 20,
    chunks: Annotated[int, typer.Option(help="Chunks; the best one counts.")] = 4,
    bound: Annotated[bool, typer.Option(help="Lumped: a known bound of the frequency.")] = False,
    profile: Annotated[bool, typer.Option(help="Print where the time of a step goes.")] = False,
    profile_space: Annotated[bool, typer.Option(help="The same for the set-up.")] = False,
) -> None:
    """Measure one method and print a JSON line."""
    n = n or SIZES[method][0][dim - 2]
    degree = degree or SIZES[method][1][dim - 2]
    factors = Factors()
    watch = time.perf_counter
    profiler = cProfile.Profile()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = watch()
    if profile_space:
        profiler.enable()
    system, marcher = build(method, dim, n, degree)
    profiler.disable()
    space = watch() - start
    memory_space = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Both codes begin with what they march at its largest: v for the mixed method, else u.
    phase = -np.pi / 2 if method == "mixed" else 0.0
    exact = hf.exact.StandingWave(modes=(1,) * dim, lengths=(1.0,) * dim, phase=phase)
    start = watch()
    state = system.state(u=exact.u(0), v=exact.v(0), start="projection")
    begin = watch() - start
    initial = (state.v if method == "mixed" else state.q).copy()
    start = watch()
    if bound:  # at degree 4 on uniform boxes it is 19.2 n in 2D and 23.5 n in 3D
        system._max_frequency = 25.0 * n
    limit = marcher.stable_dt(system)
    limit_time = watch() - start
    memory_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dt = 0.9 * limit if np.isfinite(limit) else 0.5 / n
    run = hf.march(system, marcher, state, dt, (chunks + 2) * steps * dt, every=steps)
    times = []
    for i in range(chunks + 1):
        COMM.barrier()
        if profile and i == 1:
            profiler.enable()
        start = watch()
        next(run)
        times.append(COMM.allreduce(watch() - start, MPI.MAX))
        profiler.disable()
    step = min(times[1:]) / steps
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    factor_time = factors.seconds  # before the exact state is projected, which factorises too
    solve, factor = factors.solve()
    moved = traffic(method, dim, n, degree, system, factor)
    read, copy = bandwidth(moved)
    unknowns = system.M.size[0]
    if method == "mixed":  # of the fluxes with continuous normal part
        unknowns += system.M_q.size[0] - system.trace.total * system.trace.size
    reached = system.state(u=exact.u(state.t), v=exact.v(state.t), start="projection")
    x, y = (state.v, reached.v) if method == "mixed" else (state.q, reached.q)
    error = (y - x).norm() / initial.norm()
    record = {
        "code": "hamfem",
        "method": method,
        "dim": dim,
        "n": n,
        "ranks": COMM.size,
        "unknowns": unknowns,
        "space": space,
        "start": begin,
        "limit": limit_time,
        "bind": max(times[0] - steps * step, 0.0),
        "factor": factor_time,
        "step": step,
        "solve": solve,
        "memory": COMM.allreduce(memory) / 1024,
        "memory_space": COMM.allreduce(memory_space) / 1024,
        "memory_start": COMM.allreduce(memory_start) / 1024,
        "imports": COMM.allreduce(base) / 1024,
        "moved": moved / 1e6,
        "read": read / 1e9,
        "copy": copy / 1e9,
        "of_read": moved / step / read,
        "of_copy": moved / step / copy,
        "dt": dt,
        "error": error,
    }
    if COMM.rank == 0:
        print(json.dumps(record), flush=True)
        if profile or profile_space:
            pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
