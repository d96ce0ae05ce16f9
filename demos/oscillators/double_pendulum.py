# # A double pendulum: Simpson's integrator, and a published table computed again
#
# Two equal masses hang on two equal rods, one below the other, and swing a little:
# M q'' + K q = 0 for the two angles q, with momenta p = M q'. The exact solution is a sum of two
# cosines. Three methods march it: Newmark's (1/2, 1/4), of order 2, which conserves the energy to
# round-off; Simpson's variational integrator, of order 4, whose energy oscillates and which
# conserves a quadratic form phi instead; and the classical Runge-Kutta method, of order 4, which
# loses energy all the time.
#
# The example is that of Rojas-Quintero, Dubois, Cabrera-Díaz: Simpson's variational integrator for
# systems with quadratic Lagrangians, Axioms 13 (2024) 255. Its Table 2 is printed here beside our
# numbers. They agree if one reads the paper so:
#
# * the period is 2 pi/omega_0 = 1 s (the paper prints 1/omega_0);
# * m = 1 kg and g = 9.81 m/s², hence l = g/omega_0² = 0.2485 m; p is proportional to m l²;
# * an error is the largest Euclidean norm of the two numbers q - q_exact, or p - p_exact, over all
#   steps; the order is log(e_1/e_3)/log 4 of the first and third errors of a row.
#
# Many printed numbers are cut after their last digit instead of rounded (1.03 for 1.03997); that
# explains them. A few are not those of these methods; they are marked, and listed below the table.
# For long times an error ends at the size of the motion itself, when the phase is lost. There the
# "order" of a row says nothing more about the method: Newmark's falls to 0, Simpson's to 3.
#
#     docker/run python demos/oscillators/double_pendulum.py
#     docker/run python demos/oscillators/double_pendulum.py --longest 100

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from mpi4py import MPI

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer

import hamfem as hf

METHODS = {"Newmark": hf.Newmark(), "RK4": hf.RK4(), "Simpson": hf.Simpson()}
COLOURS = {"Newmark": "tab:blue", "RK4": "tab:orange", "Simpson": "tab:green"}
MARKERS = {"Newmark": "s", "RK4": "^", "Simpson": "o"}

# ## The pendulum

OMEGA = 2 * np.pi  # omega_0: the period is one second
GRAVITY, MASS = 9.81, 1.0
LENGTH = GRAVITY / OMEGA**2
M = MASS * LENGTH**2 * np.array([[2.0, 1.0], [1.0, 1.0]])
K = MASS * GRAVITY * LENGTH * np.diag([2.0, 1.0])
START = np.array([0.0, np.pi / 6])  # the angles, at rest


