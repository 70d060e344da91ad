#ifndef MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_STEPS_H_
#define MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_STEPS_H_

// Gradients and steps for tests of the reducer.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/status.h"
#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"
#include "collectives/reducer/make_reducer.h"
#include "gtest/gtest.h"
#include "tests/collectives/test_buffer.h"
#include "tests/sanitized.h"

namespace millrace::collectives {

inline std::vector<GradientSpec> SomeGradients() {
  return {{"fc/bias", {10}},  {"fc/kernel", {64, 10}}, {"conv2/kernel", {3, 3, 8, 16}},
          {"bn/gamma", {1}},  {"empty", {0}},          {"conv1/kernel", {7, 7, 3, 8}},
          {"scale", Shape()}, {"stem", {5, 5}}};
}

template <typename Options = ReducerOptions>
Options SmallBuckets(Options options = {}) {
  options.bucket_bytes = 5000;
  options.edge_bucket_bytes = 1000;
  return options;
}

inline double GradientValue(int rank, size_t gradient, size_t i, int step) {
  return Value(rank + step, gradient * 100 + i);
}

// One step with the gradients marked in `order`; the sums must equal the serial ones.
inline absl::Status StepInOrder(Communicator& comm, GradientReducer& reducer,
                                const std::vector<size_t>& order, int step) {
  for (const size_t g : order) {
    const std::span<float> gradient = reducer.gradient(g).as<float>();
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<float>(GradientValue(comm.rank(), g, i, step));
    }
    MILLRACE_RETURN_IF_ERROR(reducer.MarkReady(g));
  }
  MILLRACE_RETURN_IF_ERROR(reducer.Finish());
  for (const size_t g : order) {
    const std::span<const float> gradient = reducer.gradient(g).as<float>();
    for (size_t i = 0; i < gradient.size(); ++i) {
      double sum = 0;
      for (int r = 0; r < comm.size(); ++r) sum += GradientValue(r, g, i, step);
      if (gradient[i] != sum) return Fail(absl::StrCat("gradient ", g, " element ", i));
    }
  }
  return absl::OkStatus();
}

// Hosts by rank.
using Layout = std::vector<int>;
inline const Layout kLayouts[] = {{0, 0},       {0, 1},       {0, 0, 1},
                                  {0, 1, 2},    {0, 0, 1, 1}, {0, 1, 1, 0},
                                  {0, 0, 0, 1}, {1, 0, 0, 1}, {0, 1, 0, 2, 1, 2}};

inline void RunOn(const Layout& layout,
                  const std::function<absl::Status(Communicator&, int host)>& body) {
  const absl::Status status = RunRanks(static_cast<int>(layout.size()), [&](Communicator& comm) {
    return body(comm, layout[comm.rank()]);
  });
  EXPECT_TRUE(status.ok()) << status;
}

inline float Noise(int rank, size_t gradient, size_t i) {
  std::minstd_rand random(static_cast<uint32_t>(rank * 7919 + gradient * 104729 + i * 31 + 1));
  random.discard(2);
  return std::uniform_real_distribution<float>(-2, 2)(random);
}

inline float Rounded(DType dtype, float value) {
  if (dtype == DType::kF16) return ToFloat(ToHalf(value));
  if (dtype == DType::kBF16) return ToFloat(ToBFloat(value));
  return value;
}

inline void Put(const TensorView& view, size_t i, float value) {
  if (view.dtype == DType::kF16) {
    view.as<Half>()[i] = ToHalf(value);
  } else if (view.dtype == DType::kBF16) {
    view.as<BFloat>()[i] = ToBFloat(value);
  } else {
    view.as<float>()[i] = value;
  }
}

inline float Get(const TensorView& view, size_t i) {
  if (view.dtype == DType::kF16) return ToFloat(view.as<Half>()[i]);
  if (view.dtype == DType::kBF16) return ToFloat(view.as<BFloat>()[i]);
  return view.as<float>()[i];
}

inline size_t CountOf(const TensorView& view) {
  return static_cast<size_t>(view.shape.num_elements());
}

inline std::vector<GradientSpec> MixedGradients() {
  return {{"a", {700}, DType::kBF16},
          {"b", {33}, DType::kF32},
          {"c", {900}, DType::kF16},
          {"d", {701}, DType::kBF16},
          {"e", {1000}, DType::kF32}};
}

