# Raw data, client splits and shifts.
localrules:
    fetch,
    partition,


rule fetch:
    """Read a dataset from the user's folder, the package that ships it, or its download; check it; keep its arrays."""
    output:
        inputs="resources/{dataset}/inputs.npy",
        labels="resources/{dataset}/labels.npy",
        tables="resources/{dataset}/tables.npz",
        manifest="resources/{dataset}/manifest.json",
    log:
        "logs/fetch/{dataset}.log",
    resources:
        mem_mb=lambda wildcards, attempt: 3000 * attempt,
        runtime=60,
    params:
        # Only what the arrays depend on: a new title must not fetch again.
        facts=lambda wildcards: PLAN.datasets[wildcards.dataset].model_dump(include=set(ArrayFacts.model_fields)),
        code=lambda wildcards: PLAN.reader_code(wildcards.dataset),
    message:
        "fetch {wildcards.dataset}"
    script:
        "../scripts/fetch.py"


rule partition:
    """Give each client its samples, and compare the file with the committed list of splits."""
    input:
        unpack(dataset_files),
    output:
        split="{root}/{dataset}/{split}/seed{seed}.npz",
    log:
        "logs/partition/{root}/{dataset}/{split}/seed{seed}.log",
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        split=lambda wildcards: split_of(wildcards).model_dump(),
        committed=lambda wildcards, output: PLAN.committed_splits.get(output.split),
        parts=lambda wildcards: PLAN.datasets[wildcards.dataset].test_per_class,
        code=code_digest("data.partition"),
    message:
        "partition {wildcards.dataset} by {wildcards.split}, seed {wildcards.seed}"
    script:
        "../scripts/partition.py"


rule corrupt:
    """Show every sample that clients hold as its client's noise model shows it."""
    input:
        unpack(dataset_files),
        split=lambda wildcards: ancient(PLAN.split_file(shifted_run(wildcards))),
    output:
        shift="results/shifts/{dataset}/{split}/{shift}/seed{seed}.npz",
    log:
        "logs/corrupt/{dataset}/{split}/{shift}/seed{seed}.log",
    benchmark:
        "benchmarks/corrupt/{dataset}/{split}/{shift}/seed{seed}.tsv"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        shift=lambda wildcards: shifted_run(wildcards).spec["shift"],
        data=lambda wildcards: PLAN.data_digest(shifted_run(wildcards)),
    message:
        "corrupt {wildcards.dataset} by {wildcards.shift}, seed {wildcards.seed}"
    script:
        "../scripts/corrupt.py"
