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


SLURM = {"scontrol": "echo gpu1; echo gpu2\n", "python3": "echo {}\n", "ray": SAID}
DNS = {"getent": "echo '127.0.1.1 STREAM gpu1'; echo '10.0.0.7 STREAM gpu1'\n"}
VARIABLES = {"PYTHONPATH": "", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "COCAL_SLIME": ""}


def test_ray_gets_an_ip_address(run):
    done, said = run("slime.sh", "2", "8", "train", commands=SLURM | DNS, SLURM_NODEID="0", **VARIABLES)
    assert done.returncode == 0, done.stderr
    assert said[0].startswith("ray start --head --node-ip-address 10.0.0.7 --port 6379 --num-gpus 8 ")
    done, said = run("slime.sh", "2", "8", "train", commands=SLURM | DNS, SLURM_NODEID="1", **VARIABLES)
    assert done.returncode == 0, done.stderr
    assert [line.partition(" --num")[0] for line in said] == [
        "ray health-check --address 10.0.0.7:6379",
        "ray start --address 10.0.0.7:6379",
    ]


def test_a_first_node_without_a_name_uses_its_own_address_and_others_say_so(run):
    unknown = SLURM | {"getent": "exit 2\n", "hostname": "echo 10.0.0.9 fe80::1\n"}
    _, said = run("slime.sh", "2", "8", "train", commands=unknown, SLURM_NODEID="0", **VARIABLES)
    assert said[0].startswith("ray start --head --node-ip-address 10.0.0.9 ")
    done, said = run("slime.sh", "2", "8", "train", commands=unknown, SLURM_NODEID="1", **VARIABLES)
    assert (done.returncode, said) == (1, [])
    assert "finds no IP address of the first node, gpu1; add it to DNS" in done.stderr
