"""What a study needs before it runs: GPUs, memory, hours, and how far it has come."""
