"""Rule track: finished runs to MLflow."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import alone, job
from fedbayes.tracking import PaperInfo, publish_runs
from fedbayes.tracking_uri import tracking_uri

with job(snakemake.log[0]), alone(Path("results/tracking/lock")):
    cells = snakemake.params.cells
    publish_runs(tracking_uri(), Path("."), PaperInfo(**snakemake.params.paper), cells)
    write_json(Path(snakemake.output.receipt), {"runs": sorted({cell["run"] for cell in cells})})
