"""A SLURM of two nodes, and a copy of the repository to type in."""

import shutil
import subprocess
from pathlib import Path

import pytest

from rehearsal_study import Study

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[3]
CANNOT = 77
"""Exit status of start-slurm.sh where SLURM cannot be had."""
BUILT = (".git", ".venv", ".snakemake", "results", "studies", "logs")
BUILT += ("__pycache__", "*.egg-info", ".*_cache", ".hypothesis")


@pytest.fixture(scope="session")
def cluster():
    """A running SLURM; stopped and forgotten at the end."""
    done = subprocess.run(
        [HERE / "start-slurm.sh"], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode == CANNOT:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout
    yield
    subprocess.run([HERE / "stop-slurm.sh"], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def study(cluster, tmp_path_factory) -> Study:
    """A copy of the repository, without what was built there."""
    folder = tmp_path_factory.mktemp("rehearsal") / "cocal"
    shutil.copytree(REPOSITORY, folder, symlinks=True, ignore=shutil.ignore_patterns(*BUILT))
    return Study(folder)
