"""The recipe `best`: nested cross-validation over questions selects among linear probes and MLPs.

The recipe that predicts a fold of the questions is selected and fitted without it: for the selection, each recipe is
fitted without two folds, the predicted one and the one that it is scored on.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cocal.companion.model import MEAN, SCALE, CompanionMLP, Training, matmul_precision
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import CompanionSpec
from cocal.errors import ContractError
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.fitting.config import Tried
from cocal.fitting.prefixes import Rows
from cocal.runtime.machine import best_device
from cocal.runtime.progress import Progress
from cocal.store.rows import normalised

FOLDS, LEAST_FOLDS = 5, 3
"""Number of folds of the questions, and the least number that leaves something to learn from when two are left out."""
STRENGTHS = tuple((10.0 ** np.arange(-4, 0.5, 0.5)).tolist())
"""Factors of the probe's loss, summed over the responses, to which half of the squared weights are added."""
WIDTHS, DROPOUT, RATE = ((32, 16), (128, 64)), (0.1, 0.05), 2e-3
"""Hidden layers of the MLPs, with their dropout rates and learning rate."""
PASSES, PATIENCE = 30, 5
"""Largest number of passes, and number of passes without an improvement after which training stops early."""
_EMPHASIS = 10.0
"""Factor of the standardised token probabilities, so that a penalty spares these three among thousands of inputs."""
_ROWS, _STEPS = 8192, 80
"""Number of rows that are processed at once, and number of steps of the probe's fit."""
_Parts = Sequence[tuple[int, ...]]


class Selection(NamedTuple):
    """The recipe with the lowest Brier score, as `choose` selects it."""

    settings: CompanionSettings
    """Architecture of the members, and the number of passes of their training."""
    model: CompanionMLP
    """The members, fitted on all rows that are not excluded, with the mean and scale of their inputs."""
    out_of_fold: np.ndarray
    """float64 (n,), confidence of each row by the recipe that was selected and fitted without its fold."""
    tried: tuple[Tried, ...]
    """The best recipe of each kind, the selected one first."""
    alone: "Selection | None" = None
    """The selection among recipes that read states alone, where this one reads token probabilities too."""


@dataclass(frozen=True)
class TrainingSet:
    """What recipes are fitted on and compared by."""

    inputs: np.ndarray
    """float32 (n, inputs), in chronological order; `choose` standardises them in place."""
    target: np.ndarray
    """float32 (n,), 1 for a response that counts as correct and 0 for another."""
    loss_weight: np.ndarray
    """float32 (n,), weight of each row in the training loss, at most 1; 0 excludes it everywhere."""
    score_weight: np.ndarray
    """float64 (n,), weight of each row in Brier scores; those of rows that are not excluded sum to 1."""
    fold: np.ndarray
    """int64 (n,), cross-validation fold of each row's question."""
    emphasis: np.ndarray
    """float32 (inputs,), factors of the standardised inputs; an L2 penalty weighs less on large ones."""
    reads: tuple[int, ...]
    """Numbers of leading inputs that recipes read; the inputs that only some of them read are token statistics."""


def folds_of(questions: Sequence[str], seed: int) -> np.ndarray:
    """Fold of each response, int64 (n,), by keyed hashes of question texts. Too few questions raise a ContractError."""
    codes, texts = pd.factorize(pd.Series(questions, dtype=object).map(normalised))
    if len(texts) < LEAST_FOLDS:
        raise ContractError(
            f"the rollouts have {len(texts)} question{'s' * (len(texts) > 1)}, and recipes are compared on questions "
            f"that are held out; give rollouts of {LEAST_FOLDS} or more (--rollouts)"
        )
    key = f"folds {seed}".encode()
    hashes = [hashlib.blake2b(text.encode(), digest_size=16, key=key).digest() for text in texts]
    rank = np.empty(len(texts), dtype=np.int64)
    rank[sorted(range(len(texts)), key=hashes.__getitem__)] = np.arange(len(texts))
    return (rank % FOLDS)[codes]


