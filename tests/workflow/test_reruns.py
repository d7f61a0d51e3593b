"""An edit reruns exactly what depends on it: every key of a study, every prompt text, the code."""

import shutil

import pytest
from pydantic import BaseModel

import started
from cocal.config import load_study
from cocal.config.methods import METHODS
from smoke_study import CONFIG, ROOT, Planner, planned, snakemake

CLAIMS = {"table_claims", "figure_claims"}
"""What is judged from nearly everything."""
AFTER = {
    "questions": {"backbone", "overlap", "train", "train_coupled", "resample", "responses", "factual_responses"}
    | {"companions", "postcal_companions", "prompt_companions", "ablation_companions", "checks", "latency"}
    | {"one_layer_companions", "online", "recalibrate"},
    "overlap": {"checks"},
    "backbone": {"train", "train_coupled", "responses", "factual_responses"},
    "train": {"resample", "responses", "factual_responses", "features", "factual_features", "prompt_features"}
    | {"companions", "prompt_companions", "ablation_companions", "latency", "checks", "table_cost"}
    | {"one_layer_companions", "online", "recalibrate"},
    "train_coupled": {"responses", "factual_responses", "features", "factual_features", "recalibrate", "checks"},
    "resample": {"postcal_companions", "checks", "table_cost", *CLAIMS},
    "responses": {"features", "predictions", "sweep_predictions", "budget_predictions", "ablation_predictions"}
    | {"recalibrate", "table_decisions"},
    "factual_responses": {"factual_features", "predictions", "recalibrate"},
    "features": {"predictions", "sweep_predictions", "budget_predictions", "ablation_predictions", "recalibrate"},
    "factual_features": {"predictions", "recalibrate"},
    "prompt_features": {"prompt_companions"},
    "companions": {"predictions", "sweep_predictions", "budget_predictions", "ablation_predictions", "checks"}
    | {"online", "latency", "figure_composition", "table_conditions", "table_cost", "recalibrate", *CLAIMS},
    "postcal_companions": {"predictions", "budget_predictions", "checks"}
    | {"figure_composition", "table_conditions", "table_cost", *CLAIMS},
    "prompt_companions": {"predictions", "checks", "latency"},
    "online": {"figure_online", "checks"},
    "ablation_companions": {"ablation_predictions", "checks"},
    "one_layer_companions": {"recalibrate", "checks"},
    "recalibrate": {"recalibrated_metrics", "checks"},
    "recalibrated_metrics": {"table_recalibrated"},
    "predictions": {"metrics", "cross_policy_metrics", "checks", "figure_risk_coverage", "table_conditions"}
    | {"figure_reliability", "figure_reliability_all", "table_decisions", *CLAIMS},
    "sweep_predictions": {"sweep_metrics", "checks"},
    "budget_predictions": {"budget_metrics", "checks"},
    "ablation_predictions": {"ablation_metrics", "checks"},
    "metrics": {"table_main", "table_main_step2", "table_ood", "table_scale", "table_pre_generation"}
    | {"table_comparisons", "table_proper_scores", "table_conditions", "figure_training_dynamics", *CLAIMS},
    "cross_policy_metrics": {"figure_cross_policy", *CLAIMS},
    "sweep_metrics": {"figure_cross_iteration", "figure_early_steps", *CLAIMS},
    "budget_metrics": {"figure_budgets", "figure_composition", *CLAIMS},
    "ablation_metrics": {"table_token_aggregation", "figure_layers", *CLAIMS},
    "latency": {"table_cost", "table_time_to_confidence", *CLAIMS},
    "table_main": {"table_all"},
}
"""What runs after a rule, directly; every table is part of the document of all tables."""
MEASURED_TABLES = {f"table_{name}" for name in ("main", "cost", "ood", "scale", "token_aggregation", "pre_generation")}
MEASURED_TABLES |= {
    "table_recalibrated",
    "table_decisions",
    "table_claims",
    "table_comparisons",
    "table_proper_scores",
    "table_conditions",
    "table_main_step2",
    "table_time_to_confidence",
}
CURVES = {"training_dynamics", "cross_policy", "cross_iteration", "early_steps", "budgets", "composition", "layers"}
MEASURED_FIGURES = {
    f"figure_{name}" for name in (*CURVES, "online", "claims", "risk_coverage", "reliability", "reliability_all")
}
AFTER["checks"] = MEASURED_TABLES | MEASURED_FIGURES
ALWAYS = {"table_hyperparameters", "table_all"}
"""The table of the configuration prints the digest of all of it."""
SECOND = {"table_scale"}
"""What the second backbone alone is for."""


