# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Calibration of a few views and classes, on arrays and lists of numbers (see `naive_bayes/recalibration.py`)."""

cimport cython
from cpython cimport array
from libc.math cimport INFINITY, fabs, floor, rint, sqrt
from libc.stdint cimport int64_t
from streamnb._core.logs cimport snb_accumulate, snb_exp, snb_log

import array

cdef array.array DOUBLES = array.array("d"), INDICES = array.array("q")


cdef inline array.array doubles(Py_ssize_t n, bint zero=False):
    return array.clone(DOUBLES, n, zero and n > 0)  # an empty array has no memory to set


cdef array.array as_doubles(list numbers):
    cdef Py_ssize_t i, n = len(numbers)
    cdef array.array copied = doubles(n)
    for i in range(n):
        copied.data.as_doubles[i] = numbers[i]
    return copied


cdef int check_doubles(array.array numbers, Py_ssize_t size) except -1:
    """Raise ValueError unless an array has `size` numbers, float64."""
    if numbers is None or numbers.ob_descr.typecode != c"d" or len(numbers) != size:
        raise ValueError(f"expected an array of {size} numbers, float64")
    return 0


cdef array.array as_indices(list numbers, Py_ssize_t limit):
    """Return ascending indices below `limit`."""
    cdef Py_ssize_t i, number, last = -1, n = len(numbers)
    cdef array.array copied = array.clone(INDICES, n, False)
    for i in range(n):
        number = numbers[i]
        if not last < number < limit:
            raise IndexError(f"the index {number} is not above {last} and below {limit}")
        last = number
        (<int64_t *> copied.data.as_longlongs)[i] = number
    return copied


cdef inline Py_ssize_t width_of(list rows) except -1:
    return len(rows[0]) if rows else 0


cdef array.array flattened(list rows):
    """Return the numbers of rows of the same length, row by row."""
    cdef Py_ssize_t i, j, n = len(rows), width = width_of(rows)
    cdef array.array copied = doubles(n * width)
    cdef list row
    for i in range(n):
        row = rows[i]
        if len(row) != width:
            raise ValueError("the rows have different lengths")
        for j in range(width):
            copied.data.as_doubles[i * width + j] = row[j]
    return copied


cdef inline list as_list(const double *numbers, Py_ssize_t n):
    cdef Py_ssize_t i
    return [numbers[i] for i in range(n)]


def logs(list numbers) -> list:
    """Return the natural logarithms of numbers above 0."""
    cdef double number
    return [snb_log(number) for number in numbers]


cdef void soft_clip(
    const double *log_likelihoods, Py_ssize_t n_classes, const int64_t *active, Py_ssize_t n_active, double bound,
    double *clipped,
) noexcept:
    """Clip log-likelihoods so that each active class is at most `bound` below the best.

    A difference d to the best class becomes bound tanh(d / bound). The mean over the active classes is 0.
    """
    cdef double top = -INFINITY, mean = 0, value, power
    cdef Py_ssize_t i, k
    for k in range(n_classes):
        clipped[k] = -bound
    for i in range(n_active):
        top = max(top, log_likelihoods[active[i]])
    for i in range(n_active):
        k = active[i]
        power = snb_exp(-2 * (top - log_likelihoods[k]) / bound)
        value = -bound * (1 - power) / (1 + power)  # the hyperbolic tangent
        clipped[k] = value
        mean += value
    mean /= n_active
    for k in range(n_classes):
        clipped[k] -= mean


cpdef inline double round_to(double step, double number) noexcept:
    """Return the nearest multiple of `step`."""
    return rint(number / step) * step


cdef double MIN_SLOPE = 0.02  # minimum of a slope: a negative one would invert a view's evidence
cdef double RUN_SLOPE_WEIGHT = 0.1  # factor of the common slope gradient inside a run of one class
# Updates are rounded to multiples of these steps. Their sums are exact, so each update can be undone.
cdef double WEIGHT_STEP = 2.0**-36, SQUARE_STEP = 2.0**-16


