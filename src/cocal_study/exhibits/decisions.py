"""Decisions with confidences: which of several responses to take, when to abstain, what to send on (beyond the paper).

Choices are made among the responses that a set has confidences for: the evaluated ones, of which a set of
`datasets.*.samples` above one has several; the rest of the pool of self-consistency has no hidden states. Abstention
and routing decide about the first response to each question of all sets of a domain together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from cocal.errors import ContractError
from cocal.metrics.bootstrap import centred_interval, generator_for, question_counts, resampled_means
from cocal.metrics.choices import best_of_n, first, vote
from cocal.metrics.shown import UNDEFINED, metric_text
from cocal.settings.base import Name, OpenShare
from cocal_study.config.evaluation import DecisionSettings
from cocal_study.config.methods import METHODS
from cocal_study.config.study import Study
from cocal_study.cubes.choices import kept_accuracy, tried
from cocal_study.exhibits.base.exhibit import ComparedLayout, Labelled, TableExhibit, of_main
from cocal_study.exhibits.base.inputs import rows_by_seed
from cocal_study.exhibits.typesetting.grid import Block, Cell, Grid, Line, marks, metric_block
from cocal_study.exhibits.typesetting.wording import BOLD_AND_UNDERLINED, DOMAINS, averaged, said
from cocal_study.planning.plan import domains_of, final_methods
from cocal_study.planning.results import predictions_file, responses_file

CHOICE, ABSTENTION, ROUTING = "choice", "abstention", "routing"
"""The parts of the table."""
FIRST, MAJORITY, BEST, VOTE, ORACLE = "first", "majority", "best-of-n", "vote", "oracle"
"""The rules of the first part; `BEST` and `VOTE` need a method's confidences."""
MACRO = "macro"
"""Name of the unweighted mean over the sets of the first part."""
SENT = (0.2, 0.5)
"""Shares of the questions, those with the lowest confidences, that are sent elsewhere."""
_ROUTING = ("cocal-pre-generation", "cocal-binary")
_COLUMNS = ["part", "rule", "method", "dataset", "metric", "value", "lower", "upper", "questions", "responses"]
_TITLES = {FIRST: "First response", MAJORITY: "Majority vote", ORACLE: "Any of the responses (oracle)"}


class Sampled(Labelled):
    """An evaluation set with several responses to each question."""

    samples: int
    """Number of responses to each question that have confidences."""


class Layout(ComparedLayout):
    sets: tuple[Sampled, ...]
    """Sets of the first part."""
    domains: dict[Name, tuple[Name, ...]]
    """All evaluation sets of each domain, whose questions the other parts put together."""
    decisions: DecisionSettings
    """Bound and splits of the abstention."""
    resamples: int
    """Number of bootstrap resamples of the questions."""
    level: OpenShare
    """Confidence level of the intervals."""
    seed: int
    """Seed of the resamples."""

    @property
    def choosing(self) -> tuple[str, ...]:
        """The methods that give each of several responses to a question a confidence of its own."""
        return tuple(name for name in self.methods if METHODS[name].target != "question")

    @property
    def routing(self) -> tuple[str, ...]:
        """The methods by which questions are sent elsewhere: before anything is generated, and for comparison after."""
        return tuple(name for name in _ROUTING if name in self.methods)


def of_study(study: Study, wrong: Mapping[str, int]) -> Iterator[TableExhibit]:
    """The table of the main backbone at the end of training, where several responses to a question have confidences and
    answers that were compared."""
    backbone, step = study.main_backbone, study.policy.steps
    shared = [METHODS[name] for name in final_methods(study, backbone)]
    shared = [method for method in shared if (method.policy, method.prompt_format) == ("grpo", "answer")]
    methods = [method.name for method in shared if not method.needs_pool]
    domains = {name: tuple(study.evaluation_sets(name)) for name in domains_of(study, backbone, "grpo", step)}
    asked = {name: study.datasets[name] for names in domains.values() for name in names}
    sets = {name: dataset for name, dataset in asked.items() if dataset.samples > 1}
    choosing = any(METHODS[name].target != "question" for name in methods)
    if not (choosing and sets and any(method.needs_pool for method in shared)):
        return
    yield TableExhibit(
        title="Decisions with confidences",
        chapter="Main results",
        position=15.5,
        caption="What confidences are good for: choosing among several responses, answering only above a threshold "
        "that other questions certify, and sending questions elsewhere that look hard.",
        layout=Layout(
            **of_main(study),
            methods=tuple(methods),
            sets=tuple(
                Sampled(name=name, label=dataset.label, samples=dataset.samples) for name, dataset in sets.items()
            ),
            domains=domains,
            decisions=study.reports.decisions,
            resamples=study.metrics.resamples,
            level=study.metrics.level,
            seed=study.metrics.seed,
        ),
        inputs={
            "predictions": [predictions_file(backbone, "grpo", step)],
            "responses": [responses_file(backbone, "grpo", step, "answer", name) for name in sets],
        },
    )


