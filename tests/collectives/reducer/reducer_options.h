#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_OPTIONS_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_OPTIONS_H_

// What the reducer's options promise, over every backend and layout: each check sets what it is
// about in `options`, and leaves the rest.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "collectives/stale_reducer.h"
#include "tests/collectives/reducer/reducer_steps.h"

namespace millrace::collectives {

using MakeReducer = std::function<absl::StatusOr<std::unique_ptr<GradientReducer>>(
    Communicator&, std::vector<GradientSpec>, const PrivateReducerOptions&)>;

// In buckets of its own.
inline absl::StatusOr<std::unique_ptr<GradientReducer>> MakeOwned(
    Communicator& comm, std::vector<GradientSpec> gradients, const PrivateReducerOptions& options) {
  return MakePlanned(comm, std::move(gradients), options);
}

// In memory of the caller's, which this keeps.
class MakeInUserBuffers {
 public:
  absl::StatusOr<std::unique_ptr<GradientReducer>> operator()(
      Communicator& comm, std::vector<GradientSpec> gradients,
      const PrivateReducerOptions& options) {
    memory_.push_back(std::make_shared<UserGradients>(gradients));
    return MakePlanned(comm, std::move(gradients), memory_.back()->views(), options);
  }

 private:
  std::vector<std::shared_ptr<UserGradients>> memory_;
};

using CheckOfOptions =
    std::function<absl::Status(Communicator&, const PrivateReducerOptions&, const MakeReducer&)>;

inline absl::Status FillAndReduce(GradientReducer& reducer, size_t count, int rank) {
  for (size_t g = 0; g < count; ++g) {
    const TensorView view = reducer.gradient(g);
    for (size_t i = 0; i < CountOf(view); ++i) Put(view, i, Noise(rank, g, i));
    MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  return reducer.Finish();
}

// The sums of a step have the bits of one addition after the other in the order of ranks.
inline absl::Status CheckFlatSums(Communicator& comm, const PrivateReducerOptions& options,
                                  const MakeReducer& make) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, MixedGradients(), options));
  MILLRACE_RETURN_IF_ERROR(FillAndReduce(*reducer, MixedGradients().size(), comm.rank()));
  for (size_t g = 0; g < MixedGradients().size(); ++g) {
    const TensorView view = reducer->gradient(g);
    for (size_t i = 0; i < CountOf(view); ++i) {
      float sum = Rounded(view.dtype, Noise(0, g, i));
      for (int r = 1; r < comm.size(); ++r) sum += Rounded(view.dtype, Noise(r, g, i));
      if (Get(view, i) != Rounded(view.dtype, sum)) return Fail("bits");
    }
  }
  return comm.Barrier();
}

// A number to which a 16-bit float of the type cannot add 1: the next one is 2 above.
inline float LargeOf(DType dtype) { return dtype == DType::kF16 ? 2048 : 256; }

// Of each element one host has the large number and every other host a 1: whatever order the hosts
// are added in, 16-bit partial sums lose some element's ones. `options` names the host; one rank of
// each `adds`.
inline absl::Status SumOnesAndALargeNumber(Communicator& comm, int num_hosts, bool adds,
                                           DType rounded, const GradientSpec& spec,
                                           const PrivateReducerOptions& options,
                                           const MakeReducer& make) {
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, {spec}, options));
  const TensorView view = reducer->gradient(0);
  for (size_t i = 0; i < CountOf(view); ++i) {
    const bool large = static_cast<int>(i) % num_hosts == options.host;
    Put(view, i, !adds ? 0 : large ? LargeOf(rounded) : 1);
  }
  MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
  MILLRACE_RETURN_IF_ERROR(reducer->Finish());
  const float sum = LargeOf(rounded) + static_cast<float>(num_hosts - 1);
  for (const GradientShard& shard : reducer->shards()) {
    for (size_t i = shard.begin; i < shard.end; ++i) {
      if (Get(view, i) != sum) return Fail(absl::StrCat(Get(view, i), " instead of ", sum));
    }
  }
  return comm.Barrier();
}

// Where each rank is a host: its value is rounded to 1 on its way.
inline absl::Status CheckNarrowWire(Communicator& comm, PrivateReducerOptions options,
                                    const MakeReducer& make) {
  options.wire = DType::kBF16;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, {{"a", {1000}}}, options));
  const float value = 1 + 0x1p-10f;
  std::ranges::fill(reducer->gradient(0).as<float>(), value);
  MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
  MILLRACE_RETURN_IF_ERROR(reducer->Finish());
  const float expected = comm.size() == 1 ? value : static_cast<float>(comm.size());
  for (const GradientShard& shard : reducer->shards()) {
    const float sum = reducer->gradient(0).as<float>()[shard.begin];
    if (sum != expected) return Fail(absl::StrCat("sum ", sum));
  }
  return comm.Barrier();
}

