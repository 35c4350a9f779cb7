"""Parts of a stream add up to the whole, to the last digit."""

import random
import re
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
from streamnb.evaluate import Course, Example, Tally
from streamnb.evaluate.feedback import Delayed
from streamnb.partial import (
    Blocks,
    Row,
    assembled,
    count,
    count_block,
    merge,
    plan_of,
    prefixes,
    replay,
)
from streamnb.partial.pieces import opened, piece_of

WORDS = [f"w{i}" for i in range(40)]
MODELS = {
    "multinomial": lambda: MultinomialNB(),
    "background": lambda: MultinomialNB(background_mass=0.5, length_norm=0.3),
    "unseen": lambda: MultinomialNB(unseen="smooth", alpha=0.01),
    "bernoulli": lambda: BernoulliNB(),
    "bernoulli unseen": lambda: BernoulliNB(unseen="smooth"),
    "complement": lambda: ComplementNB(),
}


def stream(seed, n, classes):
    """Messages of random words, classes in random order, late ones among them."""
    chance = random.Random(seed)
    return [
        Row(
            i,
            f"c{chance.randrange(1 + min(classes - 1, i // 3))}",
            " ".join(chance.choices(WORDS, k=chance.randrange(12))),
        )
        for i in range(n)
    ]


def dealt(rows, deals, seed):
    """The rows as so many tasks may have them, some of which have none."""
    chance = random.Random(seed)
    tasks = [[] for _ in range(deals)]
    for row in rows:
        tasks[chance.randrange(deals)].append(row)
    return tasks


def fitted(plan, tasks, parts, memory, seed=0):
    pieces = [piece for task in tasks for piece in count(plan, task, parts, memory)]
    random.Random(seed).shuffle(pieces)
    half = len(pieces) // 2
    some = [*merge(plan, pieces[:half]), *merge(plan, pieces[half:])]
    return assembled(plan, merge(plan, some))


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
@settings(deadline=None, max_examples=30)
def test_parts_add_up_to_the_whole(kind, seed, n, classes, deals, parts, memory, tmp_path_factory):
    classifier = Classifier(Tokenizer(), MODELS[kind]())
    plan = plan_of(classifier)
    rows = stream(seed, n, classes)
    found = fitted(plan, dealt(rows, deals, seed), parts, memory, seed)
    for row in rows:
        classifier.learn_one(row.x, row.label)
    assert found.labels == classifier.labels
    assert saved(found, tmp_path_factory) == saved(classifier, tmp_path_factory)


def judged_in_sequence(classifier, rows, delay=0):
    course = Course(classifier, [Delayed(delay)] if delay else [])
    tally = Tally(None)
    for row in rows:
        example = Example(row.x, row.label, row.position)
        step = course.classify(example)
        yield row.position, row.label, step.predicted, tally.judge(step)
        course.teach(example, step)


def judged_in_blocks(plan, rows, blocks, parts):
    wanted = {}
    for row in rows:
        for number in blocks.of(row.position):
            wanted.setdefault(number, []).append(row)
    pieces = {
        number: list(count_block(plan, number, blocks, mine[::-1], parts))
        for number, mine in sorted(wanted.items())
    }
    scans = [prefixes(plan, of) for of in zip(*pieces.values(), strict=True)]
    for (number, mine), prefix in zip(
        sorted(wanted.items()), zip(*scans, strict=True), strict=True
    ):
        yield from replay(plan, number, blocks, prefix[::-1], mine[::-1])


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
@settings(deadline=None, max_examples=40)
def test_blocks_are_judged_as_the_whole_stream_is(
    kind, seed, n, classes, size, delay, parts, first
):
    classifier = Classifier(Tokenizer(), MODELS[kind]())
    rows = [row._replace(position=row.position + first) for row in stream(seed, n, classes)]
    found = list(judged_in_blocks(plan_of(classifier), rows, Blocks(size, delay), parts))
    assert [one[:4] for one in found] == list(judged_in_sequence(classifier, rows, delay))


