#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "capi/batch/tensor.h"
#include "capi/call/guard.h"
#include "capi/call/sized.h"
#include "capi/collectives/group.h"
#include "capi/millrace_collectives.h"
#include "collectives/gradient_reducer.h"

struct mr_reducer {
  std::shared_ptr<millrace::capi::Group> group;
  std::vector<std::string> names = {};
  int64_t first_step = 0;
  bool in_step = false;  // true from a step's first gradient to its end
  std::unique_ptr<millrace::collectives::GradientReducer> reducer = {};
};

namespace millrace::capi {
namespace {

using collectives::GradientReducer;
using collectives::GradientSpec;
using collectives::Phase;
using collectives::ProgressPolicy;

constexpr bool Same(ProgressPolicy policy, mr_progress_policy number) {
  return static_cast<int>(policy) == number;
}
static_assert(Same(ProgressPolicy::kAuto, MR_PROGRESS_AUTO));
static_assert(Same(ProgressPolicy::kInline, MR_PROGRESS_INLINE));
static_assert(Same(ProgressPolicy::kThread, MR_PROGRESS_THREAD));

// Shards are handed out where they lie.
static_assert(sizeof(mr_shard) == sizeof(collectives::GradientShard));
static_assert(offsetof(mr_shard, gradient) == offsetof(collectives::GradientShard, gradient));
static_assert(offsetof(mr_shard, begin) == offsetof(collectives::GradientShard, begin));
static_assert(offsetof(mr_shard, end) == offsetof(collectives::GradientShard, end));

// The gradients of a caller, in C++.
struct Gradients {
  std::vector<GradientSpec> specs;
  std::vector<TensorView> memory;  // empty: the reducer's own
};

absl::Status GradientError(size_t index, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("gradient ", index, ": ", ToAbsl(why)));
}

absl::StatusOr<GradientSpec> SpecOf(const mr_gradient& given, size_t index) {
  if (given.name == nullptr) return GradientError(index, "it has no name");
  if (given.rank < 0 || given.rank > Shape::kMaxRank) {
    return GradientError(index, absl::StrCat("it has ", given.rank, " extents"));
  }
  if (given.shape == nullptr && given.rank > 0) return GradientError(index, "it has no shape");
  const std::span<const int64_t> extents(given.shape, static_cast<size_t>(given.rank));
  for (const int64_t extent : extents) {
    if (extent < 0) return GradientError(index, absl::StrCat("it has the extent ", extent));
  }
  if (given.dtype < MR_BYTES || given.dtype > MR_FLOAT64) {
    return GradientError(index, absl::StrCat("there is no dtype ", given.dtype));
  }
  return GradientSpec{given.name, Shape(extents), static_cast<DType>(given.dtype)};
}

absl::StatusOr<Gradients> GradientsOf(std::span<const mr_gradient> given) {
  Gradients gradients;
  const bool in_memory = std::ranges::any_of(
      given, [](const mr_gradient& gradient) { return gradient.memory != nullptr; });
  for (size_t i = 0; i < given.size(); ++i) {
    MILLRACE_ASSIGN_OR_RETURN(GradientSpec spec, SpecOf(given[i], i));
    const bool is_empty = std::ranges::count(spec.shape.extents(), 0) > 0;
    if (in_memory && given[i].memory == nullptr && !is_empty) {
      return GradientError(i, "memory is given for some gradients and not for others");
    }
    if (in_memory) gradients.memory.push_back({given[i].memory, spec.dtype, spec.shape});
    gradients.specs.push_back(std::move(spec));
  }
  return gradients;
}

absl::StatusOr<DType> WireOf(int32_t wire) {
  if (wire == 0) return DType::kF32;
  if (wire == MR_FLOAT32 || wire == MR_FLOAT16 || wire == MR_BFLOAT16) {
    return static_cast<DType>(wire);
  }
  return absl::InvalidArgumentError(absl::StrCat("mr_reducer_options.wire is ", wire));
}

absl::StatusOr<collectives::ReducerOptions> ReducerOptionsOf(const mr_reducer_options& taken) {
  collectives::ReducerOptions options;
  if (taken.policy < MR_PROGRESS_AUTO || taken.policy > MR_PROGRESS_THREAD) {
    return absl::InvalidArgumentError(absl::StrCat("mr_reducer_options.policy is ", taken.policy));
  }
  MILLRACE_ASSIGN_OR_RETURN(options.wire, WireOf(taken.wire));
  options.exact = taken.exact != 0;
  options.average_by_rows = taken.average_by_rows != 0;
  options.skip_non_finite = taken.skip_non_finite != 0;
  options.shard = taken.shard != 0;
  options.clip_norm = taken.clip_norm;
  if (taken.micro_batches != 0) options.micro_batches = taken.micro_batches;
  if (taken.bucket_bytes != 0) options.bucket_bytes = taken.bucket_bytes;
  if (taken.edge_bucket_bytes != 0) options.edge_bucket_bytes = taken.edge_bucket_bytes;
  options.policy = static_cast<ProgressPolicy>(taken.policy);
  if (taken.compute_threads != 0) options.compute_threads = std::max(0, taken.compute_threads);
  options.shared_memory = taken.no_shared_memory == 0;
  options.first_step = taken.first_step;
  return options;
}

absl::StatusOr<std::unique_ptr<GradientReducer>> MakeReducer(
    Group& group, Gradients gradients, const collectives::ReducerOptions& options) {
  if (gradients.memory.empty()) {
    return GradientReducer::Make(group.communicator(), std::move(gradients.specs), options);
  }
  return GradientReducer::Make(group.communicator(), std::move(gradients.specs),
                               std::move(gradients.memory), options);
}

absl::Status CheckIndex(const mr_reducer& reducer, size_t index) {
  if (index < reducer.names.size()) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("there is no gradient ", index, ": the reducer has ", reducer.names.size()));
}

