"""The place in a paper's file that a cell is made from, and that a complaint about it names."""

from __future__ import annotations

from dataclasses import dataclass

from fedbayes.config import Experiment, MethodEntry, Paper, Setting


@dataclass(frozen=True)
class Where:
    """A method in a setting of a paper's experiment.

    Attributes:
        paper: the paper's key, which is also the name of its file.
        experiment: key of the experiment.
        setting: key of the setting.
        method: the method's name as the paper prints it.
        content: what the paper's file says.
    """

    paper: str
    experiment: str
    setting: str
    method: str
    content: Paper

    @property
    def file(self) -> str:
        """The paper's file."""
        return f"config/papers/{self.paper}.yaml"

    @property
    def experiment_record(self) -> Experiment:
        """What the file says of the experiment."""
        return self.content.experiments[self.experiment]

    @property
    def setting_record(self) -> Setting:
        """What it says of the setting."""
        return self.experiment_record.settings[self.setting]

    @property
    def method_entry(self) -> MethodEntry:
        """What it says of the method."""
        return self.experiment_record.methods[self.method]

    def __str__(self) -> str:
        return f"experiments.{self.experiment} / settings.{self.setting} / methods.{self.method}"
