# What is done with the evidence of a few models for a few classes: lists of numbers in and out.


def divide(list numbers, double divisor) -> list:
    """Divide each of some numbers."""
    cdef double number
    return [number / divisor for number in numbers]


def soft_clip(list evidence, list known, double bound) -> list:
    """Draw what a model says for each class near to the top: no class of `known` `bound` below it."""
    cdef list out = [-bound] * len(evidence)
    cdef double top = -INFINITY, mean = 0, value, power
    cdef Py_ssize_t k
    for k in known:
        value = evidence[k]
        top = max(top, value)
    for k in known:
        value = evidence[k]
        power = snb_exp(-2 * (top - value) / bound)
        value = -bound * (1 - power) / (1 + power)  # the hyperbolic tangent
        out[k] = value
        mean += value
    mean /= len(known)
    return [value - mean for value in out]


cdef inline double on_grain(double grain, double number) noexcept:
    return rint(number / grain) * grain


cdef double LEAST_GAIN = 0.02  # evidence may come to be worth little, but never speaks for its opposite
cdef double IN_RUNS = 0.1      # how much a message in a run of its class counts for the strength of all evidence
# Steps are multiples of these, so that sums of them are exact and any of them can be taken back.
cdef double STEP_GRAIN = 2.0**-36, SQUARES_GRAIN = 2.0**-16


def slopes(tuple of_all, tuple more) -> list:
    """What the evidence of each model is multiplied by: by two sets of weights, or one (see `combine_scores`)."""
    cdef list ours = of_all[0], theirs = None if more is None else more[0]
    return [
        max(<double> ours[j] if theirs is None else <double> ours[j] + <double> theirs[j], LEAST_GAIN)
        for j in range(len(ours))
    ]


cdef inline double bias_of(list biases, Py_ssize_t k):
    return <double> biases[k] if k < len(biases) else 0.0


def combine_scores(tuple of_all, tuple more, list evidence, list known) -> list:
    """Score the classes of `known`: its bias + sum over j of the gain of j * evidence[j][k].

    Parameters
    ----------
    of_all, more
        Lists of slopes, of the sums of their squared gradients, of biases and of those' sums. What
        is in `more`, which can be None, is added. Classes beyond the biases have none.
    evidence
        What each model says for each class.
    known
        Numbers of the classes, rising.
    """
    cdef list out = [], of, weights = slopes(of_all, more)
    cdef double score, part
    cdef Py_ssize_t k, j
    for k in known:
        score = 0
        for j in range(len(weights)):
            of = evidence[j]
            part = of[k]
            score += <double> weights[j] * part
        part = bias_of(of_all[2], k)
        if more is not None:
            part += bias_of(more[2], k)
        out.append(part + score)
    return out


def calibration_step(
    tuple of_all, tuple more, list evidence, list known, list shares, Py_ssize_t k, double trust, double turn,
    double told, Py_ssize_t top, double rate,
) -> list:
    """Take AdaGrad's step of all weights, in place, for a message of class k.

    As far as it has its turn, the gradient of each gain is its own. As far as it has not, IN_RUNS
    times what is left of them where all slopes grow by the same factor. As far as it would not have
    been told if the class that is most probable had been right, slopes learn from the shares of the
    other classes (see `naive_bayes/corrections.py`).

    Parameters
    ----------
    of_all, more, evidence, known
        As for `combine_scores`. There are biases for all classes.
    shares
        The probabilities of the classes of `known`.
    trust, turn, told
        How far the label is believed, how far the message has its turn, and how far it would have
        been told whatever it was called.
    top
        Position in `known` of the class that was predicted.
    rate
        Step size.

    Returns
    -------
    The changes, four tuples: for `of_all`, and for `more` if there is that.
    """
    cdef Py_ssize_t i, c, j, models = len(evidence)
    cdef list errors = [0.0] * (<Py_ssize_t> known[len(known) - 1] + 1), gradients = [], of
    cdef list weights = slopes(of_all, more), misses = errors
    cdef double total, along = 0, square = 0, gain, common
    for i in range(len(known)):
        c = known[i]
        errors[c] = trust * (<double> shares[i] - (c == k))
    if told != 1:
        misses = among_the_others(errors, known, shares, k, trust, told, top)
    for j in range(models):
        of = evidence[j]
        gain = weights[j]
        total = 0
        for c in known:
            total += <double> misses[c] * <double> of[c]
        gradients.append(total)
        along += total * gain
        square += gain * gain
    if turn != 1:
        common = IN_RUNS * (1 - turn) * along / square
        for j in range(models):
            gradients[j] = turn * <double> gradients[j] + common * <double> weights[j]
    for i in range(len(errors)):
        errors[i] = turn * <double> errors[i]
    out = [
        descended(of_all[0], of_all[1], gradients, rate, LEAST_GAIN)
        + descended(of_all[2], of_all[3], errors, rate, -INFINITY)
    ]
    if more is not None:
        out.append(
            descended(more[0], more[1], gradients, rate, -INFINITY)
            + descended(more[2], more[3], errors, rate, -INFINITY)
        )
    return out


