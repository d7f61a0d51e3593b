"""`Companion`: fitted companions in one object that scores responses, and is saved in the Hub's convention."""

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cocal.companion.companions import Companions, load_companions, with_weights
from cocal.config.evaluation import CompanionSettings, Target
from cocal.errors import ConfigError, ContractError
from cocal.features.extract import pooled_states
from cocal.features.formats import NumberFormat, decoded, encoded
from cocal.features.store import Layout
from cocal.integrations.sample import Sample
from cocal.models.loading import Policy
from cocal.own_policy.about import About, BaseModelFacts
from cocal.own_policy.encoding import Encoded, Encoder
from cocal.runtime.machine import best_device
from cocal.store import read_document, read_provenance, write_document
from cocal.store.atomic import atomic_path, usual_mode, write_text
from cocal.store.damage import remedy, unreadable
from cocal.store.provenance import file_digest
from cocal.store.rows import reading
from cocal.store.seal import stated_seal

if TYPE_CHECKING:
    import pandas as pd
    from huggingface_hub import ModelCard
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
"""Files of a saved companion."""
_DIGEST = "weights"
"""Name of the attribute of the settings' provenance that holds the SHA-256 of the weights' file."""
BLOCK = 2048
"""Number of responses whose states are computed together, as `cocal features` does."""
ROWS = 4096
"""Number of responses that are scored together, as `cocal predictions` does; a multiple of `BLOCK`. With the same
numbers the same responses get the same confidences, to the last bit."""

Prompt = str | Sequence[Mapping[str, str]] | Sequence[int] | np.ndarray
"""A prompt: the message of a user, a chat (messages with role and content), or exact token ids."""
Response = str | Sequence[int] | np.ndarray
"""A response: its text, or its exact token ids with the end token."""


