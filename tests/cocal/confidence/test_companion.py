"""A companion of one's own: fitted on anybody's rollouts, saved in the Hub's convention, applied to responses."""

import copy
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

import dumps
from cocal import Companion
from cocal.cli import main
from cocal.companion.companions import load_companions, save_companions
from cocal.companion.settings import CompanionSettings
from cocal.errors import ConfigError, ContractError
from cocal.features.store import open_features
from cocal.rollouts import encoding
from cocal.store import read_frame, write_frame
from cocal.store.contracts import RESPONSES
from cocal.store.files import read_labelled, write_document
from cocal_study.generation import evaluated
from cocal_study.methods.base import companion_scores
from cocal_study.store.contracts import PREDICTIONS, QUESTIONS

SETTINGS = CompanionSettings(
    targets=("group", "binary"),
    widths=(16, 12, 8, 4),
    batch_size=16,
    passes=3,
    seeds=(42, 137, 500),  # the mean of three is not their median
    learning_rate=0.002,
)

FLOAT32 = '{"dtype":"float32"}'


@pytest.fixture(scope="module")
def study(tmp_path_factory, own, micro_checkpoint):
    """Features and companions that the workflow's commands make of these rollouts."""
    folder = tmp_path_factory.mktemp("study")
    for step, rows in own.rollouts.groupby("step"):
        write_frame(folder / "rollouts" / f"step-{step:05d}.parquet", rows, RESPONSES, {})
    write_frame(folder / "questions.parquet", own.questions, QUESTIONS, {})
    write_frame(folder / "responses/micro-train.parquet", own.rollouts.assign(step=3), RESPONSES, {})
    step, samples = folder / "step-3", f'{{"micro-train":{dumps.GROUP}}}'
    step.symlink_to(micro_checkpoint)
    given, responses, features = folder / "rollouts", folder / "responses", folder / "features"
    commands = [
        f"replay --settings {FLOAT32} --rollouts {given} --checkpoints {step} --run-folder {folder}/run "
        f"--output {folder}/rollouts.zarr",
        f"companions --settings {SETTINGS.model_dump_json()} --rollouts {given} --questions {folder}/questions.parquet "
        f"--features {folder}/rollouts.zarr --steps 3 --output {folder}/companions",
        f"features --settings {FLOAT32} --samples {samples} --responses {responses} --checkpoint {step} "
        f"--output {features}",
        f"predictions --samples {samples} --methods cocal-group,cocal-binary --backbone micro --algorithm grpo --step 3"
        f" --responses answer={responses} --features answer={features} --companions"
        f" rollouts={folder}/companions/steps-3 "
        f"--output {folder}/predictions.parquet",
    ]
    for command in commands:
        assert main(command.split()) == 0
    return folder


@pytest.fixture(scope="module")
def fit(micro_policy, table, own):
    """`Companion.fit` on the table, as the study does it."""
    given = {"settings": SETTINGS, "questions": own.questions["question"], "number_format": "float32"}
    return partial(Companion.fit, *micro_policy, table, **given)


@pytest.fixture(scope="module")
def fitted(fit) -> Companion:
    return fit()


def test_the_weights_are_those_that_the_workflow_fits(fitted, study):
    """The micro policy sampled every step, so its states are those of a recorder."""
    expected = load_companions(study / "companions/steps-3").model.state_dict()
    for name, weights in fitted.companions.model.state_dict().items():
        np.testing.assert_array_equal(weights, expected[name])
    assert fitted.config.spec == load_companions(study / "companions/steps-3").spec


def test_states_from_a_recorder_give_the_same_weights(fitted, fit, table, study):
    """States that were captured while the policy trained are as good as states that are read again."""
    given = fit(states=open_features(study / "rollouts.zarr").read(0, len(table)))
    for name, weights in given.companions.model.state_dict().items():
        np.testing.assert_array_equal(weights, fitted.companions.model.state_dict()[name])


