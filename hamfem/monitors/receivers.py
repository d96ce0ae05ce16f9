"""Traces of fields at points."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hamfem.monitors.probe import Probe, text
from hamfem.monitors.table import Table, read_columns
from hamfem.state import State

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
        self._probe = Probe(system.domain, points)

    def __call__(self, state: State) -> None:
        """Add a row; collective."""
        fields = self.system.fields(state, self._fields)
        if not self._started:
            self._start(state, fields)
        row = [state.step, float(state.t)]
        for f in fields.values():
            row += self._probe(f).ravel().tolist()
        self._add(row)

    def _start(self, state: State, fields: dict[str, Any]) -> None:
        """Begin the file."""
        columns = list(_FIRST)
        places = [f"receiver {i} at {text(x)}" for i, x in enumerate(self._probe.points)]
        for name, f in fields.items():
            for i in range(len(places)):
                columns += [f"{name}_{c}_{i}" if c else f"{name}_{i}" for c in _components(f)]
        self._begin(state, columns, places)
        self._fields = list(fields)  # these to the end of the run


def read_receivers(path: str | Path) -> dict[str, npt.NDArray]:
    """The columns of a file of `Receivers`; a last row that a crash cut off is left out."""
    return read_columns(path, _KIND, _FIRST)


def _components(f: Any) -> list[str]:
    """x, y, z of a vector; xx, xy and so on of a tensor; one without a name of a number."""
    return ["".join(c) for c in product(*("xyz"[:n] for n in f.ufl_shape))]
