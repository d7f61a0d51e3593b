# The study, and what the rules of several stages share.
import os
import re
import sys
from pathlib import Path

from cocal import layouts, plan
from cocal.config.load import configured_study
from cocal.config.paths import located
from cocal.estimators.registry import METHODS
from cocal.judging.prompts import JudgePrompts
from cocal.policy.launch import train_command
from cocal.policy.objectives import PROTOCOLS
from cocal.prompts import Prompts
from cocal.questions.registry import known_wrong, registry_of
from cocal.store.code import code_digest
from cocal.store.owner import refuse_other_study
from cocal.store.provenance import canonical

# `.venv/bin/snakemake` works without activating the environment: its `cocal` is found first. A rule's own
# environment (--sdm conda), activated later, still comes before it.
os.environ.update(
    PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
)

# A file given with --configfile is a whole study and replaces the default; --config changes single keys of either.
# Relative paths of a study start at the repository, also with --directory.
STUDY_FILE = next(iter(workflow.configfiles), Path(workflow.basedir) / "config/config.yaml")
CONFIGURED = configured_study(workflow.configfiles or [STUDY_FILE], config)
STUDY = located(CONFIGURED, workflow.basedir, Path.cwd())
# Snakemake tells a Snakefile in no other way what it is asked for; these neither plan nor change results.
if {"--unlock", "--lint"}.isdisjoint(sys.argv):
    refuse_other_study("results", STUDY.study, STUDY_FILE)

# Environments (--sdm conda) hold the package of this checkout, wherever the results lie.
os.environ.setdefault("COCAL_CHECKOUT", str(workflow.basedir))

# The slice of the dataset registry that the study uses, and the file that says where its sources lie.
REGISTRY_FILE = STUDY.sources.registry
REGISTRY = registry_of(STUDY.question_sets.registered, REGISTRY_FILE)
# Rows that are known to be wrong, mended or not: captions and the table of hyperparameters say how many.
WRONG_ROWS = known_wrong(STUDY.question_sets.registered, REGISTRY)
# Not parameters: from where a verified file came, and where it is kept, changes no result.
if STUDY.sources.mirror:
    os.environ.setdefault("COCAL_MIRROR", STUDY.sources.mirror)
os.environ.update(COCAL_SOURCES=STUDY.sources.cache)

MAIN = STUDY.main_backbone
SETS = {domain: STUDY.evaluation_sets(domain) for domain in ("mathematics", "factual")}
FINAL = STUDY.policy.steps
EARLIER_STAGES = STUDY.policy.stages[:-1]
TRAINING_SET = f"results/questions/{STUDY.policy.dataset}.parquet"


# What the rules of question sets depend on, and the texts of the prompts.
QUESTION_SETS = STUDY.question_sets
REGISTERED = QUESTION_SETS.registered
TRAINING_SETS = [name for name, dataset in STUDY.datasets.items() if dataset.role == "training"]
PROMPTS = Prompts(STUDY.prompts)


def prompt_texts(*protocols, **domain):
    """What a job depends on that gives these texts to a policy."""
    return f"prompts:{PROMPTS.digest(*protocols, **domain)}"


# Of the rules that sample or ask the judge.
ENGINES = {STUDY.generation.engine.kind}
if STUDY.judge.kind == "llm":
    ENGINES.add(STUDY.judge.engine.kind)
# The file that says that a judge of the hub is here.
JUDGE_TEXTS = ""
if STUDY.judge.kind == "llm":
    JUDGE_TEXTS = (
        f"prompts:{JudgePrompts(STUDY.judge.prompts and Path(STUDY.judge.prompts)).digest}"
    )
JUDGE = ["results/judge.json"] if STUDY.judge.kind == "llm" and not STUDY.judge.local else []
# What they run in a process of its own.
ENGINE_CODE = ["cocal.generation.vllm_process.worker"] if "vllm" in ENGINES else []
GENERATION_ENVIRONMENT = "../../envs/vllm.yaml" if "vllm" in ENGINES else "../../envs/cocal.yaml"

# The environment of TRL's trainer holds vLLM where it samples there.
TRAINING_ENVIRONMENT = f"../../envs/{'train' if STUDY.policy.trl.vllm else 'cocal'}.yaml"
TRAIN = train_command(STUDY.policy.trl, f"{workflow.basedir}/workflow/scripts/accelerate.sh")