@cython.boundscheck(True)
cpdef list slopes(shared, by_length):
    """Return the slope of each view: the shared slope plus that of the length bin, if there is one."""
    # The weights are named tuples; the casts avoid the slow look-up in a subclass of tuple.
    for weights in (shared,) if by_length is None else (shared, by_length):
        if not isinstance(weights, tuple) or len(<tuple> weights) != 4:
            raise TypeError("the weights must be tuples of four lists")
    cdef list shared_slopes = (<tuple> shared)[0], length_slopes = None if by_length is None else (<tuple> by_length)[0]
    cdef Py_ssize_t v
    return [
        max(
            <double> shared_slopes[v]
            if length_slopes is None
            else <double> shared_slopes[v] + <double> length_slopes[v],
            MIN_SLOPE,
        )
        for v in range(len(shared_slopes))
    ]


cdef array.array view_slopes(shared, by_length, Py_ssize_t n_views):
    cdef list weights = slopes(shared, by_length)
    if len(weights) != n_views:
        raise ValueError(f"there are slopes of {len(weights)} views, and log-likelihoods of {n_views}")
    return as_doubles(weights)


cdef inline double intercept_of(list intercepts, Py_ssize_t k):
    return <double> intercepts[k] if k < len(intercepts) else 0.0


def combine_scores(shared, by_length, list log_likelihoods, list active) -> list:
    """Return the score of each active class: its intercept + sum over v of slope_v * log_likelihoods[v][k].

    Parameters
    ----------
    shared, by_length
        The `CalibrationWeights`. `by_length` is added; it can be None. A class without an intercept has 0.
    log_likelihoods
        For each view, the log-likelihood of each class.
    active
        Indices of classes, ascending.
    """
    cdef array.array flat = flattened(log_likelihoods)
    cdef Py_ssize_t n_classes = width_of(log_likelihoods)
    cdef array.array scores = doubles(len(active)), indices = as_indices(active, n_classes)
    combine(
        shared, by_length, flat.data.as_doubles, len(log_likelihoods), n_classes,
        <int64_t *> indices.data.as_longlongs, len(active), scores.data.as_doubles,
    )
    return as_list(scores.data.as_doubles, len(active))


cdef int combine(
    shared, by_length, const double *log_likelihoods, Py_ssize_t n_views, Py_ssize_t n_classes, const int64_t *active,
    Py_ssize_t n_active, double *scores,
) except -1:
    """Compute the result of `combine_scores`, of log-likelihoods [v, k]."""
    cdef array.array weights = view_slopes(shared, by_length, n_views)
    cdef list intercepts = (<tuple> shared)[2], length_intercepts = None if by_length is None else (<tuple> by_length)[2]
    cdef double score, value
    cdef Py_ssize_t i, k, v
    for i in range(n_active):
        k, score = active[i], 0
        for v in range(n_views):
            score += weights.data.as_doubles[v] * log_likelihoods[v * n_classes + k]
        value = intercept_of(intercepts, k)
        if length_intercepts is not None:
            value += intercept_of(length_intercepts, k)
        scores[i] = value + score
    return 0


def calibration_step(
    shared, by_length, list log_likelihoods, list proba, double rate, step, list targets=None
) -> list:
    """Take a step of AdaGrad on all weights, in place, for a message of a class.

    In a run, only the factor common to all slopes takes a step, with the weight RUN_SLOPE_WEIGHT. If `sampling_weight`
    is below 1, slopes learn from the probabilities given that the predicted class is wrong (`SelectiveFeedback`). A
    class without an intercept gets one.

    Parameters
    ----------
    shared, by_length, log_likelihoods
        As in `combine_scores`.
    proba
        Probabilities of the classes of `step`.
    rate
        Step size.
    step
        The `LabelStep`.
    targets
        Posterior probabilities of the same classes, given the label; None to use its trust.

    Returns
    -------
    Four tuples with the changes of `shared`, then those of `by_length` unless it is None.
    """
    cdef array.array flat = flattened(log_likelihoods), of_classes = as_doubles(proba)
    cdef array.array of_targets = DOUBLES if targets is None else as_doubles(targets)
    if not len(step[1]) == len(proba) == (len(proba) if targets is None else len(targets)):
        raise ValueError("the probabilities are not those of the classes of the step")
    return take_step(
        shared, by_length, flat.data.as_doubles, len(log_likelihoods), width_of(log_likelihoods),
        of_classes.data.as_doubles, rate, step, NULL if targets is None else of_targets.data.as_doubles,
    )


