"""Parts of a stream add up to the whole, to the last digit."""

import random
import re
import shutil
from pathlib import Path

import pytest
from commands import streamnb_command
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb import (
    AODE,
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    GaussianNB,
    LazyBayesianRules,
    MailClassifier,
    MixedNB,
    MultinomialNB,
    Tokenizer,
)
from streamnb.errors import CorpusError, ModelFileError
from streamnb.evaluate import Example, PrequentialRun, RunningMetrics
from streamnb.evaluate.feedback import Delayed
from streamnb.partial import (
    BlockLayout,
    LabelledRow,
    assemble,
    count,
    count_block,
    merge,
    prefix_sums,
    replay_block,
    spec_of,
)
from streamnb.partial.partial_counts import pack_counts, unpack

WORDS = [f"w{i}" for i in range(40)]
MODELS = {
    "multinomial": lambda: MultinomialNB(),
    "multinomial of all others": lambda: MultinomialNB(complement=True, length_norm=0.3),
    "unseen": lambda: MultinomialNB(unseen="smooth", alpha=0.01),
    "bernoulli": lambda: BernoulliNB(),
    "bernoulli unseen": lambda: BernoulliNB(unseen="smooth"),
    "complement": lambda: ComplementNB(),
}


def stream(seed, n, classes):
    """Messages of random words, classes in random order, late ones among them."""
    rng = random.Random(seed)
    return [
        LabelledRow(
            i,
            f"c{rng.randrange(1 + min(classes - 1, i // 3))}",
            " ".join(rng.choices(WORDS, k=rng.randrange(12))),
        )
        for i in range(n)
    ]


def dealt(rows, deals, seed):
    """The rows as so many tasks may have them, halves of which have none."""
    rng = random.Random(seed)
    tasks = [[] for _ in range(deals)]
    for row in rows:
        tasks[rng.randrange(deals)].append(row)
    return tasks


def fitted(spec, tasks, parts, memory, seed=0):
    items = [item for task in tasks for item in count(spec, task, parts, memory)]
    random.Random(seed).shuffle(items)
    half = len(items) // 2
    halves = [*merge(spec, items[:half]), *merge(spec, items[half:])]
    return assemble(spec, merge(spec, halves))


def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.snb"
    model.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("kind", MODELS)
@given(
    seed=st.integers(0, 99),
    n=st.integers(0, 40),
    classes=st.sampled_from([1, 2, 3, 20]),
    deals=st.integers(1, 5),
    parts=st.sampled_from([1, 3, 8]),
    memory=st.sampled_from([1e-9, 512.0]),
)
@settings(max_examples=min(30, settings.default.max_examples))
def test_parts_add_up_to_the_whole(kind, seed, n, classes, deals, parts, memory, tmp_path_factory):
    classifier = Classifier(Tokenizer(), MODELS[kind]())
    spec = spec_of(classifier)
    rows = stream(seed, n, classes)
    model_of_parts = fitted(spec, dealt(rows, deals, seed), parts, memory, seed)
    for row in rows:
        classifier.learn_one(row.x, row.label)
    assert model_of_parts.labels == classifier.labels
    assert saved(model_of_parts, tmp_path_factory) == saved(classifier, tmp_path_factory)


def judged_in_sequence(classifier, rows, delay=0):
    run = PrequentialRun(classifier, [Delayed(delay)] if delay else [])
    metrics = RunningMetrics(None)
    for row in rows:
        example = Example(row.x, row.label, row.position)
        step = run.classify(example)
        yield row.position, row.label, step.predicted, metrics.score_step(step)
        run.train(example, step)


def judged_in_blocks(spec, rows, blocks, parts):
    rows_by_block = {}
    for row in rows:
        for block in blocks.blocks_of(row.position):
            rows_by_block.setdefault(block, []).append(row)
    items = {
        block: list(count_block(spec, block, blocks, block_rows[::-1], parts))
        for block, block_rows in sorted(rows_by_block.items())
    }
    scans = [
        prefix_sums(spec, items_of_part) for items_of_part in zip(*items.values(), strict=True)
    ]
    for (block, block_rows), prefix in zip(
        sorted(rows_by_block.items()), zip(*scans, strict=True), strict=True
    ):
        yield from replay_block(spec, block, blocks, prefix[::-1], block_rows[::-1])


