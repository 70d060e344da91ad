#ifndef MILLRACE_TRAINER_BACKEND_CUDA_OPERATIONS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/backend/cuda/device.h"

// A compiled network: the work that a device is given in a step, in its order, with the memory that
// each piece of it uses.

namespace millrace::trainer::cuda {

// Bytes of a device's memory, with the name of what they hold there and then: "conv1", "gradient of
// conv1", "parameter conv1/weights", "scratch".
struct MemoryRange {
  const void* memory = nullptr;
  size_t bytes = 0;
  std::string value;
};

// The steps in which an operation runs.
enum class When {
  kAlways,
  kParameters,        // it makes gradients of parameters alone, and they are wanted
  kScaledParameters,  // the same, and there is a loss scale
};

// A kernel, a product or a copy. Nothing outside `writes` changes, and nothing that it writes
// depends on memory of the device outside `reads`; the host's memory, and fields of the step that
// are on the device already, are not among them.
struct Operation {
  std::string name;  // "conv1: forward"
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
  std::function<absl::Status(Device& device)> run;
  When when = When::kAlways;
  int value = -1;         // the value of the model that it completes; -1: none
  bool measures = false;  // true if it may run once in a step
};

// Sums of a synchronized batch norm, which become those of all ranks by way of the host.
struct RankSums {
  MemoryRange sums;  // NormArgs::sums
  int64_t channels = 0;
  bool is_forward = true;
};

// Operations that the device does one after another, without the host between them.
struct Segment {
  std::vector<Operation> operations;
  std::optional<RankSums> exchange;  // behind the operations
  std::vector<int> gradients;        // parameters whose gradients are complete behind that
};

// A step. Segments of `forward` and `backward` may be captured.
struct Program {
  Segment inputs;                 // copies from the host
  std::vector<Segment> forward;   // all layers
  Segment losses;                 // the types of the targets are known in the step alone
  std::vector<Segment> backward;  // cut behind each parameter's gradient
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_OPERATIONS_H_