def best(
    each: Rows,
    inputs: np.ndarray,
    reads: Collection[int],
    width: int,
    learnt: pd.DataFrame,
    fold: np.ndarray,
    settings: CompanionSettings,
    progress: Progress | None = None,
) -> Selection:
    """What the recipe "best" chooses, by the Brier score on all responses that are learnt from, which the card states;
    the last stage alone would be noisy. Inputs, the first `width` of them states, are standardised in place."""
    emphasis = np.ones(inputs.shape[1], dtype=np.float32)
    emphasis[width:] = _EMPHASIS
    used = ~learnt["truncated"].to_numpy()
    weight = (used / used.sum())[each.response] * each.weight
    target, share = learnt["correct"].to_numpy(np.float32)[each.response], each.share * used[each.response]
    data = TrainingSet(inputs, target, share, weight, fold[each.response], emphasis, tuple(sorted(reads)))
    return choose(data, settings, progress)


def work(rows: int, width: int, settings: CompanionSettings) -> float:
    """Estimated number of multiplications in `choose`, with states alone and with token statistics, for the time
    left."""
    sizes, passes = _sizes(settings)
    weights = sum(a * b for widths, _ in sizes for a, b in pairwise((width, *widths, 1)))
    return 2 * (2 * FOLDS + 1) * rows * (2 * _STEPS * len(STRENGTHS) * width + 3 * passes * weights)


def _sizes(settings: CompanionSettings) -> tuple[Sequence[tuple[tuple[int, ...], tuple[float, ...]]], int]:
    """The hidden layers of the MLPs with their dropout rates, and the bound of their passes."""
    given = settings.model_fields_set
    sizes = [(settings.widths, settings.dropout)] if "widths" in given else [(widths, DROPOUT) for widths in WIDTHS]
    return sizes, settings.passes if "passes" in given else PASSES


def spec_of(chosen: Selection, learnt: pd.DataFrame, layer: int) -> CompanionSpec:
    """The spec of members that the recipe best has chosen."""
    last, settings, used = int(learnt["step"].max()), chosen.settings, ~learnt["truncated"]
    return CompanionSpec(
        settings=settings,
        inputs=len(chosen.model.input_mean),
        layer=layer,
        poolings=RESPONSE_POOLINGS,
        steps=last,
        validation_steps=last,
        order="chronological",
        shuffle_seed=None,
        training_responses=int(used.sum()),
        validation_responses=0,
        training_error_share=float(1 - learnt["correct"][used].mean()),
        best_pass=(settings.passes,) * len(settings.seeds),
    )


def choose(data: TrainingSet, settings: CompanionSettings, progress: Progress | None = None) -> Selection:
    """Fit all recipes, compare them by cross-validation, and fit the best one on all rows.

    Means and scales of the inputs are those of all responses; no label takes part in them.

    Args:
        data: What is learnt.
        settings: Seeds of the members, and batch size of MLPs. Widths and a learning rate that were given replace
            `WIDTHS` and `RATE`, and passes that were given the bound `PASSES`.
        progress: Counts the multiplications, those of `work` in all.
    """
    mean, scale = _standardise(data.inputs, data.emphasis)
    given, (sizes, bound) = settings.model_fields_set, _sizes(settings)
    progress = progress or Progress("", work(len(data.fold), min(data.reads), settings))
    folds = range(data.fold.max() + 1)
    parts = [*((k, (k + 1) % len(folds)) for k in folds), *((k,) for k in folds), ()]
    kinds: list[_Kind] = [_Probe(data, parts, reads, progress) for reads in data.reads]
    for widths, dropout in sizes:
        own = {"widths": widths, "dropout": dropout, "passes": bound}
        own |= {} if "learning_rate" in given else {"learning_rate": RATE}
        own = settings.model_copy(update=own)
        kinds += [_Mlp(data, parts, reads, own, progress) for reads in data.reads]
    chosen = _best_of(kinds, data, mean, scale, settings.seeds)
    of_states = [kind for kind in kinds if kind.inputs.shape[1] == min(data.reads)]
    if len(chosen.model.input_mean) > min(data.reads):
        return chosen._replace(alone=_best_of(of_states, data, mean, scale, settings.seeds))
    return chosen


