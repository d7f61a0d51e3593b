"""Question sets in a user's file: read, planned, compared and named in errors."""

import json
import os

import pandas as pd
import pytest
import yaml

from cocal.cli import main
from cocal.errors import ConfigError, ContractError
from cocal.store import read_frame
from cocal_study.config.data import DatasetSettings, FactsWorldSettings, FileSettings
from cocal_study.config.parse import validate
from cocal_study.config.study import Study
from cocal_study.questions.build import build_questions
from cocal_study.questions.loaders import Question, counted, load_files
from cocal_study.store.contracts import QUESTIONS
from smoke_study import planned, snakemake

RECORDS = [
    {"question": " What is 2 + 2? ", "answer": 4, "id": "a", "aliases": ["four", "4", "four"], "level": 2},
    {"question": "What is 025?", "answer": "025", "question_id": 7, "subject": "octal", "solution": "not read"},
    {"question": "What is a half?", "answer": 0.5, "aliases": None, "subject": None},
]
QUESTIONS_OF = [
    Question("a", "What is 2 + 2?", "4", ("four",), "", 2),
    Question("7", "What is 025?", "25", (), "octal", 0),
    Question("00002", "What is a half?", "0.5"),
]


def _lines(records):
    return "".join(f"{json.dumps(record)}\n\n" for record in records)


def _source(path, **more):
    return FileSettings(kind="file", path=str(path), **more)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(_lines(RECORDS))
    return path


@pytest.fixture
def content(repository):
    """The smoke study's file."""
    return yaml.safe_load((repository / "config/smoke.yaml").read_text())


def test_json_lines_json_and_parquet_are_read(tmp_path, mine):
    (tmp_path / "mine.json").write_text(json.dumps(RECORDS))
    texts = [{key: str(value) if key == "answer" else value for key, value in record.items()} for record in RECORDS]
    pd.DataFrame([{"question": r["question"], "answer": r["answer"]} for r in texts]).to_parquet(tmp_path / "m.parquet")
    assert load_files({"x": _source(mine)}) == {"x": QUESTIONS_OF}
    assert load_files({"x": _source(tmp_path / "mine.json")}) == {"x": QUESTIONS_OF}
    (found,) = load_files({"x": _source(tmp_path / "m.parquet")}).values()
    assert [(q.question, q.answer) for q in found] == [(q.question, q.answer) for q in QUESTIONS_OF]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_lines([*RECORDS, {"question": "?"}]), r"mine\.jsonl: line 7: field 'answer' is missing; correct or delete"),
        (_lines([RECORDS[0], {"question": " ", "answer": 1}]), "line 3: field 'question' is empty"),
        (_lines([RECORDS[0] | {"level": -1}]), "line 1: field 'level' is -1: .*greater than or equal to 0"),
        (_lines([RECORDS[0] | {"aliases": ["4", True]}]), r"line 1: field 'aliases\.1' is True, neither a text nor"),
        (_lines([RECORDS[0] | {"answer": float("nan")}]), "line 1: field 'answer' is nan, neither a text nor a number"),
        (_lines([RECORDS[0], RECORDS[0]]), "line 3: question_id 'a' is also in line 1; ids must differ"),
    ],
)
def test_errors_name_file_line_and_field(mine, text, message):
    mine.write_text(text)
    with pytest.raises(ContractError, match=message):
        load_files({"x": _source(mine)})


def test_a_study_counts_the_questions_of_its_files(content, mine):
    def study(**source):
        content["datasets"]["smoke-small"]["source"] = {"kind": "file", "path": str(mine), **source}
        return validate(Study, content, "study.yaml")

    assert study().datasets["smoke-small"].size is None
    assert counted(study()).datasets["smoke-small"].size == 3
    assert counted(study(limit=2)).datasets["smoke-small"].size == 2
    with pytest.raises(ConfigError, match=r"datasets\.smoke-small: source\.questions = 4, but .*mine\.jsonl has 3"):
        counted(study(questions=4))
    with pytest.raises(ConfigError, match=r"datasets\.smoke-small: source\.limit = 4, but .*mine\.jsonl has only 3"):
        counted(study(limit=4))
    with pytest.raises(ConfigError, match=r"datasets\.smoke-small: source\.path = gone\.jsonl: there is no such file"):
        counted(study(path="gone.jsonl"))
    with pytest.raises(ConfigError, match=r"datasets\.smoke-small\.source\.file\.path: String should match pattern"):
        study(path="mine.txt")
    dataset = DatasetSettings(label="Mine", role="evaluation", domain="mathematics", source=_source(mine, questions=2))
    with pytest.raises(ConfigError, match=r"datasets\.mine: the source has 3 questions, source\.questions says 2"):
        build_questions({"mine": dataset}, FactsWorldSettings(), 42, {"mine": QUESTIONS_OF})  # it has grown since


def test_training_leaves_out_what_evaluation_asks(tmp_path, mine):
    asked = tmp_path / "asked.jsonl"
    asked.write_text(_lines([{"question": "what is 2+2", "answer": "4"}]))
    shared = {"label": "X", "domain": "mathematics"}
    sets = {
        "mine": shared | {"role": "training", "source": {"kind": "file", "path": str(mine)}},
        "asked": shared | {"role": "evaluation", "source": {"kind": "file", "path": str(asked)}},
    }
    settings = ["--settings", json.dumps({"datasets": sets})]
    assert main(["questions", *settings, "--output", str(tmp_path / "built")]) == 0
    table = read_frame(tmp_path / "built/mine.parquet", QUESTIONS)
    assert table["question_id"].tolist() == ["mine-7", "mine-00002"]
    assert table["answer"].tolist() == ["25", "0.5"]
    assert main(["overlap", *settings, f"--questions={tmp_path / 'built'}", f"--output={tmp_path / 'o.csv'}"]) == 0
    (row,) = pd.read_csv(tmp_path / "o.csv").itertuples()
    assert (row.question_id, row.training_id, row.action) == ("asked-00000", "mine-a", "excluded")
    before = (tmp_path / "built/mine.parquet").read_bytes()
    asked.write_text(_lines([{"question": "what is 2+2", "answer": "4"}, {"question": "What is 9+9?", "answer": "18"}]))
    assert main(["questions", *settings, "--output", str(tmp_path / "built")]) == 0
    assert len(read_frame(tmp_path / "built/asked.parquet", QUESTIONS)) == 2
    assert (tmp_path / "built/mine.parquet").read_bytes() == before, "what nobody else asks stays the same file"


@pytest.mark.long
def test_an_edit_of_the_file_reruns_its_set(tmp_path, content, mine):
    content["datasets"]["smoke-small"]["source"] = {"kind": "file", "path": str(mine)}
    config = tmp_path / "study.yaml"
    config.write_text(yaml.safe_dump(content))
    wanted = ["results/questions/smoke-small.parquet", "results/questions/smoke-facts.parquet"]

    def plan():
        done = snakemake(tmp_path, "--quiet", "rules", "--dry-run", *wanted, config=config)
        return planned(done.stdout + done.stderr)

    assert plan()["questions"] == 2
    done = snakemake(tmp_path, "--nocolor", *wanted, config=config)
    assert done.returncode == 0
    assert not plan()
    mine.write_text(_lines(RECORDS[::-1]))
    os.utime(mine, (later := mine.stat().st_mtime + 60, later))
    assert plan()["questions"] == 1
