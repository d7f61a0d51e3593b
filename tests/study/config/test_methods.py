"""The registry of methods: a method is one module, of this package or of another one."""

import sys

import pytest

from cocal.cli import main
from cocal.errors import ConfigError
from cocal.metrics.settings import MetricSettings
from cocal.store import read_frame
from cocal_study.config import methods as registry
from cocal_study.config.evaluation import EstimatorSettings
from cocal_study.config.methods import METHODS, built_in, declarations, declared_baselines
from cocal_study.config.parse import parse_settings
from cocal_study.config.study import load_study
from cocal_study.exhibits.main import Layout
from cocal_study.provenance import code
from cocal_study.provenance.code import code_digest
from cocal_study.store.contracts import PREDICTIONS
from cocal_study.store.datasets import write_dataset
from evaluated_study import QUESTIONS, SAMPLES, EvaluatedStudy, command, write_responses
from exhibits_by_name import make
from sample_predictions import metric_cube, sample_predictions

COIN = '''"""Coin: a coin is tossed for every response."""

from cocal_study.config.method import Method

METHOD = Method(
    name="coin",
    label="Coin toss",
    position=15,
    group=1,
    prompt_format="answer",
    policy="grpo",
    estimate=f"{__name__}:estimate",
    colour="#123456",
    marker="*",
)


def estimate(methods, responses, inputs):
    from cocal_study.methods.base.responses import Estimator
    from fair.heads import HEADS

    return {Estimator(method.name): HEADS[responses.evaluated["response_id"] % 2] for method in methods}
'''
SHOWN = ["verbal", "coin", "cocal-binary"]
HEADS = "import numpy as np\n\nHEADS = np.array([0.25, 0.75])\nUNUSED = 1\n"


