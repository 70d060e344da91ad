#ifndef MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_FIXTURES_H_
#define MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_FIXTURES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace millrace::trainer {

inline std::string OptimizerTestdata(const std::string& name) {
  const char* const root = std::getenv("MILLRACE_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/tests/trainer/testdata/" + name;
}

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
  std::vector<OptimizerCase> cases;
  std::ifstream file(OptimizerTestdata("optimizers.txt"));
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

// A case of schedules.txt, of the same script.
struct ScheduleCase {
  std::string name;
  std::string spec;
  uint64_t steps_per_epoch = 0;
  uint64_t total_steps = 0;
  std::vector<double> rates;
};

inline std::vector<ScheduleCase> ReadScheduleCases() {
  std::vector<ScheduleCase> cases;
  std::ifstream file(OptimizerTestdata("schedules.txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string kind;
    in >> kind;
    if (kind == "case") in >> cases.emplace_back().name;
    if (kind == "spec") cases.back().spec = line.substr(5);
    if (kind == "steps") in >> cases.back().steps_per_epoch >> cases.back().total_steps;
    for (double rate = 0; kind == "rates" && in >> rate;) cases.back().rates.push_back(rate);
  }
  EXPECT_FALSE(cases.empty()) << "MILLRACE_SOURCE_DIR is not set";
  return cases;
}

}  // namespace millrace::trainer

#endif  // MILLRACE_TESTS_TRAINER_OPTIMIZER_OPTIMIZER_FIXTURES_H_
