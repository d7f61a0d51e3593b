"""Portable numerics: the same bytes on every processor with AVX2; on another, native ones or a refusal."""

import json
import os
import platform
from pathlib import Path

import pytest
import yaml

import operations
import started
from cocal import cli
from cocal.runtime import numerics
from cocal.store.provenance import provenance
from cocal.store.run_folder import RunFolder
from smoke_study import CONFIG, ROOT

FLAGS = "model name\t: Some Processor\nflags\t\t: fpu sse2 {}\n"


@pytest.mark.parametrize("name", operations.OPERATIONS)
def test_an_operation_gives_the_bytes_of_other_processors(name):
    """The expected digests are the same natively and under emulation; docs/architecture.md says of which processors."""
    assert operations.digest(operations.OPERATIONS[name]()) == json.loads(operations.DIGESTS.read_text())[name]


def _probe(folder, study):
    """The words with which Snakemake runs a rule of the workflow that prints what its job finds."""
    probe = '\n\nrule probe:\n    output: "seen.txt"\n    shell: "env > {output}"\n'
    workflow = (ROOT / "Snakefile").read_text().replace('"workflow/', f'"{ROOT}/workflow/')
    (folder / "Snakefile").write_text(workflow + probe)
    of_study = ["--snakefile", folder / "Snakefile", "--directory", folder, "--configfile", study]
    return [*of_study, "--cores", "1", "--", "seen.txt"]


@pytest.mark.parametrize("chosen", ["portable", "native", "bfloat16"])
def test_the_environment_reaches_a_job(tmp_path, chosen):
    """A rule of a real run of the workflow prints what its job finds; `--directory` changes nothing."""
    study = yaml.safe_load(CONFIG.read_text()) | {"numerics": chosen}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    names = {*numerics.PORTABLE, *numerics.environment("bfloat16")}
    unset = {name: text for name, text in os.environ.items() if name not in names}  # conftest sets them
    done = started.snakemake(_probe(tmp_path, tmp_path / "study.yaml"), environment=unset)
    assert done.returncode == 0, done.stderr[-3000:]
    found = dict(line.partition("=")[::2] for line in (tmp_path / "seen.txt").read_text().splitlines())
    seen = {name: value for name, value in found.items() if name in names}
    assert seen == numerics.environment(chosen)
    assert seen or chosen == "native"


def test_a_study_is_native_where_the_processor_lacks_avx2(tmp_path):
    """A sentence says so; the processor is described by another file than Linux's."""
    (tmp_path / "cpuinfo").write_text(FLAGS.format("avx"))
    patch = f"numerics._CPU_INFO = pathlib.Path({str(tmp_path / 'cpuinfo')!r})"
    (tmp_path / "sitecustomize.py").write_text(f"import pathlib; from cocal.runtime import numerics; {patch}\n")
    unset = {name: text for name, text in os.environ.items() if name not in numerics.PORTABLE}  # conftest sets them
    unset["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = started.snakemake(_probe(tmp_path, ROOT / "config/smoke.yaml"), environment=unset)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("lacks avx2 and fma; this machine computes with native numerics") == 1
    assert not any(f"{name}=" in (tmp_path / "seen.txt").read_text() for name in numerics.PORTABLE)


def test_files_state_their_numerics(monkeypatch):
    assert provenance("stage", {})["numerics"] == "portable"
    monkeypatch.delenv("MKL_CBWR")
    assert provenance("stage", {})["numerics"] == "native"
    monkeypatch.setenv("COCAL_PASSES", "bfloat16")
    assert provenance("stage", {})["numerics"] == "bfloat16"


def test_unfinished_work_of_other_numerics_is_not_resumed(tmp_path, monkeypatch):
    RunFolder(tmp_path / "run", "a")
    (tmp_path / "run/step-1").touch()
    assert RunFolder(tmp_path / "run", "a").resumed
    monkeypatch.setenv("OPENBLAS_CORETYPE", "SkylakeX")
    assert not RunFolder(tmp_path / "run", "a").resumed
    assert not (tmp_path / "run/step-1").exists()


@pytest.fixture
def info(tmp_path, monkeypatch) -> Path:
    """Linux's description of the processor."""
    monkeypatch.setattr(numerics, "_CPU_INFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


def test_the_obstacle_of_portable_numerics_is_named(info):
    info.write_text(FLAGS.format("avx2 fma"))
    assert numerics.obstacle() == ""
    info.write_text(FLAGS.format("avx fma"))
    assert numerics.obstacle().endswith("a processor with AVX2 and FMA, and this one lacks avx2")
    info.unlink()
    needs = "portable results need a Linux machine with an x86-64 processor, not "
    assert numerics.obstacle() == f"{needs}{platform.system()} on {platform.machine()}"


def test_processors_say_whether_they_have_products_of_bfloat16(info):
    told = {
        "flags\t\t: fpu avx2 fma avx512_bf16 sse": True,
        "flags\t\t: fpu avx2 amx_bf16": True,
        "flags\t\t: fpu avx2 fma avx512f": False,
        "Features\t: fp asimd bf16 sve": True,
        "Features\t: fp asimd sve": False,
    }
    for line, expected in told.items():
        info.write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n")
        assert numerics.computes_bfloat16() is expected, line
    info.unlink()
    assert not numerics.computes_bfloat16()


def test_a_command_refuses_before_it_computes(info, monkeypatch, capsys):
    info.write_text(FLAGS.format("avx"))
    assert cli.main(["schema"]) == 2
    assert "this one lacks avx2 and fma; set `numerics: native` in the study" in capsys.readouterr().err
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    assert cli.main(["schema"]) == 0
