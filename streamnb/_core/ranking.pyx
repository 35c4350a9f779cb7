# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Losses of a prediction, and ranking errors in resamplings of a run."""

import numpy as np

cimport numpy as cnp
from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset
from streamnb._core.arrays cimport checked, grown, new_array, new_matrix
from streamnb._core.logs cimport snb_accumulate, snb_exp, snb_log

cnp.import_array()


def prediction_losses(list scores, Py_ssize_t y, Py_ssize_t predicted, Py_ssize_t positive, double least) -> tuple:
    """Return the losses of one prediction over two classes or more.

    Parameters
    ----------
    scores
        Log probabilities of the classes, up to a constant.
    y, predicted, positive
        Index of the true, the predicted and the positive class; -1 if it is absent.
    least
        Lower bound of log probabilities, in nats.

    Returns
    -------
    Log loss, Brier score, and the probabilities of the positive and the predicted class.
    """
    cdef list powers = []
    cdef double top = -INFINITY, power, hi = 0, lo = 0, loss = -least, squares = 1
    cdef Py_ssize_t i
    for score in scores:
        top = max(top, <double> score)
    for score in scores:
        power = snb_exp(<double> score - top) if top > -INFINITY else 1.0
        powers.append(power)
        snb_accumulate(&hi, &lo, power)
    hi += lo
    if y >= 0:
        loss = -max((<double> scores[y] - top if top > -INFINITY else 0.0) - snb_log(hi), least)
        power = 1 - <double> powers[y] / hi
        squares = power * power
    for i in range(len(powers)):
        if i != y:
            power = <double> powers[i] / hi
            squares += power * power
    return (
        loss, squares / 2,
        <double> powers[positive] / hi if positive >= 0 else 0.0,
        <double> powers[predicted] / hi if predicted >= 0 else 0.0,
    )


cdef void count_draws(
    int64_t *draws, Py_ssize_t n, const int64_t *starts, const int64_t *ends, Py_ssize_t blocks
) noexcept nogil:
    # Count the blocks that contain each of the n messages; a block may wrap around to the start.
    cdef Py_ssize_t i
    cdef int64_t now = 0
    memset(draws, 0, 2 * n * sizeof(int64_t))
    for i in range(blocks):
        draws[starts[i]] += 1
        if ends[i] < 2 * n:
            draws[ends[i]] -= 1
    for i in range(2 * n):
        now += draws[i]
        draws[i] = now
    for i in range(n):
        draws[i] += draws[n + i]


def rank_resampled(order, positive, last, starts, ends, shares):
    """Count the ranking errors in m resamplings of n messages.

    Parameters
    ----------
    order
        int64, shape (n,): indices of the messages by rising score.
    positive, last
        uint8, shape (n,), in that order. `positive` is 1 for a message of the positive class, `last` is 1 for the last
        message with its score.
    starts, ends
        int64, shape (m, b): first message and end of each block. A block starts below n and ends at 2 n at most; index
        n is message 0 again.
    shares
        float64, shape (t,), ascending: tolerated fractions of negatives above a threshold.

    Returns
    -------
    tuple
        Four int64 arrays. Number of positives, (m,); number of negatives, (m,); misranked pairs, (m,): 2 if the
        negative has the higher score, 1 for a tie; missed positives for each share, (m, t): those at or below the
        lowest threshold that at most this fraction of the negatives exceed.
    """
    cdef Py_ssize_t n = len(order), m = len(starts), b = starts.size // max(m, 1), t = len(shares)
    cdef int64_t *message = <int64_t *> cnp.PyArray_DATA(checked(order, cnp.NPY_INT64, n, "order"))
    cdef uint8_t *up = <uint8_t *> cnp.PyArray_DATA(checked(positive, cnp.NPY_UINT8, n, "positive"))
    cdef uint8_t *end = <uint8_t *> cnp.PyArray_DATA(checked(last, cnp.NPY_UINT8, n, "last"))
    cdef int64_t *begins = <int64_t *> cnp.PyArray_DATA(checked(starts, cnp.NPY_INT64, m * b, "starts"))
    cdef int64_t *stops = <int64_t *> cnp.PyArray_DATA(checked(ends, cnp.NPY_INT64, m * b, "ends"))
    cdef double *most = <double *> cnp.PyArray_DATA(checked(shares, cnp.NPY_FLOAT64, t, "shares"))
    if m * b and not (0 <= starts.min() and starts.max() < n and ends.max() <= 2 * n and 0 <= ends.min()):
        raise ValueError("blocks must begin within the run and end at most 2 n")
    if n and not (0 <= order.min() and order.max() < n):
        raise ValueError("order must hold indices of the n messages")
    ups, downs, wrong = (new_array(m, cnp.NPY_INT64) for _ in range(3))
    below = new_matrix(m, t, cnp.NPY_INT64)
    cdef int64_t *out_ups = <int64_t *> cnp.PyArray_DATA(ups)
    cdef int64_t *out_downs = <int64_t *> cnp.PyArray_DATA(downs)
    cdef int64_t *out_wrong = <int64_t *> cnp.PyArray_DATA(wrong)
    cdef int64_t *out_below = <int64_t *> cnp.PyArray_DATA(below)
    cdef int64_t *draws = <int64_t *> grown(NULL, 2 * n * sizeof(int64_t))
    cdef Py_ssize_t i, j, k
    cdef int64_t higher, lower, all_lower, ups_here, downs_here, pairs
    with nogil:
        for i in range(m):
            count_draws(draws, n, begins + i * b, stops + i * b, b)
            all_lower = 0
            for j in range(n):
                all_lower += 0 if up[j] else draws[message[j]]
            higher = lower = ups_here = downs_here = pairs = 0
            k = 0  # shares ascend, so thresholds are found from the last share to the first
            for j in range(n):
                if up[j]:
                    ups_here += draws[message[j]]
                else:
                    downs_here += draws[message[j]]
                if not end[j]:
                    continue
                higher += ups_here
                lower += downs_here
                pairs += ups_here * (2 * (all_lower - lower) + downs_here)
                ups_here = downs_here = 0
                while k < t and lower >= all_lower - <int64_t> (most[t - 1 - k] * all_lower):
                    out_below[i * t + t - 1 - k] = higher
                    k += 1
            out_ups[i], out_downs[i], out_wrong[i] = higher, lower, pairs
    free(draws)
    return ups, downs, wrong, below
