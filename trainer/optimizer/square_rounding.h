#ifndef MILLRACE_TRAINER_OPTIMIZER_SQUARE_ROUNDING_H_
#define MILLRACE_TRAINER_OPTIMIZER_SQUARE_ROUNDING_H_

#include <cmath>
#include <cstddef>

#include "trainer/optimizer/elements.h"

namespace millrace::trainer {

// The constants by which the squares of a tensor are rounded (square_sum.cc says how).
struct SquareRounding {
  double coarse = 0;
  double fine = 0;

  // Of `count` elements (less than 2^40), of magnitude `largest` or less.
  MILLRACE_ELEMENT_FUNCTION static SquareRounding Of(double largest, size_t count) {
    SquareRounding rounding;
    rounding.coarse = Constant(largest * largest, count);
    const double unit = std::nextafter(rounding.coarse, 2 * rounding.coarse) - rounding.coarse;
    rounding.fine = Constant(unit, count);
    return rounding;
  }

  // Adds the square of `value` to sum[0] and sum[1].
  MILLRACE_ELEMENT_FUNCTION void Add(float value, double* sum) const {
    const double square = double{value} * double{value};
    const double rounded = (square + coarse) - coarse;
    sum[0] += rounded;
    sum[1] += ((square - rounded) + fine) - fine;
  }

 private:
  // C for `count` values of magnitude `bound` or less.
  MILLRACE_ELEMENT_FUNCTION static double Constant(double bound, size_t count) {
    int exponent = 0;
    (void)std::frexp(bound * static_cast<double>(count), &exponent);
    return std::ldexp(1.5, exponent + 1);
  }
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_OPTIMIZER_SQUARE_ROUNDING_H_
