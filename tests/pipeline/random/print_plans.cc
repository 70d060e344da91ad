#include <cstdio>
#include <cstdlib>

#include "tests/pipeline/random/random_plan.h"

// Prints the texts of drawn plans, each with a zero byte behind it, for tests in other languages.
//
//   pipeline_print_plans FIRST PLANS     those of the seeds FIRST, FIRST + 1, ...

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const uint64_t plans = std::strtoull(argv[2], nullptr, 10);
  for (uint64_t seed = first; seed < first + plans; ++seed) {
    const std::string text = millrace::pipeline::RandomPlanMaker(seed).Make().text;
    if (std::fwrite(text.c_str(), 1, text.size() + 1, stdout) != text.size() + 1) return 1;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
