#include "pipeline/batch_op.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/call/user.h"
#include "capi/ops/ops.h"

struct mr_draws {
  const millrace::pipeline::BatchView* batch;
};

namespace millrace::capi {
namespace {

// A registered op, which the ops of all stages share.
struct BatchFunction {
  BatchFunction(const mr_batch_op& op_in, User user_in) : op(op_in), user(std::move(user_in)) {}
  const mr_batch_op op;
  const User user;
};

class BatchOp final : public pipeline::BatchOp {
 public:
  BatchOp(std::shared_ptr<const BatchFunction> function, std::string_view options)
      : function_(std::move(function)), options_(options) {}

  absl::StatusOr<Schema> Resolve(const Schema& batch_schema) override { return batch_schema; }

  absl::Status Apply(pipeline::BatchView& batch) const override {
    std::vector<mr_tensor> tensors;
    for (size_t i = 0; i < batch.tensors.size(); ++i) {
      tensors.push_back(ShownTensor(batch.names[i].c_str(), batch.tensors[i]));
    }
    const mr_draws draws = {&batch};
    mr_batch_view view = {};
    view.struct_size = sizeof view;
    view.index = batch.index;
    view.epoch = batch.epoch;
    view.rows = batch.num_rows();
    view.first_global_row = batch.first_global_row;
    view.global_valid_rows = batch.num_global_valid_rows;
    view.valid = batch.valid.data();
    view.ids = ShownIds(batch.ids.data());
    view.tensors = tensors.data();
    view.num_tensors = tensors.size();
    view.options = options_.c_str();
    view.draws = &draws;
    return TakeError(function_->op.apply(function_->user.get(), &view));
  }

  uint64_t group_rows() const override { return std::max<uint64_t>(1, function_->op.group_rows); }

 private:
  const std::shared_ptr<const BatchFunction> function_;
  const std::string options_;
};

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_ops_register_batch(mr_ops* ops, const char* name, uint32_t version,
                                const mr_batch_op* op) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_ops_register_batch",
        {{"ops", ops != nullptr}, {"name", name != nullptr}, {"op", op != nullptr}}));
    mr_batch_op taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(op, "mr_batch_op", taken));
    capi::User user(taken.user, taken.destroy);
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_batch_op", {{"apply", taken.apply != nullptr}}));
    auto function = std::make_shared<const capi::BatchFunction>(taken, std::move(user));
    return ops->table->RegisterBatch(
        name, version,
        [function](
            const pipeline::OpArgs& args) -> absl::StatusOr<std::unique_ptr<pipeline::BatchOp>> {
          return std::make_unique<capi::BatchOp>(function, args.options);
        });
  });
}

void mr_batch_random(const mr_batch_view* batch, int64_t row, uint32_t* words, size_t count) {
  const pipeline::BatchView& from = *batch->draws->batch;
  millrace::RandomStream stream = row < 0 ? from.Random() : from.RandomOfRow(row);
  for (size_t i = 0; i < count; ++i) words[i] = stream.NextU32();
}
