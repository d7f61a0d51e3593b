"""The needs of a study before it runs: GPUs, memory and hours of its jobs, and checks that they can be met."""
