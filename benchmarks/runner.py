"""hamfem against NGSolve and MFEM, in turn on one core: what run_acoustic and its like share."""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUN = str(HERE.parent / "docker" / "run")
WHEELS = {"ngsolve": "ngsolve==6.2.2608", "mfem": "mfem==4.10.0.1"}
TIMES = ("space", "start", "limit", "bind", "step", "solve", "products", "memory")
HELP = """
METHODS are {methods} (all by default);
`{first}2` is {first} in 2D only. hamfem runs in the image through docker/run, the peers on the
host, from wheels in a virtual environment that is made at first use in hamfem's cache. Every case
is a process of its own; of several rounds the best times count. Only ratios mean anything on a
shared machine.
"""


@dataclass(frozen=True)
class Peer:
    """What a peer runs beside a method, and the ratios of steps to reach in 2D and 3D."""

    code: str
    method: str
    bars: tuple[float, float]


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes:
        growth: Cells in each direction for the growth with the unknowns, in 2D and 3D.
        peers: What stands beside it.
        options: More options of hamfem's script where the mesh grows.
        ranks: Cells in each direction for two ranks against one, in 2D and 3D, if measured.
    """

    growth: tuple[tuple[int, ...], tuple[int, ...]]
    peers: list[Peer] = field(default_factory=list)
    options: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()


def environment():
    """The interpreter of the peers and the codes that it has."""
    cache = os.environ.get("HAMFEM_CACHE")
    if not cache:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hamfem"
    place = Path(cache) / "peers"
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
    found = []
    for code, wheel in WHEELS.items():
        test = [python, "-c", f"import {code}"]
        if subprocess.run(test, capture_output=True, check=False).returncode:
            print(f"installing {wheel} for the comparison", file=sys.stderr)
            command = [python, "-m", "pip", "install", "--quiet", wheel, "numpy", "scipy"]
            subprocess.run(command, capture_output=True, check=False)
        if subprocess.run(test, capture_output=True, check=False).returncode:
            print(f"{code} could not be installed ({wheel}): its rows are left out.")
        else:
            found.append(code)
    return str(python), found


def measured(command, core):
    """The JSON line of one process, or None with its complaint printed."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        ["taskset", "-c", core, *command],
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode or not lines:
        complaint = (result.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"failed: {' '.join(map(str, command[-4:]))}: {complaint}", flush=True)
        return None
    return json.loads(lines[-1])


def best(records):
    """One record with the least of every time."""
    records = [r for r in records if r]
    if not records:
        return None
    result = dict(records[-1])
    for name in TIMES:
        values = [r[name] for r in records if name in r]
        if values:
            result[name] = min(values)
    for name in ("of_read", "of_copy"):
        if name in result:
            result[name] = max(r[name] for r in records)
    return result


def ours(physics, method, dim, core, *options, command=("python",)):
    """One case of hamfem."""
    script = str(HERE / f"{physics}.py")
    return measured([RUN, *command, script, method, str(dim), *options], core)


def theirs(python, physics, peer, record, core):
    """One case of a peer with the mesh, the degree and the step of hamfem's record."""
    script = str(HERE / "peers" / f"{peer.code}_waves.py")
    command = [python, script, physics, peer.method, str(record["dim"])]
    for name in ("n", "degree", "dt"):
        command += [f"--{name}", repr(record[name])]
    return measured(command, core)


# Title, width, format and value of the columns of numbers.
COLUMNS = (
    ("step, ms", 9, "9.3f", lambda r: 1e3 * r["step"]),
    ("ns/unkn.", 9, "9.1f", lambda r: 1e9 * r["step"] / r["unknowns"]),
    ("solve, ms", 9, "9.3f", lambda r: 1e3 * r["solve"]),
    ("products", 9, "9.3f", lambda r: r["step"] / r["products"]),
    ("space, s", 8, "8.2f", lambda r: r["space"]),
    ("start, s", 8, "8.2f", lambda r: r["start"]),
    ("limit, s", 8, "8.2f", lambda r: r["limit"]),
    ("bind, s", 8, "8.2f", lambda r: r["bind"]),
    ("MB", 8, "8.0f", lambda r: r["memory"]),
    ("MB - imp", 8, "8.0f", lambda r: r["memory"] - r["imports"]),
    ("of read", 8, "8.2f", lambda r: r["of_read"]),
    ("of copy", 8, "8.2f", lambda r: r["of_copy"]),
    ("error", 9, "9.1e", lambda r: r["error"]),
)


