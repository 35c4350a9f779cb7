# What is done with the evidence of a few models for a few classes: lists of numbers in and out.


def bounded(list evidence, list known, double bound) -> list:
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


def combined(list gains, list evidence, list biases, list known) -> list:
    """Score the classes of `known`: biases[k] + sum over j of gains[j] * evidence[j][k].

    Classes beyond the biases have none.
    """
    cdef list out = [], of
    cdef double score, part
    cdef Py_ssize_t k, j, models = len(gains), biased = len(biases)
    for k in known:
        score = 0
        for j in range(models):
            of = evidence[j]
            part = of[k]
            score += <double> gains[j] * part
        out.append(<double> biases[k] + score if k < biased else 0.0 + score)
    return out


def gradients(list errors, list evidence, list known, list gains, double turn, double common) -> list:
    """Gradients of the gains, given the errors of the classes of `known`.

    As far as a message has its turn, each model's own: the sum of errors[k] * evidence[k]. As far as
    it has not, `common` times what is left of them where all gains grow by the same factor.
    """
    cdef list out = [], of
    cdef double total, along = 0, square = 0, gain
    cdef Py_ssize_t j, k
    for j in range(len(evidence)):
        of = evidence[j]
        gain = gains[j]
        total = 0
        for k in known:
            total += <double> errors[k] * <double> of[k]
        out.append(total)
        along += total * gain
        square += gain * gain
    if turn == 1:
        return out
    common *= (1 - turn) * along / square
    return [turn * <double> out[j] + common * <double> gains[j] for j in range(len(out))]


cdef enum:
    EARNED = 7               # what a class earns for a message of another, times what is expected of it
    MOST_EARNED = 20         # and what it has at the most; but never more than
    LARGEST_CREDIT = 1 << 16
    RUNS = 20                # runs that the mean of their lengths goes back, about

cdef double LEAST_MEAN = 0.03                         # a mean below is none
cdef double CREDIT_GRAIN = 2.0**-36, RUN_GRAIN = 2.0**-10  # changes are multiples: sums of them are exact


cdef inline double on_grain(double grain, double number) noexcept:
    return rint(number / grain) * grain


cdef inline double most_credit(double expected) noexcept:
    return min(max(on_grain(CREDIT_GRAIN, MOST_EARNED * expected), 1.0), <double> LARGEST_CREDIT)


def earnings(list numbers, dict runs, list known, Py_ssize_t k) -> tuple:
    """What a message of class k of `known` changes for the others (see `naive_bayes/turns.py`).

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

    Returns
    -------
    list, list, float
        Changes of the credits; class, change of its length and of its mean, of one class of `runs`
        after the other; and the most that class k's own credit can be.
    """
    cdef Py_ssize_t c
    cdef double share = 1.0 / max(len(known) - 1, 1)
    cdef double earned = on_grain(CREDIT_GRAIN, EARNED * share), most = most_credit(share)
    cdef double credit, length, mean, after, expected, most_of_k = most
    cdef list change = [0.0] * (<Py_ssize_t> known[len(known) - 1] + 1), ended = []
    cdef set alive = set(known)  # of others, all that was learned may have been taken back
    for c in known:
        credit = numbers[c]
        change[c] = max(min(credit + earned, most) - credit, 0.0)
    for c in sorted(runs):  # equal states give equal changes
        length, mean = runs[c]
        if c == k:
            most_of_k = most_credit(max(mean, share))
        elif c in alive:
            after = mean + (length - mean) / RUNS
            after = on_grain(RUN_GRAIN, after) if after >= LEAST_MEAN else 0.0
            ended += [<double> c, 0 - length, after - mean]
            expected, credit = max(after, share), numbers[c]
            change[c] = min(credit + on_grain(CREDIT_GRAIN, EARNED * expected), most_credit(expected)) - credit
    return change, ended, most_of_k


def add_times(list numbers, changes, double times):
    """Add `times` each change to the numbers, in place."""
    cdef Py_ssize_t i = 0
    cdef double change
    for change in changes:
        numbers[i] = <double> numbers[i] + times * change
        i += 1


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


def surprises(list evidence, list prior, Py_ssize_t k) -> list:
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


def descended(
    list numbers, list squares, list gradients, double rate, double grain, double squares_grain,
    double least=-INFINITY,
) -> tuple:
    """Take AdaGrad's step of each number, in place, none below `least`; gives the changes.

    Changes are multiples of the grains: those of the numbers, and of their squared gradients' sums.
    """
    cdef list changes = [], more = []
    cdef double number, before, gradient, square
    cdef Py_ssize_t i
    for i in range(len(gradients)):
        gradient = gradients[i]
        square = rint(gradient * gradient / squares_grain) * squares_grain
        squares[i] = <double> squares[i] + square
        before = numbers[i]
        number = max(max(before, least) - rate * gradient / sqrt(<double> squares[i]), least)
        number = rint((number - before) / grain) * grain
        numbers[i] = before + number
        changes.append(number)
        more.append(square)
    return tuple(changes), tuple(more)
