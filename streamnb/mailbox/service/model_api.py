"""Predictions of a model file over HTTP, in JSON."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamnb import __version__
from streamnb.classifier import Classifier
from streamnb.classifier.verdict import feature_name, finite_or_none
from streamnb.errors import UnexpectedError
from streamnb.mailbox.service.api import RequestError, RequestMetrics
from streamnb.mailbox.service.monitor import Monitor
from streamnb.scores import best_label, label_keys
from streamnb.storage import parse_json

_MOST_EXAMPLES = 10_000  # maximum number of examples in a request
_MOST_REASONS = 100
_SCALARS = (str, int, float, bool, type(None))
_JSON_KINDS = {
    type(None): "null",
    bool: "a boolean",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def _json_kind(value: Any) -> str:
    """Return JSON's name of a value's type."""
    return _JSON_KINDS.get(type(value), "a number")


class Predictor(Protocol):
    """The interface of models: the key of an example, its JSON schema, and predictions."""

    key: str
    schema: dict[str, Any]

    def predict(self, example: Any, reasons: int) -> dict[str, Any]:
        """Return the prediction for an example as JSON values.

        Raises
        ------
        RequestError
            If the value is not a valid example.
        """
        ...


class TextPredictor:
    """Predictions of a classifier of texts or mail."""

    key = "text"
    schema: dict[str, Any] = {"type": "string"}  # noqa: RUF012 (nothing changes it)

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    def predict(self, example: Any, reasons: int) -> dict[str, Any]:
        """Return label, probability, whether it is unsure, and the probability of each class."""
        if not isinstance(example, str):
            raise RequestError(f"expected a string, not {_json_kind(example)}")
        # JSON can contain half a surrogate pair
        text = example.encode("utf-8", "replace").decode()
        verdict = self.classifier.classify(text, reasons=reasons)
        prediction = _prediction(verdict.label, verdict.probabilities) | {"unsure": verdict.unsure}
        if reasons:
            pairs = [(feature_name(reason.feature), reason.log_odds) for reason in verdict.reasons]
            prediction["reasons"] = _reasons(pairs)
        return prediction


class RowPredictor:
    """Predictions of a model of rows, which are objects of scalars."""

    key = "row"

    def __init__(self, model: Any) -> None:
        self.model = model
        # Keys of JSON are text. The names of a table's columns can be numbers.
        self._features: dict[str, Any] | None = None
        value = {"type": ["string", "number", "boolean", "null"]}
        self.schema: dict[str, Any] = {"type": "object", "additionalProperties": value}
        statistics = getattr(model, "statistics", None)  # which models of tables have
        if statistics is not None:
            self._features = {str(name): name for name in statistics.feature_names()}
            number_keys = set(map(str, statistics.number_names()))
            number = {"type": ["number", "null"]}
            self.schema |= {
                "properties": {
                    key: number if key in number_keys else value for key in sorted(self._features)
                },
                "additionalProperties": False,
            }

    def predict(self, example: Any, reasons: int) -> dict[str, Any]:
        """Return label, probability, and the probability of each class."""
        if not isinstance(example, dict):
            raise RequestError(f"expected an object, not {_json_kind(example)}")
        for name, value in example.items():
            if not isinstance(value, _SCALARS):
                raise RequestError(f"{name!r:.60}: expected a scalar, not {_json_kind(value)}")
        if self._features is not None:
            example = {self._feature(name): value for name, value in example.items()}
        try:
            probabilities = self.model.predict_proba_one(example)
            label = best_label(probabilities)
            if not reasons:
                return _prediction(label, probabilities)
            pairs = self.model.explain_one(example).top_features(label, len(example))
        except (TypeError, ValueError) as error:
            raise RequestError(f"{error!s:.200}") from None
        pairs = sorted(pairs, key=lambda pair: -abs(pair[1]))[:reasons]
        return _prediction(label, probabilities) | {"reasons": _reasons(pairs)}

    def _feature(self, key: str) -> Any:
        """Return the name of the model's feature with a key; RequestError if there is none."""
        features = self._features or {}
        if key in features:
            return features[key]
        folded_names = {name.casefold(): name for name in features}
        close = get_close_matches(key.casefold(), folded_names, 1)
        hint = (
            f"did you mean {folded_names[close[0]]!r:.60}?"
            if close
            else f"it has {', '.join(sorted(features))[:200]}"
        )
        raise RequestError(f"the model has no feature {key!r:.60}; {hint}")


def _reasons(pairs: Iterable[tuple[Any, float]]) -> list[dict[str, Any]]:
    """Return features and their log-odds; null for infinite ones."""
    return [
        {"feature": str(feature), "log_odds": finite_or_none(log_odds)}
        for feature, log_odds in pairs
    ]


def _prediction(label: Any, probabilities: dict[Any, float]) -> dict[str, Any]:
    """Return the values of a prediction."""
    keys = label_keys(probabilities).values()
    return {
        "label": label if isinstance(label, _SCALARS) else str(label),
        "probability": float(probabilities.get(label, 0.0)),
        "probabilities": dict(zip(keys, map(float, probabilities.values()), strict=True)),
    }


