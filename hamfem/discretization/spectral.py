"""The stiffness matrix of spectral elements, known by what it does.

On quadrilaterals and hexahedra with Gauss-Lobatto points as nodes and for quadrature,

    K = sum_cells sum_ab D_a' G_ab D_b

for scalar and for elastic waves, D_a the derivatives in the directions of the reference cell: with
F = J^-1 at the points,

    (kappa grad u, grad w):   G_ab    = w |det J| sum_ij F_ai kappa_ij F_bj,
    (C eps(u), eps(w)):       G_ai,bk = w |det J| sum_jl F_aj C_ijkl F_bl,

so that K x costs the same for cells of every shape and for every coefficient that varies: little
more than it takes to read what is stored at the points once. That is G_ab, or F and the stiffness,
which takes lambda and mu where it is isotropic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import basix
import numpy as np
import numpy.typing as npt
from dolfinx import fem

from hamfem import kernels
from hamfem.communicator import lasting
from hamfem.dolfinx_versions import cell_nodes
from hamfem.physics.operators import symmetric_gradient

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

DECLARATIONS = """
int width(void);
int factors(void);
void apply(long begin, long end, const int *dofs, const unsigned char *plain,
           const double *factors, const double *D, int owned, const double *x,
           const double *beyond, double *r);
