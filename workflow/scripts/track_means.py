"""Rule track_means: means, printed numbers, verdicts, tables and figures of a paper to MLflow."""

from pathlib import Path

from fedbayes.io import write_json
from fedbayes.job import job
from fedbayes.tracking import PaperInfo, publish_cells

with job(snakemake.log[0]):
    tables, figures = ([Path(file) for file in snakemake.input[kind]] for kind in ("tables", "figures"))
    paper = PaperInfo(**snakemake.params.paper)
    publish_cells(snakemake.params.uri, paper, Path(snakemake.input.reproduction), figures, tables)
    write_json(Path(snakemake.output.receipt), {"paper": paper.key, "tables": len(tables), "figures": len(figures)})
