#ifndef MILLRACE_PIPELINE_ORDER_SAMPLE_WINDOWS_H_
#define MILLRACE_PIPELINE_ORDER_SAMPLE_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/memory_budget.h"
#include "base/run.h"
#include "pipeline/order/order.h"
#include "pipeline/order/zip.h"
#include "pipeline/plan/physical.h"

// Samples that are windows over other samples, their elements (docs/semantics.md, S-WINDOW).
//
// To the order and everything else that names samples, windows are one source, as the elements of a
// zip are: window w of epoch e. Which elements it has is arithmetic, and which records these are is
// a question for the elements' own order, that only a run asks which is about to be read. Windows
// that overlap share elements, so as a rule a run of them has each element once.

namespace millrace::pipeline {

// Returns the number of windows over so many elements that are full; kInfinite without end.
uint64_t FullWindows(const WindowPlan& plan, uint64_t elements);

// The elements of some windows.
struct WindowElements {
  std::vector<SampleId> ids;  // the samples that are elements, each once where windows overlap
  // Element i of window r is ids[at[r * size + i]]. Of a window these ascend.
  std::vector<uint32_t> at;
};

// Immutable but for memory that makes it faster; thread-safe.
class SampleWindows {
 public:
  // `sources`: of the elements' order. The slots of its shuffles stand in `budget`, if there is
  // one.
  //   INVALID_ARGUMENT  as Order::Make; or a window would not be full, and the plan does not say
  //                     that those are left out
  static absl::StatusOr<std::unique_ptr<const SampleWindows>> Make(
      const WindowPlan& plan, std::span<const OrderSource> sources, uint64_t seed,
      std::shared_ptr<MemoryBudget> budget);

  // Windows of a pass; kInfinite without end.
  uint64_t num_windows() const { return facts_.num_records; }
  // Elements of a window.
  size_t size() const { return size_; }
  // The facts that the order of the windows has to know.
  const OrderSource& facts() const { return facts_; }

  // Finds the elements of windows: samples of the source, or of the zip, in front of them.
  // REQUIRES: every windows[i].record < num_windows().
  void Locate(std::span<const SampleId> windows, WindowElements& elements) const;

 private:
  SampleWindows(const WindowPlan& plan, std::unique_ptr<const Zip> elements);
  OrderSource FactsOf(const WindowPlan& plan) const;

  // Adds the elements of windows[row], for each of `rows`, as places of the elements' order: each
  // once if that is cheap.
  void PlaceTogether(std::span<const SampleId> windows, std::span<const uint32_t> rows,
                     WindowElements& elements) const;
  void PlaceApart(std::span<const SampleId> windows, std::span<const uint32_t> rows,
                  WindowElements& elements) const;

  const size_t size_;
  const uint64_t shift_;
  const uint64_t stride_;
  const uint64_t span_;  // elements from the first of a window to behind its last
  const std::unique_ptr<const Zip> elements_;  // a zip of one input: the order of the elements
  const OrderSource facts_;
};

// The things between the samples that an order names and the records that are read; null where
// there are none. Borrows them.
struct SampleParts {
  const Zip* zip = nullptr;
  const SampleWindows* windows = nullptr;  // over the samples of the zip, if there is one
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_PIPELINE_ORDER_SAMPLE_WINDOWS_H_