wildcard_constraints:
    dataset="|".join(map(re.escape, STUDY.datasets)),
    backbone="|".join(map(re.escape, STUDY.backbones)),
    algorithm="|".join(["base", *STUDY.policy.algorithms]),
    step=r"\d+",
    protocol=r"[a-z_]+",


def source_files(*names):
    """What says that the sources of these sets are here, if they are registered ones."""
    sources = dict.fromkeys(REGISTERED[name].name for name in names if name in REGISTERED)
    return [f"results/sources/{source}.json" for source in sources]


def source_of_set(wildcards):
    return source_files(wildcards.dataset)


def other_sets(wildcards):
    """The sets that this one is compared with when it is built."""
    return [
        f"results/questions/{name}.parquet"
        for name in QUESTION_SETS.built_before(wildcards.dataset)
    ]


def others_flag(wildcards, input):
    return ["--others", *input.others] if input.others else []


def set_settings(wildcards):
    return canonical(QUESTION_SETS.of(wildcards.dataset))


# The slices of the registry that jobs depend on. Functions, for a string with LaTeX's braces would be searched for
# wildcards.
def entry_of_source(wildcards):
    return canonical(REGISTRY.slice([wildcards.source]))


def entry_of_set(wildcards):
    return entries_of(wildcards.dataset)


def training_entries(wildcards):
    return entries_of(*TRAINING_SETS)


def entries_of(*names):
    sources = [REGISTERED[name].name for name in names if name in REGISTERED]
    return canonical(REGISTRY.slice(sources).content())


# Backbones by where they come from.
PRETRAINED = [n for n, backbone in STUDY.backbones.items() if backbone.source == "pretraining"]
EXISTING = [name for name in STUDY.backbones if name not in PRETRAINED]


def either(names):
    """Constraint of a wildcard that is one of these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


def trained_by(who, algorithms):
    """Constraint of {backbone}: those whose policies "trl" or "slime" trains, or that are "imported". Which they are
    depends on the algorithm, which follows in every path: {backbone}/{algorithm} or {backbone}/train-{algorithm}.
    """
    pairs = [
        rf"{re.escape(backbone)}(?=/(?:train-)?{algorithm}\b)"
        for backbone in STUDY.backbones
        for algorithm in STUDY.policy.algorithms
        if algorithm in algorithms and plan.trainer_of(STUDY, backbone, algorithm) == who
    ]
    return "|".join(pairs) or "(?!)"


def backbone_settings(wildcards):
    """The settings without what other rules are for: its name in print, and trainings that ran elsewhere."""
    backbone = STUDY.backbones[wildcards.backbone]
    return canonical(backbone.model_copy(update={"imported": {}, "label": wildcards.backbone}))


def imported(wildcards):
    """The training that another engine ran."""
    return STUDY.backbones[wildcards.backbone].imported[wildcards.algorithm]


def imported_stages(wildcards):
    return list(imported(wildcards).stages.values())


def imported_stage_flags(wildcards):
    return [f"{step}={folder}" for step, folder in imported(wildcards).stages.items()]


def stage_folders(wildcards):
    """The policies of all stages of a training."""
    folder = f"results/policies/{wildcards.backbone}/{wildcards.algorithm}"
    return [f"{folder}/step-{step}" for step in STUDY.policy.stages]


def imported_dumps(wildcards):
    return imported(wildcards).rollouts.path


def import_flags(wildcards):
    """How the dumps of another engine are read."""
    dumps = imported(wildcards).rollouts
    flags = [
        "--format",
        dumps.format,
        "--correctness",
        dumps.correctness,
        "--reward-key",
        dumps.reward_key,
    ]
    return [*flags, *(["--tokenise"] if dumps.tokenise else [])]


def exact_weights(wildcards):
    """Folder of the weights of every step, where they were kept."""
    algorithms = STUDY.backbones[wildcards.backbone].imported
    dumps = algorithms["grpo"].rollouts if "grpo" in algorithms else None
    return [dumps.weights] if dumps and dumps.weights else []


def reader_flags(wildcards, input):
    """Which checkpoints read the rollouts of the past."""
    if input.get("exact"):
        return ["--exact", *input.exact]
    return ["--checkpoints", *input.checkpoints]


def imported_cost(wildcards):
    training = STUDY.backbones[wildcards.backbone].imported["grpo"]
    return canonical({"seconds": training.seconds, "items": FINAL, "device": training.device})


def training_settings(wildcards):
    return canonical(STUDY.policy.for_training(wildcards.algorithm))


def rollout_settings(wildcards):
    return canonical(STUDY.policy.protocol(wildcards.algorithm))


def training_texts(wildcards):
    """Digest of the prompt texts of a training."""
    return prompt_texts(PROTOCOLS[wildcards.algorithm])


def imported_texts(wildcards):
    """Digest of the prompt texts of dumps without token ids."""
    return training_texts(wildcards) if imported(wildcards).rollouts.tokenise else ""


def response_texts(domain):
    """A function of the wildcards: the digest of the prompt texts that a job's responses and P(True) depend on."""

    def texts(wildcards):
        cell = cell_of(wildcards)
        planned = plan.response_plan(STUDY, *cell, wildcards.protocol, SETS[domain])
        return prompt_texts(*planned.formats(wildcards.protocol), domain=domain)

    return texts


