// (0,6) x (0,4) minus the disc of radius 1/2 around (2,2), unstructured triangles.
SetFactory("OpenCASCADE");
DefineConstant[ h = {0.25, Name "size of the cells"} ];

Rectangle(1) = {0, 0, 0, 6, 4};
Disk(2) = {2, 2, 0, 0.5};
BooleanDifference(3) = { Surface{1}; Delete; }{ Surface{2}; Delete; };
e = 1e-6;
Physical Curve("left") = Curve In BoundingBox {-e, -e, -e, e, 4+e, e};
Physical Curve("right") = Curve In BoundingBox {6-e, -e, -e, 6+e, 4+e, e};
Physical Curve("bottom") = Curve In BoundingBox {-e, -e, -e, 6+e, e, e};
Physical Curve("top") = Curve In BoundingBox {-e, 4-e, -e, 6+e, 4+e, e};
Physical Curve("obstacle") = Curve In BoundingBox {1.5-e, 1.5-e, -e, 2.5+e, 2.5+e, e};
Physical Surface("fluid") = {3};
Mesh.MeshSizeMin = h;
Mesh.MeshSizeMax = h;
