"""NGSolve with the work of one case of hamfem's benchmarks; prints one JSON line.

python benchmarks/peers/ngsolve_waves.py PHYSICS METHOD DIM --n N --degree K --dt DT

PHYSICS is acoustic, elastic or maxwell.

METHOD is cg, hdg (mixed), primal (HDG by interior penalty), all by the midpoint rule; for acoustic
waves mixed (Raviart-Thomas, Verlet), for elastic ones hybridised (Arnold-Falk-Winther, midpoint),
for electromagnetic ones edges (E in edge elements, H in discontinuous vectors, Verlet).
"""

import math

import ngsolve as ng
from ngsolve import Grad, InnerProduct, dx, specialcf
from ngsolve.meshes import MakeStructured2DMesh, MakeStructured3DMesh
from timing import Case, Watch, arguments, memory, report


class Acoustic:
    """A clamped membrane or room, u a number, its flux the gradient."""

    held = ".*"
    stiffness = 1.0

    def __init__(self, mesh):
        self.mesh = mesh
        self.frequency = math.pi * math.sqrt(mesh.dim)
        sines = ng.sin(math.pi * ng.x) * ng.sin(math.pi * ng.y)
        self.mode = sines if mesh.dim == 2 else sines * ng.sin(math.pi * ng.z)

    def continuous(self, k):
        """Of u."""
        return ng.H1(self.mesh, order=k, dirichlet=self.held)

    def broken(self, k):
        """Of u."""
        return ng.L2(self.mesh, order=k)

    def facets(self, k):
        """Of the trace of u."""
        return ng.FacetFESpace(self.mesh, order=k, dirichlet=self.held)

    def fluxes(self, k):
        """Of the flux."""
        return ng.VectorL2(self.mesh, order=k)

    def strain(self, u):
        """D u."""
        return Grad(u)

    def flux(self, u):
        """C D u."""
        return Grad(u)

    def compliance(self, q):
        """C^-1 q."""
        return q

    def through(self, u, q, n):
        """The work of the flux q through a wall."""
        return InnerProduct(u, q * n)


class Elastic:
    """A free body with lam = mu = 1, u a vector, its flux the stress."""

    stiffness = 3.0  # lam + 2 mu

    def __init__(self, mesh):
        self.mesh = mesh
        self.frequency = math.pi * math.sqrt(2)
        a, b = math.pi * ng.x, math.pi * ng.y
        u = (ng.cos(a) * ng.sin(b), -ng.sin(a) * ng.cos(b))
        self.mode = ng.CF(u if mesh.dim == 2 else (*u, 0))

    def continuous(self, k):
        """Of u."""
        return ng.VectorH1(self.mesh, order=k)

    def broken(self, k):
        """Of u."""
        return ng.VectorL2(self.mesh, order=k)

    def facets(self, k):
        """Of the trace of u."""
        return ng.FacetFESpace(self.mesh, order=k) ** self.mesh.dim

    def fluxes(self, k):
        """Of the symmetric stress."""
        return ng.MatrixValued(ng.L2(self.mesh, order=k), symmetric=True)

    def strain(self, u):
        """D u."""
        return ng.Sym(Grad(u))

    def flux(self, u):
        """C D u."""
        return 2 * self.strain(u) + ng.div(u) * ng.Id(self.mesh.dim)

    def compliance(self, q):
        """C^-1 q, and q / (2 mu) of a skew q."""
        d = self.mesh.dim
        return q / 2 - 1 / (2 * (2 + d)) * ng.Trace(q) * ng.Id(d)

    def through(self, u, q, n):
        """The work of the flux q through a wall."""
        return InnerProduct(u, q * n)


class Maxwell:
    """A conducting cavity, u the potential A, its flux the curl; in 2D a number."""

    held = ".*"
    stiffness = 1.0
    tau = 10.0

    def __init__(self, mesh):
        self.mesh = mesh
        self.frequency = math.pi * math.sqrt(2)
        if mesh.dim == 3:
            s = ng.sin(math.pi * ng.y) * ng.sin(math.pi * ng.z)
            self.mode = ng.CF((s, 0, 0))
        else:
            a, b = math.pi * ng.x, math.pi * ng.y
            self.mode = math.pi * ng.CF((ng.cos(a) * ng.sin(b), -ng.sin(a) * ng.cos(b)))

    def continuous(self, k):
        """Of u: the edge elements that hold P_k, which NGSolve counts from 1."""
        return ng.HCurl(self.mesh, order=k + 1, type1=True, dirichlet=self.held)

    def broken(self, k):
        """Of u."""
        return ng.VectorL2(self.mesh, order=k)

    def facets(self, k):
        """Of the tangential trace of u."""
        return ng.TangentialFacetFESpace(self.mesh, order=k, dirichlet=self.held)

    def fluxes(self, k):
        """Of the curl."""
        return ng.VectorL2(self.mesh, order=k) if self.mesh.dim == 3 else ng.L2(self.mesh, order=k)

    def strain(self, u):
        """The curl of u."""
        if isinstance(u.space, ng.HCurl):
            return ng.curl(u)
        G = Grad(u)
        if self.mesh.dim == 2:
            return G[1, 0] - G[0, 1]
        return ng.CF((G[2, 1] - G[1, 2], G[0, 2] - G[2, 0], G[1, 0] - G[0, 1]))

    def flux(self, u):
        """The curl of u."""
        return self.strain(u)

    def compliance(self, q):
        """The same q."""
        return q

    def through(self, u, q, n):
        """The work of the flux q through a wall: (n x u).q."""
        if self.mesh.dim == 2:
            return (n[0] * u[1] - n[1] * u[0]) * q
        return InnerProduct(ng.Cross(n, u), q)