def after(*rules, without=()):
    """These rules, and all that follows them."""
    found, todo = set(ALWAYS), [*rules]
    while todo:
        rule = todo.pop()
        if rule not in found:
            found.add(rule)
            todo += AFTER.get(rule, ())
    return found - {*without}


RESPONSES = ("responses", "factual_responses")
FITS = ("companions", "postcal_companions", "prompt_companions", "ablation_companions", "one_layer_companions")
FITS += ("online",)
TRAININGS = ("train", "train_coupled")
OF_SECOND = {"backbone", "train", "train_coupled", "resample", "responses", "features", "companions"}
OF_SECOND |= {"postcal_companions", "ablation_companions", "predictions", "ablation_predictions", "metrics"}
OF_SECOND |= {"ablation_metrics", "checks", *CLAIMS, "table_scale", "table_token_aggregation", "figure_layers", *ALWAYS}
OF_GRPO = {f"{kind}_{stage}" for kind in ("sweep", "budget", "ablation") for stage in ("predictions", "metrics")}
OF_COUPLED = {"cross_policy_metrics"}
OF_CUBES = after("metrics", "cross_policy_metrics", "sweep_metrics", "budget_metrics", "ablation_metrics")
OF_CUBES |= {"recalibrated_metrics", "table_recalibrated"}
OF_VERBAL = {"table_main", "table_ood", "table_scale", "table_all", "figure_reliability", "figure_reliability_all"}
OF_VERBAL |= {"table_comparisons", "table_proper_scores", "figure_risk_coverage"}
"""What names the method Verbal, which is evaluated at the end of training alone."""
OF_COCAL = OF_VERBAL | {
    "figure_online",
    "table_main_step2",
    "table_token_aggregation",
    "figure_overview",
    "figure_paradigms",
}
OF_COCAL |= {"figure_online", "table_decisions"}
OF_COCAL |= {f"figure_{name}" for name in CURVES - {"cross_policy", "layers"}}
"""What draws or names CoCal (binary)."""
SET_LABELS = {"table_main", "table_main_step2", "table_scale", "table_time_to_confidence", "figure_reliability_all"}
SET_LABELS |= {"table_comparisons", "table_conditions", *ALWAYS}
MAIN_LABELS = (MEASURED_TABLES | MEASURED_FIGURES | ALWAYS) - SECOND

