"""Fitting a companion on anybody's rollouts: read, check, states, fit, held-out quality (section 4, appendix A.1)."""

import hashlib
import logging
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cocal.companion.companions import Companions
from cocal.companion.fit import fit_companions
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import CompanionSpec, Prefix
from cocal.companion.supervision import in_validation
from cocal.errors import ContractError
from cocal.features.extract import pooled_states
from cocal.features.forward import RESPONSE_POOLINGS
from cocal.features.store import FeatureReader, NumberFormat, create_features, decoded, open_features
from cocal.integrations.lines import samples
from cocal.models.loading import Policy
from cocal.own_policy.facts import HeldOut, ResponseFacts
from cocal.own_policy.quality import measured
from cocal.own_policy.rollouts import Experience, experience_of, find, learnable
from cocal.own_policy.saved import About, BaseModelFacts
from cocal.own_policy.states import BLOCK, Encoder, confidences, default_target
from cocal.runtime.machine import best_device
from cocal.runtime.progress import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LAST_STAGE = 10
"""The last stage is the last of so many parts of the steps: its responses are like what the finished policy answers."""


@dataclass(frozen=True)
class Reading:
    """How rollouts are read.

    Attributes:
        mapping: Names of fields by their meaning (`cocal.integrations.lines.FIELDS`).
        correct_above: A reward above this number means a correct response; None for rewards of 0 and 1, or -1 and 1.
        max_response_length: Tokens from which on a response counts as cut, where the rollouts do not say which are.
        thinking: Whether chats are put into the template in thinking mode.
        template: Chat template in place of the tokenizer's own; if empty, prompts are plain text.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    correct_above: float | None = None
    max_response_length: int | None = None
    thinking: bool = False
    template: str | None = None


def fit(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    rollouts: pd.DataFrame | str | Path | Sequence[str | Path],
    *,
    settings: CompanionSettings | None = None,
    reading: Reading | None = None,
    layer: int | None = None,
    states: np.ndarray | None = None,
    number_format: NumberFormat = "bfloat16",
    questions: Sequence[str] | None = None,
    batch_tokens: int = 16384,
    base_model: BaseModelFacts | None = None,
    license: str | None = None,
    run: Path | None = None,
) -> tuple[Companions, About]:
    """Fit companions and measure them on held-out questions.

    The states of all rollouts are read with the model that is given. The paper reads them with the policy of each step
    while it trains; the states of the final policy are what it uses for prompts (appendix F.4).

    Args:
        model: The policy, or the checkpoint that ended its training.
        tokenizer: Its tokenizer. Without a chat template, prompts are plain text, unless `reading` has a template.
        rollouts: Folder, files, or a table; see `cocal.Companion.fit`.
        settings: Architecture and training; by default the paper's, for the binary target.
        reading: How the rollouts are read.
        layer: Zero-based index of the block to read; by default the last one.
        states: float32 (n, 2 x hidden), states of the rollouts in the order of the table (last token || mean over the
            response) where they were captured during training; the rollouts must then be in the order of their steps.
        number_format: Format to which the states are rounded.
        questions: Texts of the whole question set, a tenth of which is held out; by default those of the rollouts.
        batch_tokens: Largest number of tokens in one forward pass, padding included.
        base_model: What the card says of the model; by default what the model says itself.
        license: Licence of the companion, by the Hub's name for it, which the card states.
        run: Working folder, from which a killed run resumes; by default a temporary one.

    Returns:
        The companions, and what a saved folder says of them.

    Raises:
        ContractError: if the rollouts are not usable; the message names file, row and remedy.
    """
    # the paper's main variant; group supervision is asked for by name
    settings, reading = settings or CompanionSettings(targets=("binary",)), reading or Reading()
    policy = Policy(model.eval(), tokenizer)
    template = "" if reading.template is None and tokenizer.chat_template is None else reading.template
    limit = reading.max_response_length
    encoder = Encoder(policy, template=template, thinking=reading.thinking, max_response_length=limit)
    experience = read(rollouts, encoder, reading)
    for note in experience.notes:
        logging.info(note)
    if "group" in settings.targets and experience.rows["sample"].max() == 0:
        raise ContractError("every prompt has one response, but the group target needs several; fit the binary target")
    if states is not None and not experience.as_given:
        raise ContractError("states are given for rollouts that are not in the order of their steps; sort both by step")
    rows = experience.rows
    texts = list(dict.fromkeys(rows["question"])) if questions is None else list(questions)
    held_out = in_validation(rows["question"], texts, settings.validation_share, settings.split_seed)
    _check_parts(rows, held_out)
    at_layer = policy.blocks - 1 if layer is None else layer
    if not 0 <= at_layer < policy.blocks:
        raise ContractError(f"--layer {at_layer}: the model has blocks 0 to {policy.blocks - 1}")
    with tempfile.TemporaryDirectory(prefix="cocal-fit-") as temporary:
        ids = (ids.tobytes() for name in ("prompt_ids", "response_ids") for ids in rows[name])
        of_responses = hashlib.sha256(b"|".join(ids)).hexdigest()[:16]  # kept states are of these alone
        path = (run or Path(temporary)) / f"states-{of_responses}.zarr"
        store = _states(policy, rows, at_layer, number_format, batch_tokens, path, states)
        last = int(rows["step"].max())
        ((companions, _),) = fit_companions(settings, store, rows, texts, [Prefix(last, last)])
        about = About(
            spec=companions.spec,
            states=number_format,
            base_model=base_model or BaseModelFacts.of(model.config),
            license=license,
            thinking=reading.thinking,
            template=template,
            notes=(*experience.notes, *_still_improving(companions.spec)),
            fields=dict(reading.mapping),
            correct_above=reading.correct_above,
            max_response_length=limit,
        )
        found = decoded(store.take(np.flatnonzero(held_out), at_layer, RESPONSE_POOLINGS), store.dtype)
        scored = confidences(companions.to(best_device()), about, found)
    return companions, about.model_copy(update=_measured(about, experience, held_out, scored))


def _still_improving(spec: CompanionSpec) -> list[str]:
    """A note where most members were best in their last passes, as with few rollouts, whose passes have few updates."""
    passes, batch = spec.settings.passes, spec.settings.batch_size
    late = sum(best > 0.9 * passes for best in spec.best_pass)
    if 2 * late <= len(spec.best_pass):
        return []
    updates = passes * ceil(spec.training_responses / batch)
    return [
        f"{late} of {len(spec.best_pass)} members were best in one of their last passes, after some {updates:,} "
        "updates, so more passes may help (--passes)"
    ]


def read(rollouts: pd.DataFrame | str | Path | Sequence[str | Path], encoder: Encoder, reading: Reading) -> Experience:
    """Read rollouts from files, whose format is guessed, or from a table.

    Raises:
        ContractError: if they are not usable; the message names file and row.
    """
    notes: Counter = Counter()
    if isinstance(rollouts, pd.DataFrame):
        notes["a table"] += 1
        given = rollouts.astype(object).where(rollouts.notna(), None).to_dict("records")
        rows = samples(((f"row {place}", row, None) for place, row in enumerate(given)), reading.mapping, notes)
        found = learnable(rows, notes, "the table")
    else:
        places = [rollouts] if isinstance(rollouts, (str, Path)) else rollouts
        files = find([Path(place) for place in places])
        encoder.dated(files.files[0][0])
        count = len(files.files)
        notes[f"{count:,} file{'s' if count > 1 else ''} of {files.format}"] += 1
        found = files.samples(reading.mapping, notes)
    return experience_of(found, encoder, correct_above=reading.correct_above, notes=notes)


def _states(
    policy: Policy,
    rows: pd.DataFrame,
    layer: int,
    number_format: NumberFormat,
    batch_tokens: int,
    path: Path,
    given: np.ndarray | None,
) -> FeatureReader:
    """Compute the states of all rollouts, or store those that are given; finished blocks of a killed run are kept.

    A block is a rollout step where all have the same size: `cocal replay` reads step by step too, and the last digits
    of a state depend on what is passed through the model with it.
    """
    count, sizes = len(rows), rows["step"].value_counts()
    block_size = int(sizes.iloc[0]) if len(sizes) > 1 and sizes.nunique() == 1 else min(BLOCK, count)
    width = len(RESPONSE_POOLINGS) * policy.hidden
    if given is not None and given.shape != (count, width):
        raise ContractError(
            f"states have shape {given.shape}, but {count} responses of a model of width {policy.hidden} need "
            f"({count}, {width})"
        )
    writer = create_features(
        path,
        responses=count,
        layers=(layer,),
        hidden=policy.hidden,
        rows_per_chunk=block_size,
        dtype=number_format,
        poolings=RESPONSE_POOLINGS,
        resume=path.exists(),
    )
    done = open_features(path, allow_partial=True).length > 0
    progress = Progress("states of response", count, done=int(done.sum()))
    for start in range(0, count, block_size):
        block = rows.iloc[start : start + block_size]
        if done[start : start + block_size].all():
            continue
        if given is None:
            prompts, responses = block["prompt_ids"].tolist(), block["response_ids"].tolist()
            found = pooled_states(policy, writer.layout, prompts, responses, batch_tokens)
        else:
            found = given[start : start + block_size].reshape(len(block), 1, len(RESPONSE_POOLINGS), policy.hidden)
        writer.write(start, block, found)
        progress.add(len(block))
    return open_features(path)


def _check_parts(rows: pd.DataFrame, held_out: np.ndarray) -> None:
    """Refuse rollouts without a complete response on either side of the split, before hours of computing."""
    complete = ~rows["truncated"].to_numpy()
    for side, purpose in ((~held_out, "to learn from"), (held_out, "to questions that are held out")):
        if not (side & complete).any():
            raise ContractError(
                f"there is no complete response {purpose}, among {len(rows):,} responses to "
                f"{rows['question'].nunique():,} questions, of which {(~complete).sum():,} were cut at the limit; give "
                "more rollouts (--rollouts), or another limit if these were not cut (--max-response-length)"
            )


def _measured(
    about: About, experience: Experience, held_out: np.ndarray, scored: np.ndarray
) -> dict[str, HeldOut | ResponseFacts | None]:
    """Quality on the responses to validation questions, truncated ones included: of the last stage, and of all steps.

    The last stage is the last tenth of the steps that have such responses (`LAST_STAGE`); where the rollouts
    name no steps, it is the last tenth of the responses. `held_out` is bool (n,), over all responses, and `scored` has
    a confidence for each that is held out. Returned are the fields of `About`.
    """
    settings, rows = about.spec.settings, experience.rows
    moment = rows["step" if experience.has_steps else "response_id"].to_numpy()
    moments = np.unique(moment[held_out])
    last = moment >= moments[-ceil(len(moments) / LAST_STAGE)]
    confidence = np.full(len(rows), np.nan)
    confidence[held_out] = scored

    def quality(chosen: np.ndarray) -> HeldOut:
        held = rows[chosen]
        return HeldOut.of(
            measured(held["question"], confidence[chosen], held["correct"].to_numpy()),
            steps=(int(held["step"].min()), int(held["step"].max())) if experience.has_steps else None,
            responses=len(held),
            questions=held["question"].nunique(),
            cut=float(held["truncated"].mean()) if experience.tells_cut else None,
            seeds=settings.seeds,
            target=default_target(settings),
        )

    stage = rows[last]
    return {
        "held_out": quality(held_out & last),
        "held_out_all_steps": None if last[held_out].all() else quality(held_out),
        "rollouts": ResponseFacts.of(stage["length"], stage["truncated"] if experience.tells_cut else None),
    }