inline absl::Status CheckRaggedBatches(Communicator& comm, PrivateReducerOptions options,
                                       const MakeReducer& make) {
  options = SmallBuckets(options);
  options.average_by_rows = true;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, {{"a", {600}}, {"b", {9}}}, options));
  for (int step = 0; step < 3; ++step) {
    if (!absl::IsFailedPrecondition(reducer->MarkReady(0))) return Fail("no rows were set");
    reducer->SetRows(comm.rank() + step);
    int64_t rows = 0;
    for (int r = 0; r < comm.size(); ++r) rows += r + step;
    for (size_t g = 0; g < 2; ++g) {
      // Of each row the gradient 6.
      for (float& v : reducer->gradient(g).as<float>()) v = 6.0f * (comm.rank() + step);
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    if (reducer->outcome().rows != rows) return Fail("rows");
    const float average = rows > 0 ? 6 : 0;
    for (const float v : reducer->gradient(0).as<float>()) {
      if (v != average) return Fail(absl::StrCat("average ", v));
    }
  }
  return comm.Barrier();
}

inline absl::Status CheckSkippedSteps(Communicator& comm, PrivateReducerOptions options,
                                      const MakeReducer& make) {
  options = SmallBuckets(options);
  options.skip_non_finite = true;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, SomeGradients(), options));
  for (int step = 0; step < 6; ++step) {
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      const auto values = reducer->gradient(g).as<float>();
      std::fill(values.begin(), values.end(), 1.0f);
      // One value of one rank, another gradient each time.
      if (step % 2 == 1 && comm.rank() == step % comm.size() && g == 2u + step % 3 &&
          !values.empty()) {
        values.back() = step == 1 ? std::nanf("") : std::numeric_limits<float>::infinity();
      }
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    const bool bad = step == 1 || step == 3 || step == 5;
    const bool empty = 2u + step % 3 == 4;  // "empty" has no value to be bad
    if (reducer->outcome().skip != (bad && !empty)) return Fail(absl::StrCat("step ", step));
  }
  return comm.Barrier();
}

inline absl::Status CheckClipFactor(Communicator& comm, PrivateReducerOptions options,
                                    const MakeReducer& make) {
  options = SmallBuckets(options);
  options.clip_norm = 10;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer,
                            make(comm, {{"a", {900}}, {"b", {700}}, {"c", {0}}}, options));
  for (const float value : {2.0f, 0.0f, 0.001f}) {
    for (size_t g = 0; g < 3; ++g) {
      const auto values = reducer->gradient(g).as<float>();
      std::fill(values.begin(), values.end(), value);
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    const double norm = 40.0 * comm.size() * value;  // of 1600 equal values
    const StepOutcome& outcome = reducer->outcome();
    if (std::abs(outcome.norm - norm) > 1e-6 * norm) return Fail("norm");
    const double factor = norm > 10 ? 10 / norm : 1;
    if (std::abs(outcome.clip_factor - factor) > 1e-6) return Fail("factor");
  }
  return comm.Barrier();
}

inline absl::Status CheckMicroBatches(Communicator& comm, PrivateReducerOptions options,
                                      const MakeReducer& make) {
  options = SmallBuckets(options);
  options.micro_batches = 3;
  options.average_by_rows = true;
  const std::vector<GradientSpec> specs = {{"a", {100}}, {"b", {50}, DType::kBF16}};
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, specs, options));
  for (int step = 0; step < 2; ++step) {
    for (int micro = 0; micro < 3; ++micro) {
      reducer->SetRows(1);
      for (size_t g = 0; g < 2; ++g) {
        const TensorView view = reducer->gradient(g);
        for (size_t i = 0; i < CountOf(view); ++i) Put(view, i, 3.0f * (micro + 1));
        MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->Finish());
      if (reducer->outcome().complete != (micro == 2)) return Fail("complete");
    }
    if (reducer->outcome().rows != 3 * comm.size()) return Fail("rows");
    for (size_t g = 0; g < 2; ++g) {
      if (Get(reducer->gradient(g), 7) != 6) return Fail("the average of 3, 6 and 9");
    }
  }
  return comm.Barrier();
}

