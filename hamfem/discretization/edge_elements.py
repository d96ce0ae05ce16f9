"""Edge and face elements of quadrilaterals and hexahedra whose nodes are quadrature points.

The space of edge elements has Q_(k, k+1, k+1) for its first component, and the face elements have
Q_(k+1, k, k). With Gauss points in the directions of degree k and Gauss-Lobatto points in those of
degree k + 1 as nodes, and the same points for the quadrature of each component, the mass of cells
with right angles is diagonal (Cohen and Monk), and explicit steps need no solve. For k = 0 the
nodes are the middles of the edges, or of the faces: this is Yee's scheme.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import basix
import basix.ufl
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def points_on_line(k: int, gauss: bool) -> tuple[Array, Array]:
    """The k + 1 Gauss points on (0, 1), or k + 2 Gauss-Lobatto points, and their weights."""
    kind = basix.QuadratureType.gauss_jacobi if gauss else basix.QuadratureType.gll
    x, w = basix.make_quadrature(basix.CellType.interval, 2 * k + 1, kind)
    order = np.argsort(x[:, 0])
    return x[order, 0], w[order]


def tensor_rule(k: int, gauss: Sequence[bool]) -> tuple[Array, Array]:
    """Points and weights of the unit box: Gauss in some directions, Gauss-Lobatto in others."""
    lines = [points_on_line(k, g) for g in gauss]
    X = np.array(list(itertools.product(*(x for x, _ in lines))))
    w = np.array([np.prod(ws) for ws in itertools.product(*(w for _, w in lines))])
    return X, w


def edge_rule(k: int, dim: int, component: int) -> tuple[Array, Array]:
    """The quadrature for a component of edge elements, whose points are its nodes."""
    return tensor_rule(k, [i == component for i in range(dim)])


def face_rule(k: int, dim: int, component: int) -> tuple[Array, Array]:
    """The quadrature for a component of face elements, whose points are its nodes."""
    return tensor_rule(k, [i != component for i in range(dim)])


def edge_element(cell: str, k: int) -> Any:
    """Tangential values at the nodes: continuous tangential parts, Q_(k, k+1, k+1) and so on."""
    kind, dim, inner = _start(cell, k)
    x: list[list[Array]] = [[] for _ in range(4)]
    M: list[list[Array]] = [[] for _ in range(4)]
    _empty_vertices(kind, x, M)
    for d in range(1, dim + 1):
        for origin, axes in _entities(kind, d):
            points, directions = [], []
            for a in range(d):
                lines = [inner] * d
                lines[a] = points_on_line(k, True)[0]
                for s in itertools.product(*lines):
                    points.append(origin + s @ axes)
                    directions.append(axes[a])
            _nodes(points, directions, dim, x[d], M[d])
    space = basix.SobolevSpace.HCurl
    return _custom(kind, dim, k, lambda i, a: i[a] <= k, x, M, basix.MapType.covariantPiola, space)


def face_element(cell: str, k: int) -> Any:
    """Normal values at the nodes: continuous normal parts, Q_(k+1, k, k) and so on."""
    kind, dim, inner = _start(cell, k)
    gauss = points_on_line(k, True)[0]
    x: list[list[Array]] = [[] for _ in range(4)]
    M: list[list[Array]] = [[] for _ in range(4)]
    _empty_vertices(kind, x, M)
    if dim == 3:
        for origin, _ in _entities(kind, 1):
            _nodes([], [], dim, x[1], M[1])
    for origin, axes in _entities(kind, dim - 1):
        # The normal that belongs to the facet's own coordinates, so that both cells agree on it.
        normal = np.cross(axes[0], axes[1]) if dim == 3 else np.array([-axes[0][1], axes[0][0]])
        points = [origin + s @ axes for s in itertools.product(*[gauss] * (dim - 1))]
        _nodes(points, [normal] * len(points), dim, x[dim - 1], M[dim - 1])
    points, directions = [], []
    for a in range(dim):
        lines = [gauss] * dim
        lines[a] = inner
        for s in itertools.product(*lines):
            points.append(np.array(s))
            directions.append(np.eye(dim)[a])
    _nodes(points, directions, dim, x[dim], M[dim])

    def inside(i: tuple[int, ...], a: int) -> bool:
        return all(p <= k for j, p in enumerate(i) if j != a)

    space = basix.SobolevSpace.HDiv
    return _custom(kind, dim, k, inside, x, M, basix.MapType.contravariantPiola, space)


def _start(cell: str, k: int) -> tuple[basix.CellType, int, Array]:
    """The kind of cell, its dimension, and the inner Gauss-Lobatto points."""
    kind = basix.CellType[cell]
    return kind, len(basix.topology(kind)) - 1, points_on_line(k, False)[0][1:-1]


def _entities(kind: basix.CellType, d: int) -> list[tuple[Array, Array]]:
    """The origin and the axes of the coordinates of each entity of dimension d."""
    corners = basix.geometry(kind)
    result = []
    for vertices in basix.topology(kind)[d]:
        origin = corners[vertices[0]]
        result.append((origin, np.array([corners[vertices[2**i]] - origin for i in range(d)])))
    return result


def _empty_vertices(kind: basix.CellType, x: list[list[Array]], M: list[list[Array]]) -> None:
    """There is nothing at the vertices."""
    dim = len(basix.topology(kind)) - 1
    for _ in basix.topology(kind)[0]:
        _nodes([], [], dim, x[0], M[0])


def _nodes(
    points: list[Array], directions: list[Array], dim: int, x: list[Array], M: list[Array]
) -> None:
    """Add an entity whose dofs are the values along a direction at a point each."""
    n = len(points)
    x.append(np.array(points).reshape(n, dim))
    values = np.zeros((n, dim, n, 1))
    for i, direction in enumerate(directions):
        values[i, :, i, 0] = direction
    M.append(values)


def _custom(
    kind: basix.CellType,
    dim: int,
    k: int,
    inside: Any,
    x: list[list[Array]],
    M: list[list[Array]],
    map_type: basix.MapType,
    space: basix.SobolevSpace,
) -> Any:
    """The element of the Legendre polynomials with degrees that are `inside`, by component."""
    n = k + 2
    rows = []
    for a in range(dim):
        for i in itertools.product(range(n), repeat=dim):
            if inside(i, a):
                row = np.zeros((dim, n**dim))
                row[a, np.ravel_multi_index(i, (n,) * dim)] = 1.0
                rows.append(row.ravel())
    return basix.ufl.custom_element(
        kind, (dim,), np.array(rows), x, M, 0, map_type, space, False, k, k + 1
    )
