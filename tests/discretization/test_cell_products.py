"""Products with the matrices of all cells are those of numpy, for real and complex numbers."""

import numpy as np
import pytest

from hamfem.discretization import cell_products as products

CELLS = 7


def numbers(shape, complex_, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if complex_ else x


@pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("n", [*range(1, 10), 16, 19, 30])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 9, 12])
def test_local_products(n, columns, complex_):
    A = numbers((CELLS, columns, n), complex_, 1)
    x, y = numbers((CELLS, columns), complex_, 2), numbers((CELLS, n), complex_, 3)
    expected = y + np.einsum("cji,cj->ci", A, x)
    out = y.copy()
    products.add_local(A, x, out)
    assert out == pytest.approx(expected, rel=1e-13, abs=1e-13)
    expected = x + np.einsum("cji,ci->cj", A, y)
    out = x.copy()
    products.add_transposed(A, y, out)
    assert out == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("complex_", [False, True], ids=["real", "complex"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 10, 12, 18])
@pytest.mark.parametrize(("facets", "size"), [(2, 1), (3, 1), (3, 2), (3, 4), (4, 3), (6, 9)])
def test_products_with_traces(n, facets, size, complex_):
    A = numbers((CELLS, facets * size, n), complex_, 1)
    slots = np.random.default_rng(4).integers(0, 9, size=(CELLS, facets)).astype(np.int32)
    places = (slots[..., None] * size + np.arange(size)).reshape(CELLS, -1)
    trace, x = numbers(9 * size, complex_, 2), numbers((CELLS, n), complex_, 3)
    from_trace = np.einsum("cji,cj->ci", A, trace[places])
    out = x.copy()
    products.add_from_trace(A, slots, size, trace, out)
    assert out == pytest.approx(x + from_trace, rel=1e-13, abs=1e-13)
    expected = trace.copy()
    np.add.at(expected, places, np.einsum("cji,ci->cj", A, x))
    out = trace.copy()
    products.add_to_trace(A, slots, size, x, out)
    assert out == pytest.approx(expected, rel=1e-13, abs=1e-13)
    D = numbers((CELLS, n, n), complex_, 5)
    out = np.full((CELLS, n), np.nan, x.dtype)
    products.combine(D, x, A, slots, size, trace, out)
    expected = np.einsum("cji,cj->ci", D, x) + from_trace
    assert out == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_real_kernels_refuse_other_numbers():
    with pytest.raises(TypeError, match="add_local takes real numbers and got complex128"):
        products.add_local(np.ones((1, 2, 2), complex), np.ones((1, 2)), np.ones((1, 2)))
    products.add_local(np.ones((0, 2, 2)), np.ones((0, 2)), np.ones((0, 2)))  # a rank without cells
