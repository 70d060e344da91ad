// bench_collective_rows ROW TURNS, started by mpirun: milliseconds of the gradient reducer and of
// what bounds it, medians of turns in which all variants alternate. Rank 0 prints one JSON object.
//   resnet50   the whole gradient of ResNet-50: push through shared memory (warm and cold), one
//              MPI_Allreduce, MPI_Allreduce by chunks, and a loop that reads and writes as much
//   user_buffers  the same of gradients in user buffers, beside those in buckets
//   mpi        one MPI_Allreduce alone, for a run with other settings of MPI
//   small_161  161 tensors of 64 floats, by the reducer and by 161 calls
//   overlap_spare, overlap_busy   steps with a backward that sleeps, or computes
//   messages   the whole gradient of ranks that share no memory
//   startup    making the reducer
// `startup_threads TURNS` needs no mpirun: 64 ranks as threads.
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/host.h"
#include "bench/collective_clock.h"
#include "bench/other_cores.h"
#include "bench/resnet50_sizes.h"
#include "collectives/factory.h"
#include "collectives/gradient_reducer.h"

namespace millrace {
namespace {

using collectives::Communicator;
using collectives::GradientReducer;
using collectives::GradientSpec;
using collectives::ProgressPolicy;
using collectives::ReducerOptions;

constexpr size_t kSweepBytes = size_t{2} << 30;

[[noreturn]] void Die(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(status.ToString());
}

std::vector<GradientSpec> Specs(const std::vector<int64_t>& sizes) {
  std::vector<GradientSpec> specs;
  for (size_t i = 0; i < sizes.size(); ++i) specs.push_back({std::to_string(i), Shape{sizes[i]}});
  return specs;
}

std::unique_ptr<GradientReducer> MakeReducer(Communicator& comm, const std::vector<int64_t>& sizes,
                                             const ReducerOptions& options) {
  auto reducer = GradientReducer::Make(comm, Specs(sizes), options);
  Check(reducer.status());
  return *std::move(reducer);
}

ReducerOptions Inline() {
  ReducerOptions options;
  options.policy = ProgressPolicy::kInline;
  return options;
}

void Fill(std::span<float> values) { std::fill(values.begin(), values.end(), 1.0f); }

// What the reducer's own memory of ranks that share none is in, so that MPI's ways may have it as
// well.
class HugePages {
 public:
  explicit HugePages(size_t bytes)
      : bytes_((bytes + kSize - 1) / kSize * kSize),
        memory_(static_cast<float*>(std::aligned_alloc(kSize, bytes_))) {
    if (memory_ == nullptr) Die("no memory");
    madvise(memory_, bytes_, MADV_HUGEPAGE);
    Fill(floats());
  }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() { std::free(memory_); }
  std::span<float> floats() const { return {memory_, bytes_ / sizeof(float)}; }

