"""Fitting a companion on anybody's rollouts: read, check, states, fit, held-out quality (section 4, appendix A.1)."""

import hashlib
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from cocal.companion.companions import Companions
from cocal.companion.fit import fit_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Prefix
from cocal.companion.supervision import in_validation
from cocal.errors import ConfigError, ContractError
from cocal.features.extract import TOKEN_INPUTS, pooled_states, states_and_tokens, token_inputs
from cocal.features.forward import RESPONSE_POOLINGS, Prefixes
from cocal.features.store import FeatureReader, NumberFormat, create_features, decoded, open_features
from cocal.fitting.baselines import baselines_of
from cocal.fitting.config import BaseModelInfo, CompanionConfig, Recipe, Truncated, prompt_digests
from cocal.fitting.prefixes import Rows, drawn, names, quality_of_parts
from cocal.fitting.quality import measured_fields
from cocal.fitting.recipes import Selection, best, folds_of, spec_of, work
from cocal.models.loading import Policy
from cocal.models.weights import sample_digest
from cocal.rollouts.encoding import BLOCK, Encoder
from cocal.rollouts.experience import Experience, experience_of
from cocal.rollouts.files import RolloutFiles, find, learnable
from cocal.rollouts.format import Reading
from cocal.rollouts.lines import samples
from cocal.runtime.machine import best_device
from cocal.runtime.progress import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Rollouts = pd.DataFrame | RolloutFiles | str | Path | Sequence[str | Path]
"""A table of rollouts, files that were found, or the places of files."""


