"""Fields for ParaView."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mpi4py import MPI

import basix
import basix.ufl
from dolfinx import fem, io

from hamfem import dolfinx_versions
from hamfem.monitors.files import check_writable
from hamfem.monitors.vtu import Collection
from hamfem.state import State


class Fields:
    """Writes the fields of a system for ParaView, all in one file, as polynomials of their degree.

    ParaView knows Lagrange elements only. So all fields are interpolated into the Lagrange space of
    the highest degree among them, continuous if all of them are; nothing is lost by that on affine
    cells. Its nodes are equispaced like those of VTK, so that ParaView draws the polynomial itself.

        fields.pvd    a list of .vtu files in the folder `fields`; opened by every ParaView and by
                      PyVista; complete after each call; a run that is continued from a
                      checkpoint goes on in it
        fields.bp     ADIOS2 (VTX): one folder for all times, for large runs; always replaced, so
                      that a continued run needs another name

    Args:
        path: The file, .pvd or .bp.
        system: Whose `fields` are written.
        names: Which of them; all by default.
        every: Write at every so many calls, the first included.
    """

    def __init__(
        self,
        path: str | Path,
        system: Any,
        names: str | Sequence[str] | None = None,
        every: int = 1,
    ) -> None:
        self.path, self.system = Path(path), system
        self.names = [names] if isinstance(names, str) else names and list(names)
        if self.path.suffix not in (".pvd", ".bp"):
            raise ValueError(
                f"fields are written as .pvd or .bp and '{self.path}' is neither: change it."
            )
        if self.path.suffix == ".bp" and not hasattr(io, "VTXWriter"):
            raise RuntimeError(
                f"this DOLFINx has no ADIOS2, which '{self.path}' needs: write a .pvd file."
            )
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be a whole number of at least 1 and is {every!r}.")
        self.every = every
        self._calls = 0
        self._file: Collection | _Adios | None = None
        self._comm = system.comm
        check_writable(self._comm, self.path)

    def __call__(self, state: State) -> None:
        """Write the fields of a state; collective."""
        self._calls += 1
        if (self._calls - 1) % self.every:
            return
        fields = self._chosen(state)
        if self._file is None:
            self._transfers, images = _transfers(fields)
            make = Collection if self.path.suffix == ".pvd" else _Adios
            self._file = make(self._comm, self.path, images, state)
        for name, f in fields.items():
            self._transfers[name](f)
        self._file.write(state)

    def close(self) -> None:
        """Close the file; collective."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Fields:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _chosen(self, state: State) -> dict[str, Any]:
        fields = self.system.fields(state, self.names)
        if not fields:
            raise ValueError(f"there is no field to write to '{self.path}': name at least one.")
        return fields


class _Adios:
    """A .bp file by DOLFINx."""

    def __init__(self, comm: MPI.Comm, path: Path, functions: dict[str, Any], state: State) -> None:
        mesh = next(iter(functions.values())).function_space.mesh
        # The mesh goes with every time: if it is there only once, VTK 9.6 fails at the second.
        self._writer = io.VTXWriter(mesh.comm, str(path), list(functions.values()))

    def write(self, state: State) -> None:
        """Write the present values of the functions."""
        self._writer.write(state.t)

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


# ------------------------------------------------------------ interpolation, prepared once


def _transfers(
    fields: dict[str, Any],
) -> tuple[dict[str, Callable[[Any], None]], dict[str, fem.Function]]:
    """For each field a Lagrange function of the common space, and what brings values to it."""
    spaces = {name: f.function_space for name, f in fields.items()}
    mesh = next(iter(spaces.values())).mesh
    for name, V in spaces.items():
        if V.mesh.topology._cpp_object is not mesh.topology._cpp_object:
            raise ValueError(
                f"the field '{name}' lives on another mesh than the others: write it to a file of "
                "its own, by names=."
            )
    elements = [V.ufl_element() for V in spaces.values()]
    degree = max(1, dolfinx_versions.geometry_degree(mesh), *map(_degree, elements))
    continuous = all(_continuous(element) for element in elements)
    transfers, images = {}, {}
    for name, f in fields.items():
        element = basix.ufl.element(
            "P",
            mesh.basix_cell(),
            degree,
            lagrange_variant=basix.LagrangeVariant.equispaced,
            shape=f.ufl_shape,
            discontinuous=not continuous,
        )
        images[name] = fem.Function(fem.functionspace(mesh, element), name=name)
        transfers[name] = _transfer(f, images[name])
    return transfers, images


def _transfer(f: Any, image: fem.Function) -> Callable[[Any], None]:
    """What interpolates functions like f into `image`; without a compiled kernel if possible."""
    try:
        image.interpolate(f)
    except RuntimeError:
        # DOLFINx has no direct way for symmetric tensors, of which only one half is stored.
        source = fem.Function(f.function_space)
        points = dolfinx_versions.interpolation_points(image.function_space.element)
        expression = fem.Expression(source, points)

        def evaluate(g: Any) -> None:
            source.x.array[:] = g.x.array
            image.interpolate(expression)

        return evaluate
    return image.interpolate


def _degree(element: Any) -> int:
    """The degree of the Lagrange space that holds an element."""
    if parts := getattr(element, "sub_elements", None):
        return max(map(_degree, parts))
    return int(element.embedded_superdegree)


def _continuous(element: Any) -> bool:
    """Whether a function is continuous, in all its components."""
    if parts := getattr(element, "sub_elements", None):
        return all(map(_continuous, parts))
    return element.basix_sobolev_space == basix.SobolevSpace.H1 and not element.discontinuous
