#ifndef MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_PARTS_H_
#define MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_PARTS_H_

#include <map>
#include <vector>

#include "trainer/backend/cuda/buffers.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/backend/cuda/kernels/kernels.h"
#include "trainer/backend/cuda/program_builder.h"
#include "trainer/backend/cuda/shared_products.h"
#include "trainer/backend/cuda/tensors.h"
#include "trainer/backend/cuda/values.h"

namespace millrace::trainer::cuda {

// The numbers of a step, its samples and its padding, which lie one after another so that one copy
// brings them; and the same in page-locked memory.
struct BatchParts {
  Part whole;
  Part step;
  Part ids;
  Part valid;
  Memory host;
};

// What a forward pass leaves behind for the host: sums of the losses, then statistics; and the same
// in page-locked memory.
struct ResultParts {
  Part whole;
  std::vector<Part> losses;      // LossSums, by loss
  std::vector<Part> statistics;  // by buffer of the model
  Memory host;
};

// What all layers of a network share while it is compiled.
struct NetworkParts {
  NetworkParts(Device& device_in, SharedProducts& products_in, const Compiled& compiled_in,
               const DeviceTensors& tensors, const BackendOptions& options_in);

  Device& device;
  SharedProducts& products;
  const Compiled compiled;
  const BackendOptions options;
  Buffers buffers;
  ProgramBuilder program{buffers};
  Values values;

  StepInput step;  // of the last Forward
  // By parameter.
  std::vector<Part> masters;
  std::vector<Tensor> weights;  // as products read them; none of others
  std::vector<Part> gradients;  // none: nothing is trained
  std::vector<Part> running;    // by buffer of the model
  BatchParts batch;
  ResultParts results;
  std::vector<Tensor> loss_gradients;  // by loss; none: none is needed
  std::vector<Part> input_scales;      // by input: float32 scales, then shifts; none: it has none
  Part scratch;
  Part workspace;
  std::map<size_t, Tensor> copied_weights;  // by layer: padded or folded
  std::map<size_t, Part> saved;             // by layer: places of maxima, or moments of a batch
  std::vector<bool> is_written;             // by value: true once its gradient has a first term

  // The fields of BatchRows, as `memory` is to be told.
  BatchRows Rows(Access& memory, bool reads_valid, bool reads_step) const;
  // 1 / loss scale.
  const float* Factor(Access& memory) const;
};

}  // namespace millrace::trainer::cuda

#endif  // MILLRACE_TRAINER_BACKEND_CUDA_NETWORK_PARTS_H_
