"""The learning curve: confidences by the number of rollouts that there were to learn from."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg

from cocal.drawing.style import paper_style
from cocal_study.evidence.published import read_published
from cocal_study.evidence.regimes import BESIDE, COLUMNS, PAIRS, RECALIBRATED
from cocal_study.exhibits import experience
from cocal_study.exhibits.regimes import layout_of
from cocal_study.planning.regimes import BASE, studies_of
from drawn_texts import assert_texts_apart
from golden import assert_golden, drawn
from planned_jobs import study_of
from started import ROOT

GOLDEN = Path(__file__).parent / "golden"
STUDY = study_of("config")
LEVELS = {2: 900, 6: 3_400, 24: 13_700, 96: 54_900}
METHODS = (*PAIRS["binary"], *PAIRS["group"], *BESIDE, *RECALIBRATED)


def points(replicates=3):
    """Every method, level and replicate has numbers of its own; the probe has no Brier score."""
    rows = []
    for place, method in enumerate(METHODS):
        for level, learnt in LEVELS.items():
            for k in range(1, replicates + 1):
                auroc = 0.6 + 0.04 * np.log10(learnt) + 0.013 * place + 0.006 * k * (1 + 0.3 * place)
                brier = np.nan if method == "linear-binary" else 0.31 - 0.03 * np.log10(learnt) + 0.003 * place * k
                scores = (
                    0.2 - 0.02 * np.log10(learnt) + 0.01 * place - 0.004 * k * (1 + 0.2 * place),
                    brier,
                    0.5,
                    auroc,
                )
                counts = (learnt + 10 * k + 7 * (method != "cocal-binary"), 0.6)
                rows.append(("Questions per step", level, k, method, 0.5, 0.6, *counts, 0.55, 0.5, *scores))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_every_point_is_the_mean_of_its_replicates_at_what_cocal_learnt_from():
    """The files were compared with means and Student's intervals of the replicates and of their differences from what
    the policy's own probabilities reach, and with the paper's numbers, which have no Brier score; a curve goes through
    the points of its method."""
    numbers = experience.prepare(layout_of(STUDY), points(), read_published(ROOT / "config/paper"))
    assert_golden(GOLDEN / "experience_counted.txt", numbers.to_csv(index=False, float_format="%.6g").splitlines())
    with paper_style():
        figure = experience.draw(numbers, layout_of(STUDY))
        FigureCanvasAgg(figure).draw()
    assert_texts_apart(figure)
    assert_golden(GOLDEN / "experience.txt", drawn(figure))


def test_no_point_of_the_curve_asks_a_question_twice_and_all_else_is_the_same():
    studies = studies_of(ROOT / "config/experience.yaml", 3)
    sizes = sorted(study.policy.questions_per_step for study in studies.values())
    assert sizes == [2, 6, 24, 64, 96]
    base = studies[BASE]
    for study in studies.values():
        policy = study.policy
        assert policy.steps * policy.questions_per_step <= study.datasets[policy.dataset].source.questions
        own = ("questions_per_step", "micro_batch")
        same = {name: getattr(base.policy, name) for name in own}
        assert study.model_copy(update={"policy": policy.model_copy(update=same)}) == base
    assert all(one < other for one, other in pairwise(sizes))
