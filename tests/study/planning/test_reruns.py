"""Every key of a study changes exactly the jobs that depend on it; what is made from them follows along the plan."""

import pytest
import yaml
from pydantic import BaseModel

from cocal.settings.parse import validate
from cocal_study.config import load_study
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from planned_jobs import ROOT, jobs_of

CONFIG = ROOT / "config/smoke.yaml"
TRAINS = {"train_grpo", "train_rlcr", "train_dcpo"}
RESPONSES = {"responses", "factual_responses"}
FEATURES = {"features", "factual_features"}
STORED = {"grpo companions", "postcal companions", "one-layer companions"}
FITS = {*STORED, "ablations companions", "prompts companions", "online"}
COMPARED = {"sweep predictions", "budgets predictions", "ablations predictions"}
CUBES = {"metrics", "sweep metrics", "budgets metrics", "ablations metrics", "cross-policy metrics"}
CUBES |= {"recalibrated_metrics"}
CLAIMS = {"table_claims", "figure_claims"}
OF_LAYERS = {"ablations companions", "ablations predictions", "checks", "figure_layers", *CLAIMS}
MAIN_TABLES = {"table_main", "table_main_step2", "table_scale"}
SETS = {*MAIN_TABLES, "table_comparisons", "table_conditions", "table_time_to_confidence", "figure_reliability_all"}
RELIABILITY = {"figure_reliability", "figure_reliability_all"}
OF_SECOND = {"table_scale"}
MEASURED = {
    "table_verdict",
    *(*SETS, *CLAIMS, *RELIABILITY, "table_ood", "table_cost", "table_pre_generation", "table_proper_scores"),
    *("table_recalibrated", "table_token_aggregation", "table_decisions", "figure_risk_coverage", "figure_online"),
    *(f"figure_{name}" for name in ("training_dynamics", "cross_policy", "cross_iteration", "early_steps")),
    *("figure_budgets", "figure_composition", "figure_layers"),
}
"""Tables and figures of numbers, beside the table of the configuration."""


def _under(prefix, values):
    return {f"{prefix}.{key}": value for key, value in values.items()}


