from mpi4py import MPI

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
