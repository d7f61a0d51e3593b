"""Tables and figures, one module each, which says everything about it."""