TABLES = {
    "gaussian": lambda: GaussianNB(),
    "categorical": lambda: CategoricalNB(),
    "mixed": lambda: MixedNB(),
    "aode": lambda: AODE(),
}


def table(seed, n, kind):
    chance = random.Random(seed)
    numbers, levels = kind in ("gaussian", "mixed"), kind != "gaussian"
    return [
        Row(
            i,
            chance.choice("ab") if i > 2 else "b",
            {
                **({"x": chance.gauss(0, 1e3), "y": chance.random()} if numbers else {}),
                **(
                    {"u": chance.choice("pqr"), "v": chance.choice([None, "s", "t"])}
                    if levels
                    else {}
                ),
            },
        )
        for i in range(n)
    ]


@pytest.mark.parametrize("kind", TABLES)
@given(
    seed=st.integers(0, 99), n=st.integers(1, 30), deals=st.integers(1, 4), size=st.integers(1, 9)
)
@settings(deadline=None, max_examples=20)
def test_models_of_rows_add_up_too(kind, seed, n, deals, size):
    model, rows = TABLES[kind](), table(seed, n, kind)
    plan = plan_of(model)
    found = fitted(plan, dealt(rows, deals, seed), 4, 512.0, seed)
    blocks = list(judged_in_blocks(plan, rows, Blocks(size), 1))
    assert [one[:4] for one in blocks] == list(judged_in_sequence(TABLES[kind](), rows))
    for row in rows:
        model.learn_one(row.x, row.label)
    assert found.labels == model.labels
    for row in rows:
        assert found.joint_log_likelihood(row.x) == model.joint_log_likelihood(row.x)


def test_what_is_rare_is_left_out():
    plan = plan_of(Classifier(Tokenizer(), MultinomialNB()))
    texts = ["common common rare", "common else"]
    for classes in (2, 7):
        examples = [Row(i, f"c{i % classes}", text) for i, text in enumerate(texts * classes)]
        pieces = list(count(plan, [*examples, Row(99, "c0", "once")], parts=3))
        model = assembled(plan, merge(plan, pieces, least=classes + 1)).model
        assert model.features == 1
        assert sum(model.feature_counts("common").values()) == 3 * classes
        assert sum(model.counts.totals) == 3 * classes


def test_pieces_of_other_plans_and_damaged_ones_are_refused():
    plan = plan_of(Classifier(Tokenizer(), MultinomialNB()))
    other = plan_of(Classifier(Tokenizer(), MultinomialNB(alpha=2.0)))
    pieces = list(count(plan, [Row(0, "spam", "free offer")], parts=2))
    with pytest.raises(ModelFileError, match="another plan"):
        list(merge(other, pieces))
    with pytest.raises(ModelFileError, match="missing"):
        assembled(plan, pieces[:1])
    with pytest.raises(ModelFileError, match="twice"):
        assembled(plan, [*pieces, *pieces])
    with pytest.raises(ModelFileError, match="another number of parts"):
        list(merge(plan, [*pieces, *count(plan, [Row(1, "spam", "free")], parts=1)]))
    whole = pieces[0].data
    for at in range(len(whole)):
        flipped = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        for data in (whole[:at], flipped):
            with pytest.raises(ModelFileError):
                list(merge(plan, [pieces[0]._replace(data=data)]))
    for parts in (0, -1, 2**33, True, 1.5):
        with pytest.raises(ValueError, match="parts"):
            list(count(plan, [Row(1, "spam", "free")], parts=parts))


@pytest.mark.parametrize(
    ("learner", "why"),
    [
        (MailClassifier(), "one message after the other"),
        (Classifier(Tokenizer(), MultinomialNB(decay=0.9)), "decay"),
        (LazyBayesianRules(), "in their order"),
    ],
)
def test_what_is_no_sum_is_refused(learner, why):
    with pytest.raises(ValueError, match=why):
        list(count(plan_of(learner), [Row(0, "spam", "free")]))


