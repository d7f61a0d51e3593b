"""Tables of the paper: each module prepares tidy numbers first and sets them in a grid afterwards, which is rendered
as LaTeX and as a web page."""
