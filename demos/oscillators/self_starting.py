# # Self-starting schemes and the starting step of the central difference method
#
# A bar of linear elements with lumped mass, fixed at x = 0 and free at x = 1; a pulse runs to the
# right. The central difference method (CDM) is the recursion
#
#     u_n+1 = 2 u_n - u_n-1 - h² M^-1 K u_n,
#
# which needs u_1 before it can begin. The naive choice u_1 = u_0 + h v_0 leaves out the initial
# acceleration: it adds a small wave, half of which runs the wrong way, and the order drops to 1.
# The correct choice u_1 = u_0 + h v_0 - h²/2 M^-1 K u_0 gives order 2; the CDM then is the same as
# Störmer-Verlet.
#
# The self-starting schemes of Wang and Chen, a drift of (1 - alpha) h, a kick and a drift of
# alpha h, need no such step. Their displacements obey the recursion of the CDM for every alpha, so
# they have its frequencies, with an error of O(h²), and each alpha is the CDM with another u_1:
# alpha = 0 is the CDM with the naive start, and only alpha = 1/2 is of order 2. It is as good as
# the CDM with the correct start, and no better. The starting error of the others stays as large as
# it is at the start, while the error of the phase grows with time, the same for all: in a long
# run, or with a large step, it hides the starting error.
#
# With `--blow` the bar is hit instead: u_0 = 0, so that there is no acceleration to leave out. The
# naive start is then the correct one, and all displacements are of order 2. The velocities of the
# self-starting schemes still are of order 1 unless alpha = 1/2.
#
# Errors are those of the time-marching alone, against the exact solution of M d²u/dt² = -K u.
#
#     docker/run python demos/oscillators/self_starting.py
#     docker/run python demos/oscillators/self_starting.py --n 200 --blow

from pathlib import Path
from typing import Annotated

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.sparse as sp
import typer

import hamfem as hf

NAIVE, CORRECT, VERLET = "CDM, naive start", "CDM, correct start", "Störmer-Verlet"
METHODS = {
    VERLET: hf.Verlet(),
    "alpha = 0": hf.SelfStarting(0.0),
    "alpha = 1/4": hf.SelfStarting(0.25),
    "alpha = 1/2": hf.SelfStarting(0.5),
    "alpha = 1": hf.SelfStarting(1.0),
}
STYLES = {
    NAIVE: {"color": "tab:red", "ls": "-", "lw": 1.8},
    CORRECT: {"color": "tab:blue", "ls": "-", "lw": 1.8},
    "alpha = 0": {"color": "black", "ls": ":", "lw": 1.8},
    "alpha = 1/4": {"color": "tab:orange", "ls": "-", "lw": 1.5},
    "alpha = 1/2": {"color": "tab:green", "ls": "--", "lw": 1.8},
}
COURANT = (0.8, 0.4, 0.2, 0.1, 0.05)  # time steps of the tables, times n; stable up to 1
MODE = 10  # the mode whose frequency is measured

Run = tuple[np.ndarray, np.ndarray]  # displacements and velocities, one row for each time


