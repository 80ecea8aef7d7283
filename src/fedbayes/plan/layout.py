"""The cells of a paper, table by table: settings x methods x presets x printed numbers x seeds."""

from __future__ import annotations

from fedbayes.config import Config, Paper
from fedbayes.plan.by_schema import marks_of
from fedbayes.plan.cell import Cell
from fedbayes.plan.known import Known
from fedbayes.plan.other_runs import baseline_of, start_of
from fedbayes.plan.paper_tables import own_table
from fedbayes.plan.run import Run
from fedbayes.plan.scales import UNCHANGED, AtScale, at_scale, reduction
from fedbayes.plan.specification import specification
from fedbayes.plan.where import Where
from fedbayes.plan.which_data import outsiders_of, titles_of
from fedbayes.reading import complain


def cells_of_paper(known: Known, config: Config, key: str, paper: Paper) -> list[Cell]:
    """All cells that the scale runs, in the order of the paper's file."""
    scale = at_scale(config, paper)
    cells = []
    for name, experiment in paper.experiments.items():
        for setting in experiment.settings:
            for label, entry in experiment.methods.items():
                where = Where(key, name, setting, label, paper)
                if scale.runs(where):
                    for preset in entry.presets[: scale.presets(name)]:
                        cells += _cells_of_preset(known, where, preset, scale)
    if not cells:
        raise complain(f"config/papers/{key}.yaml", f"scales.{scale.name}.only", "leaves nothing to run")
    return cells


def _cells_of_preset(known: Known, where: Where, preset: str, scale: AtScale) -> list[Cell]:
    """The cells of one preset of a method in a setting: one for each printed number and seed."""
    experiment, setting = where.experiment_record, where.setting_record
    exact = specification(known, where, preset, UNCHANGED)
    actual = exact if scale.changes is UNCHANGED else specification(known, where, preset, scale.changes)
    marks = marks_of(known, actual["method"])
    outsiders = outsiders_of(known, where, scale.changes)
    title, stand_in_for = titles_of(known, actual["dataset"])
    outsiders_title, outsiders_stand_in_for = titles_of(known, outsiders) if outsiders else ("", "")
    start, baseline = start_of(known, where, scale), baseline_of(known, where, scale)

    def run(seed: int) -> Run:
        warm = {"warm_start": Run(start | {"seed": seed}).id} if start else {}
        return Run(actual | {"seed": seed} | warm)

    return [
        Cell(
            paper=where.paper,
            experiment=where.experiment,
            setting=where.setting,
            variant=", ".join(filter(None, [setting.variant, marks])),
            method=where.method,
            preset=preset,
            scale=scale.name,
            seed=seed,
            run=run(seed),
            dataset_title=title,
            stand_in_for=stand_in_for,
            marks=marks,
            reduction=reduction(exact, actual),
            published_table=experiment.published_table or "",
            published_dataset=place.dataset,
            published_setting=place.setting,
            published_condition=place.condition,
            baseline=Run(baseline | {"seed": seed}).folder if baseline else "",
            outsiders=outsiders,
            outsiders_title=outsiders_title,
            outsiders_stand_in_for=outsiders_stand_in_for,
            experiment_title=experiment.title,
            setting_title=setting.title,
            own_table=own_table(where.content, where.experiment),
        )
        for place in setting.places()
        for seed in scale.seeds
    ]
