"""Configuration: studies are valid, mistakes are named, the schema is in step with the model."""

import json

import pytest
import yaml

from cocal.companion.settings import CompanionSettings
from cocal.errors import ConfigError
from cocal_study.config.methods import built_in
from cocal_study.config.parse import parse_settings
from cocal_study.config.study import Study, load_study, study_schema
from flat_keys import flat

STUDIES = ["config.yaml", "smoke.yaml", "rehearsal.yaml", "single-gpu.yaml"]


@pytest.mark.parametrize("name", STUDIES)
def test_studies_are_valid_and_point_to_the_schema(repository, name):
    path = repository / "config" / name
    assert load_study(path).study
    assert path.read_text().startswith("# yaml-language-server: $schema=schema/study.schema.json\n")


def test_schema_file_is_in_step_with_the_model(repository):
    """It need not offer a method that has just been added."""
    written = (repository / "config/schema/study.schema.json").read_text()
    added = {f'"{name}"' for name in built_in() if f'"{name}"' not in written}
    current = [line.rstrip(",") for line in study_schema().splitlines() if line.strip(" ,") not in added]
    assert [line.rstrip(",") for line in written.splitlines()] == current, "run `make schema`"


def test_a_study_that_is_based_on_another_says_what_differs(repository, tmp_path):
    """Through several files, each of which is found from the folder of the one that names it."""
    (tmp_path / "more").mkdir()
    whole, second, third = repository / "config/config.yaml", tmp_path / "second.yaml", tmp_path / "more/third.yaml"
    second.write_text(
        f"based_on: {whole}\nstudy: second\nbackbones: {{small: null}}\n"
        "companion: {passes: 7, batch_size: 9}\nsecond_sampling: null\n"
    )
    third.write_text("based_on: ../second.yaml\nstudy: third\ncompanion: {batch_size: 11}\n")
    expected = yaml.safe_load(whole.read_text())
    del expected["backbones"]["small"], expected["second_sampling"]
    expected["study"] = "third"
    expected["companion"] |= {"passes": 8, "batch_size": 11}
    assert load_study(third, {"companion": {"passes": 8}}) == Study.model_validate(expected)
    second.unlink()
    with pytest.raises(ConfigError, match=r"second\.yaml: no such configuration file"):
        load_study(third)


def test_the_card_study_has_the_conditions_of_the_embedded_one(repository):
    """What the size of its policy forbids is another, and what its tables do not read is left out."""
    studies = [load_study(repository / f"config/{name}.yaml") for name in ("config", "card")]
    ours, theirs = (flat(study.model_dump(mode="json", exclude={"backbones", "reports"})) for study in studies)
    assert list(studies[1].backbones) == ["smollm2"]
    lengths = {f"datasets.{name}.max_response_length" for name in studies[0].datasets if name != "syn-train"}
    lengths |= {f"policy.max_response_length.{name}" for name in ("grpo", "rlcr", "dcpo")}
    size = {"numerics", "features.layers", "features.dtype", "companion.widths", "policy.learning_rate"}
    machine = {"generation.engine.batch_size", "timing.samples", "timing.concurrent", "policy.micro_batch"}
    more = {"datasets.syn-train.source.questions", "policy.questions_per_step"}
    less = {"policy.algorithms", "policy.stages", "policy.checkpoint_every"}
    changed = {key for key in ours | theirs if ours.get(key) != theirs.get(key)}
    assert changed == lengths | size | machine | more | less | {"study", "caption"}
    asked = theirs["policy.questions_per_step"] * theirs["policy.steps"]
    assert asked <= 2 * theirs["datasets.syn-train.source.questions"]


def _facts_alone(content):
    content["datasets"] = {name: content["datasets"][name] for name in ("syn-train", "syn-squad")}
    content["reports"]["reliability_dataset"] = "syn-squad"


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda c: c.update(compnion={}), ["compnion: unknown key; did you mean 'companion'?"]),
        (lambda c: c["policy"].update(learning_rat=1), ["policy.learning_rat: unknown key", "'learning_rate'"]),
        (lambda c: c["policy"].update(stages=[40, 80]), ["policy", "stages must rise and end with steps = 120"]),
        (lambda c: c["policy"].update(algorithms=["rlcr"]), ["policy.algorithms lacks grpo"]),
        (lambda c: c["policy"].update(dataset="syn-amc23"), ["policy.dataset", "role: training"]),
        (lambda c: c["datasets"]["syn-train"].update(domain="factual"), ["is factual: only mathematics has rewards"]),
        (lambda c: c["companion"].update(validation_share=1.5), ["companion.validation_share", "1.5"]),
        (lambda c: c["datasets"].update({"A B": c["datasets"]["syn-amc23"]}), ["datasets.A B"]),
        (lambda c: c["reports"].update(reliability_dataset="gone"), ["reports.reliability_dataset", "gone"]),
        (lambda c: c["reports"].update(reliability_seed=7), ["reports.reliability_seed = 7", "companion.seeds"]),
        (lambda c: c["reports"].update(budgets=[1, 60]), ["reports.budgets must rise and end with step 120"]),
        (lambda c: c["reports"].update(early_steps=[5, 10]), ["reports.early_steps must rise and end with step 40"]),
        (lambda c: c.pop("policy"), ["policy", "required"]),
        (
            lambda c: c["datasets"]["syn-squad"].update(max_response_length=60),
            ["datasets.syn-squad.max_response_length = 60", "responses of up to 80 tokens"],
        ),
        (lambda c: c["features"].update(layers=[0, 3]), ["features.layers = [0, 3]: small has blocks 0 to 1"]),
        (_facts_alone, ["no evaluation set of mathematics"]),
    ],
)
def test_mistakes_name_file_and_key(repository, tmp_path, edit, named):
    content = yaml.safe_load((repository / "config/config.yaml").read_text())
    edit(content)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as caught:
        load_study(path)
    for part in [str(path), *named]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: a\nseed: 1\nseed: 2\n", r"study.yaml.*'seed' is given twice \(line 3\)"),
        ("a: [1, ", "not valid YAML"),
        ("- a", "expected a mapping of keys, found list"),
        (None, "no such configuration file"),
    ],
)
def test_files_that_are_no_study(tmp_path, text, message):
    path = tmp_path / "study.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_study(path)


def test_settings_from_json_file_and_defaults(tmp_path):
    (tmp_path / "companion.yaml").write_text("passes: 3\n")
    assert parse_settings(CompanionSettings, str(tmp_path / "companion.yaml")).passes == 3
    assert parse_settings(CompanionSettings, json.dumps({"passes": 4})).passes == 4
    assert parse_settings(CompanionSettings, None) == CompanionSettings()
