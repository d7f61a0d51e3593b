"""The runner of the benchmarks collects them, writes a page and names what fails. Nothing is timed."""

import importlib
import os
import sys

import pytest


@pytest.fixture
def runner(repository, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    monkeypatch.delitem(sys.modules, "run", raising=False)
    return importlib.import_module("run")


def add(folder, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(f"from timing import row\n\n\ndef measure(quick):\n    {body}\n")


def test_a_run_writes_what_it_measured(runner, repository, tmp_path):
    names = set(runner.found(repository / "benchmarks"))
    assert ({"metrics", "extraction"} <= names, {"run", "paper", "timing"} & names) == (True, set())
    add(tmp_path, "first", "return [row('fits', '100 rows', 0.0025, note=str(quick))]")
    second = "row('sums', '100 rows', 0.0025, 'a loop', 0.5), row('sums', '200 rows', 75.0, 'a loop', 3.0, ratio=0.5)"
    add(tmp_path, "second", f"return [{second}]")
    output = tmp_path / "summary.md"
    assert runner.main(["--quick", "--output", str(output)], tmp_path) == 0
    written = output.read_text()
    assert "| 100 rows | 2.5 ms | a loop | 500 ms | **200x** |  |\n| 200 rows | 75 s |" in written
    assert "## Fits" in written
    assert "| 100 rows | 2.5 ms |  |  |  | True |" in written
    assert runner.main(["--only", "second", "--output", str(output)], tmp_path) == 0
    assert "## Fits" not in output.read_text()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [1 / 0]", "benchmark broken failed: ZeroDivisionError: division by zero"),
        ("import os; os._exit(3)", "benchmark broken failed: BrokenProcessPool"),
    ],
)
def test_a_failure_is_named_and_nothing_is_written(runner, tmp_path, capsys, body, message):
    add(tmp_path, "broken", body)
    assert runner.main(["--output", str(tmp_path / "summary.md")], tmp_path) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "summary.md").exists()


def test_the_time_of_a_run_is_told_by_rule(runner, tmp_path):
    """Two jobs side by side count once for the run, and twice for their rule."""
    overhead = importlib.import_module("overhead")
    for rule, name, seconds, end in (("fit", "a", 4.0, 110), ("fit", "b", 6.0, 112), ("draw", "c", 3.0, 120)):
        file = tmp_path / rule / f"{name}.tsv"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"s\th:m:s\tcpu_time\n{seconds}\t0:00:00\t{seconds / 2}\n")
        os.utime(file, (end, end))
    jobs = overhead.jobs_of(tmp_path)
    assert jobs["began"].tolist() == [117, 106, 106]
    assert overhead.report(jobs, 25, 11.4).splitlines()[2:] == [
        "| fit | 2 | 10.0 | 5.0 |",
        "| draw | 1 | 3.0 | 1.5 |",
        "| all | 3 | 13.0 | 6.5 |",
        "",
        "25 s by the clock, 9 s with a job or several, 16 s without; 11 s of processors, Snakemake's among them.",
    ]
