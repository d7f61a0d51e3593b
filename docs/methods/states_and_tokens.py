"""States and tokens: a logistic regression on hidden states and token probabilities; late rollouts weigh more."""

import numpy as np

from cocal_study.config.method import Baseline

BASELINES = (
    Baseline(
        name="states-and-tokens",
        label="States and tokens",
        position=96,  # its row, after that of 95
        method="cocal-binary",
        learn=f"{__name__}:learn",
        columns=("step", "length", "mean_logprob", "logprobs"),
    ),
)


class Regression:
    """What was learnt: any object with `apply`, which lives as long as the job and is not stored."""

    def __init__(self, pipeline):
        self.pipeline = pipeline

    def apply(self, states, table):
        """The probability that each response is right, float64 (n,)."""
        return self.pipeline.predict_proba(_inputs(states, table))[:, 1]


def _inputs(states, table):
    lowest = [min(values, default=0) for values in table["logprobs"]]
    return np.column_stack([states, table["mean_logprob"], lowest, np.log1p(table["length"])])


def learn(target, training, validation):
    """Fit the regression with each of three penalties, and keep the one that predicts the validation rollouts best.

    Args:
        target: What a companion would learn, "binary" or "group"; here the verdicts are learnt either way.
        training: Rollouts in the order of training: `states`, float32 (n, d); `correct`, bool (n,); and `table`, with
            the columns that the baseline declares.
        validation: The same of other questions.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    weights = training.table["step"] / training.table["step"].max()
    tried = []
    for strength in (1e-4, 1e-3, 1e-2):
        pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500))
        inputs = _inputs(training.states, training.table)
        pipeline.fit(inputs, training.correct, logisticregression__sample_weight=weights)
        found = Regression(pipeline)
        chances = found.apply(validation.states, validation.table)
        tried.append((log_loss(validation.correct, chances, labels=[False, True]), found))
    return min(tried, key=lambda one: one[0])[1]
