"""Paths of a study's files in results/."""

EXPERIENCES = {"rollouts": "grpo", "resampled": "postcal", "prompts": "prompts", "online": "online"}
"""Name of the companions' folder for each kind of training data."""


def metrics_file(backbone: str, kind: str = "") -> str:
    """Metric cube of a backbone, for its main cells or for a kind of comparison such as "-sweep"."""
    return f"results/metrics/{backbone}{kind}.nc"


def resamples_file(backbone: str, kind: str = "") -> str:
    """Metrics of every resample behind the cube `metrics_file`."""
    return f"results/resamples/{backbone}{kind}.nc"


def predictions_file(backbone: str, algorithm: str, step: int, kind: str = "") -> str:
    """Predictions on the responses of a checkpoint."""
    return f"results/predictions/{backbone}/{algorithm}/step-{step}{kind}.parquet"


def responses_file(backbone: str, algorithm: str, step: int, prompt_format: str, dataset: str) -> str:
    """Evaluation responses of a checkpoint to one question set."""
    return f"results/responses/{backbone}/{algorithm}/step-{step}/{prompt_format}/{dataset}.parquet"


def companion_folder(backbone: str, experience: str) -> str:
    """Folder of the companions that learnt from "rollouts", "resampled" responses, "prompts" or "online"."""
    return f"results/companions/{backbone}/{EXPERIENCES[experience]}"


def cost_file(backbone: str, what: str) -> str:
    """Measured costs of a kind of work."""
    return f"results/costs/{backbone}/{what}.json"