// Calls `body` with a reducer, which may wait for other ranks.
template <typename Body>
mr_error* With(const char* call, mr_reducer* reducer, const Body& body) {
  return Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(CheckGiven(call, {{"reducer", reducer != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(reducer->group->CheckProcess(call));
    return reducer->group->Explain(body(*reducer->reducer));
  });
}

// Tells the watchdog where this rank is.
void Enter(const mr_reducer& reducer, int bucket, Phase phase) {
  reducer.group->Enter(reducer.first_step + reducer.reducer->counters().steps, bucket, phase);
}

}  // namespace
}  // namespace millrace::capi

namespace capi = millrace::capi;
namespace collectives = millrace::collectives;

mr_error* mr_reducer_create(mr_comm* comm, const mr_gradient* gradients, size_t num_gradients,
                            const mr_reducer_options* options, mr_reducer** reducer) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_reducer_create", {{"comm", comm != nullptr},
                              {"gradients", gradients != nullptr || num_gradients == 0},
                              {"reducer", reducer != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(comm->group->CheckProcess("mr_reducer_create"));
    mr_reducer_options taken;
    MILLRACE_RETURN_IF_ERROR(capi::Take(options, "mr_reducer_options", taken));
    MILLRACE_ASSIGN_OR_RETURN(collectives::ReducerOptions made, capi::ReducerOptionsOf(taken));
    MILLRACE_ASSIGN_OR_RETURN(capi::Gradients specs, capi::GradientsOf({gradients, num_gradients}));
    made.progress = comm->group.get();
    auto created = std::make_unique<mr_reducer>(comm->group);
    for (const capi::GradientSpec& spec : specs.specs) created->names.push_back(spec.name);
    created->first_step = taken.first_step;
    auto planned = capi::MakeReducer(*comm->group, std::move(specs), made);
    if (!planned.ok()) return comm->group->Explain(planned.status());
    created->reducer = *std::move(planned);
    *reducer = created.release();
    return absl::OkStatus();
  });
}

mr_error* mr_reducer_gradient(const mr_reducer* reducer, size_t index, mr_tensor* tensor) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_reducer_gradient", {{"reducer", reducer != nullptr}, {"tensor", tensor != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(capi::CheckIndex(*reducer, index));
    return capi::Give(
        capi::ShownTensor(reducer->names[index].c_str(), reducer->reducer->gradient(index)), tensor,
        "mr_tensor");
  });
}

mr_error* mr_reducer_set_rows(mr_reducer* reducer, int64_t rows) {
  return capi::With("mr_reducer_set_rows", reducer, [&](capi::GradientReducer& sums) {
    if (rows < 0) return absl::InvalidArgumentError(absl::StrCat("there are no ", rows, " rows"));
    sums.SetRows(rows);
    return absl::OkStatus();
  });
}

