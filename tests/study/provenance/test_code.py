"""The digest of code: what a result depends on changes the jobs that follow, what computes nothing changes none."""

import ast
import shutil
from pathlib import Path

import pytest

from cocal_study import stages
from cocal_study.provenance import code
from cocal_study.provenance.code import OUTSIDE, code_digest, definitions
from planned_jobs import jobs_of, study_of

STAGED = [f"cocal_study.stages.{file.stem}" for file in sorted(Path(stages.__path__[0]).glob("*.py"))]


@pytest.fixture
def package(repository, tmp_path, monkeypatch):
    """A copy of the packages that may be edited."""
    for name in code._PACKAGES:
        shutil.copytree(repository / "src" / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "_ROOT", tmp_path)
    yield tmp_path
    forget()


def forget():
    for cached in (code._module, code._looked_up, code.code_digest):
        cached.cache_clear()


def stated(study):
    """The parameters of each job of a study, by its label and what it makes."""
    forget()
    return {(job.label, output): job.parameters for output, job in jobs_of(study_of(study)).items()}


@pytest.fixture(scope="module")
def before():
    return {name: stated(name) for name in ("smoke", "paper")}


class Reworded(ast.NodeTransformer):
    """Adds words to docstrings, to the texts of errors and of the log and, in rooms of words, to every text."""

    def __init__(self, words_alone: bool):
        self._everything, self.count = words_alone, 0

    def visit_Constant(self, node):
        if self._everything and isinstance(node.value, str) and " " in node.value:
            return self._more(node)
        return node

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            self._more(node.value)
        elif code._is_log_call(node.value):
            self._texts(node)
        return self.generic_visit(node)

    def visit_Raise(self, node):
        self._texts(node)
        return self.generic_visit(node)

    def _texts(self, node):
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                self._more(part)

    def _more(self, node):
        node.value += " More words."
        self.count += 1
        return node


@pytest.mark.slow
def test_reworded_texts_in_every_room_rerun_nothing(before, package):
    """Docstrings and the texts of errors and logs everywhere; every text of the rooms that give and take words."""
    outside = {
        package.joinpath(*name.split("."))
        for name in (*OUTSIDE, "cocal.commands")
        if not name.startswith("cocal_study.config") and not name.endswith(".settings")
    }
    rooms = set()
    for file in package.rglob("*.py"):
        words_alone = any(place in (*file.parents, file.with_suffix("")) for place in outside)
        reworded = Reworded(words_alone)
        file.write_text(ast.unparse(reworded.visit(ast.parse(file.read_text()))))
        if reworded.count:
            rooms.add("/".join(file.relative_to(package).parts[:2]))
    assert len(rooms) > 20
    for study, stated_before in before.items():
        assert stated(study) == stated_before


TRAINS = {"train_grpo", "train_rlcr", "train_dcpo"}
READS = {"features", "factual_features", "prompt_features"}
SAMPLES = {"resample", "responses", "factual_responses"}
FITS = {f"{name} companions" for name in ("grpo", "postcal", "prompts", "ablations", "one-layer")} | {"online"}
PREDICTIONS = {"predictions", *(f"{kind} predictions" for kind in ("second", "sweep", "budgets", "ablations"))}
CUBES = {"metrics", *(f"{kind} metrics" for kind in ("second", "sweep", "budgets", "ablations", "cross-policy"))}
CUBES |= {"recalibrated_metrics"}
STATES = {*READS, *TRAINS, "resample", "latency"}
FIGURES_OF_BINS = {
    "table_verdict",
    "table_sampling",
    "figure_reliability",
    "figure_reliability_all",
    "figure_claims",
    "table_claims",
}
TABLES = {"questions", "online", "recalibrate", *TRAINS, *SAMPLES, *PREDICTIONS}
"""Jobs that write a table of rows."""
THREADS = {"backbone", "latency", "recalibrate", *TRAINS, *READS, *SAMPLES, *FITS, *PREDICTIONS}
CHANGES = {
    "questions": ("cocal_study/questions/synthetic.py", "problem", {"questions", "overlap", "backbone"}),
    "answers": ("cocal/answers/judge.py", "normalise_text", SAMPLES),
    "models": ("cocal_study/backbones/pretraining.py", "pretrain", {"backbone"}),
    "features": ("cocal/features/forward.py", "score", STATES),
    "generation": ("cocal_study/generation/transformers_engine.py", "open_transformers", {*SAMPLES, "latency"}),
    "metrics": ("cocal/metrics/calibration.py", "bin_index", {*CUBES, *FIGURES_OF_BINS, "online", "table_strata"}),
    "companion": ("cocal/companion/supervision.py", "in_validation", {*FITS, "recalibrate", "checks"}),
    "companions inside a training": ("cocal/companion/stepwise.py", "OnlineLearner", set()),
    "one method": ("cocal_study/methods/p_true.py", "estimate", {"predictions", "second predictions"}),
    "checks": ("cocal_study/checks/training.py", "check_disjoint", {"checks"}),
    "policy": ("cocal_study/policy/objectives.py", "step_rewards", TRAINS),
    "one figure": ("cocal_study/exhibits/overview.py", "draw", {"figure_overview"}),
    "store": ("cocal/store/files.py", "write_frame", TABLES),
    "runtime": ("cocal/runtime/machine.py", "fix_threads", THREADS),
    "what nothing uses": ("cocal_study/exhibits/drawing/diagrams.py", None, set()),
    "stages": ("cocal_study/stages/training.py", "Train", set()),
    "settings": ("cocal_study/config/parse.py", "validate", set()),
    "settings of companions": ("cocal/companion/settings.py", "CompanionSettings", set()),
    "locks": ("cocal/runtime/lock.py", "busy", set()),
    "preflight": ("cocal_study/resources/preflight.py", "check", set()),
}
"""Room -> module, definition, and the jobs of the smoke study that run again by what changed in them."""