cdef list take_step(
    shared, by_length, const double *log_likelihoods, Py_ssize_t n_views, Py_ssize_t n_classes, const double *proba,
    double rate, step, const double *targets,
):
    """Compute the result of `calibration_step`, of log-likelihoods [v, k]."""
    cdef list active
    cdef Py_ssize_t class_index, predicted
    cdef double label_trust, sampling_weight
    cdef bint in_run
    class_index, active, label_trust, in_run, _, sampling_weight, predicted = step
    cdef Py_ssize_t i, k, v, n_active = len(active), n_errors = 0
    cdef array.array indices = as_indices(active, n_classes)
    if n_active:
        n_errors = (<int64_t *> indices.data.as_longlongs)[n_active - 1] + 1
    cdef array.array errors = doubles(n_errors, True)
    cdef array.array weights = view_slopes(shared, by_length, n_views), gradients = doubles(n_views), slope_errors = errors
    cdef const int64_t *classes = <int64_t *> indices.data.as_longlongs
    cdef double total, along = 0, square = 0, slope, common
    for i in range(n_active):
        k = classes[i]
        if targets is NULL:
            errors.data.as_doubles[k] = label_trust * (proba[i] - (k == class_index))
        else:
            errors.data.as_doubles[k] = proba[i] - targets[i]
    if sampling_weight != 1 and n_active:
        slope_errors = array.copy(errors)
        mix_selected_errors(
            slope_errors.data.as_doubles, classes, n_active, proba, class_index, label_trust, sampling_weight, predicted
        )
    for v in range(n_views):
        slope, total = weights.data.as_doubles[v], 0
        for i in range(n_active):
            k = classes[i]
            total += slope_errors.data.as_doubles[k] * log_likelihoods[v * n_classes + k]
        gradients.data.as_doubles[v] = total
        along += total * slope
        square += slope * slope
    if in_run:
        common = RUN_SLOPE_WEIGHT * along / square
        for v in range(n_views):
            gradients.data.as_doubles[v] = common * weights.data.as_doubles[v]
        errors = doubles(n_errors, True)
    changes = [weight_step(<tuple> shared, gradients, errors, rate, MIN_SLOPE)]
    if by_length is not None:
        changes.append(weight_step(<tuple> by_length, gradients, errors, rate, -INFINITY))
    return changes


cdef tuple weight_step(tuple weights, array.array gradients, array.array errors, double rate, double min_slope):
    """Take a step on slopes and intercepts; return their changes and those of their squares."""
    return (
        adagrad_step(weights[0], weights[1], gradients, rate, min_slope)
        + adagrad_step(weights[2], weights[3], errors, rate, -INFINITY)
    )


cdef void mix_selected_errors(
    double *errors, const int64_t *active, Py_ssize_t n_active, const double *proba, Py_ssize_t class_index,
    double label_trust, double sampling_weight, Py_ssize_t predicted,
) noexcept:
    """Mix errors, in place, with the errors of the probabilities given that the predicted class is wrong."""
    cdef double total = 0, conditional
    cdef Py_ssize_t i, k
    for i in range(n_active):
        total += proba[i] if i != predicted else 0.0
    for i in range(n_active):
        k = active[i]
        conditional = 0.0
        if i != predicted:
            conditional = proba[i] / total if total > 0 else <double> (k == class_index)
        errors[k] = (
            sampling_weight * errors[k]
            + (1 - sampling_weight) * label_trust * (conditional - (k == class_index))
        )


cdef tuple adagrad_step(list numbers, list squares, array.array gradients, double rate, double minimum):
    """Take a step of AdaGrad on each number in place; no number falls below `minimum`.

    Return the changes of the numbers and of the sums of squared gradients.
    """
    cdef list changes = [], square_changes = []
    cdef double number, before, gradient, square
    cdef Py_ssize_t i
    if len(numbers) != len(squares):
        raise ValueError("the weights and their squares have different lengths")
    for i in range(len(numbers), len(gradients)):  # new classes
        numbers.append(0.0)
        squares.append(1.0)
    for i in range(len(gradients)):
        gradient = gradients.data.as_doubles[i]
        square = round_to(SQUARE_STEP, gradient * gradient)
        squares[i] = <double> squares[i] + square
        before = numbers[i]
        number = max(max(before, minimum) - rate * gradient / sqrt(<double> squares[i]), minimum)
        number = round_to(WEIGHT_STEP, number - before)
        numbers[i] = before + number
        changes.append(number)
        square_changes.append(square)
    return tuple(changes), tuple(square_changes)