def prepare(layout: Layout, predictions: pd.DataFrame, responses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Make the decisions and measure their quality; companions are averaged over their seeds.

    There is a table of responses for each of `layout.sets`. The result has the columns part, rule, method (empty where
    a rule needs none), dataset, metric, value, lower, upper, questions and responses (per question, n; NaN for the
    macro average). The parts are

    - choice: accuracy of each rule on each set and as macro average, whose questions are those of all sets.
    - abstention: coverage, risk (wrong answers among the answered questions, NaN if none is answered in any split) and
      certified (share of splits with a threshold), means over the splits; lower and upper are the quantiles of the
      splits, without splits that answer nothing for the risk.
    - routing: accuracy of the kept questions; the rule is the share that is sent elsewhere.

    All other intervals are those of the bootstrap over questions. Raises ContractError if a method has no confidences
    on a set.
    """
    rows = list(_choices(layout, predictions, responses))
    for domain, names in layout.domains.items():
        asked = _first_responses(predictions, layout, names)
        rows += [*_abstentions(layout, domain, asked), *_routings(layout, domain, asked)]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _choices(layout: Layout, predictions: pd.DataFrame, responses: Sequence[pd.DataFrame]) -> Iterator[tuple]:
    values, drawn, about = [], [], []
    for sampled, frame in zip(layout.sets, responses, strict=True):
        right = _right(layout, sampled, frame[frame["sample"] < sampled.samples], predictions)
        by_rule = np.array([*right.values()])
        values.append(by_rule.mean(axis=1))
        drawn.append(resampled_means(by_rule, layout.resamples, generator_for(layout.seed, sampled.name)))
        about.append((sampled.name, by_rule.shape[1], sampled.samples))
    values.append(np.mean(values, axis=0))
    drawn.append(np.mean(drawn, axis=0))
    about.append((MACRO, sum(questions for _, questions, _ in about), np.nan))
    for value, resampled, (dataset, questions, samples) in zip(values, drawn, about, strict=True):
        ends = centred_interval(value, resampled, layout.level)
        for (rule, method), *numbers in zip(right, value, *ends, strict=True):
            yield CHOICE, rule, method, dataset, "accuracy", *numbers, questions, samples


def _right(
    layout: Layout, sampled: Sampled, frame: pd.DataFrame, predictions: pd.DataFrame
) -> dict[tuple[str, str], np.ndarray]:
    """Correctness of each rule's choice, as the mean over a companion's seeds, float64 (q,), by rule and method."""
    frame = frame.sort_values(["question_id", "sample"], kind="stable")
    question, _ = pd.factorize(frame["question_id"])
    correct, classes = frame["correct"].to_numpy(dtype=bool), frame["answer_class"].to_numpy(dtype=np.float64)
    right = {(FIRST, ""): correct[first(question)], (MAJORITY, ""): correct[vote(question, classes)]}
    best, votes = {}, {}
    for method in layout.choosing:
        chosen = []
        for rows in rows_by_seed(predictions, layout, sampled.name, method).values():
            known = rows.set_index("response_id")["confidence"]
            confidence = known.loc[frame["response_id"]].to_numpy(dtype=np.float64)
            chosen.append((correct[best_of_n(question, confidence)], correct[vote(question, classes, confidence)]))
        best[BEST, method], votes[VOTE, method] = np.mean(chosen, axis=0)
    right |= {**best, **votes, (ORACLE, ""): np.bincount(question, weights=correct) > 0}  # pass@n, which bounds them
    return {key: np.asarray(values, dtype=np.float64) for key, values in right.items()}


def _first_responses(predictions: pd.DataFrame, layout: Layout, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Correctness of the first response to each question of some sets, bool (q,), as "correct", and its confidences,
    float64 (seeds, q), by method."""
    shown = predictions[predictions["dataset"].isin(names)]
    keys = ["method", "seed", "dataset", "question_id"]
    firsts = shown.sort_values("response_id", kind="stable").drop_duplicates(keys)
    asked: dict[str, np.ndarray] = {}
    for method in layout.methods:
        table = firsts[firsts["method"] == method].set_index(["seed", "dataset", "question_id"])
        confidence = table["confidence"].unstack("seed").sort_index()
        correct = table["correct"].unstack("seed").sort_index().iloc[:, 0].to_numpy(dtype=bool)
        if not np.array_equal(asked.setdefault("correct", correct), correct):
            raise ContractError(f"predictions: method {method!r} is not evaluated on the responses of the others")
        asked[method] = confidence.to_numpy(dtype=np.float64).T
    return asked


def _abstentions(layout: Layout, domain: str, asked: Mapping[str, np.ndarray]) -> Iterator[tuple]:
    """Coverage, risk and certification over the splits, which all methods share."""
    settings, correct, tail = layout.decisions, asked["correct"], (1 - layout.level) / 2
    for method in layout.choosing:
        bounds = {"max_risk": settings.max_risk, "delta": settings.delta, "splits": settings.splits}
        splits = tried(asked[method], correct, **bounds, generator=generator_for(settings.seed, domain))
        for metric, values in zip(("coverage", "risk", "certified"), splits.T, strict=True):
            known = values[~np.isnan(values)]
            numbers = (known.mean(), *np.quantile(known, [tail, 1 - tail])) if len(known) else (np.nan,) * 3
            yield ABSTENTION, "certified", method, domain, metric, *numbers, len(correct), 1


def _routings(layout: Layout, domain: str, asked: Mapping[str, np.ndarray]) -> Iterator[tuple]:
    """Accuracy of the kept questions, and its intervals."""
    correct, questions = asked["correct"], len(asked["correct"])
    drawn = question_counts(questions, layout.resamples, generator_for(layout.seed, domain))
    counts = np.concatenate([np.ones((1, questions)), *drawn]).T.astype(np.int32)
    for method in layout.routing:
        for sent in (0.0, *SENT):
            kept = np.mean([kept_accuracy(confidence, correct, sent, counts) for confidence in asked[method]], axis=0)
            lower, upper = centred_interval(kept[:1], kept[None, 1:], layout.level)
            yield ROUTING, f"{sent:g}", method, domain, "accuracy", kept[0], lower[0], upper[0], questions, 1


def grid(numbers: pd.DataFrame, layout: Layout, *, predictions: pd.DataFrame, **_: object) -> Grid:
    """Set the table, with a block for each part; the last one only where a method sends questions elsewhere."""
    questions = numbers.drop_duplicates("dataset").set_index("dataset")["questions"]
    sizes = {name: f"{DOMAINS[f'macro-{name}']}, {questions[name]:,} questions" for name in layout.domains}
    domains = [Labelled(name=name, label=label) for name, label in sizes.items()]

    def block(corner: str, titles: Mapping[str, str], methods: Sequence[str], cells: Mapping[Any, Cell]) -> Block:
        rows = {name: METHODS[name].label for name in methods}
        return metric_block(corner, domains, list(titles), [("", rows)], cells, titles=titles)

    titles = {"coverage": "Answered", "risk": "Wrong", "certified": "Certified"}
    abstention = block("Abstention (%)", titles, layout.choosing, _abstention_cells(numbers, layout))
    blocks = [_choice_block(numbers, layout, questions), abstention]
    if layout.routing:
        titles = {f"{sent:g}": f"{100 * sent:g} % sent" for sent in (0.0, *SENT)}
        cells = {key: Cell(text) for key, text in _texts(numbers, ROUTING, "dataset", "method", "rule").items()}
        blocks.append(block("Accuracy of the kept (%)", titles, layout.routing, cells))
    return Grid(
        title=f"Decisions with confidences, {layout.backbone_label}, step {layout.step}",
        caption=_caption(layout, numbers, predictions.loc[predictions["seed"] >= 0, "seed"].nunique()),
        blocks=tuple(blocks),
        size="footnotesize",
        gap="4pt",
    )


def _texts(numbers: pd.DataFrame, part: str, *names: str) -> dict[tuple[str, ...], str]:
    """The printed values of a part by these columns."""
    values = numbers[numbers["part"] == part].set_index(list(names))["value"]
    return {key: metric_text("accuracy", value) for key, value in values.items()}


def _choice_block(numbers: pd.DataFrame, layout: Layout, questions: pd.Series) -> Block:
    texts = _texts(numbers, CHOICE, "dataset", "rule", "method")
    columns = [*(sampled.name for sampled in layout.sets), MACRO]
    best, votes = ([(rule, method) for method in layout.choosing] for rule in (BEST, VOTE))
    rules = [(FIRST, ""), (MAJORITY, ""), *best, *votes]
    cells = {key: Cell(text) for key, text in texts.items()}
    for name in columns:
        shown = [texts[name, *rule] for rule in rules]
        ranked = zip(rules, shown, marks(shown, "higher"), strict=True)
        cells |= {(name, *rule): Cell(text, mark) for rule, text, mark in ranked}

    def line(rule: str, method: str) -> Line:
        return METHODS[method].label if method else _TITLES[rule], [cells[name, rule, method] for name in columns]

    groups = {"": rules[:2], "Most confident response (best of n)": best, "Confidence-weighted vote": votes}
    heads = (
        [*(sampled.label for sampled in layout.sets), "Average"],
        [*(f"{questions[sampled.name]:,} × {sampled.samples}" for sampled in layout.sets), ""],
    )
    shown = [(title, [line(*rule) for rule in some]) for title, some in groups.items()]
    return Block("Accuracy (%)", heads, [*shown, ("", [line(ORACLE, "")])])


def _abstention_cells(numbers: pd.DataFrame, layout: Layout) -> dict[Any, Cell]:
    texts = _texts(numbers, ABSTENTION, "dataset", "method", "metric")
    cells = {key: Cell(text) for key, text in texts.items()}
    for domain in layout.domains:
        shown = [texts[domain, method, "coverage"] for method in layout.choosing]
        if len({*shown}) > 1:  # a share of 0 everywhere is nobody's best
            for method, text, mark in zip(layout.choosing, shown, marks(shown, "higher"), strict=True):
                cells[domain, method, "coverage"] = Cell(text, mark)
    return cells


def _caption(layout: Layout, numbers: pd.DataFrame, seeds: int) -> str:
    settings = layout.decisions
    sure, risk = f"{100 * (1 - settings.delta):g} %", f"{100 * settings.max_risk:g} %"
    of_routing = (
        "Bottom: accuracy of the first responses to the questions that are kept when those with the lowest "
        f"confidences are sent elsewhere; {METHODS[_ROUTING[0]].label} reads the prompt alone, before anything is "
        "generated, and other companions read the response, for comparison."
    )
    undefined = numbers[numbers["part"] == ABSTENTION]["value"].isna().any()
    return said(
        f"What confidences decide, using {layout.backbone_label} after {layout.step} training steps.",
        layout.caption,
        "Top: accuracy of the response that each rule takes; below each set stands its number of questions times n, "
        "the number of responses to each that have confidences. Sets with n = 1 leave no choice. Equivalent answers "
        "share a vote, and ties go to the earlier response.",
        "Middle: the first response to a question is given where its confidence reaches a threshold that a random half "
        f"of the questions certifies by Learn then Test: with a probability of at least {sure}, at most {risk} of "
        "the given answers are wrong. Shown are the answered share of the other half, the share of wrong answers among "
        f"them, and the share of {settings.splits:,} splits in which a threshold is certified; all are means over the "
        "splits.",
        of_routing if layout.routing else "",
        averaged(seeds) if any(METHODS[name].target for name in layout.methods) else "",
        BOLD_AND_UNDERLINED,
        f"{UNDEFINED} marks a risk without any answered question." if undefined else "",
    )