class Bar:
    """A bar of n linear elements on (0, 1), wave speed 1, fixed at 0 and free at 1, lumped mass."""

    def __init__(self, n: int, blow: bool) -> None:
        self.x = np.arange(1, n + 1) / n
        self.m = np.full(n, 1 / n)
        self.m[-1] /= 2
        K = sp.lil_matrix(sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(n, n)) * n)
        K[-1, -1] /= 2
        self.K = K.tocsr()
        # A few numbers: every rank computes all of them.
        self.system = hf.SecondOrder(sp.diags(self.m), self.K, comm=MPI.COMM_SELF)
        distance = (self.x - 0.4) / 0.07
        pulse = np.exp(-(distance**2))
        self.u0 = 0 * pulse if blow else pulse
        self.v0 = 10 * pulse if blow else 2 * distance / 0.07 * pulse
        squares, self.modes = scipy.linalg.eigh(self.K.toarray(), np.diag(self.m))
        self.omega = np.sqrt(squares)

    def exact(self, t: np.ndarray) -> Run:
        """The exact solution of the semi-discrete equations at the times t."""
        a = self.modes.T @ (self.m * self.u0)
        b = self.modes.T @ (self.m * self.v0) / self.omega
        cos, sin = np.cos(np.outer(t, self.omega)), np.sin(np.outer(t, self.omega))
        u, v = a * cos + b * sin, self.omega * (b * cos - a * sin)
        return u @ self.modes.T, v @ self.modes.T

    def first_step(self, h: float, correct: bool) -> np.ndarray:
        """u_1 without or with the initial acceleration."""
        u1 = self.u0 + h * self.v0
        return u1 - h**2 / 2 * (self.K @ self.u0) / self.m if correct else u1

    def central_differences(self, u1: np.ndarray, h: float, steps: int) -> Run:
        """The CDM from u_0 and u_1; velocities by central differences."""
        u = np.empty((steps + 2, len(u1)))
        u[0], u[1] = self.u0, u1
        for i in range(1, steps + 1):
            u[i + 1] = 2 * u[i] - u[i - 1] - h**2 * (self.K @ u[i]) / self.m
        return u[:-1], np.vstack([self.v0, (u[2:] - u[:-2]) / (2 * h)])

    def march(self, method: hf.Partitioned, h: float, steps: int) -> Run:
        """A one-step method of hamfem, from u_0 and v_0."""
        u, v = np.empty((2, steps + 1, len(self.x)))
        u[0], v[0] = self.u0, self.v0
        state = self.system.state(u=self.u0, v=self.v0)
        for state in hf.march(self.system, method, state, h, steps * h):
            u[state.step], v[state.step] = state.q.array, state.v.array
        return u, v

    def runs(self, h: float, steps: int) -> dict[str, Run]:
        """All methods, by name."""
        naive, correct = (
            self.central_differences(self.first_step(h, correct), h, steps)
            for correct in (False, True)
        )
        marched = {name: self.march(method, h, steps) for name, method in METHODS.items()}
        return {NAIVE: naive, CORRECT: correct} | marched

    def error(self, x: np.ndarray, exact: np.ndarray) -> np.ndarray:
        """The error at each time, relative to the largest norm of the exact solution."""
        return np.sqrt((x - exact) ** 2 @ self.m) / np.sqrt((exact**2 @ self.m).max())

    def frequency(self, u: np.ndarray, h: float) -> float:
        """The frequency of one mode, from its amplitudes: y_n+1 + y_n-1 = 2 cos(omega h) y_n."""
        y = u @ (self.m * self.modes[:, MODE - 1])
        return np.arccos((y[2:] + y[:-2]) @ y[1:-1] / (2 * y[1:-1] @ y[1:-1])) / h


def order(errors: list[float]) -> float:
    """The order between the two smallest steps."""
    return float(np.log2(errors[-2] / errors[-1]))