# Classes that are present (see `PresentClasses`).
cdef enum:
    UNCOUNTED_RUN = 10        # a run of up to 1/10 of all messages is not counted


@cython.boundscheck(True)
def present_classes(list rows, Py_ssize_t class_index, list active) -> tuple:
    """Find the classes that are present at a message of a class.

    Parameters
    ----------
    rows
        Of each class: number of messages, and the positions of the first and of the last one.
    class_index
        Index of the message's class.
    active
        Indices of the classes that have messages, this one included, ascending.

    Returns
    -------
    list of int, int, int
        The present classes, ascending; the number of messages; 1 if the message is in a run that counts, else 0.
    """
    cdef list present = [], row
    cdef Py_ssize_t k, in_run = 1
    cdef double n, first = INFINITY, n_messages = 0, absence, horizon
    for row in rows:
        n_messages += <double> row[0]
    horizon = max(snb_log(max(n_messages, 1.0)), 1.0)  # a multiple of the mean distance of a class
    if class_index < len(rows) and rows[class_index][0] > 0:
        first = rows[class_index][1]
    for k in active:
        if k == class_index:
            present.append(k)
        elif k < len(rows):
            row = rows[k]
            n = row[0]
            if n == 0 or <double> row[2] <= first:
                continue
            absence = n_messages - <double> row[2]
            if absence < horizon * max(n_messages / n - 1, 1.0):
                present.append(k)
            if absence < max(n_messages / UNCOUNTED_RUN, 1.0):
                in_run = 0
    return present, <Py_ssize_t> n_messages, in_run


@cython.boundscheck(True)
cpdef add_scaled(list numbers, changes, double factor):
    """Add `factor` times each change to the numbers, in place."""
    cdef Py_ssize_t i = 0
    cdef double change
    if len(changes) > len(numbers):
        raise ValueError(f"there are {len(numbers)} numbers and {len(changes)} changes")
    for change in changes:
        numbers[i] = <double> numbers[i] + factor * change
        i += 1


@cython.boundscheck(True)
def add_rows(list rows, changes, Py_ssize_t start, list zeros, int sign):
    """Add `sign` times rows of numbers, each after its index, to the rows in place; a new row is `zeros`."""
    cdef Py_ssize_t i, j, k, width = len(zeros)
    cdef list row
    for i in range(start, len(changes), width + 1):
        k = int(changes[i])
        while len(rows) <= k:
            rows.append(list(zeros))
        row = rows[k]
        for j in range(width):
            row[j] = row[j] + sign * changes[i + 1 + j]


@cython.boundscheck(True)
def add_noise(list rates, list labels, changes, double factor):
    """Add `factor` times the changes of `noise_step` in place."""
    cdef Py_ssize_t i, k
    for i in range(0, len(changes), 3):
        k = <Py_ssize_t> <double> changes[i]
        labels[k] = <double> labels[k] + factor * <double> changes[i + 1]
        rates[k] = <double> rates[k] + factor * <double> changes[i + 2]


# Label noise (see `LabelNoise`).
# Sums of posteriors are multiples of this step. A class whose posterior is rounded to 0 is not updated, so receipts
# stay short.
cdef double LABEL_STEP = 2.0**-13


@cython.boundscheck(True)
def noise_rates(
    list rates, list labels, list active, double shared_labels, double max_rate, bint has_floor
) -> list:
    """Return the rate of wrong labels of each active class, smoothed towards the mean by `shared_labels` labels."""
    cdef double hi = 0, lo = 0, weight_hi = 0, weight_lo = 0, mean, rate, n
    cdef Py_ssize_t k
    cdef list drawn = []
    for k in active:  # the sums do not depend on the order of the classes
        n = max(<double> labels[k], 1.0)
        snb_accumulate(&hi, &lo, <double> rates[k] * n)
        snb_accumulate(&weight_hi, &weight_lo, n)
    mean = (hi + lo) / (weight_hi + weight_lo)
    for k in active:
        n = max(<double> labels[k], 1.0)
        rate = (n * <double> rates[k] + shared_labels * mean) / (n + shared_labels)
        drawn.append(min(max(rate, 1 / n if has_floor else 0.0), max_rate))
    return drawn


