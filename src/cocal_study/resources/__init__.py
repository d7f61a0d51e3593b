"""The needs of a study before it runs: checks of GPUs and of SLURM."""
