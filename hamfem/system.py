"""Semi-discrete Hamiltonian systems as bags of linear maps.

An integrator sees only these maps, the same for both kinds of system:

    mass(v), mass_solve(r)      M v, M^-1 r
    flux(w)                     F w, the change of q that belongs to a displacement w
    restoring(q)                the force that q exerts on v
    stiffness(w)                K w = -restoring(F w)
    shifted(c, a)               solves (M + a R + c K) x = r;  shifted_pair for complex c and a
    stage(a)                    solves k = L(z + a k) + load for both halves
    kick, drift                 the flow of v while q stands still, and the other way round
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Protocol, TypeVar

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np

from hamfem import stability
from hamfem.communicator import lasting
from hamfem.flow import Half
from hamfem.kernel import Kernel
from hamfem.layout import Piece, in_rows
from hamfem.loads import Load, Loads, SampledLoad
from hamfem.matrices import (
    as_petsc,
    as_vector,
    check_positive,
    check_symmetric,
    combination,
    nested,
)
from hamfem.solvers import PairSolver, Solve, inverse, is_diagonal, solver
from hamfem.stage import Stage, Vecs, eliminated, saddle
from hamfem.state import State

PairSolve = Callable[[Vecs, Vecs], None]
Kind = TypeVar("Kind", bound="_System")
MASSLESS = (
    "this system has unknowns without mass (traces on absorbing walls): take an implicit "
    "Runge-Kutta method, such as hf.Gauss, or another discretization."
)


class Space(Protocol):
    """How the numbers in a vector stand for a function."""

    def state(self, system: Any, u: Any, v: Any, start: str) -> State:
        """The state that stands for a displacement and a velocity."""

    def invariants(self, state: State) -> dict[str, Any]:
        """Tracked quantities that only functions have, by name."""

    def track(self, state: State) -> Any:
        """Their densities, fluxes and totals."""

    def pieces(self, kind: str, x: PETSc.Vec) -> list[Piece]:
        """A vector as arrays in an order that does not depend on the ranks."""

    def restore(self, kind: str, pieces: Sequence[Piece], x: PETSc.Vec) -> None:
        """The vector from these."""

    def fields(self, state: State, names: str | Sequence[str] | None = None) -> dict[str, Any]:
        """The fields of a state, by name; only these, if names are given."""


class _System:
    """What both kinds of system do with a state."""

    M: PETSc.Mat
    space: Space | None
    kernel: Kernel | None
    # Fields without force that are many (gradients): what keeps them apart from the steps.
    at_rest: Any = None
    # Unknowns without mass, such as traces on absorbing walls, are for implicit methods only.
    massless = False
    new_q: Callable[[], PETSc.Vec]
    new_v: Callable[[], PETSc.Vec]

    @property
    def comm(self) -> MPI.Comm:
        """The communicator."""
        return lasting(self.M.comm.tompi4py())

    @property
    def domain(self) -> Any:
        """Where the fields live."""
        return self._fields_space.wave.domain

    @property
    def _fields_space(self) -> Any:
        if self.space is None:
            raise ValueError("this system was made from matrices: it has vectors and no fields.")
        return self.space

    def pieces(self, kind: str, x: PETSc.Vec) -> list[Piece]:
        """A vector as arrays for a file, in an order that does not depend on the ranks.

        Args:
            kind: What is in x: "q", "v" or "charges", which few systems can store.
            x: The vector.
        """
        if self.space is not None:
            return self.space.pieces(kind, x)
        return in_rows(x) if kind in ("q", "v") else []

    def restore(self, kind: str, pieces: Sequence[Piece], x: PETSc.Vec) -> None:
        """The vector from its pieces."""
        if self.space is not None:
            self.space.restore(kind, pieces, x)
        else:
            x.array[:] = pieces[0].values

    @cached_property
    def _work(self) -> tuple[PETSc.Vec, PETSc.Vec]:
        return self.new_q(), self.new_v()

    def kinetic(self, state: State) -> float:
        """1/2 v'Mv."""
        self.M.mult(state.v, self._work[1])
        return 0.5 * float(state.v.dot(self._work[1]))

    def potential(self, state: State) -> float:
        """The energy in q."""
        raise NotImplementedError

    def compiled(self, parts: Sequence[Any], dt: float) -> Callable[[State, int], None] | None:
        """The steps of a partitioned method without Python between them, where there is a kernel.

        Args:
            parts: Its kicks and drifts: before the steps, in each, between two, after them.
            dt: The step.
        """
        return None

    def moving(self, q: PETSc.Vec) -> PETSc.Vec:
        """This q, without what is at rest and so large that it hides the energy of all else."""
        return q

    def energy(self, state: State) -> float:
        """The Hamiltonian: kinetic and potential energy, without the loads."""
        return self.kinetic(state) + self.potential(state)

    def invariants(self, state: State) -> dict[str, Any]:
        """The tracked quantities, by name."""
        kinetic, potential = self.kinetic(state), self.potential(state)
        values = {"energy": kinetic + potential, "kinetic": kinetic, "potential": potential}
        return values if self.space is None else {**values, **self.space.invariants(state)}

    def fields(self, state: State, names: str | Sequence[str] | None = None) -> dict[str, Any]:
        """The fields of a state, by name; only these are computed, if names are given."""
        return self._fields_space.fields(state, names)

    def densities(self, state: State) -> dict[str, Any]:
        """The densities and fluxes of what has a local conservation law, as functions by name."""
        return self._fields_space.track(state).fields()

    def through_walls(self, state: State) -> dict[str, Any]:
        """How much of what has a local conservation law leaves through the boundary, per time."""
        return self._fields_space.track(state).through_walls()

    def symmetry(self, move: Callable[[Any], Any]) -> PETSc.Mat:
        """The permutation of the unknowns that belongs to a motion x -> x' of the mesh."""
        if not hasattr(self.space, "symmetry"):
            raise ValueError("only continuous elements (hf.cg) know the permutation of a motion.")
        return self.space.symmetry(move)  # type: ignore[union-attr]

    def without_kernel(self: Kind) -> Kind:
        """The same system, in which nothing is done for the momenta of its kernel."""
        other = copy(self)
        for made_with_it in ("kick", "drift"):
            other.__dict__.pop(made_with_it, None)
        other.kernel = None
        return other


