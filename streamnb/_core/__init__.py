"""The compiled core: fingerprints, counts, logarithms, scanning.

Each function handles a whole message: Python calls C once a message, not once a token.
`streamnb.naive_bayes` has the formulas, and `streamnb.features` chooses the tokens. The modules
share the declarations in the headers (`.pxd`). This package does not import `exact_sums` (models of
tables) and `ranking` (evaluation), because no message needs them.
"""

from streamnb._core.calibration import *  # noqa: F403
from streamnb._core.count_table import *  # noqa: F403
from streamnb._core.grams import *  # noqa: F403
from streamnb._core.hashing import *  # noqa: F403
from streamnb._core.logs import *  # noqa: F403
from streamnb._core.markup import *  # noqa: F403
from streamnb._core.pairs import *  # noqa: F403
from streamnb._core.scanner import *  # noqa: F403
from streamnb._core.sparse_rows import *  # noqa: F403
