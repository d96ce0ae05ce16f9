// The L-shape (-1,1)^2 minus [0,1] x [-1,0], with its re-entrant corner at the origin.
DefineConstant[ h = {0.2, Name "size of the cells"} ];

Point(1) = {-1, -1, 0, h};
Point(2) = { 0, -1, 0, h};
Point(3) = { 0,  0, 0, h};
Point(4) = { 1,  0, 0, h};
Point(5) = { 1,  1, 0, h};
Point(6) = {-1,  1, 0, h};
Line(1) = {1, 2};
Line(2) = {2, 3};
Line(3) = {3, 4};
Line(4) = {4, 5};
Line(5) = {5, 6};
Line(6) = {6, 1};
Curve Loop(1) = {1, 2, 3, 4, 5, 6};
Plane Surface(1) = {1};
Physical Curve("bottom") = {1};
Physical Curve("corner") = {2, 3};
Physical Curve("right") = {4};
Physical Curve("top") = {5};
Physical Curve("left") = {6};
Physical Surface("inside") = {1};
