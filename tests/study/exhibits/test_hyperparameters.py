"""The table of hyperparameters: what it says is what the study is."""

import pytest

from cocal.companion.model import CompanionMLP
from cocal.companion.spec import parameters
from cocal_study.config import load_study
from cocal_study.exhibits.hyperparameters import grid, prepare
from cocal_study.exhibits.typesetting.latex import latex
from cocal_study.questions.registry import known_wrong, registry_of
from exhibits_by_name import NOTHING, exhibit_of, exhibits_by_name
from sample_tables import paper_study

PUBLISHED = r"""
Training steps & 120 \\
Questions per step & 256 \\
Responses per question & 8 \\
Maximum response length (GRPO / DCPO) & 3,000 \\
Maximum response length (RLCR) & 4,096 \\
Rollout temperature & 1.0 \\
Clip ratio (lower / upper) & 0.20 / 0.28 \\
Representation layer & Final transformer block \\
Input dimension (8B / 14B) & 8,192 / 10,240 \\
MLP hidden-layer widths & 2,048 / 1,024 / 512 / 256 \\
Train / validation split & 90\% / 10\% by question \\
Loss & MSE \\
Optimizer & Adam \\
CoCal learning rate & 4 $\times$ 10$^{-4}$ \\
CoCal weight decay & 0 \\
CoCal training order & Chronological \\
Batch size & 256 \\
Checkpoint selection & Lowest binary validation MSE \\
Random seeds & 42, 137, 500, 700, 1024 \\
Sampling temperature & 0.7 \\
Top-p & 0.8 \\
Top-k & 20 \\
Presence penalty & 1.5 \\
"""
"""tab:hyperparameters, all rows that name no set."""


def prepared(study, wrong=NOTHING):
    return prepare(exhibit_of(study, "hyperparameters", wrong).layout)


def settings(wrong=NOTHING, **changes) -> dict[str, str]:
    frame = prepared(paper_study(**changes), wrong)
    assert frame["setting"].groupby(frame["section"]).value_counts().max() == 1
    return dict(zip(frame["section"] + ": " + frame["setting"], frame["value"], strict=True))


def test_the_published_rows_in_their_order():
    layout = exhibit_of(paper_study(), "hyperparameters").layout
    lines = latex(grid(prepare(layout), layout)).splitlines()
    places = [lines.index(rf"\raggedright {row}") for row in PUBLISHED.strip().splitlines()]
    assert places == sorted(places)
    titles = [line for line in lines if line.startswith(r"\multicolumn{2}{l}{\textit{")]
    assert [title.split("{")[-1].split("}")[0] for title in titles] == [
        *("Policy training", "Companion training", "Evaluation", "Not stated in the paper")
    ]
    assert not any("calibrator" in line.lower() for line in lines)  # it is called a companion everywhere
    assert r"Response lengths are measured in tokens. Tiny policies of 0.4 M parameters \& synthetic" in "".join(lines)


def test_the_size_of_a_companion_is_that_of_its_module():
    """Section 7 of the design: 19.5 M parameters at the width of Qwen3-8B."""
    found = settings()["Companion training: Parameters of a companion (8B / 14B)"]
    counts = [
        sum(
            weights.numel()
            for weights in CompanionMLP(inputs, (2048, 1024, 512, 256), seeds=[42], targets=1).parameters()
        )
        for inputs in (8192, 10240)
    ]
    assert found == " / ".join(f"{count:,}" for count in counts)
    assert counts[0] == pytest.approx(19.5e6, rel=0.01)
    assert parameters(6, ()) == 7