def case(physics, unknowns, times, field, step, inverse, r, x):
    """The case, with the field's error in the mean square."""
    mesh, mode, order = physics.mesh, physics.mode, 2 * field.space.globalorder + 2

    def error(t):
        def square(f):
            return ng.Integrate(InnerProduct(f, f), mesh, order=order)

        apart = field - math.cos(physics.frequency * t) * mode
        return math.sqrt(square(apart) / square(mode))

    def solve():
        x.data = inverse * r

    return Case(unknowns, times, step, error, solve)


def cg(physics, degree, dt, watch):
    """(M + dt^2/4 K) v = r, u += dt v, r -= dt K u, where v is at the middle of the step."""
    fes = physics.continuous(degree)
    u, w = fes.TnT()
    form = InnerProduct(physics.flux(u), physics.strain(w)) * dx
    K = ng.BilinearForm(form, symmetric=True).Assemble().mat
    M = ng.BilinearForm(InnerProduct(u, w) * dx, symmetric=True).Assemble().mat
    times = {"space": watch()}
    A = M.CreateMatrix()
    A.AsVector().data = M.AsVector() + dt * dt / 4 * K.AsVector()
    inverse = A.Inverse(fes.FreeDofs(), inverse="sparsecholesky")
    times["bind"] = watch()
    field = ng.GridFunction(fes)
    field.Set(physics.mode)
    x = field.vec
    r, v = (A.CreateColVector() for _ in range(2))
    r.data = -dt / 2 * (K * x)

    def step():
        v.data = inverse * r
        x.data += dt * v
        r.data -= dt * (K * x)

    return case(physics, fes.ndof, times, field, step, inverse, r, v)


def hybrid(physics, c, u, uh, w, wh, q, r, strain):
    """(u, w) + c (flux, stress): what HDG and the hybridised mixed method share."""
    n = specialcf.normal(physics.mesh.dim)
    cells = InnerProduct(u, w) - c * InnerProduct(physics.compliance(q), r)
    cells += c * (InnerProduct(strain(u), r) + InnerProduct(strain(w), q))
    walls = physics.through(u - uh, r, n) + physics.through(w - wh, q, n)
    return cells * dx - c * walls * dx(element_boundary=True)


def along(physics, u):
    """What of u has a trace: of Maxwell's equations the tangential part."""
    if not isinstance(physics, Maxwell):
        return u
    n = specialcf.normal(physics.mesh.dim)
    return u - InnerProduct(u, n) * n


def hdg(physics, degree, dt, watch):
    """Flux q and u in cells, the trace on facets; q and u are condensed."""
    U = physics.broken(degree)
    fes = physics.fluxes(degree) * U * physics.facets(degree)
    (q, u, uh), (r, w, wh) = fes.TnT()
    tau, c = getattr(physics, "tau", 1.0) / math.sqrt(physics.mesh.dim), dt * dt / 4
    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += hybrid(physics, c, u, uh, w, wh, q, r, physics.strain)
    jumps = InnerProduct(along(physics, u - uh), along(physics, w - wh))
    a += c * tau * jumps * dx(element_boundary=True)
    return condensed(physics, a, fes, U, fes.Range(1), U.ndof, dt, watch)


def primal(physics, degree, dt, watch):
    """U in cells and the trace on facets, interior penalty; u is condensed."""
    U = physics.broken(degree)
    fes = U * physics.facets(degree)
    (u, uh), (w, wh) = fes.TnT()
    n, h, c = specialcf.normal(physics.mesh.dim), specialcf.mesh_size, dt * dt / 4
    penalty = 4 * physics.stiffness * (degree + 1) ** 2 / h
    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += (InnerProduct(u, w) + c * InnerProduct(physics.flux(u), physics.strain(w))) * dx
    walls = physics.through(w - wh, physics.flux(u), n) + physics.through(
        u - uh, physics.flux(w), n
    )
    walls -= penalty * InnerProduct(along(physics, u - uh), along(physics, w - wh))
    a += -c * walls * dx(element_boundary=True)
    return condensed(physics, a, fes, U, fes.Range(0), U.ndof, dt, watch)


