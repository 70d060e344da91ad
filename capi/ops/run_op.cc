#include "pipeline/run_op.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/status.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/call/user.h"
#include "capi/ops/fields.h"
#include "capi/ops/ops.h"

// The run that an op works on, or one row of it.
struct mr_run {
  millrace::pipeline::RunView& view;
};

namespace millrace::capi {
namespace {

// A registered op, which the ops of all stages share.
struct RunFunction {
  RunFunction(const mr_run_op& op, User user_in) : apply(op.apply), user(std::move(user_in)) {}
  mr_error* (*const apply)(void* user, const mr_run_view* run);
  const User user;
  pipeline::SampleOpSpec spec;
};

mr_column ShownColumn(const pipeline::RunColumn& column) {
  mr_column shown = {};
  shown.struct_size = sizeof shown;
  shown.name = column.name().c_str();
  shown.dtype = static_cast<int32_t>(column.dtype());
  if (!column.is_strided()) {
    shown.rank = -1;
    return shown;
  }
  shown.rank = column.row_shape().rank();
  for (int i = 0; i < column.row_shape().rank(); ++i) shown.shape[i] = column.row_shape()[i];
  shown.first = column.first();
  shown.stride_bytes = column.stride_bytes();
  return shown;
}

absl::Status ApplyTo(const RunFunction& function, const std::string& options,
                     pipeline::RunView& run) {
  std::vector<mr_column> columns;
  for (size_t i = 0; i < run.num_reads(); ++i) columns.push_back(ShownColumn(run.reads(i)));
  std::vector<void*> rows;
  for (size_t i = 0; i < run.num_writes(); ++i) rows.push_back(run.writes(i).data());
  std::vector<uint8_t> ok;
  for (int64_t row = 0; row < run.num_rows(); ++row) ok.push_back(run.ok(row) ? 1 : 0);
  mr_run handle = {run};
  mr_run_view view = {};
  view.struct_size = sizeof view;
  view.rows = run.num_rows();
  view.ok = ok.data();
  view.ids = ShownIds(&run.id(0));
  view.reads = columns.data();
  view.num_reads = columns.size();
  view.writes = rows.data();
  view.num_writes = rows.size();
  view.options = options.c_str();
  view.run = &handle;
  return TakeError(function.apply(function.user.get(), &view));
}

pipeline::OpTable::Factory FactoryOf(std::shared_ptr<const RunFunction> function) {
  return [function = std::move(function)](const pipeline::OpArgs& args) {
    pipeline::SampleOpSpec spec = function->spec;
    spec.stage = args.stage;
    return pipeline::MakeRunOp(
        std::move(spec), [function, options = std::string(args.options)](pipeline::RunView& run) {
          return ApplyTo(*function, options, run);
        });
  };
}

absl::Status CheckRow(const char* call, const mr_run& run, size_t field, size_t num_fields,
                      int64_t row) {
  if (field < num_fields && row >= 0 && row < run.view.num_rows()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(call, ": there is no field ", field, " or row ", row));
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_ops_register_run(mr_ops* ops, const char* name, uint32_t version,
                              const mr_run_op* op) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_ops_register_run",
        {{"ops", ops != nullptr}, {"name", name != nullptr}, {"op", op != nullptr}}));
    mr_run_op taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(op, "mr_run_op", taken));
    capi::User user(taken.user, taken.destroy);
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_run_op", {{"apply", taken.apply != nullptr}}));
    auto function = std::make_shared<capi::RunFunction>(taken, std::move(user));
    MILLRACE_ASSIGN_OR_RETURN(function->spec, capi::SpecOf("mr_run_op", taken));
    if (taken.preferred_rows != 0) function->spec.preferred_rows = taken.preferred_rows;
    pipeline::OpTable::Factory factory = capi::FactoryOf(std::move(function));
    MILLRACE_RETURN_IF_ERROR(factory({}).status());
    return ops->table->Register(name, version, std::move(factory));
  });
}

mr_error* mr_run_value(const mr_run* run, size_t field, int64_t row, mr_tensor* value) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_run_value", {{"run", run != nullptr}, {"value", value != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckRow("mr_run_value", *run, field, run->view.num_reads(), row));
    if (!run->view.ok(row)) {
      return absl::FailedPreconditionError(absl::StrCat("mr_run_value: row ", row, " has failed"));
    }
    const pipeline::RunColumn column = run->view.reads(field);
    return capi::Give(capi::ShownTensor(column.name().c_str(), column.at(row)), value, "mr_tensor");
  });
}

mr_error* mr_run_allocate(mr_run* run, size_t field, int64_t row, const int64_t* shape,
                          int32_t rank, void** data) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_run_allocate",
        {{"run", run != nullptr}, {"shape", shape != nullptr}, {"data", data != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckRow("mr_run_allocate", *run, field, run->view.num_writes(), row));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::Shape of_row,
                              capi::ShapeOf("mr_run_allocate", shape, rank));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::TensorView value,
                              run->view.Allocate(field, row, of_row));
    *data = value.data;
    return absl::OkStatus();
  });
}

void mr_run_fail(mr_run* run, int64_t row, mr_error* error) {
  // Without a text, which would need memory.
  absl::Status status(absl::StatusCode::kResourceExhausted, "");
  mr_error_free(capi::Guard([&]() -> absl::Status {
    status = capi::TakeSampleError(error);
    return absl::OkStatus();
  }));
  mr_error_free(capi::Guard([&]() -> absl::Status {
    if (run != nullptr && row >= 0 && row < run->view.num_rows() && !status.ok()) {
      run->view.Fail(row, std::move(status));
    }
    return absl::OkStatus();
  }));
}

void mr_run_random(const mr_run* run, int64_t row, int64_t num_rows, uint32_t* words,
                   size_t words_per_row) {
  for (int64_t i = row; i < row + num_rows; ++i) {
    millrace::RandomStream stream = run->view.Random(i);
    for (size_t word = 0; word < words_per_row; ++word) *words++ = stream.NextU32();
  }
}
