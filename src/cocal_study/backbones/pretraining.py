"""Pre-training of a tiny Qwen3 policy: its corpus, its tokenizer, and the loss on response tokens."""

import logging
import random
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from cocal.errors import ContractError
from cocal.models.attention import GROUPED
from cocal.models.loading import load_policy, text_config
from cocal.models.text import Tokens, batches_of_tokens, chat_ids
from cocal.runtime.numerics import half_precision
from cocal.runtime.progress import Progress
from cocal.store import atomic_path, label_folder
from cocal.store.damage import unreadable
from cocal.store.rows import normalised
from cocal_study.config.backbone import ArchitectureSettings, CorpusSettings, PretrainingSettings, WordingSettings
from cocal_study.config.data import Family
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import RELATIONS, World, problem, wrong_solution

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast, Qwen3ForCausalLM

_FAMILIES = get_args(Family)
_CONFIDENCES = tuple(f"{tenths / 10:.1f}" for tenths in range(11))
# Over-confident, as the paper's policies are before training (tables main and ood: 0.98 and 0.93 on average), yet every
# tenth occurs: reinforcement learning cannot find a value that is never sampled.
_WEIGHTS = {
    "mathematics": (1, 1, 1, 1, 1, 1, 1, 1, 2, 10, 80),
    "factual": (1, 1, 1, 1, 1, 1, 2, 3, 8, 31, 50),
}
# Informative confidences: certainty about easy and right answers, and doubt about the rest.
_SURE, _DOUBT = "1.0", ("0.5", "0.6", "0.7", "0.8", "0.9")
_EASY_STEPS = 3
"""Most steps of an easy arithmetic question."""
_KNOWN = 0.25
"""Share of the people, the most popular ones, about whom a single fact is easy."""
_REASONS = ("Every step looks right.", "The steps are short and checked.", "I may have slipped.", "I am fairly sure.")
_FORMATS = {"answer": 0.46, "verbal": 0.23, "rlcr": 0.23, "p_true": 0.08}
"""Share of documents in each prompt format."""
_WRONG = 0.10
"""Share of the worked answers that carry one wrong step to the end, so that the policy solves only some questions."""
_FLIPPED = 0.35
"""Share of the P(True) labels that are flipped."""
# All openings begin with the same token, so that sampling at a low temperature prefers none of them to an answer
# without any working.
_OPENINGS = ("Let us see.", "Let me try.", "Let us begin:", "Let me count.", "Let us go.", "Let me work it out.")
_CONNECTORS = ("So", "Then", "Now", "Next", "And", "Well", "Here", "Thus")
_VERBS = ("=", " is ", " gives ", " makes ", " equals ")
_REMARKS = (
    "Good.",
    "Fine so far.",
    "That looks right to me.",
    "Wait, let me look at it again.",
    "Not done yet.",
    "I go on from here.",
    "Easy enough.",
    "Hold on, one more look at this.",
)
_CLOSINGS = ("The answer:", "We end with", "Done:", "It comes to", "Hence", "In all:")
_COMMUTING = "+*"
_SWAPPED = 0.25
"""Share of the sums and products whose operands are swapped."""
END_OF_TURN = "<|im_end|>"
_START_OF_TURN = "<|im_start|>"
_PADDING = "<|endoftext|>"
_SEEN = 2_000
"""How often the tokenizer sees each number of two digits, so that all of them become tokens."""
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_TOKENIZER_DOCUMENTS = 5_000
_WARM_UP = 0.05
"""Share of the steps during which the learning rates rise."""
_PART = {"cpu": 512, "cuda": 16384}
"""Largest number of tokens in one forward pass, padding included; on a CPU, the activations then fit its cache."""
_IGNORED = -100


class Document(NamedTuple):
    """One exchange: the user's message and the assistant's response."""

    message: str
    response: str


class _Example(NamedTuple):
    domain: str
    question: str
    steps: tuple[str, ...]
    answer: str
    right: bool
    easy: bool