cpdef tuple label_posterior(list proba, list rates, Py_ssize_t position, double unseen=0):
    """Return the posterior of each class given the label at `position`, and the label's probability.

    `unseen` is the d of `LabelNoise`.
    """
    cdef Py_ssize_t n = len(proba)
    cdef array.array of_classes = as_doubles(proba), e = as_doubles(rates)
    cdef double total
    if len(rates) != n:
        raise ValueError("the rates are not those of the classes")
    total = update_by_label(of_classes.data.as_doubles, e.data.as_doubles, n, position, unseen)
    return as_list(of_classes.data.as_doubles, n), total


cdef double update_by_label(
    double *proba, const double *rates, Py_ssize_t n, Py_ssize_t position, double unseen
) noexcept:
    """Replace probabilities by the posterior (`label_posterior`). Return the label's probability."""
    cdef double hi = 0, lo = 0, total
    cdef Py_ssize_t i
    for i in range(n):
        proba[i] = (
            (1 - rates[i] if i == position else rates[i] / (n - 1))
            * ((proba[i] + (unseen if i == position else 0.0)) / (1 + unseen))
        )
        snb_accumulate(&hi, &lo, proba[i])
    total = hi + lo
    for i in range(n):
        proba[i] = proba[i] / total if total > 0 else <double> (i == position)
    return max(total, 0.0)


@cython.boundscheck(True)
def noise_step(
    list rates, list labels, list posterior, list active, Py_ssize_t position, double step_size
) -> list:
    """Update rates and labels, in place, with a label.

    Return triples of class index, change of its labels, and change of its rate of wrong labels.
    """
    cdef double p, n, change
    cdef Py_ssize_t i, k
    cdef list changes = []
    if len(active) != len(posterior):
        raise ValueError("the posterior is not that of the active classes")
    for i in range(len(active)):
        k, p = active[i], round_to(LABEL_STEP, <double> posterior[i])
        if p == 0:
            continue
        n = max(<double> labels[k], 1.0) + p
        # Compute x^-.75 by operations that give the same result on every machine.
        change = round_to(step_size, p / sqrt(n * sqrt(n)) * ((i != position) - <double> rates[k]))
        labels[k] = <double> labels[k] + p
        rates[k] = <double> rates[k] + change
        changes += [<double> k, p, change]
    return changes


# Systems (see `SystemPool`).
cdef Py_ssize_t share_of(array.array numbers, Py_ssize_t n_systems) except -1:
    """Return how many of the numbers, float64 [s, i], each system has."""
    cdef Py_ssize_t share = len(numbers) // n_systems if n_systems else 0
    check_doubles(numbers, share * n_systems)
    return share


cdef list pool_scores(array.array scores_array, list log_weights):
    """Return log of sum over s of softmax(log_weights)[s] * softmax(scores[s])[k], for each class k of [s, k]."""
    cdef Py_ssize_t s, k, n_systems = len(log_weights), n = share_of(scores_array, n_systems)
    cdef const double *scores = scores_array.data.as_doubles
    cdef array.array normalized = doubles(n_systems)
    cdef list pooled = [], weights = probabilities(log_weights)
    cdef double top, hi, lo
    for s in range(n_systems):
        top, hi, lo = -INFINITY, 0, 0
        for k in range(n):
            top = max(top, scores[s * n + k])
        for k in range(n):
            snb_accumulate(&hi, &lo, snb_exp(scores[s * n + k] - top))
        normalized.data.as_doubles[s] = top + snb_log(hi + lo) - snb_log(max(<double> weights[s], 1e-300))
    for k in range(n):
        top, hi, lo = -INFINITY, 0, 0
        for s in range(n_systems):
            top = max(top, scores[s * n + k] - normalized.data.as_doubles[s])
        for s in range(n_systems):
            snb_accumulate(&hi, &lo, snb_exp(scores[s * n + k] - normalized.data.as_doubles[s] - top))
        pooled.append(top + snb_log(hi + lo))
    return pooled


