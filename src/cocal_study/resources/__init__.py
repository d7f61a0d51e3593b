"""The needs of a study before it runs: GPUs and memory of its jobs, and checks that they can be met."""