@pytest.mark.parametrize("kind", MODELS)
@given(
    seed=st.integers(0, 99),
    n=st.integers(1, 50),
    classes=st.sampled_from([1, 2, 3, 20]),
    size=st.integers(1, 60),
    delay=st.sampled_from([0, 0, 1, 7, 30]),
    parts=st.sampled_from([1, 3]),
    first=st.sampled_from([0, -25, 2**62]),
)
@settings(max_examples=min(40, settings.default.max_examples))
def test_blocks_are_classified_like_the_whole_stream(
    kind, seed, n, classes, size, delay, parts, first
):
    classifier = Classifier(Tokenizer(), MODELS[kind]())
    rows = [row._replace(position=row.position + first) for row in stream(seed, n, classes)]
    result = list(judged_in_blocks(spec_of(classifier), rows, BlockLayout(size, delay), parts))
    assert [step[:4] for step in result] == list(judged_in_sequence(classifier, rows, delay))


TABLES = {
    "gaussian": lambda: GaussianNB(),
    "categorical": lambda: CategoricalNB(),
    "mixed": lambda: MixedNB(),
    "aode": lambda: AODE(),
}


def table(seed, n, kind):
    rng = random.Random(seed)
    numbers, levels = kind in ("gaussian", "mixed"), kind != "gaussian"
    return [
        LabelledRow(
            i,
            rng.choice("ab") if i > 2 else "b",
            {
                **({"x": rng.gauss(0, 1e3), "y": rng.random()} if numbers else {}),
                **({"u": rng.choice("pqr"), "v": rng.choice([None, "s", "t"])} if levels else {}),
            },
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("kind", TABLES)
@given(
    seed=st.integers(0, 99), n=st.integers(1, 30), deals=st.integers(1, 4), size=st.integers(1, 9)
)
@settings(max_examples=min(20, settings.default.max_examples))
def test_models_of_rows_add_up_too(kind, seed, n, deals, size):
    model, rows = TABLES[kind](), table(seed, n, kind)
    spec = spec_of(model)
    model_of_parts = fitted(spec, dealt(rows, deals, seed), 4, 512.0, seed)
    blocks = list(judged_in_blocks(spec, rows, BlockLayout(size), 1))
    assert [step[:4] for step in blocks] == list(judged_in_sequence(TABLES[kind](), rows))
    for row in rows:
        model.learn_one(row.x, row.label)
    assert model_of_parts.labels == model.labels
    for row in rows:
        assert model_of_parts.joint_log_likelihood(row.x) == model.joint_log_likelihood(row.x)


def test_rare_features_are_left_out():
    spec = spec_of(Classifier(Tokenizer(), MultinomialNB()))
    texts = ["common common rare", "common else"]
    for classes in (2, 7):
        examples = [
            LabelledRow(i, f"c{i % classes}", text) for i, text in enumerate(texts * classes)
        ]
        items = list(count(spec, [*examples, LabelledRow(99, "c0", "once")], parts=3))
        model = assemble(spec, merge(spec, items, min_count=classes + 1)).model
        assert model.features == 1
        assert sum(model.feature_counts("common").values()) == 3 * classes
        assert sum(model.counts.totals) == 3 * classes


def test_pieces_of_other_plans_and_damaged_ones_are_refused():
    spec = spec_of(Classifier(Tokenizer(), MultinomialNB()))
    other = spec_of(Classifier(Tokenizer(), MultinomialNB(alpha=2.0)))
    items = list(count(spec, [LabelledRow(0, "spam", "free offer")], parts=2))
    with pytest.raises(ModelFileError, match="another model spec"):
        list(merge(other, items))
    with pytest.raises(ModelFileError, match="missing"):
        assemble(spec, items[:1])
    with pytest.raises(ModelFileError, match="duplicate"):
        assemble(spec, [*items, *items])
    with pytest.raises(ModelFileError, match="different numbers of parts, 2 and 1"):
        list(merge(spec, [*items, *count(spec, [LabelledRow(1, "spam", "free")], parts=1)]))
    whole = items[0].data
    for location in range(len(whole)):
        flipped = whole[:location] + bytes([whole[location] ^ 1]) + whole[location + 1 :]
        for data in (whole[:location], flipped):
            with pytest.raises(ModelFileError):
                list(merge(spec, [items[0]._replace(data=data)]))
    for parts in (0, -1, 2**33, True, 1.5):
        with pytest.raises(ValueError, match="parts"):
            list(count(spec, [LabelledRow(1, "spam", "free")], parts=parts))


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        (MailClassifier(), "depends on the order of messages"),
        (Classifier(Tokenizer(), MultinomialNB(decay=0.9)), "decay"),
        (Classifier(Tokenizer(), MultinomialNB(max_features=9)), "set max_features=None"),
        (LazyBayesianRules(), "depends on the order of its rows"),
    ],
)
def test_models_that_are_not_sums_are_refused(learner, reason):
    with pytest.raises(ValueError, match=reason):
        list(count(spec_of(learner), [LabelledRow(0, "spam", "free")]))