EDITS = [
    ({"caption": "Other words."}, MEASURED),
    (
        {
            **_under("datasets.smoke-train", {"label": "Other", "samples": 2, "max_response_length": 99}),
            "cards": {"large": {"label": "Large", "memory": 80}},
            **_under("sources", {"registry": "elsewhere.yaml", "mirror": "file:///elsewhere", "cache": "elsewhere"}),
            **_under("policy.slime", {"nodes": 2, "devices": 4, "home": "/slime", "megatron": "/megatron"}),
            **_under("policy.slime", {"torch_dist": {"smoke": "/converted"}, "arguments": ["--x"], "start": ["srun"]}),
            **_under(
                "reports",
                dict.fromkeys(
                    ("replicates", "central", "regimes", "experience", "fits", "prefixes", "language_model"),
                    "studies/elsewhere",
                ),
            ),
        },
        set(),
    ),
    ({"datasets.smoke-large.label": "Other"}, {*SETS, "table_cost"}),
    ({"datasets.smoke-small.label": "Other"}, {*SETS, "figure_reliability", "table_decisions"}),
    ({"datasets.smoke-facts.label": "Other"}, {"table_ood", "table_comparisons", "table_conditions"}),
    ({"backbones.smoke.label": "Other"}, MEASURED - OF_SECOND),
    (
        {"backbones.smoke-deep.label": "Other"},
        {"table_scale", "table_token_aggregation", "figure_layers", *CLAIMS},
    ),
    # questions
    ({"seed": 43, "world.people": 41, "world.popularity_exponent": 1.5}, {"questions", "overlap", "backbone"}),
    (
        {
            **_under("datasets.smoke-train.source", {"questions": 49, "levels": {1: 1, 2: 2}}),
            "datasets.smoke-train.source.families": ["sums", "products"],
            "datasets.smoke-train.source.steps_spread": 0.4,
            **_under("datasets.smoke-small.source", {"questions": 7, "levels": {1: 1, 2: 2}}),
            "datasets.smoke-small.source.families": ["sums", "products"],
            "datasets.smoke-small.source.steps_spread": 0.4,
            **_under("datasets.smoke-facts.source", {"questions": 13, "hops": [1, 2], "relations": ["city"]}),
            "datasets.smoke-facts.source.popularity": [0.0, 0.9],
        },
        {"questions", "overlap"},
    ),
    ({"sources.overlap": "report"}, {"overlap"}),
    (
        {"datasets.smoke-small.samples": 3},
        {"responses", "features", "predictions", *COMPARED, "recalibrate", "table_decisions"},
    ),
    ({"datasets.smoke-small.max_response_length": 65}, {"responses", "latency"}),
    (
        {"datasets.smoke-facts.samples": 2},
        {"factual_responses", "factual_features", "predictions", "recalibrate", "table_decisions"},
    ),
    ({"datasets.smoke-facts.max_response_length": 65}, {"factual_responses"}),
    # policies
    (
        {"numerics": "native"},
        {
            *("backbone", *TRAINS, "resample", *RESPONSES, *FEATURES, "prompt_features", *FITS),
            *("predictions", *COMPARED, "recalibrate", *CUBES),
        },
    ),
    ({"prompts": "qwen"}, {"backbone", *TRAINS, "resample", *RESPONSES, "latency"}),
    (
        {
            **_under("backbones.smoke.architecture", {"hidden_size": 96, "heads": 4, "key_value_heads": 2}),
            **_under("backbones.smoke.architecture", {"head_dim": 64, "intermediate_size": 256, "vocabulary": 520}),
            **_under("backbones.smoke.architecture", {"max_length": 500, "tied": True}),
            "backbones.smoke.corpus": {"facts": 0.2, "direct_answers": 0.2, "wrong_steps": 0.2},
            **_under("backbones.smoke.corpus", {"facts": 0.2, "direct_answers": 0.2, "wrong_steps": 0.2}),
            "backbones.smoke.corpus.informed": 0.4,
            "backbones.smoke.corpus.steps_spread": 0.4,
            "backbones.smoke.corpus.mathematics_wording": {"paraphrases": 0.5, "remarks": 0.1},
            "backbones.smoke.corpus.facts_wording": {"paraphrases": 0.5, "remarks": 0.1},
            "backbones.smoke.corpus.p_true_noise": 0.3,
            **_under("backbones.smoke", {"seed": 43, "steps": 151, "batch_size": 33, "matrix_learning_rate": 0.01}),
            **_under("backbones.smoke", {"learning_rate": 0.002, "warmup": 0.1}),
            "backbones.smoke-deep.seed": 43,
        },
        {"backbone"},
    ),
    ({"backbones.smoke.architecture.layers": 3}, {"backbone", *OF_LAYERS, "table_token_aggregation"}),
    (
        _under(
            "policy",
            {
                **{"seed": 43, "temperature": 0.9, "clip_low": 0.1, "clip_high": 0.3, "kl_coefficient": 0.1},
                **{"learning_rate": 2e-4, "adam_betas": [0.9, 0.99], "weight_decay": 0.1, "max_gradient_norm": 2.0},
                **{"updates_per_step": 2, "loss": "dapo", "micro_batch": 24, "gradient_checkpointing": True},
                **{"checkpoint_every": 1, "advantage_scale": "none"},
                **{"warm_up": 0.2, "rate_decay": "linear", "mask_truncated": True},
            },
        ),
        {*TRAINS, "resample"},
    ),
    ({"policy.questions_per_step": 4}, {*TRAINS, "resample"}),
    ({"policy.responses_per_question": 4}, {*TRAINS, "resample", "prompts companions"}),
    (
        {
            **_under("policy.trl", {"nodes": 2, "devices": 2, "reduce_dtype": "bfloat16", "moments": "host"}),
            **_under("policy.trl", {"vllm": True, "vllm_memory_share": 0.2, "vllm_max_length": 512}),
            **_under("policy.trl", {"vllm_attention_backend": "FLASH_ATTN", "vllm_difference": 0.1}),
            "policy.trl": {"shard": True, "vllm": True},
        },
        TRAINS,
    ),
    ({"policy.max_response_length": {"grpo": 41, "rlcr": 64, "dcpo": 50}}, {"train_grpo", "resample"}),
    ({"policy.dcpo_group_weight": 0.4}, {"train_dcpo"}),
    ({"policy.own": {"rlcr": {"learning_rate": 1e-4}}}, {"train_rlcr"}),
    ({"policy.invalid_confidence": 0.9}, {"train_rlcr", "train_dcpo"}),
    # responses and states
    ({"generation.engine": {"kind": "transformers", "batch_size": 128}}, {*RESPONSES, "resample", "latency"}),
    ({"generation.seed": 43}, {*RESPONSES, "latency"}),
    (
        _under("generation", {"temperature": 0.6, "top_p": 0.7, "top_k": 10, "presence_penalty": 1.0}),
        {*RESPONSES, "latency", "table_conditions"},
    ),
    ({"generation.pool": 5}, {*RESPONSES, "latency", "predictions", "recalibrate"}),
    ({"features.layers": "final"}, {"train_grpo", "features", *OF_LAYERS}),
    ({"features.dtype": "bfloat16"}, {"train_grpo", "resample", *FEATURES, "prompt_features"}),
    ({"features.batch_tokens": 8192}, {"resample", *FEATURES, "prompt_features"}),
    (
        _under("postcal", {"temperature": 0.9, "top_p": 0.9, "top_k": 5, "presence_penalty": 0.1, "seed": 43}),
        {"resample"},
    ),
    (
        _under(
            "verifier",
            {
                **{"timeout": 4.0, "wall_timeout": 100.0, "max_timeouts": 0.5, "max_answer_length": 256},
                **{"max_nesting": 7, "memory_mb": 1024},
            },
        ),
        {*TRAINS, *RESPONSES, "resample", "recalibrate"},
    ),
    ({"judge": {"kind": "llm", "checkpoint": "./judge"}}, {"factual_responses", "table_ood"}),
    # companions
    ({"postcal.shuffle_seed": 43}, {"postcal companions"}),
    (
        _under(
            "companion",
            {
                **{"dropout": [0.2], "learning_rate": 1e-3, "weight_decay": 0.1, "batch_size": 64, "matmul": "tf32"},
                **{"validation_share": 0.2, "split_seed": 43},
            },
        ),
        {*FITS, "recalibrate", "checks"},
    ),
    ({"companion.passes": 3}, {*FITS, "recalibrate", "checks", "figure_online"}),
    ({"companion.seeds": [42, 137]}, {*FITS, "recalibrate", "checks", *CUBES}),
    ({"companion.widths": [16, 8, 8, 4]}, {*FITS, "recalibrate", "checks"} - {"one-layer companions"}),
    ({"companion.targets": ["binary", "group"]}, {*STORED, "online", "recalibrate", "checks"}),
    ({"estimators.methods": [name for name in METHODS if name != "cocal-on-dcpo"]}, {"predictions"}),
    ({"estimators.missing_answer": "invalid"}, {"predictions", "recalibrate"}),
    # numbers and exhibits
    (
        _under("quality", dict.fromkeys(("valid_rate", "answered_rate", "decided_rate", "p_true_mass"), 0.3)),
        {"checks", *MAIN_TABLES, "table_ood", "table_proper_scores", "table_recalibrated"},
    ),
    ({"metrics.bins": 15}, {*CUBES, "online", *RELIABILITY}),
    (_under("metrics", {"resamples": 50, "level": 0.9, "seed": 43}), {*CUBES, "table_decisions"}),
    (_under("timing", {"samples": 1, "concurrent": 32, "predictions": 10, "seed": 43}), {"latency"}),
    ({"reports.reliability_dataset": "smoke-large"}, {"figure_reliability"}),
    ({"reports.reliability_methods": ["rlcr"], "reports.reliability_seed": 137}, RELIABILITY),
    (
        {"reports.stage_methods": ["rlcr", "dcpo", "cocal-binary"]},
        {"predictions", "table_main_step2", "figure_training_dynamics"},
    ),
    (
        {"reports.early_steps": [2]},
        {"grpo companions", "online", "sweep predictions", "checks", "figure_early_steps", *CLAIMS},
    ),
    (
        {"reports.budgets": [2, 4]},
        {
            *("grpo companions", "postcal companions", "budgets predictions", "checks"),
            *("figure_budgets", "figure_composition", *CLAIMS),
        },
    ),
    ({"reports.online_window": 3}, {"online", "checks", "figure_online"}),
    ({"reports.mirrors": {"smoke-large": "MATH500"}}, {"table_conditions", *CLAIMS}),
    (_under("reports.decisions", {"max_risk": 0.2, "delta": 0.05, "splits": 10, "seed": 43}), {"table_decisions"}),
]
"""Other values of keys, and the jobs that each of them changes directly, beside the table of the configuration, which
prints the digest of all of it."""
SINGLE = {key: (value, expected) for values, expected in EDITS for key, value in values.items()}
SHAPE = {"study", "card", "policy.algorithms", "policy.dataset", "policy.engine", "policy.steps", "policy.stages"}
SHAPE |= {f"corpus.{domain}_wording.{key}" for domain in ("mathematics", "facts") for key in ("paraphrases", "remarks")}
SHAPE |= {"policy.trl.shard", "corpus.plain", "corpus.verbal", "corpus.rlcr", "corpus.p_true"}
"""Keys that no other value fits alone, or that make it another study."""


