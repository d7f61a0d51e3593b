"""Fitting companions on rollouts (section 4.1, appendix A.1)."""

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cocal.companion.batches import Batches, loader
from cocal.companion.companions import Companions, build_model
from cocal.companion.model import CompanionMLP
from cocal.companion.spec import CompanionSpec, Order, companion_members
from cocal.companion.split import in_validation
from cocal.companion.targets import confidence_targets
from cocal.companion.training import Training, matmul_precision
from cocal.config.evaluation import CompanionSettings
from cocal.errors import ConfigError, ContractError
from cocal.features.store import FeatureReader
from cocal.runtime.machine import best_device
from cocal.runtime.progress import Progress
from cocal.study.prefix import Prefix

FEATURE_MEMORY = 5 * 2**30
"""Bytes of features to hold in the processor's memory, in the store's format: those of the paper's study, 240,000
responses of 16 KB, and no more. What does not fit is read again in every pass. It does not affect the result."""


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
    """Fit, on every prefix of the rollouts, a companion for every target and seed in one pass over the data.

    Every pass goes through the training responses in batches, in the order in which the policy produced them,
    or, for PostCal, in a new shuffled order. Truncated responses are left out of training and validation.
    After every pass each member is evaluated on the validation responses, those of the prefix or a fixed pool
    (`Prefix`); the pass with the lowest mean squared error against binary correctness is kept, whatever the member's
    target (the first of equals). Responses to validation questions are never trained on, whatever their step.
    Features are used as they are, without standardisation: the paper states none. A prefix is fitted as if it
    were the only one; the prefixes share no more than the features in memory.

    Features are held in memory, or on the GPU, where they fit: first those of validation, then those of training.
    Otherwise they are streamed, in constant memory. In chronological order this reads the store once a pass; a shuffled
    order, which is exact whatever the memory, has to read all of it for every quarter of the processor's memory that
    features may take.

    Args:
        settings: architecture and training.
        features: row k belongs to row k of `rollouts`.
        rollouts: from `read_rollouts` or `read_prompts` of `cocal.companion.supervision`, chronological.
        questions: texts of the whole question table, a share of which is held out for validation.
        prefixes: steps of training and validation of each fit, none beyond the last step of `rollouts`.
        order: of the training responses.
        shuffle_seed: required by the shuffled order, shared by all members.
        layer: block index; the deepest one stored by default.
        poolings: concatenated in this order.
        memory: bytes of features to hold; `FEATURE_MEMORY` by default, on a GPU half of what is free there.
        device: to train on; the GPU by default, if there is one.
        progress: of several calls together, counted in passes times steps; by default of this one alone.

    Yields:
        For each prefix in turn, the companions, and their history: columns pass (from 1), target, seed, train_loss
        (mean over the pass, against the member's target, with dropout), validation_mse (after the pass, against
        correctness).

    Raises:
        ConfigError: if a shuffled order comes without a seed, or a chronological one with a seed.
        ContractError: if the rollouts are not chronological, training or validation of a prefix is empty (before
            anything is fitted), or a member's validation error is never finite.
    """
    if (order == "shuffled") != (shuffle_seed is not None):
        raise ConfigError(f"order {order} with shuffle seed {shuffle_seed}: shuffling, and it alone, needs a seed")
    if not rollouts["step"].is_monotonic_increasing:
        raise ContractError("the rollouts are not in chronological order of their steps")
    held_out = in_validation(rollouts["question"], questions, settings.validation_share, settings.split_seed)
    parts = {prefix: _partition(rollouts, held_out, prefix) for prefix in prefixes}
    # Rows rise: those of a shorter prefix are the first of these.
    longest = [max(rows, key=len) for rows in zip(*parts.values(), strict=True)]
    inputs = len(poolings) * features.hidden
    device = device or best_device()
    progress = progress or Progress("", settings.passes * sum(prefix.steps for prefix in prefixes))
    training, validation = _batches(settings, features, layer, poolings, longest, order, memory, device)
    for prefix, (for_training, for_validation) in parts.items():
        model = build_model(settings, inputs).to(device)
        wanted, truth = (labels.to(device) for labels in _labels(settings, rollouts, for_training, for_validation))
        with matmul_precision(settings.matmul):
            best, history = _fit(
                settings,
                model,
                (training, wanted),
                (validation, truth),
                None if shuffle_seed is None else np.random.default_rng(shuffle_seed),
                lambda detail, steps=prefix.steps: progress.add(steps, f"{steps} steps: {detail}"),
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
            training_responses=len(for_training),
            validation_responses=len(for_validation),
            training_error_share=float(1 - rollouts["correct"].to_numpy()[for_training].mean()),
            best_pass=best,
        )
        yield Companions(spec, model.cpu()), history


