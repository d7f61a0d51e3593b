"""The needs of each rule's jobs, and an estimate of a study's GPU-hours and storage from stated assumptions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from cocal.settings.base import Count, Model, Positive, Share
from cocal_study.config.backbone import PretrainingSettings
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.planning import plan, rivals, variants
from cocal_study.resources.shapes import HALF, SINGLE, cache_bytes, parameters_of

OnGpu = Literal["update", "engine", "engine and policy", "policy", "companions"]
"""What a job holds on its GPUs: a training with its moments and its engine, an engine that samples, a policy beside it,
a policy that reads responses, companions (`cocal_study.resources.memory`)."""


class Needs(NamedTuple):
    """The needs of a job of one rule."""

    seconds: float | None = None
    """Seconds of a job, for rules whose jobs take about as long in every study; others are estimated."""
    on_gpu: OnGpu | None = None
    """What it holds on its GPUs; None for a rule without any."""


RULES: dict[str, Needs] = {
    "sources": Needs(60),
    "questions": Needs(2),
    "overlap": Needs(2),
    "backbone": Needs(),
    "existing_backbone": Needs(60),
    "train_": Needs(on_gpu="update"),
    "slime_": Needs(),
    "import_": Needs(60),
    "resample": Needs(on_gpu="engine and policy"),
    "judge_checkpoint": Needs(600),
    "responses": Needs(on_gpu="engine"),
    "features": Needs(on_gpu="policy"),
    "replay": Needs(on_gpu="policy"),
    "companions": Needs(on_gpu="companions"),
    "online": Needs(on_gpu="companions"),
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


_TERA = 1e12
_PASSES = 10
"""Floating-point operations of the update for each parameter and token: 2 to read GRPO's states or DCPO's
log-probabilities before its updates, 2 forward, 2 to recompute them, and 4 backward."""


class Assumptions(Model):
    """Assumptions of the estimate, for B200. The defaults give the higher hours, and `LOW` the lower. Times are
    computed from what GPUs could do and the share of it that they reach, except those that are stated as measured."""

    bandwidth: Positive = 8.0
    """Bandwidth of the memory of one GPU in TB/s."""
    bandwidth_share: Share = 0.28
    """Share of it that sampling reaches, which reads the weights once for all responses, and each one's cache."""
    together: Count = 256
    """Number of responses that one GPU samples at a time."""
    peak_teraflops: Positive = 2250.0
    """Peak rate of dense bfloat16 matrix products on one GPU."""
    utilisation: Share = 0.25
    """Share of the peak rate that the passes of an update or over states reach."""
    step_seconds: Positive = 40.0
    """Seconds of a training step beside sampling and passes: the last long responses, verdicts, weights for vLLM."""
    alone_ms: Positive = 40.0
    """Milliseconds per token of a response that is sampled alone, by transformers, whatever the model."""
    parameters: Positive = 8.2e9
    """Number of parameters of the model that the measured times are of; longer ones are proportional to it."""
    responses: Count = 245_760
    """Number of responses in the measured times."""
    training_hours: Positive | None = None
    """Measured wall-clock hours of policy training on `responses` rollouts, in the place of the sum of its parts."""
    sampling_hours: Positive | None = None
    """Measured hours to sample `responses` responses on one GPU, in the place of what memory admits."""
    companion_seconds: Positive = 15.1
    """Measured seconds to train one companion on `responses` rollouts on one GPU (the paper's)."""
    training_tokens: Count = 900
    """Mean length of a rollout in tokens."""
    mathematics_tokens: Count = 3000
    """Mean length of an evaluation response to a mathematical question in tokens."""
    factual_tokens: Count = 250
    """Mean length of an evaluation response to a factual question in tokens."""
    prompt_tokens: Count = 150
    """Mean length of a prompt in tokens."""
    judge_parameters: Positive = 32.8e9
    """Number of parameters of the model that judges factual answers, if there is one."""
    judge_tokens: Count = 200
    """Mean length of a question to the judge in tokens."""
    judgements: Positive = 2.0
    """Questions to the judge per sampled response: whether it is right, and which others it is equivalent to."""
    start_minutes: Positive = 5.0
    """Minutes to load a checkpoint and start an engine, for every job that has a GPU."""


