"""Rollouts are written while the next are computed: nothing counts as written before it stands on disk."""

import threading

import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal.rollouts import recorded
from cocal.store import write_frame
from cocal.store.run_folder import RunFolder
from cocal_study.planning.costs import Cost, device_name
from cocal_study.policy.recorder import Outputs, RolloutRecorder, StepSeconds
from evaluated_study import responses


@pytest.fixture
def recorder(tmp_path) -> RolloutRecorder:
    return RolloutRecorder(RunFolder(tmp_path / "run", "digest"), 2, {})


def _rollouts(step: int) -> pd.DataFrame:
    return responses().assign(step=step)


def test_a_step_is_missing_until_it_is_written_which_an_error_does_not_stop(recorder, monkeypatch):
    held = threading.Event()

    def write(*arguments):
        assert held.wait(60)
        write_frame(*arguments)

    def interrupted():
        recorder.write(_rollouts(1))
        assert recorder.missing() == [1, 2]
        threading.Timer(0.2, held.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(recorded, "write_frame", write)
    with pytest.raises(KeyboardInterrupt), recorder:
        interrupted()
    assert recorder.missing() == [2]


def test_neither_a_missing_step_nor_a_write_that_failed_is_published(recorder, tmp_path):
    outputs = Outputs({}, tmp_path / "rollouts")
    for step in (1, 2):
        with pytest.raises(ContractError, match=rf"rollouts of step {step} are missing; "):
            recorder.publish(outputs, items=2)
        recorder.write(_rollouts(step) if step == 1 else _rollouts(step).drop(columns="reward_task"))
    with pytest.raises(ContractError, match="reward_task"):
        recorder.publish(outputs, items=2)
    assert not (tmp_path / "rollouts").exists()


def test_a_repeated_step_counts_once_and_no_pass_is_no_cost(tmp_path):
    for step, seconds in ((1, 1.0), (2, 5.0)):
        StepSeconds(tmp_path / "seconds.json").record(step, seconds, states=3.0)
    resumed = StepSeconds(tmp_path / "seconds.json")
    resumed.record(2, 2.0, states=0.5)
    resumed.record(3, 4.0)
    assert resumed.cost(items=3) == Cost(seconds=7.0, items=3, states_seconds=3.5, device=device_name())
    without = StepSeconds(tmp_path / "other.json")
    without.record(1, 2.0)
    assert without.cost(items=1).states_seconds is None
    for step in (10, 9):
        without.record(step, 1.0, difference=(0.01 * step, 0.5))
    assert StepSeconds(tmp_path / "other.json").cost(items=3).vllm_differences == ((0.09, 0.5), (0.1, 0.5))