EDITS = {
    # words: exhibits alone
    "caption": ("Other words.", MEASURED_TABLES | MEASURED_FIGURES | ALWAYS),
    "datasets.smoke-train.label": ("Other", ALWAYS),
    "datasets.smoke-train.samples": (2, ALWAYS),
    "datasets.smoke-train.max_response_length": (99, ALWAYS),
    "datasets.smoke-large.label": ("Other", SET_LABELS | {"table_cost"}),
    "datasets.smoke-small.label": ("Other", SET_LABELS | {"figure_reliability", "table_decisions"}),
    "datasets.smoke-facts.label": ("Other", {"table_ood", "table_comparisons", "table_conditions", *ALWAYS}),
    "backbones.smoke.label": ("Other", MAIN_LABELS),
    "backbones.smoke-deep.label": ("Other", {"table_scale", "table_token_aggregation", "figure_layers", *ALWAYS}),
    "cards": ({"large": {"label": "Large", "memory": 80}}, ALWAYS),
    # questions: everything, for pre-training holds them out
    "seed": (43, after("questions")),
    "world.people": (41, after("questions")),
    "world.popularity_exponent": (1.5, after("questions")),
    "datasets.smoke-train.source.questions": (49, after("questions")),
    "datasets.smoke-train.source.levels": ({1: 1, 2: 2}, after("questions")),
    "datasets.smoke-train.source.families": (["sums", "products"], after("questions")),
    "datasets.smoke-small.source.questions": (7, after("questions")),
    "datasets.smoke-small.source.levels": ({1: 1, 2: 2}, after("questions")),
    "datasets.smoke-small.source.families": (["sums", "products"], after("questions")),
    "datasets.smoke-facts.source.questions": (13, after("questions")),
    "datasets.smoke-facts.source.hops": ([1, 2], after("questions")),
    "datasets.smoke-facts.source.relations": (["city"], after("questions")),
    "datasets.smoke-facts.source.popularity": ([0.0, 0.9], after("questions")),
    "datasets.smoke-small.samples": (3, after("responses")),
    "datasets.smoke-small.max_response_length": (65, after("responses", "latency")),
    "datasets.smoke-facts.samples": (2, after("factual_responses", without=SECOND)),
    "datasets.smoke-facts.max_response_length": (65, after("factual_responses", without=SECOND)),
    "sources.registry": ("elsewhere.yaml", ALWAYS),
    "sources.mirror": ("file:///elsewhere", ALWAYS),
    "sources.cache": ("elsewhere", ALWAYS),
    "sources.overlap": ("report", after("overlap")),
    # policies
    "numerics": ("native", after("backbone")),
    "prompts": ("qwen", after("backbone")),
    **{
        f"backbones.smoke.{key}": (value, after("backbone", without=SECOND))
        for key, value in {
            "seed": 43,
            "architecture.hidden_size": 96,
            "architecture.layers": 3,
            "architecture.heads": 4,
            "architecture.key_value_heads": 2,
            "architecture.head_dim": 64,
            "architecture.intermediate_size": 256,
            "architecture.vocabulary": 520,
            "architecture.max_length": 500,
            "architecture.tied": True,
            "corpus": {"facts": 0.2, "direct_answers": 0.2, "wrong_steps": 0.2},
            "corpus.facts": 0.2,
            "corpus.direct_answers": 0.2,
            "corpus.wrong_steps": 0.2,
            "corpus.mathematics_wording": {"paraphrases": 0.5, "remarks": 0.1},
            "corpus.facts_wording": {"paraphrases": 0.5, "remarks": 0.1},
            "corpus.p_true_noise": 0.3,
            "steps": 151,
            "batch_size": 33,
            "matrix_learning_rate": 0.01,
            "learning_rate": 0.002,
            "warmup": 0.1,
        }.items()
    },
    "backbones.smoke-deep.seed": (43, OF_SECOND),
    **{
        f"policy.{key}": (value, after(*TRAININGS))
        for key, value in {
            "seed": 43,
            "questions_per_step": 4,
            "responses_per_question": 4,
            "temperature": 0.9,
            "clip_low": 0.1,
            "clip_high": 0.3,
            "kl_coefficient": 0.1,
            "learning_rate": 2e-4,
            "adam_betas": [0.9, 0.99],
            "weight_decay": 0.1,
            "max_gradient_norm": 2.0,
            "updates_per_step": 2,
            "loss": "dapo",
            "micro_batch": 24,
            "gradient_checkpointing": True,
            "checkpoint_every": 1,
            "trl.nodes": 2,
            "trl.devices": 2,
            "trl.reduce_dtype": "bfloat16",
            "trl.moments": "host",
            "trl.vllm": True,
            "trl.vllm_memory_share": 0.2,
            "trl.vllm_max_length": 512,
            "trl.vllm_attention_backend": "FLASH_ATTN",
        }.items()
    },
    "policy.max_response_length": ({"grpo": 41, "rlcr": 64, "dcpo": 50}, after("train")),
    "policy.dcpo_group_weight": (0.4, after("train_coupled", without=OF_GRPO)),
    "policy.own": ({"rlcr": {"learning_rate": 1e-4}}, after("train_coupled", without=OF_GRPO)),
    "policy.invalid_confidence": (0.9, after("train_coupled", without=OF_GRPO)),
    "policy.trl": ({"shard": True, "vllm": True}, after(*TRAININGS)),
    **{
        f"policy.slime.{key}": (value, ALWAYS)
        for key, value in {
            "nodes": 2,
            "devices": 4,
            "home": "/slime",
            "megatron": "/megatron",
            "torch_dist": {"smoke": "/converted"},
            "arguments": ["--x"],
            "start": ["srun"],
        }.items()
    },
    # responses and states
    "generation.engine": ({"kind": "transformers", "batch_size": 128}, after(*RESPONSES, "resample", "latency")),
    **{
        f"generation.{key}": (value, after(*RESPONSES, "latency"))
        for key, value in {
            "seed": 43,
            "temperature": 0.6,
            "top_p": 0.7,
            "top_k": 10,
            "presence_penalty": 1.0,
            "pool": 5,
        }.items()
    },
    "features.layers": ("final", after("train")),
    "features.dtype": ("bfloat16", after("train")),
    "features.batch_tokens": (8192, after("resample", "features", "factual_features", "prompt_features")),
    **{
        f"postcal.{key}": (value, after("resample", without=OF_COUPLED))
        for key, value in {"temperature": 0.9, "top_p": 0.9, "top_k": 5, "presence_penalty": 0.1, "seed": 43}.items()
    },
    **{
        f"verifier.{key}": (value, after(*TRAININGS, *RESPONSES, "resample"))
        for key, value in {
            "timeout": 4.0,
            "wall_timeout": 100.0,
            "max_timeouts": 0.5,
            "max_answer_length": 256,
            "max_nesting": 7,
            "memory_mb": 1024,
        }.items()
    },
    "judge": ({"kind": "llm", "checkpoint": "./judge"}, after("factual_responses", without=SECOND)),
    # companions
    "postcal.shuffle_seed": (43, after("postcal_companions", without=OF_COUPLED)),
    **{
        f"companion.{key}": (value, after(*FITS))
        for key, value in {
            "dropout": [0.2],
            "learning_rate": 1e-3,
            "weight_decay": 0.1,
            "batch_size": 64,
            "passes": 3,
            "matmul": "tf32",
            "validation_share": 0.2,
            "split_seed": 43,
            "seeds": [42, 137],
        }.items()
    },
    "companion.widths": ([16, 8, 8, 4], after(*FITS, without={"one_layer_companions"})),
    "companion.targets": (
        ["binary", "group"],
        after("companions", "postcal_companions", "one_layer_companions", "online"),
    ),
    "estimators.methods": (
        [name for name in METHODS if name != "cocal-on-dcpo"],
        after("predictions", without=SECOND | {"figure_cross_policy"}),
    ),
    "estimators.missing_answer": ("invalid", after("predictions", "recalibrate", without=OF_COUPLED)),
    # numbers and exhibits
    **{
        f"quality.{key}": (0.3, after("checks"))
        for key in ("valid_rate", "answered_rate", "decided_rate", "p_true_mass")
    },
    "metrics.bins": (
        15,
        OF_CUBES | after("online") | {"figure_reliability", "figure_reliability_all", "table_conditions"},
    ),
    **{
        f"metrics.{key}": (value, OF_CUBES | {"table_decisions"})
        for key, value in {"resamples": 50, "level": 0.9, "seed": 43}.items()
    },
    **{
        f"timing.{key}": (value, after("latency"))
        for key, value in {"samples": 1, "concurrent": 32, "predictions": 10, "seed": 43}.items()
    },
    "reports.reliability_dataset": ("smoke-large", {"figure_reliability", "table_conditions", *ALWAYS}),
    "reports.reliability_methods": (["rlcr"], {"figure_reliability", "figure_reliability_all", *ALWAYS}),
    "reports.reliability_seed": (137, {"figure_reliability", "figure_reliability_all", *ALWAYS}),
    "reports.stage_methods": (["rlcr", "dcpo", "cocal-binary"], after("predictions", without=SECOND | OF_COUPLED)),
    "reports.early_steps": ([2], after("companions", without=SECOND)),
    "reports.budgets": ([2, 4], after("companions", "postcal_companions", without=SECOND)),
    "reports.online_window": (3, after("online", without=SECOND)),
    "reports.mirrors": ({"smoke-large": "MATH500"}, {"table_conditions", *CLAIMS, *ALWAYS}),
    **{
        f"reports.decisions.{key}": (value, {"table_decisions", *ALWAYS})
        for key, value in {"max_risk": 0.2, "delta": 0.05, "splits": 10, "seed": 43}.items()
    },
    "reports.replicates": ("studies/elsewhere", ALWAYS),
}
"""Key -> another value, and what runs again."""
SHAPE = {"study", "card", "policy.algorithms", "policy.dataset", "policy.engine", "policy.steps", "policy.stages"}
SHAPE |= {f"corpus.{domain}_wording.{key}" for domain in ("mathematics", "facts") for key in ("paraphrases", "remarks")}
SHAPE |= {"policy.trl.shard", "corpus.plain", "corpus.verbal", "corpus.rlcr", "corpus.p_true"}
"""Keys that no other value fits alone, or that make it another study."""


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
    last = {"role", "domain", "kind", "source", "imported"}
    known = set(EDITS)
    for key in _keys(load_study(CONFIG)):
        if any(name in key for name in alike) or key.rpartition(".")[2] in last:
            continue
        inside = any(key.startswith(f"{other}.") for other in ("generation.engine", "judge"))
        assert key in known or inside or any(key.endswith(shape) for shape in SHAPE), f"{key}: what does it rerun?"


