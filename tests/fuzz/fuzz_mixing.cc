#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/stages/batch_mixing.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_maps.h"

// Stages that mix the rows of a batch, with hostile parameters: the stages behind the batch are the
// input's text. Three bytes before it choose the images' dtype and shape, which rows hold samples,
// and where the slice begins. Labels are the field "label", or "class", which num_classes makes one
// of. Rows without a sample stay zero, labels keep their weight, and the same draws give the same
// bits.

namespace millrace::pipeline {
namespace {

constexpr int64_t kRows = 8;

struct Choice {
  DType dtype;
  std::string shape;
  std::vector<uint8_t> valid;
  int64_t first_row;
};

Choice Choose(const uint8_t*& data, size_t& size) {
  constexpr DType kTypes[] = {DType::kU8, DType::kF16, DType::kBF16, DType::kF32};
  constexpr const char* kShapes[] = {"[4, 3, 2]", "[1, 1, 1]", "[7, 1, 3]", "[1, 9, 1]"};
  const uint8_t kind = fuzz::TakeByte(data, size), rows = fuzz::TakeByte(data, size);
  Choice choice{kTypes[kind % 4], kShapes[kind / 4 % 4], std::vector<uint8_t>(kRows), 0};
  for (size_t row = 0; row < kRows; ++row) choice.valid[row] = rows >> row & 1;
  choice.first_row = kRows * fuzz::TakeByte(data, size);
  return choice;
}

absl::StatusOr<PhysicalPlan> PlanOf(const Choice& choice, std::string_view stages) {
  const char* const name = choice.dtype == DType::kU8     ? "UINT8"
                           : choice.dtype == DType::kF16  ? "FLOAT16"
                           : choice.dtype == DType::kBF16 ? "BFLOAT16"
                                                          : "FLOAT32";
  const auto plan =
      Plan::FromText(absl::StrCat("stage { tfrecord { files: \"x\" } } stage { parse_example { ",
                                  "feature { key: \"image\" dtype: FLOAT32 shape: ", choice.shape,
                                  " } ", "feature { key: \"label\" dtype: FLOAT32 shape: [5] } ",
                                  "feature { key: \"class\" dtype: INT64 } } } ",
                                  "stage { cast { field: \"image\" dtype: ", name, " } } ",
                                  "stage { batch { size: 4096 } }\n", std::string(stages)),
                     "mixing.pbtxt");
  if (!plan.ok()) return plan.status();
  return BuildPhysicalPlan(*plan);
}

// A batch in memory of exactly its size.
class Slice {
 public:
  // The fields `labels` hold them one-hot, others values that count up.
  Slice(const Schema& schema, const Choice& choice, const std::set<std::string>& labels)
      : choice_(choice), ids_(kRows), labels_(labels) {
    for (const Field& field : schema.fields()) {
      const auto row_bytes = static_cast<size_t>(field.shape.num_elements()) * SizeOf(field.dtype);
      names_.push_back(field.name);
      dtypes_.push_back(field.dtype);
      row_bytes_.push_back(row_bytes);
      std::vector<int64_t> extents(field.shape.extents().begin(), field.shape.extents().end());
      extents.insert(extents.begin(), kRows);
      shapes_.emplace_back(extents);
      bytes_.emplace_back(kRows * row_bytes);
      if (labels.contains(field.name)) {
        FillLabels(bytes_.back(), row_bytes);
      } else {
        Fill(bytes_.back(), row_bytes, field.dtype);
      }
    }
  }

  void Apply(const BatchOp& op, uint64_t stage_key, uint64_t index) {
    std::vector<TensorView> tensors;
    for (size_t i = 0; i < names_.size(); ++i) {
      tensors.push_back({bytes_[i].data(), dtypes_[i], shapes_[i]});
    }
    BatchView view{.index = index,
                   .first_global_row = choice_.first_row,
                   .valid = choice_.valid,
                   .ids = ids_,
                   .names = names_,
                   .tensors = tensors,
                   .seed = 1,
                   .stage_key = stage_key};
    fuzz::Require(op.Apply(view).ok(), "a batch of the schema is mixed");
  }

