// (0,6) x (0,4) minus the square [1.5,2.5] x [1.5,2.5]: a uniform grid of 24 x 16 squares of side 1/4
// minus 4 x 4 of them, each cut by the diagonal from lower left to upper right: 736 triangles.
// The eight rectangles around the obstacle are transfinite, so that n refines the grid exactly.
DefineConstant[ n = {4, Name "squares per unit length"} ];

x() = {0, 1.5, 2.5, 6};
y() = {0, 1.5, 2.5, 4};
For j In {0:3}
  For i In {0:3}
    Point(1 + i + 4*j) = {x(i), y(j), 0};
  EndFor
EndFor
// horizontal curves 100 + i + 10 j from (i,j) to (i+1,j); vertical ones 200 + i + 10 j from (i,j) to (i,j+1)
For j In {0:3}
  For i In {0:2}
    Line(100 + i + 10*j) = {1 + i + 4*j, 2 + i + 4*j};
    Transfinite Curve {100 + i + 10*j} = 1 + n*(x(i+1) - x(i));
  EndFor
EndFor
For j In {0:2}
  For i In {0:3}
    Line(200 + i + 10*j) = {1 + i + 4*j, 5 + i + 4*j};
    Transfinite Curve {200 + i + 10*j} = 1 + n*(y(j+1) - y(j));
  EndFor
EndFor
fluid() = {};
For j In {0:2}
  For i In {0:2}
    If (i != 1 || j != 1)
      s = 300 + i + 10*j;
      Curve Loop(s) = {100 + i + 10*j, 201 + i + 10*j, -(110 + i + 10*j), -(200 + i + 10*j)};
      Plane Surface(s) = {s};
      Transfinite Surface {s} = {1 + i + 4*j, 2 + i + 4*j, 6 + i + 4*j, 5 + i + 4*j} Right;
      fluid() += {s};
    EndIf
  EndFor
EndFor
Physical Curve("left") = {200, 210, 220};
Physical Curve("right") = {203, 213, 223};
Physical Curve("bottom") = {100, 101, 102};
Physical Curve("top") = {130, 131, 132};
Physical Curve("obstacle") = {111, 121, 211, 212};
Physical Surface("fluid") = {fluid()};
