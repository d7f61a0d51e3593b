"""Tables of times: units, decimals, ratios, devices."""

import pytest

from cocal.errors import ContractError
from cocal_study.exhibits import cost
from cocal_study.exhibits.typesetting.latex import latex
from cocal_study.exhibits.typesetting.wording import LONG, SHORT, ratios, times
from cocal_study.planning.costs import Cost, job_seconds
from sample_tables import CPU, GPU, cost_layout, costs, latency

NOTHING = float("nan")


@pytest.mark.parametrize(
    ("seconds", "units", "unit", "shown"),
    [
        ([7200.0, 5400.0], LONG, "h", ["2.00", "1.50"]),
        ([3599.0, 60.0], LONG, "min", ["59.98", "1.00"]),
        ([59.5, NOTHING, 0.25], LONG, "s", ["59.500", "–", "0.250"]),
        ([1.0, 0.05], SHORT, "s", ["1.0000", "0.0500"]),
        ([0.000199], SHORT, "ms", ["0.199"]),
        ([7200.0], SHORT, "s", ["7,200.00"]),
    ],
)
def test_one_unit_a_column_by_its_longest_time(seconds, units, unit, shown):
    found, texts = times(seconds, units)
    assert found == unit
    assert texts == shown


def test_ratios_have_a_decimal_where_one_is_small():
    assert ratios([1507.6, 10.4]) == ["1508×", "10×"]
    assert ratios([1507.6, 9.96]) == ["1507.6×", "10.0×"]


def cost_tex(made) -> str:
    return latex(cost.grid(cost.prepare(cost_layout(), **made), cost_layout(), **made))


def test_passes_over_states_are_shown_apart():
    """CoCal's within the training, PostCal's after the sampling; they are no part of the columns beside them."""
    made = costs(
        training=Cost(seconds=60012.0, items=60, states_seconds=2700.0, device=GPU),
        sampling=Cost(seconds=51192.0, items=245760, states_seconds=3600.0, device=GPU),
    )
    text = cost_tex(made)
    assert r"& \multicolumn{4}{c}{Training}" in text
    assert r"& LLM & Sampling & States & MLP & LLM & MLP \\" in text
    assert r"& (h) & (h) & (h) & (s) & (s) & (ms) \\" in text
    assert r"CoCal & 16.67 & -- & 0.750 & 15.10 & 0.372 & 0.199 \\" in text
    assert r"PostCal & 16.67 & 14.22 & 1.000 & 14.86 & 0.372 & 0.199 \\" in text
    assert r"SelfConsis & 16.67 & -- & -- & -- & 3.225 & -- \\" in text


def test_how_many_questions_were_asked_for_pools_is_told():
    assert "each to 40 of them; the companion" in cost_tex(costs(latency=latency(pool_questions=40)))
    assert "each; the companion" in cost_tex(costs())


def test_whole_jobs_that_methods_share_are_told_in_their_own_units(tmp_path):
    jobs = {
        "base_job": 5460.0,
        "answers_job": 96.3,
        "states_job": job_seconds(timed_job(tmp_path, "s\th:m:s\n7.25\t-\n")),
    }
    text = cost_tex(costs(**jobs))
    assert "with their start: pre-training of the base policy 1.52 h, answers of the final policy" in text
    assert "evaluation questions 1.60 min and states of these answers 7.25 s. " in text
    numbers = cost.prepare(cost_layout(), **costs(**jobs))
    assert {name: set(numbers[name]) for name in jobs} == {name: {seconds} for name, seconds in jobs.items()}
    assert "Whole jobs" not in cost_tex(costs())


@pytest.mark.parametrize("content", ["s\th:m:s\n", "h:m:s\n0:00:07\n", "s\nNA\n"])
def test_a_benchmark_file_without_seconds_is_refused(tmp_path, content):
    with pytest.raises(ContractError, match=r"job\.tsv: not a readable benchmark file"):
        job_seconds(timed_job(tmp_path, content))


def timed_job(folder, content: str):
    (file := folder / "job.tsv").write_text(content)
    return file


def test_several_devices_are_told_apart():
    made = costs(fit=Cost(seconds=75.0, items=10, device=CPU), postcal_fit=Cost(seconds=5.0, items=10, device=CPU))
    text = cost_tex(made)
    assert (
        f"Measured on {GPU} (LLM training, sampling and inference); {CPU} (fit of CoCal's companions and fit of "
        "PostCal's companions). Measured times"
    ) in text
