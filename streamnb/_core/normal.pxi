# Independent normal distributions from exact sums.

cdef double SMALLEST_VARIANCE = 1e-200  # without smoothing: a point, as nearly as numbers have it


def normal_parameters(sums, int ddof, double relative, double epsilon):
    """What `gaussian_rows` wants to know of classes, from the sums of each.

    A variance is the sum of squares about the mean, divide by the weight less ddof. To it `relative` times
    the largest variance (ddof 0) over all classes is added, and `epsilon` to its root. A class that has no
    value of a feature takes mean and variance of all classes together, so that it says nothing.

    Parameters
    ----------
    sums
        K `ExactSums` of the same features.
    ddof, relative, epsilon
        As said.

    Returns
    -------
    Means, 1 / (2 variance) and -log(2 pi variance) / 2: float64, shape (K, d).
    """
    cdef Py_ssize_t classes = len(sums), columns = len(sums[0]) if sums else 0, k, j
    cdef cnp.ndarray means = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray halves = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray constants = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef double *mean = <double *> cnp.PyArray_DATA(means)
    cdef double *half = <double *> cnp.PyArray_DATA(halves)
    cdef double *constant = <double *> cnp.PyArray_DATA(constants)
    cdef double *whole
    cdef double *mine
    cdef double largest = 0.0, variance
    cdef ExactSums total = ExactSums()
    cdef cnp.ndarray every, one
    if any(len(one_sums) != columns for one_sums in sums):
        raise ValueError("the sums are of different features")
    total.grow(columns)
    for one_sums in sums:
        total.merge(one_sums)
    every = total.moments()
    whole = <double *> cnp.PyArray_DATA(every)
    for j in range(columns):
        if whole[j] > 0:
            largest = max(largest, whole[2 * columns + j] / whole[j])
    for k in range(classes):
        one = sums[k].moments()
        for j in range(columns):
            mine = <double *> cnp.PyArray_DATA(one)
            if not mine[j] > 0:
                mine = whole
            mean[k * columns + j] = mine[columns + j]
            variance = mine[2 * columns + j] / (mine[j] - ddof) if mine[j] > ddof else 0.0
            variance = max(variance, 0.0) + relative * largest
            if epsilon > 0:
                variance = sqrt(variance) + epsilon
                variance *= variance
            variance = max(variance, SMALLEST_VARIANCE)
            half[k * columns + j] = 1 / (2 * variance)
            constant[k * columns + j] = -0.5 * snb_log(6.283185307179586 * variance)
    return means, halves, constants


def gaussian_rows(X, means, halves, constants):
    """Log densities of independent normal distributions, summed over the features of each row.

    Parameters
    ----------
    X
        float64, shape (n, d); NaN takes no part.
    means, halves, constants
        float64, shape (K, d): mean, 1 / (2 variance) and -log(2 pi variance) / 2; a feature whose mean is
        NaN takes no part.

    Returns
    -------
    float64, shape (n, K); each sum does not depend on the order of the features.
    """
    cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], classes = means.shape[0], r, j, k
    cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
    cdef double *m = <double *> cnp.PyArray_DATA(checked(means, cnp.NPY_FLOAT64, classes * columns, "means"))
    cdef double *h = <double *> cnp.PyArray_DATA(checked(halves, cnp.NPY_FLOAT64, classes * columns, "halves"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(constants, cnp.NPY_FLOAT64, classes * columns, "constants"))
    cdef cnp.ndarray out = new_matrix(rows, classes, cnp.NPY_FLOAT64)
    cdef double *score = <double *> cnp.PyArray_DATA(out)
    cdef double hi, lo, away
    with nogil:
        for r in range(rows):
            for k in range(classes):
                hi = 0.0
                lo = 0.0
                for j in range(columns):
                    away = x[r * columns + j] - m[k * columns + j]
                    if away == away:
                        snb_accumulate(&hi, &lo, c[k * columns + j] - away * away * h[k * columns + j])
                score[r * classes + k] = hi + lo if fabs(hi) < INFINITY else -INFINITY
    return out