mr_error* mr_reducer_mark_ready(mr_reducer* reducer, size_t index) {
  return capi::With("mr_reducer_mark_ready", reducer, [&](capi::GradientReducer& sums) {
    MILLRACE_RETURN_IF_ERROR(capi::CheckIndex(*reducer, index));
    if (!reducer->in_step) capi::Enter(*reducer, 0, capi::Phase::kBackward);
    reducer->in_step = true;
    return sums.MarkReady(index);
  });
}

mr_error* mr_reducer_finish(mr_reducer* reducer) {
  return capi::With("mr_reducer_finish", reducer, [&](capi::GradientReducer& sums) {
    MILLRACE_RETURN_IF_ERROR(sums.Finish());
    reducer->in_step = !sums.outcome().complete;
    if (!reducer->in_step) capi::Enter(*reducer, -1, capi::Phase::kUpdating);
    return absl::OkStatus();
  });
}

mr_error* mr_reducer_outcome(const mr_reducer* reducer, mr_step_outcome* outcome) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_reducer_outcome", {{"reducer", reducer != nullptr}, {"outcome", outcome != nullptr}}));
    const collectives::StepOutcome& step = reducer->reducer->outcome();
    mr_step_outcome filled = {};
    filled.complete = step.complete;
    filled.skip = step.skip;
    filled.norm = step.norm;
    filled.clip_factor = static_cast<double>(step.clip_factor);
    filled.rows = step.rows;
    return capi::Give(filled, outcome, "mr_step_outcome");
  });
}

const mr_shard* mr_reducer_shards(const mr_reducer* reducer, size_t* count) {
  if (count != nullptr) *count = reducer == nullptr ? 0 : reducer->reducer->shards().size();
  if (reducer == nullptr) return nullptr;
  return reinterpret_cast<const mr_shard*>(reducer->reducer->shards().data());
}

mr_error* mr_reducer_gather_shards(mr_reducer* reducer) {
  return capi::With("mr_reducer_gather_shards", reducer,
                    [](capi::GradientReducer& sums) { return sums.GatherShards(); });
}

mr_error* mr_reducer_get_counters(const mr_reducer* reducer, mr_reducer_counters* counters) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(
        capi::CheckGiven("mr_reducer_get_counters",
                         {{"reducer", reducer != nullptr}, {"counters", counters != nullptr}}));
    const collectives::ReducerCounters& counted = reducer->reducer->counters();
    const collectives::ReducerCounters::Bucket total = counted.total();
    mr_reducer_counters filled = {};
    filled.steps = counted.steps;
    filled.num_buckets = static_cast<int64_t>(reducer->reducer->num_buckets());
    filled.bytes = total.bytes;
    filled.seconds = total.seconds;
    filled.exposed_seconds = total.exposed_seconds;
    filled.gather_seconds = counted.gather_seconds;
    filled.last_finish_seconds = counted.last_finish_seconds;
    filled.last_awaited = counted.last_awaited;
    return capi::Give(filled, counters, "mr_reducer_counters");
  });
}

mr_error* mr_reducer_bucket_of(const mr_reducer* reducer, size_t index, size_t* bucket) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_reducer_bucket_of", {{"reducer", reducer != nullptr}, {"bucket", bucket != nullptr}}));
    MILLRACE_RETURN_IF_ERROR(capi::CheckIndex(*reducer, index));
    *bucket = reducer->reducer->bucket_of(index);
    return absl::OkStatus();
  });
}

mr_error* mr_reducer_summary(const mr_reducer* reducer, mr_sink sink, void* user) {
  return capi::Guard([&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(capi::CheckGiven(
        "mr_reducer_summary", {{"reducer", reducer != nullptr}, {"sink", sink != nullptr}}));
    capi::Pour(reducer->reducer->Summary(), sink, user);
    return absl::OkStatus();
  });
}

mr_error* mr_reducer_leave(mr_reducer* reducer, int32_t code, const char* message) {
  return capi::With("mr_reducer_leave", reducer, [&](capi::GradientReducer& sums) -> absl::Status {
    absl::Status reason;
    MILLRACE_RETURN_IF_ERROR(capi::TakeReason("mr_reducer_leave", code, message, reason));
    sums.Leave(reason);
    return absl::OkStatus();
  });
}

void mr_reducer_free(mr_reducer* reducer) { capi::FreeHere(reducer); }
