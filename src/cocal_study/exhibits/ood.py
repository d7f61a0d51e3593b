"""Math-to-factual transfer: the main table on factual questions (tab:honestybench_ood_iter119_8b_all)."""

from collections.abc import Iterator, Mapping

from cocal_study.config.study import Study
from cocal_study.exhibits import main
from cocal_study.exhibits.base.exhibit import TableExhibit
from cocal_study.exhibits.main import accuracy_layout, main_methods
from cocal_study.planning.plan import FACTUAL
from cocal_study.planning.results import metrics_file

Layout, prepare, grid = main.Layout, main.prepare, main.grid


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    if study.evaluation_sets("factual") and main_methods(study):
        yield TableExhibit(
            title="Math-to-factual transfer",
            chapter="Transfer",
            position=30,
            caption="Math-to-factual transfer (the paper's table 3): the questions are factual, although policies and "
            "companions learnt only from mathematics.",
            layout=accuracy_layout(
                study,
                wrong,
                "factual",
                macro=FACTUAL,
                highlight="cocal-binary",
                subject="Math-to-factual transfer: accuracy and confidence quality",
                sets="factual set",
                remark=f"All companions learnt from mathematics alone. Answers are judged by {study.judge.label}.",
            ),
            inputs={"metrics": [metrics_file(study.main_backbone)]},
        )
