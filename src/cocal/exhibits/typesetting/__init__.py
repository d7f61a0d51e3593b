"""What tables share: grids of cells, and their forms as LaTeX and HTML."""
