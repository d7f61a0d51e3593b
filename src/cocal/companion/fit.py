"""Fitting companions on rollouts (section 4.1, appendix A.1)."""

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cocal.companion.batches import Batches
from cocal.companion.companions import Companions, build_model
from cocal.companion.model import CompanionMLP, Training, matmul_precision
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import CompanionSpec, Order, Prefix, companion_members
from cocal.companion.supervision import confidence_targets, in_validation
from cocal.errors import ConfigError, ContractError
from cocal.features.store import FeatureReader
from cocal.runtime.machine import best_device
from cocal.runtime.progress import Progress

FEATURE_MEMORY = 5 * 2**30
"""Number of bytes of features to hold in host memory, enough for the paper's 240,000 responses of 16 KB each. Features
that do not fit are read again in every pass. The limit does not affect the result."""


def fit_companions(
    settings: CompanionSettings,
    features: FeatureReader,
    rollouts: pd.DataFrame,
    questions: Sequence[str],
    prefixes: Sequence[Prefix],
    *,
    order: Order = "chronological",
    shuffle_seed: int | None = None,
    layer: int | None = None,
    poolings: Sequence[str] = ("last", "mean"),
    memory: int | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Companions, pd.DataFrame]]:
    """Fit companions for every target and seed on each prefix of the rollouts, all members of a prefix together.

    Every pass goes through the training responses in batches, in the order in which the policy produced them or, for
    PostCal, in a new shuffled order. Truncated responses are used neither in training nor in validation. After every
    pass each member is evaluated on the validation responses, which are those of the prefix or of a fixed pool
    (`Prefix`). It keeps its weights after the first pass with the lowest mean squared error against binary correctness,
    even if its target is another one. Responses to validation questions are never trained on. Features are not
    standardised, since the paper does not mention it. Each prefix is fitted as if it were the only one.

    Features that fit are held in memory or on the GPU, first those of validation, then those of training. Others are
    streamed: a pass in chronological order reads the store once, one in shuffled order once for every quarter of the
    host memory that features may use. Memory changes no result.

    Raises a ConfigError if a shuffled order has no seed, or a chronological order has one, and a ContractError if the
    rollouts are not chronological, a prefix has no training responses or all steps have no validation responses (which
    is checked first), or a member's validation error is never finite.

    Args:
        settings: Architecture and training.
        features: Feature store; row k belongs to row k of `rollouts`.
        rollouts: Table in chronological order with the columns step, question, truncated, correct, group_accuracy.
        questions: Texts of the whole question table, a share of which is held out for validation.
        prefixes: Steps of training and validation of each fit, at most the last step of `rollouts`.
        order, shuffle_seed: Order of the training responses, and the seed of a shuffled one, which all members share.
        layer, poolings: Block index, by default the deepest in the store, and poolings in the order of the inputs.
        memory: Bytes of features to hold; by default `FEATURE_MEMORY`, or half of the free memory of a GPU.
        device: Device to train on; by default the GPU if there is one.
        progress: Progress that several calls share, counted in passes times steps; by default this call has its own.

    Yields:
        For each prefix, the companions and their history with the columns pass (from 1), target, seed, train_loss (mean
        over the pass against the member's target, with dropout) and validation_mse (after the pass, against
        correctness; missing where the prefix has no validation responses, whose companions keep the last pass).
    """
    if (order == "shuffled") != (shuffle_seed is not None):
        raise ConfigError(f"order {order} with shuffle seed {shuffle_seed}: give a seed for the shuffled order only")
    if not rollouts["step"].is_monotonic_increasing:
        raise ContractError("the rollouts are not in chronological order of their steps")
    held_out = in_validation(rollouts["question"], questions, settings.validation_share, settings.split_seed)
    parts = {prefix: _partition(rollouts, held_out, prefix) for prefix in prefixes}
    # Row numbers ascend, so the rows of a shorter prefix are the first rows of the longest one.
    longest = [max(rows, key=len) for rows in zip(*parts.values(), strict=True)]
    inputs = len(poolings) * features.hidden
    device = device or best_device()
    named = progress is not None  # fits of several prefixes, which their steps tell apart
    progress = progress or Progress("", settings.passes * sum(prefix.steps for prefix in prefixes))
    if memory is None:
        memory = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else FEATURE_MEMORY
    row = inputs * features.itemsize
    needed, for_validation = row * sum(map(len, longest)), row * len(longest[1])
    if needed > memory:
        logging.info(
            "%.1f GiB of features do not fit into %.1f GiB and are read again in every pass%s",
            needed / 2**30,
            memory / 2**30,
            ", several times because they are shuffled; more memory avoids this" * (order == "shuffled"),
        )
    host_memory = FEATURE_MEMORY if device.type == "cuda" else memory  # streamed features pass through it
    shuffled = max(host_memory // 4 // row, settings.batch_size)
    batches = [
        Batches(features, layer, poolings, rows, settings.batch_size, held=held, shuffled=shuffled, device=device)
        for rows, held in zip(longest, (needed <= memory, for_validation <= memory), strict=True)
    ]
    correct, group_accuracy = (rollouts[name].to_numpy() for name in ("correct", "group_accuracy"))
    for prefix, (training, validation) in parts.items():
        model = build_model(settings, inputs).to(device)
        targets = [confidence_targets(kind, correct[training], group_accuracy[training]) for kind in settings.targets]
        with matmul_precision(settings.matmul):
            best, history = _fit(
                settings,
                model,
                batches,
                torch.from_numpy(np.stack(targets)[:, None]).to(device),
                torch.from_numpy(correct[validation].astype(np.float32)).to(device),
                None if shuffle_seed is None else np.random.default_rng(shuffle_seed),
                lambda detail, steps=prefix.steps: progress.add(
                    steps, f"{steps} steps: " * (named and steps > 1) + detail
                ),
            )
        spec = CompanionSpec(
            settings=settings,
            inputs=inputs,
            layer=features.layers[-1] if layer is None else layer,
            poolings=tuple(poolings),
            steps=prefix.steps,
            validation_steps=prefix.validation_steps,
            order=order,
            shuffle_seed=shuffle_seed,
            training_responses=len(training),
            validation_responses=len(validation),
            training_error_share=float(1 - correct[training].mean()),
            best_pass=best,
        )
        yield Companions(spec, model.cpu()), history


def _partition(rollouts: pd.DataFrame, held_out: np.ndarray, prefix: Prefix) -> tuple[np.ndarray, np.ndarray]:
    """The ascending row numbers of training and of validation."""
    step, complete = rollouts["step"].to_numpy(), ~rollouts["truncated"].to_numpy()
    rows = []
    for name, last, side in (("training", prefix.steps, ~held_out), ("validation", prefix.validation_steps, held_out)):
        among = step <= last
        rows.append(np.flatnonzero(among & complete & side))
        if len(rows[-1]):
            continue
        empty = (
            f"no response is left for {name} on steps 1 to {last}: {among.sum()} rollouts of "
            f"{rollouts['question'][among].nunique()} questions, {rollouts['truncated'][among].sum()} truncated, "
            f"{held_out[among].sum()} of validation questions"
        )
        if name == "training" or last == step[-1]:
            raise ContractError(
                f"{empty}; use more steps, or another companion.split_seed or companion.validation_share"
            )
        # The first steps of a small study may ask training questions alone, by the luck of its seeds.
        logging.warning("%s; their companions keep the weights of the last pass", empty)
    return rows[0], rows[1]


def _fit(
    settings: CompanionSettings,
    model: CompanionMLP,
    batches: Sequence[Batches],
    targets: Tensor,
    truth: Tensor,
    shuffling: np.random.Generator | None,
    report: Callable[[str], None],
) -> tuple[tuple[int, ...], pd.DataFrame]:
    """Train all members of a new model; return the best pass of each member, and the history.

    The batches are those of training and of validation. Targets of the training responses, float32 (targets, 1, n), and
    correctness of the validation responses, float32 (m,), are on the model's device. A generator draws a new order of
    the training responses in every pass; without one the order is chronological. `report` is called with a text after
    every pass.
    """
    members = pd.DataFrame(companion_members(settings), columns=["target", "seed"])
    trainer, best, history = Training(model, settings), _Best(model), []
    training, validation = batches
    count = targets.shape[2]
    for number in range(1, settings.passes + 1):
        order = None if shuffling is None else shuffling.permutation(count)
        loss = trainer.run((batch, targets[:, :, places]) for places, batch in training.of(count, order))
        error = torch.zeros(model.members, dtype=torch.float64, device=model.device)
        with torch.inference_mode():
            for places, batch in validation.of(len(truth)):
                error = error + (model(batch).double() - truth[places]).square().sum(dim=1)
        error = error / len(truth)  # NaN if there are none
        # Without validation responses the latest pass counts, unless its loss is not finite.
        best.update(number, error if len(truth) else torch.where(loss.isfinite(), -float(number), torch.nan))
        record = members.assign(train_loss=loss.cpu().numpy(), validation_mse=error.cpu().numpy())
        record.insert(0, "pass", number)
        history.append(record)
        means = record.groupby("target", sort=False)[["train_loss", "validation_mse"]].mean()
        said = [f"{kind} {loss:.4f} in training and {mse:.4f} in validation" for kind, loss, mse in means.itertuples()]
        report(f"pass {number} of {settings.passes}, {', '.join(said)}")
    return best.restore(companion_members(settings)), pd.concat(history, ignore_index=True)


class _Best:
    """Each member's weights after its best pass, chosen and kept on the device."""

    def __init__(self, model: CompanionMLP):
        self._model = model
        self._number = torch.zeros(model.members, dtype=torch.int64, device=model.device)
        self._error = torch.full((model.members,), torch.inf, dtype=torch.float64, device=model.device)
        self._weights = {name: weight.clone() for name, weight in model.state_dict().items()}

    @torch.no_grad()
    def update(self, number: int, error: Tensor) -> None:
        better = error < self._error
        self._error = torch.where(better, error, self._error)
        self._number = torch.where(better, number, self._number)
        for name, weight in self._model.state_dict().items():
            kept = self._weights[name]
            torch.where(better.view(-1, *[1] * (weight.ndim - 1)), weight, kept, out=kept)

    def restore(self, members: Sequence[tuple[str, int]]) -> tuple[int, ...]:
        """Load the kept weights into the model and end its training; return the pass of each member's weights."""
        numbers = tuple(self._number.tolist())
        for (target, seed), number in zip(members, numbers, strict=True):
            if not number:
                raise ContractError(
                    f"companion ({target}, seed {seed}): the validation error was never finite; "
                    "lower companion.learning_rate"
                )
        self._model.load_state_dict(self._weights)
        self._model.zero_grad(set_to_none=True)
        self._model.eval()
        return numbers
