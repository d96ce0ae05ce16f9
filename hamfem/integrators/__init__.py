"""Time-marching of semi-discrete systems. Nothing here knows of finite elements."""
