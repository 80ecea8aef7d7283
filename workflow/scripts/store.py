"""Rule store: an MLflow store that is there and answers."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import alone, job
from fedbayes.tracking import open_store
from fedbayes.tracking_uri import store_name, tracking_uri

with job(snakemake.log[0]), alone(Path("results/tracking/lock")):
    open_store(tracking_uri())
    write_json(Path(snakemake.output.stamp), {"store": store_name(tracking_uri())})
