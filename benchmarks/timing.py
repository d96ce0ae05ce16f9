"""What all benchmarks measure alike: times, memory, bandwidth, factorisations."""

import resource
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np

from hamfem import solvers

COMM = MPI.COMM_WORLD


def best(work: Callable[[], object], rounds: int) -> float:
    """The least time of a call in seconds, on the slowest rank."""
    times = []
    for _ in range(rounds):
        COMM.barrier()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return COMM.allreduce(min(times), MPI.MAX)


def memory() -> float:
    """The largest resident set up to now in MB, of all ranks together."""
    return COMM.allreduce(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def bandwidth(size: float) -> tuple[float, float]:
    """Bytes per second of a read-only pass and of a copy over `size` bytes, shared by the ranks."""
    length = max(int(size) // COMM.size // 16, 1)
    a, b = np.ones(length), np.ones(length)
    total = 16 * length * COMM.size
    return total / best(lambda: np.dot(a, b), 20), total / best(lambda: np.copyto(a, b), 20)


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
        """Seconds of a solve with the last of the largest ones, and the bytes of its factor.

        Smaller ones, such as those of potentials of charges, are not solved with in each step.
        """
        if not self.made:
            return 0.0, 0.0
        largest = max(x.size for _, x in self.made)
        factor, x = next(pair for pair in reversed(self.made) if pair[1].size == largest)
        y = x.duplicate()
        x.setRandom()
        if isinstance(factor, PETSc.KSP):
            entries = factor.getPC().getFactorMatrix().getInfo()["nz_used"]
        else:
            entries = factor.entries
        return best(lambda: factor.solve(x, y), 15), 8.0 * entries
