"""Semi-discrete Hamiltonian systems as bags of linear maps, and their states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from petsc4py import PETSc
from slepc4py import SLEPc

import numpy as np


@dataclass
class State:
    """A point (q, v) of phase space at time t, reached after `step` steps; advanced in place."""

    q: PETSc.Vec
    v: PETSc.Vec
    t: float = 0.0
    step: int = 0

    def copy(self) -> State:
        """An independent copy, from which a run can start again."""
        return State(self.q.copy(), self.v.copy(), self.t, self.step)


class Space(Protocol):
    """How the numbers in a vector stand for a function."""

    def vector(self, data: Any) -> PETSc.Vec:
        """The vector that stands for `data`."""

    def fields(self, state: State) -> dict[str, Any]:
        """The fields of a state, by name."""


class SecondOrder:
    """du/dt = v, M dv/dt = -K u, with M symmetric positive definite, K symmetric semidefinite.

    Its Hamiltonian is the energy 1/2 v'Mv + 1/2 u'Ku.
    """

    def __init__(self, M: PETSc.Mat, K: PETSc.Mat, space: Space) -> None:
        self.M, self.K, self.space = M, K, space
        self._work = M.createVecRight()

    def state(self, u: Any = 0, v: Any = 0) -> State:
        """The state at t = 0 with displacement u and velocity v: callables x -> array, or 0."""
        state = State(self.space.vector(u), self.space.vector(v))
        for name, vector in (("u", state.q), ("v", state.v)):
            if not np.isfinite(vector.norm()):
                raise ValueError(
                    f"the initial {name} is not finite everywhere: it has NaN or infinity."
                )
        return state

    @cached_property
    def mass_solver(self) -> PETSc.KSP:
        """A solver of M x = r, factorised at first use."""
        return factorised(self.M, "hamfem_mass_")

    def mass_solve(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """X = M^-1 r."""
        self.mass_solver.solve(r, x)

    def shifted(self, c: float) -> PETSc.KSP:
        """A solver of (M + c K) x = r, factorised once."""
        A = self.M.copy()
        A.axpy(c, self.K, structure=PETSc.Mat.Structure.SUBSET_NONZERO_PATTERN)
        return factorised(A, "hamfem_shifted_")

    def kinetic(self, state: State) -> float:
        """1/2 v'Mv."""
        self.M.mult(state.v, self._work)
        return 0.5 * state.v.dot(self._work)

    def potential(self, state: State) -> float:
        """1/2 u'Ku."""
        self.K.mult(state.q, self._work)
        return 0.5 * state.q.dot(self._work)

    def energy(self, state: State) -> float:
        """The Hamiltonian 1/2 v'Mv + 1/2 u'Ku."""
        return self.kinetic(state) + self.potential(state)

    def invariants(self, state: State) -> dict[str, float]:
        """The tracked quantities, by name."""
        kinetic, potential = self.kinetic(state), self.potential(state)
        return {"energy": kinetic + potential, "kinetic": kinetic, "potential": potential}

    def fields(self, state: State) -> dict[str, Any]:
        """The fields u and v of a state."""
        return self.space.fields(state)

    def max_frequency(self) -> float:
        """The largest omega with K x = omega² M x, by Krylov-Schur iteration."""
        eps = SLEPc.EPS().create(self.M.comm)
        eps.setOperators(self.K, self.M)
        eps.setProblemType(SLEPc.EPS.ProblemType.GHEP)
        eps.setWhichEigenpairs(SLEPc.EPS.Which.LARGEST_REAL)
        # A fixed start vector: the answer, hence a refusal, must not change from run to run.
        eps.setInitialSpace([_start_vector(self.M)])
        eps.setTolerances(1e-6, 1000)
        # A solver of its own: destroying eps resets the solver that it was given.
        eps.getST().setKSP(factorised(self.M, "hamfem_mass_"))
        eps.solve()
        if eps.getConverged() < 1:
            raise RuntimeError(
                "the largest frequency was not found: check that M and K are symmetric."
            )
        largest = eps.getEigenvalue(0).real
        eps.destroy()
        return float(np.sqrt(max(largest, 0.0)))


def factorised(A: PETSc.Mat, prefix: str) -> PETSc.KSP:
    """A direct solver of A x = r for symmetric positive definite A, open to PETSc's options."""
    ksp = PETSc.KSP().create(A.comm)
    ksp.setOptionsPrefix(prefix)
    ksp.setOperators(A)
    ksp.setType(PETSc.KSP.Type.PREONLY)
    pc = ksp.getPC()
    pc.setType(PETSc.PC.Type.CHOLESKY)
    if A.comm.size == 1:
        pc.setFactorSolverType("cholmod")
    else:
        pc.setFactorSolverType("mumps")
        pc.setFactorSetUpSolverType()
        # MUMPS estimates its workspace, too small by far on small matrices: allow 200 % more.
        pc.getFactorMatrix().setMumpsIcntl(14, 200)
    ksp.setErrorIfNotConverged(True)
    ksp.setFromOptions()
    ksp.setUp()
    return ksp


def _start_vector(A: PETSc.Mat) -> PETSc.Vec:
    """A vector with entries that depend on their global number only, in no symmetry class."""
    x = A.createVecRight()
    first, last = x.getOwnershipRange()
    x.array[:] = np.sin(1.0 + np.arange(first, last) * 12.9898)
    return x
