# From the runs' tidy tables to what a reader sees.
localrules:
    index,
    summarize,
    compare,
    tables,
    figures,
    split_pictures,
    report,


rule index:
    """Which run fills which cell of which table, for people and for the rules below."""
    output:
        index="results/{scale}/index/{paper}.csv",
    log:
        "logs/index/{scale}/{paper}.log",
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        cells=lambda wildcards: [cell.row() for cell in cells_asked(PLAN, wildcards.paper, asked(), Path())],
    message:
        "index the cells of {wildcards.paper} at scale {wildcards.scale}"
    script:
        "../scripts/index.py"


rule summarize:
    """Mean, spread and interval over seeds for every cell, model, metric and selection."""
    input:
        index=rules.index.output.index,
        rounds=lambda wildcards: artefacts(wildcards.paper, "rounds.parquet"),
        evaluations=lambda wildcards: artefacts(wildcards.paper, "evaluation.parquet"),
        predictions=lambda wildcards: artefacts(wildcards.paper, "predictions.parquet"),
        records=lambda wildcards: artefacts(wildcards.paper, "run.json"),
    output:
        summary="results/{scale}/summary/{paper}.parquet",
    log:
        "logs/summarize/{scale}/{paper}.log",
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        code=code_digest("analysis.summarize"),
    message:
        "summarize {wildcards.paper} at scale {wildcards.scale}"
    script:
        "../scripts/summarize.py"


rule compare:
    """Every printed number of the paper beside ours, with difference and verdict."""
    input:
        summary=rules.summarize.output.summary,
        index=rules.index.output.index,
        published=ROOT / "config" / "published.csv",
    output:
        reproduction=report(
            "results/{scale}/reproduction/{paper}.csv",
            caption="../report/reproduction.rst",
            category="{paper}",
            labels={"what": "all printed numbers", "scale": "{scale}"},
        ),
    log:
        "logs/compare/{scale}/{paper}.log",
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        name=lambda wildcards: PLAN.papers[wildcards.paper].name,
        code=code_digest("analysis.compare"),
    message:
        "compare {wildcards.paper} with its printed numbers"
    script:
        "../scripts/compare.py"


rule tables:
    """One table in the paper's own shape, ours beside theirs."""
    input:
        reproduction=rules.compare.output.reproduction,
    output:
        html=report(
            "results/{scale}/tables/{paper}/{table}.html",
            caption="../report/table.rst",
            category="{paper}",
            labels={"what": "{table}", "scale": "{scale}"},
        ),
        tex="results/{scale}/tables/{paper}/{table}.tex",
        csv="results/{scale}/tables/{paper}/{table}.csv",
    log:
        "logs/tables/{scale}/{paper}/{table}.log",
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        planned=lambda wildcards: planned_at_paper(wildcards.paper),
        code=code_digest("analysis.tables", "analysis.templates"),
    message:
        "{wildcards.table} of {wildcards.paper}"
    script:
        "../scripts/tables.py"


rule figures:
    """One figure in the paper's own shape."""
    input:
        index=rules.index.output.index,
        rounds=lambda wildcards: artefacts(wildcards.paper, "rounds.parquet"),
        evaluations=lambda wildcards: artefacts(wildcards.paper, "evaluation.parquet"),
        predictions=lambda wildcards: artefacts(wildcards.paper, "predictions.parquet"),
        visits=lambda wildcards: artefacts(wildcards.paper, "visits.parquet"),
        records=lambda wildcards: artefacts(wildcards.paper, "run.json"),
        logged=ROOT / "config" / "curves.csv",
        pictures=lambda wildcards: [ancient(f"resources/{name}/inputs.npy") for name in PLAN.pictured(wildcards.paper)],
    output:
        svg=report(
            "results/{scale}/figures/{paper}/{figure}.svg",
            caption="../report/figure.rst",
            category="{paper}",
            labels={"what": "{figure}", "scale": "{scale}"},
        ),
        png="results/{scale}/figures/{paper}/{figure}.png",
    log:
        "logs/figures/{scale}/{paper}/{figure}.log",
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        titles=lambda wildcards: PLAN.setting_titles(wildcards.paper),
        class_names=lambda wildcards: PLAN.class_names(wildcards.paper),
        planned=lambda wildcards: planned_at_paper(wildcards.paper),
        code=code_digest("analysis.figures"),
    message:
        "{wildcards.figure} of {wildcards.paper}"
    script:
        "../scripts/figures.py"


rule split_pictures:
    """Who holds how many samples of which label: one client split of a paper, for its first seed."""
    input:
        split=lambda wildcards: ancient(PLAN.split_file(picture_of(wildcards).run)),
        labels=lambda wildcards: ancient(f"resources/{picture_of(wildcards).run.dataset}/labels.npy"),
        manifest=lambda wildcards: ancient(f"resources/{picture_of(wildcards).run.dataset}/manifest.json"),
    output:
        svg=report(
            "results/{scale}/splits/{paper}/{picture}.svg",
            caption="../report/split.rst",
            category="{paper}",
            labels={"what": "client split {picture}", "scale": "{scale}"},
        ),
        png="results/{scale}/splits/{paper}/{picture}.png",
    log:
        "logs/split_pictures/{scale}/{paper}/{picture}.log",
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        titles=lambda wildcards: list(dict.fromkeys(picture_of(wildcards).titles.values())),
        dataset_title=lambda wildcards: picture_of(wildcards).dataset_title,
        stand_in_for=lambda wildcards: picture_of(wildcards).stand_in_for,
        data=lambda wildcards: PLAN.data_digest(picture_of(wildcards).run),
        code=code_digest("analysis.split_pictures"),
    message:
        "client split {wildcards.picture} of {wildcards.paper}"
    script:
        "../scripts/split_pictures.py"


rule report:
    """The start page, which stands alone: tables, figures, verdicts, cost, what did not run, each number's origin."""
    input:
        reproductions=expand(rules.compare.output.reproduction, scale="{scale}", paper=list(PLAN.papers)),
        indices=expand(rules.index.output.index, scale="{scale}", paper=list(PLAN.papers)),
        tables=shown("Table", rules.tables.output.html),
        figures=shown("Figure", rules.figures.output.svg),
        splits=pictured(rules.split_pictures.output.svg),
        records=[f"{run.folder}/run.json" for run in PLAN.runs.values()],
    output:
        html=report(
            "results/{scale}/report/index.html",
            caption="../report/start.rst",
            category="start page",
            labels={"what": "all papers", "scale": "{scale}"},
        ),
        text="results/{scale}/summary.txt",
    log:
        "logs/report/{scale}.log",
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        papers=PLAN.headers,
        left_out={paper: PLAN.left_out(paper) for paper in PLAN.papers},
        planned=lambda wildcards: {paper: planned_at_paper(paper) for paper in PLAN.papers},
        code=code_digest("analysis.report", "analysis.terminal", "analysis.templates"),
    message:
        "report at scale {wildcards.scale}"
    script:
        "../scripts/report.py"
