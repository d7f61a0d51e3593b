# Before the first job: results/ is claimed for the study, and where there is SLURM, no job of an earlier run of this folder
# may still write its files, and with `--profile slurm` the cluster must have what the jobs will ask for.
from shutil import which

from cocal.store.owner import claim


onstart:
    if which("squeue"):
        shell("cocal slurm")
    claim("results", STUDY.study, STUDY_FILE)
