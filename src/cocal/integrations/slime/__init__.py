"""Training by slime, the paper's engine: its command, its hooks and its dumps. Nothing here imports slime or TRL."""
