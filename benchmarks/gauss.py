"""Methods of order 4 in time against the midpoint rule: cost of a step and error, in the same run.

docker/run python benchmarks/gauss.py

Gauss with two stages solves one complex system per step. hf.Gauss does it on one rank by a complex
LU factorisation (SuperLU), on several by a real symmetric one of twice the size (MUMPS), which is
also measured on one rank; beside them Suzuki's five midpoint steps (hf.SymplecticDIRK(4)), two real
factorisations by CHOLMOD or MUMPS.
"""

import time
from typing import Annotated

from petsc4py import PETSc

import numpy as np
import typer
from timing import COMM, best

import hamfem as hf


def measure(dim: int, n: int, rounds: int) -> None:
    """Print the rows of one mesh."""
    cell = "triangle" if dim == 2 else "tetrahedron"
    domain = hf.box(COMM, (0,) * dim, (1,) * dim, n, cell)
    sides = ("left", "right", "bottom", "top", "back", "front")[: 2 * dim]
    system = hf.cg(hf.Acoustic(domain, boundary=[hf.Clamped(*sides)]), 3)
    exact = hf.exact.StandingWave(modes=(1,) * dim, lengths=(1.0,) * dim)
    dt, midpoint = 0.02, 0.0
    methods = [(m, False) for m in (hf.Gauss(1), hf.Gauss(2), hf.SymplecticDIRK(4), hf.Gauss(3))]
    if COMM.size == 1:
        methods.insert(2, (hf.Gauss(2), True))
    for method, doubled in methods:
        if doubled:
            PETSc.Options()["hamfem_pair_ksp_type"] = "preonly"
        state = system.state(u=exact.u(0), v=exact.v(0))
        start = time.perf_counter()
        advance = method.bind(system, dt)
        set_up = time.perf_counter() - start
        step = best(lambda: advance(state, 3), rounds) / 3  # noqa: B023
        midpoint = midpoint or step
        if doubled:
            PETSc.Options().delValue("hamfem_pair_ksp_type")
        omega = np.pi * np.sqrt(dim)
        # the error of the mode's phase in one step
        error = abs(np.angle(method.stability_function(1j * omega * dt)[0]) - omega * dt)
        label = method.name + (", doubled" if doubled else "")
        if COMM.rank == 0:
            print(
                f"{dim}D {system.M.size[0]:8d}  {label:20s} {set_up:9.2f} {1e3 * step:10.2f} "
                f"{step / midpoint:8.2f} {error:14.1e}",
                flush=True,
            )


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; the best one counts.")] = 5,
    n2: Annotated[int, typer.Option(help="Squares per side in 2D.")] = 96,
    n3: Annotated[int, typer.Option(help="Cubes per side in 3D.")] = 10,
) -> None:
    """Print the table."""
    if COMM.rank == 0:
        print(
            f"    unknowns  {'method':20s} {'set-up, s':>9s} {'step, ms':>10s} {'ratio':>8s} "
            f"{'phase error':>14s}"
        )
    measure(2, n2, rounds)
    measure(3, n3, rounds)


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
