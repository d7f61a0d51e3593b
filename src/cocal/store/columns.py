"""The names of the columns of responses, for code that does without the libraries of their contract."""

ON_REQUEST = ("best_logprobs", "best_entropy")
"""Columns that evaluation responses have only if a study asks for them, and rollouts never."""
RESPONSES = (
    *("dataset", "question_id", "response_id", "step", "sample", "prompt_ids", "response_ids", "logprobs", "text"),
    *("length", "finish_reason", "truncated", "mean_logprob", "answer", "answer_class", "correct", "exact_match"),
    *("decided", "group_accuracy", "reward_task", "reward_calibration", "confidence", "p_true", "p_true_mass"),
    *ON_REQUEST,
)
"""The columns of `cocal.store.contracts.RESPONSES`, in order."""
LABELS = ("correct", "exact_match", "group_accuracy", "reward_task", "reward_calibration")
"""The columns that tell whether a response is right."""
