"""Runs to what people read: summaries, comparisons with the printed numbers, tables, figures and the report."""
