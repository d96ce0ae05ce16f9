"""A mesh with named boundaries and regions: `box` makes one, `read_mesh` reads one."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mpi4py import MPI

import numpy as np
import numpy.typing as npt
from dolfinx import io, la, mesh
from dolfinx.mesh import Mesh, MeshTags

from hamfem import dolfinx_versions
from hamfem.cell_order import CellOrder
from hamfem.communicator import lasting
from hamfem.errors import on_root

# A facet between two ranks must see both its cells (interior-facet integrals, facet submeshes), so
# every rank keeps a copy of its neighbours' cells across shared facets.
GHOST_MODE = mesh.GhostMode.shared_facet

_SIDES = (("left", "right"), ("bottom", "top"), ("back", "front"))
_CELLS = {
    "interval": mesh.CellType.interval,
    "triangle": mesh.CellType.triangle,
    "quadrilateral": mesh.CellType.quadrilateral,
    "tetrahedron": mesh.CellType.tetrahedron,
    "hexahedron": mesh.CellType.hexahedron,
}

Where = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class Domain:
    """A mesh whose parts have names.

    Attributes:
        mesh: The DOLFINx mesh, distributed over `comm`.
        cell_tags: The number of the region of each cell that has one.
        facet_tags: The number of the boundary of each facet that has one.
        regions: Region name -> number in `cell_tags`; the same on every rank.
        boundaries: Boundary name -> number in `facet_tags`; the same on every rank.
    """

    mesh: mesh.Mesh
    cell_tags: mesh.MeshTags
    facet_tags: mesh.MeshTags
    regions: dict[str, int]
    boundaries: dict[str, int]

    @property
    def own_cells(self) -> npt.NDArray[np.int32]:
        """The numbers of the cells that this rank owns."""
        return np.arange(self.mesh.topology.index_map(self.dim).size_local, dtype=np.int32)

    @property
    def comm(self) -> MPI.Comm:
        """The communicator of the mesh."""
        return lasting(self.mesh.comm)

    @property
    def dim(self) -> int:
        """The dimension of space, which is that of the cells."""
        return self.mesh.topology.dim

    @property
    def cell(self) -> str:
        """The shape of the cells: interval, triangle, quadrilateral, tetrahedron or hexahedron."""
        return self.mesh.topology.cell_name()

    def cells(self, *names: str) -> npt.NDArray[np.int32]:
        """The cells of the named regions on this rank, ghosts included."""
        return self._tagged(self.cell_tags, self.regions, "region", names)

    def facets(self, *names: str) -> npt.NDArray[np.int32]:
        """The facets of the named boundaries on this rank, ghosts included."""
        return self._tagged(self.facet_tags, self.boundaries, "boundary", names)

    @property
    def cell_order(self) -> CellOrder:
        """The order in which the mesh was made, which is the same on any number of ranks."""
        return CellOrder(self.mesh, self.comm)

    def outside(self, *names: str) -> int:
        """How many cells lie in none of these regions; collective."""
        return self.comm.allreduce(len(np.setdiff1d(self.own_cells, self.cells(*names))))

    def check_boundaries(self, *names: str) -> None:
        """Refuse names that no boundary has."""
        _check_names(self.boundaries, "boundary", names)

    def name_region(self, name: str, where: Where) -> Domain:
        """The same mesh, where the cells whose corners all satisfy `where(x)` are region `name`."""
        cells = mesh.locate_entities(self.mesh, self.dim, where)
        number = _number(name, self.regions)
        tags = self._retag(self.dim, self.cell_tags, cells, number, f"region '{name}'")
        return replace(self, cell_tags=tags, regions={**self.regions, name: number})

    def name_boundary(self, name: str, where: Where) -> Domain:
        """The same mesh, in which the boundary facets that satisfy `where(x)` are boundary `name`.

        A facet has one name: what is named here loses its former name.
        """
        facets = mesh.locate_entities_boundary(self.mesh, self.dim - 1, where)
        number = _number(name, self.boundaries)
        tags = self._retag(self.dim - 1, self.facet_tags, facets, number, f"boundary '{name}'")
        return replace(self, facet_tags=tags, boundaries={**self.boundaries, name: number})

    def write(self, path: str | Path) -> None:
        """Write mesh, tags and names to an .xdmf file (and .h5 beside it) for `read_mesh`."""
        if Path(path).suffix != ".xdmf":
            raise ValueError(
                f"a domain is written as .xdmf and '{path}' is not: change the ending."
            )
        self.cell_tags.name, self.facet_tags.name = "cell_tags", "facet_tags"
        with io.XDMFFile(self.comm, str(path), "w") as file:
            file.write_mesh(self.mesh)
            for tags in (self.cell_tags, self.facet_tags):
                file.write_meshtags(
                    tags,
                    self.mesh.geometry,
                    f"/Xdmf/Domain/Grid[@Name='{self.mesh.name}']/Geometry",
                )
            file.write_information("regions", json.dumps(self.regions))
            file.write_information("boundaries", json.dumps(self.boundaries))

    def _tagged(
        self, tags: mesh.MeshTags, numbers: dict[str, int], kind: str, names: Sequence[str]
    ) -> npt.NDArray[np.int32]:
        _check_names(numbers, kind, names)
        wanted = np.array([numbers[name] for name in names], dtype=np.int32)
        return tags.indices[np.isin(tags.values, wanted)]

    def _retag(
        self, dim: int, tags: mesh.MeshTags, entities: npt.NDArray, number: int, what: str
    ) -> mesh.MeshTags:
        if self.comm.allreduce(len(entities)) == 0:
            raise _nothing(what)
        marked = _on_all_ranks(self.mesh, dim, entities)
        values = np.zeros(len(marked), dtype=np.int32)
        values[tags.indices] = tags.values
        values[marked] = number
        return _meshtags(self.mesh, dim, values)


class Box(Domain):
    """A uniform mesh of a box, which is made when somebody first asks for it, on all ranks.

    Finite differences need no mesh, and at sizes that they reach there is no room for one.

    Attributes:
        lower: The corner with the smallest coordinates.
        upper: The corner with the largest coordinates.
        n: The number of small boxes in each direction.
        where: What the cells of the regions satisfy, in the order in which they were named.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    n: tuple[int, ...]
    where: dict[str, Where]
    _comm: MPI.Comm
    _cell: str

    def __init__(
        self,
        comm: MPI.Comm,
        lower: tuple[float, ...],
        upper: tuple[float, ...],
        n: tuple[int, ...],
        cell: str,
        named: Domain | None = None,
        where: Mapping[str, Where] | None = None,
    ) -> None:
        self.__dict__.update(lower=lower, upper=upper, n=n, where=dict(where or {}))
        self.__dict__.update(_comm=comm, _cell=cell)
        if named is not None:
            self.__dict__["_named"] = named

    @property
    def comm(self) -> MPI.Comm:
        """The communicator."""
        return lasting(self._comm)

    @property
    def dim(self) -> int:
        """The dimension of space."""
        return len(self.n)

    @property
    def cell(self) -> str:
        """The shape of the cells."""
        return self._cell

    @property
    def sides(self) -> tuple[tuple[str, str], ...]:
        """The names of both sides across each axis."""
        return _SIDES[: self.dim]

    @cached_property
    def _named(self) -> Domain:
        """The mesh with its sides; collective."""
        a, b, dim = np.array(self.lower), np.array(self.upper), self.dim
        if dim == 1:
            msh = mesh.create_interval(self._comm, *self.n, [a[0], b[0]], ghost_mode=GHOST_MODE)
        else:
            create = mesh.create_rectangle if dim == 2 else mesh.create_box
            kind = _CELLS[self.cell]
            msh = create(self._comm, [a, b], list(self.n), kind, ghost_mode=GHOST_MODE)
        msh.topology.create_entities(dim - 1)
        domain = Domain(msh, _no_tags(msh, dim), _no_tags(msh, dim - 1), {}, {})
        spacing = (b - a) / self.n
        for axis, sides in enumerate(self.sides):
            for name, place in zip(sides, (a[axis], b[axis])):
                domain = domain.name_boundary(name, _near(axis, place, 1e-3 * spacing[axis]))
        for name, where in self.where.items():
            domain = domain.name_region(name, where)
        return domain

    @property
    def _made(self) -> bool:
        return "_named" in self.__dict__

    @property
    def _needs_mesh(self) -> bool:
        """Whether regions are those of a mesh: it is there, or its cells are parts of the boxes."""
        return self._made or self.cell not in ("quadrilateral", "hexahedron")

    @property
    def mesh(self) -> Mesh:
        """The DOLFINx mesh."""
        return self._named.mesh

    @property
    def cell_tags(self) -> MeshTags:
        """The number of the region of each cell that has one."""
        return self._named.cell_tags

    @property
    def facet_tags(self) -> MeshTags:
        """The number of the boundary of each facet that has one."""
        return self._named.facet_tags

    @property
    def regions(self) -> dict[str, int]:
        """Region name -> number in `cell_tags`."""
        if self._made:
            return self._named.regions
        return {name: i + 1 for i, name in enumerate(self.where)}

    @property
    def boundaries(self) -> dict[str, int]:
        """Boundary name -> number in `facet_tags`."""
        if self._made:
            return self._named.boundaries
        return {name: i + 1 for i, name in enumerate(sum(self.sides, ()))}

    @property
    def uniform(self) -> bool:
        """Whether nobody has moved the corners of the cells; collective."""
        if not self._made:
            return True
        x = self.mesh.geometry.x[:, : self.dim]
        place = (x - self.lower) / ((np.array(self.upper) - self.lower) / self.n)
        moved = np.abs(place - np.rint(place)).max(initial=0.0)
        return bool(self.comm.allreduce(moved, MPI.MAX) < 1e-6)

    def name_region(self, name: str, where: Where) -> Box:
        """The same box, where the cells whose corners all satisfy `where(x)` are region `name`."""
        regions = {**self.where, name: where}
        if self._needs_mesh:
            return self._with(self._named.name_region(name, where), regions)
        if not any(self.comm.allgather(any(cells.any() for cells in self._satisfying(where)))):
            raise _nothing(f"region '{name}'")
        return self._with(None, regions)

    def name_boundary(self, name: str, where: Where) -> Box:
        """The same box, in which the boundary facets that satisfy `where(x)` are `name`."""
        return self._with(self._named.name_boundary(name, where), self.where)

    def _with(self, named: Domain | None, where: Mapping[str, Where]) -> Box:
        return Box(self._comm, self.lower, self.upper, self.n, self.cell, named, where)

    def outside(self, *names: str) -> int:
        """How many cells lie in none of these regions; collective."""
        if self._needs_mesh:
            return super().outside(*names)
        _check_names(self.regions, "region", names)
        if not self.where:
            return int(np.prod(self.n))
        wanted = [i for i, name in enumerate(self.where) if name in names]
        number = 0
        for layers in zip(*map(self._satisfying, self.where.values())):
            # A cell belongs to the region that was named last.
            last = np.full(layers[0].shape, -1)
            for i, inside in enumerate(layers):
                last[inside] = i
            number += int(np.sum(~np.isin(last, wanted)))
        return self.comm.allreduce(number)

    def _satisfying(self, where: Where) -> Iterator[npt.NDArray[np.bool_]]:
        """Which cells of each layer across the first axis have corners that all satisfy `where`.

        Each rank has some of the layers; no mesh.
        """
        axes = self._lines

        def corners(i: int) -> npt.NDArray[np.bool_]:
            points = np.meshgrid(axes[0][i : i + 1], *axes[1:], indexing="ij")
            x = np.zeros((3, points[0].size))
            x[: self.dim] = [p.ravel() for p in points]
            inside = np.asarray(where(x)).reshape([len(line) for line in axes[1:]])
            for axis in range(inside.ndim):
                inside = np.moveaxis(inside, axis, 0)
                inside = np.moveaxis(inside[1:] & inside[:-1], 0, axis)
            return inside

        first, last = (self.n[0] * (self.comm.rank + s) // self.comm.size for s in (0, 1))
        if first < last:
            below = corners(first)
            for i in range(first, last):
                above = corners(i + 1)
                yield below & above
                below = above

    @property
    def _lines(self) -> list[npt.NDArray[Any]]:
        """The coordinates of the corners of the cells along each axis."""
        return [np.linspace(a, b, n + 1) for a, b, n in zip(self.lower, self.upper, self.n)]

    def samples(self) -> Iterator[npt.NDArray[np.float64]]:
        """Corners and middles of the cells, (points, 1, dim), a part on each rank; no mesh."""
        axes = self._lines
        middles = [(x[1:] + x[:-1]) / 2 for x in axes]
        for lines in (axes, middles):
            for x in lines[0][self.comm.rank % len(lines[0]) :: self.comm.size]:
                points = np.meshgrid([x], *lines[1:], indexing="ij")
                yield np.stack(points, axis=-1).reshape(-1, 1, self.dim)


def box(
    comm: MPI.Comm,
    lower: float | Sequence[float],
    upper: float | Sequence[float],
    n: int | Sequence[int],
    cell: str = "triangle",
) -> Box:
    """A uniform mesh of the box with corners `lower` and `upper`, cut into `n` cells per direction.

    Its sides are named left, right (x), bottom, top (y), back, front (z). Triangles and tetrahedra
    cut each small box in 2 and 6; the diagonals of triangles run from lower left to upper right.

    Args:
        comm: The communicator over which the mesh is distributed.
        lower: The corner with the smallest coordinates; a number for an interval.
        upper: The corner with the largest coordinates.
        n: The number of small boxes in each direction, or one number for all.
        cell: interval, triangle, quadrilateral, tetrahedron or hexahedron.
    """
    if cell not in _CELLS:
        raise ValueError(f"there is no cell '{cell}': choose one of {', '.join(_CELLS)}.")
    dim = mesh.cell_dim(_CELLS[cell])
    a, b = np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
    counts = np.broadcast_to(np.asarray(n), dim) if np.ndim(n) == 0 else np.asarray(n)
    if a.shape != (dim,) or b.shape != (dim,) or counts.shape != (dim,):
        raise ValueError(
            f"a box of {cell} cells needs {dim} coordinate(s) in lower and upper and {dim} "
            f"number(s) in n: there are {a.size}, {b.size} and {counts.size}."
        )
    if not np.all(np.isfinite(b - a)) or not np.all(b > a):
        raise ValueError(f"upper {b.tolist()} must exceed lower {a.tolist()} in each direction.")
    if not np.issubdtype(counts.dtype, np.integer) or np.any(counts < 1):
        raise ValueError(f"n must be whole numbers of at least 1 and is {np.asarray(n).tolist()}.")

    first, last = (tuple(float(x) for x in corner) for corner in (a, b))
    return Box(comm, first, last, tuple(int(n) for n in counts), cell)


def _nothing(what: str) -> ValueError:
    return ValueError(f"{what} holds nothing: its condition is true nowhere on the mesh.")


def _check_names(numbers: Mapping[str, int], kind: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in numbers:
            known = ", ".join(numbers) or "none"
            raise ValueError(f"the mesh has no {kind} '{name}'; it has: {known}.")


def _near(axis: int, place: float, distance: float) -> Where:
    return lambda x: np.abs(x[axis] - place) < distance


def _no_tags(msh: mesh.Mesh, dim: int) -> mesh.MeshTags:
    return mesh.meshtags(msh, dim, np.empty(0, np.int32), np.empty(0, np.int32))


def read_mesh(comm: MPI.Comm, path: str | Path) -> Domain:
    """Read a gmsh .msh file or an .xdmf file, with its physical names.

    The physical groups of the cells' dimension are the regions, those of one dimension less the
    boundaries; a group without a name is called by its number. A mesh in the plane z = 0 is 2D.
    The .xdmf files of `Domain.write`, of DOLFINx and of meshio are read; only the first has names.
    """
    path = Path(path)
    readers = {".msh": _read_gmsh, ".xdmf": _read_xdmf}
    if path.suffix not in readers:
        raise ValueError(
            f"'{path}' is neither a gmsh .msh nor an .xdmf file: convert it with gmsh."
        )
    if not comm.bcast(path.is_file() if comm.rank == 0 else None):
        raise FileNotFoundError(f"there is no mesh file '{path}'.")
    return readers[path.suffix](comm, path)


def _read_gmsh(comm: MPI.Comm, path: Path) -> Domain:
    import gmsh

    if comm.rank == 0:
        gmsh.initialize(interruptible=False)
        gmsh.option.setNumber("General.Terminal", 0)
    try:
        dim, names = on_root(comm, lambda: _open_gmsh(gmsh, path))
        msh, cell_tags, facet_tags = dolfinx_versions.mesh_from_gmsh(
            gmsh.model if comm.rank == 0 else None, comm, dim, GHOST_MODE
        )
    finally:
        if comm.rank == 0:
            gmsh.finalize()
    if facet_tags is None:
        facet_tags = _no_tags(msh, dim - 1)
    return Domain(msh, cell_tags, facet_tags, names[dim], names[dim - 1])


def _open_gmsh(gmsh: Any, path: Path) -> tuple[int, dict[int, dict[str, int]]]:
    """Read the file; the dimension of its mesh and, for each dimension, physical name -> number."""
    try:
        gmsh.open(str(path))
    except Exception as error:
        raise ValueError(f"gmsh cannot read '{path}': {error}.") from None
    model = gmsh.model
    groups = model.getPhysicalGroups()
    if not groups:
        raise ValueError(
            f"'{path}' has no physical groups: name its regions and boundaries in gmsh (Physical "
            "Surface, Physical Curve, ...) and save it again."
        )
    dim = max(d for d, _ in groups)
    types = {
        model.mesh.getElementProperties(kind)[0].split()[0]
        for entity in {
            (d, int(e))
            for d, tag in groups
            if d == dim
            for e in model.getEntitiesForPhysicalGroup(d, tag)
        }
        for kind in model.mesh.getElementTypes(*entity)
    }
    allowed = {1: {"Line"}, 2: {"Triangle", "Quadrilateral"}, 3: {"Tetrahedron", "Hexahedron"}}
    if len(types) != 1 or not types <= allowed.get(dim, set()):
        raise ValueError(
            f"'{path}' must hold cells of one kind out of interval, triangle, quadrilateral, "
            f"tetrahedron and hexahedron; it has: {', '.join(sorted(types)) or 'none'}."
        )
    x = model.mesh.getNodes()[1].reshape(-1, 3)
    if np.any(np.abs(x[:, dim:]) > 1e-12 * np.abs(x).max()):
        raise ValueError(
            f"'{path}' is a {dim}D mesh bent into space: a mesh of dimension {dim} must lie in the "
            f"first {dim} coordinate(s)."
        )
    names: dict[int, dict[str, int]] = {d: {} for d in range(-1, 4)}
    for d, tag in groups:
        name = model.getPhysicalName(d, tag) or str(tag)
        if name in names[d]:
            raise ValueError(f"'{path}' has two physical groups named '{name}': rename one.")
        names[d][name] = int(tag)
    return dim, names


def _read_xdmf(comm: MPI.Comm, path: Path) -> Domain:
    mesh_name, tag_names, information = on_root(comm, lambda: _xdmf_grids(path))
    with io.XDMFFile(comm, str(path), "r") as file:
        msh = file.read_mesh(ghost_mode=GHOST_MODE, name=mesh_name)
        dim = msh.topology.dim
        for d in range(dim):
            msh.topology.create_entities(d)
            msh.topology.create_connectivity(d, dim)
        found = {dim: None, dim - 1: None}
        for name in tag_names:
            tags = file.read_meshtags(msh, name=name)
            if tags.dim in found:
                found[tags.dim] = tags
    result = []
    for d, kind in ((dim, "regions"), (dim - 1, "boundaries")):
        tags = found[d]
        if tags is None:
            tags = _no_tags(msh, d)
        local = set(np.unique(tags.values).tolist())
        numbers = sorted(set().union(*comm.allgather(local)))
        names = information.get(kind, {str(number): number for number in numbers})
        result.append((tags, names))
    (cell_tags, regions), (facet_tags, boundaries) = result
    return Domain(msh, cell_tags, facet_tags, regions, boundaries)


def _xdmf_grids(path: Path) -> tuple[str, list[str], dict[str, dict[str, int]]]:
    """The name of the mesh, those of the grids that carry tags, and the names of the parts."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"'{path}' is not an XDMF file: {error}.") from None
    grids = root.findall("./Domain/Grid")
    meshes = [g.get("Name", "") for g in grids if g.find("Geometry") is not None]
    if not meshes:
        raise ValueError(f"'{path}' holds no mesh: it has no grid with a geometry.")
    tags = [g.get("Name", "") for g in grids if g.find("Attribute") is not None]
    information = {
        i.get("Name", ""): json.loads(i.get("Value", "{}"))
        for i in root.findall("./Domain/Information")
        if i.get("Name") in ("regions", "boundaries")
    }
    return meshes[0], tags, information


def _on_all_ranks(
    msh: mesh.Mesh, dim: int, entities: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Whether any rank lists the entity: owned entities and ghosts then agree on all ranks.

    DOLFINx lists a boundary facet on the rank of its cell only, and another rank may own it.
    """
    marks = la.vector(msh.topology.index_map(dim), 1, dtype=np.int32)
    marks.array[entities] = 1
    marks.scatter_reverse(la.InsertMode.add)
    marks.scatter_forward()
    return marks.array > 0


def _meshtags(msh: mesh.Mesh, dim: int, values: npt.NDArray[np.int32]) -> mesh.MeshTags:
    """Tags of the entities with a non-zero value."""
    tagged = np.flatnonzero(values).astype(np.int32)
    return mesh.meshtags(msh, dim, tagged, values[tagged])


def _number(name: str, numbers: dict[str, int]) -> int:
    return numbers.get(name, 1 + max(numbers.values(), default=0))
