"""The digest of code: what a result depends on changes it, what computes nothing does not."""

import shutil

import pytest

from cocal.config import load_study
from cocal.exhibits.base.registry import exhibit_code
from cocal.store import code
from cocal.store.code import code_digest
from exhibits_by_name import exhibits_by_name

COMMANDS = [
    "backbone",
    "companions",
    "features",
    "metrics",
    "predictions",
    "questions",
    "resample",
    "responses",
    "train",
]
FIGURES = ["layers", "reliability", "overview"]
SHOWN = [*FIGURES, "main"]
"""Exhibits of the embedded study."""


@pytest.fixture(scope="module")
def study(repository):
    return load_study(repository / "config/config.yaml")


@pytest.fixture(scope="module")
def before(study):
    return _digests(study)


@pytest.fixture
def package(repository, tmp_path, monkeypatch):
    """A copy of the package that may be edited."""
    root = tmp_path / "cocal"
    shutil.copytree(repository / "src/cocal", root)
    monkeypatch.setattr(code, "_ROOT", root)
    _forget()
    yield root
    _forget()


def _forget():
    code._module.cache_clear()
    code._looked_up.cache_clear()
    code.code_digest.cache_clear()


def _digests(study):
    _forget()
    found = {name: code_digest(f"cocal.commands.{name}") for name in COMMANDS}
    found["p-true"] = code_digest("cocal.commands.predictions", "cocal.methods.p_true:estimate")
    found["look"] = code_digest("cocal.methods.p_true:METHOD")
    shown = exhibits_by_name(study)
    return found | {name: exhibit_code(shown[name]) for name in SHOWN}


def _edit(root, file, old, new):
    path = root / file
    text = path.read_text()
    assert old in text, "the test edits a line that is no longer there"
    path.write_text(text.replace(old, new, 1))


TRAINS = {"train"}
READS_STATES = {"features", "resample", "train"}
EDITS = {
    "a comment": ("policy/rewards.py", "def group_advantages", "# words\ndef group_advantages", set()),
    "a docstring": ("policy/rewards.py", '"""', '"""More words. ', set()),
    "an annotation": ("study/plan.py", "def domains_of(study: Study,", "def domains_of(study: object,", set()),
    "an error's text": ("companion/supervision.py", "rollouts must be in chron", "rollouts have to be in chron", set()),
    "a line of the log": ("commands/predictions.py", '"%s: %d rows"', '"%s: %d lines"', set()),
    "a settings model": ("config/evaluation.py", "passes: Count = 10", "passes: Count = 11", set()),
    "an estimator": (
        "methods/p_true.py",
        'responses.evaluated["p_true"]',
        '1 - responses.evaluated["p_true"]',
        {"p-true"},
    ),
    "a method's label": ("methods/p_true.py", 'label="P(True)"', 'label="P(T)"', {"look", "main"}),
    "a method's colour, which a diagram has too": (
        "methods/cocal_binary.py",
        "#3035c4",
        "#3035c5",
        {*SHOWN} - {"layers"},
    ),
    "a reward": ("policy/rewards.py", "invalid_confidence) ** 2)", "invalid_confidence) ** 4)", TRAINS),
    "the split": ("companion/split.py", "blake2b", "blake2s", {"companions"}),
    "the states": ("features/forward.py", "running = None", "running = False", READS_STATES),
    "a definition that nothing uses": (
        "exhibits/drawing/diagrams.py",
        "def page",
        "_NEW = 1\n\n\ndef page",
        set(),
    ),
    "a figure": (
        "exhibits/overview.py",
        "def draw() -> Figure:",
        "def draw(_new: int = 1) -> Figure:",
        {"overview"},
    ),
    "figures' style": ("exhibits/drawing/style.py", '"Creator": "CoCal"', '"Creator": "cocal"', {*FIGURES}),
    "the marks of tables": ("exhibits/typesetting/blocks.py", "kinds, strict=False", "kinds, strict=True", {"main"}),
    "the bins": ("metrics/calibration.py", 'side="left"', 'side="right"', {"metrics", "reliability"}),
}


def test_the_same_code_gives_the_same_digest(before, study, package):
    assert _digests(study) == before
    assert len(set(before.values())) == len(before)


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_the_digests_of_what_it_computes(before, study, package, edit):
    file, old, new, changed = EDITS[edit]
    _edit(package, file, old, new)
    assert {name for name, digest in _digests(study).items() if digest != before[name]} == changed


def test_code_is_followed_through_packages_and_imports_inside_functions(before, study, package):
    _edit(package, "store/frames.py", 'compression="zstd"', 'compression="snappy"')
    after = _digests(study)
    assert {name for name in before if after[name] != before[name]} >= {
        "train",
        "responses",
        "predictions",
        "questions",
    }
    assert after["metrics"] == before["metrics"], "it reads tables and writes none"


def test_a_name_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match=r"there is no module cocal\.gone"):
        code_digest("cocal.gone")
    with pytest.raises(ValueError, match=r"cocal\.study\.plan defines no gone"):
        code_digest("cocal.study.plan:gone")
