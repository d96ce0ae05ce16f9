"""The stiffness matrix of spectral elements, known by what it does.

On quadrilaterals and hexahedra with Gauss-Lobatto points as nodes and for quadrature,

    K = sum_cells sum_ab D_a' G_ab D_b,    G_ab = w |det J| (J^-1 kappa J^-T)_ab at the points,

so that K x costs the same for every coefficient and for cells of every shape: little more than it
takes to read the diagonal G_ab once.
"""

from __future__ import annotations

from typing import Any

from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem import kernels
from hamfem.communicator import lasting
from hamfem.dolfinx_versions import cell_nodes

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

DECLARATIONS = """
int width(void);
void apply(long begin, long end, const int *dofs, const unsigned char *plain,
           const double *factors, const double *D, int owned, const double *x,
           const double *beyond, double *r);
void kick(long n, const double *d, double *r, double *y);
void take(long n, const double *d, double *r, double *y);
"""
# Of the arrays dofs, plain, factors and D.
TYPES = ("int[]", "unsigned char[]", "double[]", "double[]")
CELLS = (basix.CellType.quadrilateral, basix.CellType.hexahedron)
# How many cells are treated at once in the set-up: what is needed per cell is ten times G.
CHUNK = 4096


class SpectralStiffness:
    """K_ij = (kappa grad phi_j, grad phi_i) by Gauss-Lobatto quadrature at the nodes.

    Args:
        V: Scalar Lagrange elements on quadrilaterals or hexahedra, gll_warped (the default).
        kappa: Its values at the nodes of this rank's own cells, in the order of V's dofs of a cell:
            of shape (cells, points), or (cells, points, d, d) for symmetric matrices.
        constrained: Local numbers of dofs where x counts as 0 and K x is 0.

    Attributes:
        mat: K, of the sizes of matrices assembled on V. A copy may be scaled, also by a diagonal
            from the left, as S = M^-1 K.
    """

    mat: PETSc.Mat

    def __init__(
        self, V: fem.FunctionSpace, kappa: npt.ArrayLike, constrained: npt.ArrayLike = ()
    ) -> None:
        operator = _Operator(V, np.asarray(kappa, dtype=float), np.asarray(constrained, np.int32))
        self.mat = _Shell(operator).matrix()
        self.mat.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        self.mat.setOption(PETSc.Mat.Option.SYMMETRY_ETERNAL, True)

    def scaled(self, h: float, inverse_mass: PETSc.Vec) -> PETSc.Mat:
        """S = -h M^-1 K for a diagonal M; S.multAdd(u, v, v) is the kick v += -h M^-1 K u."""
        S = self.mat.copy()
        S.diagonalScale(L=inverse_mass)
        S.scale(-h)
        return S


