"""Messages in, verdicts out: a tokenizer, a model, and what decisions cost."""

from streamnb.classifier.classifier import Classifier
from streamnb.classifier.presets import MailClassifier, TextClassifier
from streamnb.classifier.verdict import Costs, Reason, Verdict

__all__ = ["Classifier", "Costs", "MailClassifier", "Reason", "TextClassifier", "Verdict"]
