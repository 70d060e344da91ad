// bench_stream_rows ROW ...: rows of the pipeline bench that need a clock inside the process, or an
// op of a known cost. Each prints one JSON object.
//
//   element_loop SECONDS     the least work per element, without a pipeline
//   next_ready               Next() when the batch waits
//   overhead THREADS         what a run costs besides its op
//   scaling THREADS SECONDS  an op of 20 us
//   first_batch FOLDER       from opening to the first batch of a global shuffle
//   restore FOLDER SLOTS     from opening with a resume token to the first batch, over places
//                            spread through the stream; shuffle(SLOTS), or with 0 a global shuffle
//
// Figures "per core" divide by the processor time of the whole process, workers, I/O threads and
// consumer, so that neighbours on the machine hardly change them. The plans are put together by
// hand (OpenPhysical): no op of a plan file has a known cost.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"
#include "pipeline/open/open.h"
#include "pipeline/pipeline.h"
#include "pipeline/source/open.h"
#include "readers/record_source.h"

namespace millrace::bench {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double CpuSeconds(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double ProcessSeconds() { return CpuSeconds(CLOCK_PROCESS_CPUTIME_ID); }

// Calls a function on every run.
class RunOp final : public Op {
 public:
  explicit RunOp(std::function<void(Run&)> body) : body_(std::move(body)) {}
  absl::StatusOr<Schema> Resolve(const Schema& input) override { return input; }
  void Apply(Run& run) const override { body_(run); }

 private:
  const std::function<void(Run&)> body_;
};

pipeline::PhysicalOp MakeOp(std::function<void(Run&)> body) {
  pipeline::PhysicalOp op;
  op.stage = "op";
  op.op = std::make_unique<RunOp>(std::move(body));
  return op;
}

// Runs for `seconds` of processor time of this thread.
void Burn(double seconds) {
  const double end = CpuSeconds(CLOCK_THREAD_CPUTIME_ID) + seconds;
  while (CpuSeconds(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
}

pipeline::OrderStep Step(pipeline::OrderStep::Kind kind, uint64_t count = 0) {
  pipeline::OrderStep step;
  step.kind = kind;
  step.count = count;
  return step;
}

pipeline::PhysicalPlan PlanOf(uint64_t batch, Schema schema) {
  pipeline::PhysicalPlan plan;
  plan.sources.emplace_back();
  plan.order.steps.push_back(Step(pipeline::OrderStep::Kind::kRepeat));
  plan.batch.size = batch;
  plan.batch_schema = std::move(schema);
  return plan;
}

pipeline::PhysicalPlan NumbersPlan(uint64_t batch) {
  pipeline::PhysicalPlan plan = PlanOf(batch, Schema({{"value", DType::kI64, {}}}));
  plan.sources[0].kind = pipeline::SourceSpec::Kind::kRange;
  return plan;
}

absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> Open(
    pipeline::PhysicalPlan plan, std::unique_ptr<readers::RecordSource> source, int threads) {
  ContextOptions options;
  options.threads = threads;
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext(std::move(options)));
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::move(source));
  pipeline::OpenedSources opened = pipeline::JoinSources(plan, std::move(sources));
  return pipeline::OpenPhysical(std::move(plan), std::move(opened), std::move(context), {});
}

absl::Status Skip(pipeline::Pipeline& stream, int batches) {
  for (int i = 0; i < batches; ++i) MILLRACE_RETURN_IF_ERROR(stream.Next().status());
  return absl::OkStatus();
}

// The least that a stream of numbers does: number, id and valid byte of each row, in one loop.
absl::Status ElementLoop(double seconds) {
  constexpr uint64_t kBatch = 1024;
  std::vector<int64_t> values(kBatch);
  std::vector<SampleId> ids(kBatch);
  std::vector<uint8_t> valid(kBatch);
  uint64_t next = 0;
  const double cpu = ProcessSeconds();
  // Reading this clock is a system call.
  while (next % (64 * kBatch) != 0 || ProcessSeconds() - cpu < seconds) {
    for (size_t i = 0; i < kBatch; ++i, ++next) {
      values[i] = static_cast<int64_t>(next);
      ids[i] = {.epoch = 0, .record = next};
      valid[i] = 1;
    }
    asm volatile("" ::"r"(values.data()), "r"(ids.data()), "r"(valid.data()) : "memory");
  }
  std::printf("{\"ns_per_element\": %.2f}\n",
              1e9 * (ProcessSeconds() - cpu) / static_cast<double>(next));
  return absl::OkStatus();
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

constexpr int kTurns = 300;

// Times of Next, in microseconds, after a pause that is long enough for the ring to be full again.
struct NextTimes {
  double first = 0;   // after the pause, when caches may be another's
  double second = 0;  // right after that
};

absl::StatusOr<NextTimes> TimeNext(pipeline::Pipeline& stream, const std::function<void()>& pause) {
  std::vector<double> first, second;
  for (int turn = 0; turn < kTurns; ++turn) {
    pause();
    const Clock::time_point start = Clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream.Next());
    const Clock::time_point then = Clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const auto next_batch, stream.Next());
    first.push_back(1e6 * std::chrono::duration<double>(then - start).count());
    second.push_back(1e6 * Seconds(then));
  }
  return NextTimes{Median(first), Median(second)};
}

// The least that hands what another thread has made to a consumer: pointers under a mutex.
class BareQueue {
 public:
  BareQueue() : maker_([this](const std::stop_token& stop) { Make(stop); }) {}

