"""Cards decide the settings that depend on a GPU's memory."""

import json

import pytest

from cocal.errors import ConfigError
from cocal.store.provenance import canonical
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
