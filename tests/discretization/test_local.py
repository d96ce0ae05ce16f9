"""The cell matrices of hybridised methods, condensed densely on tiny meshes."""

from types import SimpleNamespace

from mpi4py import MPI

import basix
import basix.ufl
import numpy as np
import pytest
import scipy.linalg
import ufl
from dolfinx import fem

import hamfem as hf
from hamfem.discretization.flux_spaces import BrokenFlux, RaviartThomas
from hamfem.discretization.local import Hybrid
from hamfem.discretization.trace import Trace
from hamfem.matrices import gathered_vector
from hamfem.physics import operators
from hamfem.physics.coefficient import Coefficient

WALLS = ["left", "right", "bottom", "top", "back", "front"]
SPD = np.array([[2.0, 0.5], [0.5, 1.0]])


def square(n, cell="triangle"):
    """A box on this rank alone: dense matrices are compared."""
    dim = 3 if cell in ("tetrahedron", "hexahedron") else 2
    return hf.box(MPI.COMM_SELF, (0,) * dim, (1,) * dim, n, cell)


def isotropic(dim, lame=1.3, mu=0.7):
    """Hooke's law in Mandel's notation."""
    size = dim * (dim + 1) // 2
    trace = np.r_[np.ones(dim), np.zeros(size - dim)]
    return 2 * mu * np.eye(size) + lame * np.outer(trace, trace)


def physics(name, domain, stiffness=None):
    """What a wave must have for its cell matrices."""
    d = domain.dim
    symbol = {
        "acoustic": operators.gradient, "elastic": operators.symmetric_gradient,
        "maxwell": operators.curl,
    }[name](d)  # fmt: skip
    if stiffness is None:
        stiffness = isotropic(d) if name == "elastic" else np.eye(len(symbol))
    return SimpleNamespace(
        domain=domain, symbol=symbol, tangential=name == "maxwell",
        rho=Coefficient(domain, 1.0, "density", 1),
        C=Coefficient(domain, stiffness, "stiffness", len(symbol)),
    )  # fmt: skip


def broken(wave, degree, tau=1.0):
    cells = wave.domain.mesh.topology.index_map(wave.domain.dim).size_local
    flux = BrokenFlux(basix.CellType[wave.domain.cell], degree, wave.symbol)
    return Hybrid(wave, degree, flux, np.full(cells, tau))


def condensed(hybrid, clamped=()):
    """K = X_uu - X_ul X_ll^-1 X_lu and M, densely; the trace is 0 on the clamped sides."""
    domain = hybrid.wave.domain
    trace = Trace(domain, hybrid.trace_size, domain.facets(*clamped))
    numbers = trace.numbers()
    n, m, cells = hybrid.size, trace.blocks * trace.size, len(numbers)
    M, X_uu = np.zeros((2, cells * n, cells * n))
    X_ul, X_ll = np.zeros((cells * n, m)), np.zeros((m, m))
    for B in hybrid.blocks():
        for i, c in enumerate(range(cells)[B.cells]):
            u, facets = np.arange(c * n, (c + 1) * n), numbers[c]
            keep = np.flatnonzero(facets >= 0)
            m_c = facets[keep]
            M[np.ix_(u, u)] = np.diag(B.M[i]) if B.M.ndim == 2 else B.M[i]
            X_uu[np.ix_(u, u)] = B.s_uu[i] + B.b_u[i].T @ B.c_u[i]
            X_ul[np.ix_(u, m_c)] += (B.s_ul[i] + B.b_u[i].T @ B.c_l[i])[:, keep]
            local = B.s_ll[i] + B.b_l[i].T @ B.c_l[i]
            X_ll[np.ix_(m_c, m_c)] += local[np.ix_(keep, keep)]
    return X_uu - X_ul @ np.linalg.solve(X_ll, X_ul.T) if m else X_uu, M


def kernel_dimension(K):
    values = np.linalg.eigvalsh((K + K.T) / 2)
    scale = values[-1]
    assert values[0] > -1e-12 * scale  # positive semidefinite
    zero = int(np.sum(values < 1e-11 * scale))
    assert values[zero] > 1e-6 * scale  # a clear gap
    return zero


def gradients(domain, degree, clamped):
    """The dimension of the gradients of continuous P_(k+1), zero on the boundary if clamped."""
    V = fem.functionspace(domain.mesh, ("Lagrange", degree + 1))
    total = V.dofmap.index_map.size_global
    if not clamped:
        return total - 1
    walls = WALLS[: 2 * domain.dim]
    dofs = fem.locate_dofs_topological(V, domain.dim - 1, domain.facets(*walls))
    return total - len(np.unique(dofs))


CASES = [
    ("triangle", 3, 0), ("triangle", 2, 1), ("triangle", 2, 2), ("quadrilateral", 2, 1),
    ("quadrilateral", 2, 2), ("tetrahedron", 1, 0), ("tetrahedron", 1, 1), ("tetrahedron", 1, 2),
    ("hexahedron", 2, 1),
]  # fmt: skip


