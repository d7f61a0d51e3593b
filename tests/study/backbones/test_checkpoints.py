"""Checkpoints: what is taken from elsewhere, refused, downloaded and loaded."""

import json
import shutil

import pytest
import torch

from cocal.cli import main
from cocal.errors import ConfigError, ContractError
from cocal.models.loading import load_policy
from cocal.runtime.numerics import computes_bfloat16, environment
from cocal.store.origin import read_provenance
from cocal_study.backbones import importing
from cocal_study.backbones.importing import import_checkpoint
from cocal_study.config.backbone import BackboneChoice
from cocal_study.config.parse import validate
from micro import change_json

SHAPE = {"depth": 2, "width": 32}
REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def source(tmp_path, micro_checkpoint):
    """A copy of the micro policy, with files that nobody needs."""
    folder = tmp_path / "source"
    shutil.copytree(micro_checkpoint, folder)
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "modeling_own.py").write_text("raise SystemExit")
    (folder / "provenance.json").unlink()
    return folder


def test_a_checkpoint_of_several_files_is_taken_whole(source, micro_policy, tmp_path):
    (source / "model.safetensors").unlink()
    micro_policy.model.save_pretrained(source, max_shard_size="40KB")
    import_checkpoint(source, tmp_path / "whole", **SHAPE, attributes={})
    given, taken = ({path.name for path in folder.glob("*.safetensors")} for folder in (source, tmp_path / "whole"))
    assert taken == given
    assert len(taken) > 1


def _settings(file="config.json", **changes):
    return lambda folder: change_json(folder / file, **changes)


def _other_vocabulary(folder):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    first, second = [token for token in vocabulary if len(token) == 1][:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_settings(num_hidden_layers=3), "num_hidden_layers is 3, the backbone's depth is 2"),
        (_settings(hidden_size=64), "hidden_size is 64, the backbone's width is 32"),
        (_settings(auto_map={"AutoModel": "modeling_own.Own"}), "brings code of its own"),
        (_settings("tokenizer_config.json", auto_map={"AutoTokenizer": ["own.Own", None]}), "brings code of its own"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json: the file is not JSON"),
        (_other_vocabulary, r"the vocabulary differs from that of .* in token"),
    ],
)
def test_another_or_a_broken_checkpoint_is_refused(source, tmp_path, micro_checkpoint, damage, message):
    damage(source)
    with pytest.raises(ContractError, match=message):
        import_checkpoint(source, tmp_path / "step-3", **SHAPE, attributes={}, base=micro_checkpoint)
    assert not (tmp_path / "step-3").exists()


def test_the_command_places_every_stage(source, tmp_path, micro_checkpoint):
    backbone = {"source": "checkpoint", "label": "Micro", "path": str(micro_checkpoint), **SHAPE}
    command = ["import-checkpoints", "--backbone", json.dumps(backbone), "--base", str(micro_checkpoint)]
    command += ["--stages", f"2={source}", f"3={source}", "--output", str(tmp_path / "policies")]
    assert main(command) == 0
    assert {path.name for path in (tmp_path / "policies").iterdir()} == {"step-2", "step-3"}
    placed = tmp_path / "policies/step-2"
    assert json.loads(read_provenance(placed / "provenance.json")["settings"]) == {"source": str(source)}
    assert not {path.name for path in placed.iterdir()} & {"pytorch_model.bin", "modeling_own.py"}
    taken, original = (load_policy(folder).model.state_dict() for folder in (placed, source))
    assert all((taken[name] == tensor).all() for name, tensor in original.items())


@pytest.fixture
def cached(tmp_path, micro_checkpoint, monkeypatch):
    """The hub's cache as a finished download leaves it: files are links to blobs."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "models--owner--micro"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    for file in micro_checkpoint.iterdir():
        shutil.copy(file, repository / "blobs" / file.name)
        (snapshot / file.name).symlink_to(repository / "blobs" / file.name)
    return snapshot


def test_a_backbone_of_the_hub_is_taken_from_its_cache(cached, tmp_path):
    assert importing.download("owner/micro", REVISION) == cached
    settings = {"source": "checkpoint", "label": "Micro", "path": "owner/micro", "revision": REVISION, **SHAPE}
    output = tmp_path / "base" / "step-0"
    assert main(["backbone", "--settings", json.dumps(settings), "--output", str(output)]) == 0
    assert not any(path.is_symlink() for path in output.iterdir())
    assert json.loads(read_provenance(output / "provenance.json")["settings"])["revision"] == REVISION
    load_policy(output)


def test_a_judge_of_the_hub_is_fetched_before_its_jobs(cached, tmp_path, capsys):
    flags = ["hub", "--name", "owner/micro", "--revision", REVISION, "--output", str(tmp_path / "judge.json")]
    assert main(flags) == 0
    assert json.loads((tmp_path / "judge.json").read_text()) == {"name": "owner/micro", "revision": REVISION}
    (tmp_path / "judge.json").unlink()
    (cached / "model.safetensors").unlink()
    assert main(flags) == 2
    assert "model.safetensors: the file is missing" in capsys.readouterr().err
    assert not (tmp_path / "judge.json").exists()


def test_a_hub_out_of_reach_names_the_ways_out(cached, tmp_path, capsys):
    settings = {"source": "checkpoint", "label": "Micro", "path": "owner/other", "revision": REVISION, **SHAPE}
    assert main(["backbone", "--settings", json.dumps(settings), "--output", str(tmp_path / "base")]) == 2
    error = capsys.readouterr().err
    assert "owner/other at 0123456789ab: cannot be downloaded" in error
    assert f"hf download owner/other --revision {REVISION}" in error
    assert not (tmp_path / "base").exists()


@pytest.mark.parametrize(
    ("path", "revision"), [("Qwen/Qwen3-8B", REVISION), ("./Qwen/Qwen3-8B", None), ("models/qwen/base", None)]
)
def test_a_hub_checkpoint_needs_a_commit(path, revision):
    settings = {"source": "checkpoint", "label": "8B", "path": path, "revision": revision, **SHAPE}
    validate(BackboneChoice, settings, "here")
    for wrong in (None, "main") if revision else ():
        with pytest.raises(ConfigError, match="revision"):
            validate(BackboneChoice, settings | {"revision": wrong}, "here")


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU computes in bfloat16 in any case")
def test_policies_compute_in_bfloat16_where_the_study_and_the_processor_do(micro_checkpoint, monkeypatch):
    """Its updates keep float32 weights, and other numerics keep float32 throughout."""
    assert load_policy(micro_checkpoint).model.dtype == torch.float32
    for name, value in environment("bfloat16").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MKL_CBWR", raising=False)
    computes = torch.bfloat16 if computes_bfloat16() else torch.float32
    assert load_policy(micro_checkpoint).model.dtype == computes
    assert load_policy(micro_checkpoint, training=True).model.dtype == torch.float32
