"""Rule track_means: means, printed numbers, verdicts, tables and figures of a paper to MLflow."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import alone, job
from fedbayes.tracking import PaperInfo, publish_cells
from fedbayes.tracking_uri import tracking_uri

with job(snakemake.log[0]), alone(Path("results/tracking/lock")):
    tables, figures = ([Path(file) for file in snakemake.input[kind]] for kind in ("tables", "figures"))
    paper = PaperInfo(**snakemake.params.paper)
    publish_cells(tracking_uri(), paper, Path(snakemake.input.reproduction), figures, tables)
    write_json(Path(snakemake.output.receipt), {"paper": paper.key, "tables": len(tables), "figures": len(figures)})
