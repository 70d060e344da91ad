#ifndef MILLRACE_TRAINER_BACKEND_CUDA_PROGRAM_BUILDER_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_PROGRAM_BUILDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/backend/cuda/buffers.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/operations.h"

namespace millrace::trainer::cuda {

// Gives an operation the places of its memory, and notes what it does there. Places are null until
// the buffers have theirs, and of parts that are none.
class Access {
 public:
  explicit Access(const Buffers& buffers) : buffers_(buffers) {}

  template <typename T = void>
  const T* Read(const Part& part) {
    if (part) reads_.push_back(part);
    return static_cast<const T*>(static_cast<const void*>(buffers_.At(part)));
  }
  template <typename T = void>
  T* Write(const Part& part) {
    if (part) writes_.push_back(part);
    return static_cast<T*>(static_cast<void*>(buffers_.At(part)));
  }
  // Reads and writes.
  template <typename T = void>
  T* Update(const Part& part) {
    Read(part);
    return Write<T>(part);
  }

  const std::vector<Part>& reads() const { return reads_; }
  const std::vector<Part>& writes() const { return writes_; }

 private:
  const Buffers& buffers_;
  std::vector<Part> reads_;
  std::vector<Part> writes_;
};

// An operation before its memory has a place. `bind` is called twice: to see what it uses, and with
// the places.
struct Draft {
  using Run = std::function<absl::Status(Device& device)>;

  std::string name;
  std::function<Run(Access& memory)> bind;
  When when = When::kAlways;
  int value = -1;
  bool measures = false;
};

// Collects the operations of a program in the order in which they run.
class ProgramBuilder {
 public:
  enum class Phase { kInputs, kForward, kLosses, kBackward };

  explicit ProgramBuilder(Buffers& buffers) : buffers_(buffers) {}

  // Operations from now on belong to `phase`. Phases ascend.
  void Begin(Phase phase);
  void Add(Draft draft);
  // The same of a kernel, whose arguments `make(memory)` makes.
  template <typename Args, typename Make>
  void AddKernel(Draft draft, Kernel<Args> Kernels::*kernel, Make make) {
    draft.bind = [kernel, make = std::move(make)](Access& memory) -> Draft::Run {
      Make now = make;
      return [kernel, args = now(memory)](Device& device) {
        return (device.kernels().*kernel)(device.stream(), args);
      };
    };
    Add(std::move(draft));
  }
  // Ends the segment: behind it, these gradients of parameters are complete.
  void Cut(std::vector<int> gradients);
  // Ends the segment with a sum over ranks of `sums`.
  void CutForSum(const Part& sums, int64_t channels, bool is_forward);

  // The time of the next operation, as Buffers counts.
  int64_t now() const { return now_; }
  // The program, in the places that the buffers have got.
  Program Bind() const;

 private:
  struct DraftSegment {
    std::vector<Draft> drafts;
    Part sums;
    int64_t channels = 0;
    bool is_forward = true;
    std::vector<int> gradients;
  };
  using DraftSegments = std::vector<DraftSegment>;

  DraftSegment& last() { return phases_[static_cast<size_t>(phase_)].back(); }
  std::vector<MemoryRange> RangesOf(const std::vector<Part>& parts) const;
  Operation BindOperation(const Draft& draft) const;
  Segment BindSegment(const DraftSegment& segment) const;
  std::vector<Segment> BindPhase(Phase phase) const;

  Buffers& buffers_;
  Phase phase_ = Phase::kInputs;
  int64_t now_ = 0;
  std::vector<DraftSegments> phases_ = std::vector<DraftSegments>(4, DraftSegments(1));
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_PROGRAM_BUILDER_H_