def test_equal_lengths_share_a_row():
    found = settings()
    assert found["Evaluation: Maximum response length (AIME24 / AIME25 / AMC23 / AMC24)"] == "16,384"
    assert found["Evaluation: Maximum response length (other sets)"] == "4,096"
    assert found["Evaluation: Responses per question (AIME24 / AIME25 / AMC23 / AMC24)"] == "10"
    assert found["Evaluation: Responses per question (other sets)"] == "1"
    policy = {"dataset": "deepscaler", "algorithms": ["grpo", "dcpo"]}
    found = settings(policy=policy)
    assert found["Policy training: Maximum response length"] == "3,000"
    policy["max_response_length"] = {"grpo": 64, "dcpo": 76}
    found = settings(policy=policy)
    assert found["Policy training: Maximum response length (GRPO)"] == "64"
    assert found["Policy training: Maximum response length (DCPO)"] == "76"


def test_what_the_paper_leaves_open_follows_the_study():
    changes = {
        "policy": {
            "dataset": "deepscaler",
            "algorithms": ["grpo", "rlcr", "dcpo"],
            "learning_rate": 2.5e-6,
            "adam_betas": [0.9, 0.98],
            "loss": "dapo",
            "updates_per_step": 4,
            "invalid_confidence": 0.25,
            "clip_low": 0.205,
        },
        "companion": {"passes": 30, "learning_rate": 0.001},
        "postcal": {"temperature": 0.7, "top_p": 0.95, "top_k": 20, "presence_penalty": 1.5, "shuffle_seed": 7},
        "estimators": {"missing_answer": "invalid"},
        "prompts": "qwen3",
    }
    found = settings(**changes)
    assert found["Policy training: Clip ratio (lower / upper)"] == "0.205 / 0.28"
    assert found["Companion training: CoCal learning rate"] == "1 × 10⁻³"
    section = {key.partition(": ")[2]: value for key, value in found.items() if key.startswith("Not stated")}
    expected = {
        "Policy learning rate": "2.5 × 10⁻⁶",
        "Policy Adam betas": "0.9 / 0.98",
        "Policy weight decay": "0",
        "Policy gradient clipping": "1.0",
        "Averaging of the policy loss": "Over all tokens",
        "Optimizer updates per step": "4",
        "Standard deviation of a group": "Divisor 7, plus 1 × 10⁻⁴",
        "Error if the confidence is invalid (RLCR / DCPO)": "0.25",
        "Passes over the companions' data": "30",
        "Pre-generation batch": "32 questions, 256 rollouts",
        "PostCal sampling temperature": "0.7",
        "PostCal top-p / top-k": "0.95 / 20",
        "PostCal presence penalty": "1.5",
        "PostCal training order": "Shuffled in every pass (seed 7)",
        "SelfConsis confidence without an answer": "No confidence",
        "SelfConsis classes of factual answers": "Equal normal forms",
        "Prompt set": "qwen3",
    }
    assert section == section | expected


def test_what_a_study_does_not_do_has_no_row():
    found = settings(
        policy={"dataset": "deepscaler", "algorithms": ["grpo"]},
        estimators={"methods": ["verbal", "cocal-binary"]},
        companion={"targets": ["binary"]},
    )
    absent = ("PostCal", "SelfConsis", "confidence is invalid", "DCPO", "group targets", "Course", "Cut")
    assert not [setting for setting in found if any(word in setting for word in absent)]


def test_rows_known_to_be_wrong_are_counted_by_what_became_of_them(repository):
    study = load_study(repository / "config/paper.yaml")
    registry = registry_of(study.question_sets.registered, repository / "config/datasets.yaml")
    wrong = known_wrong(study.question_sets.registered, registry)
    assert wrong == {"aime25": 1, "amc24": 8}

    def rows(chosen) -> dict[str, str]:
        frame = prepared(chosen, wrong)
        return dict(frame[frame["section"] == "Evaluation"][["setting", "value"]].to_numpy().tolist())

    assert rows(study)["Rows known to be wrong (AIME25 / AMC24)"] == "1 / 8, as distributed"
    content = study.model_dump()
    content["datasets"]["amc24"]["source"]["corrections"] = True
    mended = type(study).model_validate(content)
    assert rows(mended)["Rows known to be wrong (AIME25)"] == "1, as distributed"
    assert rows(mended)["Rows known to be wrong (AMC24)"] == "8, corrected"
    distributed = "Questions or answers known to be wrong are kept as distributed: AIME25 (1 of 30), AMC24 (8 of 45)."
    both = "known to be wrong are kept as distributed: AIME25 (1 of 30). Questions or answers known to be wrong are "
    for of_study, remark in ((study, distributed), (mended, both + "corrected: AMC24 (8 of 45).")):
        shown = exhibits_by_name(of_study, wrong)
        for name in ("main", "main_step40", "scale"):
            assert shown[name].layout.remark.endswith(remark)
        assert "known to be wrong" not in shown["ood"].layout.remark
    assert exhibit_of(study, "main").layout.remark == ""