def test_confidences_are_those_of_the_workflow_to_the_last_bit(fitted, study, micro_policy, table):
    stored = read_frame(study / "predictions.parquet", PREDICTIONS).sort_values("response_id")
    expected = {key: rows["confidence"].to_numpy() for key, rows in stored.groupby(["method", "seed"])}
    for target, seed in fitted.companions.members:
        found = fitted.score(*micro_policy, table["prompt_ids"], table["response_ids"], target=target, seed=seed)
        np.testing.assert_array_equal(found, expected[f"cocal-{target}", seed])
    mean = fitted.score(*micro_policy, table["prompt_ids"], table["response_ids"])
    np.testing.assert_array_equal(mean, np.mean([expected["cocal-binary", seed] for seed in SETTINGS.seeds], axis=0))
    assert len(np.unique(mean)) > 10


def test_responses_are_read_as_those_of_the_fit(fitted, own):
    given = {"template": "{{ messages }}", "thinking": True, "max_response_length": 9}
    given |= {"template_fields": {"effort": "low"}, "ignored": ("markers",)}
    config = fitted.config.model_copy(update=given)
    encoder = encoding.Encoder(own.policy, config)
    assert {name: getattr(encoder.reading, name) for name in given} == given


def test_blocks_are_as_large_as_those_of_the_workflow():
    """The last digits of a state depend on the responses that are passed through the model with it."""
    assert encoding.BLOCK == evaluated._ROWS_PER_WRITE
    assert encoding.ROWS == companion_scores._ROWS
    assert encoding.ROWS % encoding.BLOCK == 0


def test_states_need_rollouts_in_the_order_of_their_steps(micro_policy, table):
    states = np.zeros((len(table), 64), dtype=np.float32)
    with pytest.raises(ContractError, match="not in the order of their steps; sort both"):
        Companion.fit(*micro_policy, table[::-1], settings=SETTINGS, states=states)
    with pytest.raises(ContractError, match=r"states have shape \(60, 32\), but 60 responses .* need \(60, 64\)"):
        Companion.fit(*micro_policy, table, settings=SETTINGS, states=states[:, :32])


def test_a_study_s_companions_score_the_same(study, micro_policy, table, fitted):
    own = Companion.from_study(study / "companions/steps-3", micro_policy[0], "float32")
    given = table["prompt_ids"][:9], table["response_ids"][:9]
    expected = fitted.score(*micro_policy, *given, seed=42)
    np.testing.assert_array_equal(own.score(*micro_policy, *given, seed=42), expected)


