"""What became of every run of a plan, from files alone: what is there, and what the logs of its jobs say.

Nothing is locked or changed, so it may be asked while Snakemake works; neither torch nor MLflow is needed.
"""
