# One training job for each run.
rule train:
    """Train one run, named by the digest of all that changes its numbers."""
    input:
        unpack(dataset_files),
        split=lambda wildcards: ancient(PLAN.split_file(run_of(wildcards))),
        shift=shift_file,
        start=start_file,
    output:
        state="results/runs/{dataset}/{method}/{run}/state.safetensors",
        rounds="results/runs/{dataset}/{method}/{run}/rounds.parquet",
        visits="results/runs/{dataset}/{method}/{run}/visits.parquet",
        record="results/runs/{dataset}/{method}/{run}/run.json",
    log:
        "logs/train/{dataset}/{method}/{run}.log",
    benchmark:
        "benchmarks/train/{dataset}/{method}/{run}.tsv"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: memory_mb(cost_of(wildcards), attempt),
        runtime=lambda wildcards, attempt: minutes(cost_of(wildcards), attempt),
        gpu=PLAN.config.execution.gpus,
        # Three minutes before its time limit SLURM tells it; it keeps its last round and goes back into the queue. Here,
        # because a profile's default resources are gone as soon as the command line names others.
        slurm_extra="--signal=TERM@180",
    params:
        spec=lambda wildcards: run_of(wildcards).spec,
        data=lambda wildcards: PLAN.data_digest(run_of(wildcards)),
        split_sha256=lambda wildcards: PLAN.committed_sha256(run_of(wildcards)),
        code=lambda wildcards: run_of(wildcards).code,
    message:
        "train {wildcards.method} on {wildcards.dataset}, run {wildcards.run}"
    script:
        "../scripts/train.py"
