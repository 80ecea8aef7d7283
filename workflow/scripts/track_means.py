"""Rule track_means: means, printed numbers, verdicts, tables, figures and client splits of a paper to MLflow."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import alone, job
from fedbayes.tracking import PaperInfo, publish_cells
from fedbayes.tracking_uri import tracking_uri

with job(snakemake.log[0]), alone(Path("results/tracking/lock")):
    tables, figures = ([Path(file) for file in snakemake.input[kind]] for kind in ("tables", "figures"))
    splits = {key: Path(file) for key, file in snakemake.params.splits.items()}
    paper = PaperInfo(**snakemake.params.paper)
    publish_cells(tracking_uri(), paper, Path(snakemake.input.reproduction), figures, tables, splits)
    counts = {"tables": len(tables), "figures": len(figures), "splits": len(snakemake.input.splits)}
    write_json(Path(snakemake.output.receipt), {"paper": paper.key} | counts)
