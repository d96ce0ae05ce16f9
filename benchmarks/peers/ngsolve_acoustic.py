"""NGSolve with the work of one case of benchmarks/acoustic.py; prints one JSON line.

python benchmarks/peers/ngsolve_acoustic.py cg|hdg|primal|mixed DIM [--n N] [--steps STEPS]
"""

import argparse
import json
import math
import resource
import time

import ngsolve as ng
from ngsolve import dx, grad, specialcf
from ngsolve.meshes import MakeStructured2DMesh, MakeStructured3DMesh

SIZES = {
    "cg": ((128, 12), (3, 3)),
    "hdg": ((96, 8), (3, 3)),
    "primal": ((96, 8), (3, 3)),
    "mixed": ((96, 10), (2, 1)),
}


def condensed_midpoint(a, fes, M, u_of, dt):
    """The static condensation of `a` as one solver, with NGSolve's own pieces."""
    a.Assemble()
    inverse = a.mat.Inverse(fes.FreeDofs(coupling=True), inverse="sparsecholesky")
    r, t, x = (a.mat.CreateColVector() for _ in range(3))

    def solve(f, out):
        # f + H' f, the facet solve, the extension, and the inner part
        r.data = f + a.harmonic_extension_trans * f
        x.data = inverse * r
        t.data = x + a.harmonic_extension * x
        out.data = t + a.inner_solve * f

    return solve


def cg(mesh, degree, dt):
    """H1: r -= dt K u, (M + dt^2/4 K) v = r, u += dt v."""
    watch = time.perf_counter()
    fes = ng.H1(mesh, order=degree, dirichlet=".*")
    u, w = fes.TnT()
    K = ng.BilinearForm(grad(u) * grad(w) * dx, symmetric=True).Assemble().mat
    M = ng.BilinearForm(u * w * dx, symmetric=True).Assemble().mat
    space = time.perf_counter() - watch
    watch = time.perf_counter()
    A = M.CreateMatrix()
    A.AsVector().data = M.AsVector() + dt * dt / 4 * K.AsVector()
    inverse = A.Inverse(fes.FreeDofs(), inverse="sparsecholesky")
    bind = time.perf_counter() - watch
    x, r, v = (A.CreateColVector() for _ in range(3))
    x.SetRandom()
    r[:] = 0

    def step():
        r.data -= dt * (K * x)
        v.data = inverse * r
        x.data += dt * v

    return fes.ndof, space, bind, step, lambda: v.data.__class__ and ng.Norm(v), inverse, r, v


def hdg(mesh, degree, dt):
    """q, u in L2 and the trace on facets, condensed: r -= dt K u by the static part, then a solve.

    The midpoint step solves [M + dt^2/4 K] v = r with K eliminated through q and the trace.
    """
    watch = time.perf_counter()
    dim = mesh.dim
    Q = ng.VectorL2(mesh, order=degree)
    U = ng.L2(mesh, order=degree)
    F = ng.FacetFESpace(mesh, order=degree, dirichlet=".*")
    fes = Q * U * F
    (q, u, uh), (r, w, wh) = fes.TnT()
    n = specialcf.normal(dim)
    tau, c = 1.0 / math.sqrt(dim), dt * dt / 4
    dS = dx(element_boundary=True)
    # q = c^(1/2) grad u weakly; symmetric: unknowns scaled so that the trace matrix is definite
    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += u * w * dx - c * q * r * dx
    a += c * (grad(u) * r + grad(w) * q) * dx
    a += c * (-(u - uh) * (r * n) - (w - wh) * (q * n)) * dS
    a += c * tau * (u - uh) * (w - wh) * dS
    a.Assemble()
    space = time.perf_counter() - watch
    watch = time.perf_counter()
    inverse = a.mat.Inverse(fes.FreeDofs(coupling=True), inverse="sparsecholesky")
    bind = time.perf_counter() - watch
    f, g, s, t = (a.mat.CreateColVector() for _ in range(4))
    part = fes.Range(1)
    mass = U.Mass(1)
    x, v, load = (U.Mass(1).CreateColVector() for _ in range(3))
    x.SetRandom()
    v[:] = 0
    f[:] = 0

    def step():
        # The midpoint value z of u solves M z + c K z = M (u + dt/2 v).
        load.data = x + dt / 2 * v
        f[part].data = mass * load
        g.data = f + a.harmonic_extension_trans * f
        s.data = inverse * g
        t.data = s + a.harmonic_extension * s
        t.data += a.inner_solve * f
        load.data = t[part] - x
        x.data += 2 * load
        v.data = 4 / dt * load - v

    return U.ndof, space, bind, step, lambda: ng.Norm(v), inverse, g, s


