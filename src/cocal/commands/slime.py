"""`cocal slime`: policy training by slime, the paper's engine, inside or beside its container."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", required=True, help="JSON: policy")
    parser.add_argument("--backbone-name", required=True, help="key of policy.slime.torch_dist")
    parser.add_argument("--backbone", required=True, help="JSON: the backbone's settings")
    parser.add_argument("--verifier", default="{}", help="JSON: bounds of the verifier")
    parser.add_argument("--algorithm", required=True, choices=["grpo", "rlcr", "dcpo"])
    parser.add_argument("--base", required=True, type=Path, help="checkpoint to start from")
    parser.add_argument("--questions", required=True, type=Path, help="training set")
    parser.add_argument("--prompts", default="tiny", help="prompt set")
    parser.add_argument("--per-node", default="", help="script that joins several nodes by Ray")
    parser.add_argument("--run-folder", required=True, type=Path, help="working folder; a killed run resumes from it")
    parser.add_argument("--stages", required=True, type=Path, help="folder for step-N checkpoints")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder for the rollouts, a table a step")
    parser.add_argument("--cost", type=Path, help="JSON file for the time of the training")


def run(options: argparse.Namespace) -> None:
    """Train or resume, import what slime left, then publish."""
    from cocal.answers.equivalence import Verifier
    from cocal.checkpoints.importing import import_checkpoint
    from cocal.checkpoints.loading import fingerprint, read_vocabulary
    from cocal.config import parse_settings
    from cocal.config.backbone import BackboneChoice
    from cocal.config.evaluation import VerifierSettings
    from cocal.config.policy import PolicySettings
    from cocal.integrations.importing import Dumps, import_rollouts
    from cocal.integrations.slime.launch import SlimePaths
    from cocal.integrations.slime.run import publish, train_with_slime
    from cocal.integrations.tables import StepTables
    from cocal.policy.objectives import PROMPT_FORMATS
    from cocal.prompts import Prompts
    from cocal.questions.identity import golds_digest, texts_digest
    from cocal.store import digest, provenance, read_frame
    from cocal.store.contracts import QUESTIONS
    from cocal.store.run_folder import RunFolder

    settings = parse_settings(PolicySettings, options.settings)
    backbone = parse_settings(BackboneChoice, options.backbone, "--backbone").root
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)
    policy = settings.rollout_settings(options.algorithm)
    depends_on = {
        "policy": settings,
        "verifier": bounds,
        "algorithm": options.algorithm,
        "prompts": prompts.identity(PROMPT_FORMATS[options.algorithm]),
    }
    attributes = provenance("slime", depends_on, algorithm=options.algorithm)
    # slime's own place and shape may change when a run resumes; what it computes may not
    inputs = {
        "base": fingerprint(options.base),
        "questions": texts_digest(questions),
        "golds": golds_digest(questions),
    }
    run_digest = digest(depends_on | {"policy": policy} | inputs)
    run_folder = RunFolder(options.run_folder.absolute(), run_digest)
    torch_dist = Path(settings.slime.torch_dist[options.backbone_name])
    places = SlimePaths(options.base.absolute(), torch_dist, run_folder.path)
    train_with_slime(
        settings,
        options.algorithm,
        places=places,
        questions=questions,
        prompts=prompts,
        verifier=bounds,
        per_node=options.per_node,
    )

    def import_stage(source: Path, output: Path) -> None:
        shape = {"depth": backbone.depth, "width": backbone.width}
        import_checkpoint(source, output, **shape, attributes=attributes, base=options.base)

    def import_dumps(folder: Path, output: Path) -> None:
        with Verifier(bounds) as judge:
            tables = StepTables(
                policy,
                options.algorithm,
                questions=questions,
                vocabulary=read_vocabulary(options.base),
                judge=judge,
            )
            dumps = Dumps.of("slime", folder, settings.steps, "acc")
            run = RunFolder(run_folder.path / "import", run_digest)
            import_rollouts(dumps, tables, run=run, output=output, attributes=attributes)

    publish(
        settings,
        places=places,
        run=run_folder,
        import_stage=import_stage,
        import_dumps=import_dumps,
        outputs={step: options.stages / f"step-{step}" for step in settings.stages},
        rollouts=options.rollouts,
        cost=options.cost,
    )