def test_what_is_no_response_and_a_file_in_the_place_of_the_folder_are_named(tmp_path, fitted, micro_policy):
    with pytest.raises(ContractError, match="None is neither a text nor a chat nor token ids; give one of these"):
        fitted.score(*micro_policy, "What is 2 + 3?", None)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ContractError, match="file: is a file, and a companion is a folder; name another place"):
        fitted.save_pretrained(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_saved_companion_is_the_same_companion(tmp_path, fitted, micro_policy, table):
    fitted.save_pretrained(tmp_path / "saved")
    assert {file.name for file in (tmp_path / "saved").iterdir()} == {"model.safetensors", "config.json", "README.md"}
    loaded = Companion.from_pretrained(tmp_path / "saved")
    assert loaded.config == fitted.config
    given = table["prompt_ids"], table["response_ids"]
    np.testing.assert_array_equal(loaded.score(*micro_policy, *given), fitted.score(*micro_policy, *given))
    loaded.save_pretrained(tmp_path / "again")
    for file in (tmp_path / "saved").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()
    card, spec = ModelCard.load(tmp_path / "saved/README.md"), fitted.config.spec
    assert (card.data.library_name, card.data.license, card.data.license_name) == ("cocal", "other", "unknown")
    assert "Nobody has said under which licence" in card.text
    assert f"{spec.training_responses} responses of rollout steps up to 3" in card.text
    assert json.loads((tmp_path / "saved/config.json").read_text())["spec"]["layer"] == 1


def test_a_companion_of_another_model_is_refused(fitted, micro_policy):
    base = fitted.config.base_model.model_copy(update={"name": "other", "hidden": 48})
    other = Companion(fitted.companions, fitted.config.model_copy(update={"base_model": base}))
    message = r"the model's hidden width is 32, but the companion reads .* of other, where"
    with pytest.raises(ContractError, match=message):
        other.score(*micro_policy, ["1 + 1"], ["2"])


def test_a_tokenizer_or_a_name_in_the_place_of_the_model_is_refused(fitted, micro_policy):
    model, tokenizer = micro_policy
    with pytest.raises(
        ConfigError, match=r"^the model is a \w*Tokenizer\w*, and must be a loaded language model, such as"
    ):
        fitted.score(tokenizer, model, ["1 + 1"], ["2"])
    with pytest.raises(ConfigError, match=r"^the model is a str, and must"):
        Companion.fit("Qwen/Qwen3-8B", tokenizer, "rollouts")


@pytest.mark.parametrize("given", [("", "2"), (" ", "2"), ("1 + 1", ""), ([5, 900], [6]), ([], [6]), ([5], ["a"])])
def test_a_prompt_or_response_that_is_none_is_refused(fitted, micro_policy, given):
    with pytest.raises(ContractError, match=r"^response 1: "):
        fitted.score(*micro_policy, ["1 + 1", given[0]], ["2", given[1]])


def _flip(file: Path, after: bytes, bit: int = 1) -> None:
    """Flip a bit of the fourth byte after a text, or of the last but two."""
    content = bytearray(file.read_bytes())
    content[content.rindex(after) + len(after) + 3 if after else len(content) - 3] ^= bit
    file.write_bytes(content)


DAMAGES = {
    "no settings": ("config.json", Path.unlink, "the file is missing; is"),
    "no weights": ("model.safetensors", Path.unlink, "model.safetensors: the file is missing"),
    "no fields": ("config.json", lambda file: file.write_text("{}"), "a companion's settings .spec: Field required"),
    **{
        f"a bit of {name} after {text}": (name, partial(_flip, after=text), rf"{name}: (the file has|not a readable)")
        for name, text in (
            ("model.safetensors", b""),
            ("model.safetensors", b"data_offsets"),
            ("config.json", b'"dropout": ['),
            ("config.json", b'"seal": "'),
            ("config.json", b'"weights": "'),
        )
    },
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_noticed(tmp_path, fitted, name):
    file, damage, message = DAMAGES[name]
    fitted.save_pretrained(tmp_path)
    damage(tmp_path / file)
    with pytest.raises(ContractError, match=message):
        Companion.from_pretrained(tmp_path)


def test_a_companion_of_another_version_says_so(tmp_path, fitted):
    fitted.save_pretrained(tmp_path)
    content, attributes = read_labelled(tmp_path / "config.json")
    later = content | {"cocal_version": "9.1", "a_later_field": 3}
    write_document(tmp_path / "config.json", later, {"weights": attributes["weights"]})
    with pytest.raises(ContractError, match=r"\(a_later_field: .*; CoCal 9\.1 has saved it, and this is 0\."):
        Companion.from_pretrained(tmp_path)


def test_a_companion_of_the_hub_is_found_in_its_client_s_cache(tmp_path, fitted):
    folder = tmp_path / "models--me--companion"
    fitted.save_pretrained(folder / "snapshots/0123abc")
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text("0123abc")
    of_cache = {"cache_dir": tmp_path, "local_files_only": True}
    assert Companion.from_pretrained("me/companion", **of_cache).config == fitted.config
    (folder / "snapshots/0123abc/model.safetensors").unlink()
    with pytest.raises(ContractError, match=r"model\.safetensors: the file is missing"):
        Companion.from_pretrained("me/companion", **of_cache)


def test_weights_that_are_no_finite_numbers_are_refused(tmp_path, fitted, micro_policy):
    """Also those of a study."""
    companions = copy.deepcopy(fitted.companions)
    name, weights = next(iter(companions.model.named_parameters()))
    with torch.no_grad():
        weights.view(-1)[7] = float("nan")
    Companion(companions, fitted.config).save_pretrained(tmp_path)
    save_companions(tmp_path / "companions.safetensors", companions, {})
    for load in (Companion.from_pretrained, lambda folder: Companion.from_study(folder, micro_policy[0], "float32")):
        with pytest.raises(ContractError, match=rf"safetensors: weights of {name} are not finite numbers"):
            load(tmp_path)
