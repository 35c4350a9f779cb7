"""Training, scoring and exact prequential evaluation on Spark; needs `streamnb[spark]` and Java.

It uses only DataFrames and Arrow, so Spark Connect works, too. The computations are those of
`streamnb.partial`. Tasks are pure functions: retried, lost and repeated tasks do not change the
result.
"""

from streamnb.spark.evaluation import prequential, summary
from streamnb.spark.fitting import fit, fit_each
from streamnb.spark.scoring import score
from streamnb.spark.streaming import learn

__all__ = ["fit", "fit_each", "learn", "prequential", "score", "summary"]
