#include "pipeline/executor/work_clock.h"

#include "base/workers.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kLongNanoseconds = 200'000;
constexpr int64_t kShortNanoseconds = 20'000;
constexpr uint64_t kClocked = 16;

uint64_t EveryOf(int64_t expected_ns) {
  if (expected_ns >= kLongNanoseconds) return 1;
  return expected_ns >= kShortNanoseconds ? 4 : 16;
}

int64_t CpuBegin(uint64_t number) {
  return kProfiles && number % kClocked == 0 ? ThreadProcessorTime() : -1;
}

}  // namespace

WorkClock::WorkClock(RunScratch& scratch, int64_t expected_ns, int64_t now_ns)
    : number_(scratch.items++),
      every_(EveryOf(expected_ns)),
      samples_(kProfiles && number_ % every_ == 0),
      begin_ns_(now_ns),
      cpu_begin_ns_(CpuBegin(number_)) {}

WorkTimes WorkClock::End(int64_t rows, int64_t now_ns) const {
  WorkTimes times{.rows = rows, .ns = now_ns - begin_ns_};
  if (cpu_begin_ns_ < 0) return times;
  times.clocked_ns = times.ns;
  times.clocked_cpu_ns = ThreadProcessorTime() - cpu_begin_ns_;
  return times;
}

}  // namespace millrace::pipeline
