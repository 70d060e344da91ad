#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_SEGMENTS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/backend/arena.h"

// Activation checkpointing (Chen et al. 2016): layers are cut into segments. Values that one
// segment alone uses are lost after the forward pass; before the segment runs backward, its layers
// run forward again. The last segment runs backward at once, so that it loses nothing.

namespace millrace::trainer {

// The buffers that a layer uses, by their numbers.
struct LayerUses {
  std::vector<size_t> forward;  // reads and writes
  std::vector<size_t> results;  // writes of the forward pass
  std::vector<size_t> backward;
  int64_t multiply_adds = 0;  // of the forward pass
};

// The buffers that the passes of a network use.
struct BufferUses {
  std::vector<size_t> bytes;   // of each buffer
  std::vector<size_t> inputs;  // written before the first layer
  std::vector<LayerUses> layers;
  std::vector<size_t> losses;      // used between the passes
  std::vector<size_t> afterwards;  // read after the passes, unless they are lost
  std::vector<size_t> outputs;     // made by the passes, and read after them: never lost
};

// Layers that run backward one after another.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  std::vector<size_t> again;  // layers that run forward once more before, in this order
};

// The order in which a network's layers run: all forward, then each segment backward, the last one
// first.
struct Segmentation {
  std::vector<Segment> segments;
  std::vector<bool> is_lost;  // by buffer: true if its content is lost between the passes
};

// Cuts before the layers `cuts`, which ascend.
Segmentation CutLayers(const BufferUses& uses, const std::vector<size_t>& cuts);

// The segmentation that computes least again, of those that need at most 5 % more memory than the
// best of them.
Segmentation ChooseSegmentation(const BufferUses& uses);

// The lives of all buffers in the passes. A buffer that is lost lives twice; another one that is
// read after the passes lives until then.
std::vector<BufferLife> LivesOf(const BufferUses& uses, const Segmentation& segmentation);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_SEGMENTS_H_