cdef list among_the_others(list errors, list known, list shares, Py_ssize_t k, double trust, double told, Py_ssize_t said):
    """The errors, as far as they are not `told` of the shares of all classes but the most probable."""
    cdef list out = list(errors)
    cdef double rest = 0, share
    cdef Py_ssize_t i, c
    for i in range(len(known)):
        rest += <double> shares[i] if i != said else 0.0
    for i in range(len(known)):
        c = known[i]
        share = 0.0 if i == said else <double> shares[i] / rest if rest > 0 else <double> (c == k)
        out[c] = told * <double> errors[c] + (1 - told) * trust * (share - (c == k))
    return out


cdef tuple descended(list numbers, list squares, list gradients, double rate, double least):
    """Take AdaGrad's step of each number, in place, none below `least`; gives the changes.

    They are multiples of the grains: those of the numbers, and of their squared gradients' sums.
    """
    cdef list changes = [], more = []
    cdef double number, before, gradient, square
    cdef Py_ssize_t i
    for i in range(len(gradients)):
        gradient = gradients[i]
        square = on_grain(SQUARES_GRAIN, gradient * gradient)
        squares[i] = <double> squares[i] + square
        before = numbers[i]
        number = max(max(before, least) - rate * gradient / sqrt(<double> squares[i]), least)
        number = on_grain(STEP_GRAIN, number - before)
        numbers[i] = before + number
        changes.append(number)
        more.append(square)
    return tuple(changes), tuple(more)


cdef enum:
    EARNED = 7               # what a class earns for a message of another, times what is expected of it
    MOST_EARNED = 20         # and what it has at the most; but never more than
    LARGEST_CREDIT = 1 << 16
    LET_PASS = 10            # a run of one in so many messages is no run
    RUNS = 20                # runs that the mean of their lengths goes back, about

cdef double LEAST_MEAN = 0.03                         # a mean below is none
cdef double CREDIT_GRAIN = 2.0**-36, RUN_GRAIN = 2.0**-10  # changes are multiples: sums of them are exact


cdef tuple NO_RUNS = (0.0, 0.0)


cdef inline double most_credit(double expected) noexcept:
    return min(max(on_grain(CREDIT_GRAIN, MOST_EARNED * expected), 1.0), <double> LARGEST_CREDIT)


def class_run_step(list numbers, dict runs, list known, Py_ssize_t k, double learned) -> tuple:
    """What a message of class k of `known` changes in whose turn it is (see `naive_bayes/turns.py`).

    Parameters
    ----------
    numbers
        The credit of each class.
    runs
        Of some classes: the length of the run that they are in, and the mean of their runs.
    known
        Numbers of the classes, rising.
    k
        Its class.
    learned
        How many messages are known.

    Returns
    -------
    list, list
        How far it lacks its turn beyond what is let pass, and the change of each credit; class,
        change of its length and of its mean, of one class of `runs` after the other.
    """
    cdef Py_ssize_t c
    cdef double share = 1.0 / max(len(known) - 1, 1)
    cdef double earned = on_grain(CREDIT_GRAIN, EARNED * share), most = most_credit(share)
    cdef double credit, length, mean, after, expected, most_of_k = most
    cdef list change = [0.0] * (<Py_ssize_t> known[len(known) - 1] + 2), ended = [<double> k, 1.0, 0.0]
    cdef set alive = set(known)  # of others, all that was learned may have been taken back
    for c in known:
        credit = numbers[c]
        change[c + 1] = max(min(credit + earned, most) - credit, 0.0)
    for c in sorted(runs):  # equal states give equal changes
        length, mean = runs[c]
        if c == k:
            most_of_k = most_credit(max(mean, share))
        elif c in alive:
            after = mean + (length - mean) / RUNS
            after = on_grain(RUN_GRAIN, after) if after >= LEAST_MEAN else 0.0
            ended += [<double> c, 0 - length, after - mean]
            expected, credit = max(after, share), numbers[c]
            change[c + 1] = min(credit + on_grain(CREDIT_GRAIN, EARNED * expected), most_credit(expected)) - credit
    credit = numbers[k]
    change[k + 1] = -min(max(credit, 0.0), 1.0)
    credit = credit - most_of_k + min(max(learned / LET_PASS, 1.0), most_of_k)
    change[0] = on_grain(CREDIT_GRAIN, 1 - min(max(credit, 0.0), 1.0))
    return change, ended


def add_scaled(list numbers, changes, double times):
    """Add `times` each change to the numbers, in place."""
    cdef Py_ssize_t i = 0
    cdef double change
    for change in changes:
        numbers[i] = <double> numbers[i] + times * change
        i += 1