@cython.boundscheck(True)
cpdef list pool_step(list log_weights, list label_proba, double switch_rate):
    """Update the log-weights in place, given each system's probability of the label. Return their changes."""
    cdef double top = -INFINITY, total = 0, value
    cdef Py_ssize_t s, n = len(log_weights)
    cdef list values = []
    if len(label_proba) != n:
        raise ValueError(f"there are {n} weights and {len(label_proba)} probabilities")
    for s in range(n):
        value = <double> log_weights[s] + snb_log(max(<double> label_proba[s], 1e-12))
        values.append(value)
        top = max(top, value)
    for s in range(n):
        total += snb_exp(<double> values[s] - top)
    for s in range(n):
        value = (1 - switch_rate) * snb_exp(<double> values[s] - top) / total + switch_rate / n
        values[s] = round_to(WEIGHT_STEP, snb_log(max(value, 1e-300)) - <double> log_weights[s])
    add_scaled(log_weights, values, 1)
    return values


# Label noise or overlapping classes (see `NoiseEvidence`).
cpdef list overlap_scores(list scores, list rates):
    """Return the scores if all labels are correct and the classes overlap."""
    cdef double power = 1
    cdef object rate, score
    for rate in rates:
        power -= <double> rate / (len(rates) - 1)
    power = max(power, 0.0)
    return [power * <double> score for score in scores]


def mean_scores(list scores, list rates, list log_weights) -> list:
    """Return the logarithm of the mean probability of noisy labels and of overlapping classes."""
    cdef array.array hypotheses = flattened([scores, overlap_scores(scores, rates)])
    if len(log_weights) != 2:
        raise ValueError(f"there are 2 hypotheses and {len(log_weights)} weights")
    return pool_scores(hypotheses, log_weights)


@cython.boundscheck(True)
def evidence_step(list scores, list rates, list log_weights, Py_ssize_t position, double switch_rate) -> list:
    """Update the log-weights of both hypotheses in place, given the label's position. Return their changes."""
    cdef double noisy = label_posterior(probabilities(scores), rates, position)[1]
    cdef double overlapping = probabilities(overlap_scores(scores, rates))[position]
    return pool_step(log_weights, [noisy, overlapping], switch_rate)


cdef array.array mix_systems(array.array log_likelihoods, list log_weights):
    """Return sum over systems s of softmax(log_weights)[s] * log_likelihoods[s, i], for each i."""
    cdef list weights = probabilities(log_weights)
    cdef Py_ssize_t s, i, n = share_of(log_likelihoods, len(weights))
    cdef array.array mixed = doubles(n, True)
    cdef double weight
    for s in range(len(weights)):
        weight = weights[s]
        for i in range(n):
            mixed.data.as_doubles[i] += weight * log_likelihoods.data.as_doubles[s * n + i]
    return mixed


# Probabilities


cpdef list probabilities(list scores):
    """Return the softmax of the scores; uniform if all are -inf."""
    cdef Py_ssize_t n = len(scores)
    cdef array.array proba = as_doubles(scores)
    softmax(proba.data.as_doubles, n, proba.data.as_doubles)
    return as_list(proba.data.as_doubles, n)


cdef void softmax(const double *scores, Py_ssize_t n, double *proba) noexcept:
    cdef double top = -INFINITY, hi = 0, lo = 0
    cdef Py_ssize_t k
    for k in range(n):
        top = max(top, scores[k])
    for k in range(n):
        proba[k] = snb_exp(scores[k] - top) if top != -INFINITY else 1.0
        snb_accumulate(&hi, &lo, proba[k])
    for k in range(n):
        proba[k] /= hi + lo


def best_index(list scores) -> int:
    """Return the index of the largest score; of scores equal up to rounding, the first."""
    cdef double top = -INFINITY
    cdef object score
    cdef Py_ssize_t i
    for score in scores:
        top = max(top, <double> score)
    if not scores:
        raise ValueError("cannot choose a class: there are no classes")
    if fabs(top) < INFINITY:
        top -= 1e-9 + 1e-12 * fabs(top)
    for i in range(len(scores)):
        if <double> scores[i] >= top:
            return i
    return 0  # no score is a number


cdef array.array log_prior_shares(list weights, double total, Py_ssize_t n_views):
    """Return each class's log prior divided by the number of views; -inf for a class without weight."""
    cdef array.array shares = doubles(len(weights))
    cdef double weight
    cdef Py_ssize_t k
    for k in range(len(weights)):
        weight = weights[k]
        shares.data.as_doubles[k] = snb_log(weight / total) / n_views if weight > 0 else -INFINITY
    return shares