def samples_of(*domains):
    """JSON: question set -> evaluated responses a question."""
    names = [name for domain in domains for name in SETS[domain]]
    return canonical({name: STUDY.datasets[name].samples for name in names})


def cell_of(wildcards):
    """Backbone, algorithm and step, as the functions of cocal.plan take them."""
    return wildcards.backbone, wildcards.algorithm, int(wildcards.step)


def response_plan(wildcards):
    return canonical(
        plan.response_plan(STUDY, *cell_of(wildcards), wildcards.protocol, SETS["mathematics"])
    )


def factual_response_plan(wildcards):
    return canonical(
        plan.response_plan(STUDY, *cell_of(wildcards), wildcards.protocol, SETS["factual"])
    )


def feature_settings(wildcards):
    return canonical(
        plan.feature_settings(STUDY, wildcards.algorithm, int(wildcards.step), "mathematics")
    )


def pooled_flags(wildcards):
    """The prompt's state is pooled too where pre-generation is evaluated; RLCR's task response ends early."""
    if wildcards.protocol == "rlcr":
        return "--task-response"
    methods = plan.methods_of(STUDY, *cell_of(wildcards))
    return (
        "--prompt" if wildcards.protocol == "answer" and "cocal-pre-generation" in methods else ""
    )


# Folder of the companions of each kind of experience.
EXPERIENCES = {"rollouts": "grpo", "resampled": "postcal", "prompts": "prompts"}


def companion_folder(backbone, experience):
    return f"results/companions/{backbone}/{EXPERIENCES[experience]}"


def companion_steps(experience):
    """A function of the wildcards: the prefixes and budgets that a backbone's companions are fitted on."""

    def steps(wildcards):
        return [str(p) for p in plan.companion_prefixes(STUDY, wildcards.backbone, experience)]

    return steps


def ablation_flags(wildcards):
    return ["--states", *plan.ablation_states(STUDY, wildcards.backbone)]


def evaluated_files(cell, room, suffix, protocol):
    """Responses or features of a checkpoint in one prompt format, of all sets that it is evaluated on."""
    backbone, algorithm, step = cell
    folder = f"results/{room}/{backbone}/{algorithm}/step-{step}/{protocol}"
    domains = plan.domains_of(STUDY, *cell)
    return [f"{folder}/{name}.{suffix}" for domain in domains for name in SETS[domain]]


def prediction_inputs(wildcards):
    cell = cell_of(wildcards)
    methods = plan.methods_of(STUDY, *cell)
    return {
        "responses": [
            file
            for protocol in plan.protocols_of(STUDY, *cell)
            for file in evaluated_files(cell, "responses", "parquet", protocol)
        ],
        "features": [
            file
            for protocol in plan.feature_protocols(STUDY, *cell)
            for file in evaluated_files(cell, "features", "zarr", protocol)
        ],
        "companions": [
            companion_folder(cell[0], experience) for experience in plan.experiences_of(methods)
        ],
    }


def prediction_flags(wildcards):
    """Where the inputs lie, as flags of `cocal predictions`."""
    cell = cell_of(wildcards)
    backbone, algorithm, step = cell
    place = f"{backbone}/{algorithm}/step-{step}"
    flags = ["--responses"]
    flags += [f"{p}=results/responses/{place}/{p}" for p in plan.protocols_of(STUDY, *cell)]
    experiences = plan.experiences_of(plan.methods_of(STUDY, *cell))
    if experiences:
        protocols = plan.feature_protocols(STUDY, *cell)
        flags += ["--features", *(f"{p}=results/features/{place}/{p}" for p in protocols)]
        flags += ["--companions"]
        flags += [f"{e}={companion_folder(backbone, e)}/steps-{step}" for e in experiences]
    return flags


