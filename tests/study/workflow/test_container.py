"""Jobs in a container (`--sdm apptainer`), with a stand-in for Apptainer that starts the command without one."""

import os
import stat

import pytest

import started

STAND_IN = """#!/bin/sh
if [ "$1" = --version ]; then echo "apptainer version 1.3.0"; exit; fi
echo "$COCAL_CHECKOUT $@" >> {record}
while [ "${{1%.sif}}" = "$1" ]; do shift; done
shift
exec "$@"
"""


@pytest.mark.slow
def test_jobs_run_in_the_image_over_this_checkout(repository, tmp_path):
    record, stand_in = tmp_path / "record", tmp_path / "bin/apptainer"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN.format(record=record))
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    environment = os.environ | {"PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
    words = ["--sdm", "apptainer", "--cores", "1", "--configfile", repository / "config/smoke.yaml"]
    target = "results/questions/smoke-large.parquet"
    done = started.snakemake([*words, "--directory", tmp_path, "--", target], environment=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / target).exists()
    called = record.read_text()
    assert called.startswith(f"{repository} ")
    assert called.count(".sif") == 1
    assert f" {os.path.relpath(repository / 'envs/cocal.sif', tmp_path)} bash -c " in called
    assert "cocal questions" in called
