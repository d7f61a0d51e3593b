"""The scripts that start a training on several nodes, with stand-ins for the commands of SLURM and Ray."""

import os

import pytest

import started

SCRIPTS = started.ROOT / "workflow/scripts"
SAID = 'printf "%s\\n" "$(basename "$0") $*" >> "$SAID"\n'


@pytest.fixture
def run(tmp_path):
    """Run a script with planted commands in front of the real ones; return its result and what was called."""

    def run(script: str, *words: str, commands: dict[str, str], **environment: str):
        for name, text in commands.items():
            path = tmp_path / name
            path.write_text(f"#!/bin/sh\n{text}")
            path.chmod(0o755)
        said = tmp_path / "said.txt"
        said.write_text("")
        variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SAID": str(said), "SLURM_JOB_NODELIST": "gpu[1-2]"}
        done = started.run(["bash", SCRIPTS / script, *words], environment=variables | environment)
        return done, said.read_text().splitlines()

    return run


@pytest.mark.parametrize(
    ("environment", "cpus", "gpus"),
    [
        ({"SLURM_CPUS_PER_TASK": "32", "SLURM_CPUS_ON_NODE": "64", "SLURM_GPUS_ON_NODE": "4"}, 32, " --gres gpu:4"),
        ({"SLURM_CPUS_ON_NODE": "64"}, 64, ""),
    ],
)
def test_a_step_asks_for_all_that_its_job_has_and_inherits_nothing(run, environment, cpus, gpus):
    """Since SLURM 22.05 it would get one CPU. The step that starts it is one task on one node."""
    step = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_GPUS": "4", "SLURM_CONF": "/etc/slurm/site.conf"}
    commands = {"srun": SAID + """env | grep ^SLURM_ >> "$SAID"\n"""}
    done, said = run("each_node.sh", "2", "bash", "x.sh", "--a", commands=commands, **step, **environment)
    assert done.returncode == 0, done.stderr
    flags = "--jobid 7 --overlap --nodes 2 --ntasks 2 --ntasks-per-node 1"
    flags += f" --cpus-per-task {cpus} --kill-on-bad-exit=1{gpus}"
    assert said == [f"srun {flags} bash x.sh --a", "SLURM_CONF=/etc/slurm/site.conf"]
