"""Each module is a command with `add_arguments(parser)` and `run(options)`, a thin adapter around the library."""