class _Shell:
    """diag(left) K as PETSc sees it."""

    # No reference to its own matrix: PETSc's are invisible to Python, and a cycle would never end.
    def __init__(self, operator: _Operator, left: Floats | None = None) -> None:
        self.operator = operator
        self._set(left)

    def _set(self, left: Floats | None) -> None:
        ffi = self.operator.ffi
        self.left = left
        self._pointer: Any = ffi.NULL if left is None else ffi.from_buffer("double[]", left)

    def matrix(self) -> PETSc.Mat:
        sizes = self.operator.r.getSizes()
        return PETSc.Mat().createPython((sizes, sizes), self, comm=self.operator.r.comm)

    def mult(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        self.operator.add(x)
        self.operator.move(self.operator.lib.take, self._pointer, y)

    def multAdd(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec, z: PETSc.Vec) -> None:
        self.operator.add(x)
        if z.handle != y.handle:
            y.copy(z)
        self.operator.move(self.operator.lib.kick, self._pointer, z)

    def multTranspose(self, mat: PETSc.Mat, x: PETSc.Vec, y: PETSc.Vec) -> None:
        if self.left is not None:
            x = x.copy()
            x.array[:] *= self.left
        self.operator.add(x)
        self.operator.move(self.operator.lib.take, self.operator.ffi.NULL, y)

    def duplicate(self, mat: PETSc.Mat, op: Any) -> PETSc.Mat:
        return _Shell(self.operator, None if self.left is None else self.left.copy()).matrix()

    def diagonalScale(self, mat: PETSc.Mat, L: PETSc.Vec, R: PETSc.Vec) -> None:
        if R is not None and R.handle:
            raise NotImplementedError("a spectral stiffness is scaled from the left only.")
        self._set(L.array_r * (1.0 if self.left is None else self.left))

    def scale(self, mat: PETSc.Mat, factor: float) -> None:
        self._set(factor * (np.ones(self.operator.owned) if self.left is None else self.left))


class _Operator:
    """Adds K x to r, with all that the kernel needs in its layout.

    x is read where it stands; beyond it come, in an array of their own, the values of ghosts and
    a 0 for constrained dofs and for the cells that fill up the last batch. r has all in one.
    """

    def __init__(self, V: fem.FunctionSpace, kappa: Floats, constrained: Integers) -> None:
        comm = lasting(V.mesh.comm)
        for words in comm.allgather(_complaint(V, kappa)):
            if words:
                raise ValueError(words)
        element, dim = V.ufl_element().basix_element, V.mesh.topology.dim
        points, _, D = gauss_lobatto(element.degree)
        macros = {"POINTS": len(points), "DIM": dim}
        self.ffi, self.lib = kernels.load("spectral", DECLARATIONS, macros, comm)
        width = self.lib.width()

        index_map = V.dofmap.index_map
        self.owned, ghosts = index_map.size_local, index_map.num_ghosts
        self._r, self._beyond = np.zeros(self.owned + ghosts + 1), np.zeros(ghosts + 1)
        self.r = PETSc.Vec().createWithArray(
            self._r[: self.owned], size=(self.owned, index_map.size_global), comm=comm
        )
        self._scatter = None
        if comm.size > 1:
            r_ghosts, self._x_ghosts = (
                PETSc.Vec().createWithArray(values, comm=PETSc.COMM_SELF)
                for values in (self._r[self.owned : -1], self._beyond[:-1])
            )
            wanted = PETSc.IS().createGeneral(index_map.ghosts.astype(PETSc.IntType), comm=comm)
            self._scatter = PETSc.Scatter().create(self.r, wanted, self._x_ghosts, None)
            self._back = (r_ghosts, self.r, True, PETSc.ScatterMode.REVERSE)

        order = tensor_order(element.points, points)
        dofs = V.dofmap.list[: len(kappa)][:, order]
        # Cells without ghosts come first: they are worked on while messages are on their way.
        near = np.any(dofs >= self.owned, axis=1)
        cells = np.concatenate([np.flatnonzero(~near), np.flatnonzero(near)])
        batches = -(-len(cells) // width)
        inner = (len(cells) - np.count_nonzero(near)) // width
        self._ranges = (inner // 2, inner, batches)

        target = np.arange(self.owned + ghosts, dtype=np.int32)
        target[self._everywhere(constrained)] = self.owned + ghosts
        filled = np.full((batches * width, len(order)), self.owned + ghosts, dtype=np.int32)
        filled[: len(cells)] = target[dofs[cells]]
        filled = filled.reshape(batches, width, len(order))
        plain = np.all(filled < self.owned, axis=(1, 2)).astype(np.uint8)
        factors = _aligned((batches, len(order), dim * (dim + 1) // 2, width))
        step = max(CHUNK // width, 1)
        for first in range(0, batches, step):
            chunk = cells[first * width : (first + step) * width]
            G = np.zeros((min(step, batches - first) * width, *factors.shape[1:3]))
            G[: len(chunk)] = geometric_factors(V, kappa[chunk], chunk)[:, order]
            G = G.reshape(len(G) // width, width, *G.shape[1:])
            factors[first : first + step] = np.moveaxis(G, 1, -1)
        arrays = (np.ascontiguousarray(np.swapaxes(filled, 1, 2)), plain, factors, D)
        self._data = [self.ffi.from_buffer(*pair) for pair in zip(TYPES, arrays)]
        self._r_pointer = self.ffi.from_buffer("double[]", self._r)
        self._beyond_pointer = self.ffi.from_buffer("double[]", self._beyond)

    def _everywhere(self, constrained: Integers) -> Integers:
        """Local numbers of the dofs that are constrained on any rank."""
        if self._scatter is None:
            return constrained
        self._r[constrained] = 1.0
        self._scatter.scatter(*self._back)
        self._scatter.scatter(self.r, self._x_ghosts)
        found = np.flatnonzero(np.concatenate([self._r[: self.owned], self._beyond[:-1]]))
        self._r[:] = self._beyond[:] = 0.0
        return found.astype(np.int32)

    def add(self, x: PETSc.Vec) -> None:
        """Add K x to r."""
        values = self.ffi.from_buffer("double[]", x.getBuffer(True))
        half, inner, end = self._ranges
        if self._scatter is None:
            self._apply(0, end, values)
            return
        # Half of the inner cells while values travel to the ghosts, half while forces travel back.
        self._scatter.begin(x, self._x_ghosts)
        self._apply(0, half, values)
        self._scatter.end(x, self._x_ghosts)
        self._apply(inner, end, values)
        self._scatter.begin(*self._back)
        self._apply(half, inner, values)
        self._scatter.end(*self._back)
        self._r[self.owned :] = 0.0

    def _apply(self, begin: int, end: int, x: Any) -> None:
        self.lib.apply(
            begin, end, *self._data, self.owned, x, self._beyond_pointer, self._r_pointer
        )

    def move(self, function: Any, left: Any, y: PETSc.Vec) -> None:
        """Hand left * r on to y by one of the kernel's functions, and set r = 0."""
        values = self.ffi.from_buffer("double[]", y.getBuffer())
        function(self.owned, left, self._r_pointer, values)


def gauss_lobatto(degree: int) -> tuple[Floats, Floats, Floats]:
    """Points x_i and weights on (0, 1), in ascending order, and D_ij = l_j'(x_i)."""
    x, w = basix.make_quadrature(
        basix.CellType.interval, 2 * degree - 1, rule=basix.QuadratureType.gll
    )
    ascending = np.argsort(x[:, 0])
    x, w = x[ascending, 0], w[ascending]
    # Barycentric: D_ij = (c_j / c_i) / (x_i - x_j); its rows sum to 0, as constants have slope 0.
    difference = x[:, None] - x + np.eye(len(x))
    c = 1.0 / difference.prod(axis=1)
    D = c / c[:, None] / difference
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -D.sum(axis=1))
    return x, w, D


def tensor_order(nodes: Floats, points: Floats) -> Integers:
    """Which dof of a cell is its (i, j, k)-th point, the last index running fastest."""
    indices = np.abs(nodes[:, :, None] - points).argmin(axis=2)
    number = np.ravel_multi_index(tuple(indices.T), (len(points),) * nodes.shape[1])
    order = np.empty(len(number), dtype=np.int32)
    order[number] = np.arange(len(number))
    return order


def geometric_factors(V: fem.FunctionSpace, kappa: Floats, cells: Integers) -> Floats:
    """G_ab, a <= b, at the nodes of the given cells, of shape (cells, points, ab)."""
    element, mesh = V.ufl_element().basix_element, V.mesh
    points, weights, _ = gauss_lobatto(element.degree)
    dim = mesh.topology.dim
    w = weights[np.abs(element.points[:, :, None] - points).argmin(axis=2)].prod(axis=1)
    shape = mesh.ufl_domain().ufl_coordinate_element().basix_element.tabulate(1, element.points)
    x = mesh.geometry.x[cell_nodes(mesh)[cells]][:, :, :dim]
    J = np.einsum("apn,cnx->cpxa", shape[1:, :, :, 0], x, optimize=True)
    inverse = np.linalg.inv(J)
    scale = w * np.abs(np.linalg.det(J))
    if kappa.ndim == 2:
        scale = scale * kappa
        right = inverse
    else:
        right = inverse @ kappa
    factors = [
        np.einsum("cpx,cpx,cp->cp", right[:, :, a], inverse[:, :, b], scale)
        for a in range(dim)
        for b in range(a, dim)
    ]
    return np.stack(factors, axis=-1)


def _complaint(V: fem.FunctionSpace, kappa: Floats) -> str:
    """What is wrong with the input, or nothing."""
    element, mesh = V.ufl_element(), V.mesh
    dim = mesh.topology.dim
    if element.block_size != 1 or element.reference_value_size != 1:
        return "spectral elements are scalar here: the space has vectors."
    if element.basix_element.cell_type not in CELLS or mesh.geometry.dim != dim:
        return "spectral elements need quadrilaterals in the plane or hexahedra."
    nodes = element.basix_element.points
    points = gauss_lobatto(element.basix_element.degree)[0]
    if (
        len(nodes) != len(points) ** dim
        or np.abs(nodes[:, :, None] - points).min(axis=2).max() > 1e-10
    ):
        return "spectral elements have Gauss-Lobatto points as nodes: take Lagrange, gll_warped."
    expected = (mesh.topology.index_map(dim).size_local, len(nodes))
    if kappa.shape not in (expected, (*expected, dim, dim)):
        return (
            f"kappa has shape {kappa.shape} and must have {expected}, one number for each node of "
            f"this rank's cells, or {(*expected, dim, dim)} for matrices."
        )
    if kappa.ndim == 4 and not np.allclose(kappa, np.swapaxes(kappa, 2, 3), rtol=1e-12, atol=0.0):
        return "kappa must be symmetric at every node."
    return ""


def _aligned(shape: tuple[int, ...]) -> Floats:
    """An array that starts where a line of the cache does, as vectors of any width need it."""
    size = int(np.prod(shape))
    memory = np.empty(size + 8)
    start = -memory.ctypes.data // 8 % 8
    return memory[start : start + size].reshape(shape)
