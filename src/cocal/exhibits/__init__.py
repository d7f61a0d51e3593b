"""Tables and figures. Each has one module, which holds everything about it."""
