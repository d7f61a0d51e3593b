"""Tables of the paper: each module prepares tidy numbers first and sets them in LaTeX afterwards."""