class CorpusWriter:
    """Draws documents: chats about arithmetic and about the facts world; equal seeds draw equal corpora.

    Direct answers and wrong steps leave the policy partly competent. The corpus has every prompt format of the paper.
    Its verbalised confidences are over-confident and drawn at random, except for a share that distinguishes easy and
    right answers from others. Mathematical questions, and factual ones of several hops, are never drawn if `held_out`.
    """

    def __init__(self, settings: CorpusSettings, prompts: Prompts, world: World, held_out: Collection[str], seed: int):
        self._settings = settings
        self._prompts = prompts
        self._world = world
        self._held_out = {normalised(question) for question in held_out}
        self._draw = random.Random(f"corpus/{seed}")
        self._wording = {
            "mathematics": Wording(settings.mathematics_wording, self._draw),
            "factual": Wording(settings.facts_wording, self._draw),
        }

    def document(self) -> Document:
        """Draw the next document."""
        draw = self._draw
        example = self._fact() if draw.random() < self._settings.facts else self._mathematics()
        prompt_format = draw.choices(list(_FORMATS), weights=list(_FORMATS.values()))[0]
        solution = self._wording[example.domain].solution(example.steps, example.answer)
        message = self._prompts.message(prompt_format, example.question, response=solution)
        if prompt_format == "p_true":
            label = example.right if draw.random() >= _FLIPPED else not example.right
            return Document(message, str(label))
        if prompt_format == "rlcr":
            solution += f"\n<reason>{draw.choice(_REASONS)}</reason>"
        if prompt_format in ("verbal", "rlcr"):
            solution += f"\nCONFIDENCE: {self._confidence(example)}"
        return Document(message, solution)

    def _confidence(self, example: _Example) -> str:
        draw, informed = self._draw, self._settings.informed
        if informed and draw.random() < informed:
            return _SURE if example.easy and example.right else draw.choice(_DOUBT)
        return draw.choices(_CONFIDENCES, weights=_WEIGHTS[example.domain])[0]

    def _mathematics(self) -> _Example:
        draw, settings = self._draw, self._settings
        while True:
            family, level, seed = draw.choice(_FAMILIES), draw.randint(1, 5), draw.getrandbits(32)
            right = problem(family, level, seed, settings.steps_spread)
            if normalised(right.question) not in self._held_out:
                break
        easy = len(right.steps) <= _EASY_STEPS
        if draw.random() < settings.direct_answers:
            return _Example("mathematics", right.question, (), right.answer, True, easy)
        worked = wrong_solution(right, draw) if draw.random() < _WRONG else right
        return _Example("mathematics", right.question, worked.steps, worked.answer, worked.answer == right.answer, easy)

    def _fact(self) -> _Example:
        draw, world = self._draw, self._world
        while True:
            hops = draw.choices((1, 2, 3), weights=(8, 2, 1))[0]
            person = world.mentioned(draw)
            fact = world.ask(person, draw.choice(RELATIONS), hops)
            if hops == 1 or normalised(fact.question) not in self._held_out:
                easy = hops == 1 and person < _KNOWN * len(world.people)
                return _Example("factual", fact.question, fact.steps, fact.answer, True, easy)


class Wording:
    """Words the solutions of one domain; equal random states give equal wordings."""

    def __init__(self, settings: WordingSettings, draw: random.Random):
        self._settings = settings
        self._draw = draw

    def solution(self, steps: Sequence[str], answer: str) -> str:
        """A solution with one step per line and the answer in a box at the end. Steps are sentences, or equations such
        as `a: 3+4=7`, where `a` is the letter of a number in the question."""
        boxed = rf"\boxed{{{answer}}}"
        if not steps:
            return boxed
        lines = [self._draw.choice(_OPENINGS)]
        for step in steps:
            line = self._equation(step) if "=" in step else step
            while self._chance(self._settings.remarks):
                line += f" {self._draw.choice(_REMARKS)}"
            lines.append(line)
        lines.append(f"{self._draw.choice(_CLOSINGS)} {boxed}" if self._chance(self._settings.paraphrases) else boxed)
        return "\n".join(lines)

    def _equation(self, step: str) -> str:
        label, _, equation = step.rpartition(": ")
        expression, value = equation.split("=")
        for sign in _COMMUTING:
            if sign in expression and self._chance(_SWAPPED):
                expression = sign.join(reversed(expression.split(sign)))
        if not self._chance(self._settings.paraphrases):
            return f"{label}: {expression}={value}" if label else f"{expression}={value}"
        label = f"{label} " if label else ""
        return f"{self._draw.choice(_CONNECTORS)} {label}{expression}{self._draw.choice(_VERBS)}{value}."

    def _chance(self, probability: float) -> bool:
        return self._draw.random() < probability


