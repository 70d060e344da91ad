#ifndef MILLRACE_TRAINER_BACKEND_CUDA_ARENA_LAYOUT_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_ARENA_LAYOUT_H_

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/optimizer/slots.h"

namespace millrace::trainer::cuda {

// The memory in which backward writes the gradient of a parameter, and in which ranks sum it.
struct GradientPlace {
  float* memory = nullptr;
  size_t bucket = 0;  // of the reducer
};

// The places of a model's parameters in arenas, in elements. Gradients that lie behind one another
// in a bucket have their weights and slots behind one another too, with the same gaps: so that one
// kernel updates a bucket.
struct ArenaLayout {
  // A run of parameters. Element k of it has its gradient at (that of `first`)[k].
  struct Region {
    size_t bucket = 0;
    size_t first = 0;  // the parameter at its begin
    size_t begin = 0;  // in an arena; a multiple of kAlignment
    size_t size = 0;   // with the gaps
    std::vector<size_t> parameters;
  };
  static constexpr size_t kAlignment = 64;  // elements

  std::vector<Region> regions;    // in the order of the buckets
  std::vector<size_t> offsets;    // of each parameter in an arena
  std::vector<size_t> region_of;  // of each parameter
  size_t size = 0;                // of an arena

  // The offset of a parameter in its region.
  size_t offset_in_region(size_t parameter) const {
    return offsets[parameter] - regions[region_of[parameter]].begin;
  }
};

// Without gradients, the parameters lie in their order.
ArenaLayout LayOut(const Model& model, std::span<const GradientPlace> gradients);

// The parameter of each bucket whose gradient backward makes last: the first of the model's.
std::vector<int> LastOfBuckets(const ArenaLayout& layout);

// The places of a rank's own pieces in the arena of a slot. Of each region the rank has a range.
struct SlotLayout {
  // Elements [begin, end) of a region, which begin at `offset` in the arena.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
    size_t offset = 0;
  };
  std::vector<Range> ranges;  // by region
  std::vector<Piece> pieces;  // by parameter; empty ones where the rank has none
  size_t size = 0;            // of an arena
};

// `pieces` are of elements as a device has them, at most one of each parameter.
SlotLayout LayOutSlots(const ArenaLayout& layout, std::span<const Piece> pieces);

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_ARENA_LAYOUT_H_
