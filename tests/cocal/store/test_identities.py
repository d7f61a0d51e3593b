"""What tells one product, one run and one source from another: every file, fact and way of computing that matters."""

import json
import os

import pytest

from cocal.errors import ContractError
from cocal.runtime.numerics import environment
from cocal.store import provenance, write_document
from cocal.store.content import content_digest, identity
from cocal.store.lineage import Source, descent
from cocal.store.run_folder import RunFolder
from micro import own_copy


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors"])
def test_every_computed_file_of_a_checkpoint_is_its_content(micro_checkpoint, tmp_path, name):
    """The tokenizer was trained, too: other merges make other ids of the same texts."""
    copy = own_copy(micro_checkpoint, tmp_path / "copy")
    before = content_digest(copy), identity(copy)
    assert before[0] == content_digest(micro_checkpoint)
    content = (copy / name).read_bytes()
    if name == "tokenizer.json":
        tokenizer = json.loads(content)
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:-1]
        (copy / name).write_text(json.dumps(tokenizer))
    else:
        (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert content_digest(copy) != before[0]
    assert identity(copy) != before[1]


TOLD = ["backbone", "algorithm", "step", "prompt_format", "dataset", "experience", "source_step", "validation_step"]


@pytest.mark.parametrize("fact", TOLD)
def test_a_source_that_states_another_fact_is_refused(tmp_path, fact):
    """Such as responses in another prompt format, of another policy or question set."""
    facts = {name: f"a {name}" for name in TOLD}
    write_document(tmp_path / "source.json", {}, provenance("responses", {}, **facts))
    output = tmp_path / "product.json"
    assert descent(output, "features", {}, [Source(tmp_path / "source.json")], **facts)
    said = f"{fact.replace('_', ' ')} is a {fact}, not another"
    with pytest.raises(ContractError, match=said):
        descent(output, "features", {}, [Source(tmp_path / "source.json")], **facts | {fact: "another"})
    with pytest.raises(ContractError, match=said):
        descent(output, "features", {}, [Source(tmp_path / "source.json", **{fact: "another"})])


@pytest.mark.parametrize("numerics", ["native", "portable"])
def test_a_job_goes_on_with_files_of_its_own_numerics_alone(tmp_path, monkeypatch, numerics):
    def use(name):
        for variable in {*environment("portable"), *environment("native")}:
            monkeypatch.delenv(variable, raising=False)
        for variable, value in environment(name).items():
            monkeypatch.setenv(variable, value)

    def started(settings):
        run = RunFolder(tmp_path / "run", settings)
        kept = (run.path / "part").exists()
        (run.path / "part").write_text("done")
        from cocal.runtime import lock
        from cocal.store import run_folder

        lock.release(run.path)
        run_folder._open.remove(run)
        return run.resumed, kept

    use(numerics)
    assert started("a") == (False, False)
    assert started("a") == (True, True)
    use("portable" if numerics == "native" else "native")
    assert started("a") == (False, False)
    assert started("b") == (False, False)
    assert "PATH" in os.environ
