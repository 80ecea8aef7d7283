# The workflow is in workflow/; this file lets `snakemake` find it from the top of a clone.
include: "workflow/Snakefile"


workflow.default_target = "all"