def test_results_that_lack_snakemake_s_record_say_so(tmp_path):
    folders = tmp_path / "results/questions", tmp_path / ".snakemake/metadata"
    for folder in folders:
        folder.mkdir(parents=True)
    plan = ["--dry-run", "--quiet", "rules", "--directory", tmp_path, "--configfile", CONFIG]
    said = "the record of what made them, is missing, so a change of settings or code would rerun nothing"
    assert said not in started.snakemake(plan).stdout
    (folders[0] / "smoke-train.parquet").touch()
    assert started.snakemake(plan).stdout.count(said) == 1
    (folders[1] / "made").touch()
    assert said not in started.snakemake(plan).stdout


@pytest.fixture(scope="module")
def planner(smoke, tmp_path_factory):
    return Planner(smoke, tmp_path_factory.mktemp("plans"))


@pytest.mark.slow
def test_nothing_runs_again_without_an_edit(planner):
    assert planner.rules({}) == set()


@pytest.mark.slow
@pytest.mark.parametrize("key", EDITS)
def test_an_edit_of_the_study_reruns_what_depends_on_it(planner, key):
    value, expected = EDITS[key]
    assert planner.rules({key: value}) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("policy/objectives.py", "def group_advantages", "# a comment\n\n\ndef group_advantages", set()),
        ("methods/p_true.py", "= responses.", "= 1 - responses.", after("predictions", without=OF_COUPLED)),
        ("methods/stated.py", "= responses.", "= 1 - responses.", after("predictions")),
        ("methods/verbal.py", 'label="Verbal"', 'label="Stated"', OF_VERBAL),
        ("methods/cocal_binary.py", "#3035c4", "#3035c5", OF_COCAL),
        ("exhibits/overview.py", "draw()", "draw(_new=1)", {"figure_overview"}),
        ("prompts/tiny/verbal.txt", "${question}", "Please. ${question}", after("backbone")),
    ],
)
def test_an_edit_of_the_package_reruns_what_it_computes(smoke, tmp_path, file, old, new, expected):
    shutil.copytree(ROOT / "src", tmp_path / "src")
    path = tmp_path / "src/cocal" / file
    text = path.read_text()
    assert old in text, "the test edits a line that is no longer there"
    path.write_text(text.replace(old, new, 1))
    done = snakemake(smoke, "--dry-run", "--quiet", "rules", config=CONFIG, PYTHONPATH=str(tmp_path / "src"))
    assert {*planned(done.stdout + done.stderr)} - {"all"} == expected - {"table_hyperparameters"}
