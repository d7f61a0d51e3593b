# A rule for each of the plan (cocal_study.stages.rules), from question sets to metrics and checks. A job runs a stage
# (cocal_study.stages): `cocal` and the words that its fields make.
for one in PLAN.rules.values():

    rule:
        name:
            one.name
        input:
            inputs(one),
        output:
            outputs(one),
        log:
            f"logs/{one.name}/{one.label}.log",
        benchmark:
            results.benchmark_file(one.name, one.label)
        wildcard_constraints:
            **{name: either(values) for name, values in one.limits.items()},
        priority: int(one.early)
        localrule: one.local
        conda:
            f"../../envs/{one.environment}.yaml"
        threads: one.threads or TRAINING_THREADS
        resources:
            **({"gpus": one.gpus} if one.gpus else {}),
        params:
            **params(one),
            start=list(one.start),
            to=printing(one),
        shell:
            "{params.start:q} {params.words:q} {params.to} {log}"
