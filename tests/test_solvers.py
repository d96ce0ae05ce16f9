from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import pytest
import scipy.sparse as sp

from hamfem import matrices, solvers
from tests.small import definite

COMM = MPI.COMM_WORLD


def blocks(sizes):
    return sp.block_diag([definite(s, 1, 2, seed) for seed, s in enumerate(sizes)], format="csr")


def distributed(A, comm=COMM):
    """Whole blocks on each rank, as a discontinuous mass has them."""
    if comm.size == 1:
        return matrices.as_petsc(A, "A")
    n = A.shape[0]
    own = n if comm.rank == 0 else 0  # all on rank 0, nothing on the others
    first = 0 if comm.rank == 0 else n
    local = A[first : first + own]
    return PETSc.Mat().createAIJ(
        size=((own, n), (own, n)),
        csr=(local.indptr.astype("i4"), local.indices.astype("i4"), local.data),
        comm=comm,
    )


@pytest.mark.parametrize(
    ("A", "kind"),
    [
        (sp.diags([np.arange(1.0, 9.0)], [0], format="csr"), "diagonal"),
        (blocks([3, 1, 2, 3, 5]), "blocks"),
        (sp.csr_matrix(definite(9, 1, 3, 1)), "factorised"),
        (sp.diags([4.0, -1.0, -1.0], [0, -1, 1], shape=(300, 300), format="csr"), "factorised"),
    ],
    ids=["diagonal", "blocks", "full", "tridiagonal"],
)
def test_the_inverse_is_chosen_by_what_the_matrix_is(A, kind):
    mat = distributed(A)
    solve, inverted = solvers.inverse(mat, "test_")
    assert (inverted is None) == (kind == "factorised")
    if inverted is not None:
        assert solvers.is_diagonal(inverted) == (kind == "diagonal")
    r, x = matrices.generic_vector(mat, 3.0), mat.createVecRight()
    solve(r, x)
    y = mat.createVecLeft()
    mat.mult(x, y)
    assert (y - r).norm() < 1e-13 * r.norm()


@pytest.mark.parametrize("n", [7, 120], ids=["inverted", "factorised"])
@pytest.mark.parametrize("definite_part", [True, False], ids=["definite", "indefinite"])
def test_a_complex_matrix_is_solved_as_a_pair(n, definite_part):
    P, Q = definite(n, 1, 4, 1), definite(n, -1, 2, 2)
    mat = matrices.as_petsc(P, "P")
    S = mat if definite_part else None
    solve = solvers.PairSolver(mat, matrices.as_petsc(Q, "Q"), "test_", S)
    r = [matrices.generic_vector(mat, s) for s in (1.0, 2.0)]
    x = [mat.createVecRight() for _ in range(2)]
    solve(r, x)
    X, R = (a[0] + 1j * a[1] for a in ([matrices.gathered_vector(v) for v in w] for w in (x, r)))
    assert np.allclose((P + 1j * Q) @ X, R, rtol=0, atol=1e-13)
