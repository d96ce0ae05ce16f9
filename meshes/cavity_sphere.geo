// The cavity (-1,1)^3 with a spherical scatterer of radius 0.4 at its centre, meshed inside and outside.
SetFactory("OpenCASCADE");
DefineConstant[ h = {0.5, Name "size of the cells at the walls"} ];

Box(1) = {-1, -1, -1, 2, 2, 2};
Sphere(2) = {0, 0, 0, 0.4};
BooleanFragments{ Volume{1}; Delete; }{ Volume{2}; Delete; }
e = 1e-6;
sphere() = Volume In BoundingBox {-0.4-e, -0.4-e, -0.4-e, 0.4+e, 0.4+e, 0.4+e};
all() = Volume{:};
all() -= {sphere()};
Physical Volume("sphere") = {sphere()};
Physical Volume("cavity") = {all()};
Physical Surface("left") = Surface In BoundingBox {-1-e, -1-e, -1-e, -1+e, 1+e, 1+e};
Physical Surface("right") = Surface In BoundingBox {1-e, -1-e, -1-e, 1+e, 1+e, 1+e};
Physical Surface("bottom") = Surface In BoundingBox {-1-e, -1-e, -1-e, 1+e, -1+e, 1+e};
Physical Surface("top") = Surface In BoundingBox {-1-e, 1-e, -1-e, 1+e, 1+e, 1+e};
Physical Surface("back") = Surface In BoundingBox {-1-e, -1-e, -1-e, 1+e, 1+e, -1+e};
Physical Surface("front") = Surface In BoundingBox {-1-e, -1-e, 1-e, 1+e, 1+e, 1+e};
Physical Surface("interface") = Surface In BoundingBox {-0.4-e, -0.4-e, -0.4-e, 0.4+e, 0.4+e, 0.4+e};
Mesh.MeshSizeMax = h;
MeshSize{ PointsOf{ Volume{sphere()}; } } = h/2;
Mesh.MeshSizeFromCurvature = 12;