def add_runs(dict runs, changes, double times):
    """Add `times` the changes of runs, as `class_run_step` gives them, in place; classes without any are left out."""
    cdef double length, mean
    cdef Py_ssize_t i, c
    for i in range(0, len(changes), 3):
        c = <Py_ssize_t> <double> changes[i]
        length, mean = runs.pop(c, NO_RUNS)
        length += times * <double> changes[i + 1]
        mean += times * <double> changes[i + 2]
        if length != 0 or mean != 0:
            runs[c] = length, mean


# Of labels that may be wrong: see `naive_bayes/label_noise.py`.
cdef enum:
    MOST_LENGTHENED = 200   # labels: the n-th step is lengthened by no more than n of this
cdef double OPEN = 0.002          # how much is left open of a class with one message, for each message of others
cdef double OWN_ERRORS = 0.03     # how often the model is sure and wrong, for each label that is wrong; at least
cdef double LEAST_WEIGHT = 2.0**-60  # of what has all but decayed
cdef double PART_OF_NEWTON = 0.5


def label_trust(double p, double share, Py_ssize_t classes, double own, double others) -> float:
    """How probably a label is right that has probability p, where that share of labels is wrong."""
    cdef double doubt, right, wrong
    if classes < 2:
        raise ValueError("where there is one class, no label is wrong")
    own = max(own, LEAST_WEIGHT)
    p = max(p, OWN_ERRORS * share)
    doubt = (1 - p) / (1 + OPEN * others / own / own)
    right, wrong = (1 - share) * (1 - doubt), share * doubt / (classes - 1)
    return right / (right + wrong) if right + wrong > 0 else 1.0


def noise_step(
    double trust, double share, double spread, Py_ssize_t labels, double most, double grain
) -> tuple:
    """What a label that is believed so far changes in the share of wrong ones, and in its spread.

    The share is `most` at most; changes are multiples of `grain`.
    """
    if not 0 <= trust <= 1:
        raise ValueError(f"a label cannot be believed {trust}")
    # x^-.75 of operations that are the same on every machine.
    cdef double n = labels + 1, step = 1 / sqrt(n * sqrt(n)), longer = 1, moved, change, newton, bounded_share
    bounded_share = min(max(share, 1 / <double> labels), most)
    change = 1 - trust - bounded_share
    change = step * (change * change - spread)
    if spread + change > 0:  # else much was taken back, and what is left shows nothing
        newton = bounded_share * (1 - bounded_share) / (spread + change)
        longer = max(min(PART_OF_NEWTON * newton, n / MOST_LENGTHENED), 1.0)
    moved = step * longer * (1 - trust - share)
    # No further than to the ends, nor back to them from where taking back has led.
    moved = min(max(moved, -max(share, 0.0)), max(most - share, 0.0))
    return on_grain(grain, moved), 1, on_grain(grain, change)


def probabilities(list scores) -> list:
    """Share 1 out in proportion to e to the power of each score; uniformly where all are -inf."""
    cdef list powers = []
    cdef double top = -INFINITY, power, hi = 0, lo = 0
    cdef object score
    for score in scores:
        top = max(top, <double> score)
    if top == -INFINITY:
        return [1 / <double> len(scores)] * len(scores)
    for score in scores:
        power = snb_exp(<double> score - top)
        powers.append(power)
        snb_accumulate(&hi, &lo, power)
    hi += lo
    return [<double> score / hi for score in powers]


def best_index(list scores) -> int:
    """Return the index of the largest score: the first that is not smaller by more than rounding."""
    cdef double top = -INFINITY
    cdef object score
    cdef Py_ssize_t i
    for score in scores:
        top = max(top, <double> score)
    if not scores:
        raise ValueError("cannot choose among no classes")
    if fabs(top) < INFINITY:
        top -= 1e-9 + 1e-12 * fabs(top)
    for i in range(len(scores)):
        if <double> scores[i] >= top:
            return i
    return 0  # no score is a number


def log_prior_shares(list weights, double total, Py_ssize_t views) -> list:
    """Of the logarithm of each class's share of all weight, what falls to each of so many views."""
    cdef list out = []
    cdef double weight
    for weight in weights:
        out.append(snb_log(weight / total) / views if weight > 0 else -INFINITY)
    return out


def residuals(list evidence, list prior, Py_ssize_t k) -> list:
    """For each model, 1 less the probability of class k, its scores being evidence and prior."""
    cdef list out = [], of
    cdef double top, power, mine, hi, lo
    cdef Py_ssize_t i, n = len(prior)
    if not 0 <= k < n:
        raise IndexError(f"no class {k}")
    for of in evidence:
        top = -INFINITY
        for i in range(n):
            top = max(top, <double> of[i] + <double> prior[i])
        if top == -INFINITY:
            out.append((n - 1) / <double> n)
            continue
        hi = lo = mine = 0
        for i in range(n):
            power = snb_exp(<double> of[i] + <double> prior[i] - top)
            if i == k:
                mine = power
            else:
                snb_accumulate(&hi, &lo, power)
        hi += lo
        out.append(hi / (hi + mine))
    return out
