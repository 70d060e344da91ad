#ifndef MILLRACE_PIPELINE_PLAN_LIMITS_H_
#define MILLRACE_PIPELINE_PLAN_LIMITS_H_

#include <cstdint>

// The largest numbers that a plan may have.

namespace millrace::pipeline {

// Finite counts stay below this. A longer stream is as good as infinite (at 1e9 records a second it
// lasts a century), and sums of two counts cannot overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 62;
// Slots of a shuffle's buffer: 512 MiB of 4 bytes each (OrderMemo).
inline constexpr uint64_t kMaxShuffleBuffer = uint64_t{1} << 27;
inline constexpr uint64_t kMaxShards = uint64_t{1} << 31;
// Elements of a feature, and pixels of an image.
inline constexpr uint64_t kMaxElements = uint64_t{1} << 31;
// Pixels along a side of an image.
inline constexpr uint64_t kMaxExtent = 1 << 16;
// Elements of a window; and elements from one to its next, and from window to window.
inline constexpr uint64_t kMaxWindow = uint64_t{1} << 20;
inline constexpr uint64_t kMaxWindowStep = uint64_t{1} << 40;
inline constexpr uint32_t kMaxLanes = 1 << 16;
// Rows in the buffers of shuffles behind a cut and in buckets: every batch's token holds them.
inline constexpr uint64_t kMaxOpenRows = uint64_t{1} << 20;
// The block `performance`, whose numbers are those of ContextOptions and OpenOptions too.
inline constexpr uint32_t kMaxWorkers = 4096;
inline constexpr uint32_t kMaxBudgetMib = 1 << 24;  // 16 TiB
inline constexpr uint32_t kMaxIoThreads = 1024;
inline constexpr uint32_t kMaxReadAheadRuns = 1 << 16;
inline constexpr uint32_t kMaxRunMicroseconds = 100'000;

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_PLAN_LIMITS_H_
