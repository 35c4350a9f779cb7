"""Learning, scoring and exact prequential evaluation on Spark; needs `streamnb[spark]` and Java.

DataFrames and Arrow only, so it also works with Spark Connect. What is worked out is
`streamnb.partial`; this carries it. Tasks are pure: one that is tried again, lost or run twice
changes nothing.
"""

from streamnb.spark.evaluation import prequential, summary
from streamnb.spark.fitting import fit, fit_each
from streamnb.spark.scoring import score
from streamnb.spark.streaming import learn

__all__ = ["fit", "fit_each", "learn", "prequential", "score", "summary"]
