"""The only file that knows one DOLFINx version from another. hamfem supports 0.9 to 0.11."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

from mpi4py import MPI
from petsc4py import PETSc

import numpy as np

OLDEST, NEWEST = (0, 9), (0, 11)


def check(dolfinx_version: str, scalar: type) -> tuple[int, int]:
    """Return (major, minor) of DOLFINx, or say in one sentence why hamfem cannot run on it."""
    match = re.match(r"(\d+)\.(\d+)", dolfinx_version)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < OLDEST:
        raise ImportError(
            f"hamfem needs DOLFINx 0.9 to 0.11 and this is DOLFINx {dolfinx_version}: install a "
            "newer one, or use docker/run, which brings its own."
        )
    if np.issubdtype(scalar, np.complexfloating):
        raise ImportError(
            "hamfem needs PETSc and DOLFINx built for real numbers and this build is complex: "
            "select the real one (on Debian python3-dolfinx-real, on conda-forge petsc=*=real*)."
        )
    if version > NEWEST:
        warnings.warn(
            f"hamfem is tested on DOLFINx 0.9 to 0.11 and this is DOLFINx {dolfinx_version}.",
            stacklevel=2,
        )
    return version


try:
    import dolfinx
    import dolfinx.mesh
except ModuleNotFoundError as error:
    raise ImportError(
        "hamfem needs DOLFINx 0.9 to 0.11, which is not installed: use docker/run, conda-forge "
        "(environment.yml) or your distribution's package; pip cannot install it."
    ) from error

RELEASE: str = dolfinx.__version__
VERSION = check(RELEASE, PETSc.ScalarType)


def cell_partitioner(ghost_mode: Any) -> Callable:
    """DOLFINx's partitioner with the given ghosts; newer versions ask for the cells per facet."""
    create = dolfinx.mesh.create_cell_partitioner
    try:
        return create(ghost_mode, 2)
    except TypeError:
        return create(ghost_mode)


def mesh_from_gmsh(model: Any, comm: MPI.Comm, gdim: int, ghost_mode: Any) -> tuple[Any, Any, Any]:
    """Mesh, cell tags and facet tags (or None) of a gmsh model that is loaded on rank 0.

    DOLFINx 0.10 renamed the module and returns a named tuple in place of a triple.
    """
    partitioner = cell_partitioner(ghost_mode)
    if VERSION < (0, 10):
        from dolfinx.io import gmshio

        return gmshio.model_to_mesh(model, comm, 0, gdim=gdim, partitioner=partitioner)
    from dolfinx.io import gmsh as gmshio

    data = gmshio.model_to_mesh(model, comm, 0, gdim=gdim, partitioner=partitioner)
    return data.mesh, data.cell_tags, data.facet_tags


def entity_maps(submesh: Any, entity_map: Any, parent_entities: int) -> Any:
    """What fem.form takes as entity_maps for a submesh made of `entity_map`, from create_submesh.

    DOLFINx 0.9 wants {submesh: parent entity -> submesh cell}; 0.10 and later take the map itself.
    """
    if VERSION >= (0, 10):
        return [entity_map]
    inverse = np.full(parent_entities, -1, dtype=np.int32)
    inverse[entity_map] = np.arange(len(entity_map), dtype=np.int32)
    return {submesh: inverse}


def interpolation_points(element: Any) -> Any:
    """The points of a reference cell at which an element is interpolated.

    DOLFINx 0.10 made a property of the method.
    """
    points = element.interpolation_points
    return points() if callable(points) else points


def cell_nodes(mesh: Any) -> Any:
    """The nodes of each cell; DOLFINx 0.11 keeps a list over the shapes of cells."""
    geometry = mesh.geometry
    return geometry.dofmap if VERSION < (0, 11) else geometry.dofmaps[0]


def geometry_degree(mesh: Any) -> int:
    """The polynomial degree of the cells' shape; DOLFINx 0.11 deprecates the single `cmap`."""
    geometry = mesh.geometry
    return (geometry.cmap if VERSION < (0, 11) else geometry.cmaps[0]).degree