// Memory for gradients as others lay it out: each aligned to its elements and to nothing more.
class UserGradients {
 public:
  explicit UserGradients(const std::vector<GradientSpec>& gradients) {
    for (const GradientSpec& gradient : gradients) {
      TensorView view = {nullptr, gradient.dtype, gradient.shape};
      const size_t element = SizeOf(gradient.dtype);
      memory_.emplace_back(view.size_bytes() + 2 * element);
      view.data = memory_.back().data() + element;
      views_.push_back(view);
    }
  }
  const std::vector<TensorView>& views() const { return views_; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<TensorView> views_;
};

// Sizes that nothing divides, types by turns, and more than some pieces of the slots.
inline std::vector<GradientSpec> OddGradients() {
  std::vector<GradientSpec> gradients = MixedGradients();
  gradients.push_back({"one", {1}, DType::kF16});
  gradients.push_back({"none", {0}, DType::kF32});
  gradients.push_back({"large", {300007}, DType::kF32});
  gradients.push_back({"large_too", {200003}, DType::kBF16});
  gradients.push_back({"last", {17}, DType::kF32});
  return gradients;
}

// Fills a gradient with thirds of its values, which begin anew after a prime number of elements: to
// compute each would take most of the time of a test.
inline void FillThirds(const TensorView& view, int rank, size_t gradient, int step) {
  constexpr size_t kPeriod = 1009;
  const size_t element = SizeOf(view.dtype);
  const size_t count = CountOf(view);
  for (size_t i = 0; i < std::min(count, kPeriod); ++i) {
    Put(view, i, static_cast<float>(GradientValue(rank, gradient, i, step)) / 3);
  }
  auto* const bytes = static_cast<std::byte*>(view.data);
  for (size_t done = kPeriod; done < count; done *= 2) {
    std::memcpy(bytes + done * element, bytes, std::min(done, count - done) * element);
  }
}

// Steps of OddGradients in buckets and in the caller's memory, with gradients marked in any order:
// all elements, or those of the own shards, must have the same bits, and all ranks know the same of
// a step.
inline absl::Status CompareUserBuffersWithOwned(Communicator& comm,
                                                const PrivateReducerOptions& options) {
  const std::vector<GradientSpec> gradients = OddGradients();
  UserGradients memory(gradients);
  MILLRACE_ASSIGN_OR_RETURN(const auto owned, MakePlanned(comm, gradients, options));
  MILLRACE_ASSIGN_OR_RETURN(const auto in_user_buffers,
                            MakePlanned(comm, gradients, memory.views(), options));
  std::vector<size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(comm.rank() + 1);
  const auto same = [&](const char* when) -> absl::Status {
    for (const GradientShard& shard : owned->shards()) {
      const TensorView a = owned->gradient(shard.gradient);
      const TensorView b = in_user_buffers->gradient(shard.gradient);
      if (b.data != memory.views()[shard.gradient].data) return Fail("not the caller's memory");
      const size_t element = SizeOf(a.dtype);
      const auto* const from = static_cast<const std::byte*>(a.data) + shard.begin * element;
      const auto* const to = static_cast<const std::byte*>(b.data) + shard.begin * element;
      if (!std::equal(from, from + (shard.end - shard.begin) * element, to)) {
        return Fail(absl::StrCat(when, ": gradient ", shard.gradient));
      }
    }
    return absl::OkStatus();
  };
  for (int step = 0; step < (kSanitized ? 2 : 3); ++step) {
    for (GradientReducer* const reducer : {owned.get(), in_user_buffers.get()}) {
      for (int batch = 0; batch < options.micro_batches; ++batch) {
        reducer->SetRows(comm.rank() + batch + 1);
        for (const size_t g : order) {
          FillThirds(reducer->gradient(g), comm.rank() + batch, g, step);
          MILLRACE_RETURN_IF_ERROR(reducer->MarkReady(g));
        }
        MILLRACE_RETURN_IF_ERROR(reducer->Finish());
      }
    }
    MILLRACE_RETURN_IF_ERROR(same("sums"));
    const StepOutcome& a = owned->outcome();
    const StepOutcome& b = in_user_buffers->outcome();
    if (a.norm != b.norm || a.clip_factor != b.clip_factor || a.rows != b.rows) {
      return Fail("outcome");
    }
    MILLRACE_RETURN_IF_ERROR(owned->GatherShards());
    MILLRACE_RETURN_IF_ERROR(in_user_buffers->GatherShards());
    for (size_t g = 0; g < gradients.size(); ++g) {
      const auto* const from = static_cast<const std::byte*>(owned->gradient(g).data);
      const size_t bytes = owned->gradient(g).size_bytes();
      if (!std::equal(from, from + bytes, static_cast<std::byte*>(memory.views()[g].data))) {
        return Fail(absl::StrCat("all of gradient ", g));
      }
    }
    std::shuffle(order.begin(), order.end(), random);
  }
  return comm.Barrier();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_REDUCER_REDUCER_STEPS_H_
