"""The description of a bundle: RO-Crate names every file with its digest, and passes its validator."""

import json
import re

import pytest

import started
from cocal.store.provenance import file_digest
from cocal_study.config.study import load_study
from cocal_study.planning.crate import write_crate
from cocal_study.planning.digests import maker_of
from cocal_study.questions.references import question_sets
from cocal_study.questions.registry import registry_of
from started import ROOT

VALIDATOR = ROOT / ".venv-crate/bin"


def test_the_crate_names_every_file_with_its_digest_and_the_run(published):
    content = json.loads((published / "ro-crate-metadata.json").read_text())
    entities = {one["@id"]: one for one in content["@graph"]}
    files = {str(file.relative_to(published)): file for file in published.rglob("*") if file.is_file()}
    described = files.keys() - {"ro-crate-metadata.json", "provenance.json"}  # which are written after it
    assert {name for name, one in entities.items() if "File" in one["@type"]} == described
    for name in described:
        assert entities[name]["sha256"] == file_digest(files[name])
        assert entities[name]["contentSize"] == str(files[name].stat().st_size)
    parts = {one["@id"] for one in entities["./"]["hasPart"]}
    assert described <= parts
    (run,) = (one for one in entities.values() if one["@type"] == "CreateAction")
    assert run["instrument"] == {"@id": "Snakefile"} == entities["./"]["mainEntity"]
    given = {one["@id"] for one in run["object"]}
    assert given == {"study.yaml", *(f"#questions/smoke-{name}" for name in ("train", "large", "small", "facts"))}
    assert '"questions":48' in entities["#questions/smoke-train"]["description"]
    results = {one["@id"] for one in run["result"]}
    assert results == {name for name in described if name.startswith(("results/", "companions/"))}
    assert entities["./"]["license"] == {"@id": "https://spdx.org/licenses/MIT"}


def test_sets_of_one_source_are_told_apart(tmp_path):
    """The paper's five factual sets come from one repository."""
    study = load_study(ROOT / "config/paper.yaml")
    registry = registry_of(study.question_sets.registered, ROOT / "config/datasets.yaml")
    sets = question_sets(study, registry, tmp_path)
    for name in ("Snakefile", "study.yaml", "README.md"):
        (tmp_path / name).write_text(name)
    write_crate(tmp_path, study, maker_of(tmp_path), sets, "https://example.org/licence", "2026-11-24")
    content = json.loads((tmp_path / "ro-crate-metadata.json").read_text())
    found = {one["name"]: one for one in content["@graph"] if one.get("exampleOfWork") == {"@id": "#questions"}}
    assert {*found} == {dataset.label for dataset in study.datasets.values()}
    assert len({one["url"] for one in found.values()}) < len(found)
    for name, dataset in study.datasets.items():
        entry, said = registry.sets[dataset.source.name], sets[name]
        assert found[dataset.label]["url"] == said["url"]
        assert entry.source.repository in said["url"]
        assert said["url"].endswith(entry.source.revision)
        assert said["license"] == entry.licence
        assert said["sha256"] == [file.sha256 or "unknown" for file in entry.source.files]


@pytest.mark.skipif(not VALIDATOR.exists(), reason="no validator: make test-crate")
def test_the_validator_accepts_it(published):
    words = ["--no-interactive", "validate", "--no-paging", "--profile-identifier", "workflow-run-crate"]
    crate = started.run([VALIDATOR / "rocrate-validator", *words, "--requirement-severity", "required", published])
    said = crate.stdout + crate.stderr
    if re.search(r"Name or service not known|Max retries|Network is unreachable", said):
        pytest.skip("roc-validator needs the network for the context of RO-Crate")
    assert crate.returncode == 0, said
