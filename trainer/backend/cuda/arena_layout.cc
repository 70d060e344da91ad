#include "trainer/backend/cuda/arena_layout.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace millrace::trainer::cuda {
namespace {

// Gradients that lie further apart are no run.
constexpr size_t kMostGapBytes = 64;
// Elements between parameters that have no gradients, so that vectors load from each.
constexpr size_t kApart = 16;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

size_t CountOf(const Model& model, size_t parameter) {
  return static_cast<size_t>(model.parameters[parameter].shape.num_elements());
}

uintptr_t AddressOf(const GradientPlace& place) {
  return reinterpret_cast<uintptr_t>(place.memory);
}

// The parameters by bucket and address.
std::vector<size_t> OrderOf(std::span<const GradientPlace> gradients) {
  std::vector<size_t> order(gradients.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const GradientPlace& left = gradients[a];
    const GradientPlace& right = gradients[b];
    return left.bucket != right.bucket ? left.bucket < right.bucket
                                       : AddressOf(left) < AddressOf(right);
  });
  return order;
}

// True if `next` lies behind `last`, whose gradient ends at `end`.
bool GoesOn(const GradientPlace& last, uintptr_t end, const GradientPlace& next) {
  return last.bucket == next.bucket && AddressOf(next) >= end &&
         AddressOf(next) - end < kMostGapBytes;
}

ArenaLayout OfGradients(const Model& model, std::span<const GradientPlace> gradients) {
  ArenaLayout layout;
  layout.offsets.resize(gradients.size());
  layout.region_of.resize(gradients.size());
  uintptr_t end = 0;
  for (const size_t i : OrderOf(gradients)) {
    const GradientPlace& place = gradients[i];
    if (layout.regions.empty() ||
        !GoesOn(gradients[layout.regions.back().parameters.back()], end, place)) {
      layout.size = RoundUp(layout.size, ArenaLayout::kAlignment);
      layout.regions.push_back({place.bucket, i, layout.size, 0, {}});
    }
    ArenaLayout::Region& region = layout.regions.back();
    const size_t begin = (AddressOf(place) - AddressOf(gradients[region.first])) / sizeof(float);
    region.parameters.push_back(i);
    region.size = begin + CountOf(model, i);
    layout.offsets[i] = region.begin + begin;
    layout.region_of[i] = layout.regions.size() - 1;
    layout.size = region.begin + region.size;
    end = AddressOf(place) + CountOf(model, i) * sizeof(float);
  }
  return layout;
}

ArenaLayout OfParameters(const Model& model) {
  ArenaLayout layout;
  if (model.parameters.empty()) return layout;
  ArenaLayout::Region& region = layout.regions.emplace_back();
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const size_t begin = RoundUp(layout.size, kApart);
    region.parameters.push_back(i);
    layout.offsets.push_back(begin);
    layout.region_of.push_back(0);
    layout.size = begin + CountOf(model, i);
  }
  region.size = layout.size;
  return layout;
}

}  // namespace

ArenaLayout LayOut(const Model& model, std::span<const GradientPlace> gradients) {
  return gradients.empty() ? OfParameters(model) : OfGradients(model, gradients);
}

std::vector<int> LastOfBuckets(const ArenaLayout& layout) {
  std::map<size_t, int> last;
  for (const ArenaLayout::Region& region : layout.regions) {
    for (const size_t parameter : region.parameters) {
      const auto number = static_cast<int>(parameter);
      const auto [found, is_new] = last.try_emplace(region.bucket, number);
      if (!is_new) found->second = std::min(found->second, number);
    }
  }
  std::vector<int> parameters;
  for (const auto& [bucket, parameter] : last) parameters.push_back(parameter);
  return parameters;
}

SlotLayout LayOutSlots(const ArenaLayout& layout, std::span<const Piece> pieces) {
  SlotLayout slots;
  slots.ranges.resize(layout.regions.size());
  slots.pieces.resize(layout.offsets.size());
  for (const Piece& piece : pieces) {
    slots.pieces[piece.parameter] = piece;
    const size_t start = layout.offset_in_region(piece.parameter);
    SlotLayout::Range& range = slots.ranges[layout.region_of[piece.parameter]];
    const bool is_first = range.begin == range.end;
    range.begin = is_first ? start + piece.begin : std::min(range.begin, start + piece.begin);
    range.end = std::max(range.end, start + piece.end);
  }
  for (SlotLayout::Range& range : slots.ranges) {
    slots.size = RoundUp(slots.size, ArenaLayout::kAlignment);
    range.offset = slots.size;
    slots.size += range.end - range.begin;
  }
  return slots;
}

}  // namespace millrace::trainer::cuda
