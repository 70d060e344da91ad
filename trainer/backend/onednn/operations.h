#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_OPERATIONS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_OPERATIONS_H_

#include <dnnl.hpp>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace::trainer {

// Primitives with their arguments, and kernels of our own, run one after another.
class OperationList {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  void Add(dnnl::primitive primitive, Arguments arguments) {
    operations_.emplace_back([primitive = std::move(primitive), arguments = std::move(arguments)](
                                 dnnl::stream& stream) { primitive.execute(stream, arguments); });
  }
  // A kernel on memory that the primitives before it have written.
  void AddKernel(std::function<void()> kernel) {
    operations_.emplace_back([kernel = std::move(kernel)](dnnl::stream& stream) {
      stream.wait();
      kernel();
    });
  }
  void Run(dnnl::stream& stream) const {
    for (const auto& operation : operations_) operation(stream);
  }

 private:
  std::vector<std::function<void(dnnl::stream&)>> operations_;
};

// The operations of one layer.
struct CompiledLayer {
  OperationList forward;
  OperationList gradients;  // gradients of the parameters; before `data`
  OperationList data;       // the gradients of the layer's inputs
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_OPERATIONS_H_
