"""The stages of a study as typed jobs, grouped by subject into files, and the plan that makes all jobs of a study."""

MODULES = {
    "questions": ("sources", "questions", "overlap"),
    "backbones": ("backbone", "hub", "import-checkpoints"),
    "training": ("train",),
    "rollouts": ("import-rollouts", "import-cost", "resample"),
    "states": ("replay", "features", "prompts"),
    "responses": ("responses", "judge"),
    "companions": ("companions", "online"),
} | {name: (name,) for name in ("predictions", "recalibrate", "latency", "metrics", "checks")}
"""The commands of the stages, by the module of their classes."""