def prediction_samples(wildcards):
    return samples_of(*plan.domains_of(STUDY, *cell_of(wildcards)))


def prediction_settings(wildcards):
    return estimators_with(plan.methods_of(STUDY, *cell_of(wildcards)))


def estimator_code(methods):
    """Digest of `cocal predictions` with the modules of these methods, which it imports by their names."""
    modules = {f"cocal.estimators.{METHODS[method].module}" for method in methods}
    return code_digest("cocal.commands.predictions", *sorted(modules))


def prediction_code(wildcards):
    return estimator_code(plan.methods_of(STUDY, *cell_of(wildcards)))


COMPANION_CODE = estimator_code(["cocal-binary"])


def answers_in_mathematics(wildcards):
    """GRPO's responses in the answer format, and their features."""
    cell = f"{wildcards.backbone}/grpo/step-{wildcards.step}/answer"
    return {
        "responses": [f"results/responses/{cell}/{name}.parquet" for name in SETS["mathematics"]],
        "features": [f"results/features/{cell}/{name}.zarr" for name in SETS["mathematics"]],
    }


def sweep_inputs(wildcards):
    return answers_in_mathematics(wildcards) | {
        "companions": companion_folder(wildcards.backbone, "rollouts")
    }


def sweep_companions(wildcards):
    """Companions of several steps, to be compared on one checkpoint's responses."""
    folder = companion_folder(wildcards.backbone, "rollouts")
    prefixes = plan.sweep_prefixes(STUDY, int(wildcards.step))
    return [f"rollouts={folder}/{prefix.folder}" for prefix in prefixes]


def estimators_with(methods):
    """The estimator settings of these methods alone: other methods, and what only they read, do not touch a file."""
    return canonical(plan.estimator_settings(STUDY, methods))


BUDGET_EXPERIENCES = plan.experiences_of(plan.budget_methods(STUDY))


def budget_inputs(wildcards):
    return answers_in_mathematics(wildcards) | {
        "companions": [companion_folder(wildcards.backbone, e) for e in BUDGET_EXPERIENCES]
    }


def budget_companions(wildcards):
    """Companions of matched budgets."""
    return [
        f"{e}={companion_folder(wildcards.backbone, e)}/{prefix.folder}"
        for e in BUDGET_EXPERIENCES
        for prefix in plan.budget_prefixes(STUDY)
    ]


def ablation_inputs(wildcards):
    return answers_in_mathematics(wildcards) | {
        "companions": companion_folder(wildcards.backbone, "rollouts"),
        "ablations": f"results/companions/{wildcards.backbone}/ablations",
    }


def ablation_companions(wildcards):
    """The default companions, and those that read other states."""
    backbone, steps = wildcards.backbone, f"steps-{wildcards.step}"
    folders = [f"{companion_folder(backbone, 'rollouts')}/{steps}"]
    folders += [
        f"results/companions/{backbone}/ablations/{states}/{steps}"
        for states in plan.ablation_states(STUDY, backbone)
    ]
    return [f"rollouts={folder}" for folder in folders]


def prediction_files(wildcards):
    return [
        f"results/predictions/{wildcards.backbone}/{algorithm}/step-{step}.parquet"
        for algorithm, step in plan.evaluated_cells(STUDY, wildcards.backbone)
    ]


def sweep_files(wildcards):
    """Predictions of companions of several steps. Only the main backbone has them."""
    compared = wildcards.backbone == MAIN and plan.sweep_methods(STUDY)
    steps = STUDY.policy.stages if compared else []
    folder = f"results/predictions/{wildcards.backbone}/grpo"
    return [f"{folder}/step-{step}-sweep.parquet" for step in steps]


def budget_files(wildcards):
    """Likewise, of matched budgets."""
    compared = wildcards.backbone == MAIN and layouts.shown_by(STUDY, "budgets")
    file = f"results/predictions/{wildcards.backbone}/grpo/step-{FINAL}-budgets.parquet"
    return [file] if compared else []


def cross_policy_files(wildcards):
    """Predictions for the responses of the policies that coupled methods trained."""
    return [
        f"results/predictions/{wildcards.backbone}/{algorithm}/step-{step}.parquet"
        for algorithm, step in plan.evaluated_cells(STUDY, wildcards.backbone)
        if algorithm in ("rlcr", "dcpo")
    ]


def macro_averages(wildcards):
    return canonical(plan.macro_averages(STUDY, wildcards.backbone))


