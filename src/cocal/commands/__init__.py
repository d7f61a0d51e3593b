"""Each module does the work of a command, `run(options)`, as a thin adapter around the library.

`catalogue` holds the flags of all commands, and `flags`, `words` and `outputs` what they share."""
