"""Flags that several stages of the workflow share."""

from pathlib import Path

from cocal.commands.flags import COUNT, INDEX, flag, output, required
from cocal.commands.outputs import FOLDER, STEPS

# without a default, since other prompts make another study
PROMPTS = required("--prompts SET", "prompt set: a folder of cocal_study/questions/prompts")
RUN_FOLDER = required("--run-folder", "working folder; a killed run resumes from it", type=Path)
BACKBONE = required("--backbone", "name of the backbone")
CELL = (
    BACKBONE,
    required("--algorithm", "algorithm that trained the policy, or base"),
    required("--step", "rollout step of the checkpoint", type=INDEX),
)
VERIFIER = flag("--verifier", "JSON: bounds of the verifier", default="{}")
TRAINED_BY = required("--algorithm", choices=["grpo", "rlcr", "dcpo"])
TRAINING = (
    required("--settings", "JSON: settings of the policy training"),
    VERIFIER,
    TRAINED_BY,
    required("--base", "checkpoint to start from", type=Path),
    required("--questions", "training set", type=Path),
    PROMPTS,
    RUN_FOLDER,
    output("--stages", "folder for step-N checkpoints", STEPS, required=True),
    output("--rollouts", "folder for the rollout tables, one per step", FOLDER, required=True),
    output("--cost", "JSON file for the time of the training"),
)
"""Flags of the commands that train a policy."""
CACHE = flag(
    "--cache FOLDER",
    "source files, in the layout of their hosts (default: the variable COCAL_SOURCES, else results/sources)",
    type=Path,
    default=Path("results/sources"),
    variable="COCAL_SOURCES",
)
READERS = (
    flag(
        "--checkpoints FOLDER",
        "step-N of every stage; each reads the rollout steps after the stage before it, up to N",
        default=[],
        nargs="+",
        type=Path,
    ),
    flag(
        "--exact",
        "folder of the weights of every step; weight_v000001 (of slime) or step-0 sampled step 1 and reads it",
        type=Path,
    ),
)
"""Flags of the checkpoints that read stored rollouts (`cocal_study.generation.replay`)."""
JUDGE = (
    flag("--verifier", "JSON: bounds of the verifier, the judge of mathematics", default="{}"),
    flag("--judge", "JSON: judge of factual answers", default='{"kind": "exact-match"}'),
    flag(
        "--judgements",
        "folder that caches a language model's replies; jobs share it, and it may be deleted",
        type=Path,
        default=Path("results/judgements"),
    ),
)
FEATURES = flag("--settings", "JSON: layers, dtype, batch_tokens", default="{}")
COMPANION = flag("--settings", "JSON: settings of companions (default: the paper's)")
ROLLOUTS = required("--rollouts", "folder of rollout tables", type=Path)
TRAINING_SET = required("--questions", "whole training set, with validation questions", type=Path)
LEARNT = (COMPANION, ROLLOUTS, TRAINING_SET, required("--features", "feature store of the rollouts", type=Path))
"""Flags of what companions learn from."""
READ = (
    flag("--prompt", "also store the state of the last prompt token", action="store_true"),
    flag("--task-response", "stop before the first <reason> or confidence statement", action="store_true"),
)
"""Flags of what is read of evaluation responses."""
STORE = output("--output", "feature store to write", FOLDER, required=True)
SAMPLES = required("--samples", "JSON: evaluated responses per question, by question set")
POOL = flag("--pool", "responses per question in the self-consistency pool", type=COUNT, default=10)
