"""The hyperparameters of a study (tab:hyperparameters), and those that the paper leaves open."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import pandas as pd

from cocal.rewards import GROUP_EPSILON
from cocal.settings.base import Count, Name
from cocal_study.config.data import RegisteredSettings
from cocal_study.config.methods import METHODS
from cocal_study.config.policy import PolicySettings
from cocal_study.config.study import Study
from cocal_study.exhibits.base import exhibit
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.main import rows_known_to_be_wrong
from cocal_study.exhibits.typesetting.grid import Block, Grid
from cocal_study.planning.plan import prompt_companion

_STATES = 2
"""Number of hidden states that a companion reads: last token || mean over the response (equation 6)."""
_NAMED = 3
"""Of several groups of data sets, the largest is printed as "other sets" if it has more members than this."""
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOSSES = {"grpo": "Within responses first", "dapo": "Over all tokens"}
_OVERLAP = {"exclude": "Left out", "report": "Kept", "refuse": "None"}
_CLASSES = {"exact-match": "Equal normal forms", "llm": "First that the judge finds equal"}
_MISSING = {"zero": "0", "invalid": "No confidence"}


def parameters(inputs: int, widths: Sequence[int]) -> int:
    """Number of parameters of one companion: a linear layer and a LayerNorm for each hidden layer, and the output's."""
    sizes = (inputs, *widths)
    return sum((a + 1) * b + 2 * b for a, b in pairwise(sizes)) + sizes[-1] + 1


class Layout(exhibit.Layout):
    """The contents of the table: the study as its file has it, with its main backbone first and with relative paths."""

    settings: Study
    wrong: dict[Name, Count] = {}
    """Number of rows that are known to be wrong, by question set."""


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    yield TableExhibit(
        title="Hyperparameters",
        chapter="Study",
        position=40,
        caption="Hyperparameters as the configuration of the study has them (the table of appendix A), followed by "
        "those that the paper leaves open.",
        layout=Layout(**exhibit.origin(study), settings=study, wrong=dict(wrong)),
    )


def prepare(layout: Layout) -> pd.DataFrame:
    """The settings, one per row, with the columns section, setting and value (text, as printed)."""
    study = layout.settings
    sections = {
        "Policy training": _policy(study),
        "Companion training": _companion(study),
        "Evaluation": _evaluation(study, layout.wrong),
        "Not stated in the paper": _open(study),
    }
    rows = [(section, *row) for section, settings in sections.items() for row in settings]
    return pd.DataFrame(rows, columns=["section", "setting", "value"])


def grid(numbers: pd.DataFrame, layout: Layout) -> Grid:
    groups = [
        (str(section), [(row.setting, [row.value]) for row in part.itertuples()])
        for section, part in numbers.groupby("section", sort=False)
    ]
    parts = groups[:-1], groups[-1:]  # those that the paper states, and those that it does not
    return Grid(
        title="Hyperparameters",
        caption="Hyperparameters of policies, companions, and evaluation. Response lengths are "
        f"measured in tokens. {layout.caption}",
        blocks=tuple(Block("Setting", [["Value"]], part, names=0.57) for part in parts),
        size="footnotesize",
        apart=True,
    )


def _policy(study: Study) -> Iterator[tuple[str, str]]:
    policy = study.policy
    labels = [backbone.label for backbone in study.backbones.values()]
    yield f"Backbone{'s' * (len(labels) > 1)}", " / ".join(labels)
    yield "Training steps", f"{policy.steps:,}"
    yield "Questions per step", f"{policy.questions_per_step:,}"
    yield "Responses per question", f"{policy.responses_per_question:,}"
    lengths = {name.upper(): f"{policy.max_response_length[name]:,}" for name in policy.algorithms}
    yield from _grouped("Maximum response length", lengths)
    yield "Rollout temperature", _decimal(policy.temperature)
    yield from _by_algorithm(
        policy, "Clip ratio (lower / upper)", lambda p: f"{_decimal(p.clip_low, 2)} / {_decimal(p.clip_high, 2)}"
    )
    yield "KL coefficient", f"{policy.kl_coefficient:g}"
    if "dcpo" in policy.algorithms:
        yield "DCPO weight of the group accuracy", _decimal(policy.dcpo_group_weight)


