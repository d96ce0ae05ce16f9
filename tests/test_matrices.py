from mpi4py import MPI
from petsc4py import PETSc

import numpy as np
import pytest
import scipy.sparse as sp

from hamfem import matrices
from hamfem.kernel import Kernel
from tests.small import definite

COMM = MPI.COMM_WORLD


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_matrix, sp.coo_array, sp.csc_matrix])
def test_numpy_and_scipy_become_petsc(wrap):
    A = np.arange(12.0).reshape(4, 3) - 5
    mat = matrices.as_petsc(wrap(A), "A")
    assert mat.size == (4, 3)
    assert np.array_equal(matrices.gathered(mat).toarray(), A)
    assert matrices.as_petsc(mat, "A") is mat


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
    solve, inverted = matrices.inverse(mat, "test_")
    assert (inverted is None) == (kind == "factorised")
    if inverted is not None:
        assert matrices.is_diagonal(inverted) == (kind == "diagonal")
    r, x = matrices.generic_vector(mat, 3.0), mat.createVecRight()
    solve(r, x)
    y = mat.createVecLeft()
    mat.mult(x, y)
    assert (y - r).norm() < 1e-13 * r.norm()


def test_a_complex_matrix_is_solved_as_a_pair():
    n = 7
    P, Q = definite(n, 1, 4, 1), definite(n, -1, 2, 2)
    solve = matrices.PairSolver(matrices.as_petsc(P, "P"), matrices.as_petsc(Q, "Q"), "test_")
    mat = matrices.as_petsc(P, "P")
    r = [matrices.generic_vector(mat, s) for s in (1.0, 2.0)]
    x = [mat.createVecRight() for _ in range(2)]
    solve(r, x)
    X, R = (a[0] + 1j * a[1] for a in ([matrices.gathered_vector(v) for v in w] for w in (x, r)))
    assert np.allclose((P + 1j * Q) @ X, R, rtol=0, atol=1e-13)


def test_asymmetry_is_found_in_one_entry_of_many():
    A = sp.diags([2.0, -1.0, -1.0], [0, -1, 1], shape=(20000, 20000), format="lil")
    matrices.check_symmetric(matrices.as_petsc(A.tocsr(), "A"), "A")
    A[17, 16] = -1.001
    with pytest.raises(ValueError, match="A must be symmetric and is not"):
        matrices.check_symmetric(matrices.as_petsc(A.tocsr(), "A"), "A")


def test_the_kernel_is_orthonormal_and_corrects():
    M = matrices.as_petsc(definite(8, 1, 3, 1), "M")
    vectors = [matrices.generic_vector(M, s) for s in (1.0, 2.0, 3.0)]
    kernel = Kernel(vectors, M)
    gram = [[a.dot(b) for a in kernel.W] for b in kernel.MW]
    assert np.allclose(gram, np.eye(3), rtol=0, atol=1e-14)
    x, r = matrices.generic_vector(M, 4.0), matrices.generic_vector(M, 5.0)
    kernel.match(x, r)
    assert np.allclose(x.mDot(kernel.MW), r.mDot(kernel.W), rtol=0, atol=1e-14)
    kernel.remove(x)
    assert np.allclose(x.mDot(kernel.MW), 0, atol=1e-14)
    with pytest.raises(ValueError, match="linearly dependent"):
        Kernel([vectors[0], vectors[0]], M)
