"""The work of the commands, each a function `run_COMMAND(options)`, as a thin adapter around the library.

`catalogue` holds the flags of all commands, and `flags`, `words` and `outputs` what they share."""
