"""Classifiers of messages: a tokenizer, a model and the costs of decisions."""

from streamnb.classifier.message_classifier import COSTS, Classifier, as_messages
from streamnb.classifier.presets import MailClassifier, TextClassifier
from streamnb.classifier.verdict import Costs, Reason, Verdict

__all__ = [
    "COSTS",
    "Classifier",
    "Costs",
    "MailClassifier",
    "Reason",
    "TextClassifier",
    "Verdict",
    "as_messages",
]