@pytest.fixture(scope="module")
def before():
    return jobs_of(validate(Study, _content(), "before"))


def _content() -> dict:
    """The study with a micro_batch that divides the rollouts of a step, whatever key of it changes alone."""
    content = yaml.safe_load(CONFIG.read_text())
    content["policy"]["micro_batch"] = 4
    return content


def dependence(job):
    """Everything on which a job depends."""
    return job and (job.parameters, {*job.inputs})


@pytest.mark.parametrize("key", SINGLE)
def test_a_key_changes_the_jobs_that_depend_on_it(before, key):
    value, expected = SINGLE[key]
    content = _content()
    *path, last = key.split(".")
    place = content
    for part in path:
        place = place.setdefault(part, {})
    place[last] = value
    after = jobs_of(validate(Study, content, key))
    changed = {job.label for output, job in after.items() if dependence(job) != dependence(before.get(output))}
    assert changed == expected | {"table_hyperparameters"}


def _keys(model, before=""):
    """Dotted keys of a study; one of the evaluation sets and the first backbone stand for the others of their kind."""
    for name in type(model).model_fields:
        value, key = getattr(model, name), f"{before}{name}"
        if isinstance(value, BaseModel):
            yield from _keys(value, f"{key}.")
        elif isinstance(value, dict) and value and all(isinstance(one, BaseModel) for one in value.values()):
            for item in value:
                yield from _keys(value[item], f"{key}.{item}.")
        else:
            yield key


def test_the_table_knows_every_key():
    alike = ("smoke-large", "smoke-deep")
    last = {"role", "domain", "kind", "source", "imported", "start"}
    for key in _keys(load_study(CONFIG)):
        if any(name in key for name in alike) or key.rpartition(".")[2] in last:
            continue
        inside = any(key.startswith(f"{other}.") for other in ("generation.engine", "judge"))
        assert key in SINGLE or inside or any(key.endswith(shape) for shape in SHAPE), f"{key}: what does it rerun?"
