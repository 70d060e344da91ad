#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_HASHING_OPS_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_HASHING_OPS_H_

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/philox.h"
#include "base/run.h"
#include "pipeline/stages/specs.h"

namespace millrace::pipeline {

// Stands for any op: resolves to fields of the dtypes and shapes that the real op would have, and
// fills them with a hash of what it reads, its kind and its stage. A region decode and a
// fused op are the ops that they replace, so that a rule which changes what is computed changes the
// bytes.
class HashingOp : public Op {
 public:
  explicit HashingOp(OpSpec spec) {
    if (const auto* region = std::get_if<DecodeRegionOptions>(&spec.options)) {
      parts_.push_back({"", spec.where, region->decode});
      if (region->targets) {
        parts_.push_back({spec.stage, spec.where, *region->targets});
      } else {
        AddPart(spec, spec.stage, region->crop);
      }
    } else if (const auto* fused = std::get_if<augment::FusedImageOptions>(&spec.options)) {
      if (fused->decode) parts_.push_back({"", spec.where, *fused->decode});
      AddPart(spec, fused->first_stage, fused->first);
      if (fused->resize) parts_.push_back({"", spec.where, *fused->resize});
      for (const augment::PixelStep& step : fused->steps) AddPart(spec, step.stage, step.options);
    } else {
      parts_.push_back(std::move(spec));
    }
  }

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    Schema schema = input;
    for (const OpSpec& part : parts_) {
      const OpFields fields = FieldsOf(part.options);
      for (const std::string& name : fields.reads) {
        if (absl::Status status = schema.CheckHas(name); !status.ok()) return status;
      }
      std::vector<Field> out;
      for (size_t i = 0; i < fields.writes.size(); ++i) {
        const Field& in = *schema.Find(ReadFor(fields, i));
        const bool scalar = in.shape.rank() == 0;
        if (std::holds_alternative<UnbatchOptions>(part.options) && scalar) {
          return absl::InvalidArgumentError("cannot split " + in.name);
        }
        out.push_back(Output(part.options, i, in, fields.writes[i]));
      }
      for (const std::string& name : fields.removes) schema.Remove(name);
      for (const Field& field : out) schema.Set(field);
    }
    return schema;
  }

  void Apply(Run& run) const override {
    for (const OpSpec& part : parts_) ApplyPart(part, run);
  }

 private:
  template <typename Variant>
  void AddPart(const OpSpec& spec, const std::string& stage, const Variant& variant) {
    std::visit(
        [&](const auto& options) {
          if constexpr (std::is_constructible_v<OpOptions, decltype(options)>) {
            parts_.push_back({stage, spec.where, options});
          }
        },
        variant);
  }

  // What output i is made of: one input each, or one for all.
  static const std::string& ReadFor(const OpFields& fields, size_t i) {
    return fields.reads[fields.reads.size() == fields.writes.size() ? i : 0];
  }

  static Field FieldOf(const readers::FeatureSpec& feature) {
    const bool bytes = feature.dtype == DType::kBytes;
    return {feature.name, feature.dtype, bytes ? Shape{Shape::kUnknown} : feature.shape};
  }

