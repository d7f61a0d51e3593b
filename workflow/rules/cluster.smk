# Before the first job, results/ is claimed for the study. Where there is SLURM, the run is refused if jobs of an
# earlier run may still write into this folder or, with `--profile slurm`, if the cluster lacks what the jobs will ask
# for.
from shutil import which

from cocal.store.owner import claim


onstart:
    if which("squeue"):
        shell("cocal slurm")
    claim("results", STUDY.study, STUDY_FILE)
