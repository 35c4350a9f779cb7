"""Classifiers of messages: a tokenizer, a model and the costs of decisions."""

from streamnb.classifier.message_classifier import Classifier
from streamnb.classifier.presets import MailClassifier, TextClassifier
from streamnb.classifier.verdict import COSTS, Costs, Reason, Verdict

__all__ = ["COSTS", "Classifier", "Costs", "MailClassifier", "Reason", "TextClassifier", "Verdict"]