// Every element is in one rank's shards; there it is the sum, and after GatherShards everybody has
// what its owner has made of it.
inline absl::Status CheckShards(Communicator& comm, PrivateReducerOptions options,
                                const MakeReducer& make) {
  options = SmallBuckets(options);
  options.shard = true;
  options.clip_norm = 1;
  MILLRACE_ASSIGN_OR_RETURN(const auto reducer, make(comm, MixedGradients(), options));
  const int size = comm.size();
  for (int step = 0; step < 3; ++step) {
    double squares = 0;
    for (size_t g = 0; g < MixedGradients().size(); ++g) {
      const TensorView view = reducer->gradient(g);
      for (size_t i = 0; i < CountOf(view); ++i) {
        Put(view, i, static_cast<float>(1 + i % 3));
        squares += size * size * static_cast<double>((1 + i % 3) * (1 + i % 3));
      }
      MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
    }
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    if (std::abs(reducer->outcome().norm - std::sqrt(squares)) > 1e-6) return Fail("norm");
    for (const GradientShard& shard : reducer->shards()) {
      const TensorView view = reducer->gradient(shard.gradient);
      for (size_t i = shard.begin; i < shard.end; ++i) {
        if (Get(view, i) != static_cast<float>(size * (1 + i % 3))) return Fail("sum");
        Put(view, i, -static_cast<float>(i % 7 + step));  // the new weight
      }
    }
    MILLRACE_RETURN_IF_ERROR(reducer->GatherShards());
    for (size_t g = 0; g < MixedGradients().size(); ++g) {
      const TensorView view = reducer->gradient(g);
      for (size_t i = 0; i < CountOf(view); ++i) {
        if (Get(view, i) != -static_cast<float>(i % 7 + step)) return Fail("weight");
      }
    }
  }
  return comm.Barrier();
}

// All of the above but what hosts are needed for, on 2 or 4 ranks.
inline absl::Status CheckAllOptions(Communicator& comm, const PrivateReducerOptions& base,
                                    const MakeReducer& make) {
  PrivateReducerOptions options = base;
  options.exact = true;
  MILLRACE_RETURN_IF_ERROR(CheckFlatSums(comm, options, make));
  MILLRACE_RETURN_IF_ERROR(CheckRaggedBatches(comm, options, make));
  MILLRACE_RETURN_IF_ERROR(CheckRaggedBatches(comm, base, make));
  MILLRACE_RETURN_IF_ERROR(CheckSkippedSteps(comm, base, make));
  MILLRACE_RETURN_IF_ERROR(CheckClipFactor(comm, base, make));
  MILLRACE_RETURN_IF_ERROR(CheckMicroBatches(comm, base, make));
  MILLRACE_RETURN_IF_ERROR(CheckShards(comm, base, make));
  MILLRACE_RETURN_IF_ERROR(CheckNarrowWire(comm, base, make));
  options = base;
  options.wire = DType::kBF16;
  return CheckShards(comm, options, make);
}

// Sums that come a step late for three steps, and then in their own; each once and in order.
inline absl::Status CheckLateSums(Communicator& comm, const PrivateReducerOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(
      const auto reducer,
      StaleMaker::Make(comm, {{"a", {1000}}}, options, {.delay = 1, .pipelined_steps = 3}));
  const size_t arrivals[] = {0, 1, 1, 2, 1};
  float arrived = 0;
  for (int step = 0; step < 5; ++step) {
    std::ranges::fill(reducer->gradient(0).as<float>(), static_cast<float>(step + 1));
    MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(0));
    MILLRACE_RETURN_IF_ERROR(reducer->Finish());
    if (reducer->ready().size() != arrivals[step]) return Fail(absl::StrCat("in step ", step));
    for (GradientReducer* const ready : reducer->ready()) {
      const float sum = ++arrived * static_cast<float>(comm.size());
      const auto values = ready->gradient(0).as<float>();
      if (std::ranges::count(values, sum) != 1000) return Fail(absl::StrCat("sum ", values[0]));
    }
  }
  return comm.Barrier();
}

// All ranks but the last mark everything before that one marks anything, so nothing is reduced yet;
// then each waits for another of the two reducers first.
inline absl::Status FinishTwoInUnlikeOrders(Communicator& comm, PrivateReducerOptions options,
                                            ProgressPolicy first = ProgressPolicy::kInline) {
  options.policy = first;
  MILLRACE_ASSIGN_OR_RETURN(const auto one, MakePlanned(comm, SomeGradients(), options));
  options.policy = ProgressPolicy::kInline;
  MILLRACE_ASSIGN_OR_RETURN(const auto two, MakePlanned(comm, SomeGradients(), options));
  const auto mark = [](GradientReducer& reducer) -> absl::Status {
    for (size_t g = 0; g < SomeGradients().size(); ++g) {
      MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
    }
    return absl::OkStatus();
  };
  const bool last = comm.rank() + 1 == comm.size();
  for (int step = 0; step < 5; ++step) {
    if (last) MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    MILLRACE_RETURN_IF_ERROR(mark(comm.rank() == 1 ? *two : *one));
    MILLRACE_RETURN_IF_ERROR(mark(comm.rank() == 1 ? *one : *two));
    if (!last) MILLRACE_RETURN_IF_ERROR(comm.Barrier());
    MILLRACE_RETURN_IF_ERROR(comm.rank() == 1 ? two->Finish() : one->Finish());
    MILLRACE_RETURN_IF_ERROR(comm.rank() == 1 ? one->Finish() : two->Finish());
  }
  return comm.Barrier();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_OPTIONS_H_
