# # A Poisson system in space: orbits on a sphere and on a plane
#
# The smallest system with a Casimir:
#
#     dp/dt = -q + r,    dq/dt = p,    dr/dt = -p,    energy (p² + q² + r²) / 2.
#
# Its structure matrix has the kernel (0, 1, 1), so that q + r is constant whatever the energy is.
# An orbit lies on the sphere of constant energy and on the plane of constant q + r: it is a circle.
# With v = p and the pair (q, r) as fluxes the system reads dq/dt = -B'v, dv/dt = B q with
# B = (-1, 1). Symplectic Euler and the implicit midpoint rule (Gauss with one stage) are Poisson
# maps, and both keep the plane to round-off. The midpoint rule keeps the sphere, too. The energy of
# symplectic Euler oscillates without drift: its orbit is an ellipse, on which a modified energy is
# constant to round-off.
#
#     docker/run python demos/oscillators/poisson_orbits.py
#     docker/run python demos/oscillators/poisson_orbits.py --dt 0.5 --steps 100000

from pathlib import Path
from typing import Annotated

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer

import hamfem as hf

METHODS = {"symplectic Euler": hf.SymplecticEuler(), "implicit midpoint": hf.Gauss(1)}
STYLES = {
    "symplectic Euler": {"color": "tab:green", "ls": "--", "lw": 1.8},
    "implicit midpoint": {"color": "tab:red", "ls": "-", "lw": 1.5},
}
START = np.array([0.0, 3.0, 0.0])  # (p, q, r): energy 3²/2, q + r = 3


def in_plane(x: np.ndarray) -> np.ndarray:
    """The coordinates p and (q - r) / sqrt 2 of points (p, q, r) in the Casimir plane."""
    return np.column_stack([x[:, 0], (x[:, 1] - x[:, 2]) / np.sqrt(2)])


def closed_curve(x: np.ndarray) -> np.ndarray:
    """The points of an orbit sorted by angle and closed: the curve on which they lie."""
    a, b = in_plane(x).T
    order = np.argsort(np.arctan2(b, a))
    return x[np.append(order, order[0])]


def exact_orbit(t: np.ndarray) -> np.ndarray:
    """The exact points (p, q, r) at the times t: a rotation with the frequency sqrt 2."""
    (a, b), w = in_plane(START[None])[0], np.sqrt(2) * t
    p, s = a * np.cos(w) - b * np.sin(w), b * np.cos(w) + a * np.sin(w)
    middle = (START[1] + START[2]) / 2
    return np.column_stack([p, middle + s / np.sqrt(2), middle - s / np.sqrt(2)])


def draw_in_space(axis: plt.Axes, curves: dict[str, np.ndarray], exact: np.ndarray) -> None:
    """The sphere, the plane and the orbits."""
    radius = np.linalg.norm(START)
    polar, azimuth = np.meshgrid(np.linspace(0, np.pi, 41), np.linspace(0, 2 * np.pi, 81))
    sphere = radius * np.array(
        [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)]
    )
    axis.plot_surface(*sphere, color="tab:blue", alpha=0.12, linewidth=0)
    p, s = np.meshgrid([-3, 3], [-2.9, 2.9])
    middle = (START[1] + START[2]) / 2
    plane = (p, middle + s / np.sqrt(2), middle - s / np.sqrt(2))
    axis.plot_surface(*plane, color="tab:gray", alpha=0.2, linewidth=0)
    axis.plot(*exact.T, color="0.6", lw=5, zorder=4)
    for name, curve in curves.items():
        axis.plot(*curve.T, zorder=5, **STYLES[name])
    axis.plot(*START[:, None], "ko", ms=5, zorder=6)
    axis.set(xlabel="p", ylabel="q", zlabel="r")
    axis.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), zlim=(-3.6, 3.6))
    for one in (axis.xaxis, axis.yaxis, axis.zaxis):
        one.set_ticks([-3, 0, 3])


