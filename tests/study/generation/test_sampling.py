"""Verdicts of sampled responses: whose golds count, what stays undecided, and the exact match beside the verdict."""

import numpy as np
import pandas as pd
import pytest

from cocal.answers.judge import ExactMatch, Verdicts
from cocal.errors import ContractError
from cocal.store.contracts import RESPONSES
from cocal_study.generation.sampling import judge_set
from cocal_study.store.contracts import VERDICTS
from evaluated_study import POOL, QUESTIONS, responses

SAMPLED = responses().drop(columns=list(VERDICTS))


class Hesitant(ExactMatch):
    """Comes to no verdict about the answers 2, and about the class of 01."""

    def correct(self, golds, answers, questions):
        exact = super().correct(golds, answers, questions).values
        open_rows = np.array([answer == "2" for answer in answers])
        return Verdicts(~exact & ~open_rows, ~open_rows)

    def classes(self, answers, pools, questions):
        labels = super().classes(answers, pools, questions).values
        return Verdicts(labels, np.array([answer != "01" for answer in answers]))


def asked(count=QUESTIONS, domain="factual"):
    ids = [f"q{i}" for i in range(count)]
    frame = pd.DataFrame({"dataset": "sums", "question_id": ids, "question": "Sum?", "answer": "1", "domain": domain})
    return frame.assign(aliases=[["one"]] * count, split="evaluation", subject="", level=0)


@pytest.mark.parametrize("pool", [True, False])
def test_verdicts_keep_what_stayed_undecided_and_the_exact_match(pool):
    table = RESPONSES.check(judge_set(SAMPLED, asked(), Hesitant(), pool=pool, source="t"), "t")
    answer = table["answer"]
    assert table["decided"].tolist() == (~answer.isin(["2", "01"] if pool else ["2"])).tolist()
    assert table["exact_match"].tolist() == (answer == "1").tolist()
    assert (table["exact_match"] != table["correct"]).any()  # the judge's verdict is another one
    assert (table["answer_class"] >= 0).tolist() == (answer.notna() & pool).tolist()
    mathematics = judge_set(SAMPLED, asked(domain="mathematics"), Hesitant(), pool=pool, source="t")
    assert RESPONSES.check(mathematics, "t")["exact_match"].isna().all()


def test_rows_in_any_order_are_compared_with_the_golds_of_their_own_question():
    numbers = range(QUESTIONS)
    questions = asked().assign(answer=list(map(str, numbers)), aliases=[[f"number {i}"] for i in numbers])
    frame = SAMPLED.sample(frac=1, random_state=1)
    own = frame["question_id"].str[1:]
    kind = (frame["sample"] + own.astype(int)) % 3  # as the group accuracies differ
    other = ((own.astype(int) + 1) % QUESTIONS).astype(str)
    frame["answer"] = own.where(kind == 0, ("number " + own).where(kind == 1, other))
    table = judge_set(frame, questions, ExactMatch(), pool=False, source="t")
    assert table["correct"].tolist() == (kind < 2).tolist()
    assert table["group_accuracy"].tolist() == (kind < 2).groupby(own).transform("mean").tolist()


def test_responses_to_other_questions_are_refused():
    with pytest.raises(ContractError, match=rf"mine: question 'q3' of set 'sums', at row {3 * POOL}, is not .*10 such"):
        judge_set(SAMPLED, asked(3), ExactMatch(), pool=True, source="mine")
    with pytest.raises(ContractError, match="at row 0, is not among the questions of 'other'"):
        judge_set(SAMPLED, asked().assign(dataset="other"), ExactMatch(), pool=True, source="mine")
