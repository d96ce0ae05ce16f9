"""MFEM with the work of the lumped case of benchmarks/acoustic.py; prints one JSON line.

python benchmarks/peers/mfem_acoustic.py lumped DIM [--n N] [--steps STEPS]

Partial assembly of the stiffness on Gauss-Lobatto points, a diagonal mass, and leapfrog.
"""

import argparse
import json
import math
import resource
import time

import mfem.ser as mfem
import numpy as np


class Wave(mfem.PyCoefficient):
    """The product of sines."""

    def EvalValue(self, x):
        """At one point."""
        return float(np.prod(np.sin(np.pi * np.asarray(x))))


def main():
    """Measure one case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=["lumped"])
    parser.add_argument("dim", type=int)
    parser.add_argument("--n", type=int)
    parser.add_argument("--degree", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--dt", type=float)
    args = parser.parse_args()
    dim, n = args.dim, args.n or (128 if args.dim == 2 else 16)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch = time.perf_counter()
    if dim == 2:
        mesh = mfem.Mesh.MakeCartesian2D(n, n, mfem.Element.QUADRILATERAL, True, 1.0, 1.0)
        geometry = mfem.Geometry.SQUARE
    else:
        mesh = mfem.Mesh.MakeCartesian3D(n, n, n, mfem.Element.HEXAHEDRON, 1.0, 1.0, 1.0)
        geometry = mfem.Geometry.CUBE
    collection = mfem.H1_FECollection(args.degree, dim)
    fes = mfem.FiniteElementSpace(mesh, collection)
    rules = mfem.IntegrationRules(0, mfem.Quadrature1D.GaussLobatto)
    rule = rules.Get(geometry, 2 * args.degree - 1)
    one = mfem.ConstantCoefficient(1.0)
    marker = mfem.intArray([1] * mesh.bdr_attributes.Max())
    clamped = mfem.intArray()
    fes.GetEssentialTrueDofs(marker, clamped)

    def form(integrator):
        integrator.SetIntRule(rule)
        a = mfem.BilinearForm(fes)
        a.SetAssemblyLevel(mfem.AssemblyLevel_PARTIAL)
        a.AddDomainIntegrator(integrator)
        a.Assemble()
        return a

    stiffness, mass = form(mfem.DiffusionIntegrator(one)), form(mfem.MassIntegrator(one))
    K = mfem.OperatorPtr()
    stiffness.FormSystemMatrix(clamped, K)
    size = fes.GetTrueVSize()
    diagonal = mfem.Vector(size)
    mass.AssembleDiagonal(diagonal)
    space = time.perf_counter() - watch
    watch = time.perf_counter()
    scale = 1 / diagonal.GetDataArray()
    scale[np.array(clamped.ToList())] = 0.0
    u, v, r = mfem.GridFunction(fes), mfem.Vector(size), mfem.Vector(size)
    u.ProjectCoefficient(Wave())
    start = time.perf_counter() - watch
    initial = u.GetDataArray().copy()
    force, operator = r.GetDataArray(), K.Ptr()
    dt = args.dt or 0.3 / n / args.degree**2
    v.Assign(0.0)
    operator.Mult(u, r)
    force *= scale
    v.Add(-dt / 2, r)

    def step():
        u.Add(dt, v)
        operator.Mult(u, r)
        np.multiply(force, scale, out=force)
        v.Add(-dt, r)

    for _ in range(args.steps):
        step()
    times = []
    for _ in range(args.chunks):
        watch = time.perf_counter()
        for _ in range(args.steps):
            step()
        times.append((time.perf_counter() - watch) / args.steps)
    count = (args.chunks + 1) * args.steps
    exact = math.cos(math.pi * math.sqrt(dim) * count * dt) * initial
    error = np.linalg.norm(u.GetDataArray() - exact) / np.linalg.norm(initial)
    print(
        json.dumps(
            {
                "code": "mfem",
                "method": "lumped",
                "dim": dim,
                "n": n,
                "unknowns": size,
                "space": space,
                "start": start,
                "bind": 0.0,
                "step": min(times),
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "imports": base / 1024,
                "error": error,
            }
        )
    )


if __name__ == "__main__":
    main()