@pytest.mark.parametrize("name", ["acoustic", "elastic"])
@pytest.mark.parametrize(("cell", "n", "degree"), CASES)
def test_the_kernel_of_a_free_body_is_its_rigid_motions(name, cell, n, degree):
    domain = square(n, cell)
    hybrid = broken(physics(name, domain), degree)
    K, _ = condensed(hybrid)
    assert np.abs(K - K.T).max() < 1e-12 * np.abs(K).max()
    d = domain.dim
    rigid = 1 if name == "acoustic" else d + (d * (d - 1) // 2 if degree else 0)
    assert kernel_dimension(K) == rigid
    if len(hybrid.cells) > 1:
        assert kernel_dimension(condensed(hybrid, ["left"])[0]) == 0


@pytest.mark.parametrize("clamped", [False, True], ids=["free", "conducting"])
@pytest.mark.parametrize(
    ("cell", "n", "degree"), [case for case in CASES if case[0] in ("triangle", "tetrahedron")]
)
def test_the_kernel_of_the_curl_is_gradients(cell, n, degree, clamped):
    domain = square(n, cell)
    hybrid = broken(physics("maxwell", domain), degree)
    K, _ = condensed(hybrid, WALLS[: 2 * domain.dim] if clamped else [])
    assert np.abs(K - K.T).max() < 1e-12 * np.abs(K).max()
    expected = gradients(domain, degree, clamped)
    if (cell, n, degree) == ("tetrahedron", 1, 1):  # the numbers of the specification
        assert expected == (1 if clamped else 26)
    assert kernel_dimension(K) == expected


def test_the_stiffness_that_hdg_applies_is_the_condensed_one():
    wave = hf.Acoustic(
        square(2), lambda x: 1 + x[0], lambda x: 2 + x[1], [hf.Clamped("left", "top")]
    )
    system = hf.hdg(wave, 2, tau=0.7)
    K, M = condensed(broken(wave, 2, 0.7), ["left", "top"])
    x, y = system.new_q(), system.new_q()
    for A, applied in ((K, system.K.mult), (M, system.M.mult)):
        for i in range(0, len(K), 5):
            x.set(0.0)
            x.array[i] = 1.0
            applied(x, y)
            assert gathered_vector(y) == pytest.approx(A[:, i], abs=1e-12 * np.abs(A).max())


@pytest.mark.parametrize("clamped", [[], ["left"], "all"], ids=["free", "left", "clamped"])
@pytest.mark.parametrize(
    ("cell", "n", "degree", "stiffness"),
    [
        ("triangle", 2, 0, 1.0),
        ("triangle", 2, 1, SPD),
        ("triangle", 2, 2, lambda x: 1 + x[0] * x[1]),
        ("quadrilateral", 2, 1, 2.0),
        ("tetrahedron", 1, 0, 1.0),
        ("tetrahedron", 1, 1, 2.0),
    ],
)
def test_the_hybridised_mixed_method_is_the_classical_one(cell, n, degree, stiffness, clamped):
    domain = square(n, cell)
    walls = WALLS[: 2 * domain.dim]
    clamped = walls if clamped == "all" else clamped
    wave = hf.Acoustic(domain, 1.5, stiffness)
    kind = basix.CellType[cell]
    hybrid = Hybrid(wave, degree, RaviartThomas(kind, degree, wave.symbol), None)
    K, M = condensed(hybrid, clamped)

    V_q = fem.functionspace(domain.mesh, basix.ufl.element(
        {"quadrilateral": "RTCF"}.get(cell, "RT"), cell, degree + 1))  # fmt: skip
    V = fem.functionspace(domain.mesh, basix.ufl.element(
        "Lagrange", cell, degree, lagrange_variant=basix.LagrangeVariant.legendre,
        discontinuous=True))  # fmt: skip
    q, r = ufl.TrialFunction(V_q), ufl.TestFunction(V_q)
    v, w = ufl.TrialFunction(V), ufl.TestFunction(V)
    # The same quadrature: 1 / kappa is no polynomial
    dx = ufl.Measure("dx", metadata={"quadrature_degree": hybrid.quadrature})
    x = ufl.SpatialCoordinate(domain.mesh)
    kappa = 1 + x[0] * x[1] if callable(stiffness) else stiffness
    if isinstance(kappa, np.ndarray):
        resistance = ufl.dot(ufl.as_matrix(np.linalg.inv(kappa).tolist()), q)
    else:
        resistance = q / kappa
    forms = (ufl.inner(resistance, r), 1.5 * v * w, ufl.div(q) * w)
    M_q, M_v, B = (fem.assemble_matrix(fem.form(f * dx)).to_dense() for f in forms)
    free = domain.facets(*(side for side in walls if side not in clamped))
    essential = fem.locate_dofs_topological(V_q, domain.dim - 1, free)
    inside = np.setdiff1d(np.arange(len(M_q)), essential)
    B, M_q = B[:, inside], M_q[np.ix_(inside, inside)]
    order = V.dofmap.list.reshape(-1)
    expected = (B @ np.linalg.solve(M_q, B.T))[np.ix_(order, order)]
    assert pytest.approx(M_v[np.ix_(order, order)], abs=1e-13) == M
    assert np.abs(K - expected).max() < 1e-11 * np.abs(expected).max()
    frequencies = [scipy.linalg.eigvalsh(A, M) for A in (K, expected)]
    assert frequencies[0] == pytest.approx(frequencies[1], abs=1e-11 * frequencies[1][-1])
