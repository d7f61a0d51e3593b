# CoCal: Companion Confidence Calibration. This file lists the stages; each has its rules in workflow/rules.
#
#   snakemake                              the whole configured study (config/config.yaml by default)
#   snakemake results/tables/main.tex      one table
#   snakemake --directory studies/smoke --configfile config/smoke.yaml     another study, in a folder of its own
#   snakemake --report results/report.html           one page of everything that has been built
from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/study.rst"


include: "workflow/rules/common.smk"
include: "workflow/inputs/questions.smk"
include: "workflow/inputs/policies.smk"
include: "workflow/inputs/responses.smk"
include: "workflow/inputs/companions.smk"
include: "workflow/inputs/predictions.smk"
include: "workflow/inputs/recalibration.smk"
include: "workflow/inputs/checks.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/progress.smk"
include: "workflow/rules/questions.smk"
include: "workflow/rules/policies.smk"
include: "workflow/rules/responses.smk"
include: "workflow/rules/features.smk"
include: "workflow/rules/companions.smk"
include: "workflow/rules/predictions.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/recalibration.smk"
include: "workflow/rules/checks.smk"
include: "workflow/rules/costs.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"


rule all:
    default_target: True
    input:
        [f"results/tables/{table.name}.tex" for table in TABLES],
        "results/tables/all.tex",
        [f"results/figures/{figure.name}.pdf" for figure in FIGURES],
        expand("results/checks/{backbone}.json", backbone=STUDY.backbones),
