"""`Companion`: fitted companions in one object that scores responses, and is saved in the Hub's convention."""

import hashlib
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import Tensor

from cocal.companion.companions import Companions, load_companions
from cocal.companion.settings import CompanionSettings, Target
from cocal.confidence import saved
from cocal.errors import ContractError, first_line
from cocal.features.extract import inputs_of
from cocal.features.store import Layout, NumberFormat, decoded, encoded
from cocal.fitting.config import BaseModelInfo, CompanionConfig, prompt_digests
from cocal.models.loading import Policy, evaluating
from cocal.models.weights import sample_digest
from cocal.rollouts.encoding import BLOCK, ROWS, Encoder
from cocal.rollouts.sample import Encoded, Sample
from cocal.runtime.machine import best_device

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Prompt = str | Sequence[Mapping[str, str]] | Sequence[int] | np.ndarray | Tensor
"""A prompt: the message of a user, a chat (messages with role and content), or exact token ids, also as the `input_ids`
of what a tokenizer returns."""
Response = str | Sequence[int] | np.ndarray | Tensor
"""A response: its text, or its exact token ids with the end token."""


class Companion:
    """A companion: it tells how likely answers of a language model are correct, from the model's hidden states.

    It holds one member for each target and seed that was fitted. A confidence is the mean over the seeds of one target,
    or that of one seed. The paper averages metrics over seeds instead; the mean of confidences is what one would use,
    and its quality is what the model card states.

    Args:
        companions, config: The fitted members, and what they were fitted on and for which model.
        alone: The best companion of states alone, which is saved with one that also reads token probabilities.
    """

    def __init__(
        self, companions: Companions, config: CompanionConfig, alone: tuple[Companions, CompanionConfig] | None = None
    ):
        self.companions = companions.to(best_device())
        self.config = config
        self.alone = Companion(*alone) if alone else None

    @classmethod
    def fit(
        cls,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        rollouts: "pd.DataFrame | str | Path | Sequence[str | Path]",
        *,
        settings: CompanionSettings | None = None,
        **options: Any,
    ) -> Self:
        """Fit a companion on rollouts.

        Args:
            model: The policy, or the last checkpoint of its training; the modes of its modules are restored afterwards.
            tokenizer: Its tokenizer. Without a chat template, prompts are plain text.
            rollouts: Folder or files of rollouts, as `cocal fit --rollouts` takes them; or a table with the columns
                prompt (or messages, or prompt_ids), response (or response_ids), correct (or reward), and optionally
                step, group, question_id and truncated, in the order of training.
            settings: Architecture and training of the recipe "paper".
            options: Further arguments of `cocal.fitting.fit.fit`, which describes them.

        Raises:
            ContractError: if the rollouts are not usable; the message names file, row and remedy.
        """
        from cocal.fitting.fit import fit  # needs what only training does, such as pyarrow

        with evaluating(model):
            return cls(*fit(model, tokenizer, rollouts, settings=settings, **options))

    def reading(self, ignored: Sequence[str] = (), **other: Any) -> Self:
        """Change how the companion reads responses from now on, and return it. Names in `ignored` are ignored as well,
        and `other` values of `cocal.rollouts.format.Reading` replace those of the fit unless they are None."""
        update = {name: value for name, value in other.items() if value is not None}
        self.config = self.config.model_copy(update=update | {"ignored": (*self.config.ignored, *ignored)})
        return self

    @classmethod
    def from_study(cls, folder: str | Path, model: "PreTrainedModel", states: NumberFormat) -> Self:
        """Load the companions that a study fitted for a policy, from the output folder of `cocal companions`; `states`
        is its `features.dtype`. The prompts that they learnt from are read from `rollouts` beside the folder, if it
        exists. Raises a ContractError if there are no companions, or the model lacks the block that they read."""
        from cocal.store import read_frame  # with PyArrow, which scoring does without
        from cocal.store.contracts import RESPONSES

        companions, rollouts = load_companions(folder), Path(folder).parent / "rollouts"
        base = BaseModelInfo.of(model.config)
        notes = (f"companions of a study ({Path(folder).name})",)
        asked = read_frame(rollouts, RESPONSES, ["prompt_ids"])["prompt_ids"] if rollouts.is_dir() else ()
        config = CompanionConfig(
            spec=companions.spec, states=states, base_model=base, notes=notes, asked=prompt_digests(asked)
        )
        config.check_model(base)
        return cls(companions, config)

    def identity(self) -> str:
        """Digest of the weights and of what the companion reads."""
        unread = {"held_out", "held_out_all_steps", "held_out_complete", "held_out_truncated", "rollouts"}
        unread |= {"notes", "license", "recipe", "truncated", "tried", "trajectory"}
        digest = hashlib.sha256(self.config.model_dump_json(exclude=unread).encode())
        for name, tensor in sorted(self.companions.model.state_dict().items()):
            digest.update(name.encode() + tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def score(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        prompts: Sequence[Prompt] | Prompt,
        responses: Sequence[Response] | Response,
        *,
        target: Target | None = None,
        seed: int | None = None,
        batch_tokens: int = 16384,
        every: int | None = None,
    ) -> "np.ndarray | tuple[np.ndarray, list[np.ndarray]]":
        """Score responses by one teacher-forced pass over their token ids.

        Given ids are used unchanged. The confidences then equal those that a study stores, to the last bit if the set
        of responses and its order, which decide on the batches, are the same, and the model is loaded as there
        (`cocal.models.loading.load_policy`). Texts are tokenised; prompts get the template, and responses an end token.

        Args:
            model: The language model, which is in evaluation mode for the passes and then in its former mode again.
            tokenizer: Its tokenizer.
            prompts: n prompts, or one that all responses answer; see `Prompt`. A tensor of ids has a row for each.
            responses: n responses, or one; see `Response`.
            target, seed: Which members to use; by default "binary", if it was fitted, and the mean over all seeds.
            batch_tokens: Largest number of tokens in one forward pass, padding included.
            every: Interval, in tokens, at which the confidence in each growing response is computed, too.

        Returns:
            float64 (n,) in [0, 1]. With `every`, also the trajectory of each response, float64 (k,): its confidences
            after each multiple of `every` tokens below its length.

        Raises:
            ConfigError: if there is no such target or seed, or `every` is given and the companion learnt no prefixes.
            ContractError: if the model is another one, or a prompt or response is empty, too long or has an unknown id.
        """
        samples, confidences, trajectories = _samples_of(prompts, responses), [np.empty(0)], []
        with evaluating(model):
            policy = Policy(model, tokenizer)
            self.config.check_model(BaseModelInfo.of(model.config))
            if self.config.base_model.sample not in (None, sample_digest(model)):
                logging.warning(
                    "the model's weights are not those of %s, for which the companion was fitted; its confidences may "
                    "be worse calibrated: give that checkpoint, or measure them (cocal evaluate)",
                    self.config.base_model.name,
                )
            encoder = Encoder(policy, self.config)
            for start in range(0, len(samples), ROWS):
                rows, chosen = encoder.encode(samples[start : start + ROWS]), {"target": target, "seed": seed}
                whole, grown, _ = self.score_encoded(policy, rows, batch_tokens=batch_tokens, every=every, **chosen)
                confidences.append(whole)
                trajectories += grown
        return (np.concatenate(confidences), trajectories) if every else np.concatenate(confidences)

    def score_encoded(
        self,
        policy: Policy,
        rows: Sequence[Encoded],
        *,
        batch_tokens: int = 16384,
        every: int | None = None,
        **member: Any,
    ) -> tuple[np.ndarray, list[np.ndarray], np.ndarray | None]:
        """Score at most `ROWS` tokenised responses: confidences, float64 (n,), their trajectories with `every` (see
        `score`), and token statistics, float32 (n, `TOKEN_INPUTS`), or None if the companion does not read these."""
        config, spec, trajectories = self.config, self.config.spec, [np.empty(0)] * len(rows) if every else []
        if every:
            config.check_prefixes()
        inputs = [np.empty((0, spec.inputs), dtype=np.float32)]
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]

            def take(row: int, grown: np.ndarray, at: int = start) -> None:
                trajectories[at + row] = self.score_states(grown, **member)

            layout = Layout(len(block), (spec.layer,), spec.poolings, policy.hidden, len(block), config.states)
            ids = [row.prompt for row in block], [row.response for row in block]
            inputs.append(inputs_of(policy, layout, *ids, batch_tokens, config.token_probability, every, take))
        read = np.concatenate(inputs)
        config.warn_of_unlikely(read)
        tokens = read[:, config.states_width :] if config.token_probability else None
        return self.score_states(read, **member), trajectories, tokens

    def score_states(self, states: np.ndarray, *, target: Target | None = None, seed: int | None = None) -> np.ndarray:
        """Score hidden states that were computed elsewhere, float64 (n,) in [0, 1]; see `score` about target and seed.

        The states, float32 (n, inputs), are those of the layer and poolings in `config.spec`, concatenated, followed by
        token statistics if `config.token_probability` (`cocal.features.extract`). Raises a ConfigError if there is no
        such target or seed, and a ContractError if the states have another width.
        """
        chosen, form, width = self.config.spec.chosen(target, seed), self.config.states, self.config.states_width
        scores = [np.empty((len(chosen), 0))]
        for start in range(0, len(states), ROWS):
            block = np.asarray(states[start : start + ROWS], dtype=np.float32)
            rounded = decoded(encoded(block[..., :width], form), form)  # but not token statistics
            scores.append(self.companions.predict(np.concatenate([rounded, block[..., width:]], axis=-1))[chosen])
        return np.concatenate(scores, axis=1).mean(axis=0)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a companion from a folder, or from the Hub by its name (`owner/name`).

        The options are those of `huggingface_hub.snapshot_download`, such as `revision` and `local_files_only`. Raises
        a ContractError if there is no such companion, or if a file is missing, not a companion's, or has changed.
        """
        return cls(*saved.read(pretrained_model_name_or_path, **options))

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save weights, config and model card in a folder, which is created if needed, in the Hub's convention.

        The config holds the digest of the weights and a seal over itself, which are checked on loading. Raises a
        ContractError if the folder holds files of these names that are not a companion's.
        """
        alone = self.alone and (self.alone.companions, self.alone.config)
        saved.write(Path(save_directory), self.companions, self.config, alone)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, **more: Any) -> str:
        """Upload the companion to the Hub, in one commit to a repository that is created if needed.

        Args:
            repo_id: Name on the Hub (`owner/name`).
            private: Whether a new repository is private; by default as the owner's settings say.
            token: Token of the account; by default the one of `hf auth login`.
            more: Further arguments of `huggingface_hub.HfApi.upload_folder`, such as commit_message or revision.

        Returns:
            Address of the commit.

        Raises:
            ContractError: if the Hub is not reached, or refuses, or the repository holds something else.
        """
        from huggingface_hub import HfApi

        hub = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            try:
                name = hub.create_repo(repo_id=repo_id, private=private, exist_ok=True).repo_id
                if self.alone is None:  # the one of an earlier companion would be read beside this
                    more = {"delete_patterns": f"{saved.ALONE}/*", **more}
                if saved.may_hold(hub, name, more.get("revision")):
                    return hub.upload_folder(repo_id=name, folder_path=Path(folder), **more)
            except Exception as error:  # the client's errors have no common class, and differ by its version
                raise ContractError(
                    f"{repo_id}: not uploaded ({first_line(error)}); save the companion in a folder (save_pretrained), "
                    "and push it where the Hub is reached, logged in by `hf auth login`"
                ) from error
        raise ContractError(f"{repo_id}: the repository holds something else than a companion; name another")

    def summary(self) -> str:
        """The quality on held-out questions, beside that of baselines on the same responses."""
        return self.config.summary(self.alone and self.alone.config)

    def __repr__(self) -> str:
        config = self.config
        read = "".join(f"\n  {note}" for note in config.notes)
        return f"Companion of {config.base_model.name} ({config.architecture}){read}\n\n{self.summary()}"

    def _repr_html_(self) -> str:
        """What a notebook shows: the card's numbers on held-out questions, and a reliability diagram."""
        from cocal.confidence.evaluation import html

        return html(self.config, self.summary())


