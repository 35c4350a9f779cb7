"""Training, scoring and exact prequential evaluation on Spark; needs `streamnb[spark]` and Java.

Only DataFrames and Arrow are used, so Spark Connect works too. The computations are those of
`streamnb.partial`. Tasks are pure functions: a task that is retried, lost or run twice changes
nothing.
"""

from streamnb.spark.evaluation import prequential, summary
from streamnb.spark.fitting import fit, fit_each
from streamnb.spark.scoring import score
from streamnb.spark.streaming import learn

__all__ = ["fit", "fit_each", "learn", "prequential", "score", "summary"]
