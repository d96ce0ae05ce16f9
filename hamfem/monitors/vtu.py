"""A ParaView collection: a .pvd file that lists one binary .vtu file per output time.

DOLFINx's VTKFile writes text, and its list of times only when it is closed. Here a .vtu file holds
one piece per rank, written by all ranks at once (MPI-IO), and a time enters the list when its file
is complete: whatever ends the run, all times in the list can be opened.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from mpi4py import MPI

import numpy as np
import numpy.typing as npt
from dolfinx import plot

from hamfem.errors import on_root
from hamfem.monitors.files import same_run
from hamfem.state import State

_FOOT = "</Collection>\n</VTKFile>\n"
_ENTRY = re.compile(r'<DataSet timestep="([^"]*)" file="[^"]*step_(\d+)\.vtu"/>\n')
_ORDER = "LittleEndian" if sys.byteorder == "little" else "BigEndian"
_VTK_TYPES = {"f8": "Float64", "i8": "Int64", "i4": "Int32", "u1": "UInt8"}
# A count in MPI is a 32-bit number.
_CHUNK = 1 << 30


class Collection:
    """A .pvd file and, in a folder of the same name, its .vtu files.

    Earlier outputs of the same run (smaller steps, the same clock) are kept, so that a run that is
    continued from a checkpoint goes on; else all is replaced.

    Args:
        comm: The communicator of the mesh.
        path: The .pvd file.
        functions: Functions by name, all on one Lagrange element of a degree of at least 1.
        state: The first state.
    """

    def __init__(
        self, comm: MPI.Intracomm, path: Path, functions: Mapping[str, Any], state: State
    ) -> None:
        self.comm, self.path, self.functions = comm, path, functions
        self.folder = path.with_suffix("")
        cells, types, x = plot.vtk_mesh(next(iter(functions.values())).function_space)
        connectivity = cells.reshape(len(types), -1)[:, 1:] if len(types) else cells[:0]
        # Points of the neighbours' cells alone are left out.
        self._points, connectivity = np.unique(connectivity, return_inverse=True)
        width = connectivity.size // max(len(types), 1)
        self._static = [
            _block(x[self._points].astype("f8")),
            _block(connectivity.ravel().astype("i4")),
            _block(width * np.arange(1, len(types) + 1, dtype="i8")),
            _block(types.astype("u1")),
        ]
        sizes = comm.allgather((len(self._points), len(types), width))
        self._head, self._offsets = self._describe(sizes)
        on_root(comm, lambda: self._begin(state))

    def write(self, state: State) -> None:
        """Write the present values of the functions; collective."""
        file = self.folder / f"step_{state.step:08d}.vtu"
        blob = b"".join([*self._static, *map(self._values, self.functions.values())])
        foot = b"\n</AppendedData>\n</VTKFile>\n"
        offset = len(self._head) + self._offsets[self.comm.rank]
        if self.comm.rank == 0:
            blob, offset = self._head + blob, 0
        if self.comm.rank == self.comm.size - 1:
            blob += foot
        failures = [f for f in self.comm.allgather(self._put(file, blob, offset)) if f]
        if failures:
            raise OSError(f"'{file}' cannot be written: {failures[0]}.")
        on_root(self.comm, lambda: self._enter(state, file))

    def close(self) -> None:
        """Nothing is left to write."""

    # ------------------------------------------------------------ one .vtu file

    def _values(self, f: Any) -> bytes:
        """The values at the points; vectors and tensors have 3 and 9 components, as VTK wants."""
        shape = f.ufl_shape
        values = f.x.array.reshape(-1, int(np.prod(shape, dtype=int)))[self._points]
        if len(shape) in (1, 2) and max(shape) < 3:
            padded = np.zeros((len(values), *(3,) * len(shape)))
            padded[(slice(None), *map(slice, shape))] = values.reshape(-1, *shape)
            values = padded
        return _block(values.astype("f8"))

    def _describe(self, sizes: list[tuple[int, int, int]]) -> tuple[bytes, list[int]]:
        """The text before the numbers, and where the numbers of each rank begin."""
        lines = [
            '<?xml version="1.0"?>',
            f'<VTKFile type="UnstructuredGrid" version="2.2" byte_order="{_ORDER}" '
            'header_type="UInt64">',
            "<UnstructuredGrid>",
        ]
        position, offsets = 0, []

        def entry(name: str, kind: str, components: int, count: int) -> str:
            nonlocal position
            here, position = position, position + 8 + int(kind[1]) * components * count
            return (
                f'<DataArray type="{_VTK_TYPES[kind]}" Name={quoteattr(name)} '
                f'NumberOfComponents="{components}" format="appended" offset="{here}"/>'
            )

        for points, cells, width in sizes:
            offsets.append(position)
            lines += [
                f'<Piece NumberOfPoints="{points}" NumberOfCells="{cells}">',
                "<Points>",
                entry("Points", "f8", 3, points),
                "</Points>",
                "<Cells>",
                entry("connectivity", "i4", 1, width * cells),
                entry("offsets", "i8", 1, cells),
                entry("types", "u1", 1, cells),
                "</Cells>",
                "<PointData>",
            ]
            for name, f in self.functions.items():
                size = int(np.prod(f.ufl_shape, dtype=int))
                if len(f.ufl_shape) in (1, 2) and max(f.ufl_shape) < 3:
                    size = 3 ** len(f.ufl_shape)
                lines.append(entry(name, "f8", size, points))
            lines += ["</PointData>", "</Piece>"]
        lines += ["</UnstructuredGrid>", '<AppendedData encoding="raw">', "_"]
        return "\n".join(lines).encode(), offsets

    def _put(self, file: Path, blob: bytes, offset: int) -> str:
        """Write this rank's part; what went wrong, or nothing."""
        try:
            handle = MPI.File.Open(self.comm, str(file), MPI.MODE_CREATE | MPI.MODE_WRONLY)
        except MPI.Exception as error:
            return str(error)
        failure = ""
        try:
            for start in range(0, len(blob), _CHUNK):
                handle.Write_at(offset + start, blob[start : start + _CHUNK])
        except MPI.Exception as error:
            failure = str(error)
        handle.Close()
        return failure

    # ------------------------------------------------------------ the list, on rank 0

    def _begin(self, state: State) -> None:
        """Write the list of what is kept, and delete the files that are not."""
        kept = {}
        if self.path.exists():
            text = self.path.read_text(encoding="utf-8", errors="replace")
            old = [entry for entry in _ENTRY.finditer(text) if int(entry[2]) < state.step]
            if same_run([(int(entry[2]), float(entry[1])) for entry in old], state):
                kept = {f"step_{entry[2]}.vtu": entry[0] for entry in old}
        head = (
            '<?xml version="1.0"?>\n'
            f'<VTKFile type="Collection" version="0.1" byte_order="{_ORDER}">\n<Collection>\n'
        )
        copy = self.path.with_name(self.path.name + ".new")
        try:
            self.folder.mkdir(exist_ok=True)
            copy.write_text("".join([head, *kept.values(), _FOOT]), encoding="utf-8")
            os.replace(copy, self.path)
            for file in self.folder.glob("step_*.vtu"):
                if file.name not in kept:
                    file.unlink()
        except OSError as error:
            raise type(error)(f"'{self.path}' cannot be written: {error.strerror}.") from None

    def _enter(self, state: State, file: Path) -> None:
        """Add a line in place of the foot, and the foot again: one short write."""
        name = quoteattr(f"{self.folder.name}/{file.name}")
        line = f'<DataSet timestep="{float(state.t)!r}" file={name}/>\n{_FOOT}'
        with open(self.path, "r+b", buffering=0) as handle:
            handle.seek(-len(_FOOT), os.SEEK_END)
            handle.write(line.encode())


def _block(values: npt.NDArray) -> bytes:
    """An array as it stands in the file, after its length in bytes."""
    return np.uint64(values.nbytes).tobytes() + np.ascontiguousarray(values).tobytes()