def predict_all(predictor: Predictor, body: bytes) -> dict[str, Any]:
    """Return the answer to a request: a prediction or a list of predictions.

    Raises
    ------
    RequestError
        If the body is not a valid request.
    """
    key = predictor.key
    try:
        request = parse_json(body)
    except ValueError as error:
        raise RequestError(f"the body: {error}") from None
    if not isinstance(request, dict) or (key in request) == (f"{key}s" in request):
        raise RequestError(f"the body must be an object with either {key!r} or '{key}s'")
    if unknown := set(request) - {key, f"{key}s", "reasons"}:
        raise RequestError(f"{min(unknown)!r:.60}: no such key; use {key}, {key}s and reasons")
    reasons = request.get("reasons", 0)
    if type(reasons) is not int or not 0 <= reasons <= _MOST_REASONS:
        raise RequestError(f"reasons: expected a number from 0 to {_MOST_REASONS}")
    if key in request:
        return _predict_named(predictor, key, request[key], reasons)
    examples = request[f"{key}s"]
    if not isinstance(examples, list) or len(examples) > _MOST_EXAMPLES:
        raise RequestError(f"{key}s: expected a list of at most {_MOST_EXAMPLES:,} items")
    names = [f"{key}s[{index}]" for index in range(len(examples))]
    return {
        "predictions": [
            _predict_named(predictor, name, example, reasons)
            for name, example in zip(names, examples, strict=True)
        ]
    }


def _predict_named(predictor: Predictor, name: str, example: Any, reasons: int) -> dict[str, Any]:
    """Return the prediction of an example; an error begins with its name in the request."""
    try:
        return predictor.predict(example, reasons)
    except RequestError as error:
        raise RequestError(f"{name}: {error}") from None


def openapi(predictor: Predictor) -> dict[str, Any]:
    """Return the description of this API, by OpenAPI 3.1."""
    key = predictor.key
    reasons = {"type": "integer", "minimum": 0, "maximum": _MOST_REASONS, "default": 0}
    probability = {"type": "number", "minimum": 0, "maximum": 1}
    properties: dict[str, Any] = {
        "label": {"type": ["string", "number", "boolean", "null"]},
        "probability": probability,
        "probabilities": {"type": "object", "additionalProperties": probability},
    }
    if key == "text":
        properties["unsure"] = {"type": "boolean"}
    reason = {"feature": {"type": "string"}, "log_odds": {"type": ["number", "null"]}}
    properties["reasons"] = {"type": "array", "items": {"type": "object", "properties": reason}}
    prediction = {"type": "object", "properties": properties}
    many = {"type": "array", "items": predictor.schema, "maxItems": _MOST_EXAMPLES}
    request = {
        "oneOf": [
            {"type": "object", "required": [name], "properties": {name: kind, "reasons": reasons}}
            for name, kind in ((key, predictor.schema), (f"{key}s", many))
        ]
    }
    predictions = {"type": "array", "items": prediction}
    answer = {"oneOf": [prediction, {"type": "object", "properties": {"predictions": predictions}}]}
    error = {"type": "object", "properties": {"error": {"type": "string"}}}

    def response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"description": description, "content": {"application/json": {"schema": schema}}}

    operation = {
        "summary": "Predict the class of one example, or of many.",
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": response("The prediction, or all predictions in their order.", answer),
            "400": response("The request is wrong.", error),
            "401": response("The token is missing or wrong.", error),
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "streamnb", "version": __version__},
        "paths": {"/predict": {"post": operation}},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def model_api(current: Callable[[], Predictor], monitor: Monitor | None = None) -> Starlette:
    """Return the web application that serves predictions of a model.

    Parameters
    ----------
    current
        Returns the current model.
    monitor
        The metrics.
    """
    metrics = RequestMetrics(monitor)
    pool = ThreadPoolExecutor(4, "streamnb-predict")

    def act(body: bytes, names: list[str]) -> tuple[int, dict[str, Any]]:
        try:
            if names:
                raise RequestError(f"{names[0]!r:.60}: write keys into the body, not into the URL")
            return 200, predict_all(current(), body)
        except RequestError as error:
            return 400, {"error": str(error)}
        except Exception as error:  # no request may stop the server
            return 500, {"error": str(UnexpectedError(error))}

    async def predict(request: Request) -> Response:
        body = await request.body()
        started = time.perf_counter()
        status, answer = await asyncio.get_running_loop().run_in_executor(
            pool, act, body, list(request.query_params)
        )
        metrics.record("predict", status, time.perf_counter() - started)
        return JSONResponse(answer, status)

    async def describe(request: Request) -> Response:
        return JSONResponse(openapi(current()))

    routes = [
        Route("/predict", predict, methods=["POST"]),
        Route("/openapi.json", describe, methods=["GET"]),
    ]
    return metrics.application(routes)
