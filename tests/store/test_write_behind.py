"""Rollouts are written while the next are computed: nothing is lost, and nothing is marked before it stands on disk."""

import threading

import pandas as pd
import pytest

from cocal.errors import ContractError
from cocal.policy import recorder as recorder_module
from cocal.policy.recorder import Outputs, RolloutRecorder
from cocal.store import write_frame
from cocal.store.run_folder import RunFolder, WriteBehind
from evaluated_study import responses


@pytest.fixture
def held(monkeypatch) -> threading.Event:
    """No table is written before this event."""
    event = threading.Event()

    def write(*arguments):
        assert event.wait(60), "nobody let the write go on"
        write_frame(*arguments)

    monkeypatch.setattr(recorder_module, "write_frame", write)
    return event


@pytest.fixture
def recorder(tmp_path) -> RolloutRecorder:
    return RolloutRecorder(RunFolder(tmp_path / "run", "digest"), 2, {})


def _rollouts(step: int) -> pd.DataFrame:
    return responses().assign(step=step)


def test_the_caller_goes_on_while_a_step_is_written(recorder, held):
    recorder.write(_rollouts(1))
    assert recorder.missing() == [1, 2]
    held.set()
    recorder.wait()
    assert recorder.missing() == [2]


def test_no_more_than_one_step_waits(recorder, held):
    recorder.write(_rollouts(1))
    second = threading.Thread(target=recorder.write, args=(_rollouts(2),))
    second.start()
    second.join(0.2)
    assert second.is_alive(), "two steps would lie in memory"
    held.set()
    second.join(60)
    recorder.wait()
    assert recorder.missing() == []


def test_what_a_write_raised_reaches_the_caller_once(recorder):
    recorder.write(_rollouts(1).drop(columns="reward_task"))
    with pytest.raises(ContractError, match="reward_task"):
        recorder.write(_rollouts(2))
    recorder.wait()
    assert recorder.missing() == [1, 2], "the step after a failed one is not written"


def test_what_was_given_before_an_error_is_written(recorder, held):
    def interrupted():
        recorder.write(_rollouts(1))
        threading.Timer(0.2, held.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), recorder:
        interrupted()
    assert recorder.missing() == [2]


def test_a_last_write_that_failed_is_not_published(recorder, tmp_path):
    recorder.write(_rollouts(1))
    recorder.write(_rollouts(2).drop(columns="reward_task"))
    with pytest.raises(ContractError, match="reward_task"):
        recorder.publish(Outputs({}, tmp_path / "rollouts"), items=2)
    assert not (tmp_path / "rollouts").exists()


def test_waiting_for_nothing_ends_at_once():
    WriteBehind().wait()
