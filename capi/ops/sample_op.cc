#include "pipeline/sample_op.h"

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
#include "capi/millrace_ops.h"
#include "capi/ops/fields.h"
#include "capi/ops/ops.h"

// The sample that an op works on, and its results.
struct mr_sample {
  const millrace::pipeline::Sample& sample;
  millrace::pipeline::SampleOutput& output;
  size_t num_writes;
};

namespace millrace::capi {
namespace {

// A registered op, which the ops of all stages share.
struct SampleFunction {
  SampleFunction(const mr_sample_op& op, User user_in)
      : apply(op.apply), user(std::move(user_in)) {}
  mr_error* (*const apply)(void* user, const mr_sample_view* sample);
  const User user;
  pipeline::SampleOpSpec spec;
};

absl::Status ApplyTo(const SampleFunction& function, const std::string& options,
                     const pipeline::Sample& sample, pipeline::SampleOutput& output) {
  const pipeline::SampleOpSpec& spec = function.spec;
  std::vector<mr_tensor> values;
  for (size_t i = 0; i < spec.reads.size(); ++i) {
    values.push_back(ShownTensor(spec.reads[i].c_str(), sample.tensor(i)));
  }
  std::vector<void*> memory;
  for (size_t i = 0; i < spec.writes.size(); ++i) {
    memory.push_back(nullptr);
    if (!spec.writes[i].shape.IsKnown()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const TensorView value, output.Allocate(i));
    memory.back() = value.data;
  }
  mr_sample handle = {sample, output, spec.writes.size()};
  mr_sample_view view = {};
  view.struct_size = sizeof view;
  view.id = ShownIds(&sample.id());
  view.position = sample.position();
  view.reads = values.data();
  view.num_reads = values.size();
  view.writes = memory.data();
  view.num_writes = memory.size();
  view.options = options.c_str();
  view.sample = &handle;
  return TakeSampleError(function.apply(function.user.get(), &view));
}

pipeline::OpTable::Factory FactoryOf(std::shared_ptr<const SampleFunction> function) {
  return [function = std::move(function)](const pipeline::OpArgs& args) {
    pipeline::SampleOpSpec spec = function->spec;
    spec.stage = args.stage;
    return pipeline::MakeSampleOp(
        std::move(spec), [function, options = std::string(args.options)](
                             const pipeline::Sample& sample, pipeline::SampleOutput& output) {
          return ApplyTo(*function, options, sample, output);
        });
  };
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace pipeline = millrace::pipeline;

mr_error* mr_ops_register_sample(mr_ops* ops, const char* name, uint32_t version,
                                 const mr_sample_op* op) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_ops_register_sample",
        {{"ops", ops != nullptr}, {"name", name != nullptr}, {"op", op != nullptr}}));
    mr_sample_op taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(op, "mr_sample_op", taken));
    capi::User user(taken.user, taken.destroy);
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven("mr_sample_op", {{"apply", taken.apply != nullptr}}));
    auto function = std::make_shared<capi::SampleFunction>(taken, std::move(user));
    MILLRACE_ASSIGN_OR_RETURN(function->spec, capi::SpecOf("mr_sample_op", taken));
    pipeline::OpTable::Factory factory = capi::FactoryOf(std::move(function));
    MILLRACE_RETURN_IF_ERROR(factory({}).status());
    return ops->table->Register(name, version, std::move(factory));
  });
}

mr_error* mr_sample_allocate(mr_sample* sample, size_t field, const int64_t* shape, int32_t rank,
                             void** data) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_sample_allocate",
        {{"sample", sample != nullptr}, {"shape", shape != nullptr}, {"data", data != nullptr}}));
    if (field >= sample->num_writes) {
      return absl::OutOfRangeError(
          absl::StrCat("mr_sample_allocate: there is no field ", field, " that the op writes"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const millrace::Shape of_value,
                              capi::ShapeOf("mr_sample_allocate", shape, rank));
    MILLRACE_ASSIGN_OR_RETURN(const millrace::TensorView value,
                              sample->output.Allocate(field, of_value));
    *data = value.data;
    return absl::OkStatus();
  });
}

void mr_sample_random(const mr_sample* sample, uint32_t* words, size_t count) {
  millrace::RandomStream stream = sample->sample.Random();
  for (size_t i = 0; i < count; ++i) words[i] = stream.NextU32();
}