LOW = {"bandwidth_share": 0.55, "utilisation": 0.4, "step_seconds": 20.0, "alone_ms": 25.0}
"""What differs where everything goes well."""
PAPER = {"training_hours": 16.67, "sampling_hours": 14.22}
"""The paper's own hours (table of costs: Qwen3-8B on B200). It does not state on how many GPUs it trained."""
PROCESSOR = Assumptions(
    parameters=0.5e6,
    training_hours=0.05,
    sampling_hours=0.02,
    responses=15_360,
    companion_seconds=2.3,
    training_tokens=64,
    peak_teraflops=0.3,
    utilisation=0.4,
    start_minutes=0.1,
)
"""The same for one core and the tiny policies of the embedded study, on which these times were measured."""
LANGUAGE_MODEL = Assumptions(
    parameters=134.5e6,
    training_hours=0.9,
    sampling_hours=0.25,
    responses=5_760,
    companion_seconds=2.3,
    training_tokens=55,
    mathematics_tokens=45,
    factual_tokens=45,
    prompt_tokens=55,
    peak_teraflops=0.9,
    utilisation=0.4,
    start_minutes=0.2,
)
"""The same for the laptop study's model in bfloat16: trainings have two cores, other jobs one."""


@dataclass(frozen=True)
class Workload:
    """One kind of work on one backbone.

    Attributes:
        rule: Name of the rule of its jobs in `RULES`, or of a variant of it.
        hours: Wall-clock hours of all its jobs, one after the other, including their start.
        gpus: Number of GPUs per job; 0 if the workflow trains the backbone from scratch.
        storage: Bytes that it leaves in results/.
        transient: Additional bytes that it needs while it runs.
        jobs: Number of jobs.
    """

    rule: str
    hours: float
    gpus: int
    storage: float
    transient: float = 0.0
    jobs: int = 1

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of all its jobs."""
        return self.hours * self.gpus


def workloads(study: Study, assumed: Assumptions) -> Iterator[Workload]:
    """All work that needs a GPU or much storage, by backbone. Backbones that the workflow
    pre-trains need no GPU, and their times are those of `PROCESSOR` and `LANGUAGE_MODEL`."""
    for backbone in study.backbones:
        estimate = _Backbone(study, backbone, assumed)
        yield estimate.policies()
        yield from estimate.rereading()
        yield from estimate.evaluations()
        yield from estimate.companions()
        yield from estimate.timing()


def pace_of(backbone: PretrainingSettings) -> Assumptions:
    """The times of a backbone that the workflow pre-trains."""
    return LANGUAGE_MODEL if backbone.start else PROCESSOR


class _Backbone:
    """The work on one backbone."""

    def __init__(self, study: Study, name: str, assumed: Assumptions):
        self._study, self._name, self._assumed = study, name, assumed
        self._backbone = study.backbones[name]
        self._parameters = parameters_of(self._backbone)
        self._rollouts = study.policy.steps * study.policy.questions_per_step * study.policy.responses_per_question
        self._layers = plan.layers_of(study, name)
        self._passed = study.features.source == "pass"  # where vLLM keeps the states, nothing is read again
        self._gpus = 0 if isinstance(self._backbone, PretrainingSettings) else 1
        self._pace = assumed if self._gpus else pace_of(self._backbone)
        self._start = self._pace.start_minutes / 60
        self._experiences = plan.experiences_of(plan.methods_of(study, name, "grpo", study.policy.steps))

    def policies(self) -> Workload:
        """Training with all algorithms: rollouts, updates, GRPO's features and the checkpoints of the stages."""
        policy = self._study.policy
        engine = policy.trl if policy.engine == "trl" else policy.slime
        gpus, runs = engine.nodes * engine.devices, len(policy.algorithms)
        hours = sum(self._training_hours(name, gpus) + self._start for name in policy.algorithms)
        weights = HALF * self._parameters
        text = sum(self._text_bytes(self._rollouts, self._training_tokens(name)) for name in policy.algorithms)
        stored = weights * (1 + runs * len(policy.stages)) + text
        # two resumable checkpoints, each with float32 weights and both moments of Adam
        transient = 2 * runs * self._parameters * 3 * SINGLE
        stored += self._state_bytes(self._rollouts, len(self._layers))
        return Workload("train_", hours, self._gpus * gpus, stored, transient, jobs=runs)

    def rereading(self) -> Iterator[Workload]:
        """Resampling for PostCal, as many responses as rollouts, with the features of the final block; and the hidden
        states of the prompts of all rollout groups."""
        pace, policy = self._pace, self._study.policy
        if "resampled" in self._experiences:
            tokens = self._training_tokens("grpo")
            hours = self._decoding_hours(self._rollouts * tokens)
            hours += self._passed * self._forward_hours(self._rollouts * (tokens + pace.prompt_tokens))
            stored = self._text_bytes(self._rollouts, tokens) + self._state_bytes(self._rollouts, 1)
            yield Workload("resample", hours + self._start, self._gpus, stored)
        if "prompts" in self._experiences:
            groups = self._rollouts // policy.responses_per_question
            hours = self._forward_hours(groups * pace.prompt_tokens) + self._start * len(policy.stages)
            yield Workload("prompt_features", hours, self._gpus, self._state_bytes(groups, 1) / 2)

    def evaluations(self) -> Iterator[Workload]:
        """Responses and features of every evaluated checkpoint, prompt format and domain."""
        study, pace = self._study, self._pace
        means = {"factual": pace.factual_tokens, "mathematics": pace.mathematics_tokens}
        for algorithm, step in plan.evaluated_cells(study, self._name):
            methods = [METHODS[name] for name in plan.methods_of(study, self._name, algorithm, step)]
            read = {method.prompt_format for method in methods if method.experience}
            for prompt_format in dict.fromkeys(method.prompt_format for method in methods):
                for domain in plan.domains_of(study, self._name, algorithm, step):
                    of_domain = "factual_" * (domain == "factual")
                    sets = plan.response_plan(
                        study, self._name, algorithm, step, prompt_format, study.evaluation_sets(domain)
                    ).sets
                    asked = {name: study.datasets[name].size for name in sets}
                    sampled = sum(asked[name] * one.sampled for name, one in sets.items())
                    tokens = min(means[domain], max(one.max_response_length for one in sets.values()))
                    hours = self._decoding_hours(sampled * tokens) + self._start
                    if domain == "factual" and study.judge.kind == "llm":
                        # nearly all of it is reading, for a verdict is one word
                        read_tokens = sampled * self._assumed.judgements * self._assumed.judge_tokens
                        hours += self._forward_hours(read_tokens, self._assumed.judge_parameters) + self._start
                    yield Workload(f"{of_domain}responses", hours, self._gpus, self._text_bytes(sampled, tokens))
                    if prompt_format in read:
                        evaluated = sum(asked[name] * one.samples for name, one in sets.items())
                        hours = self._passed * self._forward_hours(evaluated * (tokens + pace.prompt_tokens))
                        hours += self._start
                        kept = plan.feature_settings(study, algorithm, step, domain).layers
                        layers = 1 if kept == "final" else len(self._layers)
                        stored = self._state_bytes(evaluated, layers)
                        yield Workload(f"{of_domain}features", hours, self._gpus, stored)

    def companions(self) -> Iterator[Workload]:
        """Training of the companions of all prefixes, budgets, seeds and targets; ablations have one target."""
        study = self._study
        for experience in self._experiences:
            steps = [prefix.steps for prefix in plan.companion_prefixes(study, self._name, experience)]
            if experience == "prompts":  # a row for each group, of one state, and one target
                steps = [step / study.policy.responses_per_question for step in steps]
                yield self._fits("companions", steps, 1, 1)
            else:
                yield self._fits("companions", steps, len(study.companion.targets), 2)
        states = len(plan.ablation_states(study, self._name))
        yield self._fits("companions", [study.policy.steps] * states, 1, 2)
        if self._name == study.main_backbone and rivals.ONE_LAYER in rivals.reader_folders(study, "grpo"):
            # as long as a whole companion, for the time of one of its layers is not known
            yield self._fits("companions", [study.policy.steps], len(study.companion.targets), 2)
        if self._name == study.main_backbone and plan.has_methods(study, "cocal-binary"):
            # a window of one step is one of the replay's passes, and one of as many steps as passes is as long
            share = sum(variants.windows(study)) / study.companion.passes
            yield self._fits("online", [share * study.policy.steps], len(study.companion.targets), 2)

    def timing(self) -> Iterator[Workload]:
        """Inference times: responses one after another, and one and a pool for each question of the largest set."""
        study = self._study
        if self._gpus and self._name == study.main_backbone and "prompts" in self._experiences:
            sets = study.evaluation_sets("mathematics")
            tokens = min(self._assumed.mathematics_tokens, max(study.datasets[one].max_response_length for one in sets))
            hours = len(sets) * (study.timing.samples + 1) * tokens * self._pace.alone_ms / 1000 / 3600
            largest = max(study.datasets[one].size for one in sets)
            hours += self._decoding_hours((1 + study.generation.pool) * largest * tokens) + self._start
            yield Workload("latency", hours, self._gpus, 0)

    def _fits(self, rule: str, steps: list[float], targets: int, width: int) -> Workload:
        members = targets * len(self._study.companion.seeds)
        policy = self._study.policy
        rollouts = sum(steps) * policy.questions_per_step * policy.responses_per_question
        seconds = self._pace.companion_seconds * members * rollouts / self._pace.responses
        sizes = (width * self._backbone.width, *self._study.companion.widths, 1)
        weights = sum((a + 3) * b for a, b in pairwise(sizes))
        stored = SINGLE * weights * members * len(steps)
        return Workload(rule, seconds / 3600 + self._start, self._gpus, stored)

    def _training_tokens(self, algorithm: str) -> int:
        return min(self._assumed.training_tokens, self._study.policy.max_response_length[algorithm])

    def _training_hours(self, algorithm: str, gpus: int) -> float:
        """Hours of one training: as measured, or its sampling and its passes on all GPUs, and the rest of each step."""
        pace = self._pace
        if pace.training_hours is not None:
            return self._rollouts / pace.responses * self._parameters / pace.parameters * pace.training_hours
        tokens = self._rollouts * self._training_tokens(algorithm)
        passes = self._forward_hours(tokens + self._rollouts * pace.prompt_tokens) * _PASSES / 2
        rest = self._study.policy.steps * pace.step_seconds / 3600
        return (self._decoding_hours(tokens) + passes) / gpus + rest

    def _decoding_hours(self, tokens: float) -> float:
        """Hours that one device needs to decode so many tokens of responses of the usual length."""
        pace = self._pace
        if pace.sampling_hours is not None:
            hours = pace.sampling_hours / (pace.responses * pace.training_tokens)
            return tokens * hours * self._parameters / pace.parameters
        context = pace.prompt_tokens + pace.training_tokens / 2
        read = HALF * self._parameters / pace.together + cache_bytes(self._backbone, context)
        return tokens * read / (pace.bandwidth * _TERA * pace.bandwidth_share) / 3600

    def _forward_hours(self, tokens: float, parameters: float | None = None) -> float:
        """Hours that one device needs to read so many tokens with the backbone, or with a model of `parameters`."""
        speed = self._pace.peak_teraflops * _TERA * self._pace.utilisation
        return 2 * (parameters or self._parameters) * tokens / speed / 3600

    def _text_bytes(self, responses: float, tokens: int) -> float:
        """Bytes of a response table, which holds ids, log-probabilities and about four bytes of text per token and is
        compressed to half; prompts repeat, so they hardly count."""
        return responses * tokens * (2 * SINGLE + 4) / 2

    def _state_bytes(self, responses: float, layers: int) -> float:
        """Bytes of the last and mean states of so many responses and layers."""
        number = HALF if self._study.features.dtype == "bfloat16" else SINGLE
        return responses * layers * 2 * self._backbone.width * number


