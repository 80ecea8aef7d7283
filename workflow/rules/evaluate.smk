# Everything measured after training, so that a new metric never retrains.
EVALUATION_CODE = code_digest("evaluation.evaluate", "evaluation.doubt", "evaluation.estimates", "evaluation.held")


rule evaluate:
    """Test every state a run kept: each model, client and metric."""
    input:
        unpack(dataset_files),
        state=rules.train.output.state,
        split=lambda wildcards: ancient(PLAN.split_file(run_of(wildcards))),
        shift=shift_file,
        outsiders=outsider_files,
        start=start_file,
    output:
        evaluation="results/runs/{dataset}/{method}/{run}/evaluation.parquet",
        predictions="results/runs/{dataset}/{method}/{run}/predictions.parquet",
    log:
        "logs/evaluate/{dataset}/{method}/{run}.log",
    benchmark:
        "benchmarks/evaluate/{dataset}/{method}/{run}.tsv"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: memory_mb(cost_of(wildcards), attempt),
        runtime=lambda wildcards, attempt: minutes(cost_of(wildcards), attempt),
        gpu=PLAN.config.execution.gpus,
    params:
        spec=lambda wildcards: run_of(wildcards).spec,
        data=lambda wildcards: PLAN.data_digest(run_of(wildcards)),
        outsiders=lambda wildcards: PLAN.outsiders_digest(run_of(wildcards)),
        split_sha256=lambda wildcards: PLAN.committed_sha256(run_of(wildcards)),
        code=lambda wildcards: f"{run_of(wildcards).code}-{EVALUATION_CODE}",
    message:
        "evaluate {wildcards.method} on {wildcards.dataset}, run {wildcards.run}"
    script:
        "../scripts/evaluate.py"
