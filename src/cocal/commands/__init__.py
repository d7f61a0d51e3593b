"""The work of the commands, `run_COMMAND(options)`, and what the command line knows of them."""