def exact(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angles and momenta at the times t, one row for each time."""
    q, v = np.zeros((2, len(t), 2))
    for sign in (-1, 1):
        omega = OMEGA * np.sqrt(2 - sign * np.sqrt(2))
        shape = np.pi / 12 * np.array([sign / np.sqrt(2), 1.0])
        q += np.outer(np.cos(omega * t), shape)
        v -= np.outer(omega * np.sin(omega * t), shape)
    return q, v @ M


def run(
    system: hf.SecondOrder,
    name: str,
    steps: int,
    periods: int,
    watched: tuple[Callable[[hf.State], float], ...] = (),
) -> tuple[np.ndarray, ...]:
    """March with so many steps per period: t, q, p and the watched numbers after each step."""
    state = system.state(START, np.zeros(2))

    def row(state: hf.State) -> tuple[float, ...]:
        return (state.t, *state.q.array, *state.v.array, *(f(state) for f in watched))

    rows = [row(state)]
    for state in hf.march(system, METHODS[name], state, 1 / steps, periods):
        rows.append(row(state))
    values = np.array(rows)
    return values[:, 0], values[:, 1:3], values[:, 3:5] @ M, values[:, 5:]


def errors(system: hf.SecondOrder, name: str, steps: int, periods: int) -> tuple[float, float]:
    """The largest errors of p and of q over all steps."""
    t, q, p, _ = run(system, name, steps, periods)
    q_exact, p_exact = exact(t)
    return np.linalg.norm(p - p_exact, axis=1).max(), np.linalg.norm(q - q_exact, axis=1).max()


# ## Table 2 of the paper, with every digit as it is printed there
#
# The number of periods; then for each method the errors with 10, 20 and 40 steps per period and the
# order, first of p, then of q.

STEPS = (10, 20, 40)
PRINTED = {
    1: {
        "Newmark": ("0.0751 0.0230 0.00606 1.81", "0.342 0.0961 0.0251 1.88"),
        "RK4": ("0.0139 0.000800 0.0000540 4.01", "0.0483 0.00340 0.000200 3.91"),
        "Simpson": ("0.000640 0.0000416 0.00000257 3.98", "0.00201 0.000141 0.00000876 3.92"),
    },
    10: {
        "Newmark": ("0.273 0.206 0.782 0.90", "0.694 0.657 0.244 0.75"),
        "RK4": ("0.0822 0.00990 0.0137 1.29", "0.284 0.0329 0.0157 2.09"),
        "Simpson": ("0.00720 0.000433 0.0000268 4.03", "0.0235 0.00141 0.0000906 4.01"),
    },
    100: {
        "Newmark": ("0.521 0.492 0.223 0.61", "1.02 0.964 0.665 0.31"),
        "RK4": ("0.108 0.0786 0.00640 2.03", "0.328 0.2650 0.0216 1.96"),
        "Simpson": ("0.0705 0.00439 0.000272 4.01", "0.237 0.0147 0.000914 4.01"),
    },
    1000: {
        "Newmark": ("0.545 0.551 0.548 0.00", "1.02 1.03 1.03 0.01"),
        "RK4": ("0.326 0.119 0.0595 1.23", "0.581 0.397 0.200 0.77"),
        "Simpson": ("0.190 0.0438 0.00274 3.06", "0.638 0.147 0.00922 3.06"),
    },
}
# What the printed number is, compared with ours.
MARKS = {"rounded": " ", "cut": "'", "filled": "~", "wrong": "*"}


def verdict(printed: str, ours: float) -> str:
    """How the printed digits come from our number: rounded, cut, cut and filled with 0, or not."""
    value = Decimal(printed)
    lacking = Decimal(ours) - value
    unit = Decimal(1).scaleb(int(value.as_tuple().exponent))  # one in the last printed place
    if abs(lacking) <= unit / 2:
        return "rounded"
    if 0 <= lacking < unit:
        return "cut"
    unit = Decimal(1).scaleb(int(value.normalize().as_tuple().exponent))  # before the last zeros
    return "filled" if 0 <= lacking < unit else "wrong"


Entry = tuple[int, str, str, str, str, float]


def table(system: hf.SecondOrder, longest: int) -> Iterator[Entry]:
    """All entries, row by row: periods, method, p or q, column, the printed number, ours."""
    for periods in (periods for periods in PRINTED if periods <= longest):
        ours = {
            name: np.array([errors(system, name, steps, periods) for steps in STEPS])
            for name in METHODS
        }
        for which, letter in enumerate("pq"):
            for name in METHODS:
                e = ours[name][:, which]
                numbers = [*e, np.log(e[0] / e[2]) / np.log(4)]
                columns = [*(f"h = 1/{steps}" for steps in STEPS), "order"]
                texts = PRINTED[periods][name][which].split()
                for column, text, number in zip(columns, texts, numbers):
                    yield periods, name, letter, column, text, float(number)


def show(number: float, printed: str) -> str:
    """Our number with one digit more than the printed one, to read them side by side."""
    places = -int(Decimal(printed).as_tuple().exponent)
    return f"{number:.{places + 1}f}"


def print_table(entries: list[Entry]) -> None:
    """Ours and the printed one, side by side; then those that differ."""
    print("errors of p and q: ours, then the paper's\n")
    print(f"{'T':>4s} {'method':9s} " + "".join(f"{f'h = 1/{n}':^23s} " for n in STEPS) + "  order")
    for i, (periods, name, letter, column, printed, ours) in enumerate(entries):
        mark = MARKS[verdict(printed, ours)]
        if i % 4 == 0:
            print(f"{periods:4d} {name:7s} {letter} ", end="")
        if column == "order":
            print(f"{show(ours, printed):>6s} {printed}{mark}".rstrip())
        else:
            print(f"{show(ours, printed):>11s} {printed + mark:12s}", end="")
        if i % 24 == 23:
            print()
    found: dict[str, list[Entry]] = {kind: [] for kind in MARKS}
    for entry in entries:
        found[verdict(*entry[-2:])].append(entry)
    print(f"  {len(found['rounded'])} printed numbers are ours, rounded")
    print(f"' {len(found['cut'])} are ours, cut after the last digit, not rounded")
    print(f"~ {len(found['filled'])} are ours, cut early and filled up with zeros:")
    print_list(found["filled"])
    print(f"* {len(found['wrong'])} cannot be reproduced:")
    print_list(found["wrong"])


def print_list(entries: list[Entry]) -> None:
    """One line for each."""
    for periods, name, letter, column, printed, ours in entries:
        place = f"T = {periods}, {name}, {letter}, {column}:"
        print(f"    {place:34s} printed {printed:8s} ours {show(ours, printed)}")


# ## Pictures


def draw_motion(system: hf.SecondOrder, path: Path) -> None:
    """The figures 2 to 7 of the paper: motion, phase portraits, energy and phi."""
    figure, axes = plt.subplots(4, 3, figsize=(17, 15), layout="constrained")
    runs = {name: run(system, name, 10, 10) for name in METHODS}
    fine = np.linspace(0, 10, 2001)
    q, p = exact(fine)
    # rows: periods shown, which of (t, q, p) on the axes, its exact values, its name
    for row, (periods, which, values, letter) in enumerate(
        ((1, 1, q, "q"), (10, 1, q, "q"), (10, 2, p, "p"))
    ):
        for i in range(2):
            axis = axes[row, i]
            shown = fine <= periods
            axis.plot(fine[shown], values[shown, i], "k", lw=1, label="exact")
            for name, data in runs.items():
                n = 10 * periods + 1
                style = {"marker": MARKERS[name], "ms": 5 if periods == 1 else 3, "lw": 0.7}
                axis.plot(data[0][:n], data[which][:n, i], c=COLOURS[name], label=name, **style)
            unit = "rad" if letter == "q" else "kg m²/s"
            axis.set(xlabel="t in periods", ylabel=f"{letter}$_{i + 1}$ in {unit}")
            length = "one period" if periods == 1 else "ten periods"
            axis.set_title(f"{letter}$_{i + 1}$, {length}, h = 1/10")
            axis.margins(x=0.02)
    for i in range(2):
        axis = axes[3, i]
        shown = fine <= 3
        axis.plot(q[shown, i], p[shown, i], "k", lw=1, label="exact")
        for name in ("Newmark", "Simpson"):
            _, q_run, p_run, _ = runs[name]
            axis.plot(q_run[:31, i], p_run[:31, i], c=COLOURS[name], ls="none", label=name,
                      marker=MARKERS[name], ms=4)  # fmt: skip
        axis.set(xlabel=f"q$_{i + 1}$ in rad", ylabel=f"p$_{i + 1}$ in kg m²/s")
        axis.set_title(f"phase portrait of pendulum {i + 1}, three periods, h = 1/10")
    draw_energies(system, axes[:3, 2])
    axis = axes[3, 2]
    for name, (t, q_run, _, _) in runs.items():
        error = np.linalg.norm(q_run - exact(t)[0], axis=1)
        axis.semilogy(t[1:], error[1:], c=COLOURS[name], lw=1, label=name)
    axis.set(title="error of q, h = 1/10", xlabel="t in periods", ylabel="|q - q exact| in rad")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_energies(system: hf.SecondOrder, axes: np.ndarray) -> None:
    """The energy for two steps h, and Simpson's phi for both: relative changes in ten periods."""
    print("\nlargest relative changes in ten periods")
    print(f"{'h':>5s} {'energy: Newmark':>16s} {'RK4':>9s} {'Simpson':>9s} {'phi: Simpson':>14s}")
    for axis, steps in zip(axes, (10, 100)):
        # phi has the unit of an action; times 2/h it is an energy, and that is what hamfem gives
        phi = hf.modified_energy(system, METHODS["Simpson"], 1 / steps)
        changes = {}
        for name in METHODS:
            t, _, _, watched = run(system, name, steps, 10, (system.energy, phi))
            changes[name] = watched / watched[0] - 1
            # zero has no logarithm: a change that is not seen is drawn at 1e-17
            size = np.maximum(np.abs(changes[name][1:, 0]), 1e-17)
            axis.semilogy(t[1:], size, c=COLOURS[name], lw=0.8)
        axis.set(ylim=(3e-18, 10), ylabel="|energy / energy(0) - 1|", xlabel="t in periods")
        axis.set_title(f"energy, h = 1/{steps}")
        colour = {10: "tab:green", 100: "tab:red"}[steps]
        axes[2].plot(t, changes["Simpson"][:, 1], c=colour, lw=0.8, label=f"h = 1/{steps}")
        newmark, rk4, simpson = (np.abs(changes[name]).max(axis=0) for name in METHODS)
        print(
            f"1/{steps:<3d} {newmark[0]:16.1e} {rk4[0]:9.1e} {simpson[0]:9.1e} {simpson[1]:14.1e}"
        )
    axes[2].set(title="phi, which Simpson's integrator conserves", xlabel="t in periods")
    axes[2].set(ylabel="phi / phi(0) - 1")
    axes[2].yaxis.set_major_formatter("{x:.0e}")
    axes[2].legend()


def draw_convergence(system: hf.SecondOrder, entries: list[Entry], path: Path) -> None:
    """Figure 8 of the paper, for q and p, and the last column of Table 2."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 9.5), layout="constrained")
    counts = np.unique(np.round(np.geomspace(10, 1000, 9)).astype(int))
    for name in METHODS:
        found = np.array([errors(system, name, int(n), 1) for n in counts])
        style = {"c": COLOURS[name], "marker": MARKERS[name], "ms": 5, "lw": 1}
        for axis, error in zip(axes[0], found.T[::-1]):
            slope = np.polyfit(np.log(1 / counts), np.log(error), 1)[0]
            axis.loglog(1 / counts, error, label=f"{name}, slope {slope:.2f}", **style)
        for axis, letter in zip(axes[1], "qp"):
            column = [
                (entry[0], entry[5], float(entry[4]))
                for entry in entries
                if entry[1:4] == (name, letter, f"h = 1/{STEPS[-1]}")
            ]
            periods, ours, printed = np.array(column).T
            axis.loglog(periods, ours, label=name, **style)
            axis.loglog(periods, printed, "kx", ms=10)
    for axis, letter in zip(axes[0], "qp"):
        axis.set(title=f"error of {letter}, T = 1", xlabel="h in periods")
    for axis, letter in zip(axes[1], "qp"):
        axis.plot([], [], "kx", ms=10, label="printed in the paper")
        axis.set(title=f"error of {letter}, h = 1/{STEPS[-1]} (Table 2)", xlabel="T in periods")
    for axis, unit in zip(axes.flat, 2 * ("rad", "kg m²/s")):
        axis.set_ylabel(f"largest error in {unit}")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(
    longest: Annotated[int, typer.Option(min=1, help="Leave out longer runs of the table.")] = 1000,
    output: Annotated[Path, typer.Option(help="Directory for the pictures.")] = Path("results"),
) -> None:
    """March a linear double pendulum with three methods and compare with a published table."""
    if MPI.COMM_WORLD.rank:
        return  # two angles are work for one rank
    system = hf.SecondOrder(M, K, comm=MPI.COMM_SELF)
    entries = list(table(system, longest))
    print_table(entries)

    output.mkdir(parents=True, exist_ok=True)
    pictures = output / "double_pendulum.png", output / "double_pendulum_convergence.png"
    draw_motion(system, pictures[0])
    draw_convergence(system, entries, pictures[1])
    for picture in pictures:
        print(f"picture: {picture}")


if __name__ == "__main__":
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(main)
    app()