def change(file, definition):
    """Change a number of a definition, or add a definition."""
    tree = ast.parse(file.read_text())
    added = ast.parse("number_of_a_test = 2").body
    if definition is None:
        tree.body += added
    else:
        (node,) = [node for node in tree.body if getattr(node, "name", None) == definition]
        node.body += added
    file.write_text(ast.unparse(tree))


def changed(before, study="smoke"):
    """The labels of the jobs of a study whose parameters are others than before."""
    return {label for (label, output), one in stated(study).items() if one != before[study][label, output]}


@pytest.mark.slow
@pytest.mark.parametrize("room", CHANGES)
def test_a_change_in_a_room_reruns_what_it_computes(before, package, room):
    file, definition, expected = CHANGES[room]
    change(package / file, definition)
    assert changed(before) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "figure"])
def test_tables_and_figures_follow_what_writes_them(before, package, kind):
    change(package / "cocal_study/exhibits/base/output.py", f"write_{kind}")
    assert changed(before) == {label for label, _ in before["smoke"] if label.startswith(f"{kind}_")}


USED = """
from functools import cache, lru_cache
LIMIT = 3
@cache
def use(rows: int, columns: int, /, shift=1, *, number=2) -> int:
    'Words.'
    return rows - columns + shift * number + LIMIT
class Kind(tuple):
    size: int = 4
def call():
    return use(1, 2), Kind
"""
PARTS = {
    "a default": ("shift=1", "shift=5"),
    "a default after a star": ("number=2", "number=5"),
    "the order of arguments": ("rows: int, columns: int", "columns: int, rows: int"),
    "a decorator": ("@cache", "@lru_cache"),
    "a constant": ("LIMIT = 3", "LIMIT = 5"),
    "an operator": ("rows - columns", "rows + columns"),
    "a base class": ("(tuple)", "(list)"),
    "the type of a field": ("size: int", "size: float"),
    "the value of a field": ("size: int = 4", "size: int = 5"),
}
"""Part of a module -> what stands there, and what is planted."""


def test_every_part_of_a_definition_counts(package):
    def told(old, new):
        assert old in USED
        (package / "cocal/of_a_test.py").write_text(USED.replace(old, new, 1))
        forget()
        return code_digest("cocal.of_a_test:call")

    before = told("Words", "Words")
    assert told("Words", "Other words") == told("rows: int", "rows: float") == told("-> int", "-> float") == before
    assert {part for part, edit in PARTS.items() if told(*edit) == before} == set()


@pytest.mark.parametrize("module", STAGED)
def test_every_module_that_a_stage_uses_is_in_the_digest(module):
    """The stages themselves are followed, so that nothing they import can be missing but what is outside."""
    covered = {one.module for one in definitions(module)}
    tree = ast.parse(code._file(module).read_text())
    imports = (node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    used = {name for name in imports if name.startswith(("cocal.", "cocal_study."))}
    assert {name for name in used if not name.startswith(("cocal.commands", *OUTSIDE))} <= covered


def test_a_name_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match=r"there is no module cocal\.gone"):
        code_digest("cocal.gone")
    with pytest.raises(ValueError, match=r"cocal_study\.planning\.plan defines no gone"):
        code_digest("cocal_study.planning.plan:gone")
