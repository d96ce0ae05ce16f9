# # A long run: energy that decays and energy that does not drift
#
# A chain of equal masses and springs between two walls; a blow sets the first mass in motion, so
# that all modes swing. It is marched for very many steps with four methods and one time step:
# Störmer-Verlet (order 2) and Yoshida's method (order 4), explicit and symplectic; the implicit
# midpoint rule (Gauss with one stage); and the classical Runge-Kutta method (order 4), which is
# not symplectic. The energy of the explicit symplectic methods oscillates in a band that does not
# widen. The midpoint rule conserves it; what is left is round-off, which adds up slowly. The energy
# error of the Runge-Kutta method is smaller than that of the explicit ones only at first: it takes
# energy out at every step, most of it from the fast modes. A mode with x = omega dt loses the
# fraction x⁶/72 of its energy in a step.
#
#     docker/run python demos/oscillators/long_run.py
#     docker/run python demos/oscillators/long_run.py --dt 0.1 --steps 1000000 --every 100

from pathlib import Path
from time import perf_counter
from typing import Annotated

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
import typer

import hamfem as hf

METHODS = {
    "Störmer-Verlet": hf.Verlet(),
    "Yoshida, order 4": hf.Yoshida(4),
    "implicit midpoint": hf.Gauss(1),
    "Runge-Kutta 4": hf.RK4(),
}


def chain(masses: int) -> hf.SecondOrder:
    """Unit masses and unit springs between two walls."""
    K = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(masses, masses))
    # A few numbers: every rank computes all of them.
    return hf.SecondOrder(sp.identity(masses), K, comm=MPI.COMM_SELF)


def envelope(t: np.ndarray, error: np.ndarray, windows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """The largest |error| in windows of time that grow like t, and their ends."""
    ends = np.geomspace(t[0], t[-1], windows)
    # Where the windows are shorter than the samples are apart, a sample counts once.
    last = np.unique(np.searchsorted(t, ends * (1 + 1e-12), side="right")) - 1
    first = np.concatenate([[0], last[:-1] + 1])
    return t[last], np.maximum.reduceat(np.abs(error), first)


def draw(histories: dict[str, np.ndarray], path: Path) -> None:
    """The envelopes of the energy errors, and the energies themselves."""
    figure, axes = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
    for name, (t, energy) in histories.items():
        error = energy / energy[0] - 1
        times, largest = envelope(t[1:], error[1:])
        axes[0].loglog(times, np.maximum(largest, 1e-17), label=name, lw=1.5)
        if name in ("Störmer-Verlet", "Runge-Kutta 4"):
            colour = axes[0].lines[-1].get_color()
            axes[1].plot(t, energy / energy[0], color=colour, lw=1.0, label=name)
    axes[0].set(title="largest energy error, window by window", xlabel="t")
    axes[0].set(ylabel="|energy / energy(0) - 1|", ylim=(1e-17, 3))
    axes[0].legend(loc="center left")
    axes[0].grid(alpha=0.3)
    axes[1].set(title="energy", xlabel="t", ylabel="energy / energy(0)", ylim=(0, 1.1))
    axes[1].legend(loc="lower left")
    axes[1].grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(
    masses: Annotated[int, typer.Option(help="Masses of the chain.")] = 20,
    dt: Annotated[float, typer.Option(help="Time step; the fastest frequency is about 2.")] = 0.2,
    steps: Annotated[int, typer.Option(help="Number of steps.")] = 100_000,
    every: Annotated[int, typer.Option(help="Steps between two looks at the energy.")] = 10,
    output: Annotated[Path, typer.Option(help="Directory for the picture.")] = Path("results"),
) -> None:
    """March an oscillator chain for a long time with four methods and compare their energies."""
    speaks = MPI.COMM_WORLD.rank == 0
    system = chain(masses)
    if speaks:
        print(f"{masses} masses, dt = {dt}, {steps} steps to t = {steps * dt:g}, ", end="")
        print(f"omega_max dt = {system.max_frequency() * dt:.3f}")
        print(f"{'':18s} {'--- max |energy error| ---':>27s}")
        print(f"{'method':18s} {'first tenth':>13s} {'last tenth':>13s}", end="")
        print(f" {'energy(end)/energy(0)':>22s} {'seconds':>8s}")

    histories = {}
    blow = np.eye(masses)[0]
    for name, method in METHODS.items():
        began = perf_counter()
        state = system.state(v=blow)
        rows = [(state.t, system.energy(state))]
        for state in hf.march(system, method, state, dt, steps * dt, every=every):
            rows.append((state.t, system.energy(state)))
        seconds = perf_counter() - began
        histories[name] = t, energy = np.array(rows).T
        error = np.abs(energy / energy[0] - 1)
        first, last = error[t <= 0.1 * t[-1]].max(), error[t >= 0.9 * t[-1]].max()
        if speaks:
            print(f"{name:18s} {first:13.3e} {last:13.3e}", end="")
            print(f" {energy[-1] / energy[0]:22.15f} {seconds:8.1f}")

    if speaks:
        output.mkdir(parents=True, exist_ok=True)
        draw(histories, output / "long_run.png")
        print(f"picture: {output / 'long_run.png'}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