def draw(
    bar: Bar, runs: dict[str, Run], t: np.ndarray, errors: dict[str, list[float]], path: Path
) -> None:
    """Snapshots, the error at one time, the errors over time, and over the step."""
    exact = bar.exact(t)[0]
    figure, axes = plt.subplots(2, 2, figsize=(13, 9), layout="constrained")
    snapshots, errors_at, over_time, over_step = axes.flat

    for time, colour in ((0.0, "0.7"), (0.25, "0.4"), (1.0, "tab:purple")):
        i = np.abs(t - time).argmin()
        snapshots.plot(bar.x, exact[i], color=colour, lw=4, alpha=0.5)
        u = runs["alpha = 1/2"][0][i]
        snapshots.plot(bar.x, u, color=colour, lw=1.2, label=f"t = {t[i]:.2f}")
    snapshots.set(title="u: alpha = 1/2 (thin) on the exact one (wide)", xlabel="x", ylabel="u")
    snapshots.legend(loc="best")

    i, h = np.abs(t - 0.25).argmin(), np.array(COURANT) / len(bar.x)
    for name, style in STYLES.items():
        errors_at.plot(bar.x, runs[name][0][i] - exact[i], label=name, **style)
        over_time.semilogy(t[1:], bar.error(runs[name][0], exact)[1:], **style)
        over_step.loglog(h, errors[name], "o", **style)
    errors_at.set(title=f"error of u at t = {t[i]:.2f}", xlabel="x", ylabel="u - exact")
    errors_at.legend(loc="best", fontsize="small")
    over_time.set(title=f"error of u over time, h = {t[1]:.3g}", xlabel="t", ylabel="error of u")

    largest = max(errors[name][0] for name in STYLES)
    for power, factor, place in ((1, 1.5, ("right", "bottom")), (2, 0.5, ("left", "top"))):
        line = factor * largest * (h / h[0]) ** power
        over_step.loglog(h, line, color="0.6", lw=1)
        text, (ha, va) = f"order {power}", place
        over_step.annotate(text, (h[-2], line[-2]), color="0.4", ha=ha, va=va)
    over_step.set_xticks(h, [f"{step:.4g}" for step in h])
    over_step.set_xticks([], minor=True)
    over_step.set(title="largest error of u up to t = 2", xlabel="h", ylabel="error of u")
    for axis in (over_time, over_step):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(
    n: Annotated[int, typer.Option(help="Elements of the bar.", min=20)] = 100,
    courant: Annotated[float, typer.Option(help="Step of the picture, times n.")] = 0.2,
    end: Annotated[float, typer.Option(help="End time of the picture.", min=1.0)] = 20.0,
    blow: Annotated[bool, typer.Option("--blow", help="Start with a velocity only.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for the picture.")] = Path("results"),
) -> None:
    """Compare the self-starting schemes with the central difference method and its first step."""
    speaks = MPI.COMM_WORLD.rank == 0
    bar = Bar(n, blow)
    names = (NAIVE, CORRECT, *METHODS)
    errors, speed_errors, frequency_errors = ({name: [] for name in names} for _ in range(3))
    for factor in COURANT:
        h, steps = factor / n, round(2 * n / factor)
        u, v = bar.exact(h * np.arange(steps + 1))
        for name, run in bar.runs(h, steps).items():
            errors[name].append(bar.error(run[0], u).max())
            speed_errors[name].append(bar.error(run[1], v).max())
            change = bar.frequency(run[0], h) / bar.omega[MODE - 1] - 1
            frequency_errors[name].append(change)

    steps = round(end * n / courant)
    h = end / steps
    runs = bar.runs(h, steps)
    differences = {
        "alpha = 0, and CDM, naive start": runs[NAIVE][0] - runs["alpha = 0"][0],
        "Störmer-Verlet, and CDM, correct start": runs[CORRECT][0] - runs[VERLET][0],
    }
    for name in METHODS:
        u = runs[name][0]
        if name.startswith("alpha"):
            same = bar.central_differences(u[1], h, steps)[0]
            differences[f"{name}, and the CDM from its u_1"] = u - same

    if not speaks:
        return
    print(
        f"{n} elements, start with {'a velocity only' if blow else 'a pulse to the right'};", end=""
    )
    print(" alpha = ... are the self-starting schemes")
    heads = "".join(f"{factor / n:11.4g}" for factor in COURANT)
    print(
        "\nlargest error of u up to t = 2, relative; orders of u and v between the last two steps"
    )
    print(f"{'h':20s}{heads}{'order u':>9s}{'order v':>9s}")
    for name in names:
        row = "".join(f"{error:11.2e}" for error in errors[name])
        print(f"{name:20s}{row}{order(errors[name]):9.2f}{order(speed_errors[name]):9.2f}")
    print(f"\nrelative error of the frequency of mode {MODE}")
    print(f"{'h':20s}{heads}{'order':>9s}")
    for name in names:
        row = "".join(f"{error:11.3e}" for error in frequency_errors[name])
        print(f"{name:20s}{row}{order(frequency_errors[name]):9.2f}")
    print(f"\nlargest difference of the displacements up to t = {end:g}, h = {h:.3g}")
    for name, difference in differences.items():
        print(f"{name:46s}{np.abs(difference).max():10.1e}")
    output.mkdir(parents=True, exist_ok=True)
    draw(bar, runs, h * np.arange(steps + 1), errors, output / "self_starting.png")
    print(f"\npicture: {output / 'self_starting.png'}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
