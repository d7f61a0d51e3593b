"""The reproduction of the paper: its studies, from questions to tables and figures. It imports the library `cocal`; the
library never imports it, and runs its commands through an entry point (src/pyproject.toml)."""