def _companion(study: Study) -> Iterator[tuple[str, str]]:
    companion = study.companion
    yield "Representation layer", "Final transformer block"
    widths = {backbone.label: f"{_STATES * backbone.width:,}" for backbone in study.backbones.values()}
    yield f"Input dimension ({' / '.join(widths)})", " / ".join(widths.values())
    yield "MLP hidden-layer widths", " / ".join(f"{width:,}" for width in companion.widths)
    sizes = {b.label: f"{parameters(_STATES * b.width, companion.widths):,}" for b in study.backbones.values()}
    yield f"Parameters of a companion ({' / '.join(sizes)})", " / ".join(sizes.values())
    yield "Dropout after the first hidden layers", " / ".join(f"{rate:g}" for rate in companion.dropout)
    held = 100 * companion.validation_share
    yield "Train / validation split", f"{100 - held:g}% / {held:g}% by question"
    yield "Loss", "MSE"
    yield "Optimizer", "Adam"
    yield "CoCal learning rate", _scientific(companion.learning_rate)
    yield "CoCal weight decay", f"{companion.weight_decay:g}"
    yield "CoCal training order", "Chronological"
    yield "Batch size", f"{companion.batch_size:,}"
    yield "Checkpoint selection", "Lowest binary validation MSE"
    yield "Random seeds", ", ".join(map(str, companion.seeds))


