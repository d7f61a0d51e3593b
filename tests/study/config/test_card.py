"""Cards decide the settings that depend on a GPU's memory."""

import json

import pytest

from cocal.errors import ConfigError, ContractError
from cocal.store.provenance import canonical
from cocal_study.backbones.importing import existing
from cocal_study.config.backbone import CheckpointSettings
from cocal_study.config.parse import validate
from cocal_study.config.study import Study, configured_study
from planned_jobs import study_of


@pytest.mark.parametrize(("card", "micro_batch", "moments"), [("24gb", 1, "host"), ("80gb", 8, "device")])
def test_one_key_chooses_the_card(repository, card, micro_batch, moments):
    study = configured_study([repository / "config/single-gpu.yaml"], {"card": card})
    assert (study.policy.micro_batch, study.policy.trl.moments) == (micro_batch, moments)
    assert study.policy.trl.vllm, "what the card does not decide is the study's"
    assert study.cards[card].memory == int(card.removesuffix("gb"))


def test_a_card_that_is_none_and_a_key_that_is_given_twice_are_refused(repository):
    path = repository / "config/single-gpu.yaml"
    with pytest.raises(ConfigError, match="card = '48gb' is not in cards, which has '24gb', '80gb'"):
        configured_study([path], {"card": "48gb"})
    with pytest.raises(
        ConfigError, match=r"policy\.micro_batch = 4, but the card '24gb' sets it to 1: change it in cards"
    ):
        configured_study([path], {"policy": {"micro_batch": 4}})
    changed = {"cards": {"24gb": {"settings": {"policy": {"micro_batch": 4}}}}}
    assert configured_study([path], changed).policy.micro_batch == 4
    wrong = {"cards": {"24gb": {"settings": {"policy": {"micro_bath": 4}}}}}
    with pytest.raises(ConfigError, match=r"policy\.micro_bath: unknown key; did you mean 'micro_batch'"):
        configured_study([path], wrong)


def test_a_study_that_is_written_out_is_read_again():
    study = study_of("single-gpu")
    assert validate(Study, json.loads(canonical(study)), "again") == study


@pytest.mark.parametrize(("key", "name"), [("tied", "tie_word_embeddings"), ("heads", "num_attention_heads")])
def test_a_checkpoint_of_another_shape_is_refused(micro_checkpoint, key, name):
    config = json.loads((micro_checkpoint / "config.json").read_text())
    shape = {
        "heads": config["num_attention_heads"],
        "key_value_heads": config["num_key_value_heads"],
        "head_dim": config["head_dim"],
        "intermediate_size": config["intermediate_size"],
        "vocabulary": config["vocab_size"],
        "tied": config["tie_word_embeddings"],
    }
    given = {"source": "checkpoint", "label": "Micro", "path": str(micro_checkpoint)}
    given |= {"depth": config["num_hidden_layers"], "width": config["hidden_size"]}
    with existing(CheckpointSettings.model_validate(given | {"architecture": shape})) as folder:
        assert folder == micro_checkpoint
    wrong = shape | {key: not shape[key] if key == "tied" else shape[key] + 1}
    with (
        pytest.raises(ContractError, match=rf"{name} is {shape[key]}, the backbone's architecture\.{key} is "),
        existing(CheckpointSettings.model_validate(given | {"architecture": wrong})),
    ):
        pass