def finite(state: State, q: str = "u or q", v: str = "v") -> State:
    """The state, unless a half of it, which goes by that name, has NaN or infinity."""
    for name, vector in ((q, state.q), (v, state.v)):
        if not np.isfinite(vector.norm()):
            raise ValueError(f"the initial {name} is not finite: it has NaN or infinity.")
    return state


class SecondOrder(_System):
    """du/dt = v, M dv/dt = -K u - R v + f(t); its energy is 1/2 v'Mv + 1/2 u'Ku.

    Args:
        M: Symmetric positive definite; numpy, scipy.sparse or PETSc, like the others.
        K: Symmetric positive semidefinite.
        R: The damping, symmetric positive semidefinite, or None.
        loads: f, a sum of loads.
        kernel: Vectors that span ker K, if momenta are to be kept free of round-off.
        space: How vectors stand for functions; None for a system of plain numbers.
        comm: Over which ranks numpy and scipy matrices are spread.
    """

    R_q = None

    def __init__(
        self,
        M: Any,
        K: Any,
        R: Any = None,
        loads: Sequence[Load | SampledLoad] = (),
        kernel: Sequence[Any] = (),
        space: Space | None = None,
        comm: MPI.Comm | None = None,
    ) -> None:
        self.M, self.K = as_petsc(M, "M", comm), as_petsc(K, "K", comm)
        self.R = None if R is None else as_petsc(R, "R", comm)
        for name, A in (("M", self.M), ("K", self.K), ("R", self.R)):
            if A is not None:
                check_symmetric(A, name)
                if A.size != self.M.size:
                    raise ValueError(f"{name} is {A.size[0]} x {A.size[1]} and M {self.M.size[0]}.")
        if not self.massless:
            check_positive(self.M, "M")
        self.space = space
        self.new_q = self.new_v = self.M.createVecRight
        self.loads = Loads(loads, self.new_v())
        self.flux_loads = Loads((), self.new_q())
        vectors = [as_vector(w, self.new_v(), "a vector of the kernel") for w in kernel]
        self.kernel = Kernel(vectors, self.M) if vectors else None
        self._apart = self.new_q() if vectors else None

    def potential(self, state: State) -> float:
        """1/2 u'Ku."""
        u = self.moving(state.q)
        self.stiffness(u, self._work[0])
        # A body that was thrown far has its energy in small differences of u, which are taken.
        apart = u if self._apart is None else self._apart
        return 0.5 * float(apart.dot(self._work[0]))

    def moving(self, q: PETSc.Vec) -> PETSc.Vec:
        """This u without fields at rest, if there are large ones."""
        return q if self.at_rest is None else self.at_rest.without(q)

    def state(self, u: Any = 0, v: Any = 0, start: str = "steady") -> State:
        """The state at t = 0: callables x -> array, UFL or 0 on a mesh, arrays otherwise.

        Args:
            u: The displacement.
            v: The velocity.
            start: "steady" for the elliptic projection, which keeps the orders of the method, or
                "projection" for the nearest functions in the mean square.
        """
        if self.space is not None:
            return finite(self.space.state(self, u, v, start))
        return finite(State(as_vector(u, self.new_q(), "u"), as_vector(v, self.new_v(), "v")))

    # ------------------------------------------------------------ maps

    @cached_property
    def _inverse(self) -> tuple[Solve, PETSc.Mat | None]:
        return inverse(self.M, "hamfem_mass_")

    def mass(self, v: PETSc.Vec, out: PETSc.Vec) -> None:
        """M v."""
        self.M.mult(v, out)

    def mass_solve(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """X = M^-1 r."""
        self._inverse[0](r, x)
        if self.kernel is not None:
            self.kernel.match(x, r)

    def flux(self, w: PETSc.Vec, out: PETSc.Vec) -> None:
        """A displacement w changes q = u by w."""
        w.copy(out)

    def flux_solve(self, g: PETSc.Vec, out: PETSc.Vec) -> None:
        """There is no load on the equation of u."""
        raise NotImplementedError("du/dt = v has no load.")

    def stiffness(self, w: PETSc.Vec, out: PETSc.Vec) -> None:
        """K w."""
        if self.kernel is None:
            self.K.mult(w, out)
            return
        w.copy(self._apart)
        self.kernel.remove(self._apart)
        self.K.mult(self._apart, out)
        self.kernel.balance(out)

    @cached_property
    def _sparse_K(self) -> PETSc.Mat:
        """K with its entries; a shell matrix has an assembled twin."""
        if self.K.getType() == PETSc.Mat.Type.PYTHON:
            return self.K.getPythonContext().assembled()
        return self.K

    def restoring(self, q: PETSc.Vec, out: PETSc.Vec) -> None:
        """-K q."""
        self.stiffness(q, out)
        out.scale(-1.0)

    def shifted(self, c: float, a: float = 0.0) -> Solve:
        """A solver of (M + a R + c K) x = r, factorised once."""
        if c == 0.0 and (a == 0.0 or self.R is None):
            return self.mass_solve
        A = combination([(1.0, self.M), (c, self._sparse_K), (a, self.R)])
        return _matched(solver(A, "hamfem_shifted_").solve, self.kernel if self.R is None else None)

    def shifted_pair(self, c: complex, a: complex = 0.0) -> PairSolve:
        """A solver of (M + a R + c K) x = r for complex numbers as pairs, factorised once."""
        K = self._sparse_K
        P = combination([(1.0, self.M), (c.real, K), (a.real, self.R)])
        Q = combination([(c.imag, K), (a.imag, self.R)])
        S = combination([(1.0, self.M), (abs(c), K), (abs(a), self.R)])
        return _matched_pair(
            PairSolver(P, Q, "hamfem_pair_", S), self.kernel if self.R is None else None
        )

    def stage(self, a: complex) -> Stage:
        """A solver of k = L(z + a k) + load."""
        return eliminated(self, complex(a))

    @cached_property
    def kick(self) -> Half:
        """M dv/dt = -K u - R v + f, u standing still."""
        if self.massless:
            raise ValueError(MASSLESS)
        return Half(
            new=self.new_v,
            force=self.restoring,
            solve=self.mass_solve,
            damped_solve=lambda a: self.shifted(0.0, a),
            R=self.R,
            loads=self.loads,
            scaled=lambda h: None if self.kernel else _multiplied(self._inverse[1], self.K, -h),
            integrate=False,
        )

    @cached_property
    def drift(self) -> None:
        """du/dt = v: no half of its own."""
        return None

    @cached_property
    def _max_frequency(self) -> float:
        return stability.max_frequency(self.M, self.K)

    def max_frequency(self) -> float:
        """The largest omega with K x = omega² M x."""
        return self._max_frequency


class FirstOrder(_System):
    """M_q dq/dt = -B'v - R_q q + g(t), M_v dv/dt = B q - R_v v + f(t).

    Its energy is 1/2 v'M_v v + 1/2 q'M_q q. All matrices may be numpy, scipy.sparse or PETSc ones.

    Args:
        M_q: Symmetric positive definite.
        M_v: Symmetric positive definite.
        B: One row for each v, one column for each q.
        R_q: The damping of q, symmetric positive semidefinite, or None.
        R_v: The damping of v, likewise.
        loads: f, a sum of loads on v.
        flux_loads: g, a sum of loads on q.
        kernel: Vectors that span ker B', if their momenta are to be kept free of round-off.
        space: How vectors stand for functions; None for a system of plain numbers.
        comm: Over which ranks numpy and scipy matrices are spread.
    """

    def __init__(
        self,
        M_q: Any,
        M_v: Any,
        B: Any,
        R_q: Any = None,
        R_v: Any = None,
        loads: Sequence[Load | SampledLoad] = (),
        flux_loads: Sequence[Load | SampledLoad] = (),
        kernel: Sequence[Any] = (),
        space: Space | None = None,
        comm: MPI.Comm | None = None,
    ) -> None:
        self.M_q, self.M_v = as_petsc(M_q, "M_q", comm), as_petsc(M_v, "M_v", comm)
        self.B = as_petsc(B, "B", comm)
        self.R_q = None if R_q is None else as_petsc(R_q, "R_q", comm)
        self.R_v = self.R = None if R_v is None else as_petsc(R_v, "R_v", comm)
        self.M = self.M_v
        n_v, n_q = self.M_v.size[0], self.M_q.size[0]
        if self.B.size != (n_v, n_q):
            raise ValueError(
                f"B is {self.B.size[0]} x {self.B.size[1]} and must be {n_v} x {n_q}: one row for "
                "each v, one column for each q."
            )
        matrices = (("M_q", self.M_q, n_q), ("M_v", self.M_v, n_v))
        for name, A, n in (*matrices, ("R_q", self.R_q, n_q), ("R_v", self.R_v, n_v)):
            if A is not None:
                check_symmetric(A, name)
                if A.size[0] != n:
                    raise ValueError(f"{name} is {A.size[0]} x {A.size[1]} and must be {n} x {n}.")
        for name, A, _ in matrices:
            check_positive(A, name)
        self.space = space
        self.new_q, self.new_v = self.M_q.createVecRight, self.M_v.createVecRight
        self.loads = Loads(loads, self.new_v())
        self.flux_loads = Loads(flux_loads, self.new_q())
        vectors = [as_vector(w, self.new_v(), "a vector of the kernel") for w in kernel]
        self.kernel = Kernel(vectors, self.M_v) if vectors else None
        self._r_q = self.new_q()

    def potential(self, state: State) -> float:
        """1/2 q'M_q q."""
        self.M_q.mult(state.q, self._work[0])
        return 0.5 * float(state.q.dot(self._work[0]))

    def state(self, q: Any = 0, v: Any = 0, *, u: Any = 0, start: str = "steady") -> State:
        """The state at t = 0: u and v as functions on a mesh, q and v as arrays otherwise."""
        if self.space is not None:
            return finite(self.space.state(self, u, v, start))
        return finite(State(as_vector(q, self.new_q(), "q"), as_vector(v, self.new_v(), "v")))

    # ------------------------------------------------------------ maps

    @cached_property
    def _inverse_v(self) -> tuple[Solve, PETSc.Mat | None]:
        return inverse(self.M_v, "hamfem_mass_")

    @cached_property
    def _inverse_q(self) -> tuple[Solve, PETSc.Mat | None]:
        return inverse(self.M_q, "hamfem_flux_mass_")

    def mass(self, v: PETSc.Vec, out: PETSc.Vec) -> None:
        """M_v v."""
        self.M_v.mult(v, out)

    def mass_solve(self, r: PETSc.Vec, x: PETSc.Vec) -> None:
        """X = M_v^-1 r."""
        self._inverse_v[0](r, x)
        if self.kernel is not None:
            self.kernel.match(x, r)

    def _minus_transpose(self, v: PETSc.Vec, out: PETSc.Vec) -> None:
        self.B.multTranspose(v, out)
        out.scale(-1.0)

    def flux(self, w: PETSc.Vec, out: PETSc.Vec) -> None:
        """A displacement w changes q by -M_q^-1 B'w."""
        self._minus_transpose(w, self._r_q)
        self._inverse_q[0](self._r_q, out)

    def flux_solve(self, g: PETSc.Vec, out: PETSc.Vec) -> None:
        """M_q^-1 g."""
        self._inverse_q[0](g, out)

    def restoring(self, q: PETSc.Vec, out: PETSc.Vec) -> None:
        """B q."""
        self.B.mult(q, out)
        if self.kernel is not None:
            self.kernel.balance(out)

    @cached_property
    def _flux_work(self) -> PETSc.Vec:
        return self.new_q()

    def stiffness(self, w: PETSc.Vec, out: PETSc.Vec) -> None:
        """K w = B M_q^-1 B'w."""
        self.flux(w, self._flux_work)
        self.restoring(self._flux_work, out)
        out.scale(-1.0)

    @cached_property
    def _sparse_K(self) -> PETSc.Mat | None:
        """K = B M_q^-1 B', where M_q^-1 is sparse; else None."""
        inverted = self._inverse_q[1]
        if inverted is None:
            return None
        # By an explicit transpose: PETSc mixes up the block sizes of B in matTransposeMult.
        return self.B.matMult(inverted).matMult(self.B.transpose(PETSc.Mat()))

    def shifted(self, c: float, a: float = 0.0) -> Solve:
        """A solver of (M_v + a R_v + c K) x = r, factorised once."""
        kernel = self.kernel if self.R_v is None else None
        if c == 0.0 and (a == 0.0 or self.R_v is None):
            return self.mass_solve
        M = combination([(1.0, self.M_v), (a, self.R_v)])
        if self._sparse_K is not None:
            return _matched(
                solver(combination([(1.0, M), (c, self._sparse_K)]), "hamfem_shifted_").solve,
                kernel,
            )
        # (M_v + a R_v) x + s B y = r with M_q y = s B'x, s² = c
        sB = combination([(np.sqrt(c), self.B)])
        A = nested([[M, sB], [sB.transpose(PETSc.Mat()), combination([(-1.0, self.M_q)])]])
        ksp = solver(A, "hamfem_saddle_", definite=False)
        rhs, y, n = A.createVecRight(), A.createVecRight(), self.new_v().local_size

        def solve(r: PETSc.Vec, x: PETSc.Vec) -> None:
            with rhs as values:
                values[:n] = r.array_r
                values[n:] = 0.0
            ksp.solve(rhs, y)
            with x as values:
                values[:] = y.array_r[:n]

        return _matched(solve, kernel)

    def shifted_pair(self, c: complex, a: complex = 0.0) -> PairSolve:
        """A solver of (M_v + a R_v + c K) x = r for complex numbers as pairs."""
        kernel = self.kernel if self.R_v is None else None
        if self._sparse_K is not None:
            P = combination([(1.0, self.M_v), (c.real, self._sparse_K), (a.real, self.R_v)])
            Q = combination([(c.imag, self._sparse_K), (a.imag, self.R_v)])
            S = combination([(1.0, self.M_v), (abs(c), self._sparse_K), (abs(a), self.R_v)])
            return _matched_pair(PairSolver(P, Q, "hamfem_pair_", S), kernel)
        s = complex(np.sqrt(complex(c)))
        parts = []
        for one, shift, root in ((1.0, a.real, s.real), (0.0, a.imag, s.imag)):
            sB = combination([(root, self.B)])
            parts.append(
                nested(
                    [
                        [combination([(one, self.M_v), (shift, self.R_v)]), sB],
                        [sB.transpose(PETSc.Mat()), combination([(-one, self.M_q)])],
                    ]
                )
            )
        pair = PairSolver(parts[0], parts[1], "hamfem_pair_")
        rhs = [parts[0].createVecRight() for _ in range(2)]
        y = [parts[0].createVecRight() for _ in range(2)]
        n = self.new_v().local_size

        def solve(r: Vecs, x: Vecs) -> None:
            for part, r_part in zip(rhs, r):
                with part as values:
                    values[:n] = r_part.array_r
                    values[n:] = 0.0
            pair(rhs, y)
            for part, x_part in zip(y, x):
                with x_part as values:
                    values[:] = part.array_r[:n]

        return _matched_pair(solve, kernel)

    def stage(self, a: complex) -> Stage:
        """A solver of k = L(z + a k) + load."""
        if self.R_q is None and (a == 0 or self._sparse_K is not None):
            return eliminated(self, complex(a))
        return saddle(self, complex(a))

    @cached_property
    def kick(self) -> Half:
        """M_v dv/dt = B q - R_v v + f, q standing still."""
        return Half(
            new=self.new_v,
            force=self.restoring,
            solve=self.mass_solve,
            damped_solve=lambda a: self.shifted(0.0, a),
            R=self.R_v,
            loads=self.loads,
            scaled=lambda h: None if self.kernel else _multiplied(self._inverse_v[1], self.B, h),
            integrate=False,
        )

    def _scaled_transpose(self, h: float) -> PETSc.Mat | None:
        """-h M_q^-1 B' for a diagonal M_q, or None."""
        inverted = self._inverse_q[1]
        if inverted is None:
            return None
        return _multiplied(inverted, self.B.transpose(PETSc.Mat()), -h)

    @cached_property
    def drift(self) -> Half:
        """M_q dq/dt = -B'v - R_q q + g, v standing still."""

        def damped(a: float) -> Solve:
            return solver(combination([(1.0, self.M_q), (a, self.R_q)]), "hamfem_flux_mass_").solve

        return Half(
            new=self.new_q,
            force=self._minus_transpose,
            solve=self._inverse_q[0],
            damped_solve=damped,
            R=self.R_q,
            loads=self.flux_loads,
            scaled=self._scaled_transpose,
            integrate=True,
        )

    @cached_property
    def _max_frequency(self) -> float:
        if self._sparse_K is not None:
            return stability.max_frequency(self.M_v, self._sparse_K)
        return stability.max_frequency(self.M_v, stability.shell(self.M_v, self.stiffness))

    def max_frequency(self) -> float:
        """The largest omega with B M_q^-1 B'x = omega² M_v x."""
        return self._max_frequency


def _multiplied(inverted: PETSc.Mat | None, A: PETSc.Mat, h: float) -> PETSc.Mat | None:
    """H M^-1 A for a diagonal M, or None."""
    if inverted is None or not is_diagonal(inverted):
        return None
    if A.getType() == PETSc.Mat.Type.PYTHON and not hasattr(A.getPythonContext(), "duplicate"):
        return None
    S = A.copy()
    S.diagonalScale(L=inverted.getDiagonal())
    S.scale(h)
    return S


def _matched(solve: Solve, kernel: Kernel | None) -> Solve:
    """The same solver, with its answer corrected in the kernel."""
    if kernel is None:
        return solve

    def corrected(r: PETSc.Vec, x: PETSc.Vec) -> None:
        solve(r, x)
        kernel.match(x, r)

    return corrected


def _matched_pair(solve: PairSolve, kernel: Kernel | None) -> PairSolve:
    if kernel is None:
        return solve

    def corrected(r: Vecs, x: Vecs) -> None:
        solve(r, x)
        for r_part, x_part in zip(r, x):
            kernel.match(x_part, r_part)

    return corrected
