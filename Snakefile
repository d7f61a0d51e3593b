# CoCal: Companion Confidence Calibration. Table of contents; each stage has its file in workflow/rules.
#
#   snakemake                              everything of the configured study (config/config.yaml by default)
#   snakemake results/tables/main.tex      one table
#   snakemake --configfile config/smoke.yaml ...     another study: it replaces the default, it never merges
from snakemake.utils import min_version

min_version("9.27")


include: "workflow/rules/common.smk"
include: "workflow/rules/questions.smk"
include: "workflow/rules/policies.smk"
include: "workflow/rules/responses.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/companions.smk"
include: "workflow/rules/predictions.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/checks.smk"
include: "workflow/rules/reports.smk"


rule all:
    default_target: True
    input:
        "results/tables/main.tex",
        [f"results/tables/main_step{step}.tex" for step in STUDY.policy.stages[:-1]],
        expand("results/figures/{figure}.pdf", figure=FIGURES),