def fit(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    rollouts: Rollouts,
    *,
    recipe: Recipe | None = None,
    truncated: Truncated | None = None,
    token_probability: bool | None = None,
    prefixes: int | None = None,
    settings: CompanionSettings | None = None,
    reading: Reading | None = None,
    layer: int | None = None,
    states: np.ndarray | None = None,
    number_format: NumberFormat = "bfloat16",
    questions: Sequence[str] | None = None,
    batch_tokens: int = 16384,
    base_model: BaseModelInfo | str | None = None,
    license: str | None = None,
    run: Path | None = None,
) -> tuple[Companions, CompanionConfig, tuple[Companions, CompanionConfig] | None]:
    """Fit companions and measure them on held-out questions.

    The states of all rollouts are read with the model that is given. The paper reads them with the policy of each step
    while it trains; the states of the final policy are what it uses for prompts (appendix F.4).

    Args:
        model, tokenizer, rollouts: See `cocal.Companion.fit`; the model is in evaluation mode.
        recipe: "best" compares a linear probe and MLPs on standardised states by cross-validation over questions
            (`cocal.fitting.recipes`), "paper" fits the paper's MLP; by default paper where settings are given.
        truncated: Whether responses that were cut at the limit keep the verifier's labels, count as wrong, or are not
            learnt; by default "as-labelled" for the recipe best and "leave-out" for the paper's.
        token_probability: Whether the companion also reads token statistics (`TOKEN_INPUTS` numbers from the same
            passes); by default the recipe best tries both, unless `states` are given.
        prefixes: Interval, in tokens, at which the recipe best learns from growing responses, too, with the label of
            the whole response (`cocal.fitting.prefixes`).
        settings: Architecture and training; by default the paper's, for the binary target. The recipe best takes its
            seeds, and what else is given explicitly (`cocal.fitting.recipes.choose`).
        reading: How the rollouts are read.
        layer: Zero-based index of the block to read; by default the last one.
        states: float32 (n, 2 x hidden), states of the rollouts in the order of the table (last token || mean over the
            response) where they were captured during training; the rollouts must then be in the order of their steps.
        number_format: Format to which the states are rounded.
        questions: Texts of the whole question set, a tenth of which is held out; by default those of the rollouts.
        batch_tokens: Largest number of tokens in one forward pass, padding included.
        base_model: Facts about the model for the card, or only its name; by default those of the model's own settings.
        license: Licence of the companion, by the Hub's name for it, which the card states.
        run: Working folder, from which a killed run resumes; by default a temporary one.

    Returns:
        The companions and their config; and the same for the best companion of states alone, or None if the companions
        read no token statistics or it was not tried.

    Raises:
        ConfigError: if an option belongs to the other recipe: the group target, token probabilities, prefixes.
        ContractError: if the rollouts are not usable; the message names file, row and remedy.
    """
    recipe = recipe or ("best" if settings is None else "paper")
    truncated = truncated or ("as-labelled" if recipe == "best" else "leave-out")
    # the paper's main variant; group supervision is asked for by name
    settings, reading = settings or CompanionSettings(targets=("binary",)), reading or Reading()
    _check_wishes(recipe, settings, bool(token_probability or prefixes), given=states is not None)
    policy = Policy(model, tokenizer)
    if reading.template is None and tokenizer.chat_template is None:
        reading = reading.model_copy(update={"template": ""})
    encoder = Encoder(policy, reading)
    encoder.check_wishes()
    experience = _counted(read(rollouts, encoder), truncated)
    rows = experience.rows
    learnt = rows if truncated == "leave-out" else rows.assign(truncated=False)
    texts = list(dict.fromkeys(rows["question"])) if questions is None else list(questions)
    if recipe == "best":
        held_out, fold = np.ones(len(rows), dtype=bool), folds_of(rows["question"], settings.split_seed)
    else:
        held_out = in_validation(rows["question"], texts, settings.validation_share, settings.split_seed)
        fold = held_out.astype(np.int64)
    _check_learnable(recipe, settings, learnt, held_out)
    if states is not None and not experience.as_given:
        raise ContractError("states are given for rollouts that are not in the order of their steps; sort both by step")
    at_layer = policy.blocks - 1 if layer is None else layer
    if not 0 <= at_layer < policy.blocks:
        raise ContractError(f"--layer {at_layer}: the model has blocks 0 to {policy.blocks - 1}")
    base = base_model if isinstance(base_model, BaseModelInfo) else BaseModelInfo.of(model.config, base_model)
    with tempfile.TemporaryDirectory(prefix="cocal-fit-") as temporary:
        path = (run or Path(temporary)) / f"read-{digest_of(rows)}{prefixes or ''}.zarr"
        grown = drawn(rows["length"], prefixes, policy.hidden) if prefixes else None
        width, each = len(RESPONSE_POOLINGS) * policy.hidden, Rows.of(rows["length"], grown)
        cost = _tokens(rows) * policy.model.num_parameters()
        progress = Progress("", cost + (work(len(each.response), width, settings) if recipe == "best" else 0))
        store, tokens = _states(
            policy, rows, at_layer, number_format, batch_tokens, path, states, recipe == "best", grown, progress
        )
        baselines = baselines_of(experience, fold, tokens, policy.tokenizer)
        stated: dict[str, Any] = {
            **reading.model_dump() | {"raw": reading.raw or experience.raw},
            **{
                "states": number_format,
                "license": license,
                "recipe": recipe,
                "truncated": truncated,
                "prefixes": prefixes or None,
            },
            "base_model": base.model_copy(update={"sample": sample_digest(model)}),
            "notes": (*experience.notes, *_doubts(tokens, base, int(rows["step"].max()) * experience.has_steps)),
            "unlikely": _unlikely(tokens),
            **{"learnt": digest_of(rows), "asked": prompt_digests(rows["prompt_ids"])},
        }
        if recipe == "paper":
            last = int(rows["step"].max())
            ((companions, _),) = fit_companions(settings, store, learnt, texts, [Prefix(last, last)])
            config, confidence = CompanionConfig(spec=companions.spec, **stated), np.full(len(rows), np.nan)
            inputs = decoded(store.take(np.flatnonzero(held_out), at_layer, RESPONSE_POOLINGS), store.dtype)
            confidence[held_out] = companions.to(best_device()).predict(inputs)[companions.spec.chosen()].mean(axis=0)
            quality = measured_fields(config, experience, held_out, confidence, baselines)
            return companions, config.model_copy(update=quality), None
        inputs = each.inputs(store, at_layer, None if token_probability is False else tokens)
        reads = {inputs.shape[1]} if token_probability else {width, inputs.shape[1]}
        chosen = best(each, inputs, reads, width, learnt, fold, settings, progress)

    def described(selection: Selection) -> tuple[Companions, CompanionConfig]:
        spec = spec_of(selection, learnt, at_layer)
        parts = quality_of_parts(each, rows, selection.out_of_fold, tokens, prefixes) if prefixes else ()
        config = CompanionConfig(
            spec=spec, token_probability=spec.inputs > width, tried=selection.tried, trajectory=parts, **stated
        )
        quality = measured_fields(config, experience, held_out, each.by_response(selection.out_of_fold), baselines)
        return Companions(spec, selection.model), config.model_copy(update=quality)

    return *described(chosen), chosen.alone and described(chosen.alone)


