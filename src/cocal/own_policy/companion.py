"""`Companion`: fitted companions in one object that scores responses, and is saved in the Hub's convention."""

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from cocal.companion.companions import Companions, load_companions
from cocal.companion.settings import CompanionSettings, Target
from cocal.errors import ContractError, first_line
from cocal.features.store import NumberFormat
from cocal.models.loading import Policy, Vocabulary, evaluating
from cocal.own_policy import saved
from cocal.own_policy.given import Prompt, Response, samples_of
from cocal.own_policy.saved import About, BaseModelFacts
from cocal.own_policy.states import ROWS, Encoded, Encoder, confidences, states_of
from cocal.runtime.machine import best_device

if TYPE_CHECKING:
    import pandas as pd
    from huggingface_hub import ModelCard
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


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
            model: The policy, or the checkpoint that ended its training; each of its parts is afterwards in the mode
                in which it was (`train()` or `eval()`).
            tokenizer: Its tokenizer. Without a chat template, prompts are plain text.
            rollouts: Folder or files of rollouts, as `cocal fit --rollouts` takes them; or a table with the columns
                prompt (or messages, or prompt_ids), response (or response_ids), correct (or reward), and optionally
                step, group, question_id and truncated, in the order of training.
            settings: Architecture and training of the recipe paper; see there.
            options: Further arguments of `cocal.own_policy.fitting.fit`.

        Raises:
            ContractError: if the rollouts are not usable; the message names file, row and remedy.
        """
        from cocal.own_policy.fitting import fit  # needs what only training does, such as pyarrow

        with evaluating(model):
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
        spec, width = companions.spec, len(companions.spec.poolings) * base.hidden
        if spec.inputs != width:
            raise ContractError(
                f"{base.name}: its states have width {base.hidden}, {width} with {' and '.join(spec.poolings)}, but "
                f"the companions read {spec.inputs}; give the model that they were fitted for"
            )
        notes = (f"companions of a study ({Path(folder).name})",)
        return cls(companions, About(spec=spec, states=states, base_model=base, notes=notes))

    @property
    def members(self) -> list[tuple[Target, int]]:
        """Target and seed of each member."""
        return self.companions.members

    def identity(self) -> str:
        """Digest of the weights and of what the companion reads."""
        unread = {"held_out", "held_out_all_steps", "held_out_uncut", "held_out_cut", "rollouts"}
        unread |= {"notes", "license", "recipe", "cut", "tried", "course"}
        found = hashlib.sha256(self.about.model_dump_json(exclude=unread).encode())
        for name, tensor in sorted(self.companions.model.state_dict().items()):
            found.update(name.encode() + tensor.cpu().numpy().tobytes())
        return found.hexdigest()

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

        Given ids are used unchanged. The confidences are then those that a study stores for the same responses, to the
        last bit for the same set in the same order, since both decide which responses share a batch, if the model is
        loaded as there (`cocal.models.loading.load_policy`). Texts are tokenised, with the template for prompts and an
        end token after responses.

        Args:
            model: The language model, whose parts are in evaluation mode for the passes, and then as before.
            tokenizer: Its tokenizer.
            prompts: n prompts, or one that all responses answer; see `Prompt`. A tensor of ids has a row for each.
            responses: n responses, or one; see `Response`.
            target: Target of the members, "binary" or "group"; by default binary if it was fitted.
            seed: Seed of the member; by default the mean over all seeds.
            batch_tokens: Largest number of tokens in one forward pass, padding included.
            every: Number of tokens after each of which the confidence in a response so far is wanted, too.

        Returns:
            float64 (n,) in [0, 1]. With `every`, also the course of each response, float64 (k,): its confidences after
            every so many tokens before its last one.

        Raises:
            ConfigError: if there is no such target or seed, or `every` is given to a companion of whole responses.
            ContractError: if the model is another one, or a prompt or response is empty, has an unknown id, or is
                longer than the model reads.
        """
        samples, found, courses = samples_of(prompts, responses), [np.empty(0)], []
        with evaluating(model):
            policy = Policy(model, tokenizer)
            encoder = self.encoder(policy)
            for start in range(0, len(samples), ROWS):
                rows, chosen = encoder.encode(samples[start : start + ROWS]), {"target": target, "seed": seed}
                whole, grown = self.score_encoded(policy, rows, batch_tokens=batch_tokens, every=every, **chosen)
                found.append(whole)
                courses += grown
        return (np.concatenate(found), courses) if every else np.concatenate(found)

    def encoder(self, policy: Policy | Vocabulary, max_response_length: int | None = None) -> Encoder:
        """The encoder that turns prompts and responses into the token ids of a policy.

        Args:
            policy: The language model, or what of it needs no weights.
            max_response_length: Tokens from which on a response counts as cut, where it does not say so itself; by
                default those of the fit.

        Raises:
            ContractError: if the policy is another one than the companion's.
        """
        about = self.about
        if isinstance(policy, Policy):
            about.base_model.check(BaseModelFacts.of(policy.model.config))
        limit = max_response_length or about.max_response_length
        return Encoder(policy, template=about.template, thinking=about.thinking, max_response_length=limit)

    def score_encoded(
        self,
        policy: Policy,
        rows: Sequence[Encoded],
        *,
        target: Target | None = None,
        seed: int | None = None,
        batch_tokens: int = 16384,
        every: int | None = None,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Score at most `ROWS` responses whose ids are known: float64 (n,), and courses if `every` is given; see
        `score`."""
        courses = [np.empty(0)] * len(rows) if every else []
        if every:
            self.about.check_prefixes()

        def take(row: int, inputs: np.ndarray) -> None:
            courses[row] = self.score_states(inputs, target=target, seed=seed)

        inputs = states_of(policy, self.about, rows, batch_tokens, every, take)
        return self.score_states(inputs, target=target, seed=seed), courses

    def score_states(self, states: np.ndarray, *, target: Target | None = None, seed: int | None = None) -> np.ndarray:
        """Score hidden states that were computed elsewhere.

        Args:
            states: float32 (n, inputs), the states of the layer and poolings in `about.spec`, concatenated, and
                behind them token probabilities if `about.token_probability` (`cocal.features.extract`).
            target, seed: See `score`.

        Returns:
            float64 (n,) in [0, 1].

        Raises:
            ConfigError: if there is no such target or seed.
            ContractError: if the states have another width.
        """
        return confidences(self.companions, self.about, states, target, seed)

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
        return cls(*saved.read(str(pretrained_model_name_or_path), options))

    def save_pretrained(self, save_directory: str | Path) -> None:
        """Save weights, settings and model card in a folder, which is made if need be, in the Hub's convention.

        The settings carry the digest of the weights and a seal over themselves, which are compared on loading.

        Raises:
            ContractError: if the folder holds such files of something else than a companion.
        """
        saved.write(Path(save_directory), self.companions, self.about)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, **more: Any) -> str:
        """Upload the companion to the Hub, in one commit to a repository that is made if need be.

        Args:
            repo_id: Name on the Hub (`owner/name`).
            private: Whether a new repository is private; by default as the owner's settings say.
            token: Token of the account; by default the one of `hf auth login`.
            more: Further arguments of `huggingface_hub.HfApi.upload_folder`, such as commit_message or revision.

        Returns:
            Address of the commit.

        Raises:
            ContractError: if the Hub is not reached, or refuses.
        """
        from huggingface_hub import HfApi

        hub = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            try:
                name = hub.create_repo(repo_id=repo_id, private=private, exist_ok=True).repo_id
                return hub.upload_folder(repo_id=name, folder_path=Path(folder), **more)
            except Exception as error:  # the client's errors have no common class, and differ by its version
                raise ContractError(
                    f"{repo_id}: not uploaded ({first_line(error)}); save the companion in a folder (save_pretrained), "
                    "and push it where the Hub is reached, logged in by `hf auth login`"
                ) from error

    def __repr__(self) -> str:
        return f"Companion of {self.about.base_model.name} ({self.about.architecture}). {self.about.in_words()}"

    def _repr_html_(self) -> str:
        """What a notebook shows: the card's numbers on held-out questions, and a reliability diagram."""
        from cocal.own_policy.shown import html

        return html(self.about)

    def generate_model_card(self) -> "ModelCard":
        """The model card: base model, training, measured quality, limits."""
        from huggingface_hub import ModelCard

        return ModelCard(self.about.card())