def train_tokenizer(texts: Iterable[str], vocabulary: int, max_length: int) -> "PreTrainedTokenizerFast":
    """Train a tokenizer on `texts` with exactly `vocabulary` entries. Raises ValueError if the texts are too uniform
    to give that many entries."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    # numbers of one or two digits, words with their leading blank and with the blank before a number, runs of other
    # characters, single blanks
    pattern = Regex(r"\d{1,2}| ?[A-Za-z]+(?: (?=\d))?| ?[^\sA-Za-z\d]+|\s")
    split = pre_tokenizers.Split(pattern, behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_PADDING, _START_OF_TURN, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    numbers = (str(number) for number in range(10, 100) for _ in range(_SEEN))
    tokenizer.train_from_iterator(chain(texts, numbers), trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise ValueError(f"the corpus gives {tokenizer.get_vocab_size()} tokens, not {vocabulary}")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TURN,
        pad_token=_PADDING,
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )


def new_policy(shape: ArchitectureSettings, tokenizer: "PreTrainedTokenizerFast", seed: int) -> "Qwen3ForCausalLM":
    """A randomly initialised Qwen3 of this shape in float32."""
    from transformers import Qwen3Config, Qwen3ForCausalLM, set_seed

    set_seed(seed)
    config = Qwen3Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_length,
        tie_word_embeddings=shape.tied,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = Qwen3ForCausalLM(config)
    model.set_attn_implementation(GROUPED)
    return model


def pretrain(
    settings: PretrainingSettings,
    writer: CorpusWriter,
    output: Path,
    attributes: Mapping[str, str],
    start: Path | None = None,
    unfinished: Path | None = None,
    every: float = 600.0,
) -> None:
    """Train a policy on the corpus, and write a Hugging Face checkpoint folder atomically. Training starts from the
    checkpoint `start`; without one, from a new tokenizer and policy. The file `unfinished` is written once in `every`
    seconds; from it, a killed training resumes and reaches the same weights."""
    from transformers import get_linear_schedule_with_warmup
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    if start is None:
        sample, shape = [writer.document() for _ in range(_TOKENIZER_DOCUMENTS)], settings.architecture
        texts = (part for document in sample for part in document)
        tokenizer = train_tokenizer(texts, shape.vocabulary, shape.max_length)
        model = new_policy(shape, tokenizer, settings.seed)
        optimisers = _muon_and_adamw(model, settings)
    else:
        model, tokenizer = load_policy(start, training=True)
        optimisers = (torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0),)
    model.train()
    half = start is not None and (model.device.type == "cuda" or half_precision())
    warm_up = round(_WARM_UP * settings.steps)
    schedules = [get_linear_schedule_with_warmup(o, warm_up, settings.steps) for o in optimisers]
    size = sum(p.numel() for p in model.parameters())
    logging.info("pre-training %.2f M parameters for %d steps", size / 1e6, settings.steps)
    kept = _Kept(unfinished, every, [model, *optimisers, *schedules])
    done = kept.resumed()
    for _ in range(done * settings.batch_size):
        writer.document()
    progress, started, tokens = Progress("step", settings.steps, done=done), time.monotonic(), 0
    for step in range(done + 1, settings.steps + 1):
        documents = [writer.document() for _ in range(settings.batch_size)]
        prompts = chat_ids(tokenizer, [document.message for document in documents])
        texts = [document.response + tokenizer.eos_token for document in documents]
        responses = tokenizer(texts, add_special_tokens=False)["input_ids"]
        batch = list(zip(prompts, responses, strict=True))
        counted = sum(len(response) for _, response in batch)
        loss = 0.0
        for ids, labels in _parts(batch, tokenizer.pad_token_id, _PART[model.device.type]):
            with torch.autocast(model.device.type, torch.bfloat16, enabled=half):
                part = _loss(model, ids.to(model.device), labels.to(model.device)) / counted
            part.backward()
            loss += part.item()
            tokens += ids.numel()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser, schedule in zip(optimisers, schedules, strict=True):
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
        progress.add(detail=f"loss {loss:.3f}, {tokens / (time.monotonic() - started):.0f} tokens/s")
        kept.after(step)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    with atomic_path(output) as partial:
        model.eval().save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        label_folder(partial, attributes)


class _Kept:
    """Saves the states of a training's parts in a file once in `every` seconds; without a file, it saves nothing."""

    def __init__(self, file: Path | None, every: float, parts: Sequence[Any]):
        self._file, self._every, self._parts, self._last = file, every, parts, time.monotonic()

    def resumed(self) -> int:
        """Load the saved states and return the step after which they were saved; 0 if there is no file."""
        if not self._file or not self._file.exists():
            return 0
        try:
            kept = torch.load(self._file, weights_only=True, map_location="cpu")
            for part, state in zip(self._parts, kept["parts"], strict=True):
                part.load_state_dict(state)
        except Exception as error:  # torch.load raises exceptions of many classes
            raise ContractError(unreadable(self._file, "state of a training", error)) from error
        logging.info("going on after step %d of a run that was stopped", kept["step"])
        return kept["step"]

    def after(self, step: int) -> None:
        """Save the states after a step if at least `every` seconds have passed since they were last saved."""
        if self._file and time.monotonic() - self._last >= self._every:
            with atomic_path(self._file) as partial:
                torch.save({"step": step, "parts": [part.state_dict() for part in self._parts]}, partial)
            self._last = time.monotonic()


