"""The needs of a study before it runs: GPUs and memory of its jobs, and disk, and checks that they can be met."""
