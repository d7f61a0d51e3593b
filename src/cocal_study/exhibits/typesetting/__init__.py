"""Code that several tables share: grids of cells, and their forms as LaTeX and HTML."""