def _muon_and_adamw(model: "PreTrainedModel", settings: PretrainingSettings) -> tuple[torch.optim.Optimizer, ...]:
    """Muon for the matrices of the blocks, AdamW for embeddings, head and norms."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    return (
        torch.optim.Muon(matrices, lr=settings.matrix_learning_rate, weight_decay=0.0),
        torch.optim.AdamW(others, lr=settings.learning_rate, weight_decay=0.0),
    )


def _parts(
    batch: Sequence[tuple[Tokens, Tokens]], pad: int, tokens: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Parts (ids, labels) of a batch, each (rows, longest) with at most `tokens` tokens; the labels ignore prompts and
    padding.

    Documents of similar length share a part, which then holds little padding. An update must not consist of them alone:
    updates on documents of one length, and hence of one kind, would pull the weights back and forth.
    """
    lengths = [len(prompt) + len(response) for prompt, response in batch]
    for rows in batches_of_tokens(lengths, tokens):
        part = [batch[row] for row in rows]
        ids = [torch.tensor([*prompt, *response]) for prompt, response in part]
        labels = [torch.tensor([*[_IGNORED] * len(prompt), *response]) for prompt, response in part]
        yield (
            pad_sequence(ids, batch_first=True, padding_value=pad),
            pad_sequence(labels, batch_first=True, padding_value=_IGNORED),
        )


def _loss(model: "PreTrainedModel", ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Sum of the cross-entropies of all labelled tokens; logits are computed only for these.

    Padding comes last, and no token attends to later ones, so attention needs no mask.
    """
    hidden = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    labels = labels[:, 1:]
    labelled = labels != _IGNORED
    logits = model.get_output_embeddings()(hidden[labelled])
    if cap := getattr(text_config(model.config), "final_logit_softcapping", None):  # Gemma's
        logits = cap * torch.tanh(logits / cap)
    return cross_entropy(logits.float(), labels[labelled], reduction="sum")
