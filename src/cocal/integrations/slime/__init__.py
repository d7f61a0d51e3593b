"""slime, the paper's engine: its command, and what it calls of ours. Nothing here imports slime or TRL."""
