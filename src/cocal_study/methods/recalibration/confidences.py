"""The data of recalibration: the responses to learn from, the baselines' scores, and their confidences.

Calibrators learn from the rows of the companions, and never from an evaluation question.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cocal.answers.judge import Judge
from cocal.companion.settings import CompanionSettings
from cocal.companion.supervision import in_validation
from cocal.errors import ConfigError, ContractError
from cocal.features.store import FeatureReader, decoded, open_features
from cocal.store import read_frame
from cocal.store.contracts import RESPONSES
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.method import Baseline, Reader
from cocal_study.config.methods import METHODS
from cocal_study.generation.labels import groups_of, question_texts, read_rollouts
from cocal_study.methods.base.predictions import Checkpoint, predictions_of
from cocal_study.methods.base.responses import Estimator, LabelledStates, LearntScore, Responses, read_responses
from cocal_study.methods.recalibration.calibrators import Fits
from cocal_study.methods.self_consistency import check_pool
from cocal_study.planning.baselines import BASELINES, Basis, calibrations_of, learns_from, named
from cocal_study.questions.overlap import fingerprint

if TYPE_CHECKING:
    from cocal.companion.companions import Companions


def read_experience(
    folder: Path,
    questions: Path,
    steps: int,
    companion: CompanionSettings,
    evaluated: pd.DataFrame,
    columns: Sequence[str] = (),
) -> pd.DataFrame:
    """Read the responses of steps 1 to `steps`, rollouts or PostCal's: the table of
    `cocal_study.generation.labels.read_rollouts` with these further columns, pool (number of the group) and part
    (`Part`, by the companions' split of all training questions). All fits learn from such tables alone. Raises
    ContractError if a table breaks its contract, if a question is among those of an evaluation set (`evaluated`), or
    for a reason that `read_rollouts` names."""
    rollouts = read_rollouts(folder, questions, steps)
    refuse_evaluated(rollouts["question"].unique(), evaluated, folder)
    parts = parts_of(rollouts, question_texts(questions), companion)
    return _with_columns(rollouts, folder, columns).assign(pool=groups_of(rollouts), part=parts)


def tables_of(rollouts: pd.DataFrame, folder: Path, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of a table from `read_experience` with more columns, file by file of its folder, because the
    log-probabilities of a whole training do not fit into memory."""
    start = 0
    for file in sorted(folder.glob("*.parquet")):
        part = rollouts.iloc[start : start + len(read_frame(file, RESPONSES, ["response_id"]))]
        start += len(part)
        if len(part):
            yield _with_columns(part.reset_index(drop=True), file, columns)


def _with_columns(rollouts: pd.DataFrame, place: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The rollouts, which are the first of a file or folder, with those of `columns` that they lack."""
    lacking = [name for name in dict.fromkeys(columns) if name not in rollouts]
    return rollouts.assign(**read_frame(place, RESPONSES, lacking).iloc[: len(rollouts)]) if lacking else rollouts


def parts_of(rollouts: pd.DataFrame, questions: Sequence[str], companion: CompanionSettings) -> np.ndarray:
    """The `Part` of each rollout (columns question and truncated) by the companions' split of all training questions,
    str (n,) as objects."""
    held_out = in_validation(rollouts["question"], questions, companion.validation_share, companion.split_seed)
    parts = np.where(held_out, "held out", "training").astype(object)
    parts[rollouts["truncated"].to_numpy()] = "truncated"
    return parts


def with_classes(rollouts: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Add the column answer_class (`cocal.store.contracts.RESPONSES`) to a table from `read_experience`: the answers of
    each group are compared with one another, those of truncated responses included (appendix A.1)."""
    answers = [None if pd.isna(answer) else answer for answer in rollouts["answer"]]
    verdicts = judge.classes(answers, rollouts["pool"].tolist(), rollouts["question"].tolist())
    return rollouts.assign(answer_class=verdicts.values)


def refuse_evaluated(asked: Sequence[str], evaluated: pd.DataFrame, source: str | Path) -> None:
    """Refuse questions that an evaluation set (columns dataset, question_id, question) asks too: no label of an
    evaluation may reach a fit, which would learn from the responses in `source` to the texts `asked`. Raises
    ContractError; typesetting, case and white space do not matter (`cocal_study.questions.overlap.fingerprint`)."""
    leaked = evaluated[evaluated["question"].map(fingerprint).isin({fingerprint(text) for text in asked})]
    if len(leaked):
        first = leaked.iloc[0]
        raise ContractError(
            f"{source}: a calibrator would learn from responses to {len(leaked)} question(s) that it is evaluated on, "
            f"first {first['question_id']!r} of {first['dataset']}: {first['question']!r}; leave them out of training "
            "(`sources: {overlap: exclude}`)"
        )


@dataclass(frozen=True)
class Scorer:
    """Everything from which the baselines of one policy get their scores: companions by kind
    (`cocal_study.config.method.Baseline.reader`), learnt scores by name of the baseline, and the number of responses in
    the self-consistency pool."""

    baselines: Sequence[str]
    settings: EstimatorSettings
    companions: "Mapping[Reader, Companions]"
    learnt: Mapping[str, LearntScore]
    pool: int

    def on(self, basis: Basis) -> "Scorer":
        """The scorer restricted to baselines that are calibrated on this basis."""
        return replace(self, baselines=[name for name in self.baselines if learns_from(name, basis)])

    def of_tables(self, tables: Iterable[pd.DataFrame]) -> dict[Estimator, np.ndarray]:
        """Scores of the baselines that read no hidden states (`Score`), float64 (n,) each, of all tables' rows."""
        plain = [BASELINES[name] for name in self.baselines if BASELINES[name].score]
        by_table = [
            [resolve_name(baseline.score)(_declared(baseline, table, "pool"), self.settings) for baseline in plain]
            for table in tables
        ]
        return {
            Estimator(baseline.name): np.concatenate(scores) for baseline, *scores in zip(plain, *by_table, strict=True)
        }

    def of_states(self, reader: FeatureReader, rows: np.ndarray, table: pd.DataFrame) -> dict[Estimator, np.ndarray]:
        """Scores of the baselines that read hidden states, float64 (n,) each, for ascending rows of the store, int64
        (n,); `table` has the responses to which these belong."""
        from cocal_study.methods.base.companion_scores import score_rows

        readers = {(BASELINES[name].reader, _target(name)): name for name in self.baselines if BASELINES[name].reader}
        given = {kind: fit for kind, fit in self.companions.items() if kind in {known for known, _ in readers}}
        learnt = {name: self.learnt[name] for name in self.baselines if BASELINES[name].learn}
        scored = score_rows(list(given.values()), reader, rows)
        estimates = {}
        for (kind, companions), scores in zip(given.items(), scored, strict=True):
            spec = companions.spec
            for (target, seed), values in zip(companions.members, scores, strict=True):
                if name := readers.get((kind, target)):
                    estimates[Estimator(name, seed, *spec.prefix, spec.layer, spec.pooling)] = values
        if learnt:
            states = states_of(reader, rows, learnt)
            for name, score in learnt.items():
                beside = [_declared(BASELINES[name], table)] if BASELINES[name].columns else []
                estimates[Estimator(name)] = score.apply(states[name], *beside)
        return estimates


def columns_of(baselines: Iterable[Baseline]) -> list[str]:
    """The columns of responses that any of the baselines declares."""
    return list(dict.fromkeys(name for baseline in baselines for name in baseline.columns))


def _declared(baseline: Baseline, table: pd.DataFrame, *more: str) -> pd.DataFrame:
    return table[[*baseline.columns, *more]].reset_index(drop=True)


def _target(baseline: str) -> str | None:
    return METHODS[BASELINES[baseline].method].target


def states_of(reader: FeatureReader, rows: np.ndarray, baselines: Iterable[str]) -> dict[str, np.ndarray]:
    """The states of the blocks and poolings that each of the baselines declares, float32 (n, inputs). States that
    several baselines read are read once."""
    kinds, depth = (
        {name: (BASELINES[name].blocks, BASELINES[name].poolings) for name in baselines},
        reader.layers[-1] + 1,
    )
    read = {}
    for blocks, poolings in {*kinds.values()}:
        taken = [reader.take(rows, depth + block if block < 0 else block, poolings) for block in blocks]
        read[blocks, poolings] = decoded(np.concatenate(taken, axis=1), reader.dtype)
    return {name: read[kind] for name, kind in kinds.items()}


def learn_scores(
    baselines: Sequence[str], rollouts: pd.DataFrame, features: FeatureReader | None
) -> dict[str, LearntScore]:
    """Learn the scores of those baselines that learn one, from the rollouts of `read_experience` on which companions
    are trained; row k of the features belongs to rollout k. Returns what was learnt by name of the baseline. Raises
    ConfigError if a baseline learns and there are no states, and ContractError if no response is left for training or
    for validation."""
    learning = [name for name in baselines if BASELINES[name].learn]
    if not learning:
        return {}
    if features is None:
        raise ConfigError(f"--rollout-features: {learning[0]} learns from the states of rollouts; give their folder")
    parts = []
    for part in ("training", "held out"):
        rows = np.flatnonzero(rollouts["part"] == part)
        if not len(rows):
            raise ContractError(f"{features.path}: no response is left in the {part} part of the rollouts")
        of_part = rollouts.iloc[rows]
        labels = [of_part[name].to_numpy() for name in ("correct", "group_accuracy")]
        states = states_of(features, rows, learning)
        parts.append(
            {
                name: LabelledStates(states[name], *labels, table=_declared(BASELINES[name], of_part))
                for name in learning
            }
        )
    return {
        name: resolve_name(BASELINES[name].learn)(_target(name), *(given[name] for given in parts)) for name in learning
    }


def scores_to_learn_from(
    scorer: Scorer, table: pd.DataFrame, features: FeatureReader | None, plain: Mapping[Estimator, np.ndarray]
) -> dict[Estimator, np.ndarray]:
    """Scores of rows of a table from `read_experience`, float64 (n,) each; those of hidden states are NaN outside the
    held-out part. Row k of the features, if a baseline reads them, and of `plain`, the scores of all tables
    (`of_tables`), belongs to label k of the table's index.
    """
    scores = {
        baseline: values[table.index] for baseline, values in plain.items() if baseline.method in scorer.baselines
    }
    if features is not None:
        held_out = (table["part"] == "held out").to_numpy()
        for baseline, values in scorer.of_states(features, table.index[held_out].to_numpy(), table[held_out]).items():
            scores[baseline] = np.full(len(table), np.nan)
            scores[baseline][held_out] = values
    return scores


def predict_baselines(
    scorer: Scorer,
    fits: Fits,
    samples: Mapping[str, int],
    responses: Path,
    features: Path | None,
    checkpoint: Checkpoint,
) -> pd.DataFrame:
    """Compute the confidences of all baselines on one checkpoint, as they are and by each calibrator, for its first
    `samples` responses to each question of a set ({set}.parquet) and their features ({set}.zarr): a table in the
    contract PREDICTIONS whose methods are named by `cocal_study.planning.baselines.named`. A score without a
    calibrator, because no rollout had a score, has no valid confidence after the calibration. Raises ContractError if a
    file breaks its contract, or lacks what a baseline needs."""

    def estimated() -> Iterator[tuple[Responses, Estimator, np.ndarray]]:
        for dataset, count in samples.items():
            columns = columns_of(BASELINES[name] for name in scorer.baselines)
            given = read_responses(responses, dataset, count, checkpoint.step, columns)
            for baseline, scores in _scores(scorer, given, count, features).items():
                yield given, baseline, scores
                for calibration in calibrations_of(baseline.method, fits.bases):
                    values = fits.apply(baseline.method, baseline.seed, calibration, scores)
                    yield given, baseline._replace(method=named(baseline.method, calibration)), values

    return predictions_of(estimated(), checkpoint)


def _scores(scorer: Scorer, given: Responses, count: int, features: Path | None) -> dict[Estimator, np.ndarray]:
    """Scores of the evaluated responses, float64 (n,) each, in the order of the baselines."""
    if any(METHODS[BASELINES[name].method].needs_pool for name in scorer.baselines):
        check_pool(given, scorer.pool)
    pool = given.pool
    evaluated = (pool["sample"] < count).to_numpy()
    estimates = {baseline: scores[evaluated] for baseline, scores in scorer.of_tables([pool]).items()}
    if features is not None:
        from cocal_study.methods.base.companion_scores import match_features

        reader = open_features(features / f"{given.dataset}.zarr")
        rows = match_features(reader, given.evaluated, given.path)
        order = np.argsort(rows)  # the store is read in its own order
        scores = scorer.of_states(reader, rows[order], pool[evaluated].iloc[order])
        estimates |= {baseline: values[np.argsort(order)] for baseline, values in scores.items()}
    order = list(BASELINES)
    return dict(sorted(estimates.items(), key=lambda item: (order.index(item[0].method), item[0].seed)))
