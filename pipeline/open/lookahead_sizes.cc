#include "pipeline/open/lookahead_sizes.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/order/order.h"

namespace millrace::pipeline {
namespace {

using Wide = unsigned __int128;

constexpr uint64_t kBudgetPart = 2;  // windows take at most one part in so many of the budget
constexpr uint64_t kWindows = 2;     // the one that is read, and the next
// Chunks of an order without windows: while some are read, others are on their way.
constexpr uint64_t kChunks = 8;
// Of an order whose records lie side by side where chunks are large.
constexpr uint64_t kLargeChunks = 2;

uint64_t Clamped(Wide value) { return static_cast<uint64_t>(std::min<Wide>(value, kMaxCount)); }

bool ReadsSideBySide(const OrderPlan& order) {
  return std::ranges::any_of(order.steps, [](const OrderStep& step) {
    return step.kind == OrderStep::Kind::kShuffle || step.kind == OrderStep::Kind::kInterleave;
  });
}

const OrderStep& BlockShuffleOf(const OrderPlan& order) {
  const auto step = std::ranges::find_if(order.steps, [](const OrderStep& one) {
    return one.kind == OrderStep::Kind::kGlobalShuffle;
  });
  return *step;
}

// Bytes of the records of the rows that a shuffle's window holds, on average. Rows that are windows
// over other samples share elements, so each block of them has about as many as it has places.
Wide AllWindowBytes(const ExecutorParts& parts, uint64_t mean_row_bytes) {
  const Wide rows = parts.order.records().WindowSize();
  if (!parts.plan.window.has_value()) return rows * mean_row_bytes;
  const WindowPlan& window = *parts.plan.window;
  const Wide blocks = rows * mean_row_bytes / BlockShuffleOf(parts.plan.order).count + 1;
  const Wide places =
      rows * window.shift + blocks * std::min(Wide{window.size} * window.stride, Wide{kMaxCount});
  return std::min(places, rows * window.size) * (mean_row_bytes / window.size);
}

// Bytes that this rank reads of a window, on average.
uint64_t WindowBytes(const ExecutorParts& parts, uint64_t mean_row_bytes) {
  const Wide bytes = AllWindowBytes(parts, mean_row_bytes);
  if (parts.has_cut()) return Clamped(bytes);
  const Wide rows = Wide{parts.order.records().WindowSize()} * parts.slice.num_rows;
  return Clamped(std::min(bytes, rows * mean_row_bytes / parts.plan.batch.size));
}

// True if the positions of its rows are known before they are read.
bool KnowsRows(const ExecutorParts& parts) {
  const bool reads_in_order = !parts.has_cut() || (parts.plan.lanes <= 1 && !parts.lengths);
  return parts.growing == nullptr && reads_in_order;
}

absl::Status TooLarge(const ExecutorParts& parts, uint64_t window_bytes, uint64_t most_bytes) {
  const OrderStep& step = BlockShuffleOf(parts.plan.order);
  const uint64_t windows = Clamped(Wide{kWindows} * window_bytes);
  const uint64_t block = Clamped(Wide{step.count} * most_bytes / std::max<uint64_t>(windows, 1));
  const uint64_t window = Clamped(Wide{parts.order.records().WindowSize()} * most_bytes /
                                  std::max<uint64_t>(windows, 1));
  const std::string smaller = step.second == 0 ? absl::StrCat("block_bytes of at most ", block)
                                               : absl::StrCat("a window of at most ", window);
  return absl::InvalidArgumentError(absl::StrCat(
      "stage \"", step.stage, "\": over HTTP each block is fetched once, and two windows of ",
      parts.order.records().WindowSize(), " records are kept for that: ", windows,
      " B, and half of the memory budget is ", most_bytes, " B; take ", smaller,
      ", or a memory_budget_bytes of at least ", Clamped(Wide{kBudgetPart} * windows)));
}

}  // namespace

absl::StatusOr<std::optional<LookaheadSizes>> SizesOfLookahead(const ExecutorParts& parts,
                                                               uint64_t mean_row_bytes) {
  const std::optional<readers::FetchFacts> fetches = parts.source->fetches();
  if (!fetches.has_value() || !fetches->single || !KnowsRows(parts)) return std::nullopt;
  if (parts.order.records().WindowSize() == 0) {
    const uint64_t chunks = ReadsSideBySide(parts.plan.order) ? kLargeChunks : kChunks;
    return LookaheadSizes{.chunk_bytes = std::max<uint64_t>(fetches->kept_bytes / chunks, 1),
                          .limit_bytes = fetches->kept_bytes};
  }
  const uint64_t window = WindowBytes(parts, mean_row_bytes);
  const auto most = static_cast<uint64_t>(parts.context->memory_budget_bytes()) / kBudgetPart;
  if (window > most / kWindows) return TooLarge(parts, window, most);
  // Windows differ by a few records.
  const uint64_t limit = std::min(most, kWindows * (window + window / 8));
  return LookaheadSizes{.chunk_bytes = window, .limit_bytes = limit};
}

}  // namespace millrace::pipeline