def residuals(list log_likelihoods, list log_prior, Py_ssize_t class_index) -> list:
    """Return 1 - P(class) for each view; a view's scores are its log-likelihoods plus the log prior."""
    if width_of(log_likelihoods) not in (0, len(log_prior)):
        raise ValueError("the log prior is not that of the classes")
    return class_residuals(flattened(log_likelihoods), as_doubles(log_prior), class_index)


cdef list class_residuals(array.array log_likelihoods, array.array log_prior, Py_ssize_t class_index):
    """Compute the result of `residuals`, of log-likelihoods [v, k]."""
    cdef list values = []
    cdef const double *of_view
    cdef const double *prior = log_prior.data.as_doubles
    cdef double top, power, own, hi, lo
    cdef Py_ssize_t k, v, n = len(log_prior)
    if not 0 <= class_index < n:
        raise IndexError(f"no class has index {class_index}")
    for v in range(len(log_likelihoods) // n):
        of_view = log_likelihoods.data.as_doubles + v * n
        top = -INFINITY
        for k in range(n):
            top = max(top, of_view[k] + prior[k])
        if top == -INFINITY:
            values.append((n - 1) / <double> n)
            continue
        hi = lo = own = 0
        for k in range(n):
            power = snb_exp(of_view[k] + prior[k] - top)
            if k == class_index:
                own = power
            else:
                snb_accumulate(&hi, &lo, power)
        hi += lo
        values.append(hi / (hi + own))
    return values


def view_residuals(
    array.array log_likelihoods, list log_weights, list class_weights, double total, Py_ssize_t class_index,
    double extra, list shortfalls,
) -> list:
    """Return the share of a message that each view learns: 1 - P(class), plus `extra` P, or its shortfall.

    Parameters
    ----------
    log_likelihoods, log_weights
        Float64 [s, v, k] by system, view and class; of each system.
    class_weights, total
        Weight of the messages of each class, and their sum.
    """
    cdef list values
    cdef double share
    cdef Py_ssize_t v
    check_doubles(log_likelihoods, len(log_weights) * len(shortfalls) * len(class_weights))
    if not log_weights:
        raise ValueError("there are no systems")
    values = class_residuals(
        mix_systems(log_likelihoods, log_weights), log_prior_shares(class_weights, total, len(shortfalls)), class_index
    )
    for v in range(len(values)):
        share = values[v]
        values[v] = max(share + extra * (1 - share), min(<double> shortfalls[v], 1.0))
    return values


def predict_systems(list systems, list log_weights, list by_view, list active, length_bin, bound) -> tuple:
    """Return the prediction of each system for a message, and of their pool.

    Parameters
    ----------
    systems, log_weights
        The `Recalibration` of each system, and its log-weight.
    by_view
        For each view, log-likelihoods [s, k] by system and class.
    active, length_bin, bound
        Active classes; bin of the length, or None; argument of `soft_clip`, or None.

    Returns
    -------
    Log-likelihoods [s, v, k], clipped; scores of the active classes [s, i]; a list of the scores of the pool [i]. With
    fewer than two active classes, nothing is clipped, and there are no scores.
    """
    cdef Py_ssize_t s, v, k, n = len(active), n_systems = len(systems), n_views = len(by_view)
    if not n_systems or not n_views:
        raise ValueError("there are no systems or no views")
    cdef Py_ssize_t n_classes = len(by_view[0]) // n_systems
    cdef array.array log_likelihoods = doubles(n_systems * n_views * n_classes), of_view
    cdef array.array scores = doubles(n_systems * n if n > 1 else 0), indices = as_indices(active, n_classes)
    cdef const int64_t *classes = <int64_t *> indices.data.as_longlongs
    cdef double limit = 0.0 if bound is None else bound
    cdef const double *source
    cdef double *target
    if len(log_weights) != n_systems:
        raise ValueError(f"there are {n_systems} systems and {len(log_weights)} weights")
    for s in range(n_systems):
        for v in range(n_views):
            of_view = by_view[v]
            check_doubles(of_view, n_systems * n_classes)
            source = of_view.data.as_doubles + s * n_classes
            target = log_likelihoods.data.as_doubles + (s * n_views + v) * n_classes
            if bound is None or n < 2:
                for k in range(n_classes):
                    target[k] = source[k]
            else:
                soft_clip(source, n_classes, classes, n, limit, target)
        if n > 1:
            combine(
                systems[s].shared, systems[s].by_length.get(length_bin),
                log_likelihoods.data.as_doubles + s * n_views * n_classes, n_views, n_classes, classes, n,
                scores.data.as_doubles + s * n,
            )
    if n > 1 and n_systems > 1:
        return log_likelihoods, scores, pool_scores(scores, log_weights)
    return log_likelihoods, scores, as_list(scores.data.as_doubles, len(scores))


cdef void share_among(double *proba, const int64_t *positions, Py_ssize_t n) noexcept:
    """Keep the probabilities at n positions, ascending, and divide them by their sum."""
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(n):
        proba[i] = proba[positions[i]]
        total += proba[i]
    for i in range(n):
        proba[i] = proba[i] / total if total > 0 else 1.0 / n


def learn_systems(
    list systems, array.array log_likelihoods, array.array scores, list active, list rates, double noise_weight, step,
    double min_error,
) -> tuple:
    """Take a step of each system for a message of a class.

    Systems learn from the probabilities given that the class is one of those of the step.

    Parameters
    ----------
    systems
        The `Recalibration` of each system.
    log_likelihoods, scores
        The prediction of each system (`predict_systems`).
    active, rates, noise_weight
        Indices of the active classes, ascending. Fraction of wrong labels of each active class. The weight of the
        posterior; the label has the weight 1 - `noise_weight`.
    step
        The `LabelStep`.
    min_error
        A system takes no step if each of its probabilities differs by less than this from the posterior.

    Returns
    -------
    Lists over systems: changes of the shared weights; changes of the weights of the length bin; probabilities of the label,
    and of its class. The changes are empty if the system took no step. The first two lists are None if none did.
    """
    cdef list shared_changes = [], length_changes = [], label_probas = [], class_probas = [], changes
    if not isinstance(step, tuple) or len(<tuple> step) != 7 or not systems:
        raise ValueError("there are no systems, or no step of a label")
    cdef set among = set((<tuple> step)[1])
    cdef object length_bin = (<tuple> step)[4], system, weights
    cdef double error
    cdef bint has_step = False
    cdef Py_ssize_t i, s, n = len(active), n_systems = len(systems), position = active.index((<tuple> step)[0])
    cdef list present = [i for i in range(n) if active[i] in among]
    cdef Py_ssize_t n_present = len(present), size = share_of(log_likelihoods, n_systems)
    cdef Py_ssize_t n_views = systems[0].n_views
    cdef array.array positions = as_indices(present, n), of_rates = as_doubles(rates), p = doubles(n), q = doubles(n)
    cdef double *proba = p.data.as_doubles
    cdef double *targets = q.data.as_doubles
    check_doubles(scores, n_systems * n)
    if len(rates) != n or n_views < 1 or size % n_views:
        raise ValueError("the numbers are not those of each system, view and active class")
    if n_present != len((<tuple> step)[1]):
        raise ValueError("a class of the step is not active")
    for s in range(n_systems):
        system, error = systems[s], 0
        softmax(scores.data.as_doubles + s * n, n, proba)
        class_probas.append(proba[position])
        for i in range(n):
            targets[i] = proba[i]
        label_probas.append(update_by_label(targets, of_rates.data.as_doubles, n, position, 0))
        for i in range(n):
            targets[i] = noise_weight * targets[i] + (1 - noise_weight) * (i == position)
        if n_present < n:
            share_among(proba, <int64_t *> positions.data.as_longlongs, n_present)
            share_among(targets, <int64_t *> positions.data.as_longlongs, n_present)
        for i in range(n_present):
            error = max(error, fabs(proba[i] - targets[i]))
        changes = [(), ()]
        if error >= min_error:
            has_step = True
            weights = system.by_length.get(length_bin)
            if weights is None and length_bin is not None:
                weights = system.weights_of(length_bin)
            changes = take_step(
                system.shared, weights, log_likelihoods.data.as_doubles + s * size, n_views, size // n_views, proba,
                system.rate, step, targets,
            )
        shared_changes.append(changes[0])
        length_changes.append(changes[len(changes) - 1])
    if not has_step:
        return None, None, label_probas, class_probas
    return shared_changes, length_changes, label_probas, class_probas