void kick(long n, const double *d, double *r, double *y);
void take(long n, const double *d, double *r, double *y);
"""
# Of the arrays dofs, plain, factors and D.
TYPES = ("int[]", "unsigned char[]", "double[]", "double[]")
CELLS = (basix.CellType.quadrilateral, basix.CellType.hexahedron)
# How many cells are treated at once in the set-up: a cell needs ten times what is kept of it.
CHUNK = 1024
# What counts as round-off in C that is isotropic, or symmetric, relative to its largest entry.
ISOTROPIC, SYMMETRIC = 1e-14, 1e-12


class SpectralStiffness:
    """K_ij = (C D phi_j, D phi_i) by Gauss-Lobatto quadrature at the nodes.

    D = grad if V is scalar. For vectors D = eps, the symmetric gradient in Mandel's notation, in
    the order of `hamfem.physics.operators.symmetric_gradient`.

    Args:
        V: Lagrange elements on quadrilaterals or hexahedra, gll_warped (the default), of scalars or
            of vectors with d components.
        C: Its values at the nodes of this rank's own cells, in the order of V's nodes of a cell, of
            shape (cells, points, m, m) for symmetric matrices; for scalars also (cells, points).
            With one point instead of all, C is constant in each cell.
        constrained: Local numbers of dofs where x counts as 0 and K x is 0. For vectors these are
            d * node + component, with all components of a node or none.

    Attributes:
        mat: K, of the sizes of matrices assembled on V. A copy may be scaled, also by a diagonal
            from the left, as S = M^-1 K.
    """

    mat: PETSc.Mat

    def __init__(
        self, V: fem.FunctionSpace, C: npt.ArrayLike, constrained: npt.ArrayLike = ()
    ) -> None:
        operator = _Operator(V, np.asarray(C, dtype=float), np.asarray(constrained, np.int32))
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
        mat = PETSc.Mat().createPython((sizes, sizes), self, comm=self.operator.r.comm)
        mat.setBlockSize(self.operator.r.getBlockSize())
        return mat

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
    a 0 for constrained dofs and for the cells that fill up the last batch. r has all in one. A node
    goes by the number of its first dof, which the other components follow.
    """

    def __init__(self, V: fem.FunctionSpace, C: Floats, constrained: Integers) -> None:
        comm = lasting(V.mesh.comm)
        for words in comm.allgather(_complaint(V, C, constrained)):
            if words:
                raise ValueError(words)
        element, dim = V.ufl_element().basix_element, V.mesh.topology.dim
        points, _, D = gauss_lobatto(element.degree)
        index_map, components = V.dofmap.index_map, V.dofmap.index_map_bs
        macros = {"POINTS": len(points), "DIM": dim, "COMPONENTS": components}
        numbers = geometric_factors
        if components > 1:
            isotropic = comm.allreduce(_invariant(C, _isotropic, ISOTROPIC), MPI.LAND)
            macros["ISOTROPIC"] = int(isotropic)
            numbers = isotropic_factors if isotropic else elastic_factors
        self.ffi, self.lib = kernels.load("spectral", DECLARATIONS, macros, comm)
        width = self.lib.width()

        self.owned, ghosts = components * index_map.size_local, components * index_map.num_ghosts
        zero = self.owned + ghosts
        self._r, self._beyond = np.zeros(zero + components), np.zeros(ghosts + components)
        self.r = PETSc.Vec().createWithArray(
            self._r[: self.owned],
            size=(self.owned, components * index_map.size_global),
            bsize=components,
            comm=comm,
        )
        self._scatter = None
        if comm.size > 1:
            r_ghosts, self._x_ghosts = (
                PETSc.Vec().createWithArray(values, comm=PETSc.COMM_SELF)
                for values in (self._r[self.owned : zero], self._beyond[:ghosts])
            )
            wanted = PETSc.IS().createBlock(
                components, index_map.ghosts.astype(PETSc.IntType), comm=comm
            )
            self._scatter = PETSc.Scatter().create(self.r, wanted, self._x_ghosts, None)
            self._back = (r_ghosts, self.r, True, PETSc.ScatterMode.REVERSE)

        order = tensor_order(element.points, points)
        dofs = components * V.dofmap.list[: len(C)][:, order]
        # Cells without ghosts come first: they are worked on while messages are on their way.
        near = np.any(dofs >= self.owned, axis=1)
        cells = np.concatenate([np.flatnonzero(~near), np.flatnonzero(near)])
        batches = -(-len(cells) // width)
        inner = (len(cells) - np.count_nonzero(near)) // width
        self._ranges = (inner // 2, inner, batches)

        target = np.arange(zero, dtype=np.int32)
        target[self._everywhere(constrained)] = zero
        filled = np.full((batches * width, len(order)), zero, dtype=np.int32)
        filled[: len(cells)] = target[dofs[cells]]
        filled = filled.reshape(batches, width, len(order))
        plain = np.all(filled < self.owned, axis=(1, 2)).astype(np.uint8)
        factors = _aligned((batches, len(order), self.lib.factors(), width))
        step = max(CHUNK // width, 1)
        for first in range(0, batches, step):
            chunk = cells[first * width : (first + step) * width]
            G = np.zeros((min(step, batches - first) * width, *factors.shape[1:3]))
            G[: len(chunk)] = numbers(V, C[chunk], chunk)[:, order]
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
        found = np.flatnonzero(np.concatenate([self._r[: self.owned], self._x_ghosts.array_r]))
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


def jacobians(V: fem.FunctionSpace, cells: Integers) -> tuple[Floats, Floats]:
    """F_aj = dX_a/dx_j, of shape (cells, points, a, j), and w |det J| at the nodes of the cells."""
    element, mesh = V.ufl_element().basix_element, V.mesh
    points, weights, _ = gauss_lobatto(element.degree)
    dim = mesh.topology.dim
    w = weights[np.abs(element.points[:, :, None] - points).argmin(axis=2)].prod(axis=1)
    shape = mesh.ufl_domain().ufl_coordinate_element().basix_element.tabulate(1, element.points)
    x = mesh.geometry.x[cell_nodes(mesh)[cells]][:, :, :dim]
    J = np.einsum("apn,cnx->cpxa", shape[1:, :, :, 0], x, optimize=True)
    return np.linalg.inv(J), w * np.abs(np.linalg.det(J))


def geometric_factors(V: fem.FunctionSpace, C: Floats, cells: Integers) -> Floats:
    """G_ab, a <= b, of kappa = C at the nodes of the given cells, of shape (cells, points, ab)."""
    F, scale = jacobians(V, cells)
    if C.ndim == 2:
        scale = scale * C
        right = F
    else:
        right = F @ C
    factors = [
        np.einsum("cpx,cpx,cp->cp", right[:, :, a], F[:, :, b], scale)
        for a, b in itertools.combinations_with_replacement(range(F.shape[-1]), 2)
    ]
    return np.stack(factors, axis=-1)


def isotropic_factors(V: fem.FunctionSpace, C: Floats, cells: Integers) -> Floats:
    """F_aj and w |det J| (lambda, mu), of shape (cells, points, numbers)."""
    F, scale = jacobians(V, cells)
    moduli = scale[..., None] * _lame(C)
    return np.concatenate([F.reshape(*scale.shape, -1), moduli], axis=-1)


def elastic_factors(V: fem.FunctionSpace, C: Floats, cells: Integers) -> Floats:
    """F_aj and w |det J| C_ijkl, the upper triangle, of shape (cells, points, numbers).

    C_ijkl comes from Mandel's C by a factor 1/sqrt(2) for each mixed pair: the kernel needs none.
    """
    F, scale = jacobians(V, cells)
    weight = symmetric_gradient(F.shape[-1]).max(axis=(1, 2))
    a, b = np.triu_indices(len(weight))
    tensor = C[..., a, b] * (weight[a] * weight[b]) * scale[..., None]
    return np.concatenate([F.reshape(*scale.shape, -1), tensor], axis=-1)


def _lame(C: Floats) -> Floats:
    """Lambda and mu of isotropic C = 2 mu I + lambda m m', m = (1, 1, (1,) 0, ...)."""
    return np.stack([C[..., 0, 1], 0.5 * C[..., -1, -1]], axis=-1)


def _isotropic(C: Floats) -> Floats:
    """2 mu I + lambda m m' with the moduli of C."""
    size = C.shape[-1]
    m = np.arange(size) < {3: 2, 6: 3}[size]
    moduli = _lame(C)[..., None, None]
    return 2.0 * moduli[..., 1, :, :] * np.eye(size) + moduli[..., 0, :, :] * np.outer(m, m)


def _transposed(C: Floats) -> Floats:
    return np.swapaxes(C, -2, -1)


def _invariant(C: Floats, image: Callable[[Floats], Floats], tolerance: float) -> bool:
    """Whether C = image(C) at all points of this rank, relative to the largest entry at a point."""
    for first in range(0, len(C), CHUNK):
        part = C[first : first + CHUNK]
        apart = np.abs(part - image(part))
        if not np.all(apart <= tolerance * np.abs(part).max(axis=(-2, -1), keepdims=True)):
            return False
    return True


def _complaint(V: fem.FunctionSpace, C: Floats, constrained: Integers) -> str:
    """What is wrong with the input, or nothing."""
    element, mesh = V.ufl_element(), V.mesh
    dim, components = mesh.topology.dim, V.dofmap.index_map_bs
    vectors = V.value_shape == (dim,)
    if not (vectors or V.value_shape == ()) or components != (dim if vectors else 1):
        return f"spectral elements have values of 1 component, or of {dim}, each with its own dofs."
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
    m = dim * (dim + 1) // 2 if vectors else dim
    trailing = ((m, m),) if vectors else ((), (m, m))
    if (
        C.shape[:1] != expected[:1]
        or C.shape[1:2] not in ((1,), expected[1:])
        or C.shape[2:] not in trailing
    ):
        return (
            f"C has shape {C.shape} and must have {(*expected, m, m)}, a matrix for each node of "
            f"this rank's cells{'' if vectors else f', or {expected} for numbers'}."
        )
    if C.ndim == 4 and not _invariant(C, _transposed, SYMMETRIC):
        return "C must be symmetric at every node."
    dofs = components * (V.dofmap.index_map.size_local + V.dofmap.index_map.num_ghosts)
    if constrained.size and not 0 <= constrained.min() <= constrained.max() < dofs:
        return f"constrained dofs have local numbers from 0 to {dofs - 1}, ghosts included."
    held = np.zeros(dofs, dtype=bool)
    held[constrained] = True
    held = held.reshape(-1, components)
    if np.any(held.any(axis=1) != held.all(axis=1)):
        return "a node is constrained in all its components or in none."
    return ""


def _aligned(shape: tuple[int, ...]) -> Floats:
    """An array that starts where a line of the cache does, as vectors of any width need it."""
    size = int(np.prod(shape))
    memory = np.empty(size + 8)
    start = -memory.ctypes.data // 8 % 8
    return memory[start : start + size].reshape(shape)
