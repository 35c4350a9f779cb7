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
    """Score the classes of `known`: biases[k] + sum over j of gains[j] * evidence[j][k]."""
    cdef list out = [], of
    cdef double score, part
    cdef Py_ssize_t k, j, models = len(gains)
    for k in known:
        score = 0
        for j in range(models):
            of = evidence[j]
            part = of[k]
            score += <double> gains[j] * part
        out.append(<double> biases[k] + score)
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
