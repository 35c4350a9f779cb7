from array import array
from collections.abc import Sequence
from typing import Any

_Weights = tuple[list[float], list[float], list[float], list[float]]

def round_to(step: float, number: float) -> float: ...
def slopes(shared: _Weights, by_length: _Weights | None) -> list[float]: ...
def combine_scores(
    shared: _Weights,
    by_length: _Weights | None,
    log_likelihoods: list[list[float]],
    active: list[int],
) -> list[float]: ...
def calibration_step(
    shared: _Weights,
    by_length: _Weights | None,
    log_likelihoods: list[list[float]],
    proba: list[float],
    rate: float,
    step: tuple[Any, ...],
    targets: list[float] | None = None,
) -> list[tuple[tuple[float, ...], ...]]: ...
def present_classes(
    rows: list[list[Any]], class_index: int, active: list[int]
) -> tuple[list[int], int, int]: ...
def add_noise(
    rates: list[float], labels: list[float], changes: Sequence[float], factor: float
) -> None: ...
def add_rows(
    rows: list[list[Any]], changes: Sequence[Any], start: int, zeros: list[Any], sign: int
) -> None: ...
def add_scaled(numbers: list[float], changes: Sequence[float], times: float) -> None: ...
def best_index(scores: list[float]) -> int: ...
def probabilities(scores: list[float]) -> list[float]: ...
def logs(numbers: list[float]) -> list[float]: ...
def noise_rates(
    rates: list[float],
    labels: list[float],
    active: list[int],
    shared_labels: float,
    max_rate: float,
    has_floor: bool,
) -> list[float]: ...
def label_posterior(
    proba: list[float], rates: list[float], position: int, unseen: float = 0
) -> tuple[list[float], float]: ...
def noise_step(
    rates: list[float],
    labels: list[float],
    posterior: list[float],
    active: list[int],
    position: int,
    step_size: float,
) -> list[float]: ...
def predict_systems(
    systems: list[Any],
    log_weights: list[float],
    by_view: list[array[float]],
    active: list[int],
    length_bin: int | None,
    bound: float | None,
) -> tuple[array[float], array[float], list[float]]: ...
def learn_systems(
    systems: list[Any],
    log_likelihoods: array[float],
    scores: array[float],
    active: list[int],
    rates: list[float],
    noise_weight: float,
    step: tuple[Any, ...],
    min_error: float,
) -> tuple[list[Any] | None, list[Any] | None, list[float], list[float]]: ...
def overlap_scores(scores: list[float], rates: list[float]) -> list[float]: ...
def mean_scores(
    scores: list[float], rates: list[float], log_weights: list[float]
) -> list[float]: ...
def evidence_step(
    scores: list[float],
    rates: list[float],
    log_weights: list[float],
    position: int,
    switch_rate: float,
) -> list[float]: ...
def pool_step(
    log_weights: list[float], label_proba: list[float], switch_rate: float
) -> list[float]: ...
def residuals(
    log_likelihoods: list[list[float]], log_prior: list[float], class_index: int
) -> list[float]: ...
def view_residuals(
    log_likelihoods: array[float],
    log_weights: list[float],
    class_weights: list[float],
    total: float,
    class_index: int,
    extra: float,
    shortfalls: list[float],
) -> list[float]: ...
