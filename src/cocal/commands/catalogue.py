"""The names of all commands, each with what it does; a command is the module of this folder that has its name."""

from collections.abc import Mapping

OWN = {
    "fit": "fit a companion on the rollouts of your own training",
    "score": "add a companion's confidence to every response of a file",
    "evaluate": "measure confidences against labels: numbers, plots, one page",
    "decide": "choose among responses by their confidences: best-of-n, voting, or abstention at a bounded error rate",
}
"""Commands for a policy of one's own, without a workflow."""
STUDY = {
    "plan": "print jobs, GPU-hours and storage of a study before it runs",
    "slurm": "refuse a run that this SLURM cluster cannot take now, or cancel a run's jobs",
    "compare": "test the differences between two methods of a study, or between two tables of predictions",
    "trace": "show what a table, figure or other result was made from, back to the questions",
    "digests": "list digests of a finished study's outputs, or compare them with those of another machine",
    "replicate": "write a study with other seeds of the policies",
    "spread": "gather the numbers of a study's replicates, with their spread",
    "schema": "print the JSON schema of study files",
    "stages": "list the commands of the workflow's stages",
}
"""Commands about a study, beside `snakemake`."""
STAGES = {
    "sources": "download and verify the files of registered question sets",
    "questions": "build the question sets of a study: synthetic, registered, or from files",
    "overlap": "report the evaluation questions that also occur in the sources of training",
    "hub": "download a pinned checkpoint of the Hugging Face hub into its cache",
    "backbone": "make a base policy: pre-train a tiny one, or check an existing checkpoint",
    "import-checkpoints": "check and place checkpoints that another engine trained",
    "train": "train a policy by reinforcement learning and keep its rollouts and features",
    "slime": "train a policy with slime, and import its rollouts and checkpoints",
    "import-rollouts": "turn rollout dumps of slime, TRL or JSON lines into rollout tables",
    "replay": "extract hidden-state features of stored rollouts",
    "resample": "answer the training questions again with the final policy, for PostCal",
    "responses": "sample, verify and score evaluation responses of a checkpoint",
    "judge": "judge existing responses, by computer algebra, exact match or a language model",
    "features": "extract hidden-state features of responses",
    "prompts": "extract hidden-state features of the prompts of policy training",
    "companions": "fit companions on the rollouts and features of a policy",
    "online": "let companions learn from stored rollouts as if they learnt while the policy trained",
    "predictions": "estimate confidences with every method",
    "recalibrate": "let rivals of the companions learn from the same rollouts, and score responses with them",
    "latency": "time a policy and its companions on this device",
    "metrics": "compute the metric cube with bootstrap intervals",
    "checks": "refuse a study that breaks the protocol, and report what was checked",
    "exhibit": "make a table or figure of the paper",
    "document": "write one LaTeX document of all tables",
}
"""The stages of the workflow, which its rules call; `cocal stages` lists them."""


def listing(commands: Mapping[str, str]) -> str:
    """Names and summaries of commands, a line each."""
    return "\n".join(f"  {name:<20} {summary}" for name, summary in commands.items())