def primal(mesh, degree, dt):
    """u in L2 and the trace on facets, interior penalty, condensed."""
    watch = time.perf_counter()
    U = ng.L2(mesh, order=degree)
    F = ng.FacetFESpace(mesh, order=degree, dirichlet=".*")
    fes = U * F
    (u, uh), (w, wh) = fes.TnT()
    n, h = specialcf.normal(mesh.dim), specialcf.mesh_size
    c, dS = dt * dt / 4, dx(element_boundary=True)
    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += u * w * dx + c * grad(u) * grad(w) * dx
    a += c * (-(grad(u) * n) * (w - wh) - (grad(w) * n) * (u - uh)) * dS
    a += c * 4 * (degree + 1) ** 2 / h * (u - uh) * (w - wh) * dS
    a.Assemble()
    space = time.perf_counter() - watch
    watch = time.perf_counter()
    inverse = a.mat.Inverse(fes.FreeDofs(coupling=True), inverse="sparsecholesky")
    bind = time.perf_counter() - watch
    f, g, s, t = (a.mat.CreateColVector() for _ in range(4))
    part = fes.Range(0)
    mass = U.Mass(1)
    x, v, load = (mass.CreateColVector() for _ in range(3))
    x.SetRandom()
    v[:] = 0
    f[:] = 0

    def step():
        load.data = x + dt / 2 * v
        f[part].data = mass * load
        g.data = f + a.harmonic_extension_trans * f
        s.data = inverse * g
        t.data = s + a.harmonic_extension * s
        t.data += a.inner_solve * f
        load.data = t[part] - x
        x.data += 2 * load
        v.data = 4 / dt * load - v

    return U.ndof, space, bind, step, lambda: ng.Norm(v), inverse, g, s


def mixed(mesh, degree, dt):
    """Raviart-Thomas x L2: q += dt M_q^-1 B'v, v -= dt M_v^-1 B q."""
    watch = time.perf_counter()
    V = ng.HDiv(mesh, order=degree, RT=True)
    Q = ng.L2(mesh, order=degree)
    q, r = V.TnT()
    v, w = Q.TnT()
    M = ng.BilinearForm(q * r * dx, symmetric=True).Assemble().mat
    B = ng.BilinearForm(trialspace=V, testspace=Q)
    B += ng.div(q) * w * dx
    B = B.Assemble().mat
    space = time.perf_counter() - watch
    watch = time.perf_counter()
    inverse = M.Inverse(V.FreeDofs(), inverse="sparsecholesky")
    mass = Q.Mass(1).Inverse()
    bind = time.perf_counter() - watch
    transpose = B.T
    x, f, dq = (M.CreateColVector() for _ in range(3))
    y, g = (B.CreateColVector() for _ in range(2))
    y.SetRandom()
    x[:] = 0

    def step():
        f.data = transpose * y
        dq.data = inverse * f
        x.data -= dt * dq
        g.data = B * x
        y.data += dt * (mass * g)

    return V.ndof + Q.ndof, space, bind, step, lambda: ng.Norm(y), inverse, f, dq


def main():
    """Measure one case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=SIZES)
    parser.add_argument("dim", type=int)
    parser.add_argument("--n", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--dt", type=float)
    args = parser.parse_args()
    ng.SetNumThreads(1)
    n = args.n or SIZES[args.method][0][args.dim - 2]
    degree = SIZES[args.method][1][args.dim - 2]
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch = time.perf_counter()
    if args.dim == 2:
        mesh = MakeStructured2DMesh(quads=False, nx=n, ny=n)
    else:
        mesh = MakeStructured3DMesh(hexes=False, nx=n, ny=n, nz=n)
    meshed = time.perf_counter() - watch
    dt = args.dt or (0.05 / n / (degree + 1) ** 2 if args.method == "mixed" else 0.5 / n)
    unknowns, space, bind, step, norm, inverse, r, x = globals()[args.method](mesh, degree, dt)
    for _ in range(3):
        step()
    times = []
    for _ in range(args.chunks):
        watch = time.perf_counter()
        for _ in range(args.steps):
            step()
        times.append((time.perf_counter() - watch) / args.steps)
    solves = []
    for _ in range(10):
        watch = time.perf_counter()
        x.data = inverse * r
        solves.append(time.perf_counter() - watch)
    value = norm()
    if not math.isfinite(value):
        raise SystemExit("NGSolve's run blew up.")
    print(
        json.dumps(
            {
                "code": "ngsolve",
                "method": args.method,
                "dim": args.dim,
                "n": n,
                "unknowns": unknowns,
                "space": meshed + space,
                "bind": bind,
                "step": min(times),
                "solve": min(solves),
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "imports": base / 1024,
                "norm": value,
            }
        )
    )


if __name__ == "__main__":
    main()