  bool Full() {
    const std::lock_guard lock(mu_);
    return items_.size() == kItems;
  }
  std::unique_ptr<int64_t> Take() {
    const std::lock_guard lock(mu_);
    std::unique_ptr<int64_t> item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  static constexpr size_t kItems = 32;

  void Make(const std::stop_token& stop) {
    for (int64_t next = 0; !stop.stop_requested(); ++next) {
      auto item = std::make_unique<int64_t>(next);
      while (Full() && !stop.stop_requested()) usleep(10);
      const std::lock_guard lock(mu_);
      items_.push_back(std::move(item));
    }
  }

  std::mutex mu_;
  std::deque<std::unique_ptr<int64_t>> items_;
  std::jthread maker_;
};

double TimeBareQueue(const std::function<void()>& pause) {
  BareQueue queue;
  std::vector<double> times;
  for (int turn = 0; turn < kTurns; ++turn) {
    while (!queue.Full()) usleep(10);
    pause();
    const Clock::time_point start = Clock::now();
    const std::unique_ptr<int64_t> item = queue.Take();
    asm volatile("" ::"r"(*item));
    times.push_back(1e6 * Seconds(start));
  }
  return Median(times);
}

absl::Status NextReady() {
  MILLRACE_ASSIGN_OR_RETURN(auto stream,
                            Open(NumbersPlan(64), pipeline::MakeRangeSource(uint64_t{1} << 40), 2));
  const auto work = [] {
    const Clock::time_point start = Clock::now();
    while (Seconds(start) < 1e-3) {
    }
  };
  const auto sleep = [] { usleep(1000); };
  MILLRACE_ASSIGN_OR_RETURN(const NextTimes after_sleep, TimeNext(*stream, sleep));
  MILLRACE_ASSIGN_OR_RETURN(const NextTimes after_work, TimeNext(*stream, work));
  std::printf("{\"us\": %.3f, \"after_work_us\": %.3f, \"second_us\": %.3f, \"bare_us\": %.3f}\n",
              after_sleep.first, after_work.first, after_work.second, TimeBareQueue(sleep));
  return absl::OkStatus();
}

// Burns processor time and adds up what it says it took.
class Meter {
 public:
  void Burn(double seconds) {
    const double start = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
    bench::Burn(seconds);
    burnt_ns_ += static_cast<int64_t>(1e9 * (CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - start));
    ++calls_;
  }
  int64_t calls() const { return calls_; }
  // Processor time of the process besides what was burnt, of each call from here to the end of
  // `work`, in microseconds.
  absl::StatusOr<double> Rest(const std::function<absl::Status()>& work) {
    const double cpu = ProcessSeconds();
    const int64_t burnt = burnt_ns_, calls = calls_;
    MILLRACE_RETURN_IF_ERROR(work());
    const double rest = ProcessSeconds() - cpu - 1e-9 * static_cast<double>(burnt_ns_ - burnt);
    return 1e6 * rest / static_cast<double>(calls_ - calls);
  }