def _best_of(
    kinds: Sequence["_Kind"], data: TrainingSet, mean: Tensor, scale: Tensor, seeds: tuple[int, ...]
) -> Selection:
    """The best recipe of these kinds, fitted on everything."""
    out_of_fold = np.empty(len(data.fold))
    for k in range(data.fold.max() + 1):
        place, kind = min(
            ((int(kind.scores[:, k].argmin()), kind) for kind in kinds), key=lambda pair: pair[1].scores[pair[0], k]
        )
        rows = data.fold == k
        out_of_fold[rows] = kind.singles[place, rows]
    ranked = sorted(kinds, key=lambda kind: kind.overall.min())
    first, place = ranked[0], int(ranked[0].overall.argmin())
    model = first.fitted(place, seeds)
    reads, more = first.inputs.shape[1], {True: ", reading token probabilities", False: ""}
    whole = CompanionMLP(reads, first.settings.widths, model.seeds, 1, standardised=True)
    weights = {name: weight.cpu() for name, weight in model.state_dict().items()}
    whole.load_state_dict(weights | {MEAN: mean[:reads], SCALE: scale[:reads]})
    names = [kind.name(int(kind.overall.argmin())) + more[kind.inputs.shape[1] > min(data.reads)] for kind in ranked]
    tried = tuple(Tried(name=name, brier=kind.overall.min()) for name, kind in zip(names, ranked, strict=True))
    update = {"passes": first.passes(place), "seeds": model.seeds, "targets": ("binary",)}
    return Selection(first.settings.model_copy(update=update), whole.eval(), out_of_fold, tried)


class _Kind:
    """Recipes of one kind, such as linear probes with different penalties, evaluated by nested cross-validation.

    Each recipe is fitted once for every entry of `parts`, the folds that it leaves out: two, one or none. The score
    that selects a recipe for fold k comes from fits without fold k, so that no response takes part in the selection of
    the recipe that predicts it. A recipe after `PATIENCE` others without an improvement does not count.

    Subclasses define `predictions`, which yields float32 (parts, n) for each recipe: the confidence of all rows by the
    fit of each part; `fitted`, the members of the recipe at an index; and `name`, its description.

    Attributes:
        scores: float64 (recipes, folds), Brier scores by which a recipe is selected for each fold.
        overall: float64 (recipes,), Brier scores over all folds.
        singles: float32 (recipes, n), confidence of each row by the fit that leaves out its fold alone.
    """

    settings: CompanionSettings
    predictions: Callable[[], Iterator[np.ndarray]]
    fitted: Callable[[int, tuple[int, ...]], CompanionMLP]
    name: Callable[[int], str]

    def __init__(self, data: TrainingSet, parts: _Parts, reads: int, progress: Progress):
        self.data, self.parts, self.inputs, self.progress = data, parts, data.inputs[:, :reads], progress
        left_out = np.array([np.isin(data.fold, part) for part in parts])
        self.train = np.where(left_out, np.float32(0), data.loss_weight)
        self._folds = data.fold.max() + 1
        scores, singles, weight = [], [], data.score_weight * (data.loss_weight > 0)
        for confidence in self.predictions():
            errors = weight * np.square(confidence - data.target)
            share = np.bincount(data.fold, weight, minlength=self._folds)
            by_fold = np.array([np.bincount(data.fold, row, minlength=self._folds) for row in errors])
            error, total = np.zeros(self._folds + 1), np.zeros(self._folds + 1)
            for part, row in zip(parts, by_fold, strict=True):
                # a fit without two folds is scored on one to choose for the other; a fit without one counts over all
                for chooser, scored in zip(part[::-1] if len(part) > 1 else [-1] * len(part), part, strict=True):
                    error[chooser] += row[scored]
                    total[chooser] += share[scored]
            scores.append(error / total)
            alone = {part[0]: row for part, row in zip(parts, confidence, strict=True) if len(part) == 1}
            singles.append(np.choose(data.fold, [alone[k] for k in range(self._folds)]).astype(np.float32))
            if self.ended(np.array(scores)):
                break
        scores = np.array(scores)
        for column in scores.T:
            stop = next((k for k in range(len(column)) if k - column[: k + 1].argmin() >= PATIENCE), len(column))
            column[stop + 1 :] = np.inf
        self.scores, self.overall = scores[:, :-1], scores[:, -1]
        self.singles = np.array(singles)

    def ended(self, scores: np.ndarray) -> bool:
        """Whether no further recipe is needed, from the scores of those so far, (recipes, folds + 1)."""
        return False

    def passes(self, place: int) -> int:
        """Number of passes of the recipe at a place."""
        return 1


