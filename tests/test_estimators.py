"""Each estimator against its equation, and the protocol that predictions keep."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from cocal.cli import main
from cocal.companion.companions import Companions, build_model, load_companions, save_companions
from cocal.companion.spec import ORDERS, CompanionSpec
from cocal.config.protocol import Companion, Estimators
from cocal.config.protocol import Verifier as VerifierSettings
from cocal.errors import ConfigError, ContractError
from cocal.estimators.companion import load_experiences
from cocal.estimators.p_true import p_true
from cocal.estimators.predictions import check_shared_responses, predict
from cocal.estimators.registry import METHODS
from cocal.estimators.responses import EvaluationSets, Inputs
from cocal.estimators.self_consistency import self_consistency
from cocal.estimators.token_probability import token_probability
from cocal.features.store import create_features
from cocal.schemas import PREDICTIONS, RESPONSES
from cocal.store import atomic_path, read_frame, write_frame
from cocal.verify.confidence import parse_confidence
from cocal.verify.equivalence import Verifier

POOL = 10
QUESTIONS = 4
SAMPLES = 2
STEP = 60
HIDDEN = 3
SETS = EvaluationSets.model_validate({"sums": {"samples": SAMPLES, "domain": "mathematics"}})
TRAINING_FREE = ["self-consistency", "token-probability", "p-true"]
SHARED = [*TRAINING_FREE, "postcal-group", "postcal-binary", "cocal-group", "cocal-binary"]
SEEDS = (42, 137)


@pytest.fixture(scope="module")
def verifier():
    """Judges answers; starts a process if a comparison needs one."""
    with Verifier(VerifierSettings()) as verifier:
        yield verifier


def responses(pool=POOL, seed=0):
    """A responses table of QUESTIONS x `pool` rows with every kind of trouble among the evaluated ones."""
    rng = np.random.default_rng(seed)
    n = QUESTIONS * pool
    lengths = rng.integers(2, 9, n)
    logprobs = [-rng.exponential(0.5, length).astype(np.float32) for length in lengths]
    correct = rng.random(n) < 0.5
    frame = pd.DataFrame(
        {
            "dataset": "sums",
            "question_id": np.repeat([f"q{i}" for i in range(QUESTIONS)], pool),
            "response_id": np.arange(n),
            "step": STEP,
            "sample": np.tile(np.arange(pool), QUESTIONS),
            "prompt_ids": [[1, 2]] * n,
            "response_ids": [list(range(length)) for length in lengths],
            "logprobs": logprobs,
            "text": "t",
            "length": lengths,
            "finish_reason": "stop",
            "truncated": False,
            "mean_logprob": [float(np.mean(values, dtype=np.float64)) for values in logprobs],
            "answer": rng.choice(["1", "2", "01", "1/2", "0.5"], n).astype(object),
            "correct": correct,
            "group_accuracy": correct.reshape(QUESTIONS, pool).mean(axis=1).repeat(pool),
            "reward_task": np.nan,
            "reward_calibration": np.nan,
            "confidence": np.nan,
            "p_true": np.where(np.tile(np.arange(pool), QUESTIONS) < SAMPLES, rng.random(n), np.nan),
        }
    )
    truncated = [0, pool + 1]  # evaluated ones
    frame.loc[truncated, ["finish_reason", "truncated"]] = ["length", True]
    frame.loc[truncated[0], "answer"] = None
    return frame


def write_responses(folder, frame):
    write_frame(folder / "sums.parquet", frame, RESPONSES, {})
    return folder


def write_features(folder, frame):
    """Features of the evaluated responses, in an order of their own."""
    evaluated = frame[frame["sample"] < SAMPLES].iloc[::-1]
    n = len(evaluated)
    values = np.random.default_rng(1).normal(size=(n, 2, 2, HIDDEN)).astype(np.float32)
    writer = create_features(
        folder / "sums.zarr", responses=n, layers=[0, 1], hidden=HIDDEN, rows_per_chunk=n, dtype="float32"
    )
    writer.write(0, evaluated["response_id"].to_numpy(), evaluated["length"].to_numpy(), values)
    by_response = pd.Series(list(values), index=evaluated["response_id"])
    return folder, by_response


def write_companions(folder, targets=("group", "binary"), layer=1, steps=STEP, experience="rollouts"):
    """Companions with the weights that training would start from, shifted by the steps that they learnt from."""
    settings = Companion(widths=(4, 3), dropout=(), targets=targets, seeds=SEEDS)
    spec = CompanionSpec(
        settings=settings,
        inputs=2 * HIDDEN,
        layer=layer,
        poolings=("last", "mean"),
        steps=steps,
        order=ORDERS[experience],
        shuffle_seed=1 if experience == "resampled" else None,
        training_responses=1,
        validation_responses=1,
        training_error_share=0.5,
        best_pass=(1,) * len(targets) * len(SEEDS),
    )
    model = build_model(settings, spec.inputs)
    model.initialise()
    model.output.bias.data += torch.arange(len(spec.members))[:, None] / 2  # members of one seed start equal
    model.output.bias.data += steps / 100 + (experience == "resampled") / 5
    with atomic_path(folder) as partial:
        partial.mkdir()
        save_companions(partial / "companions.safetensors", Companions(spec, model.eval()), {})
    return folder


@pytest.fixture
def study(tmp_path, verifier):
    """Everything on disk; `run(names, ...)` predicts."""

    class Study:
        frame = responses()
        verbal = responses(pool=SAMPLES, seed=5)  # in the format of `protocol`
        protocol = "verbal"
        estimators = Estimators()
        algorithm = "grpo"

        def run(self, *names, sets=SETS, **given):
            folders = {
                "answer": write_responses(tmp_path / "answer", self.frame),
                self.protocol: write_responses(tmp_path / "verbal", self.verbal),
            }
            if "features" not in given and any(METHODS[name].experience for name in names if name in METHODS):
                given["features"], self.states = write_features(tmp_path / "features", self.frame)
                given["companions"] = self.companions = load_experiences(
                    {e: [write_companions(tmp_path / e, experience=e)] for e in ORDERS}
                )
            inputs = Inputs(self.estimators, verifier, POOL, **given)
            table = predict(names, sets, folders, inputs, backbone="tiny", algorithm=self.algorithm, step=STEP)
            return PREDICTIONS.check(table, "test")

        def evaluated(self):
            return self.frame[self.frame["sample"] < SAMPLES].reset_index(drop=True)

    return Study()


# Equations of appendix B.1


def test_token_probability_is_the_exponential_of_the_mean():
    np.testing.assert_allclose(token_probability([np.log([0.5, 0.125]).mean(), 0.0]), [0.25, 1.0])


def test_token_probability_includes_the_end_of_sequence_token(study):
    """The last token is improbable: leaving it out would give 1."""
    study.frame.loc[0, "length"] = 3
    study.frame.at[0, "response_ids"] = [5, 6, 2]
    study.frame.at[0, "logprobs"] = np.log(np.array([1.0, 1.0, 0.001], dtype=np.float32))
    study.frame.loc[0, "mean_logprob"] = np.log(0.001) / 3
    confidence = study.run("token-probability")["confidence"]
    assert confidence[0] == pytest.approx(0.1, rel=1e-5)
    study.frame.loc[0, "mean_logprob"] = 0.0  # the mean without it
    with pytest.raises(ContractError, match=r"sums\.parquet: mean_logprob must be the mean of logprobs.*first 0"):
        study.run("token-probability")


def test_p_true_is_a_ratio_without_underflow():
    np.testing.assert_allclose(p_true(np.log([0.2, 0.3]), np.log([0.6, 0.1])), [0.25, 0.75])
    np.testing.assert_allclose(p_true([-1000.0, -2000.0, 0.0], [-1000.0, -1.0, -2000.0]), [0.5, 0.0, 1.0])


def test_self_consistency_is_the_share_of_the_pool_with_itself(verifier):
    answers = ["1/2", "0.5", "3", None, "7", "7", "7", "7"]
    shares = self_consistency(answers, ["a"] * 4 + ["b"] * 4, verifier, "mathematics")
    np.testing.assert_array_equal(shares, [0.5, 0.5, 0.25, np.nan, 1, 1, 1, 1])


def test_self_consistency_does_not_depend_on_the_order_of_the_pool(study, verifier):
    frame = study.frame
    answers = [None if pd.isna(a) else a for a in frame["answer"]]
    shares = self_consistency(answers, frame["question_id"].tolist(), verifier, "mathematics")
    order = np.random.default_rng(3).permutation(len(frame))
    shuffled = self_consistency(
        [answers[i] for i in order], frame["question_id"].iloc[order].tolist(), verifier, "mathematics"
    )
    np.testing.assert_array_equal(shuffled, shares[order])


def test_self_consistency_of_factual_answers_matches_their_normal_form(verifier):
    shares = self_consistency(["The Nile", "nile.", "Amazon"], [0, 0, 0], verifier, "factual")
    np.testing.assert_allclose(shares, [2 / 3, 2 / 3, 1 / 3])


def test_pool_is_all_ten_responses_though_two_are_evaluated(study):
    study.frame["answer"] = np.tile(["5"] + ["6"] * 2 + ["5"] * 6 + [None], QUESTIONS)
    table = study.run("self-consistency")
    assert len(table) == QUESTIONS * SAMPLES
    assert table["confidence"].tolist() == [0.7, 0.2] * QUESTIONS


@pytest.mark.parametrize(("setting", "confidence"), [("zero", 0.0), ("invalid", np.nan)])
def test_missing_answer_follows_the_setting(study, setting, confidence):
    study.estimators = Estimators(missing_answer=setting)
    row = study.run("self-consistency").iloc[0]
    np.testing.assert_equal(row["confidence"], confidence)
    assert row["valid"] == (setting == "zero")


def test_pool_of_another_size_is_refused(study):
    study.frame = study.frame.drop(index=len(study.frame) - 1)
    with pytest.raises(ContractError, match=r"sums\.parquet: question 'q3' has 9 responses.*pool of 10"):
        study.run("self-consistency")


# Companions


def states_of(study):
    """Last || mean of layer 1 of the evaluated responses."""
    return np.stack(study.states.loc[study.evaluated()["response_id"]].to_list())[:, 1].reshape(-1, 2 * HIDDEN)


def test_companions_score_last_and_mean_of_their_layer(study):
    methods = ["postcal-group", "postcal-binary", "cocal-group", "cocal-binary"]
    table = study.run(*methods)
    assert sorted(table.groupby(["method", "seed"]).groups) == sorted((m, seed) for m in methods for seed in SEEDS)
    assert (table["source_step"] == STEP).all()
    first = []
    for experience, method in (("rollouts", "cocal"), ("resampled", "postcal")):
        (companions,) = study.companions[experience]
        expected = companions.predict(states_of(study))
        first += expected[:, 0].tolist()
        for member, (target, seed) in enumerate(companions.members):
            mine = table[(table["method"] == f"{method}-{target}") & (table["seed"] == seed)]
            np.testing.assert_array_equal(mine["confidence"], expected[member])
    assert len(set(first)) == 8  # members differ, so that a mix-up would show


def test_every_companion_of_a_sweep_has_rows_of_its_own_source_step(study, tmp_path):
    features, study.states = write_features(tmp_path / "features", study.frame)
    sweep = [("rollouts", 2), ("rollouts", 5), ("resampled", 5)]
    folders = {e: [] for e in ORDERS}
    for experience, steps in sweep:
        folder = tmp_path / f"{experience}-{steps}"
        folders[experience].append(write_companions(folder, steps=steps, experience=experience))
    companions = load_experiences(folders)
    table = study.run("token-probability", "cocal-binary", "postcal-binary", features=features, companions=companions)
    found = table.groupby(["method", "source_step"], sort=True).size().to_dict()
    count, members = QUESTIONS * SAMPLES, len(SEEDS) * QUESTIONS * SAMPLES
    assert found == {
        ("cocal-binary", 2): members,
        ("cocal-binary", 5): members,
        ("postcal-binary", 5): members,
        ("token-probability", -1): count,
    }
    pairs = [
        (f"{name}-binary", one)
        for name, e in (("cocal", "rollouts"), ("postcal", "resampled"))
        for one in companions[e]
    ]
    for method, one in pairs:
        mine = table[(table["method"] == method) & (table["source_step"] == one.spec.steps)]
        expected = one.predict(states_of(study))[one.members.index(("binary", SEEDS[1]))]
        np.testing.assert_array_equal(mine.loc[mine["seed"] == SEEDS[1], "confidence"], expected)


def test_companions_of_another_experience_or_twice_the_same_are_refused(tmp_path):
    own = write_companions(tmp_path / "own")
    other = write_companions(tmp_path / "other", experience="resampled")
    with pytest.raises(ContractError, match="other: fitted in shuffled order, but companions on rollouts are fitted"):
        load_experiences({"rollouts": [own, other]})
    with pytest.raises(ConfigError, match="two companions on rollouts learnt from the same number of steps"):
        load_experiences({"rollouts": [own, own]})


@pytest.mark.parametrize("change", ["length", "missing", "other"])
def test_features_of_other_responses_are_refused(study, tmp_path, change):
    companions = {"rollouts": [load_companions(write_companions(tmp_path / "companions"))]}
    planted = study.frame.copy()
    if change == "length":
        planted.loc[POOL, "length"] += 1
    elif change == "missing":
        planted = planted[planted["response_id"] != POOL]
    else:
        planted.loc[POOL, "response_id"] = 999
    features, _ = write_features(tmp_path / "features", planted)
    with pytest.raises(ContractError, match=rf"sums\.zarr: .*response_id {POOL}") as error:
        study.run("cocal-binary", features=features, companions=companions)
    assert str(tmp_path / "answer" / "sums.parquet") in str(error.value)


def test_method_without_companions_of_its_target_or_experience_is_refused(study, tmp_path):
    companions = {"rollouts": [load_companions(write_companions(tmp_path / "companions", targets=("binary",)))]}
    features, _ = write_features(tmp_path / "features", study.frame)
    with pytest.raises(ConfigError, match="cocal-group needs companions of target 'group'; there are only binary"):
        study.run("cocal-group", features=features, companions=companions)
    with pytest.raises(ConfigError, match="postcal-binary needs features, and companions on resampled"):
        study.run("postcal-binary", features=features, companions=companions)
    with pytest.raises(ConfigError, match="cocal-group needs features, and companions on rollouts"):
        study.run("cocal-group", features=features)


# Protocol


def test_truncated_and_wrong_responses_stay(study):
    table = study.run(*SHARED)
    for _, rows in table.groupby(["method", "seed", "source_step"]):
        assert rows["response_id"].tolist() == study.evaluated()["response_id"].tolist()
        assert rows["truncated"].sum() == 2
        assert rows["correct"].tolist() == study.evaluated()["correct"].tolist()


def test_fixed_responses_are_shared(study):
    """Exactly the methods that appendix B.1 lists, on one file."""
    assert {name for name, method in METHODS.items() if method.protocol == "answer"} == set(SHARED)
    table = study.run(*SHARED, "verbal")
    check_shared_responses(table)
    other = table.copy()
    row = other.index[other["method"] == "p-true"][1]
    other.loc[row, "correct"] = ~other.loc[row, "correct"]
    with pytest.raises(ContractError, match=r"p-true.*not evaluated on the same fixed responses"):
        check_shared_responses(other)
    with pytest.raises(ContractError, match=r"token-probability.*not evaluated on the same fixed responses"):
        check_shared_responses(table.drop(index=table.index[table["method"] == "token-probability"][0]))
    verbal = table.copy()
    verbal.loc[verbal["method"] == "verbal", "correct"] ^= True  # own responses: free to differ
    check_shared_responses(verbal)


def test_verbal_confidences_are_those_of_its_own_responses_and_never_imputed(study):
    texts = ["CONFIDENCE: 0.8", "CONFIDENCE: 85%", "CONFIDENCE: 0", "none", "CONFIDENCE: 1.2", *["CONFIDENCE: 1"] * 3]
    study.verbal["confidence"] = [np.nan if (c := parse_confidence(t)) is None else c for t in texts]
    table = study.run("verbal", "token-probability")
    verbal = table[table["method"] == "verbal"]
    np.testing.assert_array_equal(verbal["confidence"], [0.8, np.nan, 0, np.nan, np.nan, 1, 1, 1])
    assert verbal["valid"].tolist() == [True, False, True, False, False, True, True, True]
    assert verbal["correct"].tolist() == study.verbal["correct"].tolist()
    assert (verbal["seed"] == -1).all()


@pytest.mark.parametrize("method", ["rlcr", "dcpo"])
def test_coupled_methods_state_their_confidence_in_their_own_format(study, method):
    study.algorithm = study.protocol = method
    study.verbal["confidence"] = [0.25, np.nan, *[0.5] * 6]
    table = study.run(method)
    np.testing.assert_array_equal(table["confidence"], study.verbal["confidence"])
    assert set(table["seed"]) == set(table["source_step"]) == {-1}
    assert table["correct"].tolist() == study.verbal["correct"].tolist()
    study.protocol = "verbal"
    with pytest.raises(ConfigError, match=f"{method} needs responses in the {method} format; none are given"):
        study.run(method)


def test_no_valid_confidence_still_gives_all_rows(study):
    table = study.run("verbal")
    assert len(table) == QUESTIONS * SAMPLES
    assert not table["valid"].any()
    assert table["confidence"].isna().all()


def test_p_true_that_was_not_asked_for_is_an_error(study):
    study.frame.loc[1, "p_true"] = np.nan
    with pytest.raises(ContractError, match=r"sums\.parquet: column 'p_true' is null for 1 .*response_id 1;"):
        study.run("p-true")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("step", 40, "column 'step' is 40 at row 3, not 60"),
        ("dataset", "products", "column 'dataset' is products at row 3, not sums"),
    ],
)
def test_responses_of_something_else_are_refused(study, column, value, message):
    study.frame.loc[3, column] = value
    with pytest.raises(ContractError, match=message):
        study.run("token-probability")


def test_missing_sample_is_refused(study):
    study.frame = study.frame.drop(index=POOL + 1)
    with pytest.raises(ContractError, match="question 'q1', sample 1, is missing or repeats"):
        study.run("token-probability")


def test_repeated_sample_is_refused(study):
    study.frame.loc[4, "sample"] = 1
    with pytest.raises(ContractError, match="question 'q0', sample 1, is missing or repeats"):
        study.run("token-probability")


def test_method_of_another_policy_is_refused(study):
    with pytest.raises(ConfigError, match="base-verbal is evaluated on responses of the base policy, not of grpo"):
        study.run("base-verbal")
    with pytest.raises(ConfigError, match="methods: none given"):
        study.run()
    study.algorithm = "base"
    assert study.run("base-verbal")["method"].unique().tolist() == ["base-verbal"]


# Command


def command(tmp_path, output, *extra):
    return [
        "predictions",
        "--datasets",
        SETS.model_dump_json(),
        "--backbone=tiny",
        "--algorithm=grpo",
        f"--step={STEP}",
        "--responses",
        f"answer={tmp_path / 'answer'}",
        f"verbal={tmp_path / 'verbal'}",
        f"--output={output}",
        *extra,
    ]


def test_command_writes_all_methods_reproducibly(study, tmp_path):
    write_responses(tmp_path / "answer", study.frame)
    write_responses(tmp_path / "verbal", study.verbal)
    write_features(tmp_path / "features", study.frame)
    companions = [f"{e}={write_companions(tmp_path / e, experience=e)}" for e in ORDERS]
    extra = [f"--features={tmp_path / 'features'}", "--companions", *companions]
    outputs = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for output in outputs:
        assert main(command(tmp_path, output, *extra)) == 0
    table = read_frame(outputs[0], PREDICTIONS)
    assert list(table["method"].unique()) == ["verbal", *SHARED]
    assert len(table) == QUESTIONS * SAMPLES * (4 + 4 * len(SEEDS))
    assert set(table.loc[table["seed"] >= 0, "source_step"]) == {STEP}
    assert set(table.loc[table["seed"] < 0, "source_step"]) == {-1}
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_command_reads_the_format_of_a_coupled_policy(study, tmp_path):
    study.verbal["confidence"] = 0.5
    folder = write_responses(tmp_path / "own", study.verbal)
    flags = ["--algorithm=rlcr", "--responses", f"rlcr={folder}"]
    assert main(command(tmp_path, tmp_path / "x.parquet", *flags)) == 0
    table = read_frame(tmp_path / "x.parquet", PREDICTIONS)
    assert set(table["method"]) == set(table["algorithm"]) == {"rlcr"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--responses", "verbal"], "--responses: 'verbal' is not KIND=FOLDER with one of answer, dcpo, rlcr, verbal"),
        (["--responses", "verbal=a", "verbal=b"], "--responses: 2 folders of the verbal format; give one"),
        (["--companions", "fresh=a"], "--companions: 'fresh=a' is not KIND=FOLDER with one of rollouts, resampled"),
    ],
)
def test_command_names_a_bad_flag(tmp_path, capsys, flags, message):
    assert main(command(tmp_path, tmp_path / "x.parquet", *flags)) == 2
    assert message in capsys.readouterr().err


def test_torch_is_loaded_for_companions_alone(study, tmp_path):
    write_responses(tmp_path / "answer", study.frame)
    arguments = command(tmp_path, tmp_path / "x.parquet", "--methods=self-consistency,token-probability,p-true")
    code = f"import sys; from cocal.cli import main; assert main({arguments}) == 0; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
