"""Training by slime, the paper's engine: its command and the hooks that it calls."""
