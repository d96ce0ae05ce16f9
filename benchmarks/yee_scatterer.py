"""A pulse on a cylinder of glass: the Yee scheme of hamfem against Meep, number by number.

docker/run sh -c 'apt-get update && apt-get install -y --no-install-recommends python3-meep &&
    python benchmarks/yee_scatterer.py'

In a square with conducting walls currents send a pulse to a cylinder with eps = 4 in vacuum, in
both polarizations: a Gaussian blob of current across the plane (TM), and a beam (TE). Both codes
get the same grid, the same step and the same eps at each point: Meep's averaging is off. Meep has H
half a step before E; Störmer-Verlet that begins with a drift has the same numbers, because all
fields are 0 at first. So what is left between them is round-off: the table has the largest
difference of the components at receivers during the run and on the whole grid at its end, over the
largest value, and beside it how much the cylinder changes the field, which both must agree on.
"""

from collections.abc import Callable
from typing import Annotated, Any

from mpi4py import MPI

import numpy as np
import typer

import hamfem as hf

SIDE, GLASS, RADIUS, CENTRE = 4.0, 4.0, 0.6137, (2.3, 2.1)
# Where components are recorded: before, in and behind the cylinder, and in its shadow.
RECEIVERS = ((1.1, 2.0), (2.3, 2.1), (3.2, 2.4), (3.4, 1.3))
WALLS = hf.Clamped("left", "right", "bottom", "top")
# Over these components the difference is taken.
COMPONENTS = {"TM": ("Ez", "Hx", "Hy"), "TE": ("Ex", "Ey", "Hz")}
Traces = dict[str, Any]


def permittivity(x: np.ndarray) -> np.ndarray:
    """The glass in vacuum."""
    inside = (x[0] - CENTRE[0]) ** 2 + (x[1] - CENTRE[1]) ** 2 < RADIUS**2
    return np.where(inside, GLASS, 1.0)


def vacuum(x: np.ndarray) -> np.ndarray:
    """No glass."""
    return np.ones(x.shape[1])


def amplitude(t: float) -> float:
    """Of the current, without a mean, so that it leaves no charges behind."""
    s = (t - 0.8) / 0.2
    return float(-s * np.exp(-0.5 * s * s))


def shape(x: np.ndarray, polarization: str) -> np.ndarray:
    """Of the current across the plane, or of that along y.

    hamfem takes its mean along an edge and Meep its value in the middle. Both are one along y for a
    hat whose ends and peak are nodes; near walls, where Meep weights sources, it is 0.
    """
    across = np.exp(-0.5 * ((x[0] - 0.7) / 0.12) ** 2)
    if polarization == "TM":
        return across * np.exp(-0.5 * ((x[1] - 1.8) / 0.2) ** 2)
    return across * np.maximum(0.0, 1 - np.abs(x[1] - 2.0) / 1.5)


def places(lines: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, list[tuple[int, int]]]:
    """The points of each component's grid that are nearest to the receivers."""
    return {
        name: [tuple(int(np.abs(line - c).argmin()) for line, c in zip(xy, point))
               for point in RECEIVERS]
        for name, xy in lines.items()
    }  # fmt: skip


def ours(n: int, polarization: str, eps: Any, dt: float, steps: int, every: int) -> Traces:
    """Traces at receivers, and the grid at the end with its coordinates, by hamfem."""
    domain = hf.box(MPI.COMM_SELF, (0, 0), (SIDE, SIDE), n, "quadrilateral")

    def current(x: np.ndarray) -> np.ndarray:
        J = shape(x, polarization)
        return J if polarization == "TM" else np.stack([0 * J, J])

    sources = [hf.Source(current, amplitude)]
    wave = hf.Maxwell(domain, eps, 1.0, polarization, boundary=[WALLS], sources=sources)
    system, method = hf.yee(wave), hf.Verlet(first="drift")
    state = system.state()
    lines = {name: tuple(xy) for name, (xy, _) in system.grid_values(state).items()}
    near, rows = places(lines), []
    for state in hf.march(system, method, state, dt, steps * dt, every=every):
        found = system.grid_values(state)
        rows.append([found[name][1][ij] for name in COMPONENTS[polarization] for ij in near[name]])
    grid = {name: values.copy() for name, (_, values) in system.grid_values(state).items()}
    return {"traces": np.array(rows), "grid": grid, "lines": lines}


