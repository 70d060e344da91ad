#include "pipeline/stages/batch_mixing.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/status.h"

// Rows are mixed within groups that no rank and no lane tears, and a group's draws go by the batch
// and its place there: so nothing depends on the world. The epoch takes no part in them, because
// behind a cut of an endless input ranks need not agree on it (S-CUT-10); the batch's index tells
// epochs apart.

namespace millrace::pipeline {
namespace {

class BatchMixing final : public BatchOp {
 public:
  explicit BatchMixing(augment::BatchMixingOptions options) : options_(std::move(options)) {}

  absl::StatusOr<Schema> Resolve(const Schema& batch_schema) override {
    MILLRACE_RETURN_IF_ERROR(augment::CheckMixedFields(options_, batch_schema));
    image_ = batch_schema.Find(options_.field)->shape;
    classes_ = batch_schema.Find(options_.label)->shape[0];
    return batch_schema;
  }

  absl::Status Apply(BatchView& batch) const override {
    const TensorView images = batch.Find(options_.field);
    const TensorView labels = batch.Find(options_.label);
    const size_t image_bytes = static_cast<size_t>(image_.num_elements()) * SizeOf(images.dtype);
    const size_t label_bytes = static_cast<size_t>(classes_) * sizeof(float);
    std::vector<std::byte> spare(std::max(image_bytes, label_bytes));
    const auto group = static_cast<int64_t>(options_.group);
    for (int64_t first = 0; first < batch.num_rows(); first += group) {
      const int64_t last = std::min(first + group, batch.num_rows());
      RandomStream random({.seed = batch.seed,
                           .op = batch.stage_key,
                           .record = batch.index,
                           .sub_index = static_cast<uint64_t>(batch.first_global_row + first)});
      const auto mixture = augment::DrawMixture(options_, image_, random);
      if (!mixture) continue;
      augment::MixImages(options_, *mixture, RowsOf(batch, images, image_bytes, first, last),
                         images.dtype, image_, spare.data());
      augment::MixLabels(*mixture, RowsOf(batch, labels, label_bytes, first, last), classes_,
                         spare.data());
    }
    return absl::OkStatus();
  }

  uint64_t group_rows() const override { return options_.group; }

 private:
  // Where the rows in [first, last) that hold samples lie.
  static std::vector<std::byte*> RowsOf(const BatchView& batch, const TensorView& tensor,
                                        size_t row_bytes, int64_t first, int64_t last) {
    std::vector<std::byte*> rows;
    for (int64_t row = first; row < last; ++row) {
      if (batch.valid[static_cast<size_t>(row)] == 0) continue;
      rows.push_back(static_cast<std::byte*>(tensor.data) + static_cast<size_t>(row) * row_bytes);
    }
    return rows;
  }

  const augment::BatchMixingOptions options_;
  Shape image_;          // set by Resolve
  int64_t classes_ = 0;  // too
};

}  // namespace

std::unique_ptr<BatchOp> MakeBatchMixing(augment::BatchMixingOptions options) {
  return std::make_unique<BatchMixing>(std::move(options));
}

}  // namespace millrace::pipeline
