#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "augment/codec/encoder.h"
#include "pipeline/optimize/optimizer.h"
#include "readers/png_encoder.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_maps.h"

// Maps on images, whose text is the input, run one by one and as the optimizer makes one op of
// several (decode_region, fuse_image): every row has the same values or the same error (S-ROUND-2,
// S-ROUND-4).

namespace millrace::pipeline {
namespace {

// A good JPEG and PNG, a JPEG that breaks off, and no image.
constexpr int kRows = 4;

struct Samples {
  std::array<uint8_t, 9 * 11 * 3> image;
  std::array<float, 9 * 11 * 3> floats;
  std::array<float, 4> boxes = {1, 1, 4, 3};
  std::array<std::string, kRows> encoded;
};

Samples MakeSamples() {
  Samples samples;
  for (size_t i = 0; i < samples.image.size(); ++i) {
    samples.image[i] = static_cast<uint8_t>(37 * i + i / 9);
    samples.floats[i] = static_cast<float>(samples.image[i]) * 0.4f - 20;
  }
  const auto jpeg = augment::EncodeJpeg(samples.image.data(), 9, 11, 3, 90);
  const auto png = readers::EncodePng(samples.image, 9, 11, 3);
  fuzz::Require(jpeg.ok() && png.ok(), "a small image can be encoded");
  samples.encoded = {*jpeg, *png, jpeg->substr(0, jpeg->size() - 40), "none"};
  return samples;
}

void AddFields(const Samples& samples, Run& run) {
  const auto add = [&](const char* name, DType dtype, const Shape& shape, const void* data) {
    Column& column = run.Add(name, dtype);
    for (int row = 0; row < kRows; ++row) column.Set(row, data, shape);
  };
  Column& encoded = run.Add("image/encoded", DType::kBytes);
  for (int row = 0; row < kRows; ++row) {
    const std::string& bytes = samples.encoded[static_cast<size_t>(row)];
    encoded.Set(row, bytes.data(), Shape{static_cast<int64_t>(bytes.size())});
  }
  add("raw", DType::kU8, Shape{9, 11, 3}, samples.image.data());
  add("floats", DType::kF32, Shape{9, 11, 3}, samples.floats.data());
  add("boxes", DType::kF32, Shape{1, 4}, samples.boxes.data());
}

std::vector<SampleId> Ids() {
  std::vector<SampleId> ids(kRows);
  for (size_t row = 0; row < kRows; ++row) ids[row].record = row / 2;
  return ids;
}

// Applies all ops and returns the schemas before each of them; empty where one is refused or large.
std::vector<Schema> ApplyEach(const std::vector<OpSpec>& specs, Run& run) {
  std::vector<Schema> before;
  for (const OpSpec& spec : specs) {
    if (!run.ok(0)) return {};  // whose shapes are the schema's
    before.push_back(fuzz::SchemaOf(run));
    const auto op = MakeBuiltinOp(spec);
    if (!op.ok()) return {};
    const auto after = (*op)->Resolve(before.back());
    if (!after.ok() || !fuzz::IsSmall(*after, spec.options)) return {};
    (*op)->Apply(run);
  }
  return before;
}

void ApplyFused(const std::vector<OpSpec>& specs, const std::vector<Schema>& before, Run& run) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto op = MakeBuiltinOp(specs[i]);
    fuzz::Require(op.ok() && (*op)->Resolve(before[i]).ok(), "what is taken apart is taken as one");
    (*op)->Apply(run);
  }
}

void RequireSame(Run& apart, Run& fused) {
  for (int64_t row = 0; row < kRows; ++row) {
    fuzz::Require(apart.status(row) == fused.status(row), "a row has the same status");
    if (!apart.ok(row)) continue;
    for (const Column& column : apart.columns()) {
      const Column* other = fused.Find(column.name());
      fuzz::Require(other != nullptr, "a field is there");
      const ConstTensorView a = column.at(row), b = other->at(row);
      fuzz::Require(a.dtype == b.dtype && a.shape == b.shape, "of the same type and shape");
      fuzz::Require(a.size_bytes() == 0 || std::memcmp(a.data, b.data, a.size_bytes()) == 0,
                    "and of the same bits");
    }
  }
}

// Cuts are the executor's, custom ops the program's, and a file is another target's.
bool IsForeign(const OpSpec& spec) {
  return spec.is_filter() || std::holds_alternative<CustomOptions>(spec.options) ||
         std::holds_alternative<UnbatchOptions>(spec.options) ||
         std::holds_alternative<augment::VocabularyOptions>(spec.options);
}

// Returns which rules made one op of several; none where the input is left out.
std::vector<std::string> RunPlan(std::string_view text) {
  if (text.size() > fuzz::kMaxElements) return {};
  const auto plan = fuzz::PlanOfMaps(text);
  if (!plan.ok()) return {};
  static const Samples samples = MakeSamples();
  std::vector<OpSpec> specs = OpsFromPlan(plan->message());
  std::erase_if(specs, IsForeign);
  if (specs.size() > 16) return {};
  std::vector<OpSpec> together = specs;
  std::vector<std::string> fired, fired_apart;
  DecodeRegionRule(false, &specs, &fired_apart);
  DecodeRegionRule(true, &together, &fired);

  RunArena arena, arena_of_fused;
  Run apart(arena, 1, 0, Ids()), fused(arena_of_fused, 1, 0, Ids());
  AddFields(samples, apart);
  AddFields(samples, fused);
  const std::vector<Schema> schemas = ApplyEach(specs, apart);
  if (schemas.empty() && !specs.empty()) return {};
  // Those before the ops of `together`: a pair of DecodeRegionRule is one of them.
  std::vector<Schema> before;
  for (size_t i = 0, next = 0; i < together.size(); ++i) {
    before.push_back(schemas[next]);
    const bool is_pair = std::holds_alternative<DecodeRegionOptions>(together[i].options) &&
                         !std::holds_alternative<DecodeRegionOptions>(specs[next].options);
    next += is_pair ? 2 : 1;
  }
  before.push_back(fuzz::SchemaOf(apart));
  FuseImageRule(&together, &before, &fired);
  ApplyFused(together, before, fused);
  RequireSame(apart, fused);
  return fired;
}

// A target that leaves out all that it is given finds nothing.
void RequireBothRulesFire() {
  const std::vector<std::string> fired = RunPlan(
      "stage { decode_image {} } stage { random_resized_crop { height: 4 width: 6 } } "
      "stage { flip {} } stage { normalize { mean: [1, 2, 3] stddev: [4, 5, 6] } } "
      "stage { transpose {} } stage { cast { field: \"image\" dtype: FLOAT16 } }");
  fuzz::Require(fired.size() == 2 && fired[0].starts_with("decode_region: ") &&
                    fired[1].starts_with("fuse_image: "),
                "the first chain of the corpus is decoded in part and fused");
}

}  // namespace
}  // namespace millrace::pipeline

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  millrace::pipeline::RequireBothRulesFire();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::pipeline::RunPlan({reinterpret_cast<const char*>(data), size});
  return 0;
}
