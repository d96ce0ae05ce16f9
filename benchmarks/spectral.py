"""The stiffness of spectral elements of degree 4, and a step of Störmer-Verlet with it.

docker/run python benchmarks/spectral.py

For scalar waves, and for elastic ones with a stiffness that is isotropic and one that is not.
Printed are the best times of several rounds, and the rate at which memory must have been moved:
the numbers at the points and dof numbers once, each vector once for each reading and writing.
Beside it stand a read-only pass (dot) and a copy over arrays of the same total size, in the same
run: only the ratio of the rates means anything on a shared machine. To reach: 0.6 of the bandwidth.

At a modest size, where it can be had, PETSc's product with the assembled elastic K stands beside.
"""

import itertools
import time
from collections.abc import Callable
from typing import Annotated, Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt
import typer
import ufl
from dolfinx import fem, mesh
from dolfinx.fem.petsc import assemble_matrix

from hamfem.discretization.spectral import SpectralStiffness
from hamfem.matrices import generic_vector
from hamfem.physics.operators import symmetric_gradient

COMM = MPI.COMM_WORLD
CALLS = 10
KINDS = ("scalar", "isotropic", "general")
Floats = npt.NDArray[np.float64]


def seconds(work: Callable[[], object]) -> float:
    """The time of one call, on the slowest rank."""
    COMM.barrier()
    start = time.perf_counter()
    for _ in range(CALLS):
        work()
    return COMM.allreduce(time.perf_counter() - start, MPI.MAX) / CALLS


def space(dim: int, n: int, degree: int, kind: str) -> fem.FunctionSpace:
    """A square or cube of n cells in each direction."""
    if dim == 2:
        box = mesh.create_unit_square(COMM, n, n, mesh.CellType.quadrilateral)
    else:
        box = mesh.create_unit_cube(COMM, n, n, n, mesh.CellType.hexahedron)
    return fem.functionspace(box, ("Lagrange", degree, () if kind == "scalar" else (dim,)))


def stiffness(dim: int, kind: str) -> Floats:
    """C at a point: kappa = 1, lambda = mu = 1, or this with one direction stiffer."""
    if kind == "scalar":
        return np.ones(())
    m = np.arange(dim * (dim + 1) // 2) < dim
    C = 2.0 * np.eye(len(m)) + np.outer(m, m)
    C[0, 0] += kind == "general"
    return C


def spectral(V: fem.FunctionSpace, kind: str) -> SpectralStiffness:
    """K of the kernel."""
    dim = V.mesh.topology.dim
    C = stiffness(dim, kind)
    return SpectralStiffness(
        V, np.broadcast_to(C, (V.mesh.topology.index_map(dim).size_local, 1, *C.shape))
    )


def beside_petsc(dim: int, n: int, degree: int, kind: str, rounds: int) -> None:
    """Time the kernel and the product with the assembled K in turn."""
    V = space(dim, n, degree, kind)
    K = spectral(V, kind).mat
    C = ufl.as_matrix(stiffness(dim, kind).tolist())
    symbol = symmetric_gradient(dim)
    pairs = list(itertools.product(range(dim), repeat=2))

    def strain(v: Any) -> Any:
        return ufl.as_vector([sum(float(s[i, j]) * v[i].dx(j) for i, j in pairs) for s in symbol])

    u, w = ufl.TrialFunction(V), ufl.TestFunction(V)
    dx = ufl.dx(metadata={"quadrature_rule": "GLL", "quadrature_degree": 2 * degree - 1})
    A = assemble_matrix(fem.form(ufl.inner(C * strain(u), strain(w)) * dx))
    A.assemble()
    x, y = generic_vector(K, 1.0), K.createVecLeft()
    kernel = petsc = np.inf
    for _ in range(rounds):
        kernel = min(kernel, seconds(lambda: K.mult(x, y)))
        petsc = min(petsc, seconds(lambda: A.mult(x, y)))
    if COMM.rank == 0:
        print(
            f"{dim}D, {n}^{dim} cells, {kind}: {x.size} unknowns, kernel {1e3 * kernel:.3f} ms, "
            f"PETSc {A.getType()} {1e3 * petsc:.3f} ms, ratio {kernel / petsc:.3f}",
            flush=True,
        )


def measure(dim: int, n: int, degree: int, kind: str, rounds: int) -> None:
    """Time everything in turn, so that all see the same machine."""
    V = space(dim, n, degree, kind)
    points = (degree + 1) ** dim
    start = time.perf_counter()
    K = spectral(V, kind)
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

    numbers = K.mat.getPythonContext().operator.lib.factors()
    cell_bytes = n**dim * points * (8 * numbers + 4)
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
    print(
        f"\n{dim}D, {n}^{dim} cells, degree {degree}, {kind}: {u.size} unknowns, "
        f"{numbers} numbers at a point, set-up {setup:.2f} s"
    )
    print(f"bandwidth over {moved['K'] / 1e6:.0f} MB: dot {read:.1f} GB/s, copy {copy:.1f} GB/s")
    print(f"{'':6s} {'ms':>8s} {'ns/dof':>8s} {'GB/s':>8s} {'of dot':>8s} {'of copy':>8s}")
    for name, traffic in moved.items():
        rate = 1e-9 * traffic / best[name]
        print(
            f"{name:6s} {1e3 * best[name]:8.3f} {1e9 * best[name] / u.size:8.2f} {rate:8.1f}"
            f" {rate / read:8.2f} {rate / copy:8.2f}",
            flush=True,
        )


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; the best one counts.")] = 30,
    large: Annotated[bool, typer.Option(help="Also larger than any cache.")] = False,
) -> None:
    """Print the tables."""
    for kind in KINDS:
        measure(2, 128, 4, kind, rounds)
        measure(3, 16, 4, kind, rounds)
        if large:
            measure(2, 512, 4, kind, rounds // 3)
            measure(3, 32, 4, kind, rounds // 3)
    if COMM.rank == 0:
        print()
    for kind in KINDS[1:]:
        beside_petsc(2, 64, 4, kind, rounds)
        beside_petsc(3, 6, 4, kind, rounds // 3)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
