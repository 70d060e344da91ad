#ifndef MILLRACE_TRAINER_OPTIMIZER_SQUARE_SUM_H_
#define MILLRACE_TRAINER_OPTIMIZER_SQUARE_SUM_H_

#include <cstddef>
#include <span>

// Norms whose bits do not depend on how a tensor is cut into pieces, nor on the order in which the
// pieces are added: each square is rounded to two multiples of fixed units, the coarse one and the
// rest, so that all additions of either are exact (Demmel and Nguyen 2013, "Fast Reproducible
// Floating-Point Summation").

namespace millrace::trainer {

// The largest magnitude of `values`; 0 if there are none. NaN is left out.
double LargestMagnitude(std::span<const float> values);

// Adds the squares of `values`, a piece of a tensor of `count` elements (less than 2^40), to sum[0]
// and sum[1], which begin as zeros. `largest` is the largest magnitude of the whole tensor.
void AddSquares(std::span<const float> values, double largest, size_t count, double* sum);

// Returns LargestMagnitude(values) and, in the same pass, adds their squares as
// AddSquares(values, guess, count, sum) does. If `guess` and the largest magnitude of the whole
// tensor have SameRounding, so are the sums; else they are of no use.
double LargestAndSquares(std::span<const float> values, double guess, size_t count, double* sum);

// True if squares are rounded alike for either of the two as `largest`.
bool SameRounding(double a, double b, size_t count);

// The norm of the tensor whose squares were added to sum[0] and sum[1]; NaN if some element is
// infinite or NaN.
double NormOf(const double* sum);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_SQUARE_SUM_H_
