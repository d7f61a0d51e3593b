"""Confidences of companions, and the command that estimates all confidences."""

import numpy as np
import pytest

import started
from cocal.cli import main
from cocal.companion.companions import load_companions
from cocal.errors import ConfigError, ContractError
from cocal.store import read_frame
from cocal_study.planning.results import ORDERS
from cocal_study.store.contracts import PREDICTIONS
from evaluated_study import (
    POOL,
    QUESTIONS,
    SAMPLES,
    SEEDS,
    SHARED,
    STEP,
    command,
    load_experiences,
    write_companions,
    write_features,
    write_responses,
)
from sample_predictions import OURS


def states_of(study, layer=1, poolings=("last", "mean"), states=None, ids=None):
    """Pooled states of the evaluated responses, float32 (n, inputs)."""
    ids = study.evaluated()["response_id"] if ids is None else ids
    found = np.stack((study.states if states is None else states).loc[ids].to_list())
    chosen = [("last", "mean", "prompt").index(name) for name in poolings]
    return found[:, layer, chosen].reshape(len(found), -1)


def assert_scored(table, method, companions, states):
    """Every member of the companions' target gave a method's confidences, the rows of its own steps and states."""
    spec = companions.spec
    labels = {"method": method, "source_step": spec.steps, "validation_step": spec.validation_steps}
    labels |= {"layer": spec.layer, "pooling": spec.pooling}
    mine = table[np.logical_and.reduce([table[name] == value for name, value in labels.items()])]
    target = "question" if method == "cocal-pre-generation" else method.rpartition("-")[2]
    expected = dict(zip(companions.members, companions.predict(states), strict=True))
    for seed in SEEDS:
        np.testing.assert_array_equal(mine.loc[mine["seed"] == seed, "confidence"], expected[target, seed])


def test_companions_score_last_and_mean_of_their_layer_and_the_prompt_before_generation(study):
    methods = ["postcal-group", "postcal-binary", "cocal-group", "cocal-binary", "cocal-pre-generation"]
    table = study.run(*methods)
    assert sorted(table.groupby(["method", "seed"]).groups) == sorted((m, seed) for m in methods for seed in SEEDS)
    for method in methods:
        experience = {"postcal": "resampled", "cocal": "rollouts"}[method.partition("-")[0]]
        before = method == "cocal-pre-generation"
        (companions,) = study.companions["prompts" if before else experience]
        assert_scored(table, method, companions, states_of(study, poolings=("prompt",) if before else ("last", "mean")))
    assert table.groupby(["method", "seed"])["confidence"].first().nunique() == len(methods) * len(SEEDS)


def test_every_companion_of_a_sweep_has_rows_of_its_own_steps_and_states(study, tmp_path):
    features, study.states = write_features(tmp_path / "features", study.frame)
    folders = {"rollouts": [], "resampled": []}
    for experience, *prefix in (("rollouts", 2, 2), ("rollouts", 5, 5), ("rollouts", 5, 60), ("resampled", 5, 60)):
        folder = tmp_path / "-".join(map(str, (experience, *prefix)))
        folders[experience].append(write_companions(folder, prefix=prefix, experience=experience))
    kinds = [(0, ("last", "mean")), (1, ("last",)), (1, ("mean",))]
    for number, (layer, poolings) in enumerate(kinds):  # of an ablation
        folders["rollouts"].append(write_companions(tmp_path / f"{number}", layer=layer, poolings=poolings))
    companions = load_experiences(folders)
    given = {"features": {"answer": features}, "companions": companions}
    table = study.run("token-probability", "cocal-binary", "postcal-binary", **given)
    assert len(table) == QUESTIONS * SAMPLES * (1 + 7 * len(SEEDS))
    for method, experience in (("cocal-binary", "rollouts"), ("postcal-binary", "resampled")):
        for one in companions[experience]:
            assert_scored(table, method, one, states_of(study, one.spec.layer, one.spec.poolings))


