# Before the first job, results/ is claimed for the study. Where there is SLURM, the run is refused if jobs of an
# earlier run may still write into this folder or, with `--profile slurm`, if the cluster lacks what the jobs will ask
# for. Jobs with GPUs are refused if these, or what they need beside them, do not suit the study. Baselines that will learn
# are tried on random rollouts, since they learn last, when the policies have trained.
from shutil import which

from cocal_study.planning.baselines import all_baselines
from cocal_study.provenance.owner import claim
from cocal_study.resources.preflight import Run, check


def jobs_to_come():
    """The jobs that will run."""
    return [job for job in workflow.dag.needrun_jobs() if not job.is_group()]


def gpus_to_come():
    """GPUs that a job of each rule asks for, of the jobs that will run."""
    return {
        job.rule.name: job.resources["gpus"] for job in jobs_to_come() if job.resources.get("gpus")
    }


def run_to_come():
    """What Snakemake was asked to do, as far as GPUs are concerned."""
    methods = {str(method) for method in workflow.deployment_settings.deployment_method}
    allowed = workflow.global_resources.get("gpus")
    return Run(gpus_to_come(), allowed and allowed.value, "conda" in " ".join(methods).lower())


onstart:
    if which("squeue"):
        shell("cocal slurm")
    check(STUDY, run_to_come())
    learning = [baseline.name for baseline in all_baselines(STUDY) if baseline.learn]
    if learning and any(job.rule.name == "recalibrate" for job in jobs_to_come()):
        width = STUDY.backbones[STUDY.main_backbone].width
        # output is printed only on failure
        shell(
            'said=$(cocal try {learning} --width {width} 2>&1) || {{ echo "$said" >&2; exit 2; }}'
        )
    claim("results", STUDY.study, STUDY_FILE)
