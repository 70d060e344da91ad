#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <vector>

#include "pipeline/plan.h"
#include "pipeline/stages/specs.h"
#include "readers/png_encoder.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_maps.h"

// Ops with hostile parameters: the maps of a plan, whose text is the input, over a run of two tiny
// samples. A plan, an op or a row is refused, or the op runs.

namespace millrace::pipeline {
namespace {

constexpr int kRows = 2;

// The fields that ops may be told of.
struct Sample {
  std::array<uint8_t, 5 * 7 * 3> image;
  std::array<float, 5 * 7 * 3> floats;
  std::array<float, 4> scores;
  int64_t label = 0;
  std::array<int64_t, 3> tokens = {7, -1, 7};
  std::array<float, 8> boxes = {1, 1, 4, 3, -2, 0, 1e30f, 2};
  std::string words = "a  b other";
  std::string png;
};

Sample MakeSample() {
  Sample sample;
  for (size_t i = 0; i < sample.image.size(); ++i) sample.image[i] = static_cast<uint8_t>(37 * i);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float odd[] = {0,   -1,        255,  1e30f,     std::numeric_limits<float>::quiet_NaN(),
                       0.5, kInfinity, -0.f, -kInfinity};
  for (size_t i = 0; i < sample.floats.size(); ++i) sample.floats[i] = odd[i % 9];
  for (size_t i = 0; i < sample.scores.size(); ++i) sample.scores[i] = odd[3 * i % 9];
  sample.label = -3;
  const auto png = readers::EncodePng(sample.image, 5, 7, 3);
  fuzz::Require(png.ok(), "a small image can be encoded");
  sample.png = *png;
  return sample;
}

void AddFields(const Sample& sample, Run& run) {
  const auto add = [&](const char* name, DType dtype, const Shape& shape, const void* data) {
    Column& column = run.Add(name, dtype);
    for (int row = 0; row < kRows; ++row) column.Set(row, data, shape);
  };
  add("image", DType::kU8, Shape{5, 7, 3}, sample.image.data());
  add("grey", DType::kU8, Shape{15, 7, 1}, sample.image.data());
  add("floats", DType::kF32, Shape{5, 7, 3}, sample.floats.data());
  add("scores", DType::kF32, Shape{4}, sample.scores.data());
  for (const char* name : {"label", "other_label"}) {
    add(name, DType::kI64, Shape{}, &sample.label);
  }
  add("tokens", DType::kI64, Shape{3}, sample.tokens.data());
  add("boxes", DType::kF32, Shape{2, 4}, sample.boxes.data());
  add("mask", DType::kU8, Shape{5, 7, 1}, sample.image.data());
  add("words", DType::kBytes, Shape{static_cast<int64_t>(sample.words.size())},
      sample.words.data());
  const Shape bytes{static_cast<int64_t>(sample.png.size())};
  add("image/encoded", DType::kBytes, bytes, sample.png.data());
  add("record", DType::kBytes, bytes, sample.png.data());
}

// The file of tokens that plans may name: /proc/self/fd/900.
void MakeVocabularyFile() {
  constexpr int kDescriptor = 900;
  constexpr std::string_view kTokens = "a\nb\nlast\n";
  const int file = memfd_create("tokens", 0);
  fuzz::Require(file >= 0 && write(file, kTokens.data(), kTokens.size()) ==
                                 static_cast<ssize_t>(kTokens.size()),
                "a file in memory can be written");
  fuzz::Require(dup2(file, kDescriptor) == kDescriptor && close(file) == 0,
                "it has the number that the corpus names");
}

bool ApplyTo(Run& run, const OpSpec& spec) {
  auto op = MakeBuiltinOp(spec);
  if (!op.ok()) return false;
  const auto schema = (*op)->Resolve(fuzz::SchemaOf(run));
  if (!schema.ok() || !fuzz::IsSmall(*schema, spec.options)) return false;
  (*op)->Apply(run);
  for (const Field& field : schema->fields()) {
    const Column* column = run.Find(field.name);
    fuzz::Require(column != nullptr && column->dtype() == field.dtype,
                  "an op writes the fields that it said");
    if (!run.ok(0)) continue;
    fuzz::Require(column->at(0).shape.rank() == field.shape.rank(), "and in that rank");
    for (int i = 0; i < field.shape.rank(); ++i) {
      fuzz::Require(field.shape[i] == Shape::kUnknown || column->at(0).shape[i] == field.shape[i],
                    "and of that shape");
    }
  }
  return run.ok(0);
}

void RunPlan(std::string_view text) {
  if (text.size() > fuzz::kMaxElements) return;
  const auto plan = fuzz::PlanOfMaps(text);
  if (!plan.ok()) return;
  static const Sample sample = MakeSample();
  RunArena arena;
  Run run(arena, 1, 0, std::vector<SampleId>(kRows));
  AddFields(sample, run);
  int num_ops = 0;
  for (const OpSpec& spec : OpsFromPlan(plan->message())) {
    // Cuts are the executor's, and custom ops the program's.
    if (spec.is_filter() || std::holds_alternative<CustomOptions>(spec.options) ||
        std::holds_alternative<UnbatchOptions>(spec.options)) {
      continue;
    }
    if (++num_ops > 16 || !ApplyTo(run, spec)) return;
  }
}

}  // namespace
}  // namespace millrace::pipeline

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  millrace::pipeline::MakeVocabularyFile();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::pipeline::RunPlan({reinterpret_cast<const char*>(data), size});
  return 0;
}