def test_the_paper_study_shows_the_settings_of_each_algorithm_and_the_fate_of_registered_questions(repository):
    """Those of the published code of RLCR and DCPO (appendix B.2)."""
    found = prepared(load_study(repository / "config/paper.yaml"))
    rows = dict(zip(found["setting"], found["value"], strict=True))
    expected = {
        "Policy learning rate (GRPO)": "1 × 10⁻⁶",
        "Policy learning rate (RLCR)": "5 × 10⁻⁶",
        "Policy learning rate (DCPO)": "2 × 10⁻⁶",
        "Optimizer updates per step (GRPO / RLCR)": "1",
        "Optimizer updates per step (DCPO)": "4",
        "Averaging of the policy loss (GRPO)": "Within responses first",
        "Averaging of the policy loss (RLCR / DCPO)": "Over all tokens",
        "Policy weight decay (GRPO / RLCR)": "0",
        "Policy weight decay (DCPO)": "0.01",
        "Course of the policy's learning rate (GRPO / DCPO)": "Constant",
        "Course of the policy's learning rate (RLCR)": "Rises over 20% of the updates, then falls linearly to 0",
        "Cut rollouts (GRPO / DCPO)": "Like all others",
        "Cut rollouts (RLCR)": "Recorded, and left out of the loss",
        "Clip ratio (lower / upper)": "0.20 / 0.28",
        "Training questions that an evaluation set asks": "Left out",
        "Training questions of one text": "One question, any of its answers",
        "SelfConsis classes of factual answers": "First that the judge finds equal",
    }
    assert rows == rows | expected


def test_precisions_of_a_training_on_gpus_are_shown():
    """tests/cocal/features/test_precision.py holds what they say."""
    shared = {"algorithms": ["grpo"], "dataset": "deepscaler"}
    converted = {"torch_dist": {"qwen3-8b": "/8b", "qwen3-14b": "/14b"}}
    for change, states, sums in (
        ({"trl": {"shard": True, "vllm": True}}, "bfloat16, as in evaluation", "float32"),
        ({"trl": {"vllm": True}}, "bfloat16 products, float32 residual stream", None),
        ({"engine": "slime", "slime": converted}, "bfloat16, as in evaluation", None),
        ({}, None, None),
    ):
        found = settings(policy=shared | change)
        assert found.get("Not stated in the paper: Precision of rollout states") == states
        assert found.get("Not stated in the paper: Precision of sums of gradients over GPUs") == sums


def test_the_largest_group_of_sets_is_not_named():
    """Three sets are named, and five are the others; in the paper both groups have four."""
    study = paper_study()
    longer = {name: one for name, one in study.datasets.items() if one.max_response_length == 16_384}
    changed = next(iter(longer))
    datasets = {**study.datasets, changed: longer[changed].model_copy(update={"max_response_length": 4096})}
    layout = exhibit_of(study.model_copy(update={"datasets": datasets}), "hyperparameters").layout
    found = [row for row in prepare(layout)["setting"] if row.startswith("Maximum response length (") and "AMC" in row]
    others = [row for row in prepare(layout)["setting"] if row == "Maximum response length (other sets)"]
    assert len(found) == len(others) == 1
    assert longer[changed].label not in found[0]
    assert found[0].count(" / ") == len(longer) - 2