class _Probe(_Kind):
    """Logistic regressions, as companions without a hidden layer."""

    def __init__(self, data: TrainingSet, parts: _Parts, reads: int, progress: Progress):
        self.settings = CompanionSettings(widths=(), dropout=(), targets=("binary",))
        self._weights: list[tuple[Tensor, Tensor]] = []
        super().__init__(data, parts, reads, progress)

    def predictions(self) -> Iterator[np.ndarray]:
        for weights, bias in self._all():
            self._weights.append((weights[-1].cpu(), bias[-1].cpu()))
            blocks = [torch.addmm(bias, rows, weights.T).sigmoid().T for rows in self._blocks(weights.device)]
            yield torch.cat(blocks, dim=1).cpu().numpy()

    def _all(self) -> list[tuple[Tensor, Tensor]]:
        """Weights (parts, inputs) and intercepts (parts,) for each strength.

        The curvature of the loss is at most a quarter of the inputs' products (Boehning and Lindsay, "Monotonicity of
        quadratic-approximation algorithms", 1988), so steps that this bound scales need no search along a line.
        Nesterov's momentum, begun anew where it leads uphill, makes them quick. All fits read the inputs together.
        """
        device, parts, wide = best_device(), len(self.parts), self.inputs.shape[1]
        shares = torch.from_numpy(self.data.loss_weight).to(device)
        weighed = zip(self._blocks(device), shares.split(_ROWS), strict=True)
        products = sum((rows.double() * share[:, None]).T @ rows.double() for rows, share in weighed)
        values, vectors = torch.linalg.eigh(products)
        vectors = vectors.float()
        penalty = 1 / torch.tensor(STRENGTHS, device=device).repeat_interleave(parts)[:, None]
        bound = values.clamp(min=0).float() / 4 + penalty
        train = torch.from_numpy(self.train).to(device)
        target = torch.from_numpy(self.data.target).to(device)
        before = torch.zeros(len(penalty), wide + 1, device=device)
        at, rate = before, torch.ones(len(penalty), 1, device=device)
        for _ in range(_STEPS):
            slope = torch.zeros_like(at)
            for start, rows in zip(range(0, len(target), _ROWS), self._blocks(device), strict=True):
                span = slice(start, start + _ROWS)
                errors = torch.addmm(at[:, -1:], at[:, :-1], rows.T).sigmoid_().sub_(target[span])
                errors.view(len(STRENGTHS), parts, -1).mul_(train[:, span])
                slope[:, :-1] += errors @ rows
                slope[:, -1] += errors.sum(1)
            along = ((slope[:, :-1] + penalty * at[:, :-1]) @ vectors) / bound @ vectors.T
            after = at - torch.cat([along, slope[:, -1:] * 4 / shares.sum()], dim=1)
            uphill = ((at - after) * (after - before)).sum(1, keepdim=True) > 0
            rate = torch.where(uphill, 1.0, rate)
            following = (1 + (1 + 4 * rate.square()).sqrt()) / 2
            at = after + torch.where(uphill, 0.0, (rate - 1) / following) * (after - before)
            before, rate = after, following
            self.progress.add(2.0 * len(STRENGTHS) * parts * self.inputs.size, "comparing recipes")
        return [(weights[:, :-1], weights[:, -1]) for weights in before.split(parts)]

    def _blocks(self, device: torch.device) -> Iterator[Tensor]:
        return (rows.to(device) for rows in torch.from_numpy(self.inputs).split(_ROWS))

    def fitted(self, place: int, seeds: tuple[int, ...]) -> CompanionMLP:
        weights, bias = self._weights[place]
        model = CompanionMLP(len(weights), (), seeds[:1], 1)
        model.load_state_dict({"output.weight": weights[None, None], "output.bias": bias[None, None]})
        return model

    def name(self, place: int) -> str:
        return f"linear probe, L2 penalty {1 / STRENGTHS[place]:g}"