 private:
  std::atomic<int64_t> burnt_ns_ = 0, calls_ = 0;
};

// Rows of a cost above what a run is cut for, so that each is a run of its own. A loop that does
// nothing but burn shows what of the rest is the clocks' own.
absl::Status Overhead(int threads) {
  constexpr double kBurn = 60e-6;
  constexpr int kBatch = 64;
  constexpr int kBatches = 400;
  Meter meter;
  pipeline::PhysicalPlan plan = NumbersPlan(kBatch);
  plan.ops.push_back(
      MakeOp([&](Run& run) { meter.Burn(kBurn * static_cast<double>(run.num_rows())); }));
  plan.prefetch_batches = 4;
  MILLRACE_ASSIGN_OR_RETURN(
      auto stream, Open(std::move(plan), pipeline::MakeRangeSource(uint64_t{1} << 40), threads));
  MILLRACE_RETURN_IF_ERROR(Skip(*stream, 20));
  const int64_t runs = meter.calls();
  MILLRACE_ASSIGN_OR_RETURN(const double us, meter.Rest([&] { return Skip(*stream, kBatches); }));
  const auto num_runs = static_cast<double>(meter.calls() - runs);
  stream.reset();
  MILLRACE_ASSIGN_OR_RETURN(const double bare_us, meter.Rest([&] {
    for (int run = 0; run < kBatch * kBatches; ++run) meter.Burn(kBurn);
    return absl::OkStatus();
  }));
  std::printf("{\"us_per_run\": %.3f, \"bare_us\": %.3f, \"rows_per_run\": %.2f}\n", us, bare_us,
              kBatch * kBatches / num_runs);
  return absl::OkStatus();
}

absl::Status Scaling(int threads, double seconds) {
  constexpr double kBurn = 20e-6;
  pipeline::PhysicalPlan plan = NumbersPlan(256);
  plan.prefetch_batches = 4;
  plan.ops.push_back(MakeOp([](Run& run) {
    for (int64_t row = 0; row < run.num_rows(); ++row) Burn(kBurn);
  }));
  int64_t rows = 0;
  double piped = 0;
  {
    MILLRACE_ASSIGN_OR_RETURN(
        auto stream, Open(std::move(plan), pipeline::MakeRangeSource(uint64_t{1} << 40), threads));
    MILLRACE_RETURN_IF_ERROR(Skip(*stream, 4));
    const Clock::time_point start = Clock::now();
    for (; Seconds(start) < seconds; rows += 256) MILLRACE_RETURN_IF_ERROR(Skip(*stream, 1));
    piped = static_cast<double>(rows) / Seconds(start);
  }
  std::atomic<int64_t> bare = 0;
  const Clock::time_point start = Clock::now();
  {
    std::vector<std::jthread> others;
    for (int i = 0; i < threads; ++i) {
      others.emplace_back([&] {
        while (Seconds(start) < seconds) {
          Burn(kBurn);
          ++bare;
        }
      });
    }
  }
  std::printf("{\"rows_per_second\": %.0f, \"bare_per_second\": %.0f}\n", piped,
              static_cast<double>(bare) / Seconds(start));
  return absl::OkStatus();
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Where the indexes of first_batch and restore are kept: a folder of its own.
std::string IndexFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  return std::string(cache != nullptr ? cache : "/tmp") + "/first_batch";
}

// Batches of 256 of the records of FOLDER, shuffled through `slots` slots, or globally (0), opened
// as a plan file is: by all workers there are.
absl::StatusOr<std::unique_ptr<pipeline::Pipeline>> OpenRecords(const std::string& folder,
                                                                uint64_t slots,
                                                                const std::string& token) {
  using Kind = pipeline::OrderStep::Kind;
  pipeline::PhysicalPlan plan = PlanOf(256, Schema());
  plan.sources[0].file_patterns = {folder + "/*.tfrecord"};
  plan.order.steps.insert(plan.order.steps.begin(),
                          Step(slots == 0 ? Kind::kGlobalShuffle : Kind::kShuffle, slots));
  pipeline::OpenOptions options;
  options.index_folder = IndexFolder();
  options.resume_token = token;
  MILLRACE_ASSIGN_OR_RETURN(auto context, pipeline::MakeContext({}));
  MILLRACE_ASSIGN_OR_RETURN(auto opened, pipeline::OpenSources(plan, *context, options));
  const auto length = static_cast<int64_t>(opened.source->Locate(0).length);
  plan.batch_schema = Schema({{"record", DType::kU8, {length}}});
  plan.ops.push_back(MakeOp([shape = Shape{length}](Run& run) {
    const Column record = run.Take("record");
    Column& raw = run.Add("record", DType::kU8);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      raw.Set(row, record.bytes(row).data(), shape);
    }
  }));
  return pipeline::OpenPhysical(std::move(plan), std::move(opened), std::move(context), options);
}

// The least that opening does: the indexes' bytes, read from their files.
double ReadIndexesMs() {
  const Clock::time_point start = Clock::now();
  std::vector<char> buffer;
  for (const auto& entry : std::filesystem::directory_iterator(IndexFolder())) {
    buffer.resize(std::filesystem::file_size(entry));
    std::ifstream(entry.path(), std::ios::binary)
        .read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  }
  return 1e3 * Seconds(start);
}

absl::Status FirstBatch(const std::string& folder) {
  const int64_t resident = ResidentBytes();
  const Clock::time_point start = Clock::now();
  const double cpu = ProcessSeconds();
  MILLRACE_ASSIGN_OR_RETURN(const auto stream, OpenRecords(folder, 0, ""));
  MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream->Next());
  const double seconds = Seconds(start);
  const double cpu_seconds = ProcessSeconds() - cpu;
  const auto bytes = static_cast<double>(ResidentBytes() - resident);
  std::printf("{\"ms\": %.1f, \"cpu_ms\": %.1f, \"raw_ms\": %.1f, \"bytes_per_record\": %.2f}\n",
              1e3 * seconds, 1e3 * cpu_seconds, ReadIndexesMs(),
              bytes / static_cast<double>(stream->num_records()));
  return absl::OkStatus();
}