def _evaluation(study: Study, wrong: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    sets = [dataset for dataset in study.datasets.values() if dataset.role == "evaluation"]
    yield from _grouped("Maximum response length", {d.label: f"{d.max_response_length:,}" for d in sets})
    yield from _grouped("Responses per question", {d.label: f"{d.samples:,}" for d in sets})
    generation = study.generation
    yield "Sampling temperature", _decimal(generation.temperature)
    yield "Top-p", _decimal(generation.top_p)
    yield "Top-k", f"{generation.top_k:,}"
    yield "Presence penalty", _decimal(generation.presence_penalty)
    if "self-consistency" in study.methods:
        yield "SelfConsis pool", f"{generation.pool:,}"
    if any(dataset.domain == "factual" for dataset in sets):
        yield "Judge of factual answers", study.judge.label
    yield "ECE bins", f"{study.metrics.bins:,}"
    for fate, chosen in rows_known_to_be_wrong(study, wrong).items():
        counts = " / ".join(str(count) for _, count in chosen)
        yield f"Rows known to be wrong ({' / '.join(dataset.label for dataset, _ in chosen)})", f"{counts}, {fate}"


def _open(study: Study) -> Iterator[tuple[str, str]]:
    policy, postcal = study.policy, study.postcal
    for setting, text in (
        ("Policy learning rate", lambda p: _scientific(p.learning_rate)),
        ("Policy Adam betas", lambda p: " / ".join(f"{beta:g}" for beta in p.adam_betas)),
        ("Policy weight decay", lambda p: f"{p.weight_decay:g}"),
        ("Policy gradient clipping", lambda p: _decimal(p.max_gradient_norm)),
        ("Averaging of the policy loss", lambda p: _LOSSES[p.loss]),
        ("Optimizer updates per step", lambda p: f"{p.updates_per_step:,}"),
    ):
        yield from _by_algorithm(policy, setting, text)
    yield from _rare(policy)
    if policy.trl.vllm:  # training on GPUs; evaluation's residual stream is bfloat16, too
        mixed = "bfloat16 products, float32 residual stream"
        states = "bfloat16, as in evaluation" if policy.trl.shard else mixed
        yield "Precision of rollout states", states
    if policy.trl.shard:
        yield "Precision of sums of gradients over GPUs", policy.trl.reduce_dtype
    deviation = f"Divisor {policy.responses_per_question - 1}, plus {_scientific(GROUP_EPSILON)}"
    undivided = "None: rewards are only centred"
    yield from _by_algorithm(
        policy, "Standard deviation of a group", lambda p: deviation if p.advantage_scale == "group" else undivided
    )
    yield "Order of responses within a step", "Question by question, as scheduled"
    if isinstance(study.datasets[policy.dataset].source, RegisteredSettings):
        yield "Training questions that an evaluation set asks", _OVERLAP[study.sources.overlap]
        yield "Training questions of one text", "One question, any of its answers"
    if verbal := [name.upper() for name in policy.algorithms if name != "grpo"]:
        yield f"Error if the confidence is invalid ({' / '.join(verbal)})", _decimal(policy.invalid_confidence)
        yield f"Box behind the confidence ({' / '.join(verbal)})", "The answer; the confidence is invalid"
    yield "Passes over the companions' data", f"{study.companion.passes:,}"
    yield "Validation pool of a budget", "Own responses of all steps"
    if "cocal-pre-generation" in study.methods:
        batch = prompt_companion(study).batch_size
        yield "Pre-generation batch", f"{batch:,} questions, {batch * policy.responses_per_question:,} rollouts"
    if len(study.companion.targets) > 1:
        yield "Optimizer of group targets", "The same as for binary targets"
    if any(METHODS[name].experience == "resampled" for name in study.methods):
        yield "PostCal sampling temperature", _decimal(postcal.temperature)
        top_k = f"{postcal.top_k:,}" if postcal.top_k else "All"
        yield "PostCal top-p / top-k", f"{_decimal(postcal.top_p)} / {top_k}"
        yield "PostCal presence penalty", f"{postcal.presence_penalty:g}"
        yield "PostCal training order", f"Shuffled in every pass (seed {postcal.shuffle_seed})"
        yield "PostCal shuffles", "Shared by all seeds and targets"
        yield "PostCal optimizer", "The same as for CoCal"
        if len(study.backbones) > 1:
            yield "PostCal in the table of the second backbone", "Shown, and ranked"
    if "self-consistency" in study.methods:
        yield "SelfConsis confidence without an answer", _MISSING[study.estimators.missing_answer]
        yield "SelfConsis classes in mathematics", "Chains of equivalent answers"
        if any(d.role == "evaluation" and d.domain == "factual" for d in study.datasets.values()):
            yield "SelfConsis classes of factual answers", _CLASSES[study.judge.kind]
    yield "Prompt set", study.prompts


def _rare(policy: PolicySettings) -> Iterator[tuple[str, str]]:
    trained = [policy.for_training(name) for name in policy.algorithms]
    if any(training.warm_up or training.rate_decay == "linear" for training in trained):
        yield from _by_algorithm(policy, "Course of the policy's learning rate", _course)
    if any(training.mask_truncated for training in trained):
        fates = {True: "Recorded, and left out of the loss", False: "Like all others"}
        yield from _by_algorithm(policy, "Cut rollouts", lambda p: fates[p.mask_truncated])


def _course(policy: PolicySettings) -> str:
    parts = [f"rises over {100 * policy.warm_up:g}% of the updates"] if policy.warm_up else []
    parts += ["falls linearly to 0" if policy.rate_decay == "linear" else "constant"]
    return ", then ".join(parts).capitalize()


def _by_algorithm(
    policy: PolicySettings, setting: str, text: Callable[[PolicySettings], str]
) -> Iterator[tuple[str, str]]:
    """One row for each value that the algorithms of a study have."""
    return _grouped(setting, {name.upper(): text(policy.for_training(name)) for name in policy.algorithms})


def _grouped(setting: str, values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """One row for each value, with the names that have it; the largest group comes last if it is not named."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    if len(groups) == 1:
        yield setting, next(iter(groups))
        return
    largest = max(groups, key=lambda value: len(groups[value]))
    if len(groups[largest]) > _NAMED:
        groups[largest] = ["other sets"]
        groups[largest] = groups.pop(largest)
    for value, names in groups.items():
        yield f"{setting} ({' / '.join(names)})", value


def _decimal(value: float, decimals: int = 1) -> str:
    """The value with this many decimals, or with all that it needs if these are more."""
    return f"{value:.{decimals}f}" if round(value, decimals) == value else f"{value:g}"


def _scientific(value: float) -> str:
    digits, exponent = f"{value:e}".split("e")
    return f"{float(digits):g} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
