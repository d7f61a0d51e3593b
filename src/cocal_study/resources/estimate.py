"""The needs of each rule's jobs, and an estimate of a study's GPU-hours and storage from stated paces and from the
shapes of its models."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from cocal.settings.base import Algorithm
from cocal_study.config.backbone import BackboneSettings, DecoderSettings, PretrainingSettings
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.planning import plan

HALF, SINGLE = 2, 4
"""Bytes of a number in half and in single precision."""
OnGpu = Literal["update", "engine", "engine and policy", "policy", "companions"]
"""What a job holds on its GPUs: a training with its moments and its engine, an engine that samples, a policy beside it,
a policy that reads responses, companions (`cocal_study.resources.memory`)."""


class Needs(NamedTuple):
    """The seconds of a rule's job, where it takes about as long in every study (others are estimated), and what it
    holds on its GPUs (None without any)."""

    seconds: float | None = None
    on_gpu: OnGpu | None = None


RULES: dict[str, Needs] = {
    "sources": Needs(60),
    "questions": Needs(2),
    "overlap": Needs(2),
    "backbone": Needs(),
    "existing_backbone": Needs(60),
    "train_": Needs(on_gpu="update"),
    "import_": Needs(60),
    "resample": Needs(on_gpu="engine and policy"),
    "judge_checkpoint": Needs(600),
    "responses": Needs(on_gpu="engine"),
    "features": Needs(on_gpu="policy"),
    "replay": Needs(on_gpu="policy"),
    "companions": Needs(on_gpu="companions"),
    "online": Needs(20, "companions"),
    "predictions": Needs(4),
    "recalibrate": Needs(10),
    "latency": Needs(60, "engine and policy"),
    "metrics": Needs(4),
    "checks": Needs(3),
    "table_": Needs(2),
    "landing": Needs(2),
    "figure_": Needs(4),
    "all": Needs(0),
}
"""By the rule's name. A name that ends with an underscore stands for all rules that begin with it, and any other also
for its variants, as `responses` for `factual_responses`."""


def rule_of(name: str) -> str | None:
    """The name under which `RULES` has a rule of the workflow; None if it does not."""
    families = [key for key in RULES if key.endswith("_") and f"{name}_".startswith(key)]
    variants = [key for key in RULES if name.endswith(f"_{key}")]
    return next((key for key in (name, *families, *variants) if key in RULES), None)


def on_gpu(names: Iterable[str]) -> set[OnGpu]:
    """What the jobs of these rules hold on GPUs."""
    return {held for name in names if (key := rule_of(name)) and (held := RULES[key].on_gpu)}


class Pace(NamedTuple):
    """What one device does in a second, and how long texts are. The defaults are for a B200 and give the higher hours;
    nobody has measured them."""

    bandwidth: float = 2.24e12
    """Bytes of weights and caches that sampling reads: 28 % of what the memory gives."""
    rate: float = 562.5e12
    """Floating-point operations of passes: a quarter of the peak of dense products in bfloat16."""
    step: float = 40.0
    """Seconds of a training step beside sampling and passes: the last long responses, verdicts, weights for vLLM."""
    start: float = 300.0
    """Seconds to load a checkpoint and start an engine, for every job."""
    fit: float = 15.1 / 245_760
    """Seconds to train one companion, per rollout (the paper's)."""
    sampled: float | None = None
    """Measured seconds to sample a token, per parameter, in the place of what `bandwidth` admits."""
    trained: float | None = None
    """Measured seconds of a training, per rollout and parameter, in the place of the sum of its parts."""
    training_tokens: int = 900
    """Mean length of a rollout."""
    mathematics_tokens: int = 3000
    """Mean length of an evaluation response to a mathematical question."""
    factual_tokens: int = 250
    prompt_tokens: int = 150


HIGH = Pace()
LOW = Pace(bandwidth=4.4e12, rate=900e12, step=20.0)
"""Where everything goes well."""
PAPER = Pace(sampled=14.22 * 3600 / (245_760 * 900 * 8.2e9), trained=16.67 * 3600 / (245_760 * 8.2e9))
"""With the paper's own hours (table of costs: Qwen3-8B on B200). It does not state on how many GPUs it trained."""
_TINY = Pace(rate=0.12e12, start=6.0, fit=2.3 / 15_360, sampled=1.46e-10, trained=2.34e-8, training_tokens=64)
"""Of one core and the policies of the embedded study, measured."""
_LANGUAGE_MODEL = Pace(
    rate=0.36e12,
    start=12.0,
    fit=2.3 / 5_760,
    sampled=2.11e-11,
    trained=4.18e-9,
    training_tokens=55,
    mathematics_tokens=45,
    factual_tokens=45,
    prompt_tokens=55,
)
"""Of the laptop study's model in bfloat16: trainings have two cores, other jobs one."""
_TOGETHER = 256
"""Number of responses that one GPU samples at a time, which share one reading of the weights."""
_PASSES = 10
"""Floating-point operations of the update for each parameter and token: 2 to read GRPO's states or DCPO's
log-probabilities before it, 2 forward, 2 to recompute them, and 4 backward."""
_JUDGED = 2 * 200 * 32.8e9
"""Tokens that a judge reads of each factual response, in two questions, times its number of parameters."""
_LATENCY = 1.5
"""Hours to time single responses on a GPU, most of which are sampled one after another."""


class Workload(NamedTuple):
    """One kind of work on one backbone, by the name of its rule in `RULES`, or of a variant of it.

    `hours` are those of all its `jobs`, one after the other, with their start. `gpus` of a job are 0 if the workflow
    trains the backbone from scratch. `storage` are the bytes of checkpoints, companions and states of rollouts that it
    leaves in results/, beside which tables and other states are small, and `transient` those that it needs besides
    while it runs.
    """

    rule: str
    hours: float
    gpus: int
    storage: float = 0.0
    transient: float = 0.0
    jobs: int = 1


def workloads(study: Study, pace: Pace) -> Iterator[Workload]:
    """All work that needs a GPU or much storage, by backbone. Backbones that the workflow pre-trains need no GPU and
    have paces of their own."""
    for name in study.backbones:
        estimate = _Backbone(study, name, pace)
        yield estimate.policies()
        yield from estimate.resampling()
        yield from estimate.evaluations()
        yield from estimate.companions()


class _Backbone:
    """The work on one backbone."""

    def __init__(self, study: Study, name: str, pace: Pace):
        self._study, self._name = study, name
        self._backbone = study.backbones[name]
        self._parameters = parameters_of(self._backbone)
        self._step = study.policy.questions_per_step * study.policy.responses_per_question
        self._rollouts = study.policy.steps * self._step
        self._passed = study.features.source == "pass"  # where vLLM keeps the states, nothing is read again
        self._gpus, self._pace = 1, pace
        if isinstance(self._backbone, PretrainingSettings):
            self._gpus, self._pace = 0, _LANGUAGE_MODEL if self._backbone.start else _TINY
        self._start = self._pace.start / 3600
        self._experiences = plan.experiences_of(plan.methods_of(study, name, "grpo", study.policy.steps))

    def policies(self) -> Workload:
        """Training with all algorithms: rollouts, updates, GRPO's states and the checkpoints of the stages."""
        policy = self._study.policy
        gpus, runs = policy.trl.nodes * policy.trl.devices, len(policy.algorithms)
        hours = sum(self._training_hours(name, gpus) + self._start for name in policy.algorithms)
        stored = HALF * self._parameters * (1 + runs * len(policy.stages))
        stored += self._state_bytes(len(plan.layers_of(self._study, self._name)))
        # two resumable checkpoints, each with float32 weights and both moments of Adam
        transient = 2 * runs * self._parameters * 3 * SINGLE
        return Workload("train_", hours, self._gpus * gpus, stored, transient, runs)

    def resampling(self) -> Iterator[Workload]:
        """For PostCal, as many responses as rollouts, with the features of the final block."""
        if "resampled" in self._experiences:
            tokens = self._training_tokens("grpo")
            hours = self._decoding_hours(self._rollouts * tokens) + self._start
            hours += self._passed * self._forward_hours(self._rollouts * (tokens + self._pace.prompt_tokens))
            yield Workload("resample", hours, self._gpus, self._state_bytes(1))

    def evaluations(self) -> Iterator[Workload]:
        """Responses and features of every evaluated checkpoint, prompt format and domain; and the inference times."""
        study, pace = self._study, self._pace
        means = {"factual": pace.factual_tokens, "mathematics": pace.mathematics_tokens}
        for algorithm, step in plan.evaluated_cells(study, self._name):
            methods = [METHODS[name] for name in plan.methods_of(study, self._name, algorithm, step)]
            read = {method.prompt_format for method in methods if method.experience}
            for prompt_format in dict.fromkeys(method.prompt_format for method in methods):
                for domain in plan.domains_of(study, self._name, algorithm, step):
                    variant = "factual_" * (domain == "factual")
                    of_domain = study.evaluation_sets(domain)
                    sets = plan.response_plan(study, self._name, algorithm, step, prompt_format, of_domain).sets
                    sampled = sum((study.datasets[name].size or 0) * one.sampled for name, one in sets.items())
                    tokens = min(means[domain], max(one.max_response_length for one in sets.values()))
                    hours = self._decoding_hours(sampled * tokens) + self._start
                    if domain == "factual" and study.judge.kind == "llm":
                        hours += self._forward_hours(sampled * _JUDGED / self._parameters) + self._start
                    yield Workload(f"{variant}responses", hours, self._gpus)
                    if prompt_format in read:
                        evaluated = sum((study.datasets[name].size or 0) * one.samples for name, one in sets.items())
                        hours = self._passed * self._forward_hours(evaluated * (tokens + pace.prompt_tokens))
                        yield Workload(f"{variant}features", hours + self._start, self._gpus)
        if self._gpus and self._name == study.main_backbone and "prompts" in self._experiences:
            yield Workload("latency", _LATENCY, self._gpus)

    def companions(self) -> Iterator[Workload]:
        """Training of the companions of all prefixes, budgets, seeds and targets, and of ablations, which have one
        target. Those of prompts learn from so few rows that they are left out."""
        study, targets, seeds = self._study, len(self._study.companion.targets), len(self._study.companion.seeds)
        fits = {
            experience: [prefix.steps for prefix in plan.companion_prefixes(study, self._name, experience)] * targets
            for experience in self._experiences
            if experience != "prompts"
        }
        fits["ablations"] = [study.policy.steps] * len(plan.ablation_states(study, self._name))
        sizes = (2 * self._backbone.width, *study.companion.widths, 1)
        size = SINGLE * sum((a + 3) * b for a, b in pairwise(sizes))
        for steps in filter(None, fits.values()):
            hours = self._pace.fit * seeds * sum(steps) * self._step / 3600 + self._start
            yield Workload("companions", hours, self._gpus, size * seeds * len(steps))

    def _training_tokens(self, algorithm: Algorithm) -> int:
        return min(self._pace.training_tokens, self._study.policy.max_response_length[algorithm])

    def _training_hours(self, algorithm: Algorithm, gpus: int) -> float:
        """Hours of one training: as measured, or its sampling and its passes on all GPUs, and the rest of each step."""
        pace = self._pace
        if pace.trained is not None:
            return self._rollouts * self._parameters * pace.trained / 3600
        tokens = self._rollouts * self._training_tokens(algorithm)
        passes = self._forward_hours(tokens + self._rollouts * pace.prompt_tokens) * _PASSES / 2
        return (self._decoding_hours(tokens) + passes) / gpus + self._study.policy.steps * pace.step / 3600

    def _decoding_hours(self, tokens: float) -> float:
        pace = self._pace
        if pace.sampled is not None:
            return tokens * self._parameters * pace.sampled / 3600
        context = pace.prompt_tokens + pace.training_tokens / 2
        read = HALF * self._parameters / _TOGETHER + cache_bytes(self._backbone, context)
        return tokens * read / pace.bandwidth / 3600

    def _forward_hours(self, tokens: float) -> float:
        return 2 * self._parameters * tokens / self._pace.rate / 3600

    def _state_bytes(self, layers: int) -> float:
        """Bytes of the last and mean states of as many responses as rollouts."""
        number = HALF if self._study.features.dtype == "bfloat16" else SINGLE
        return self._rollouts * layers * 2 * self._backbone.width * number


def shape_of(backbone: BackboneSettings) -> DecoderSettings:
    """Shape of a backbone's blocks. Of a checkpoint that does not state it, about 12 x width^2 parameters per block and
    Qwen3's vocabulary are assumed."""
    if isinstance(backbone, PretrainingSettings):
        if backbone.start:
            return shape_of(backbone.start)
        return DecoderSettings(**backbone.architecture.model_dump(include=set(DecoderSettings.model_fields)))
    heads = max(1, backbone.width // 128)
    return backbone.architecture or DecoderSettings(heads=heads, intermediate_size=3 * backbone.width)


def parameters_of(backbone: BackboneSettings) -> float:
    """Number of parameters without those of the norms."""
    shape = shape_of(backbone)
    attention = 2 * (shape.heads + shape.key_value_heads) * shape.head_dim
    block = backbone.width * (attention + 3 * shape.intermediate_size)
    return backbone.depth * block + (1 if shape.tied else 2) * shape.vocabulary * backbone.width


def cache_bytes(backbone: BackboneSettings, tokens: float) -> float:
    """Bytes of the keys and values of so many tokens, in bfloat16."""
    shape = shape_of(backbone)
    return tokens * 2 * backbone.depth * shape.key_value_heads * shape.head_dim * HALF