def _batches(
    settings: CompanionSettings,
    features: FeatureReader,
    layer: int | None,
    poolings: Sequence[str],
    parts: Sequence[np.ndarray],
    order: Order,
    memory: int | None,
    device: torch.device,
) -> list[Batches]:
    """Features of the training and validation rows, of which as much is held as fits."""
    if memory is None:
        memory = torch.cuda.mem_get_info(device)[0] // 2 if device.type == "cuda" else FEATURE_MEMORY
    row = len(poolings) * features.hidden * features.itemsize
    fits_validation = len(parts[1]) * row <= memory
    fits_training = fits_validation and (len(parts[0]) + len(parts[1])) * row <= memory
    if not fits_training:
        logging.info(
            "%.1f GiB of features do not fit %.1f GiB and are read again in every pass%s",
            (len(parts[0]) + len(parts[1])) * row / 2**30,
            memory / 2**30,
            ", many times over because they are shuffled; with more memory they are not" * (order == "shuffled"),
        )

    load = loader(features, layer, poolings)
    beside = FEATURE_MEMORY if device.type == "cuda" else memory  # what a GPU does not hold passes through ours
    return [
        Batches(
            load,
            rows,
            settings.batch_size,
            per_slice=features.rows_per_read(len(poolings)),
            held=held,
            shuffled=max(beside // 4 // row, settings.batch_size),
            device=device,
        )
        for rows, held in zip(parts, (fits_training, fits_validation), strict=True)
    ]


def _partition(rollouts: pd.DataFrame, held_out: np.ndarray, prefix: Prefix) -> tuple[np.ndarray, np.ndarray]:
    """Rows of training and of validation, rising."""
    step, complete = rollouts["step"].to_numpy(), ~rollouts["truncated"].to_numpy()
    rows = []
    for name, last, side in (("training", prefix.steps, ~held_out), ("validation", prefix.validation_steps, held_out)):
        among = step <= last
        rows.append(np.flatnonzero(among & complete & side))
        if not len(rows[-1]):
            raise ContractError(
                f"no response is left for {name} on steps 1 to {last}: {among.sum()} rollouts of "
                f"{rollouts['question'][among].nunique()} questions, {rollouts['truncated'][among].sum()} truncated, "
                f"{held_out[among].sum()} of validation questions; use more steps, or another companion.split_seed or "
                "companion.validation_share"
            )
    return rows[0], rows[1]


def _labels(
    settings: CompanionSettings, rollouts: pd.DataFrame, training: np.ndarray, validation: np.ndarray
) -> list[Tensor]:
    """What the members learn of the training rows, float32 (targets, 1, n), and correctness of the validation rows,
    float32 (m,)."""
    correct, group_accuracy = (rollouts[name].to_numpy() for name in ("correct", "group_accuracy"))
    wanted = [confidence_targets(target, correct[training], group_accuracy[training]) for target in settings.targets]
    return [torch.from_numpy(np.stack(wanted)[:, None]), torch.from_numpy(correct[validation].astype(np.float32))]


def _fit(
    settings: CompanionSettings,
    model: CompanionMLP,
    training: tuple[Batches, Tensor],
    validation: tuple[Batches, Tensor],
    shuffling: np.random.Generator | None,
    report: Callable[[str], None],
) -> tuple[tuple[int, ...], pd.DataFrame]:
    """Train all members of a new `model`; best pass of each member, and the history.

    Args:
        training: features, and what to learn, float32 (targets, 1, n), on the model's device.
        validation: features, and correctness, float32 (m,), there too.
        shuffling: draws the order of the training responses in every pass; none for chronological order.
        report: told about every pass.
    """
    members = companion_members(settings)
    trainer = Training(model, settings)
    best = _Best(model)
    history = []
    batches, wanted = training
    count = wanted.shape[2]
    for number in range(1, settings.passes + 1):
        order = None if shuffling is None else shuffling.permutation(count)
        loss = trainer.run((batch, wanted[:, :, places]) for places, batch in batches.of(count, order))
        error = _validate(model, *validation)
        best.update(number, error)
        history.append(_record(number, members, loss, error))
        report(f"pass {number} of {settings.passes}, {_summary(history[-1])}")
    return best.restore(members), pd.concat(history, ignore_index=True)


@torch.inference_mode()
def _validate(model: CompanionMLP, validation: Batches, truth: Tensor) -> Tensor:
    """Mean squared error against correctness per member, float64 (members,) on the device."""
    total = 0.0
    for places, batch in validation.of(len(truth)):
        total = total + (model(batch).double() - truth[places]).square().sum(dim=1)
    return total / len(truth)


def _record(number: int, members: Sequence[tuple[str, int]], loss: Tensor, error: Tensor) -> pd.DataFrame:
    """The history's rows of one pass, one a member."""
    record = pd.DataFrame(members, columns=["target", "seed"]).assign(
        train_loss=loss.cpu().numpy(), validation_mse=error.cpu().numpy()
    )
    record.insert(0, "pass", number)
    return record


def _summary(record: pd.DataFrame) -> str:
    """Means over the seeds, for the log."""
    means = record.groupby("target", sort=False)[["train_loss", "validation_mse"]].mean()
    return ", ".join(
        f"{target} {loss:.4f} in training and {error:.4f} in validation" for target, loss, error in means.itertuples()
    )


class _Best:
    """Each member's weights after its best pass, chosen and kept on the device."""

    def __init__(self, model: CompanionMLP):
        self._model = model
        self._number = torch.zeros(model.members, dtype=torch.int64, device=model.device)
        self._error = torch.full((model.members,), torch.inf, dtype=torch.float64, device=model.device)
        self._weights = {name: weight.clone() for name, weight in model.state_dict().items()}

    @torch.no_grad()
    def update(self, number: int, error: Tensor) -> None:
        """Keep the members that became better in pass `number`."""
        better = error < self._error
        self._error = torch.where(better, error, self._error)
        self._number = torch.where(better, number, self._number)
        for name, weight in self._model.state_dict().items():
            kept = self._weights[name]
            torch.where(better.view(-1, *[1] * (weight.ndim - 1)), weight, kept, out=kept)

    def restore(self, members: Sequence[tuple[str, int]]) -> tuple[int, ...]:
        """Put the kept weights into the model, which is trained no further; the pass that each member has them from."""
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