  void Check() const {
    for (size_t i = 0; i < names_.size(); ++i) {
      for (size_t row = 0; row < kRows; ++row) {
        const auto begin = bytes_[i].begin() + static_cast<ptrdiff_t>(row * row_bytes_[i]);
        const auto end = begin + static_cast<ptrdiff_t>(row_bytes_[i]);
        fuzz::Require(choice_.valid[row] != 0 ||
                          std::all_of(begin, end, [](std::byte b) { return b == std::byte{0}; }),
                      "a row without a sample stays zero");
        if (choice_.valid[row] != 0 && labels_.contains(names_[i])) {
          CheckLabel(&*begin, row_bytes_[i]);
        }
      }
    }
  }

  const std::vector<std::vector<std::byte>>& bytes() const { return bytes_; }

 private:
  void Fill(std::vector<std::byte>& bytes, size_t row_bytes, DType dtype) const {
    for (size_t k = 0; k < bytes.size(); ++k) {
      const size_t row = k / row_bytes;
      if (choice_.valid[row] == 0) continue;
      // Never an infinity or NaN of any type: the upper bits of its exponent are 0.
      bytes[k] = static_cast<std::byte>(dtype == DType::kU8 ? 31 * k : k % 2 == 0 ? 7 * k : k % 64);
    }
  }

  // Of the first two classes.
  void FillLabels(std::vector<std::byte>& bytes, size_t row_bytes) const {
    const size_t classes = row_bytes / sizeof(float);
    for (size_t row = 0; row < kRows && classes > 0; ++row) {
      constexpr float kOne = 1;
      std::byte* const label = bytes.data() + row * row_bytes;
      const size_t at = row % std::min<size_t>(classes, 2);
      if (choice_.valid[row] != 0) std::memcpy(label + at * sizeof kOne, &kOne, sizeof kOne);
    }
  }

  static void CheckLabel(const std::byte* bytes, size_t row_bytes) {
    std::vector<float> label(row_bytes / sizeof(float));
    std::memcpy(label.data(), bytes, row_bytes);
    const float sum = std::accumulate(label.begin(), label.end(), 0.0f);
    fuzz::Require(std::abs(sum - 1) < 1e-4f, "a label keeps its weight");
    fuzz::Require(std::ranges::min(label) >= 0, "of which none is negative");
  }

  const Choice& choice_;
  std::vector<SampleId> ids_;
  const std::set<std::string> labels_;
  std::vector<std::string> names_;
  std::vector<DType> dtypes_;
  std::vector<size_t> row_bytes_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<std::byte>> bytes_;
};

// Returns how many stages were applied.
int RunStages(const uint8_t* data, size_t size) {
  const Choice choice = Choose(data, size);
  if (static_cast<int64_t>(size) > fuzz::kMaxElements) return 0;
  const auto plan = PlanOf(choice, {reinterpret_cast<const char*>(data), size});
  // Labels may be made of numbers, of any number of classes.
  if (!plan.ok() || plan->batch_ops.size() > 16 ||
      !fuzz::IsSmall(plan->batch_schema, IdentityOptions{})) {
    return 0;
  }
  std::set<std::string> labels;
  for (const BatchOpSpec& spec : plan->batch_ops) {
    fuzz::Require(spec.mixing.has_value(), "custom ops are refused");
    labels.insert(spec.mixing->label);
  }
  Slice slice(plan->batch_schema, choice, labels), again(plan->batch_schema, choice, labels);
  int applied = 0;
  for (const BatchOpSpec& spec : plan->batch_ops) {
    const auto op = MakeBatchMixing(*spec.mixing);
    if (!op->Resolve(plan->batch_schema).ok() || spec.mixing->field != "image") return applied;
    slice.Apply(*op, HashName(spec.stage), 3);
    again.Apply(*op, HashName(spec.stage), 3);
    slice.Check();
    ++applied;
  }
  fuzz::Require(slice.bytes() == again.bytes(), "the same draws give the same bits");
  return applied;
}

// A target that leaves out all that it is given finds nothing.
void RequireBothKindsOfLabels() {
  for (const char* label : {"label: \"label\"", "label: \"class\" num_classes: 3"}) {
    const std::string input =
        absl::StrCat(std::string("\3\xff\0", 3), "stage { mixup { ", label, " } }");
    fuzz::Require(RunStages(reinterpret_cast<const uint8_t*>(input.data()), input.size()) == 1,
                  "stages of both kinds of labels are applied");
  }
}

}  // namespace
}  // namespace millrace::pipeline

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  millrace::pipeline::RequireBothKindsOfLabels();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millrace::pipeline::RunStages(data, size);
  return 0;
}
