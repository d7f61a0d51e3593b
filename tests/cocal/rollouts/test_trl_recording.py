"""Recording of a training by TRL's own trainer, compared with that of the trainer of studies."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from trl import GRPOTrainer

from cocal import Companion
from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.companion.companions import load_companions
from cocal.companion.settings import CompanionSettings, OnlineSettings
from cocal.errors import ConfigError, ContractError
from cocal.features.store import open_features
from cocal.fitting.config import prompt_digest
from cocal.models.loading import load_policy
from cocal.rollouts.trl.recording import Recording, RolloutRecording
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.schedule import question_schedule
from cocal_study.policy.train import correctness, trl_arguments
from cocal_study.policy.trainer import RecordingGRPOTrainer
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import QUESTIONS
from micro_trainer import train
from rewarded_questions import write_rewarded

STEPS = 3
SETTINGS = PolicySettings(
    dataset="micro-train",
    steps=STEPS,
    stages=(STEPS,),
    questions_per_step=3,
    responses_per_question=4,
    max_response_length={"grpo": 16},
    updates_per_step=2,
    micro_batch=2,
    learning_rate=1e-3,
    checkpoint_every=1,
)
COMPANION = CompanionSettings(widths=(8, 8), dropout=(0.2,), batch_size=4, seeds=(42, 137), validation_share=0.2)
ONLINE = OnlineSettings(companion=COMPANION, window=2)


class Trainer(RolloutRecording, GRPOTrainer):
    """Anybody's trainer."""


@pytest.fixture(scope="module")
def rewarded(tmp_path_factory, micro_policy, micro_questions) -> Path:
    path = tmp_path_factory.mktemp("rewarded") / "micro-train.parquet"
    return write_rewarded(path, micro_policy, micro_questions / "micro-train.parquet").parent


@pytest.fixture(scope="module")
def verifier():
    with Verifier(VerifierSettings()) as one:
        yield one


@pytest.fixture(scope="module")
def make(micro_checkpoint, rewarded, verifier):
    """Makes a trainer of the micro policy that asks what a study would ask, in the same order."""
    questions = read_frame(rewarded / "micro-train.parquet", QUESTIONS)

    def trainer(folder: Path, output: Path, kind=Trainer, **options):
        policy, arguments = load_policy(micro_checkpoint, training=True), trl_arguments(SETTINGS, "grpo", output)
        arguments.reward_weights = [0.0, 1.0]
        order = question_schedule(len(questions), STEPS, SETTINGS.questions_per_step, SETTINGS.seed).ravel()
        rows = questions.iloc[order]
        messages = [[{"role": "user", "content": Prompts("tiny").message("answer", q)}] for q in rows["question"]]
        golds = [[answer, *aliases] for answer, aliases in zip(rows["answer"], rows["aliases"], strict=True)]
        data = {"prompt": messages, "question_id": rows["question_id"].tolist(), "golds": golds}
        given = {"reward": "correctness", "number_format": "float32", "online": ONLINE, "dataset": "micro-train"}
        if kind is Trainer:
            options = {"recording": Recording(folder=folder, layers=[0], **given | options)}
        return kind(
            model=policy.model,
            processing_class=policy.tokenizer,
            reward_funcs=[_length, correctness(verifier)],
            args=arguments,
            train_dataset=Dataset.from_dict(data),
            **options,
        )

    return trainer


def _length(completions, **_) -> list[float]:
    """A reward that says nothing about correctness."""
    return [float(len(one[0]["content"])) for one in completions]


@pytest.fixture(scope="module")
def recorded(make, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    trainer = make(folder / "recording", folder / "output")
    trainer.train()
    trainer.save_model(str(folder / "policy"))
    return folder


def test_the_rollouts_of_the_first_step_are_those_of_our_own_trainer(
    recorded, micro_checkpoint, rewarded, tmp_path, monkeypatch
):
    """Where TRL samples. Afterwards the policies differ in their last digits, since the advantages are computed in
    other orders."""
    monkeypatch.setattr(RecordingGRPOTrainer, "_own_engine", property(lambda self: False))
    train(tmp_path, SETTINGS, micro_checkpoint, rewarded, states=True)
    mine, study = (read_frame(f / "rollouts/step-00001.parquet", RESPONSES) for f in (recorded / "recording", tmp_path))
    pd.testing.assert_frame_equal(mine, study)
    assert 0 < mine["correct"].mean() < 1
    stores = [open_features(f / "features.zarr") for f in (recorded / "recording", tmp_path)]
    np.testing.assert_array_equal(*(store.read(0, len(mine), layer=1) for store in stores))
    assert [len(store) for store in stores] == [STEPS * len(mine)] * 2
    assert stores[0].question_id.tolist() == stores[1].question_id.tolist()


@pytest.mark.slow
def test_the_training_is_not_changed(recorded, make, tmp_path):
    """Without the mixin, TRL's trainer ends in the same weights."""
    trainer = make(tmp_path / "none", tmp_path / "output", kind=GRPOTrainer)
    trainer.train()
    found = load_policy(recorded / "policy").model.state_dict()
    assert all((found[name] == tensor).all() for name, tensor in trainer.model.state_dict().items())


def test_a_resumed_training_goes_on_with_its_recording(recorded, make, tmp_path):
    """As if it had been killed after its second step, and its checkpoint moved."""
    shutil.copytree(recorded / "recording", tmp_path / "recording")
    (tmp_path / "recording/rollouts/step-00003.parquet").unlink()
    shutil.rmtree(tmp_path / "recording/online")
    shutil.copytree(recorded / "output/checkpoint-4", tmp_path / "moved")
    trainer = make(tmp_path / "recording", tmp_path / "output")
    trainer.train(resume_from_checkpoint=str(tmp_path / "moved"))
    pair = [read_frame(f / "recording/rollouts", RESPONSES) for f in (tmp_path, recorded)]
    pd.testing.assert_frame_equal(*pair)
    for name in ("history.csv", "companions.safetensors"):
        again, once = ((f / "recording/online" / name).read_bytes() for f in (tmp_path, recorded))
        assert again == once, name


def test_the_recorded_companion_scores_responses(recorded, micro_policy):
    found = Companion.from_study(recorded / "recording/online", micro_policy.model, "float32")
    rollouts = read_frame(recorded / "recording/rollouts", RESPONSES)
    assert found.config.prompts == {*map(prompt_digest, rollouts["prompt_ids"])}
    confidence = found.score(*micro_policy, rollouts["prompt_ids"].tolist(), rollouts["response_ids"].tolist())
    assert ((confidence > 0) & (confidence < 1)).all()
    history = pd.read_csv(recorded / "recording/online/history.csv")
    assert history["step"].unique().tolist() == [2, 3]
    spec = load_companions(recorded / "recording/online").spec
    assert (spec.order, spec.layer, spec.steps) == ("online", 1, STEPS)


def test_rollouts_of_another_training_and_unknown_rewards_are_refused(recorded, make, tmp_path):
    trainer = make(recorded / "recording", tmp_path / "output")
    with pytest.raises(ContractError, match=r"step-00001\.parquet: the folder holds the rollouts of another training"):
        trainer.train()
    with pytest.raises(ConfigError, match="no reward function 'accuracy'; there are _length, correctness"):
        make(tmp_path / "none", tmp_path / "output", reward="accuracy")
