"""Pictures of replays and experiments, and an HTML page of them (needs matplotlib)."""

from streamnb.pictures.figures import draw_comparison, draw_experiment, draw_results, show_results
from streamnb.pictures.report import write_report
from streamnb.pictures.style import check_target

__all__ = [
    "check_target",
    "draw_comparison",
    "draw_experiment",
    "draw_results",
    "show_results",
    "write_report",
]
