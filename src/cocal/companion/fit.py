"""Fitting companions on rollouts (section 4.1, appendix A.1)."""

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cocal.companion.companions import Companions, CompanionSpec, Order, build_model, companion_members
from cocal.companion.model import CompanionMLP
from cocal.companion.split import in_validation
from cocal.companion.targets import confidence_targets
from cocal.config.protocol import Companion
from cocal.errors import ConfigError, ContractError
from cocal.features.store import FeatureReader

FEATURE_MEMORY = 2 * 2**30
"""Bytes of float32 features held at a time for training, and as many for validation. What fits is read once;
more is read again, in slices of this size, in every pass. It does not affect the result."""


def fit_companions(
    settings: Companion,
    features: FeatureReader,
    rollouts: pd.DataFrame,
    *,
    order: Order = "chronological",
    shuffle_seed: int | None = None,
    layer: int | None = None,
    poolings: Sequence[str] = ("last", "mean"),
    memory: int = FEATURE_MEMORY,
) -> tuple[Companions, pd.DataFrame]:
    """Fit a companion for every target and seed, all in one pass over the data.

    Every pass goes through the training responses in batches, in the order in which the policy produced them,
    or, for PostCal, in a new shuffled order. Truncated responses are left out of training and validation.
    After every pass each member is evaluated on the validation questions; the pass with the lowest mean squared
    error against binary correctness is kept, whatever the member's target (the first of equals). Features are
    used as they are, without standardisation: the paper states none.

    Args:
        settings: architecture and training.
        features: row k belongs to row k of `rollouts`.
        rollouts: from `cocal.companion.rollouts.read_rollouts`, chronological.
        order: of the training responses.
        shuffle_seed: required by the shuffled order, shared by all members.
        layer: block index; the deepest one stored by default.
        poolings: concatenated in this order.
        memory: see `FEATURE_MEMORY`.

    Returns:
        The companions, and their history: columns pass (from 1), target, seed, train_loss (mean over the pass,
        against the member's target, with dropout), validation_mse (after the pass, against correctness).

    Raises:
        ConfigError: if a shuffled order comes without a seed, or a chronological one with a seed.
        ContractError: if the rollouts are not chronological, training or validation is empty, or a member's
            validation error is never finite.
    """
    if (order == "shuffled") != (shuffle_seed is not None):
        raise ConfigError(f"order {order} with shuffle seed {shuffle_seed}: shuffling, and it alone, needs a seed")
    if not rollouts["step"].is_monotonic_increasing:
        raise ContractError("the rollouts are not in chronological order of their steps")
    members = companion_members(settings)
    correct = rollouts["correct"].to_numpy()
    training, validation = _partition(settings, rollouts)
    targets = torch.stack(
        [
            torch.from_numpy(confidence_targets(target, correct, rollouts["group_accuracy"].to_numpy()))
            for target, _ in members
        ]
    )
    truth = torch.from_numpy(correct.astype(np.float32))
    model = build_model(settings, len(poolings) * features.hidden)
    model.initialise()

    def load(rows: np.ndarray) -> Tensor:
        return torch.from_numpy(features.take(rows, layer, poolings))

    batch = settings.batch_size
    limit = max(memory // (4 * model.inputs * batch), 1) * batch
    for_training, for_validation = (_Slices(load, rows, batch, limit) for rows in (training, validation))
    # Adam works weight by weight, so that stacked members do not affect each other.
    optimiser = torch.optim.Adam(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    shuffling = np.random.default_rng(shuffle_seed)
    best = _Best(model, len(members))
    history = []
    for number in range(1, settings.passes + 1):
        rows = training if order == "chronological" else shuffling.permutation(training)
        loss = _train(model, optimiser, for_training.batches(rows), targets)
        error = _validate(model, for_validation.batches(validation), truth)
        best.update(number, error, model)
        history.append(_record(number, members, loss, error))
        logging.info("pass %d of %d: %s", number, settings.passes, _summary(history[-1]))
    best.restore(model, members)
    spec = CompanionSpec(
        settings=settings,
        inputs=model.inputs,
        layer=features.layers[-1] if layer is None else layer,
        poolings=tuple(poolings),
        steps=int(rollouts["step"].max()),
        order=order,
        shuffle_seed=shuffle_seed,
        training_responses=len(training),
        validation_responses=len(validation),
        best_pass=tuple(best.number.tolist()),
    )
    return Companions(spec, model.eval()), pd.concat(history, ignore_index=True)


def _partition(settings: Companion, rollouts: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Rows of training and validation, rising."""
    held_out = in_validation(rollouts["question"], settings.validation_share, settings.split_seed)
    complete = ~rollouts["truncated"].to_numpy()
    rows = np.flatnonzero(complete & ~held_out), np.flatnonzero(complete & held_out)
    for name, chosen in zip(("training", "validation"), rows, strict=True):
        if not len(chosen):
            raise ContractError(
                f"no response is left for {name}: {len(rollouts)} rollouts of {rollouts['question'].nunique()} "
                f"questions, {(~complete).sum()} truncated, {held_out.sum()} of validation questions; use more "
                "steps, or another companion.split_seed or companion.validation_share"
            )
    return rows


class _Slices:
    """Features of chosen rows as batches, in any order, with a bounded number of them in memory.

    Args:
        load: features (n, inputs) of n rows.
        rows: all rows that will be asked for, rising.
        batch: rows of a batch.
        limit: rows to hold at a time, a multiple of `batch`.
    """

    def __init__(self, load: Callable[[np.ndarray], Tensor], rows: np.ndarray, batch: int, limit: int):
        self._load, self._rows, self._batch, self._limit = load, rows, batch, limit
        self._all = load(rows) if len(rows) <= limit else None

    def batches(self, rows: np.ndarray) -> Iterator[tuple[Tensor, Tensor]]:
        """Row numbers int64 (b,) and features float32 (b, inputs) of each batch; the last one may be short."""
        for start in range(0, len(rows), self._limit):
            chosen = rows[start : start + self._limit]
            if self._all is None:
                block, places = self._load(chosen), np.arange(len(chosen))
            else:
                block, places = self._all, np.searchsorted(self._rows, chosen)
            for first in range(0, len(chosen), self._batch):
                span = slice(first, first + self._batch)
                yield torch.from_numpy(chosen[span]), block[torch.from_numpy(places[span])]


def _train(
    model: CompanionMLP,
    optimiser: torch.optim.Optimizer,
    batches: Iterator[tuple[Tensor, Tensor]],
    targets: Tensor,
) -> np.ndarray:
    """One pass of gradient steps on equation 4; mean loss per member, float64 (members,)."""
    model.train()
    total, count = 0.0, 0
    for rows, inputs in batches:
        losses = (model(inputs) - targets[:, rows]).square().mean(dim=1)
        optimiser.zero_grad()
        losses.sum().backward()
        optimiser.step()
        total = total + losses.detach().double() * len(rows)
        count += len(rows)
    return (total / count).numpy()


@torch.inference_mode()
def _validate(model: CompanionMLP, batches: Iterator[tuple[Tensor, Tensor]], truth: Tensor) -> np.ndarray:
    """Mean squared error against correctness per member, float64 (members,)."""
    model.eval()
    total, count = 0.0, 0
    for rows, inputs in batches:
        total = total + (model(inputs).double() - truth[rows]).square().sum(dim=1)
        count += len(rows)
    return (total / count).numpy()


def _record(number: int, members: Sequence[tuple[str, int]], loss: np.ndarray, error: np.ndarray) -> pd.DataFrame:
    """The history's rows of one pass, one a member."""
    record = pd.DataFrame(members, columns=["target", "seed"]).assign(train_loss=loss, validation_mse=error)
    record.insert(0, "pass", number)
    return record


def _summary(record: pd.DataFrame) -> str:
    """Means over the seeds, for the log."""
    means = record.groupby("target", sort=False)[["train_loss", "validation_mse"]].mean()
    return "; ".join(
        f"{target} training {loss:.4f}, validation {error:.4f}" for target, loss, error in means.itertuples()
    )


class _Best:
    """Each member's weights after its best pass."""

    def __init__(self, model: CompanionMLP, members: int):
        self.number = np.zeros(members, dtype=np.int64)
        self._error = np.full(members, np.inf)
        self._weights = {name: weight.clone() for name, weight in model.state_dict().items()}

    def update(self, number: int, error: np.ndarray, model: CompanionMLP) -> None:
        """Keep the members that became better in pass `number`."""
        better = error < self._error
        self._error[better] = error[better]
        self.number[better] = number
        chosen = torch.from_numpy(better)
        for name, weight in model.state_dict().items():
            self._weights[name][chosen] = weight[chosen]

    def restore(self, model: CompanionMLP, members: Sequence[tuple[str, int]]) -> None:
        """Put the kept weights into `model`."""
        for (target, seed), number in zip(members, self.number, strict=True):
            if not number:
                raise ContractError(
                    f"companion ({target}, seed {seed}): the validation error was never finite; "
                    "lower companion.learning_rate"
                )
        model.load_state_dict(self._weights)