def checked_experiences(backbone):
    methods = plan.methods_of(STUDY, backbone, "grpo", FINAL)
    return plan.experiences_of(methods)


def check_inputs(wildcards):
    backbone = wildcards.backbone
    experiences = checked_experiences(backbone)
    inputs = {
        "rollouts": f"results/rollouts/{backbone}/grpo",
        "questions": TRAINING_SET,
        "overlap": "results/checks/overlap.csv",
        "companions": [companion_folder(backbone, e) for e in experiences],
        "ablations": f"results/companions/{backbone}/ablations",
        "predictions": [
            *prediction_files(wildcards),
            *sweep_files(wildcards),
            *budget_files(wildcards),
            f"results/predictions/{backbone}/grpo/step-{FINAL}-ablations.parquet",
        ],
    }
    if "resampled" in experiences:
        inputs["resampled"] = f"results/rollouts/{backbone}/postcal"
    return inputs


def check_companions(wildcards):
    """All companions with the kind of experience they learnt from, as `cocal checks` wants them."""
    backbone = wildcards.backbone
    folders = [
        f"{e}={companion_folder(backbone, e)}/{prefix.folder}"
        for e in checked_experiences(backbone)
        for prefix in plan.companion_prefixes(STUDY, backbone, e)
    ]
    states = plan.ablation_states(STUDY, backbone)
    return folders + [
        f"ablations=results/companions/{backbone}/ablations/{s}/steps-{FINAL}" for s in states
    ]


def features_flag(wildcards, output):
    return f"--output-features {output.features}"


def resampled_flag(wildcards, input):
    return f"--resampled {input.resampled}" if "resampled" in input.keys() else ""


def timing_flags():
    timing = STUDY.timing
    flags = ["--samples", timing.samples, "--concurrent", timing.concurrent]
    return [*flags, "--predictions", timing.predictions, "--seed", timing.seed]


# The set whose questions are answered to time inference: the one with the most.
GENERATED = max(SETS["mathematics"], key=lambda name: STUDY.datasets[name].size)
# The backbone of tables/scale, if there is one.
SECOND = next((name for name in STUDY.backbones if name != MAIN), None)
ABLATION_CUBES = [f"results/metrics/{backbone}-ablations.nc" for backbone in STUDY.backbones]
FINAL_PREDICTIONS = [
    f"results/predictions/{MAIN}/{algorithm}/step-{step}.parquet"
    for algorithm, step in plan.evaluated_cells(STUDY, MAIN)
    if step in (0, FINAL)
]


def tables_of_study():
    """Names of results/tables/{name}.tex."""
    names = ["main", "cost", *(["ood"] if SETS["factual"] else []), "hyperparameters"]
    names += [f"main_step{step}" for step in EARLIER_STAGES]
    names += ["scale"] if SECOND else []
    names += ["token_aggregation", "pre_generation", "time_to_confidence"]
    return [name for name in names if layouts.shown_by(STUDY, name)]


FIGURES = [
    name
    for name in (
        *(
            "paradigms",
            "overview",
            "reliability",
            "training_dynamics",
            "cross_iteration",
            "cross_policy",
        ),
        *("early_steps", "reliability_all", "budgets", "composition", "layers"),
    )
    if layouts.shown_by(STUDY, name)
]


def laid_out(layout, *arguments):
    """A function of the wildcards: what a table or figure shows. It is asked only of those that are drawn: a study may
    have no method to show in another."""

    def layout_of_study(wildcards):
        return canonical(layout(STUDY, *arguments))

    return layout_of_study


def table_step(wildcards):
    """Step of results/tables/main{stage}.tex."""
    return int(wildcards.stage.removeprefix("_step") or FINAL)


def main_table_flags(wildcards):
    step = table_step(wildcards)
    return f"--metrics results/metrics/{MAIN}.nc --backbone {MAIN} --step {step}"


def main_table_layout(wildcards):
    return canonical(layouts.main_layout(STUDY, table_step(wildcards), WRONG_ROWS))


def cost_flags(wildcards, input):
    times = {name: file for name, file in input.items() if name != "checks"}
    return [f"--{name.replace('_', '-')}={file}" for name, file in times.items()]


def composition_flags():
    folders = [
        f"{companion_folder(MAIN, experience)}/{prefix.folder}"
        for experience in ("rollouts", "resampled")
        for prefix in plan.budget_prefixes(STUDY)
    ]
    metrics = f"results/metrics/{MAIN}-budgets.nc"
    return ["--metrics", metrics, "--step", FINAL, "--companions", *folders]
