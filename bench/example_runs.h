#ifndef MILLRACE_BENCH_EXAMPLE_RUNS_H_
#define MILLRACE_BENCH_EXAMPLE_RUNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/op.h"
#include "bench/print_rate.h"

namespace millrace::bench {

// Examples in memory, in runs as the executor would make them.
inline constexpr int64_t kRows = 1024;  // of a run, which is bound to the slab of a batch
inline constexpr int kRuns = 16;

// Puts kRows * kRuns `examples` through `ops`, again and again, into the columns of a batch
// (`slots`), and prints the rate of Examples. Returns whether all were good.
inline bool PrintRunRate(double seconds, const std::vector<std::string>& examples,
                         const std::vector<std::unique_ptr<Op>>& ops,
                         const std::vector<FieldSlots>& slots) {
  RunArena arena;
  const std::vector<SampleId> ids(kRows);
  bool ok = true;
  PrintRate(seconds, [&] {
    for (int i = 0; i < kRuns; ++i) {
      arena.Reset();
      Run run(arena, 1, 0, ids.data(), kRows);
      Column& records = run.Add("record", DType::kBytes);
      for (int64_t row = 0; row < kRows; ++row) {
        const std::string& example = examples[static_cast<size_t>(i * kRows + row)];
        records.Set(row, example.data(), {static_cast<int64_t>(example.size())});
      }
      run.Bind(slots);
      for (const auto& op : ops) op->Apply(run);
      ok = ok && run.all_ok();
    }
    return kRows * kRuns;
  });
  return ok;
}

}  // namespace millrace::bench

#endif  // MILLRACE_BENCH_EXAMPLE_RUNS_H_