class Companion:
    """A companion: it tells how likely answers of a language model are correct, from the model's hidden states.

    It holds one member for each target and seed that was fitted. A confidence is the mean over the seeds of one
    target, or that of one seed. The paper averages metrics over seeds instead; the mean of confidences is what one
    would use, and its quality is what the model card states.

    Args:
        companions: Fitted members.
        about: What they were fitted on, and for which model.
    """

    def __init__(self, companions: Companions, about: About):
        self.companions = companions.to(best_device())
        self.about = about

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
        """Fit a companion on rollouts; see `cocal.own_policy.fitting.fit`.

        Args:
            model: The policy, or the checkpoint that ended its training.
            tokenizer: Its tokenizer. Without a chat template, prompts are plain text.
            rollouts: Folder or files of rollouts, as `cocal fit --rollouts` takes them; or a table with the columns
                prompt (or messages, or prompt_ids), response (or response_ids), correct (or reward), and optionally
                step, group, question_id and truncated, in the order of training.
            settings: Architecture and training; by default the paper's, for the binary target.
            options: Further arguments of `cocal.own_policy.fitting.fit`.

        Raises:
            ContractError: if the rollouts are not usable; the message names file, row and remedy.
        """
        from cocal.own_policy.fitting import fit

        return cls(*fit(model, tokenizer, rollouts, settings=settings, **options))

    @classmethod
    def from_study(cls, folder: str | Path, model: "PreTrainedModel", states: NumberFormat) -> Self:
        """The companions that a study has fitted, such as those of results/companions.

        Args:
            folder: Output folder of `cocal companions`.
            model: The policy.
            states: `features.dtype` of the study.

        Raises:
            ContractError: if the folder holds no companions, or they read states of another width.
        """
        companions = load_companions(folder)
        base = BaseModelFacts.of(model.config)
        _check_width(companions, base)
        notes = (f"companions of a study ({Path(folder).name})",)
        return cls(companions, About(spec=companions.spec, states=states, base_model=base, notes=notes))

    @property
    def members(self) -> list[tuple[Target, int]]:
        """Target and seed of each member."""
        return self.companions.members

    def identity(self) -> str:
        """Digest of the weights and of what the companion reads."""
        unread = {"held_out", "held_out_all_steps", "rollouts", "notes"}
        found = hashlib.sha256(self.about.model_dump_json(exclude=unread).encode())
        for name, tensor in sorted(self.companions.model.state_dict().items()):
            found.update(name.encode() + tensor.cpu().numpy().tobytes())
        return found.hexdigest()

    @property
    def default_target(self) -> Target:
        """The target that is scored where none is named: binary, if it was fitted."""
        targets = self.about.spec.settings.targets
        return "binary" if "binary" in targets else targets[0]

    def score(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        prompts: Sequence[Prompt],
        responses: Sequence[Response],
        *,
        target: Target | None = None,
        seed: int | None = None,
        batch_tokens: int = 16384,
    ) -> np.ndarray:
        """Score responses by one teacher-forced pass over their token ids.

        Given ids are used unchanged, and the confidences are then those that a study stores for the same responses, to
        the last bit, if the model is loaded as there (`cocal.models.loading.load_policy`). Texts are tokenised,
        with the template for prompts and an end token after responses.

        Args:
            model: The language model.
            tokenizer: Its tokenizer.
            prompts: n prompts; see `Prompt`.
            responses: n responses; see `Response`.
            target: Target of the members, "binary" or "group"; by default binary if it was fitted.
            seed: Seed of the member; by default the mean over all seeds.
            batch_tokens: Largest number of tokens in one forward pass, padding included.

        Returns:
            float64 (n,) in [0, 1].

        Raises:
            ConfigError: if there is no such target or seed.
            ContractError: if the model is another one, or a prompt or response is empty or has an unknown id.
        """
        if len(prompts) != len(responses):
            raise ContractError(f"{len(prompts)} prompts but {len(responses)} responses; give one prompt for each")
        policy = Policy(model.eval(), tokenizer)
        encoder = self.encoder(policy)
        samples = [_sample(f"response {k}", *pair) for k, pair in enumerate(zip(prompts, responses, strict=True))]
        found = [np.empty(0)]
        for start in range(0, len(samples), ROWS):
            rows = encoder.encode(samples[start : start + ROWS])
            found.append(self.score_encoded(policy, rows, target=target, seed=seed, batch_tokens=batch_tokens))
        return np.concatenate(found)

    def encoder(self, policy: Policy, max_response_length: int | None = None) -> Encoder:
        """What turns prompts and responses into the token ids of a policy.

        Args:
            policy: The language model.
            max_response_length: Tokens from which on a response counts as cut, where it does not say so itself; by
                default those of the fit.

        Raises:
            ContractError: if the policy is another one than the companion's.
        """
        self.about.base_model.check(BaseModelFacts.of(policy.model.config))
        about = self.about
        return Encoder(
            policy.tokenizer,
            policy.vocabulary,
            policy.ends,
            template=about.template,
            thinking=about.thinking,
            max_response_length=max_response_length or about.max_response_length,
        )

    def score_encoded(
        self,
        policy: Policy,
        rows: Sequence[Encoded],
        *,
        target: Target | None = None,
        seed: int | None = None,
        batch_tokens: int = 16384,
    ) -> np.ndarray:
        """Score at most `ROWS` responses whose ids are known, float64 (n,); see `score`."""
        states = [
            states_of(policy, self.about, rows[start : start + BLOCK], batch_tokens)
            for start in range(0, len(rows), BLOCK)
        ]
        return self.score_states(np.concatenate(states), target=target, seed=seed)

    def score_states(self, states: np.ndarray, *, target: Target | None = None, seed: int | None = None) -> np.ndarray:
        """Score hidden states that were computed elsewhere.

        Args:
            states: float32 (n, inputs), the states of the layer and poolings in `about.spec`, concatenated.
            target: See `score`.
            seed: See `score`.

        Returns:
            float64 (n,) in [0, 1].

        Raises:
            ConfigError: if there is no such target or seed.
            ContractError: if the states have another width.
        """
        chosen = self._chosen(target, seed)
        states = np.ascontiguousarray(states, dtype=np.float32)
        rounded = decoded(encoded(states, self.about.states), self.about.states)
        parts = [self.companions.predict(rounded[k : k + ROWS])[chosen] for k in range(0, len(rounded), ROWS)]
        return np.concatenate([np.empty((len(chosen), 0)), *parts], axis=1).mean(axis=0)

    def _chosen(self, target: Target | None, seed: int | None) -> list[int]:
        """Places of the members of a target, or of one seed of it."""
        targets, seeds = self.about.spec.settings.targets, self.about.spec.settings.seeds
        target = target or self.default_target
        if target not in targets:
            raise ConfigError(f"the companion has no target {target!r}; it was fitted for {', '.join(targets)}")
        if seed is not None and seed not in seeds:
            raise ConfigError(f"the companion has no seed {seed}; it has {', '.join(map(str, seeds))}")
        return [k for k, member in enumerate(self.members) if member[0] == target and seed in (None, member[1])]

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a companion from a folder, or from the Hub by its name (`owner/name`).

        Args:
            pretrained_model_name_or_path: Folder or name.
            options: Those of `huggingface_hub.hf_hub_download`, such as `revision` and `local_files_only`.

        Raises:
            ContractError: if there is no such companion, or a file is missing, has changed since it was saved, or is
                not a companion's.
        """
        from huggingface_hub import errors, hf_hub_download

        name, folder = str(pretrained_model_name_or_path), Path(pretrained_model_name_or_path)
        try:
            files = {
                file: folder / file if folder.is_dir() else Path(hf_hub_download(name, file, **options))
                for file in (CONFIG, WEIGHTS)
            }
        except errors.HFValidationError:
            reason = "there is no such folder, and it is no name on the Hub (owner/name)"
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
            reason = f"neither a folder nor a companion that the Hub gives ({str(error).strip().splitlines()[0]})"
        else:
            return cls._of_files(name, files)
        raise ContractError(f"{name}: {reason}; make one by `cocal fit`, or check the name")

    @classmethod
    def _of_files(cls, name: str, files: Mapping[str, Path]) -> Self:
        """Read and check the files of a saved companion."""
        for file in files.values():
            if not file.exists():
                raise ContractError(f"{file}: the file is missing; is {name} a companion's folder (cocal fit)?")
        content = read_document(files[CONFIG], maker="`cocal fit`")
        _check_digests(files[CONFIG], files[WEIGHTS])
        try:
            about = About.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "content"
            raise ContractError(f"{files[CONFIG]}: not a companion's settings ({place}: {first['msg']})") from None
        try:
            weights = load_file(files[WEIGHTS])
        except (SafetensorError, OSError) as error:
            raise ContractError(unreadable(files[WEIGHTS], "safetensors file", error)) from None
        return cls(with_weights(about.spec, weights, files[WEIGHTS]), about)

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save weights, settings and model card in a folder, which is made if need be, in the Hub's convention.

        The settings carry the digest of the weights and a seal over themselves, which are compared on loading.

        Raises:
            ContractError: if the folder holds such files of something else than a companion.
        """
        folder = Path(save_directory)
        found = [name for name in (CONFIG, WEIGHTS, CARD) if (folder / name).exists()]
        if found and not is_companion(folder):
            raise ContractError(f"{folder}: its {found[0]} is not a companion's; save in a folder of its own")
        with atomic_path(folder / WEIGHTS) as partial:
            weights = {name: tensor.cpu().contiguous() for name, tensor in self.companions.model.state_dict().items()}
            save_file(weights, partial, {"format": "pt"})
            usual_mode(partial)
        written = {_DIGEST: file_digest(folder / WEIGHTS)}
        write_document(folder / CONFIG, self.about.model_dump(mode="json"), written)
        write_text(folder / CARD, str(self.generate_model_card()))

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, **more: Any) -> str:
        """Upload the companion to the Hub, in one commit to a repository that is made if need be.

        Args:
            repo_id: Name on the Hub (`owner/name`).
            private: Whether a new repository is private; by default as the owner's settings say.
            token: Token of the account; by default the one of `hf auth login`.
            more: Further arguments of `huggingface_hub.HfApi.upload_folder`, such as commit_message or revision.

        Returns:
            Address of the commit.
        """
        from huggingface_hub import HfApi

        hub = HfApi(token=token)
        name = hub.create_repo(repo_id=repo_id, private=private, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return hub.upload_folder(repo_id=name, folder_path=Path(folder), **more)

    def generate_model_card(self) -> "ModelCard":
        """The model card: base model, training, measured quality, limits."""
        from huggingface_hub import ModelCard

        return ModelCard(self.about.card())


def is_companion(folder: Path) -> bool:
    """Whether a folder says that it is a saved companion."""
    try:
        found = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("model_type") == About.model_fields["model_type"].default


def states_of(policy: Policy, about: About, rows: Sequence[Encoded], batch_tokens: int) -> np.ndarray:
    """Pooled states of responses, float32 (n, inputs), from one teacher-forced pass."""
    spec = about.spec
    layout = Layout(len(rows), (spec.layer,), spec.poolings, policy.hidden, len(rows), about.states)
    found = pooled_states(policy, layout, [row.prompt for row in rows], [row.response for row in rows], batch_tokens)
    return found.reshape(len(rows), -1)


def _sample(where: str, prompt: Prompt, response: Response) -> Sample:
    """A prompt and a response of `Companion.score` as they would stand in a file."""
    chat = isinstance(prompt, Sequence) and not isinstance(prompt, str) and prompt and isinstance(prompt[0], Mapping)
    if isinstance(prompt, str) and not prompt.strip():
        raise ContractError(f"{where}: the prompt is empty")
    if isinstance(response, str) and not response:
        raise ContractError(f"{where}: the response is empty")
    of_prompt = "prompt" if isinstance(prompt, str) else "messages" if chat else "prompt_ids"
    of_response = "text" if isinstance(response, str) else "response_ids"
    with reading(where, {of_prompt: "prompt", of_response: "response"}):
        return Sample(where, None, **{of_prompt: prompt, of_response: response})


def _check_digests(config: Path, weights: Path) -> None:
    """Compare the weights with the digest that the settings state; companions of older versions state none.

    Raises:
        ContractError: if the weights, or the settings' own seal, have changed since they were saved.
    """
    written = read_provenance(config).get(_DIGEST)
    if written is None:
        logging.warning("%s: an older companion without digests, so damage would go unnoticed; save it again", config)
    elif stated_seal(config) is None:
        raise ContractError(
            f"{config}: the file has changed since it was saved (it has lost its seal); {remedy(config)}"
        )
    elif file_digest(weights) != written:
        raise ContractError(
            f"{weights}: the file has changed since it was saved (its digest is not the one in {CONFIG}); "
            f"{remedy(weights)}"
        )


def _check_width(companions: Companions, base: BaseModelFacts) -> None:
    width = len(companions.spec.poolings) * base.hidden
    if companions.spec.inputs != width:
        raise ContractError(
            f"{base.name}: its states have width {base.hidden}, {width} with {' and '.join(companions.spec.poolings)}, "
            f"but the companions read {companions.spec.inputs}; give the model that they were fitted for"
        )
