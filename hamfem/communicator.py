"""Which communicator messages go through."""

from __future__ import annotations

from mpi4py import MPI


def lasting(comm: MPI.Comm) -> MPI.Comm:
    """The world, or this rank alone, if that is what the communicator stands for.

    DOLFINx and PETSc duplicate communicators and free them with the last object on them. mpi4py
    ties a lock to each communicator that it sends Python objects through, and freeing that lock
    while an exception is on its way hangs (mpi4py 4.0): an error in hf.Acoustic(hf.box(...), ...)
    would never be seen. The world outlives all exceptions.
    """
    for known in (MPI.COMM_WORLD, MPI.COMM_SELF):
        if MPI.Comm.Compare(comm, known) in (MPI.IDENT, MPI.CONGRUENT):
            return known
    return comm