def test_blocks_out_of_order_and_two_messages_at_one_place_are_refused():
    plan = plan_of(Classifier(Tokenizer(), MultinomialNB()))
    rows = [Row(0, "a", "free"), Row(0, "b", "lunch")]
    (first,) = count_block(plan, 0, Blocks(1), rows[:1])
    (second,) = count_block(plan, 1, Blocks(1), [Row(1, "b", "lunch")])
    with pytest.raises(ModelFileError, match="in their order"):
        list(prefixes(plan, [second, first]))
    with pytest.raises(CorpusError, match="position 0"):
        list(replay(plan, 0, Blocks(1), prefixes(plan, [first]), rows))
    with pytest.raises(ModelFileError, match="another one"):
        list(replay(plan, 1, Blocks(1), prefixes(plan, [first]), rows))


@pytest.mark.parametrize("lost", ["sum", "elsewhere", "arrays"])
def test_a_prefix_that_was_tampered_with_is_refused(lost):
    """Its checksum was made anew, so only what it says is wrong."""
    plan = plan_of(Classifier(Tokenizer(), MultinomialNB()))
    (block,) = count_block(plan, 0, Blocks(2), [Row(0, "a", "free"), Row(1, "b", "lunch")])
    (prefix,) = prefixes(plan, [block])
    header, arrays = opened(plan, prefix.data)
    if lost == "arrays":
        arrays = {"fingerprints": arrays["fingerprints"]}
    else:
        del header[lost]
    with pytest.raises(ModelFileError, match="damaged"):
        list(replay(plan, 0, Blocks(2), [piece_of(header, arrays)], []))


def test_processes_fit_what_one_does(monkeypatch, tmp_path):
    from streamnb.config import build
    from streamnb.replay import fit as module

    monkeypatch.setattr(module, "_SHARE", 30)
    files = []
    for jobs in (1, 2):
        settings = {"model": {"kind": "bernoulli"}, "corpus": {"order": "shuffled"}, "jobs": jobs}
        told = []
        found = module.fit(
            build(settings), ["corpora/sample"] * 2, lambda *at, told=told: told.append(at)
        )
        assert found.learned == told[-1][0] == told[-1][1]
        assert len(told) < 10 if jobs == 2 else len(told) == found.learned
        files.append(tmp_path / f"{jobs}.snb")
        found.classifier.save(files[-1])
    assert files[0].read_bytes() == files[1].read_bytes()


def test_models_are_fitted_and_merged_by_commands(tmp_path):
    def run(*arguments, status=0):
        found, _, err = streamnb_command(*arguments)
        assert found == status, err
        return err

    one, two, both, default = (str(tmp_path / name) for name in ("1", "2", "12", "default"))
    words = ["--set", "model.kind=multinomial"]
    run("fit", "corpora/sample", *words, "--order", "indexed", "--limit", "50", "-o", one)
    run("fit", "corpora/sample", *words, "-o", two)
    run("merge-models", one, two, "-o", both)
    merged, parts = Classifier.load(both), [Classifier.load(one), Classifier.load(two)]
    for label, weight in merged.messages().items():
        assert weight == sum(part.messages()[label] for part in parts)
    run("fit", "corpora/sample", "-o", default)
    assert "different tokenizers" in run("merge-models", one, default, "-o", both, status=4)
    run("fit", "corpora/none", "-o", one, status=3)
    window = ["--set", "model.window=9"]
    assert "not of a fit" in run("fit", "corpora/sample", *window, "-o", one, status=2)
    some = ["--set", "feedback={kind: partial, share: 0.1}"]
    assert "not of a fit" in run("fit", "corpora/sample", *some, "-o", one, status=2)


def test_the_example_of_the_guide(capsys):
    text = Path("docs/scale.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- python -->\n```python\n(.*?)```", text, re.S)
    exec(example, {})  # noqa: S102 (it is ours)
    assert capsys.readouterr().out == "spam\n"
