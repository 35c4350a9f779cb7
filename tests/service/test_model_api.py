"""Predictions of a model file by HTTP: `streamnb serve --model FILE`."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from commands import streamnb_command
from serving import Web, poll, port_of

from streamnb import (
    AODE,
    CategoricalNB,
    GaussianNB,
    MailClassifier,
    MixedNB,
    MultinomialNB,
    TextClassifier,
)
from streamnb.mailbox.service.api import RequestError
from streamnb.mailbox.service.model_api import RowPredictor, predict_all

TICKETS = [("cannot log in", "account"), ("forgot my password", "account"),
           ("invoice is wrong", "billing"), ("charged twice", "billing")]  # fmt: skip


def text_model(path, examples=TICKETS, kind=TextClassifier):
    classifier = kind()
    for _ in range(20):
        for text, label in examples:
            classifier.learn_one(text, label)
    classifier.save(path)
    return classifier


def client_of(serve, path):
    """Start a server with a model file, and return its client."""
    process = serve("--model", path, "--http", "127.0.0.1:0", lines=1)
    token = path.with_name(f"{path.name}.token").read_text().strip()
    return Web(port_of(process, "http"), token)


@pytest.fixture
def predicting(serve):
    return partial(client_of, serve)


@pytest.fixture(scope="module")
def tickets(serve_all_tests, tmp_path_factory):
    """Return a client of a server with a model of texts, for tests that send requests alone."""
    path = tmp_path_factory.mktemp("tickets") / "tickets.snb"
    text_model(path)
    return client_of(serve_all_tests, path)


@pytest.fixture(scope="module")
def rows(serve_all_tests, tmp_path_factory):
    """Return a client of a server with a model of rows, for tests that send requests alone."""
    path = tmp_path_factory.mktemp("rows") / "rows.snb"
    model = CategoricalNB()
    model.learn_one({"a": 1}, "p")
    model.save(path)
    return client_of(serve_all_tests, path)


@pytest.mark.parametrize("kind", [TextClassifier, MailClassifier])
def test_a_program_gets_what_the_library_predicts(predicting, tmp_path, kind):
    classifier = text_model(tmp_path / "tickets.snb", kind=kind)
    web = predicting(tmp_path / "tickets.snb")
    status, prediction = web("POST", "/predict", json.dumps({"text": "log in", "reasons": 2}))
    verdict = classifier.classify("log in", reasons=2)
    assert status == 200
    assert prediction["label"] == verdict.label == "account"
    assert prediction["probability"] == verdict.probability
    assert prediction["probabilities"] == verdict.probabilities
    assert prediction["unsure"] == verdict.unsure
    names = [item["feature"] for item in prediction["reasons"]]
    assert names == [item["feature"] for item in verdict.to_dict()["reasons"]]
    texts = ["log in", "invoice", ""]
    status, many = web("POST", "/predict", json.dumps({"texts": texts}))
    labels = [item["label"] for item in many["predictions"]]
    assert (status, labels) == (200, [classifier.classify(text).label for text in texts])
    assert web("POST", "/predict", b'{"texts": []}') == (200, {"predictions": []})


@pytest.mark.parametrize("label", ["yes", 1, True])
@pytest.mark.parametrize("kind", [CategoricalNB, GaussianNB, MultinomialNB])
def test_rows_are_predicted_by_a_model_of_rows(predicting, tmp_path, kind, label):
    model = kind()
    for number in range(8):
        model.learn_one({"a": 1 + number % 2, "b": number}, label if number % 2 else "other")
    model.save(tmp_path / "rows.snb")
    web = predicting(tmp_path / "rows.snb")
    row = {"a": 2, "b": 3}
    status, prediction = web("POST", "/predict", json.dumps({"row": row}))
    probabilities = model.predict_proba_one(row)
    assert status == 200
    assert prediction["probabilities"] == {str(y): p for y, p in probabilities.items()}
    assert prediction["label"] == max(probabilities, key=probabilities.get)
    assert web("POST", "/predict", json.dumps({"rows": [row] * 3}))[1] == {
        "predictions": [prediction] * 3
    }
    assert web("POST", "/predict", json.dumps({"text": "x"}))[0] == 400
    reasons = web("POST", "/predict", json.dumps({"row": row, "reasons": 1}))[1].pop("reasons")
    pairs = model.explain_one(row).top_features(prediction["label"])
    feature, log_odds = max(pairs, key=lambda pair: abs(pair[1]))
    assert reasons == [{"feature": feature, "log_odds": pytest.approx(log_odds)}]


def test_impossible_levels_are_reasons_without_a_number(predicting, tmp_path):
    model = CategoricalNB(alpha=0)
    for level, label in (("red", "a"), ("blue", "b")):
        model.learn_one({"colour": level}, label)
    model.save(tmp_path / "rows.snb")
    body = json.dumps({"row": {"colour": "red"}, "reasons": 5})
    status, prediction = predicting(tmp_path / "rows.snb")("POST", "/predict", body)
    assert (status, prediction["label"]) == (200, "a")
    assert prediction["reasons"] == [{"feature": "colour", "log_odds": None}]


def test_a_row_of_very_many_features_gets_reasons(predicting, tmp_path):
    model = GaussianNB()
    for number in range(4):
        model.learn_one({f"x{i}": number + i for i in range(1001)}, "ab"[number % 2])
    model.save(tmp_path / "rows.snb")
    web, row = predicting(tmp_path / "rows.snb"), {f"x{i}": 1 for i in range(1001)}
    status, answer = web("POST", "/predict", json.dumps({"row": row, "reasons": 1}))
    assert status == 200
    assert len(answer["reasons"]) == 1


@pytest.mark.parametrize("kind", [CategoricalNB, GaussianNB, MixedNB, AODE])
def test_a_key_that_the_model_has_not_learned_is_an_error(predicting, tmp_path, kind):
    model = kind()
    for number in range(8):
        model.learn_one({"size": 1 + number % 2, "colour": number, 3: 1}, "ab"[number % 2])
    model.save(tmp_path / "rows.snb")
    web = predicting(tmp_path / "rows.snb")
    for row, hint in {
        '{"SIZE": 2}': "did you mean 'size'?",
        '{"colour": 1, "sice": 2}': "did you mean 'size'?",
        '{"weight": 2}': "it has 3, colour, size",
        '{"": 2}': "it has 3, colour, size",
    }.items():
        for body in (f'{{"row": {row}}}', f'{{"rows": [{{"size": 1}}, {row}]}}'):
            status, answer = web("POST", "/predict", body)
            assert (status, list(answer)) == (400, ["error"])
            assert hint in answer["error"]
    for row in ({}, {"size": 2}, {"3": 1, "colour": None}):
        expected = model.predict_proba_one({3 if key == "3" else key: row[key] for key in row})
        status, prediction = web("POST", "/predict", json.dumps({"row": row}))
        assert (status, prediction["probabilities"]) == (200, expected)
    schema = json.dumps(web("GET", "/openapi.json")[1])
    assert all(f'"{name}": ' in schema for name in ("size", "colour", "3"))
    assert '"additionalProperties": false' in schema
    takes_text = kind in (CategoricalNB, AODE)
    assert ('"size": {"type": ["number", "null"]}' not in schema) == takes_text


@pytest.mark.parametrize(
    "body",
    [
        b"", b"nonsense", b"[]", b"{}", b'{"text": 1}', b'{"text": "a", "texts": []}',
        b'{"texts": "a"}', b'{"texts": [1]}', b'{"text": "a", "reasons": -1}',
        b'{"text": "a", "reasons": true}', b'{"text": "a", "reasons": 1e9}', b'{"row": {}}',
        b'{"text": "a", "extra": 1}', b'{"text": null}', b"[" * 100_000, b"\xff\xfe",
        b'{"texts": [' + b'"",' * 10_000 + b'""]}',
    ],
)  # fmt: skip
def test_a_wrong_request_gives_an_error_of_one_line(tickets, body):
    status, answer = tickets("POST", "/predict", body)
    assert status == 400
    assert list(answer) == ["error"]
    assert "\n" not in answer["error"]
    assert tickets("POST", "/predict", b'{"text": "log in"}')[0] == 200


@pytest.mark.parametrize(
    ("body", "error"),
    {
        '{"text": "a", "text": "b"}': "the body: the key 'text' occurs twice",
        '{"text": "a"} {"text": "b"}': "the body: not JSON: Extra data",
        '{"texts": ["a", 1]}': "texts[1]: expected a string, not a number",
    }.items(),
)
def test_an_error_of_the_api_names_the_part_of_the_body(tickets, body, error):
    assert tickets("POST", "/predict", body) == (400, {"error": error})


@pytest.mark.parametrize(
    ("value", "kind"),
    [("null", "null"), ("1.5", "a number"), ("false", "a boolean"), ("[]", "an array")],
)
def test_an_error_of_the_api_names_the_json_type_of_a_value(tickets, rows, value, kind):
    _, answer = tickets("POST", "/predict", f'{{"text": {value}}}'.encode())
    assert answer["error"] == f"text: expected a string, not {kind}"
    error = rows("POST", "/predict", f'{{"row": {value}}}')[1]["error"]
    assert error == f"row: expected an object, not {kind}"
    nested = rows("POST", "/predict", b'{"row": {"a": []}}')[1]["error"]
    assert nested == "row: 'a': expected a scalar, not an array"


def test_an_error_of_a_value_names_its_row_once():
    model = GaussianNB()
    model.learn_one({"a": 1.0}, "p")
    predictor = RowPredictor(model)
    for body, name in {'{"row": ROW}': "row", '{"rows": [{"a": 1}, ROW]}': "rows[1]"}.items():
        with pytest.raises(RequestError) as error:
            predict_all(predictor, body.replace("ROW", '{"a": "x"}').encode())
        assert str(error.value) == f"{name}: 'a': 'x' is not a number"


def test_odd_texts_are_answered(predicting, tmp_path):
    text_model(tmp_path / "tickets.snb")
    web = predicting(tmp_path / "tickets.snb")
    for text in ("", "\0", "\ud800", "x" * 1_000_000, "日本語", "\u202e"):
        status, prediction = web("POST", "/predict", json.dumps({"text": text}))
        assert (status, set(prediction)) == (
            200, {"label", "probability", "probabilities", "unsure"}
        )  # fmt: skip


def test_an_untrained_model_is_refused(predicting, tmp_path):
    TextClassifier().save(tmp_path / "empty.snb")
    status, prediction = predicting(tmp_path / "empty.snb")("POST", "/predict", b'{"text": "a"}')
    assert (status, prediction["label"], prediction["unsure"]) == (200, None, True)


def test_the_description_and_health_need_no_token_and_the_rest_does(predicting, tmp_path):
    text_model(tmp_path / "tickets.snb")
    web = predicting(tmp_path / "tickets.snb")
    stranger = Web(web.port, "wrong")
    status, description = stranger("GET", "/openapi.json")
    assert (status, description["openapi"]) == (200, "3.1.0")
    schema = description["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    keys = {name for kind in schema["schema"]["oneOf"] for name in kind["required"]}
    assert keys == {"text", "texts"}
    assert stranger("GET", "/health")[0] == 200
    assert stranger("GET", "/metrics")[0] == stranger("POST", "/predict", b"{}")[0] == 401
    assert web("POST", "/classify", b"x")[0] == 404
    web("POST", "/predict", b'{"text": "log in"}')
    metrics = web("GET", "/metrics")[1]
    assert 'streamnb_requests_total{status="200",what="predict"} 1.0' in metrics


def test_a_new_version_of_the_file_is_used_and_a_damaged_one_is_not(predicting, tmp_path):
    path = tmp_path / "tickets.snb"
    text_model(path)
    web = predicting(path)

    def label():
        return web("POST", "/predict", b'{"text": "log in"}')[1]["label"]

    assert label() == "account"
    text_model(path, [("cannot log in", "sales"), ("invoice", "billing")])
    poll(lambda: label() == "sales")
    path.write_bytes(b"damaged")
    assert label() == "sales"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "--model needs --http"),
        (("--http", "127.0.0.1:0", "--users"), "remove --users"),
        (("--http", "127.0.0.1:0", "--db", "x"), "cannot be combined"),
        (("--http", "127.0.0.1:0", "--milter", "127.0.0.1:0"), "remove --milter"),
        (("--http", "127.0.0.1:0"), "the model cannot be read"),
    ],
)
def test_misuse_is_one_line(tmp_path, options, text):
    status, out, error = streamnb_command("serve", "--model", tmp_path / "none.snb", *options)
    assert status != 0
    assert (out, error.count("\n")) == ("", 1)
    assert text in error


@pytest.mark.parametrize("module", ["prometheus_client", "starlette", "uvicorn"])
@pytest.mark.parametrize("options", [["--model", "m.snb"], ["--users"]])
def test_a_missing_extra_is_named(tmp_path, module, options):
    program = f"import sys; sys.modules[{module!r}] = None; from streamnb.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "serve", *options, "--http", "127.0.0.1:0"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "STREAMNB_USERS": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert f"{module}: not installed: pip install 'streamnb[server]'" in done.stderr


@pytest.mark.parametrize("query", ["reasons=2", "text=log+in", "threshold=0.9&reasons=2"])
def test_a_key_in_the_url_is_refused(predicting, tmp_path, query):
    text_model(tmp_path / "tickets.snb")
    web = predicting(tmp_path / "tickets.snb")
    status, answer = web("POST", f"/predict?{query}", json.dumps({"text": "log in"}))
    assert status == 400
    assert answer["error"].startswith(f"'{query.partition('=')[0]}': write keys into the body")


def test_labels_of_one_text_have_two_keys():
    model = CategoricalNB()
    for label in (1, "1", "b"):
        model.learn_one({"a": str(label)}, label)
    answer = predict_all(RowPredictor(model), b'{"row": {"a": "1"}}')
    assert set(answer["probabilities"]) == {"1", '"1"', '"b"'}
    assert sum(answer["probabilities"].values()) == pytest.approx(1)
