#include <utility>

#include "augment/image/errors.h"
#include "augment/image_ops.h"
#include "base/status.h"
#include "readers/exif.h"
#include "readers/image_header.h"

namespace millrace::augment {
namespace {

class PeekImageShape final : public Op {
 public:
  explicit PeekImageShape(PeekImageShapeOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_ASSIGN_OR_RETURN(const Field field, FindField(input, options_.field, kName));
    if (field.dtype != DType::kBytes) return FieldError(field, kName, "bytes");
    Schema output = input;
    output.Set({options_.output, DType::kI64, Shape{3}});
    return output;
  }

  void Apply(Run& run) const override {
    Column& shapes = run.Add(options_.output, DType::kI64);
    const Column& encoded = run.Get(options_.field);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      const auto header = readers::ReadImageHeader(encoded.bytes(row));
      if (!header.ok()) {
        run.Fail(row,
                 Annotate(WithReason(header.status(), RecordErrorReason::kImage), options_.field));
        continue;
      }
      auto* shape = static_cast<int64_t*>(run.Allocate(shapes, row, Shape{3}));
      shape[0] = header->height;
      shape[1] = header->width;
      shape[2] = header->channels;
      if (options_.apply_exif_orientation && readers::SwapsSides(header->orientation)) {
        std::swap(shape[0], shape[1]);
      }
    }
  }

 private:
  static constexpr char kName[] = "peek_image_shape";

  const PeekImageShapeOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakePeekImageShape(PeekImageShapeOptions options) {
  if (options.field.empty() || options.output.empty() || options.field == options.output) {
    return absl::InvalidArgumentError(
        "peek_image_shape: field and output must be named, and differ");
  }
  return std::make_unique<PeekImageShape>(std::move(options));
}

}  // namespace millrace::augment
