"""Motions without force, and how their momenta are kept free of round-off."""

from __future__ import annotations

from collections.abc import Sequence

from petsc4py import PETSc

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


class Kernel:
    """The kernel W of K, with W'MW = 1: motions without force, whose momenta W'Mv are conserved.

    Round-off of solves makes momenta drift; what is solved for is corrected in W, where the answer
    is known, and the part of u in W is taken away before K is applied to it.
    """

    def __init__(self, vectors: Sequence[PETSc.Vec], M: PETSc.Mat) -> None:
        self.W: list[PETSc.Vec] = []
        self.MW: list[PETSc.Vec] = []
        for vector in vectors:
            w, Mw = vector.copy(), vector.duplicate()
            for _ in range(2):  # twice is enough
                self.remove(w)
            M.mult(w, Mw)
            norm = np.sqrt(w.dot(Mw))
            if not norm > 1e-10 * np.sqrt(abs(vector.norm() ** 2)):
                raise ValueError("the vectors of the kernel are linearly dependent.")
            w.scale(1 / norm)
            Mw.scale(1 / norm)
            self.W.append(w)
            self.MW.append(Mw)

    def remove(self, x: PETSc.Vec) -> None:
        """Take W's part away: W'Mx = 0."""
        if self.W:
            self.take(x)

    def take(self, x: PETSc.Vec) -> Numbers:
        """Take W's part away, and say how much of each it was: W'Mx."""
        parts = self.parts(x)
        x.maxpy(-parts, self.W)
        return parts

    def parts(self, x: PETSc.Vec) -> Numbers:
        """W'Mx."""
        return np.asarray(x.mDot(self.MW))

    def give(self, parts: Numbers, x: PETSc.Vec) -> None:
        """Correct x such that W'Mx = parts."""
        x.maxpy(parts - self.parts(x), self.W)

    def match(self, x: PETSc.Vec, r: PETSc.Vec) -> None:
        """Correct x such that W'Mx = W'r."""
        self.give(np.asarray(r.mDot(self.W)), x)

    def balance(self, f: PETSc.Vec) -> Numbers:
        """Take away what of a force pushes the body as a whole, and say how much: W'f = 0."""
        parts = np.asarray(f.mDot(self.W))
        f.maxpy(-parts, self.MW)
        return parts
