# Inputs and parameters of the rules of question sets.
QUESTION_SETS = STUDY.question_sets
REGISTERED = QUESTION_SETS.registered
TRAINING_SETS = [name for name, dataset in STUDY.datasets.items() if dataset.role == "training"]


def source_files(*names):
    """Files that `cocal sources` writes when the sources of these sets are here, for registered sets."""
    sources = dict.fromkeys(REGISTERED[name].name for name in names if name in REGISTERED)
    return [f"results/sources/{source}.json" for source in sources]


def source_of_set(wildcards):
    return source_files(wildcards.dataset)


def user_files(*names):
    """A user's files from which these sets are read."""
    return [source.path for name, source in QUESTION_SETS.files.items() if name in names]


def user_file_of_set(wildcards):
    return user_files(wildcards.dataset)


def other_sets(wildcards):
    """The sets that this one is compared with when it is built."""
    return [
        f"results/questions/{name}.parquet"
        for name in QUESTION_SETS.built_before(wildcards.dataset)
    ]


def others_flag(wildcards, input):
    return ["--others", *input.others] if input.others else []


def set_settings(wildcards):
    return canonical(QUESTION_SETS.of(wildcards.dataset))


# The slices of the registry that jobs depend on. They are functions because Snakemake would search a string with
# LaTeX's braces for wildcards.
def entry_of_source(wildcards):
    return canonical(REGISTRY.slice([wildcards.source]))


def entry_of_set(wildcards):
    return entries_of(wildcards.dataset)


def training_entries(wildcards):
    return entries_of(*TRAINING_SETS)


def entries_of(*names):
    sources = [REGISTERED[name].name for name in names if name in REGISTERED]
    return canonical(REGISTRY.slice(sources).content())
