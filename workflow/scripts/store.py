"""Rule store: an MLflow store that is there and answers."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import job
from fedbayes.tracking import open_store

with job(snakemake.log[0]):
    open_store(snakemake.params.uri)
    write_json(Path(snakemake.output.stamp), {"uri": snakemake.params.uri})