  static Field Output(const OpOptions& options, size_t i, Field in, const std::string& name) {
    in.name = name;
    if (const auto* parse = std::get_if<readers::ParseExampleOptions>(&options)) {
      return FieldOf(parse->features[i]);
    }
    if (const auto* parse = std::get_if<readers::ParseSequenceExampleOptions>(&options)) {
      return FieldOf(parse->features[i]);
    }
    if (const auto* decode = std::get_if<augment::DecodeImageOptions>(&options)) {
      return {name, DType::kU8, {Shape::kUnknown, Shape::kUnknown, decode->channels}};
    }
    if (const auto* decode = std::get_if<DecodeToCropOptions>(&options)) {
      return {name, DType::kU8, {Shape::kUnknown, Shape::kUnknown, decode->decode.channels}};
    }
    if (const auto* crop = std::get_if<augment::RandomResizedCropOptions>(&options)) {
      in.shape = Shape{crop->height, crop->width, in.shape[2]};
    }
    if (const auto* crop = std::get_if<augment::RandomCropOptions>(&options)) {
      in.shape = Shape{crop->height, crop->width, in.shape[2]};
    }
    if (const auto* crop = std::get_if<augment::CenterCropOptions>(&options)) {
      in.shape = Shape{crop->height, crop->width, in.shape[2]};
    }
    if (const auto* resize = std::get_if<augment::ResizeOptions>(&options)) {
      in.shape = Shape{resize->height, resize->width, in.shape[2]};
    }
    if (const auto* raw = std::get_if<readers::DecodeRawOptions>(&options)) {
      return {name, raw->dtype, raw->shape};
    }
    if (std::holds_alternative<UnbatchOptions>(options)) {
      in.shape = Shape(in.shape.extents().subspan(1));
    }
    if (std::holds_alternative<augment::PeekImageShapeOptions>(options)) {
      return {name, DType::kI64, Shape{3}};
    }
    if (std::holds_alternative<augment::NormalizeOptions>(options)) in.dtype = DType::kF32;
    if (const auto* cast = std::get_if<augment::CastOptions>(&options)) in.dtype = cast->dtype;
    if (const auto* one_hot = std::get_if<augment::OneHotOptions>(&options)) {
      return {name, DType::kF32, {one_hot->depth}};
    }
    return in;
  }

  static uint64_t HashOf(const ConstTensorView& value) {
    const auto bytes = SizeOf(value.dtype) * static_cast<size_t>(value.shape.num_elements());
    return HashName({static_cast<const char*>(value.data), bytes});
  }

  // The stage, for ops that draw random numbers under its name.
  static std::string RandomName(const OpSpec& part) {
    const bool random = std::holds_alternative<augment::RandomResizedCropOptions>(part.options) ||
                        std::holds_alternative<augment::RandomCropOptions>(part.options) ||
                        std::holds_alternative<augment::FlipOptions>(part.options);
    return random ? part.stage : "";
  }

  // Extents that vary with the data are all 2 here.
  static Shape Known(const Shape& shape) {
    std::vector<int64_t> extents;
    for (int64_t extent : shape.extents()) extents.push_back(extent < 0 ? 2 : extent);
    return Shape(std::span<const int64_t>(extents));
  }

  // What output i is made of; it stays where the op adds a field.
  static Column Input(const OpFields& fields, size_t i, Run& run) {
    const bool stays = fields.removes.empty() && fields.reads[i] != fields.writes[i];
    return stays ? run.Get(fields.reads[i]) : run.Take(fields.reads[i]);
  }

  static void ApplyPart(const OpSpec& part, Run& run) {
    const OpFields fields = FieldsOf(part.options);
    const bool in_common = fields.reads.size() != fields.writes.size();
    std::optional<Column> in_of_all;
    if (in_common && !fields.reads.empty()) in_of_all = run.Take(fields.reads[0]);
    for (size_t i = 0; i < fields.writes.size(); ++i) {
      const Column in = in_common ? *in_of_all : Input(fields, i, run);
      const Field like{in.name(), in.dtype(), in.at(0).shape};
      const Field out = Output(part.options, i, like, fields.writes[i]);
      Column& column = run.Add(out.name, out.dtype);
      for (int64_t row = 0; row < run.num_rows(); ++row) {
        const Shape shape = Known(out.shape);
        const std::string seed = OpName(part.options) + "/" + RandomName(part) + "/" + out.name;
        Fill(run.Allocate(column, row, shape), HashName(seed) ^ HashOf(in.at(row)),
             SizeOf(out.dtype) * static_cast<size_t>(shape.num_elements()));
      }
    }
  }

  static void Fill(void* memory, uint64_t hash, size_t size) {
    for (size_t i = 0; i < size; ++i) {
      static_cast<unsigned char*>(memory)[i] = static_cast<unsigned char>(hash >> (8 * (i % 8)));
    }
  }

  std::vector<OpSpec> parts_;
};

inline absl::StatusOr<std::unique_ptr<Op>> MakeHashingOp(const OpSpec& spec) {
  return std::make_unique<HashingOp>(spec);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_HASHING_OPS_H_