absl::Status Restore(const std::string& folder, uint64_t slots) {
  constexpr uint64_t kPlaces = 9;
  std::vector<std::string> tokens;
  {
    MILLRACE_ASSIGN_OR_RETURN(const auto stream, OpenRecords(folder, slots, ""));
    const uint64_t batches = stream->num_records() / 256;
    for (uint64_t i = 0; i < kPlaces; ++i) {
      MILLRACE_RETURN_IF_ERROR(stream->Seek(batches * (2 * i + 1) / (2 * kPlaces)));
      tokens.push_back(stream->Save());
    }
  }
  std::vector<double> ms;
  for (const std::string& token : tokens) {
    const Clock::time_point start = Clock::now();
    MILLRACE_ASSIGN_OR_RETURN(const auto stream, OpenRecords(folder, slots, token));
    MILLRACE_ASSIGN_OR_RETURN(const auto batch, stream->Next());
    ms.push_back(1e3 * Seconds(start));
  }
  std::ranges::sort(ms);
  std::printf("{\"ms\": %.1f, \"max_ms\": %.1f, \"raw_ms\": %.1f}\n", ms[kPlaces / 2], ms.back(),
              ReadIndexesMs());
  return absl::OkStatus();
}

absl::Status Main(const std::vector<std::string>& words) {
  const auto is = [&](std::string_view row, size_t count) {
    return !words.empty() && words[0] == row && words.size() == count + 1;
  };
  if (is("element_loop", 1)) return ElementLoop(std::stod(words[1]));
  if (is("next_ready", 0)) return NextReady();
  if (is("overhead", 1)) return Overhead(std::stoi(words[1]));
  if (is("scaling", 2)) return Scaling(std::stoi(words[1]), std::stod(words[2]));
  if (is("first_batch", 1)) return FirstBatch(words[1]);
  if (is("restore", 2)) return Restore(words[1], std::stoull(words[2]));
  return absl::InvalidArgumentError("usage: bench_stream_rows ROW ... (see bench/README.md)");
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  const absl::Status status = millrace::bench::Main({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
