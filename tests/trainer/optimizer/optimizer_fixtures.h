#ifndef MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_FIXTURES_H_
#define MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_FIXTURES_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace millrace::trainer {

// A case of tests/trainer/testdata/optimizers.txt, which scripts/make_optimizer_fixtures.py wrote.
struct OptimizerCase {
  struct Step {
    double rate = 0;
    std::vector<float> gradient;
    std::vector<float> weights;  // after the step
  };
  std::string name;
  std::string spec;
  std::vector<float> start;
  std::vector<Step> steps;
};

inline std::vector<float> ParseFloats(std::istream& in) {
  std::vector<float> values;
  for (float value = 0; in >> value;) values.push_back(value);
  in.clear();
  return values;
}

inline OptimizerCase::Step ParseStep(std::istream& in) {
  OptimizerCase::Step step;
  std::string bar;
  in >> step.rate >> bar;
  step.gradient = ParseFloats(in);
  in >> bar;
  step.weights = ParseFloats(in);
  return step;
}

inline std::vector<OptimizerCase> ReadOptimizerCases() {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  std::ifstream file(std::string(root == nullptr ? "." : root) +
                     "/tests/trainer/testdata/optimizers.txt");
  std::vector<OptimizerCase> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    if (kind == "case") in >> cases.emplace_back().name;
    if (kind == "spec" && line.size() > 5) cases.back().spec = line.substr(5);
    if (kind == "start") cases.back().start = ParseFloats(in);
    if (kind == "step") cases.back().steps.push_back(ParseStep(in));
  }
  EXPECT_FALSE(cases.empty()) << "MILLRACE_SOURCE_DIR is not set";
  return cases;
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_FIXTURES_H_