class _Mlp(_Kind):
    """MLPs of given widths, where each number of passes is a recipe."""

    def __init__(self, data: TrainingSet, parts: _Parts, reads: int, settings: CompanionSettings, progress: Progress):
        self.settings = settings
        weights = sum(a * b for a, b in pairwise((reads, *settings.widths, 1)))
        self._cost = 3.0 * len(parts) * len(data.inputs) * weights
        super().__init__(data, parts, reads, progress)
        progress.skip((settings.passes - len(self.scores)) * self._cost)

    def ended(self, scores: np.ndarray) -> bool:
        return bool((scores.argmin(axis=0) < len(scores) - PATIENCE).all())

    def predictions(self) -> Iterator[np.ndarray]:
        for model in self._trained(self.train, self.settings.seeds[:1], self.settings.passes):
            with torch.inference_mode():
                parts = [model(rows.to(model.device)).cpu() for rows in torch.from_numpy(self.inputs).split(_ROWS)]
            self.progress.add(self._cost, "comparing recipes")
            yield torch.cat(parts, dim=1).numpy()

    def fitted(self, place: int, seeds: tuple[int, ...]) -> CompanionMLP:
        *_, model = self._trained(self.data.loss_weight[None], seeds, self.passes(place))
        return model

    def name(self, place: int) -> str:
        widths = " / ".join(map(str, self.settings.widths))
        return f"MLP of widths {widths}, {self.passes(place)} pass{'es' * (place > 0)}"

    def passes(self, place: int) -> int:
        return place + 1

    def _trained(self, train: np.ndarray, seeds: Sequence[int], passes: int) -> Iterator[CompanionMLP]:
        """Train members on the rows of each part, float32 (parts, n), in their order; yield after every pass."""
        settings, device = self.settings, best_device()
        model = CompanionMLP(self.inputs.shape[1], settings.widths, seeds, len(train)).to(device)
        training = Training(model, settings)
        used = np.flatnonzero(train.any(axis=0))
        taken = torch.from_numpy(train[:, used]).to(device)
        target = torch.from_numpy(self.data.target[used].astype(np.float32)).to(device)
        for _ in range(passes):
            with matmul_precision(settings.matmul):
                for start in range(0, len(used), settings.batch_size):
                    span = slice(start, start + settings.batch_size)
                    rows = torch.from_numpy(self.inputs[used[span]]).to(device)
                    training.step(rows, target[span], taken[:, None, span])
            yield model


def _standardise(inputs: np.ndarray, emphasis: np.ndarray) -> tuple[Tensor, Tensor]:
    """Standardise inputs in place; return the mean and the scale of each, float32 (inputs,)."""
    blocks = [inputs[k : k + _ROWS] for k in range(0, len(inputs), _ROWS)]
    mean = inputs.mean(axis=0, dtype=np.float64)
    deviation = np.sqrt(sum(np.square(block - mean).sum(axis=0) for block in blocks) / len(inputs))
    deviation[deviation == 0] = 1.0
    mean, scale = mean.astype(np.float32), (deviation / emphasis).astype(np.float32)
    for block in blocks:
        np.subtract(block, mean, out=block)
        np.divide(block, scale, out=block)
    return torch.from_numpy(mean), torch.from_numpy(scale)
