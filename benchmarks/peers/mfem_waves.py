"""MFEM with the work of the lumped cases of hamfem's benchmarks; prints one JSON line.

python benchmarks/peers/mfem_waves.py acoustic|elastic lumped|sparse DIM --n N --degree K --dt DT

The stiffness on Gauss-Lobatto points, a diagonal mass, and leapfrog: `lumped` by partial assembly,
`sparse` with an assembled matrix, which is the faster one where MFEM's partial assembly does not
factorise the sums, as of ElasticityIntegrator.
"""

import math

import mfem.ser as mfem
import numpy as np
from timing import Case, Watch, arguments, memory, report


class Sines(mfem.PyCoefficient):
    """The product of sines."""

    def EvalValue(self, x):
        """At one point."""
        return float(np.prod(np.sin(np.pi * np.asarray(x))))


class Shear(mfem.VectorPyCoefficient):
    """Lamé's mode."""

    def EvalValue(self, x):
        """At one point."""
        a, b = math.pi * x[0], math.pi * x[1]
        u = [math.cos(a) * math.sin(b), -math.sin(a) * math.cos(b)]
        return u if len(x) == 2 else [*u, 0.0]


def build(args):
    """Set up one case."""
    watch = Watch()
    dim, n, dt, elastic = args.dim, args.n, args.dt, args.physics == "elastic"
    if dim == 2:
        mesh = mfem.Mesh.MakeCartesian2D(n, n, mfem.Element.QUADRILATERAL, True, 1.0, 1.0)
        geometry = mfem.Geometry.SQUARE
    else:
        mesh = mfem.Mesh.MakeCartesian3D(n, n, n, mfem.Element.HEXAHEDRON, 1.0, 1.0, 1.0)
        geometry = mfem.Geometry.CUBE
    collection = mfem.H1_FECollection(args.degree, dim)
    fes = mfem.FiniteElementSpace(mesh, collection, dim if elastic else 1)
    rules = mfem.IntegrationRules(0, mfem.Quadrature1D.GaussLobatto)
    rule = rules.Get(geometry, 2 * args.degree - 1)
    one = mfem.ConstantCoefficient(1.0)
    clamped = mfem.intArray()
    if not elastic:
        marker = mfem.intArray([1] * mesh.bdr_attributes.Max())
        fes.GetEssentialTrueDofs(marker, clamped)

    def form(integrator, partial=True):
        integrator.SetIntRule(rule)
        a = mfem.BilinearForm(fes)
        if partial:
            a.SetAssemblyLevel(mfem.AssemblyLevel_PARTIAL)
        a.AddDomainIntegrator(integrator)
        a.Assemble()
        if not partial:
            a.Finalize()
        return a

    if elastic:
        integrators = mfem.ElasticityIntegrator(one, one), mfem.VectorMassIntegrator(one)
    else:
        integrators = mfem.DiffusionIntegrator(one), mfem.MassIntegrator(one)
    stiffness, mass = form(integrators[0], args.method == "lumped"), form(integrators[1])
    K = mfem.OperatorPtr()
    stiffness.FormSystemMatrix(clamped, K)
    size = fes.GetTrueVSize()
    diagonal = mfem.Vector(size)
    mass.AssembleDiagonal(diagonal)
    space = watch()
    scale = 1 / diagonal.GetDataArray()
    scale[np.array(clamped.ToList(), dtype=int)] = 0.0
    u, v, r = mfem.GridFunction(fes), mfem.Vector(size), mfem.Vector(size)
    u.ProjectCoefficient(Shear(dim) if elastic else Sines())
    start = watch()
    initial = u.GetDataArray().copy()
    force, operator = r.GetDataArray(), K.Ptr()
    v.Assign(0.0)
    operator.Mult(u, r)
    force *= scale
    v.Add(-dt / 2, r)
    # Python must keep alive what the operator points to.
    kept = (mesh, collection, fes, rules, rule, one, clamped, integrators, stiffness, mass, K)

    def step(kept=kept):
        u.Add(dt, v)
        operator.Mult(u, r)
        np.multiply(force, scale, out=force)
        v.Add(-dt, r)

    def error(t):
        frequency = math.pi * math.sqrt(2 if elastic else dim)
        exact = math.cos(frequency * t) * initial
        return np.linalg.norm(u.GetDataArray() - exact) / np.linalg.norm(initial)

    return Case(size, {"space": space, "start": start, "bind": 0.0}, step, error)


if __name__ == "__main__":
    args = arguments(__doc__, ["lumped", "sparse"])
    imports = memory()
    report("mfem", args, imports, build(args))
