# How the report (snakemake --report) lists tables and figures: chapters, what stands in each, and under which words.
# The report sorts chapters and entries by their text, so both begin with a number.

# Most important first.
CHAPTERS = {
    "Main results": [
        *("main", "reliability", "reliability_all", "training_dynamics"),
        *(f"main_step{step}" for step in EARLIER_STAGES),
        "scale",
    ],
    "Transfer": ["ood", "cross_iteration", "cross_policy"],
    "Analysis": [
        *("budgets", "composition", "early_steps"),
        *("pre_generation", "token_aggregation", "layers"),
    ],
    "Cost": ["cost", "time_to_confidence"],
    "Study": ["hyperparameters", "overview", "paradigms"],
}


def category(name):
    """The chapter of a table or figure, e.g. 2 Transfer."""
    for number, (chapter, names) in enumerate(CHAPTERS.items(), start=1):
        if name in names:
            return f"{number} {chapter}"
    raise ValueError(f"{name} stands in no chapter of the report; add it to CHAPTERS")


def labels(name, title):
    """The entry of a table or figure in its chapter, e.g. 2.1 Math-to-factual transfer.

    It is the only label: the report would turn a second one that halves a chapter into a switch that hides one half.
    """
    number, chapter = category(name).split(" ", 1)
    shown = {*tables_of_study(), *FIGURES, name}
    names = [one for one in CHAPTERS[chapter] if one in shown]
    width = len(str(len(names)))
    return {"table or figure": f"{number}.{names.index(name) + 1:0{width}d} {title}"}


def main_table_labels(wildcards):
    name, step = f"main{wildcards.stage}", table_step(wildcards)
    return labels(name, f"Main table, step {step}")