 private:
  static constexpr size_t kSize = size_t{2} << 20;
  const size_t bytes_;
  float* const memory_;
};

// Backward has just written everything.
void FillAll(GradientReducer& reducer, size_t count) {
  for (size_t i = 0; i < count; ++i) Fill(reducer.gradient(i).as<float>());
}

void Reduce(GradientReducer& reducer, size_t count) {
  for (size_t i = 0; i < count; ++i) Check(reducer.MarkReady(i));
  Check(reducer.Finish());
}

void AllReduceChunks(std::span<float> data, size_t chunk_floats) {
  for (size_t at = 0; at < data.size(); at += chunk_floats) {
    const size_t count = std::min(chunk_floats, data.size() - at);
    MPI_Allreduce(MPI_IN_PLACE, data.data() + at, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
}

// What a rank's share costs at least: as many bytes read and written, in place.
void ReadAndWriteTwice(std::span<float> data) {
  const size_t half = data.size() / 2;
  float* const a = data.data();
  float* const b = data.data() + half;
  for (size_t i = 0; i < half; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

// Does this part of the step's whole computation.
using Backward = std::function<void(double part)>;

// Steps of `backward`, with the reducer's part along with it and behind it.
class OverlappedSteps {
 public:
  // Milliseconds of the caller's within MarkReady and Finish. On the rank that comes last, for
  // which the others wait, that is what the step takes longer: it has the least.
  struct Times {
    double inside = 0;
    double finishing = 0;  // of it in Finish
  };

  OverlappedSteps(Communicator& comm, std::vector<int64_t> sizes, const ReducerOptions& options,
                  Backward backward)
      : sizes_(std::move(sizes)),
        floats_(std::accumulate(sizes_.begin(), sizes_.end(), 0.0)),
        backward_(std::move(backward)),
        reducer_(MakeReducer(comm, sizes_, options)) {
    Run(/*mark=*/false);  // takes the page faults
  }

  // `mark`: each gradient when it is there; else all of them after backward.
  Times Run(bool mark) {
    double marking = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      backward_(static_cast<double>(sizes_[i]) / floats_);
      Fill(reducer_->gradient(i).as<float>());
      if (mark) marking += Count([&] { Check(reducer_->MarkReady(i)); });
    }
    if (!mark) {
      marking = Count([&] {
        for (size_t i = 0; i < sizes_.size(); ++i) Check(reducer_->MarkReady(i));
      });
    }
    const double finishing = Count([&] { Check(reducer_->Finish()); });
    return {marking + finishing, finishing};
  }

 private:
  // A template, for the caches are cold: a call more is to be seen in what is counted.
  template <typename Body>
  static double Count(const Body& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

  const std::vector<int64_t> sizes_;
  const double floats_;
  const Backward backward_;
  const std::unique_ptr<GradientReducer> reducer_;
};

struct Bench {
  Communicator& comm;
  int turns;
  CollectiveClock clock;

  // A variant after rewriting its memory, and after sweeping the caches.
  void WarmAndCold(const std::string& name, Sweep& sweep, const std::function<void()>& fill,
                   const std::function<void()>& body) {
    clock.Add(name + "_warm", fill, body);
    clock.Add(
        name + "_cold", [&] { fill(), sweep.Run(); }, body);
  }

  // `all`: beside one call of MPI the loop and chunks too.
  std::string ResNet50(bool all) {
    const std::vector<int64_t> sizes = ResNet50Sizes();
    size_t floats = 0;
    for (const int64_t size : sizes) floats += static_cast<size_t>(size);
    std::vector<float> data(floats);
    const auto fill = [&data] { Fill(data); };
    Sweep sweep(kSweepBytes);
    const auto reducer = MakeReducer(comm, sizes, Inline());
    // The first turn takes the page faults and is not counted.
    for (int turn = 0; turn <= turns; ++turn) {
      if (turn == 1) clock = {};
      WarmAndCold(
          "push", sweep, [&] { FillAll(*reducer, sizes.size()); },
          [&] { Reduce(*reducer, sizes.size()); });
      if (all) {
        WarmAndCold("loop", sweep, fill, [&] {
          ReadAndWriteTwice(std::span(data).first(2 * floats / static_cast<size_t>(comm.size())));
        });
        for (const size_t mib : {1, 2, 4}) {
          WarmAndCold("chunks_" + std::to_string(mib) + "_mib", sweep, fill,
                      [&] { AllReduceChunks(data, mib << 18); });
        }
      }
      WarmAndCold("mpi", sweep, fill, [&] { AllReduceChunks(data, floats); });
    }
    return clock.Json();
  }

  std::string Push() {
    const std::vector<int64_t> sizes = ResNet50Sizes();
    const auto reducer = MakeReducer(comm, sizes, Inline());
    for (int turn = 0; turn <= turns; ++turn) {
      if (turn == 1) clock = {};
      clock.Add(
          "push_warm", [&] { FillAll(*reducer, sizes.size()); },
          [&] { Reduce(*reducer, sizes.size()); });
    }
    return clock.Json();
  }

  // Gradients in memory of the caller's, as another library brings them.
  std::string UserBuffers() {
    const std::vector<int64_t> sizes = ResNet50Sizes();
    std::vector<std::vector<float>> memory;
    std::vector<TensorView> views;
    for (const int64_t size : sizes) {
      memory.emplace_back(static_cast<size_t>(size));
      views.push_back({memory.back().data(), DType::kF32, Shape{size}});
    }
    Sweep sweep(kSweepBytes);
    const auto owned = MakeReducer(comm, sizes, Inline());
    const auto in_user_buffers = GradientReducer::Make(comm, Specs(sizes), views, Inline());
    Check(in_user_buffers.status());
    for (int turn = 0; turn <= turns; ++turn) {
      if (turn == 1) clock = {};
      for (const auto& [name, reducer] :
           {std::pair("push", owned.get()), std::pair("user_buffers", in_user_buffers->get())}) {
        WarmAndCold(
            name, sweep, [&] { FillAll(*reducer, sizes.size()); },
            [&] { Reduce(*reducer, sizes.size()); });
      }
    }
    return clock.Json();
  }

  // Ranks that share no memory, as those of two hosts.
  std::string Messages() {
    const std::vector<int64_t> sizes = ResNet50Sizes();
    ReducerOptions options = Inline();
    options.shared_memory = false;
    const auto reducer = MakeReducer(comm, sizes, options);
    size_t floats = 0;
    for (const int64_t size : sizes) floats += static_cast<size_t>(size);
    std::vector<float> small_pages(floats);
    const HugePages huge_pages(floats * sizeof(float));
    const std::map<std::string, std::span<float>> buffers = {
        {"", small_pages}, {"_huge", huge_pages.floats().first(floats)}};
    for (int turn = 0; turn <= turns; ++turn) {
      if (turn == 1) clock = {};
      clock.Add(
          "messages", [&] { FillAll(*reducer, sizes.size()); },
          [&] { Reduce(*reducer, sizes.size()); });
      for (const auto& [pages, data] : buffers) {
        const auto fill = [&] { Fill(data); };
        for (const size_t mib : {1, 2, 4}) {
          clock.Add("chunks_" + std::to_string(mib) + "_mib" + pages, fill,
                    [&] { AllReduceChunks(data, mib << 18); });
        }
        clock.Add("mpi" + pages, fill, [&] { AllReduceChunks(data, floats); });
      }
    }
    return clock.Json();
  }

  std::string Small161() {
    const std::vector<int64_t> sizes(161, 64);
    const auto reducer = MakeReducer(comm, sizes, Inline());
    std::vector<float> data(64);
    for (int turn = 0; turn <= 10 * turns; ++turn) {
      clock.Add(
          "push", [&] { FillAll(*reducer, sizes.size()); },
          [&] { Reduce(*reducer, sizes.size()); });
      clock.Add(
          "mpi", [] {},
          [&] {
            for (size_t i = 0; i < sizes.size(); ++i) AllReduceChunks(data, 64);
          });
    }
    return clock.Json();
  }

  void TimeOverlap(const std::string& name, OverlappedSteps& steps, bool mark) {
    MPI_Barrier(MPI_COMM_WORLD);
    const OverlappedSteps::Times times = steps.Run(mark);
    clock.AddLeast(name, times.inside, "_finishing", times.finishing);
  }

  void Overlap(const std::string& name, const ReducerOptions& options, const Backward& backward) {
    OverlappedSteps steps(comm, ResNet50Sizes(), options, backward);
    for (int turn = 0; turn < turns; ++turn) {
      TimeOverlap(name + "overlapped", steps, /*mark=*/true);
      TimeOverlap(name + "after", steps, /*mark=*/false);
    }
  }

  // The gradients of the last bucket that a reducer with `options` makes of ResNet-50's.
  std::vector<int64_t> LastBucketSizes(const ReducerOptions& options) {
    std::vector<int64_t> sizes = ResNet50Sizes();
    const auto whole = MakeReducer(comm, sizes, options);
    size_t first = 0;
    while (whole->bucket_of(first) + 1 < whole->num_buckets()) ++first;
    sizes.erase(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(first));
    return sizes;
  }

  // What the sums of the last bucket take at least: just written, and from memory, where the bucket
  // is once larger ones have gone through the caches. Both ranks are awake.
  void LastBucketAwake() {
    const std::vector<int64_t> sizes = LastBucketSizes(Inline());
    const auto reducer = MakeReducer(comm, sizes, Inline());
    Sweep sweep(kSweepBytes / 8);
    for (int turn = 0; turn <= turns; ++turn) {
      WarmAndCold(
          "last_bucket", sweep, [&] { FillAll(*reducer, sizes.size()); },
          [&] { Reduce(*reducer, sizes.size()); });
    }
  }

  // Beside the whole, by turns, steps that have the last bucket's gradients alone: what is exposed
  // of these no overlap can hide.
  std::string OverlapSpare() {
    ReducerOptions options;
    options.compute_threads = 0;
    const auto sleep = [](double part) {
      std::this_thread::sleep_for(std::chrono::duration<double>(0.2 * part));
    };
    OverlappedSteps whole(comm, ResNet50Sizes(), options, sleep);
    OverlappedSteps last(comm, LastBucketSizes(options), options, sleep);
    for (int turn = 0; turn < turns; ++turn) {
      TimeOverlap("overlapped", whole, /*mark=*/true);
      TimeOverlap("last_bucket", last, /*mark=*/true);
      TimeOverlap("after", whole, /*mark=*/false);
    }
    LastBucketAwake();
    return clock.Json();
  }

  std::string OverlapBusy() {
    ReducerOptions options;
    options.compute_threads = std::max(1, ReadCores().usable / comm.size());
    OtherCores others(options.compute_threads - 1);
    const auto work = [&others](double additions) {
      others.Compute(true);
      DoAdditions(additions);
      others.Compute(false);
    };
    const double ms = CollectiveClock::Time([] {}, [&] { work(5e7); });
    const double whole = 5e7 * 270 / ms;  // as many as take a rank about 270 ms
    for (const bool skewed : {false, true}) {
      const double own = whole * (skewed && comm.rank() == 1 ? 1.1 : 1);
      Overlap(skewed ? "skewed_" : "", options, [&](double part) { work(own * part); });
    }
    return clock.Json();
  }

  // What a start has but once, so `turns` is 1 where it is to be a start's time.
  std::string Startup() {
    const std::vector<int64_t> sizes = ResNet50Sizes();
    for (int turn = 0; turn < turns; ++turn) {
      std::unique_ptr<GradientReducer> reducer;
      clock.Add(
          "reducer", [] {}, [&] { reducer = MakeReducer(comm, sizes, ReducerOptions()); });
    }
    return clock.Json();
  }
};

std::string RunRow(const collectives::Launch& launch, std::string_view row, int turns) {
  Bench bench{*launch.communicator, turns, {}};
  if (row == "resnet50") return bench.ResNet50(true);
  if (row == "ring") return bench.ResNet50(false);
  if (row == "push") return bench.Push();
  if (row == "user_buffers") return bench.UserBuffers();
  if (row == "small_161") return bench.Small161();
  if (row == "messages") return bench.Messages();
  if (row == "overlap_spare") return bench.OverlapSpare();
  if (row == "overlap_busy") return bench.OverlapBusy();
  if (row == "startup") return bench.Startup();
  Die("no such row");
}

// Of a model whose copies 64 ranks have room for.
int StartupOfThreads(int turns) {
  std::vector<double> times;
  for (int turn = 0; turn < turns; ++turn) {
    const auto start = std::chrono::steady_clock::now();
    Check(collectives::RunRanks(64, [](Communicator& comm) {
      const std::vector<int64_t> sizes(161, 4096);
      return GradientReducer::Make(comm, Specs(sizes), Inline()).status();
    }));
    const std::chrono::duration<double, std::milli> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("{\"startup\": %.3f}\n", times[times.size() / 2]);
  return 0;
}

int Main(int argc, char** argv) {
  const int turns = argc == 3 ? std::atoi(argv[2]) : 0;
  if (turns < 1) Die("usage: bench_collective_rows ROW TURNS");
  if (std::string_view(argv[1]) == "startup_threads") return StartupOfThreads(turns);
  auto launch = collectives::Connect();
  Check(launch.status());
  int initialized = 0;  // by Connect, under mpirun; the rows call MPI themselves
  MPI_Initialized(&initialized);
  if (initialized == 0) Die("to be started by mpirun");
  const std::string json = RunRow(*launch, argv[1], turns);
  if (launch->communicator->rank() == 0) std::printf("%s\n", json.c_str());
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Main(argc, argv); }