def _install(folder, modules, place="fair"):
    """A package `fair` of these modules with an entry point, as pip would leave it."""
    (folder / "fair").mkdir(parents=True)
    for name, text in {"__init__": "", **modules}.items():
        (folder / "fair" / f"{name}.py").write_text(text)
    about = folder / "fair_methods-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fair-methods\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[cocal_study.methods]\ntosses = {place}\n")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs modules as another package; they are gone after the test."""

    def forget():
        registry._found.cache_clear()
        for cached in (code._module, code._looked_up):
            cached.cache_clear()
        # each test installs another package of this name, and Python would give it the one that it has imported before
        for name in [name for name in sys.modules if name.split(".")[0] == "fair"]:
            del sys.modules[name]

    def installed(place="fair", **modules):
        _install(tmp_path / "site", modules, place)
        monkeypatch.syspath_prepend(tmp_path / "site")
        forget()
        return tmp_path / "site/fair"

    yield installed
    monkeypatch.undo()
    forget()


@pytest.fixture
def coin(install):
    return install(coin=COIN, heads=HEADS)


def test_another_packages_method_is_predicted_and_shown(coin, tmp_path):
    study = EvaluatedStudy(tmp_path)
    write_responses(tmp_path / "answer", study.frame)
    settings = EstimatorSettings(methods=("coin", "token-probability")).model_dump_json()
    assert main(command(tmp_path, tmp_path / "x.parquet", "--settings", settings)) == 0
    table = read_frame(tmp_path / "x.parquet", PREDICTIONS)
    assert list(table["method"].unique()) == ["coin", "token-probability"]
    mine = table[table["method"] == "coin"]
    assert len(mine) == QUESTIONS * SAMPLES
    assert mine["confidence"].tolist() == [0.25, 0.75] * QUESTIONS

    predictions = sample_predictions("amc", methods=SHOWN)
    cube = metric_cube(predictions, MetricSettings(resamples=0), {"macro": ["amc"]})
    write_dataset(tmp_path / "m.nc", cube, {"digest": "aaaa"})
    layout = {"study": "s", "caption": "c", "backbone": "tiny-a", "backbone_label": "Tiny A", "methods": SHOWN}
    layout |= {"datasets": [{"name": "amc", "label": "AMC"}], "step": 60}
    table = Layout(**layout, macro="macro")
    assert make("main", tmp_path / "m.tex", table, metrics=tmp_path / "m.nc") == 0
    assert "Coin toss & " in (tmp_path / "m.tex").read_text()


def test_configuration_admits_it_and_no_study_changes(repository, coin):
    path = repository / "config/config.yaml"
    assert "coin" not in load_study(path).estimators.methods
    assert load_study(path).estimators.methods == built_in()
    assert load_study(path, {"estimators": {"methods": ["coin"]}}).estimators.methods == ("coin",)
    with pytest.raises(ConfigError) as caught:
        load_study(path, {"estimators": {"methods": ["verbal", "coyn"]}})
    assert "estimators.methods.1: " in str(caught.value)
    assert "there is no method 'coyn'; did you mean 'coin'? there are base-verbal, verbal, coin" in str(caught.value)


def test_its_code_is_digested(coin):
    def digests():
        code._module.cache_clear()
        code._looked_up.cache_clear()
        code.code_digest.cache_clear()
        return code_digest("fair.coin:estimate"), code_digest(*declarations(["coin"]))

    estimate, look = digests()
    (coin / "heads.py").write_text(HEADS.replace("UNUSED = 1", "UNUSED = 2"))
    assert digests() == (estimate, look)
    (coin / "heads.py").write_text(HEADS.replace("0.75", "0.5"))
    assert digests()[0] != estimate
    assert digests()[1] == look
    (coin / "heads.py").write_text(HEADS)
    (coin / "coin.py").write_text(COIN.replace("Coin toss", "Coin"))
    assert digests()[0] == estimate
    assert digests()[1] != look


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ({"coin": COIN.replace("#123456", "red")}, r"[\s\S]*colour\n.*should match pattern"),
        ({"coin": COIN.replace("group=1", "experience='rollouts'")}, r"[\s\S]*a companion needs both"),
        ({"coin": "METHOD = 1 / 0"}, r"the methods of fair cannot be loaded; .*\(ZeroDivisionError: division"),
        ({"coin": "METHOD = 1"}, r"fair\.coin: METHOD is not a cocal_study\.config\.method\.Method but 1"),
        ({"coin": COIN.replace('"coin"', '"rlcr"')}, r"coin declares a method with the name 'rlcr', as cocal_st"),
        (
            {"coin": COIN.replace("Coin toss", "RLCR")},
            r"coin declares a method with the label 'RLCR', as cocal_study\.m",
        ),
        (
            {"coin": COIN.replace("#123456", "#74297c").replace('"*"', '"P"')},
            "with the look '#74297c P', as cocal_study",
        ),
        ({"__init__": "import gone"}, "No module named 'gone'"),
    ],
)
def test_a_broken_package_is_named(install, modules, message):
    install(**modules)
    with pytest.raises(ConfigError, match=rf"^entry point 'tosses' of fair-methods: .*{message}"):
        len(METHODS)
    with pytest.raises(ConfigError, match="entry point 'tosses' of fair-methods"):
        parse_settings(EstimatorSettings, '{"methods": ["verbal"]}')


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        (
            'method="cion", score="fair.coin:estimate"',
            r"fair\.coin: the baseline 'toss' scores responses of 'cion', no",
        ),
        ('method="coin"', "the baseline 'toss' needs one of score, learn and reader"),
        ('method="coin", score="a:b", columns=("logprob",)', "responses have no column 'logprob'; they have dataset, "),
        (
            'method="coin", score="a:b", columns=("exact_match",)',
            "the baseline 'toss' may not read 'exact_match' of the",
        ),
        ('method="coin", score="a:b", columns=("best_entropy",)', "'toss' reads 'best_entropy', which rollouts do not"),
    ],
)
def test_a_baseline_names_a_method_and_one_way_to_its_scores(install, baseline, message):
    declared = f"BASELINES = (Baseline(name='toss', position=3, {baseline}),)\n"
    declared = f"from cocal_study.config.method import Baseline\n\n{declared}"
    install(coin=f"{COIN}\n\n{declared}", heads=HEADS)
    with pytest.raises(ConfigError, match=message):
        declared_baselines()


def test_a_method_that_reads_what_responses_do_not_keep_is_left_out_or_refused(repository, install):
    """Left out where a study takes all methods of the package, refused where it names the method."""
    install(coin=COIN.replace("group=1", "group=1, columns=('best_entropy',)"), heads=HEADS)
    path, named = repository / "config/config.yaml", {"estimators": {"methods": ["verbal", "coin"]}}
    with pytest.raises(ConfigError, match=r"estimators.methods: coin reads .* that generation.best_logprobs keeps"):
        load_study(path, named)
    assert load_study(path, named | {"generation": {"best_logprobs": 5}}).methods == ["verbal", "coin"]
    study = load_study(path)
    without = study.estimators.model_copy(update={"methods": ("coin", "verbal")})
    assert study.model_copy(update={"estimators": without}).methods == ["verbal"]


def test_an_entry_point_may_name_a_single_module(install):
    install("fair.coin", coin=COIN, heads=HEADS)
    assert METHODS["coin"].label == "Coin toss"
