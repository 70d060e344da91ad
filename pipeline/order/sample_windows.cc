#include "pipeline/order/sample_windows.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::pipeline {
namespace {

// Places that may lie between the elements of windows for each of them, so that shared elements are
// found by a table.
constexpr uint64_t kMostPlaces = 2;

uint64_t SpanOf(const WindowPlan& plan) { return (plan.size - 1) * plan.stride + 1; }

// All windows begin at an element that there is.
uint64_t AllWindows(const WindowPlan& plan, uint64_t elements) {
  if (elements == kInfinite) return kInfinite;
  return elements / plan.shift + (elements % plan.shift != 0 ? 1 : 0);
}

absl::Status NotFull(const WindowPlan& plan, uint64_t elements) {
  const uint64_t missing = AllWindows(plan, elements) - FullWindows(plan, elements);
  return absl::InvalidArgumentError(absl::StrCat(
      "stage \"", plan.stage, "\": of ", elements, " elements the last ",
      missing == 1 ? "window would" : absl::StrCat(missing, " windows would"), " have fewer than ",
      plan.size, ", and windows of fewer are not made; drop_remainder: true leaves ",
      missing == 1 ? "it" : "them", " out"));
}

}  // namespace

uint64_t FullWindows(const WindowPlan& plan, uint64_t elements) {
  if (elements == kInfinite) return kInfinite;
  const uint64_t span = SpanOf(plan);
  return elements < span ? 0 : (elements - span) / plan.shift + 1;
}

SampleWindows::SampleWindows(const WindowPlan& plan, std::unique_ptr<const Zip> elements)
    : size_(plan.size),
      shift_(plan.shift),
      stride_(plan.stride),
      span_(SpanOf(plan)),
      elements_(std::move(elements)),
      facts_(FactsOf(plan)) {}

// S-WINDOW-3: each element has the mean size of the sources' records.
OrderSource SampleWindows::FactsOf(const WindowPlan& plan) const {
  using Wide = unsigned __int128;
  const uint64_t elements = elements_->size();
  OrderSource facts{
      .num_records = FullWindows(plan, elements), .total_bytes = 0, .shard_records = {}};
  if (elements == kInfinite || elements == 0) return facts;
  const Wide copies = Wide{facts.num_records} * size_;
  const Wide bytes = std::min(copies, Wide{kMaxCount}) * elements_->facts().total_bytes / elements;
  facts.total_bytes = static_cast<uint64_t>(std::min(bytes, Wide{kMaxCount}));
  return facts;
}

absl::StatusOr<std::unique_ptr<const SampleWindows>> SampleWindows::Make(
    const WindowPlan& plan, std::span<const OrderSource> sources, uint64_t seed,
    std::shared_ptr<MemoryBudget> budget) {
  ZipPlan order;
  order.inputs.push_back({plan.order, "", false});
  MILLRACE_ASSIGN_OR_RETURN(auto elements, Zip::Make(order, sources, seed, std::move(budget)));
  const uint64_t size = elements->size();
  if (!plan.drop_remainder && FullWindows(plan, size) != AllWindows(plan, size)) {
    return NotFull(plan, size);
  }
  return std::unique_ptr<const SampleWindows>(new SampleWindows(plan, std::move(elements)));
}

// Windows of one epoch that overlap, in their order, which is that of their numbers.
void SampleWindows::PlaceTogether(std::span<const SampleId> windows, std::span<const uint32_t> rows,
                                  WindowElements& elements) const {
  const SampleId& first = windows[rows.front()];
  const uint64_t begin = first.record * shift_;
  const uint64_t places = (windows[rows.back()].record - first.record) * shift_ + span_;
  if (rows.size() == 1 || places > kMostPlaces * rows.size() * size_) {
    return PlaceApart(windows, rows, elements);
  }
  constexpr uint32_t kUnused = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> numbers(places, kUnused);
  for (const uint32_t row : rows) {
    const uint64_t from = windows[row].record * shift_ - begin;
    for (size_t i = 0; i < size_; ++i) numbers[from + i * stride_] = 0;
  }
  for (uint64_t place = 0; place < places; ++place) {
    if (numbers[place] == kUnused) continue;
    numbers[place] = static_cast<uint32_t>(elements.ids.size());
    elements.ids.push_back({.epoch = first.epoch, .record = begin + place});
  }
  for (const uint32_t row : rows) {
    const uint64_t from = windows[row].record * shift_ - begin;
    uint32_t* const at = elements.at.data() + row * size_;
    for (size_t i = 0; i < size_; ++i) at[i] = numbers[from + i * stride_];
  }
}

void SampleWindows::PlaceApart(std::span<const SampleId> windows, std::span<const uint32_t> rows,
                               WindowElements& elements) const {
  for (const uint32_t row : rows) {
    const SampleId& window = windows[row];
    uint32_t* const at = elements.at.data() + row * size_;
    for (size_t i = 0; i < size_; ++i) {
      at[i] = static_cast<uint32_t>(elements.ids.size());
      elements.ids.push_back(
          {.epoch = window.epoch, .record = window.record * shift_ + i * stride_});
    }
  }
}

// The elements are located in their order, in which an order is fastest.
void SampleWindows::Locate(std::span<const SampleId> windows, WindowElements& elements) const {
  elements.ids.clear();
  elements.at.resize(windows.size() * size_);
  std::vector<uint32_t> rows(windows.size());
  std::iota(rows.begin(), rows.end(), 0u);
  const auto place = [&](uint32_t row) {
    return std::pair(windows[row].epoch, windows[row].record);
  };
  if (!std::ranges::is_sorted(rows, {}, place)) std::ranges::sort(rows, {}, place);
  const auto are_apart = [&](uint32_t row, uint32_t next) {
    return windows[next].epoch != windows[row].epoch ||
           (windows[next].record - windows[row].record) * shift_ >= span_;
  };
  for (auto begin = rows.begin(); begin != rows.end();) {
    auto end = std::adjacent_find(begin, rows.end(), are_apart);
    if (end != rows.end()) ++end;
    PlaceTogether(windows, {begin, end}, elements);
    begin = end;
  }
  elements_->Locate(elements.ids, elements.ids);
}

}  // namespace millrace::pipeline
