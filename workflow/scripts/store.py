"""Rule store: an MLflow store that is there and answers, or a warning that it does not."""

from pathlib import Path

from fedbayes.job import alone, job
from fedbayes.receipts import receipt
from fedbayes.tracking import open_store
from fedbayes.tracking_uri import store_name, tracking_uri

stamp = Path(snakemake.output.stamp)
with job(snakemake.log[0]), receipt(stamp, {"store": store_name(tracking_uri())}), alone(Path("results/tracking/lock")):
    open_store(tracking_uri())
