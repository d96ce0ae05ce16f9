"""What waves: coefficients, boundaries and sources, free of any discretization."""