def _counted(experience: Experience, truncated: Truncated) -> Experience:
    """The rollouts with the labels to learn and measure: the verifier's, or wrong for truncated responses."""
    rows = experience.rows
    if count := int((right := rows["truncated"] & rows["correct"]).sum()):
        kept = (
            "count as wrong (--truncated wrong)"
            if truncated == "wrong"
            else "keep this label (--truncated wrong changes it)"
        )
        note = f"{count:,} responses that were cut at the limit are labelled correct, and {kept}"
        rows = rows.assign(correct=rows["correct"] & ~right) if truncated == "wrong" else rows
        experience = replace(experience, rows=rows, notes=(*experience.notes, note))
    for said in experience.notes:
        (logging.warning if said in experience.doubts else logging.info)(said)
    return experience


def read(rollouts: Rollouts, encoder: Encoder) -> Experience:
    """Read rollouts from files, whose format is guessed, or from a table; a ContractError names what cannot be used."""
    notes, reading = Counter(), encoder.reading
    if isinstance(rollouts, Sequence) and rollouts and isinstance(rollouts[0], Mapping):
        rollouts = pd.DataFrame(rollouts)
    if isinstance(rollouts, pd.DataFrame):
        notes["a table"] += 1
        table = cast(Any, rollouts)
        given = table.astype(object).where(table.notna(), None).to_dict("records")
        rows = samples(((f"row {place}", row, None) for place, row in enumerate(given)), reading, notes)
        responses = learnable(rows, reading, notes, "the table")
    else:
        places = [rollouts] if isinstance(rollouts, (str, Path)) else rollouts
        files = places if isinstance(places, RolloutFiles) else find([Path(place) for place in places])
        count = len(files.files)
        notes[f"{count:,} file{'s' if count > 1 else ''} of {files.kind.name}"] += 1
        responses = files.samples(reading, notes)
    return experience_of(responses, encoder, notes)


def digest_of(rows: pd.DataFrame) -> str:
    """Digest of the token ids, which identifies kept states and the rollouts that a companion has learnt from."""
    ids = b"|".join(ids.tobytes() for name in ("prompt_ids", "response_ids") for ids in rows[name])
    return hashlib.sha256(ids).hexdigest()[:16]


def _tokens(rows: pd.DataFrame) -> int:
    return sum(map(len, (*rows["prompt_ids"], *rows["response_ids"])))


def _states(
    policy: Policy,
    rows: pd.DataFrame,
    layer: int,
    number_format: NumberFormat,
    batch_tokens: int,
    path: Path,
    given: np.ndarray | None,
    with_tokens: bool,
    grown: Sequence[np.ndarray] | None,
    progress: Progress,
) -> tuple[FeatureReader, np.ndarray | Any]:
    """The states of all rollouts, computed or given, and their token statistics (`states_and_tokens`), if these are
    wanted and computed. Those of whole responses are followed by those of the prefixes `grown`, padded with zeros.
    Finished blocks of a killed run are kept. A block is a rollout step if all steps have the same size, as in `cocal
    replay`, since the last digits of a state depend on the other responses in its forward pass."""
    count, sizes = len(rows), rows["step"].value_counts()
    block_size = int(sizes.iloc[0]) if len(sizes) > 1 and sizes.nunique() == 1 else min(BLOCK, count)
    width = len(RESPONSE_POOLINGS) * policy.hidden
    if given is not None and given.shape != (count, width):
        raise ContractError(
            f"states have shape {given.shape}, but {count} responses of a model of width {policy.hidden} need "
            f"({count}, {width})"
        )
    longest = max(map(len, grown or ((),)))
    writer = create_features(
        path,
        responses=count,
        layers=(layer,),
        hidden=policy.hidden,
        rows_per_chunk=block_size,
        dtype=number_format,
        poolings=(*RESPONSE_POOLINGS, *names(longest)),
        resume=path.exists(),
    )
    done, tokens = open_features(path, allow_partial=True).length > 0, None
    if with_tokens and given is None:
        kept = path.with_suffix(".npy")
        if not kept.exists():
            np.save(kept, np.full((count, TOKEN_INPUTS * (1 + longest)), np.nan, dtype=np.float32))
        tokens = np.load(kept, mmap_mode="r+")
        done &= np.isfinite(tokens).all(axis=1)
    of_wholes = replace(writer.layout, poolings=RESPONSE_POOLINGS)
    if done.any():
        logging.info("going on with what was kept: the states of %s of %s responses", f"{done.sum():,}", f"{count:,}")
    each = policy.model.num_parameters()
    for start in range(0, count, block_size):
        span = slice(start, start + block_size)
        block = rows.iloc[span]
        cost = each * _tokens(block)
        if done[span].all():
            progress.skip(cost)
            continue
        passed = of_wholes, block["prompt_ids"].tolist(), block["response_ids"].tolist(), batch_tokens
        if given is not None:
            states = given[span].reshape(len(block), 1, len(RESPONSE_POOLINGS), policy.hidden)
        elif tokens is None:
            states = pooled_states(policy, *passed)
        else:
            states, tokens[span] = _with_prefixes(
                policy, passed, grown and grown[span], longest, lambda read: progress.add(each * read, "reading states")
            )
            tokens.flush()
        writer.write(start, block, states)
        if tokens is None:
            progress.add(cost, "reading states")
    return open_features(path), None if tokens is None else np.array(tokens)