def draw(orbits: dict[str, np.ndarray], energies: dict[str, np.ndarray], path: Path) -> None:
    """The orbits in space, along the plane and against it, and the energies over time."""
    figure = plt.figure(figsize=(12, 10), layout="constrained")
    exact = exact_orbit(np.linspace(0, np.sqrt(2) * np.pi, 241))
    curves = {name: closed_curve(orbit) for name, orbit in orbits.items()}
    views = {
        "sphere of the energy, plane of the Casimir": (18, 20),
        "along the plane q + r = 3: no orbit leaves it": (0, 0),
    }
    for i, (title, (elevation, azimuth)) in enumerate(views.items()):
        axis = figure.add_subplot(2, 2, i + 1, projection="3d", computed_zorder=False)
        draw_in_space(axis, curves, exact)
        axis.view_init(elevation, azimuth)
        axis.set_title(title, y=0.97)
        axis.set_box_aspect((1, 1, 1), zoom=0.95 if i == 0 else 1.25)
        if i == 1:  # seen along p
            axis.set_proj_type("ortho")
            axis.set(xticks=[], xlabel="")

    axis = figure.add_subplot(2, 2, 3)
    axis.plot(*in_plane(exact).T, color="0.6", lw=5, label="exact")
    for name, curve in curves.items():
        axis.plot(*in_plane(curve).T, label=name, **STYLES[name])
    axis.plot(*in_plane(START[None]).T, "ko", ms=6, label="start")
    axis.set(title="in the plane", xlabel="p", ylabel="(q - r) / √2", aspect="equal")
    axis.legend(loc="center")

    axis = figure.add_subplot(2, 2, 4)
    for name, history in energies.items():
        t, energy = history[:81].T
        axis.plot(t, energy / energy[0] - 1, label=name, **STYLES[name])
    axis.set(title="energy, the first steps", xlabel="t", ylabel="energy / energy(0) - 1")
    low, high = axis.get_ylim()
    axis.set_ylim(low, high + 0.12 * (high - low))
    axis.legend(loc="upper center", ncols=2)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(
    dt: Annotated[float, typer.Option(help="Time step; symplectic Euler needs dt < 1.41.")] = 0.3,
    steps: Annotated[int, typer.Option(help="Number of steps.")] = 10000,
    output: Annotated[Path, typer.Option(help="Directory for the picture.")] = Path("results"),
) -> None:
    """March a Poisson system in R³ with two Poisson integrators and look at its invariants."""
    # Three numbers: every rank computes all of them, and the first one speaks.
    speaks = MPI.COMM_WORLD.rank == 0
    B = np.array([[-1.0, 1.0]])
    system = hf.FirstOrder(np.eye(2), np.eye(1), B, comm=MPI.COMM_SELF)
    (casimir,) = hf.linear_invariants(system)
    if speaks:
        # A basis vector has any sign and length: written with 1 before r.
        p, q, r = np.concatenate([casimir.w_v.array, casimir.w_q.array]) / casimir.w_q.array[1]
        print(f"Casimir found: {abs(p):.3f} p + {q:.3f} q + {r:.3f} r")
        print(f"dt = {dt}, {steps} steps; largest change against the start, relative:")
        print(f"{'':17s} {'---------- energy ----------':>29s}")
        print(f"{'method':17s} {'first tenth':>14s} {'last tenth':>14s}", end="")
        print(f" {'Casimir':>9s} {'modified energy':>16s}")

    orbits, energies = {}, {}
    for name, method in METHODS.items():
        modified = hf.modified_energy(system, method, dt)
        state = system.state(q=START[1:], v=START[:1])
        rows = [(state.t, system.energy(state), casimir(state), modified(state))]
        points = [START]
        for state in hf.march(system, method, state, dt, steps * dt):
            rows.append((state.t, system.energy(state), casimir(state), modified(state)))
            points.append(np.concatenate([state.v.array, state.q.array]))
        history = np.array(rows)
        orbits[name], energies[name] = np.array(points), history[:, :2]
        change = np.abs(history[:, 1:] / history[0, 1:] - 1)
        tenth = max(steps // 10, 1)
        first, last = change[: tenth + 1, 0].max(), change[-tenth:, 0].max()
        if speaks:
            print(f"{name:17s} {first:14.3e} {last:14.3e}", end="")
            print(f" {change[:, 1].max():9.1e} {change[:, 2].max():16.1e}")

    if speaks:
        output.mkdir(parents=True, exist_ok=True)
        draw(orbits, energies, output / "poisson_orbits.png")
        print(f"picture: {output / 'poisson_orbits.png'}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
