"""Verdicts of sampled responses: what stays undecided, and the exact match beside the judge's verdict."""

import numpy as np
import pandas as pd
import pytest

from cocal.answers.judge import ExactMatch, Verdicts
from cocal.generation.evaluation import judge_set
from cocal.store.contracts import RESPONSES, VERDICTS
from evaluated_study import responses


class Hesitant(ExactMatch):
    """Comes to no verdict about the answers 2, and about the class of 01."""

    def correct(self, golds, answers, questions):
        exact = super().correct(golds, answers, questions).values
        open_rows = np.array([answer == "2" for answer in answers])
        return Verdicts(~exact & ~open_rows, ~open_rows)

    def classes(self, answers, pools, questions):
        labels = super().classes(answers, pools, questions).values
        return Verdicts(labels, np.array([answer != "01" for answer in answers]))


def asked(domain):
    ids = [f"q{i}" for i in range(4)]
    frame = pd.DataFrame({"dataset": "sums", "question_id": ids, "question": "Sum?", "answer": "1", "domain": domain})
    return frame.assign(aliases=[["one"]] * 4, split="evaluation", subject="", level=0)


@pytest.mark.parametrize("pool", [True, False])
def test_verdicts_keep_what_stayed_undecided_and_the_exact_match(pool):
    sampled = responses().drop(columns=list(VERDICTS))
    table = RESPONSES.check(judge_set(sampled, asked("factual"), Hesitant(), pool=pool, source="t"), "t")
    answer = table["answer"]
    assert table["decided"].tolist() == (~answer.isin(["2", "01"] if pool else ["2"])).tolist()
    assert table["exact_match"].tolist() == (answer == "1").tolist()
    assert (table["exact_match"] != table["correct"]).any()  # the judge's verdict is another one
    table = RESPONSES.check(judge_set(sampled, asked("mathematics"), Hesitant(), pool=pool, source="t"), "t")
    assert table["exact_match"].isna().all()