def test_blocks_out_of_order_and_two_messages_at_one_place_are_refused():
    spec = spec_of(Classifier(Tokenizer(), MultinomialNB()))
    rows = [LabelledRow(0, "a", "free"), LabelledRow(0, "b", "lunch")]
    (first,) = count_block(spec, 0, BlockLayout(1), rows[:1])
    (second,) = count_block(spec, 1, BlockLayout(1), [LabelledRow(1, "b", "lunch")])
    with pytest.raises(ModelFileError, match=r"block 0, .*: expected blocks in ascending order"):
        list(prefix_sums(spec, [second, first]))
    with pytest.raises(CorpusError, match="position 0"):
        list(replay_block(spec, 0, BlockLayout(1), prefix_sums(spec, [first]), rows))
    with pytest.raises(ModelFileError, match="another block"):
        list(replay_block(spec, 1, BlockLayout(1), prefix_sums(spec, [first]), rows))


@pytest.mark.parametrize("lost", ["sum", "unloaded", "arrays"])
def test_a_prefix_that_was_tampered_with_is_refused(lost):
    """Its checksum is correct, so only its content is wrong."""
    spec = spec_of(Classifier(Tokenizer(), MultinomialNB()))
    (block,) = count_block(
        spec, 0, BlockLayout(2), [LabelledRow(0, "a", "free"), LabelledRow(1, "b", "lunch")]
    )
    (prefix,) = prefix_sums(spec, [block])
    header, arrays = unpack(spec, prefix.data)
    if lost == "arrays":
        arrays = {"fingerprints": arrays["fingerprints"]}
    else:
        del header[lost]
    with pytest.raises(ModelFileError, match="damaged"):
        list(replay_block(spec, 0, BlockLayout(2), [pack_counts(header, arrays)], []))


def test_processes_fit_what_one_does(tmp_path):
    from streamnb.config import build
    from streamnb.replay.fit import fit_corpora

    copy = str(shutil.copytree("corpora/sample", tmp_path / "copy"))
    files = []
    for jobs in (1, 2):
        settings = {"model": {"kind": "bernoulli"}, "corpus": {"order": "shuffled"}, "jobs": jobs}
        calls = []
        result = fit_corpora(
            build(settings),
            ["corpora/sample", copy],
            lambda *location, calls=calls: calls.append(location),
        )
        assert result.learned == calls[-1][0] == calls[-1][1]
        assert len(calls) == result.learned
        files.append(tmp_path / f"{jobs}.snb")
        result.classifier.save(files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()


def test_models_are_fitted_and_merged_by_commands(tmp_path):
    def run(*arguments, status=0):
        result, _, err = streamnb_command(*arguments)
        assert result == status, err
        return err

    entry, two, pair, default = (str(tmp_path / name) for name in ("1", "2", "12", "default"))
    words = ["--set", "model.kind=multinomial"]
    run("fit", "corpora/sample", *words, "--order", "indexed", "--limit", "50", "-o", entry)
    run("fit", "corpora/sample", *words, "-o", two)
    run("merge-models", entry, two, "-o", pair)
    merged, parts = Classifier.load(pair), [Classifier.load(entry), Classifier.load(two)]
    for label, weight in merged.messages().items():
        assert weight == sum(part.messages()[label] for part in parts)
    run("fit", "corpora/sample", "-o", default)
    assert "the tokenizer or the costs differ" in run(
        "merge-models", entry, default, "-o", pair, status=4
    )
    run("fit", "corpora/none", "-o", entry, status=3)
    window = ["--set", "model.window=9"]
    assert "`fit` does not support" in run("fit", "corpora/sample", *window, "-o", entry, status=2)
    halves = ["--set", "feedback={kind: partial, share: 0.1}"]
    assert "`fit` does not support" in run("fit", "corpora/sample", *halves, "-o", entry, status=2)


def test_the_example_of_the_guide(capsys):
    text = Path("docs/scale.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- python -->\n```python\n(.*?)```", text, re.S)
    exec(example, {})  # noqa: S102 (it is ours)
    assert capsys.readouterr().out == "spam\n"