def row(r):
    """One line of the table, with a dash for what was not measured."""
    code = r["code"] if r.get("ranks", 1) == 1 else f"{r['code']} x{r['ranks']}"
    case = f"{r['method']} {r['dim']}D"
    print(f"{case:15s} {code:9s} {r['unknowns']:9d}", end="")
    for _, width, form, value in COLUMNS:
        try:
            print(f" {value(r):{form}}", end="")
        except KeyError:
            print(f" {'-':>{width}s}", end="")
    print(flush=True)


def head():
    """The titles."""
    print(f"{'case':15s} {'code':9s} {'unknowns':>9s}", end="")
    print("".join(f" {title:>{width}s}" for title, width, _, _ in COLUMNS))


def compare(physics, name, method, dim, options, python, found):
    """Print the rows of one case and their ratios."""
    peers = [p for p in method.peers if p.code in found]
    own, others = [], [[] for _ in peers]
    for _ in range(options.rounds):
        record = ours(physics, name, dim, options.core)
        if record is None:
            continue
        own.append(record)
        for peer, records in zip(peers, others):
            records.append(theirs(python, physics, peer, record, options.core))
    a = best(own)
    if a is None:
        return
    row(a)
    for peer, records in zip(peers, others):
        b = best(records)
        if b is None:
            continue
        row(b)
        set_up = [r["space"] + r["bind"] for r in (a, b)]
        print(
            f"{'':15s} ratio: step {a['step'] / b['step']:.2f} (to reach {peer.bars[dim - 2]}),"
            f" set-up {set_up[0] / set_up[1]:.2f}, memory {a['memory'] / b['memory']:.2f}, without"
            f" imports {(a['memory'] - a['imports']) / (b['memory'] - b['imports']):.2f}",
            flush=True,
        )


def growth(physics, name, method, dim, options):
    """From 10^4 to 10^6 unknowns, or as far as a direct solver should go."""
    first = None
    for n in method.growth[dim - 2]:
        r = ours(physics, name, dim, options.core, "--n", str(n), *method.options)
        if r is None:
            continue
        row(r)
        per = r["step"] / r["unknowns"]
        first = first or per
        print(f"{'':15s} time per step and unknown against the smallest: {per / first:.2f}")


def ranks(physics, name, method, dim):
    """Two ranks against one with 10^6 unknowns."""
    more = ["--n", str(method.ranks[dim - 2]), *method.options]
    mpirun = ("mpirun", "-n", "2", "--bind-to", "none", "python")
    one = ours(physics, name, dim, "0", *more)
    two = ours(physics, name, dim, "0,1", *more, command=mpirun)
    if one and two:
        row(one)
        row(two)
        print(f"{'':15s} efficiency {one['step'] / two['step'] / 2:.2f} (to reach 0.85)")


def main(physics, title, methods):
    """Print the tables of all methods of a physics, by the command line."""
    names = HELP.format(methods=", ".join(methods), first=next(iter(methods)))
    parser = argparse.ArgumentParser(
        description=title + names, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("methods", nargs="*", metavar="METHODS", default=list(methods))
    parser.add_argument("--rounds", type=int, default=1, help="rounds; the best times count")
    parser.add_argument("--core", default="0", help="the core on which all of it runs")
    parser.add_argument("--growth", action="store_true", help="also the growth with the unknowns")
    parser.add_argument("--ranks", action="store_true", help="also two ranks against one")
    parser.add_argument("--no-peers", action="store_true", help="hamfem alone")
    parser.add_argument("--no-table", action="store_true", help="growth and ranks alone")
    options = parser.parse_args()
    cases = [
        (name, method, dim)
        for name, method in methods.items()
        for dim in (2, 3)
        if name in options.methods or f"{name}{dim}" in options.methods
    ]
    if not cases:
        parser.error(f"methods are {', '.join(methods)}, each with 2 or 3 behind it or not.")
    if not options.no_table:
        python, found = ("", []) if options.no_peers else environment()
        head()
        for case in cases:
            compare(physics, *case, options, python, found)
    if options.growth:
        print("\ngrowth of hamfem")
        head()
        for case in cases:
            growth(physics, *case, options)
    if options.ranks:
        print("\ntwo ranks against one")
        head()
        for name, method in methods.items():
            for dim in (2, 3) if method.ranks else ():
                ranks(physics, name, method, dim)
