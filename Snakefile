# CoCal: Companion Confidence Calibration. The rules lie in workflow/rules; those of all stages follow from
# the plan (cocal_study.stages.rules).
#
#   snakemake                              the whole configured study (config/config.yaml by default)
#   snakemake results/tables/main.tex      one table
#   snakemake --directory studies/smoke --configfile config/smoke.yaml     another study, in a folder of its own
#   snakemake --report results/report.html           one page of everything that has been built
from snakemake.utils import min_version

min_version("9.27")


report: "workflow/report/study.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/stages.smk"
include: "workflow/rules/exhibits.smk"


rule all:
    default_target: True
    input:
        [results.table_file(table.name) for table in TABLES],
        results.table_file("all"),
        results.LANDING,
        [results.figure_file(figure.name) for figure in FIGURES],
        [results.checks_file(backbone) for backbone in STUDY.backbones],
