"""The dumps of slime, the paper's engine. Nothing here imports slime or TRL."""