def meeps(
    mp: Any, n: int, polarization: str, steps: int, every: int, lines: Any
) -> tuple[float, Callable[[], Traces]]:
    """Meep's step, and what runs it."""
    half = 0.5 * SIDE

    def form(p: Any) -> float:  # Meep's points are relative to the middle
        return float(shape(np.array([[p.x + half], [p.y + half]]), polarization)[0])

    source = mp.Source(
        mp.CustomSource(amplitude),
        mp.Ez if polarization == "TM" else mp.Ey,
        mp.Vector3(),
        size=mp.Vector3(SIDE, SIDE),
        amp_func=form,
    )
    glass = mp.Cylinder(
        RADIUS,
        center=mp.Vector3(CENTRE[0] - half, CENTRE[1] - half),
        material=mp.Medium(epsilon=GLASS),
    )
    simulation = mp.Simulation(
        mp.Vector3(SIDE, SIDE), n / SIDE, geometry=[glass], sources=[source], eps_averaging=False
    )
    simulation.init_sim()

    def value(name: str, x: float, y: float) -> float:
        point = mp.Vector3(x - half, y - half)
        return simulation.get_field_point(getattr(mp, name), point).real

    def run() -> Traces:
        near, rows = places(lines), []
        names = COMPONENTS[polarization]
        grid: dict[str, np.ndarray] = {}
        for step in range(1, steps + 1):
            simulation.fields.step()
            if step % every and step < steps:
                continue
            simulation.fields.synchronize_magnetic_fields()
            rows.append([value(name, lines[name][0][i], lines[name][1][j])
                         for name in names for i, j in near[name]])  # fmt: skip
            if step == steps:
                for name in names:
                    grid[name] = np.array([[value(name, x, y) for y in lines[name][1]]
                                           for x in lines[name][0]])  # fmt: skip
            simulation.fields.restore_magnetic_fields()
        return {"traces": np.array(rows), "grid": grid}

    return simulation.fields.dt, run


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference over the largest value."""
    return float(np.abs(a - b).max() / np.abs(b).max())


def main(
    n: Annotated[int, typer.Option(help="Cells along a side, a multiple of 8.")] = 128,
    end: Annotated[float, typer.Option(help="The last time.")] = 6.0,
) -> None:
    """Print how far both codes are apart."""
    try:
        import meep as mp
    except ImportError:
        print("Meep is not installed, so that there is nothing to compare with: see the head of "
              "the file.")  # fmt: skip
        return
    mp.verbosity(0)
    if n < 8 or n % 8:
        raise typer.BadParameter(f"n must be a multiple of 8 and is {n}.")
    print(f"{n} x {n} cells, to t = {end:g}: largest differences over the largest value")
    print(f"{'':4s} {'component':>9s} {'receivers':>10s} {'whole grid':>11s} {'scattered':>10s}")
    for polarization, names in COMPONENTS.items():
        every = 4
        step = 0.5 * SIDE / n  # Meep's own
        steps = every * round(end / step / every)
        mine = ours(n, polarization, permittivity, step, steps, every)
        dt, run = meeps(mp, n, polarization, steps, every, mine["lines"])
        if abs(dt / step - 1) > 1e-14:
            raise SystemExit(f"Meep steps by {dt} and not by {step}: another version?")
        theirs = run()
        without = ours(n, polarization, vacuum, step, steps, every)
        for i, name in enumerate(names):
            some = slice(i * len(RECEIVERS), (i + 1) * len(RECEIVERS))
            print(f"{polarization:4s} {name:>9s}"
                  f" {apart(mine['traces'][:, some], theirs['traces'][:, some]):10.1e}"
                  f" {apart(mine['grid'][name], theirs['grid'][name]):11.1e}"
                  f" {apart(without['grid'][name], mine['grid'][name]):10.2f}")  # fmt: skip


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
