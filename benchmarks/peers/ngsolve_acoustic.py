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


def wave(mesh):
    """The product of sines."""
    shape = ng.sin(math.pi * ng.x) * ng.sin(math.pi * ng.y)
    return shape if mesh.dim == 2 else shape * ng.sin(math.pi * ng.z)


def cg(mesh, degree, dt):
    """H1: (M + dt^2/4 K) v = r, u += dt v, r -= dt K u, where v is at the middle of the step."""
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
    field = ng.GridFunction(fes)
    field.Set(wave(mesh))
    x = field.vec
    r, v = (A.CreateColVector() for _ in range(2))
    r.data = -dt / 2 * (K * x)

    def step():
        v.data = inverse * r
        x.data += dt * v
        r.data -= dt * (K * x)

    return fes.ndof, space, bind, step, field, inverse, r, v


def hdg(mesh, degree, dt):
    """Flux q and u in L2, the trace on facets; q and u are condensed."""
    watch = time.perf_counter()
    U = ng.L2(mesh, order=degree)
    fes = ng.VectorL2(mesh, order=degree) * U * ng.FacetFESpace(mesh, order=degree, dirichlet=".*")
    (q, u, uh), (r, w, wh) = fes.TnT()
    n = specialcf.normal(mesh.dim)
    tau, c = 1.0 / math.sqrt(mesh.dim), dt * dt / 4
    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += u * w * dx - c * q * r * dx + c * (grad(u) * r + grad(w) * q) * dx
    a += c * (-(u - uh) * (r * n) - (w - wh) * (q * n)) * dx(element_boundary=True)
    a += c * tau * (u - uh) * (w - wh) * dx(element_boundary=True)
    return condensed(a, fes, U, fes.Range(1), dt, watch)


def primal(mesh, degree, dt):
    """U in L2 and the trace on facets, interior penalty; u is condensed."""
    watch = time.perf_counter()
    U = ng.L2(mesh, order=degree)
    fes = U * ng.FacetFESpace(mesh, order=degree, dirichlet=".*")
    (u, uh), (w, wh) = fes.TnT()
    n, h, c = specialcf.normal(mesh.dim), specialcf.mesh_size, dt * dt / 4
    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += u * w * dx + c * grad(u) * grad(w) * dx
    a += c * (-(grad(u) * n) * (w - wh) - (grad(w) * n) * (u - uh)) * dx(element_boundary=True)
    a += c * 4 * (degree + 1) ** 2 / h * (u - uh) * (w - wh) * dx(element_boundary=True)
    return condensed(a, fes, U, fes.Range(0), dt, watch)


def condensed(a, fes, U, part, dt, watch):
    """The midpoint rule by static condensation: M z + c K z = M (u + dt/2 v) for the middle z."""
    a.Assemble()
    space = time.perf_counter() - watch
    watch = time.perf_counter()
    inverse = a.mat.Inverse(fes.FreeDofs(coupling=True), inverse="sparsecholesky")
    bind = time.perf_counter() - watch
    f, g, s, t = (a.mat.CreateColVector() for _ in range(4))
    mass = U.Mass(1)
    field = ng.GridFunction(U)
    field.Set(wave(U.mesh))
    x = field.vec
    v, z = x.CreateVector(), x.CreateVector()
    v[:] = 0
    f[:] = 0

    def step():
        z.data = x + dt / 2 * v
        f[part].data = mass * z
        g.data = f + a.harmonic_extension_trans * f
        s.data = inverse * g
        t.data = s + a.harmonic_extension * s
        t.data += a.inner_solve * f
        z.data = t[part] - x
        x.data += 2 * z
        v.data *= -1
        v.data += 4 / dt * z

    return U.ndof, space, bind, step, field, inverse, g, s


def mixed(mesh, degree, dt):
    """Raviart-Thomas x L2: v += dt M_v^-1 B q, q -= dt M_q^-1 B'v."""
    watch = time.perf_counter()
    V = ng.HDiv(mesh, order=degree, RT=True)
    Q = ng.L2(mesh, order=degree)
    q, r = V.TnT()
    w = Q.TestFunction()
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
    field = ng.GridFunction(Q)
    field.Set(wave(mesh))
    y, g = field.vec, B.CreateColVector()
    f.data = transpose * y
    x.data = -dt / 2 * (inverse * f)

    def step():
        g.data = B * x
        y.data += dt * (mass * g)
        f.data = transpose * y
        dq.data = inverse * f
        x.data -= dt * dq

    return V.ndof + Q.ndof, space, bind, step, field, inverse, f, dq


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
    unknowns, space, bind, step, field, inverse, r, x = globals()[args.method](mesh, degree, dt)
    for _ in range(args.steps):
        step()
    times = []
    for _ in range(args.chunks):
        watch = time.perf_counter()
        for _ in range(args.steps):
            step()
        times.append((time.perf_counter() - watch) / args.steps)
    steps = (args.chunks + 1) * args.steps
    exact = math.cos(math.pi * math.sqrt(args.dim) * steps * dt) * wave(mesh)
    error = math.sqrt(ng.Integrate((field - exact) ** 2, mesh, order=2 * degree + 2))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    solves = []
    for _ in range(10):
        watch = time.perf_counter()
        x.data = inverse * r
        solves.append(time.perf_counter() - watch)
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
                "memory": memory / 1024,
                "imports": base / 1024,
                "error": error * 2 ** (args.dim / 2),
            }
        )
    )


if __name__ == "__main__":
    main()
