# Densities of independent normal distributions, from exact sums.

cdef double SMALLEST_VARIANCE = 1e-200  # lower bound: without smoothing, equal values would have variance 0


def normal_parameters(sums, int ddof, double relative, double epsilon):
    """Return the parameters of `gaussian_rows` from the sums of each class.

    A variance is the sum of squares about the mean, divide by weight - ddof. `relative` times the largest
    variance of all classes together (ddof 0) is added to it, and `epsilon` to its root. A class without
    values of a feature gets the mean and variance of all classes together.

    Parameters
    ----------
    sums
        K `ExactSums` of the same features.
    ddof, relative, epsilon
        Degrees of freedom to deduct, relative and absolute smoothing.

    Returns
    -------
    Means, 1 / (2 variance) and -log(2 pi variance) / 2; float64, shape (K, d).
    """
    cdef Py_ssize_t classes = len(sums), columns = len(sums[0]) if sums else 0, k, j
    cdef cnp.ndarray means = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray halves = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray constants = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef double *mean = <double *> cnp.PyArray_DATA(means)
    cdef double *half = <double *> cnp.PyArray_DATA(halves)
    cdef double *constant = <double *> cnp.PyArray_DATA(constants)
    cdef double *pooled
    cdef double *moments
    cdef double largest = 0.0, variance
    cdef ExactSums total = ExactSums()
    cdef cnp.ndarray total_moments, class_moments
    if any(len(class_sums) != columns for class_sums in sums):
        raise ValueError("the sums of classes differ in their number of features")
    total.grow(columns)
    for class_sums in sums:
        total.merge(class_sums)
    total_moments = total.moments()
    pooled = <double *> cnp.PyArray_DATA(total_moments)
    for j in range(columns):
        if pooled[j] > 0:
            largest = max(largest, pooled[2 * columns + j] / pooled[j])
    for k in range(classes):
        class_moments = sums[k].moments()
        for j in range(columns):
            moments = <double *> cnp.PyArray_DATA(class_moments)
            if not moments[j] > 0:
                moments = pooled
            mean[k * columns + j] = moments[columns + j]
            variance = moments[2 * columns + j] / (moments[j] - ddof) if moments[j] > ddof else 0.0
            variance = max(variance, 0.0) + relative * largest
            if epsilon > 0:
                variance = sqrt(variance) + epsilon
                variance *= variance
            variance = max(variance, SMALLEST_VARIANCE)
            half[k * columns + j] = 1 / (2 * variance)
            constant[k * columns + j] = -0.5 * snb_log(6.283185307179586 * variance)
    return means, halves, constants


def gaussian_rows(X, means, halves, constants):
    """Return the log densities of independent normal distributions, summed over features.

    Parameters
    ----------
    X
        float64, shape (n, d); NaN is skipped.
    means, halves, constants
        float64, shape (K, d): mean, 1 / (2 variance) and -log(2 pi variance) / 2; a feature with the mean
        NaN is skipped.

    Returns
    -------
    float64, shape (n, K); independent of the order of the features.
    """
    cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], classes = means.shape[0], r, j, k
    cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
    cdef double *m = <double *> cnp.PyArray_DATA(checked(means, cnp.NPY_FLOAT64, classes * columns, "means"))
    cdef double *h = <double *> cnp.PyArray_DATA(checked(halves, cnp.NPY_FLOAT64, classes * columns, "halves"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(constants, cnp.NPY_FLOAT64, classes * columns, "constants"))
    cdef cnp.ndarray out = new_matrix(rows, classes, cnp.NPY_FLOAT64)
    cdef double *score = <double *> cnp.PyArray_DATA(out)
    cdef double hi, lo, deviation
    with nogil:
        for r in range(rows):
            for k in range(classes):
                hi = 0.0
                lo = 0.0
                for j in range(columns):
                    deviation = x[r * columns + j] - m[k * columns + j]
                    if deviation == deviation:
                        snb_accumulate(&hi, &lo, c[k * columns + j] - deviation * deviation * h[k * columns + j])
                score[r * classes + k] = hi + lo if fabs(hi) < INFINITY else -INFINITY
    return out