def hybridised(physics, degree, dt, watch):
    """Elastic: stress in P_(k+1), u and rotation in P_k in cells, traces in P_(k+1) on facets."""
    mesh, c = physics.mesh, dt * dt / 4
    S, U = ng.MatrixValued(ng.L2(mesh, order=degree + 1)), physics.broken(degree)
    F = physics.facets(degree + 1)
    rotations = ng.L2(mesh, order=degree) if mesh.dim == 2 else ng.VectorL2(mesh, order=degree)
    fes = S * U * rotations * F
    (q, u, p, uh), (r, w, s, wh) = fes.TnT()

    def skew(q):
        if mesh.dim == 2:
            return q[0, 1] - q[1, 0]
        return ng.CF((q[1, 2] - q[2, 1], q[2, 0] - q[0, 2], q[0, 1] - q[1, 0]))

    a = ng.BilinearForm(fes, symmetric=True, condense=True)
    a += hybrid(physics, c, u, uh, w, wh, q, r, Grad)
    a += -c * (InnerProduct(skew(r), p) + InnerProduct(skew(q), s)) * dx
    unknowns = S.ndof - F.ndof + U.ndof
    return condensed(physics, a, fes, U, fes.Range(1), unknowns, dt, watch)


def condensed(physics, a, fes, U, part, unknowns, dt, watch):
    """The midpoint rule by static condensation: M z + c K z = M (u + dt/2 v) for the middle z."""
    a.Assemble()
    times = {"space": watch()}
    inverse = a.mat.Inverse(fes.FreeDofs(coupling=True), inverse="sparsecholesky")
    times["bind"] = watch()
    f, g, s, t = (a.mat.CreateColVector() for _ in range(4))
    mass = U.Mass(1)
    field = ng.GridFunction(U)
    field.Set(physics.mode)
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

    return case(physics, unknowns, times, field, step, inverse, g, s)


def mixed(physics, degree, dt, watch):
    """Acoustic: Raviart-Thomas x L2: v += dt M_v^-1 B q, q -= dt M_q^-1 B'v."""
    V = ng.HDiv(physics.mesh, order=degree, RT=True)
    Q = physics.broken(degree)
    q, r = V.TnT()
    w = Q.TestFunction()
    M = ng.BilinearForm(q * r * dx, symmetric=True).Assemble().mat
    B = ng.BilinearForm(trialspace=V, testspace=Q)
    B += ng.div(q) * w * dx
    B = B.Assemble().mat
    times = {"space": watch()}
    inverse = M.Inverse(V.FreeDofs(), inverse="sparsecholesky")
    mass = Q.Mass(1).Inverse()
    times["bind"] = watch()
    transpose = B.T
    x, f, dq = (M.CreateColVector() for _ in range(3))
    field = ng.GridFunction(Q)
    field.Set(physics.mode)
    y, g = field.vec, B.CreateColVector()
    f.data = transpose * y
    x.data = -dt / 2 * (inverse * f)

    def step():
        g.data = B * x
        y.data += dt * (mass * g)
        f.data = transpose * y
        dq.data = inverse * f
        x.data -= dt * dq

    return case(physics, V.ndof + Q.ndof, times, field, step, inverse, f, dq)


def edges(physics, degree, dt, watch):
    """Maxwell: E in edge elements, H in discontinuous vectors, by Verlet."""
    V, Q = physics.continuous(degree), physics.fluxes(degree)
    v, w = V.TnT()
    r = Q.TestFunction()
    M = ng.BilinearForm(InnerProduct(v, w) * dx, symmetric=True).Assemble().mat
    C = ng.BilinearForm(trialspace=V, testspace=Q)
    C += InnerProduct(ng.curl(v), r) * dx
    C = C.Assemble().mat
    times = {"space": watch()}
    inverse = M.Inverse(V.FreeDofs(), inverse="sparsecholesky")
    mass = Q.Mass(1).Inverse()
    times["bind"] = watch()
    transpose = C.T
    field = ng.GridFunction(V)
    field.Set(physics.mode)
    y, x, g = field.vec, C.CreateColVector(), C.CreateColVector()
    f, dv = (M.CreateColVector() for _ in range(2))
    g.data = C * y
    x.data = dt / 2 * (mass * g)

    def step():
        f.data = transpose * x
        dv.data = inverse * f
        y.data -= dt * dv
        g.data = C * y
        x.data += dt * (mass * g)

    return case(physics, V.ndof + Q.ndof, times, field, step, inverse, f, dv)


METHODS = {f.__name__: f for f in (cg, hdg, primal, hybridised, mixed, edges)}


def main():
    """Measure one case."""
    args = arguments(__doc__, METHODS)
    ng.SetNumThreads(1)
    imports, n, watch = memory(), args.n, Watch()
    if args.dim == 2:
        mesh = MakeStructured2DMesh(quads=False, nx=n, ny=n)
    else:
        mesh = MakeStructured3DMesh(hexes=False, nx=n, ny=n, nz=n)
    physics = {"acoustic": Acoustic, "elastic": Elastic, "maxwell": Maxwell}[args.physics](mesh)
    report("ngsolve", args, imports, METHODS[args.method](physics, args.degree, args.dt, watch))


if __name__ == "__main__":
    main()
