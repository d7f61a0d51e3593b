"""One module a command: `add_arguments(parser)` and `run(options)`, thin adapters around the library."""
