# MLflow is a view of the files under results/: one writer, rebuilt at any time. No rule here fails because the store
# cannot be reached: its receipt then says what was missed, and the next start asks for another one (`again` is `.2`).
localrules:
    store,
    track,
    track_means,


rule store:
    """Make the MLflow store ready; everything is published anew whenever this rule has run."""
    output:
        # `update`: a forced re-run must never delete a store that may hold other people's runs.
        database=update(DATABASE),
        stamp=f"{RECEIPTS}/store.json",
    log:
        "logs/store.log",
    resources:
        mem_mb=1000,
        runtime=10,
        mlflow=1,
    message:
        f"open the MLflow store ({STORE})"
    script:
        "../scripts/store.py"


rule track:
    """Publish finished runs to MLflow, as soon as they are finished."""
    input:
        stamp=rules.store.output.stamp,
        runs=lambda wildcards: [
            f"{cell.run.folder}/{name}"
            for cell in PLAN.tracking_batches[wildcards.batch]
            for name in ("run.json", "rounds.parquet", "evaluation.parquet")
        ],
    output:
        receipt=f"{RECEIPTS}/{{scale}}/{{batch}}{{again}}.json",
    log:
        "logs/track/{scale}/{batch}{again}.log",
    wildcard_constraints:
        batch="runs?-[^.]+",
    resources:
        mem_mb=1000,
        runtime=30,
        mlflow=1,
    params:
        cells=lambda wildcards: [cell.row() for cell in PLAN.tracking_batches[wildcards.batch]],
        paper=lambda wildcards: paper_info(PLAN.tracking_batches[wildcards.batch][0].paper),
        code=code_digest("tracking"),
    message:
        "publish {wildcards.batch} to MLflow"
    script:
        "../scripts/track.py"


rule track_means:
    """Publish means, printed numbers, verdicts, tables, figures and client splits of a paper to MLflow."""
    input:
        stamp=rules.store.output.stamp,
        runs=lambda wildcards: receipts_of(wildcards.paper),
        reproduction=rules.compare.output.reproduction,
        tables=lambda wildcards: shown("Table", rules.tables.output.html, [wildcards.paper]),
        figures=lambda wildcards: shown("Figure", rules.figures.output.png, [wildcards.paper]),
        splits=lambda wildcards: pictured(rules.split_pictures.output.png, [wildcards.paper]),
    output:
        receipt=f"{RECEIPTS}/{{scale}}/means-{{paper}}{{again}}.json",
    log:
        "logs/track/{scale}/means-{paper}{again}.log",
    resources:
        mem_mb=1000,
        runtime=30,
        mlflow=1,
    params:
        paper=lambda wildcards: paper_info(wildcards.paper),
        splits=lambda wildcards: pictured_by_setting(rules.split_pictures.output.png, wildcards.paper),
        code=code_digest("tracking"),
    message:
        "publish the means of {wildcards.paper} to MLflow"
    script:
        "../scripts/track_means.py"
