"""Which study a run of the workflow is of, where its results lie, and what `make clean` leaves."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import started
from cocal_study.provenance.owner import owner_of

DIAGRAM = "results/figures/paradigms.pdf"
"""A target without inputs."""


def _snakemake(repository: Path, folder: Path, *flags: str, cwd: Path | None = None) -> tuple[int, str]:
    command = ["--cores", "1", "--directory", folder, *flags]
    done = started.snakemake(command, cwd or repository, os.environ)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("flags", "backbone", "passes"),
    [
        (["--config", 'companion={"passes": 11}'], "tiny", 11),
        (["--configfile", "config/smoke.yaml", "--config", "companion={passes: 11}", "seed=7"], "smoke", 11),
    ],
)
def test_single_keys_change_in_the_study_that_is_given(repository, tmp_path, flags, backbone, passes):
    target = f"results/companions/{backbone}/grpo"
    status, text = _snakemake(repository, tmp_path, "--dry-run", "--printshellcmds", *flags, "--", target)
    assert status == 0, text
    assert f'"passes":{passes},' in text
    assert f'"seed":{7 if "seed=7" in flags else 42},' in text
    assert owner_of(tmp_path / "results") is None, "a dry-run claims nothing"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--config", "compnion={passes: 11}"], "compnion: unknown key; did you mean 'companion'?"),
        (["--configfile", "part.yaml", "--config", "study=named"], "part.yaml: no key `study:`"),
        (["--configfile", "config/smoke.yaml", "config/config.yaml"], "files are never merged"),
    ],
)
def test_what_is_no_study_is_refused(repository, tmp_path, flags, message):
    (tmp_path / "part.yaml").write_text("companion: {passes: 11}\n")
    for name in ("config", "Snakefile", "workflow", "profiles"):
        (tmp_path / name).symlink_to(repository / name)
    status, text = _snakemake(repository, tmp_path, "--dry-run", *flags, cwd=tmp_path)
    assert status != 0
    assert message in text
    assert not (tmp_path / "results").exists()


@pytest.mark.long
def test_a_results_folder_belongs_to_one_study(repository, tmp_path):
    smoke = ["--configfile", "config/smoke.yaml"]
    status, text = _snakemake(repository, tmp_path, *smoke, "--", DIAGRAM)
    assert status == 0, text
    assert json.loads((tmp_path / "results/study.json").read_text()) == {"study": "smoke"}
    before = (tmp_path / DIAGRAM).stat().st_mtime_ns
    for flags in ([], ["--dry-run"], ["--report", "report.html"]):
        status, text = _snakemake(repository, tmp_path, *flags, "--", DIAGRAM)
        assert status != 0
        assert f"{tmp_path}/results belongs to the study 'smoke'" in text
        assert "the study 'embedded' would overwrite" in text
        assert "snakemake --directory studies/embedded --configfile" in text
        assert "make clean" in text
    assert (tmp_path / DIAGRAM).stat().st_mtime_ns == before
    for flags in (
        ["--unlock"],
        ["--lint"],
        [*smoke, "--dry-run", "--", DIAGRAM],
        ["--directory", f"{tmp_path}/b", "-n"],
    ):
        status, text = _snakemake(repository, tmp_path, *flags)
        assert status == 0, text
    assert owner_of(tmp_path / "results") == "smoke"


@pytest.mark.long
@pytest.mark.parametrize("flags", [[], ["--directory", "studies/mine"]])
def test_local_checkpoints_and_registry_start_at_the_checkout(repository, tmp_path, micro_checkpoint, flags):
    for name in ("Snakefile", "workflow", "profiles"):
        (tmp_path / name).symlink_to(repository / name)
    (tmp_path / "sets").mkdir()
    registry = (repository / "config/datasets.yaml").read_text()
    (tmp_path / "sets/mine.yaml").write_text(registry.replace("title: AMC 2024", "title: Mine"))
    shutil.copytree(micro_checkpoint, tmp_path / "checkpoints/base")
    study = yaml.safe_load((repository / "config/smoke.yaml").read_text())
    own = {"source": "checkpoint", "label": "Mine", "path": "./checkpoints/base", "depth": 2, "width": 32}
    study["backbones"] = {"mine": own}
    source = {"kind": "registered", "name": "amc24", "questions": 45}
    study["datasets"]["amc"] = {"label": "AMC", "role": "evaluation", "domain": "mathematics", "source": source}
    study["sources"] = {"registry": "sets/mine.yaml"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study))
    command = ["--cores", "1", "--configfile", "mine.yaml", *flags, "--"]
    target = "results/policies/mine/base/step-0"
    done = started.snakemake([*command, target], tmp_path, os.environ)
    assert done.returncode == 0, done.stderr[-3000:]
    folder = tmp_path / (flags[1] if flags else ".")
    assert (folder / target / "model.safetensors").exists()
    assert owner_of(folder / "results") == "smoke"
    plan = ["--dry-run", "--printshellcmds", *command, "results/questions/amc.parquet"]
    done = started.snakemake(plan, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert '"title":"Mine"' in done.stdout + done.stderr


def test_make_clean_leaves_what_is_tracked(repository, tmp_path):
    shutil.copy(repository / "Makefile", tmp_path)
    kept = ("results/README.md", "studies/b/results/x", "src/x")
    for name in (*kept, "results/.hidden/x", "results/.dot", "results/tables/README.md", "logs/x", ".snakemake/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for _ in range(2):
        done = subprocess.run(["make", "clean"], check=False, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = {os.path.relpath(path, tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
        assert found == {"Makefile", *kept}
    shutil.rmtree(tmp_path / "results")
    assert subprocess.run(["make", "clean"], check=False, cwd=tmp_path).returncode == 0
