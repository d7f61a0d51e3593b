"""The process and the machine that it runs on: threads, memory, devices, progress, job logs, locks and SLURM."""
