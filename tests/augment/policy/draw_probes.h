#ifndef MILLRACE_TESTS_AUGMENT_POLICY_DRAW_PROBES_H_
#define MILLRACE_TESTS_AUGMENT_POLICY_DRAW_PROBES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/philox.h"

// Probes of the ops that draw. An op is looked at from outside: it works on an image from which one
// can tell what it drew.

namespace millrace::augment::testing {

inline constexpr int64_t kProbedRecords = 4000;

using Series = std::vector<double>;

// What is known of the distribution. `slack`: by how much pixels round what was drawn.
struct Expected {
  double low, high, mean, variance;
  double slack = 0;
};
Expected Integers(double low, double high);  // each as likely

struct Probe {
  std::string name;
  Expected expected;
  // What was drawn for records 0, 1, ... of an epoch, by a stage of that name, when they came in
  // their order or backwards.
  std::function<Series(const std::string& stage, uint64_t epoch, bool backwards)> draw;
  bool through_op = true;  // false: by a function of words, to which an order means nothing
};

// Of an op whose draws can be had without an image: `measure` is what it draws of its words.
Probe FromWords(std::string name, Expected expected, std::function<double(RandomStream&)> measure);

// Of every op that draws.
std::vector<Probe> Probes();
// Of ops whose draws are not to be told from an image: whatever they make of it, as a number.
// Nothing is expected of it.
std::vector<Probe> PolicyProbes();

}  // namespace millrace::augment::testing

#endif  // MILLRACE_TESTS_AUGMENT_POLICY_DRAW_PROBES_H_
