"""What the peers measure alike, so that each of them only has to say what a step is."""

import argparse
import json
import resource
import time
from dataclasses import dataclass


def arguments(description, methods):
    """The command line, which a runner fills in from hamfem's case."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("physics", choices=["acoustic", "elastic", "maxwell"])
    parser.add_argument("method", choices=methods)
    parser.add_argument("dim", type=int, choices=[2, 3])
    parser.add_argument("--n", type=int, required=True, help="cells in each direction")
    parser.add_argument("--degree", type=int, required=True)
    parser.add_argument("--dt", type=float, required=True)
    parser.add_argument("--steps", type=int, default=20, help="steps in a chunk")
    parser.add_argument("--chunks", type=int, default=4, help="chunks; the best one counts")
    return parser.parse_args()


def memory():
    """The largest resident set up to now, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def best(work, rounds):
    """The least time of a call."""
    times = []
    for _ in range(rounds):
        watch = time.perf_counter()
        work()
        times.append(time.perf_counter() - watch)
    return min(times)


class Watch:
    """Seconds of one phase after the other."""

    def __init__(self):
        self.start = time.perf_counter()

    def __call__(self):
        """Seconds since the last call."""
        last, self.start = self.start, time.perf_counter()
        return self.start - last


@dataclass
class Case:
    """What is marched.

    Attributes:
        unknowns: As hamfem counts them.
        times: Seconds of the set-up: space, start, bind.
        step: Makes a step.
        error: The relative error at a time.
        solve: Makes the sparse solve in a step, or None.
    """

    unknowns: int
    times: dict
    step: object
    error: object
    solve: object = None


def report(code, args, imports, case):
    """March, and print the JSON line."""

    def chunk():
        for _ in range(args.steps):
            case.step()

    chunk()
    step = best(chunk, args.chunks) / args.steps
    peak = memory()
    error = case.error((args.chunks + 1) * args.steps * args.dt)
    record = {"code": code, "method": args.method, "dim": args.dim, "n": args.n}
    record |= {"unknowns": case.unknowns, **case.times, "step": step}
    if case.solve:
        record["solve"] = best(case.solve, 10)
    print(json.dumps(record | {"memory": peak, "imports": imports, "error": error}))
