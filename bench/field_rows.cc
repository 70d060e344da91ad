// bench_field_rows ROW SECONDS: what the maps of examples/tabular/train.pbtxt take, over Examples
// in memory. Prints one JSON object with "per_second", by the processor time of the process.
//
//   tabular         parse_example, log, hash, stack, into the columns of a batch
//   tabular_limit   parse_example of the same Examples alone
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "augment/field_ops.h"
#include "base/op.h"
#include "bench/example_runs.h"
#include "readers/example_builder.h"
#include "readers/parse_example.h"

namespace millrace::bench {
namespace {

constexpr int kCounts = 13;
constexpr int kCategories = 26;

std::vector<std::string> Names(char letter, int count) {
  std::vector<std::string> names;
  for (int i = 1; i <= count; ++i) names.push_back(letter + std::to_string(i));
  return names;
}

std::vector<std::string> MakeExamples() {
  std::mt19937_64 random(1);
  std::vector<std::string> examples;
  for (int64_t i = 0; i < kRows * kRuns; ++i) {
    readers::ExampleBuilder builder;
    builder.AddInt("label", static_cast<int64_t>(random() % 2));
    for (const std::string& name : Names('I', kCounts)) {
      builder.AddInt(name, static_cast<int64_t>(random() % 1000));
    }
    for (const std::string& name : Names('C', kCategories)) {
      builder.AddBytes(name, absl::StrFormat("%08x", random() % 1'000'000));
    }
    examples.push_back(builder.Serialize());
  }
  return examples;
}

readers::FeatureSpec Feature(const std::string& name, DType dtype) {
  readers::FeatureSpec spec;
  spec.name = spec.key = name;
  spec.dtype = dtype;
  return spec;
}

// The ops of the recipe, or the first of them.
std::vector<absl::StatusOr<std::unique_ptr<Op>>> MakeOps(bool parse_only) {
  const std::vector<std::string> counts = Names('I', kCounts);
  const std::vector<std::string> categories = Names('C', kCategories);
  readers::ParseExampleOptions parse;
  parse.features.push_back(Feature("label", DType::kI64));
  for (const std::string& name : counts) parse.features.push_back(Feature(name, DType::kI64));
  for (const std::string& name : categories) {
    parse.features.push_back(Feature(name, DType::kBytes));
  }
  std::vector<absl::StatusOr<std::unique_ptr<Op>>> ops;
  ops.push_back(readers::MakeParseExample(parse));
  if (parse_only) return ops;
  ops.push_back(augment::MakeLog({.fields = counts}));
  ops.push_back(augment::MakeStack({.fields = counts, .output = "dense"}));
  ops.push_back(augment::MakeHash({.fields = categories, .num_bins = {1'000'000}}));
  ops.push_back(augment::MakeStack({.fields = categories, .output = "sparse"}));
  return ops;
}

int Measure(bool parse_only, double seconds) {
  const std::vector<std::string> examples = MakeExamples();
  std::vector<std::unique_ptr<Op>> ops;
  Schema schema({{"record", DType::kBytes, {Shape::kUnknown}}});
  for (auto& op : MakeOps(parse_only)) {
    auto resolved = op.ok() ? (*op)->Resolve(schema) : op.status();
    if (!resolved.ok()) {
      std::fprintf(stderr, "%s\n", resolved.status().ToString().c_str());
      return 1;
    }
    schema = *std::move(resolved);
    ops.push_back(*std::move(op));
  }
  std::vector<int64_t> labels(kRows);
  std::vector<std::array<float, kCounts>> dense(kRows);
  std::vector<std::array<int64_t, kCategories>> sparse(kRows);
  const std::vector<FieldSlots> slots = {
      {"label", DType::kI64, {}, reinterpret_cast<std::byte*>(labels.data())},
      {"dense", DType::kF32, {kCounts}, reinterpret_cast<std::byte*>(dense.data())},
      {"sparse", DType::kI64, {kCategories}, reinterpret_cast<std::byte*>(sparse.data())}};
  return PrintRunRate(seconds, examples, ops, slots) ? 0 : 1;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const std::string row = argc == 3 ? argv[1] : "";
  if (row != "tabular" && row != "tabular_limit") {
    std::fprintf(stderr, "usage: bench_field_rows tabular|tabular_limit SECONDS\n");
    return 2;
  }
  return millrace::bench::Measure(row == "tabular_limit", std::stod(argv[2]));
}