def _with_prefixes(
    policy: Policy,
    passed: tuple[Any, list, list, int],
    lengths: Sequence[np.ndarray] | Any,
    longest: int,
    read: Callable[[float], None],
) -> tuple[np.ndarray, np.ndarray]:
    """States and token probabilities of a block as `_states` stores them."""
    count, pooled = len(passed[1]), len(RESPONSE_POOLINGS)
    features = np.zeros((count, 1, pooled * (1 + longest), policy.hidden), dtype=np.float32)
    tokens = np.zeros((count, TOKEN_INPUTS * (1 + longest)), dtype=np.float32)

    def take(row: int, states: np.ndarray, logprobs: Any) -> None:
        features[row, 0, pooled:][: pooled * len(states)] = states.reshape(-1, policy.hidden)
        tokens[row, TOKEN_INPUTS:][: TOKEN_INPUTS * len(states)] = token_inputs(logprobs, lengths[row]).ravel()

    grown = None if lengths is None else Prefixes(lengths, take)
    features[:, :, :pooled], tokens[:, :TOKEN_INPUTS] = states_and_tokens(policy, *passed, grown, read)
    return features, tokens


def _unlikely(tokens: np.ndarray | None) -> float | None:
    return None if tokens is None else float(np.quantile(tokens[:, 1], 0.05))


def _doubts(tokens: np.ndarray | None, base: BaseModelInfo, last: int) -> list[str]:
    """Sentences, also logged, if the model hardly sampled these responses or is of a step before the last."""
    said, mean = [], np.inf if tokens is None else float(tokens[:, 1].mean())
    if mean < -log(base.vocabulary):
        said.append(
            f"the model finds these responses less likely than random tokens (a mean log-probability of {mean:.1f}): "
            "is it the policy that sampled them, with its own tokenizer and template, and which field is the response?"
        )
    said += [note] if (note := of_later_steps(base.step, last)) else []
    for sentence in said:
        logging.warning(sentence)
    return said


def of_later_steps(step: int | None, last: int) -> str | None:
    """A note if the rollouts end at a step after that of their checkpoint; otherwise None."""
    if step is None or step >= last:
        return None
    return (
        f"the checkpoint is of step {step}, but the rollouts end at step {last}: give the checkpoint whose answers are "
        "to be scored, and rollouts up to it"
    )


def _check_wishes(recipe: Recipe, settings: CompanionSettings, beside: bool, given: bool) -> None:
    if recipe == "best" and settings.targets != ("binary",):
        raise ConfigError("the recipe best learns correctness; take the paper's for the group target (--recipe paper)")
    if beside and (recipe == "paper" or given):
        raise ConfigError(
            "token probabilities and prefixes are inputs of the recipe best, where the states are read by `cocal fit`; "
            "leave out --with token-probability and --prefixes, or take --recipe best"
        )


def _check_learnable(recipe: Recipe, settings: CompanionSettings, learnt: pd.DataFrame, held_out: np.ndarray) -> None:
    """Raise a ContractError, before hours of computing, if the rollouts leave nothing to learn."""
    if "group" in settings.targets and learnt["sample"].max() == 0:
        raise ContractError("every prompt has one response, but the group target needs several; fit the binary target")
    complete = ~learnt["truncated"].to_numpy()
    correct, lacking = learnt["correct"][complete], None
    if recipe == "best" and not 0 < correct.mean() < 1:  # NaN of none
        lacking = f"{correct.sum():,} of these correct; a companion learns from both kinds"
    elif recipe == "paper" and not (complete & ~held_out).any():
        lacking = "none of these is to learn from"
    elif recipe == "paper" and not (complete & held_out).any():
        lacking = "none of these answers a question that is held out"
    if lacking:
        raise ContractError(
            f"of {len(learnt):,} responses to {learnt['question'].nunique():,} questions {len(correct):,} may be "
            f"learnt from, and {lacking}: give more rollouts (--rollouts), or another limit if these were not cut "
            "(--max-response-length)"
        )
