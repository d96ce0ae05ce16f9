"""Traces of fields at points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hamfem.errors import on_root
from hamfem.monitors.probe import Probe
from hamfem.monitors.table import Table, read_columns
from hamfem.points import checked_points, text
from hamfem.state import State

Array = npt.NDArray[np.float64]
_KIND, _FIRST = "file of receivers", ("step", "t")


class Receivers(Table):
    """Writes one row per call: step, t and the values of fields at points.

    Columns are called by the field, the component and the number of the point: E_y_0, stress_xx_2,
    u_1. Lines that begin with # record versions, system, dt and where the points are. Every row is
    complete in the file when the call returns. If the file has earlier rows of the same run
    (smaller steps, the same clock and number of unknowns), the run was continued from a checkpoint
    and goes on in it; else the file is replaced.

    Args:
        path: The CSV file.
        system: Whose `fields` are recorded.
        points: As many coordinates for each point as the domain has dimensions.
        names: Which fields; all by default. Those that nobody wants are not computed.
    """

    kind, first = _KIND, _FIRST

    def __init__(
        self,
        path: str | Path,
        system: Any,
        points: Any,
        names: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__(path, system)
        self._fields = [names] if isinstance(names, str) else names and list(names)
        if self._fields is not None and not self._fields:
            raise ValueError(f"there is no field to write to '{self.path}': name at least one.")
        dim = system.domain.dim
        self.points = on_root(self._comm, lambda: checked_points(points, dim))
        # A system that knows its values at points by itself needs no functions, and no mesh.
        at_points = getattr(system, "at_points", None) or partial(_Functions, system)
        self._at_points = at_points(self.points)

    def __call__(self, state: State) -> None:
        """Add a row; collective."""
        values = self._at_points(state, self._fields)
        if not self._started:
            self._start(state, values)
        row = [state.step, float(state.t)]
        for of in values.values():
            row += of.ravel().tolist()
        self._add(row)

    def _start(self, state: State, values: dict[str, Array]) -> None:
        """Begin the file."""
        columns = list(_FIRST)
        places = [f"receiver {i} at {text(x)}" for i, x in enumerate(self.points)]
        for name, of in values.items():
            for i in range(len(places)):
                columns += [
                    f"{name}_{c}_{i}" if c else f"{name}_{i}" for c in _components(of.shape[1:])
                ]
        self._begin(state, columns, places)
        self._fields = list(values)  # these to the end of the run


class _Functions:
    """The fields of a system at points, from its functions."""

    def __init__(self, system: Any, points: Array) -> None:
        self._system, self._probe = system, Probe(system.domain, points)

    def __call__(self, state: State, names: Sequence[str] | None) -> dict[str, Array]:
        fields = self._system.fields(state, names)
        return {name: self._probe(f).reshape(-1, *f.ufl_shape) for name, f in fields.items()}


def read_receivers(path: str | Path) -> dict[str, npt.NDArray]:
    """The columns of a file of `Receivers`; a last row that a crash cut off is left out."""
    return read_columns(path, _KIND, _FIRST)


def _components(shape: tuple[int, ...]) -> list[str]:
    """x, y, z of a vector; xx, xy and so on of a tensor; one without a name of a number."""
    return ["".join(c) for c in product(*("xyz"[:n] for n in shape))]
