"""The compiled core: fingerprints, counts, logarithms, scanning.

Each function handles a whole message, so a call from Python into C costs once a message, not once a
token. The formulas are in `streamnb.naive_bayes`, the choice of tokens in `streamnb.features`.
Headers (`.pxd`) hold what the modules share. `exact_sums` (models of tables) and `ranking`
(evaluation) are not imported here, because no message needs them.
"""

from streamnb._core.calibration import *  # noqa: F403
from streamnb._core.count_table import *  # noqa: F403
from streamnb._core.grams import *  # noqa: F403
from streamnb._core.hashing import *  # noqa: F403
from streamnb._core.logs import *  # noqa: F403
from streamnb._core.markup import *  # noqa: F403
from streamnb._core.pairs import *  # noqa: F403
from streamnb._core.scanner import *  # noqa: F403