_TINY_DOCUMENT, _DOCUMENT = 1.6e-8, 2.8e-9
"""Seconds to pre-train on a document of the corpus, per parameter of the policy: of a tiny one on one core, and of a
language model on two."""
_READING = 0.1
"""Time to read rollouts again, as a multiple of the time to sample them."""


def seconds_by_rule(study: Study) -> dict[str, float]:
    """Expected seconds of one job of each rule, or kind of rule, of a study, as the mean over its backbones.

    The times of rules that train, sample, extract or fit are estimated as in `cocal plan`: for the paper's GPU, or for
    one core if the workflow trains the backbone from scratch. The times of other rules are in the table of rules.
    """
    hours: defaultdict[str, float] = defaultdict(float)
    jobs: defaultdict[str, int] = defaultdict(int)
    for work in workloads(study, Assumptions()):
        hours[work.rule] += work.hours
        jobs[work.rule] += work.jobs
    seconds = {rule: 3600 * hours[rule] / jobs[rule] for rule in hours if jobs[rule]}
    seconds["slime_"] = seconds["train_"]
    if "resample" in seconds:
        seconds["replay"] = _READING * seconds["resample"]
    made = [one for one in study.backbones.values() if isinstance(one, PretrainingSettings)]
    if made:
        paces = [_DOCUMENT if one.start else _TINY_DOCUMENT for one in made]
        work = [one.steps * one.batch_size * parameters_of(one) * pace for one, pace in zip(made, paces, strict=True)]
        seconds["backbone"] = 60 * PROCESSOR.start_minutes + sum(work) / len(made)
    return {name: rule.seconds for name, rule in RULES.items() if rule.seconds is not None} | seconds
