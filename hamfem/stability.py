"""How fast a system swings, and how large a step its integrator may take."""

from __future__ import annotations

from collections.abc import Callable

from petsc4py import PETSc
from slepc4py import SLEPc

import numpy as np
import scipy.linalg

from hamfem.matrices import SMALL, gathered, generic_vector
from hamfem.solvers import Solve, factorised, is_diagonal


def max_frequency(M: PETSc.Mat, K: PETSc.Mat) -> float:
    """The largest omega with K x = omega² M x: by Krylov-Schur iteration, or dense if small."""
    if M.size[0] <= SMALL and K.getType() != PETSc.Mat.Type.PYTHON:
        values = scipy.linalg.eigvalsh(gathered(K).toarray(), gathered(M).toarray())
        return float(np.sqrt(max(values[-1], 0.0)))
    eps = SLEPc.EPS().create(M.comm)
    eps.setOperators(K, M)
    eps.setProblemType(SLEPc.EPS.ProblemType.GHEP)
    eps.setWhichEigenpairs(SLEPc.EPS.Which.LARGEST_REAL)
    # A fixed start vector: the answer, hence a refusal, must not change from run to run.
    eps.setInitialSpace([generic_vector(M, 1.0)])
    # The error of the eigenvalue is the square of that of the vector: 1e-7 of omega here.
    eps.setTolerances(1e-4, 1000)
    # A solver of its own: destroying eps resets the solver that it was given.
    if is_diagonal(M):
        ksp = PETSc.KSP().create(M.comm)
        ksp.setType(PETSc.KSP.Type.PREONLY)
        ksp.getPC().setType(PETSc.PC.Type.JACOBI)
        ksp.setOperators(M)
    else:
        ksp = factorised(M, "hamfem_mass_")
    eps.getST().setKSP(ksp)
    eps.solve()
    if eps.getConverged() < 1:
        raise RuntimeError("the largest frequency was not found: are M and K symmetric?")
    largest = eps.getEigenvalue(0).real
    eps.destroy()
    return float(np.sqrt(max(largest, 0.0)))


def shell(like: PETSc.Mat, apply: Solve) -> PETSc.Mat:
    """A square matrix that is known by what it does."""

    class Apply:
        def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
            apply(x, y)

    return PETSc.Mat().createPython(like.sizes, Apply(), comm=like.comm)


def oscillator_limit(amplification: Callable[[np.ndarray], np.ndarray], end: float = 40.0) -> float:
    """The largest omega h up to which the spectral radius on an oscillator stays at most 1.

    Args:
        amplification: Spectral radii for an array of omega h.
        end: How far to look; beyond it, the method counts as stable for every step.
    """
    allowed = 1 + 1e-12
    y = np.linspace(0, end, 80001)[1:]
    unstable = np.flatnonzero(amplification(y) > allowed)
    if not len(unstable):
        return float("inf")
    first = unstable[0]
    low, high = (y[first - 1] if first else 0.0), y[first]
    for _ in range(60):
        middle = 0.5 * (low + high)
        if amplification(np.array([middle]))[0] > allowed:
            high = middle
        else:
            low = middle
    return float(low)