def test_transfer_to_rlcr_admits_responses_without_a_task_part(study, tmp_path):
    """Appendix D: features of the response up to <reason>; nothing before it means no confidence."""
    study.verbal["confidence"] = 0.5
    study.prompt_format, study.algorithm = "rlcr", "rlcr"
    begun = study.verbal.assign(length=study.verbal["length"] - 1)
    features, states = write_features(tmp_path / "features", begun[begun["response_id"] != 3], task_response=True)
    companions = load_experiences({"rollouts": [write_companions(tmp_path / "companions")]})
    table = study.run("cocal-on-rlcr", "rlcr", features={"rlcr": features}, companions=companions)
    mine = table[(table["method"] == "cocal-on-rlcr") & (table["seed"] == SEEDS[0])].set_index("response_id")
    assert mine.index[~mine["valid"]].tolist() == [3]
    (one,) = companions["rollouts"]
    there = mine[mine["valid"]]
    expected = one.predict(states_of(study, states=states, ids=there.index))
    np.testing.assert_array_equal(there["confidence"], expected[one.members.index(("binary", SEEDS[0]))])
    longer = study.verbal.assign(length=study.verbal["length"] + 1)
    longer, _ = write_features(tmp_path / "longer", longer, task_response=True)
    with pytest.raises(ContractError, match="features of other responses"):
        study.run("cocal-on-rlcr", features={"rlcr": longer}, companions=companions)
    whole, _ = write_features(tmp_path / "whole", study.verbal)
    with pytest.raises(ContractError, match=r"companions read responses up to <reason>; .* with --task-response"):
        study.run("cocal-on-rlcr", features={"rlcr": whole}, companions=companions)


def test_transfer_to_dcpo_keeps_the_whole_response(study, tmp_path):
    study.verbal["confidence"] = 0.5
    study.prompt_format, study.algorithm = "dcpo", "dcpo"
    companions = load_experiences({"rollouts": [write_companions(tmp_path / "companions")]})
    begun, _ = write_features(tmp_path / "begun", study.verbal, task_response=True)
    with pytest.raises(ContractError, match=r"companions read whole responses; .* without --task-response"):
        study.run("cocal-on-dcpo", features={"dcpo": begun}, companions=companions)
    whole, _ = write_features(tmp_path / "whole", study.verbal)
    assert study.run("cocal-on-dcpo", features={"dcpo": whole}, companions=companions)["valid"].all()


@pytest.mark.parametrize(
    ("column", "value"), [("length", 9), ("length", 1), ("question_id", "q9"), ("response_id", 999), (None, None)]
)
def test_features_of_other_responses_are_refused(study, tmp_path, column, value):
    companions = {"rollouts": [load_companions(write_companions(tmp_path / "companions"))]}
    if column is None:
        planted = study.frame[study.frame["response_id"] != POOL]
    else:
        planted = study.frame.copy()
        planted.loc[POOL, column] = value
    features, _ = write_features(tmp_path / "features", planted)
    with pytest.raises(ContractError, match=rf"sums\.zarr: .*response_id {POOL}.*extract ") as error:
        study.run("cocal-binary", features={"answer": features}, companions=companions)
    assert str(tmp_path / "answer" / "sums.parquet") in str(error.value)


def test_a_method_without_companions_of_its_target_or_experience_is_refused(study, tmp_path):
    companions = {"rollouts": [load_companions(write_companions(tmp_path / "companions", targets=("binary",)))]}
    features = {"answer": write_features(tmp_path / "features", study.frame)[0]}
    with pytest.raises(ConfigError, match="cocal-group needs companions of target 'group'; there are only binary"):
        study.run("cocal-group", features=features, companions=companions)
    with pytest.raises(ConfigError, match=r"postcal-binary needs features in the answer format, .* on resampled"):
        study.run("postcal-binary", features=features, companions=companions)
    with pytest.raises(ConfigError, match=r"cocal-group needs features in the answer format, .* on rollouts"):
        study.run("cocal-group", features=features)


# Command


def test_the_command_writes_all_methods_reproducibly(study, tmp_path):
    write_responses(tmp_path / "answer", study.frame)
    write_responses(tmp_path / "verbal", study.verbal)
    write_features(tmp_path / "features", study.frame)
    companions = [f"{e}={write_companions(tmp_path / e, experience=e)}" for e in ORDERS]
    extra = [f"--features=answer={tmp_path / 'features'}", "--companions", *companions]
    outputs = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for output in outputs:
        assert main(command(tmp_path, output, *extra)) == 0
    table = read_frame(outputs[0], PREDICTIONS)
    table = table[table["method"].isin(OURS)]
    assert list(table["method"].unique()) == ["verbal", *SHARED]
    assert len(table) == QUESTIONS * SAMPLES * (4 + 5 * len(SEEDS))
    assert set(table.loc[table["seed"] >= 0, "source_step"]) == {STEP}
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.slow
def test_torch_is_loaded_for_companions_alone(study, tmp_path):
    write_responses(tmp_path / "answer", study.frame)
    arguments = command(tmp_path, tmp_path / "x.parquet", "--methods=self-consistency,token-probability,p-true")
    code = f"import sys; from cocal.cli import main; assert main({arguments}) == 0; print('torch' in sys.modules)"
    assert started.python(code).stdout.strip() == "False"
