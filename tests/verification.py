"""Fits of order and drift, shared by the tests."""

import numpy as np
import ufl
from dolfinx import fem


def order(h, errors, floor=1e-12):
    """The slope of log(error) over log(h), fitted to the errors above the round-off floor."""
    h, errors = np.asarray(h, float), np.asarray(errors, float)
    keep = errors > floor
    assert keep.sum() >= 2, f"fewer than two errors above {floor}: {errors}"
    return np.polyfit(np.log(h[keep]), np.log(errors[keep]), 1)[0]


def check_orders(sizes, rows, expected, below=0.3):
    """The slope of each field between two sizes is at least what is expected, or nearly so.

    Args:
        sizes: The numbers of cells in each direction.
        rows: For each of them {field: error}.
        expected: {field: order}.
        below: By how much an order may fall short: at such sizes they are not yet smooth.
    """
    h = [1 / n for n in sizes]
    found = {name: order(h, [row[name] for row in rows]) for name in expected}
    short = {name: found[name] for name in expected if found[name] < expected[name] - below}
    assert not short, f"orders {short} of the expected {expected}; errors {rows}"


def drift(t, values, intervals=10):
    """The slope in time of the maximum over each interval: 0 for a bounded oscillation."""
    t, values = np.asarray(t, float), np.asarray(values, float)
    parts = np.array_split(np.arange(len(t)), intervals)
    return np.polyfit([t[p].mean() for p in parts], [values[p].max() for p in parts], 1)[0]


def error(f, solution):
    """The distance of a function from an exact one in the mean square."""
    V = f.function_space
    element = V.ufl_element()
    degree = element.embedded_superdegree + 3
    fine = fem.Function(
        fem.functionspace(V.mesh, ("Discontinuous Lagrange", degree, element.reference_value_shape))
    )
    fine.interpolate(solution)
    form = fem.form(ufl.inner(f - fine, f - fine) * ufl.dx)
    return np.sqrt(V.mesh.comm.allreduce(fem.assemble_scalar(form)))


def worst(rows, found):
    """The larger one of the errors so far and those found now, field by field."""
    return {name: max(value, rows.get(name, 0.0)) for name, value in found.items()}
