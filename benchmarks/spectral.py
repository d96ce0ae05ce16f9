"""The stiffness of spectral elements of degree 4, and a step of Störmer-Verlet with it.

docker/run python benchmarks/spectral.py

Printed are the best times of several rounds, and the rate at which memory must have been moved:
the geometric factors and dof numbers once, each vector once for each reading and writing. Beside it
stand a read-only pass (dot) and a copy over arrays of the same total size, in the same run: only
the ratio of the rates means anything on a shared machine. To reach: 0.6 of the bandwidth.
"""

import time
from collections.abc import Callable
from typing import Annotated

from mpi4py import MPI

import numpy as np
import typer
from dolfinx import fem, mesh

from hamfem.discretization.spectral import SpectralStiffness
from hamfem.matrices import generic_vector

COMM = MPI.COMM_WORLD
CALLS = 10


def seconds(work: Callable[[], object]) -> float:
    """The time of one call, on the slowest rank."""
    COMM.barrier()
    start = time.perf_counter()
    for _ in range(CALLS):
        work()
    return COMM.allreduce(time.perf_counter() - start, MPI.MAX) / CALLS


def space(dim: int, n: int, degree: int) -> fem.FunctionSpace:
    """A square or cube of n cells in each direction."""
    if dim == 2:
        box = mesh.create_unit_square(COMM, n, n, mesh.CellType.quadrilateral)
    else:
        box = mesh.create_unit_cube(COMM, n, n, n, mesh.CellType.hexahedron)
    return fem.functionspace(box, ("Lagrange", degree))


def measure(dim: int, n: int, degree: int, rounds: int) -> None:
    """Time everything in turn, so that all see the same machine."""
    V = space(dim, n, degree)
    cells = V.mesh.topology.index_map(dim).size_local
    points = (degree + 1) ** dim
    start = time.perf_counter()
    K = SpectralStiffness(V, np.ones((cells, points)))
    setup = time.perf_counter() - start
    u, v = generic_vector(K.mat, 1.0), generic_vector(K.mat, 2.0)
    inverse_mass = u.duplicate()
    inverse_mass.set(1e-6)
    dt = 1e-6
    S = K.scaled(dt, inverse_mass)
    out = u.duplicate()

    def step() -> None:
        S.multAdd(u, v, v)
        u.axpy(dt, v)

    cell_bytes = n**dim * points * (8 * dim * (dim + 1) // 2 + 4)
    # x in and y out; for a step: u, v, 1/m in and v out, u, v in and u out.
    moved = {"K": cell_bytes + 16 * u.size, "step": cell_bytes + 56 * u.size}
    size = moved["K"] // COMM.size // 16
    a, b = np.ones(size), np.ones(size)
    tasks = {
        "K": lambda: K.mat.mult(u, out),
        "step": step,
        "dot": lambda: np.dot(a, b),
        "copy": lambda: np.copyto(a, b),
    }
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(rounds):
        for name, work in tasks.items():
            best[name] = min(best[name], seconds(work))
    read, copy = (1e-9 * 16 * size * COMM.size / best[name] for name in ("dot", "copy"))
    if COMM.rank > 0:
        return
    print(f"\n{dim}D, {n}^{dim} cells, degree {degree}: {u.size} unknowns, set-up {setup:.2f} s")
    print(f"bandwidth over {moved['K'] / 1e6:.0f} MB: dot {read:.1f} GB/s, copy {copy:.1f} GB/s")
    print(f"{'':6s} {'ms':>8s} {'MDOF/s':>8s} {'GB/s':>8s} {'of dot':>8s} {'of copy':>8s}")
    for name, traffic in moved.items():
        rate = 1e-9 * traffic / best[name]
        print(
            f"{name:6s} {1e3 * best[name]:8.3f} {1e-6 * u.size / best[name]:8.0f} {rate:8.1f}"
            f" {rate / read:8.2f} {rate / copy:8.2f}",
            flush=True,
        )


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; the best one counts.")] = 30,
    large: Annotated[bool, typer.Option(help="Also larger than any cache.")] = False,
) -> None:
    """Print the tables."""
    measure(2, 128, 4, rounds)
    measure(3, 16, 4, rounds)
    if large:
        measure(2, 512, 4, rounds // 3)
        measure(3, 32, 4, rounds // 3)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
