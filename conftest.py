"""One suite for one rank and for many: a failure on one is a failure on all; nothing hangs."""

import gc
import os
import sys
import time

from mpi4py import MPI
from petsc4py import PETSc

import dolfinx.jit
import pytest

# Two tests at a time may want one form: the second waits until the first has compiled it, on a slow
# machine for longer than DOLFINx expects.
if "PYTEST_XDIST_WORKER" in os.environ:
    dolfinx.jit.DOLFINX_DEFAULT_JIT_OPTIONS["timeout"] = (120, "seconds to wait for a compilation")

COMM = MPI.COMM_WORLD.Dup()
# How long a rank that failed waits for the others after a test before it ends the job: it may have
# left them in a collective call that it will never join.
PATIENCE = float(os.environ.get("HAMFEM_TEST_PATIENCE", "60"))
_NOWHERE = pytest.StashKey()
_failures: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Only rank 0 reports; the others hand their failures to it."""
    if COMM.rank > 0:
        sys.stdout = config.stash[_NOWHERE] = open(os.devnull, "w")


def pytest_unconfigure(config):
    """Close what pytest_configure opened."""
    if nowhere := config.stash.get(_NOWHERE, None):
        sys.stdout = sys.__stdout__
        nowhere.close()


def pytest_collection_finish(session):
    """What is there now stays: it need not be looked through after each test."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    """Tests that start processes of their own run on one rank."""
    if COMM.size > 1:
        alone = pytest.mark.skip(reason="starts processes of its own")
        for item in items:
            if item.get_closest_marker("serial"):
                item.add_marker(alone)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Collect the failures of a test from all ranks and report them on each."""
    outcome = yield
    report = outcome.get_result()
    if COMM.size == 1:
        return
    if report.failed:
        _failures.append(f"rank {COMM.rank}, {report.when}:\n{report.longreprtext}")
    if report.when != "teardown":
        return
    _meet(item.nodeid)
    # PETSc objects are destroyed collectively, so all ranks collect them at the same place.
    gc.collect()
    PETSc.garbage_cleanup()
    failures = COMM.allgather("\n".join(_failures))
    elsewhere = [text for rank, text in enumerate(failures) if text and rank != COMM.rank]
    if elsewhere and not _failures:
        report.outcome, report.longrepr = "failed", "\n".join(elsewhere)
    _failures.clear()


def _meet(test: str) -> None:
    """A barrier with a time limit, beyond which the whole job is ended with what is known."""
    request, start = COMM.Ibarrier(), time.monotonic()
    # Only a rank that failed runs out of patience: a slow rank is no error.
    while not request.Test():
        if _failures and time.monotonic() - start > PATIENCE:
            print(
                f"\n{test} failed and the other ranks did not come back:\n" + "\n".join(_failures),
                file=sys.__stderr__,
                flush=True,
            )
            MPI.COMM_WORLD.Abort(1)
        time.sleep(1e-4)


@pytest.fixture
def shared_tmp_path(tmp_path):
    """One temporary directory for all ranks."""
    return MPI.COMM_WORLD.bcast(tmp_path)