def _samples_of(prompts: Sequence[Prompt] | Prompt, responses: Sequence[Response] | Response) -> list[Sample]:
    """One sample for each pair of prompt and response; a single prompt belongs to all responses."""
    prompts, responses = _listed(prompts), _listed(responses)
    if len(prompts) == 1:
        prompts = prompts * len(responses)
    if len(prompts) != len(responses):
        raise ContractError(f"{len(prompts)} prompts but {len(responses)} responses; give one prompt for each")
    return [_sample(f"response {k}", *pair) for k, pair in enumerate(zip(prompts, responses, strict=True))]


def _listed(given: Any) -> list:
    """Texts, chats or lists of ids as a list, even if only one is given; a matrix of ids becomes a list of its rows."""
    given = _ids_within(given)
    given = given.tolist() if hasattr(given, "tolist") else given  # of NumPy, pandas, or PyTorch on any device
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise ContractError(f"{given!r} is neither a text nor a chat nor token ids; give one of these")
    given = [_ids_within(value) for value in given]
    return [given] if given and isinstance(given[0], Mapping | int | np.integer) else given


def _ids_within(given: Any) -> Any:
    """The `input_ids` in the output of a tokenizer; anything else is returned unchanged."""
    return given["input_ids"] if isinstance(given, Mapping) and "input_ids" in given else given


def _sample(where: str, prompt: Any, response: Any) -> Sample:
    values, names = {}, {}
    for what, given in (("prompt", prompt), ("response", response)):
        value = given.tolist() if hasattr(given, "tolist") else given
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
            (value,) = value  # a batch of one
        if isinstance(value, str) and not (value.strip() or (value and what == "response")):
            raise ContractError(f"{where}: the {what} is empty")
        chat = isinstance(value, Sequence) and value and isinstance(value[0], Mapping)
        field = what if isinstance(value, str) or chat else f"{what}_ids"
        values[field], names[field] = value, what
    return Sample.read(where, names, **values)
