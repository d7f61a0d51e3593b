"""The work of a study's commands, each a function `run_COMMAND(options)`."""
