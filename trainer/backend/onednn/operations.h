#ifndef MILLRACE_TRAINER_BACKEND_ONEDNN_OPERATIONS_H_
#define MILLRACE_TRAINER_BACKEND_ONEDNN_OPERATIONS_H_

#include <dnnl.hpp>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status.h"

namespace millrace::trainer {

// Primitives with their arguments, and kernels of our own, run one after another.
class OperationList {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  void Add(dnnl::primitive primitive, Arguments arguments) {
    const char* code = nullptr;
    dnnl_primitive_desc_query(primitive.get_primitive_desc(), dnnl_query_impl_info_str, 0, &code);
    if (code != nullptr) codes_.emplace_back(code);
    operations_.emplace_back(
        [primitive = std::move(primitive), arguments = std::move(arguments)](dnnl::stream& stream) {
          primitive.execute(stream, arguments);
          return absl::OkStatus();
        });
  }
  // A kernel on memory that the primitives before it have written.
  void AddKernel(std::function<void()> kernel) {
    AddExchange([kernel = std::move(kernel)] {
      kernel();
      return absl::OkStatus();
    });
  }
  // A kernel that talks to other ranks, and may fail.
  void AddExchange(std::function<absl::Status()> kernel) {
    operations_.emplace_back([kernel = std::move(kernel)](dnnl::stream& stream) {
      stream.wait();
      return kernel();
    });
  }
  // Keeps memory of which an argument is a part.
  void Keep(dnnl::memory memory) { kept_.push_back(std::move(memory)); }
  // Stops at the first operation that fails.
  absl::Status Run(dnnl::stream& stream) const {
    for (const auto& operation : operations_) MILLRACE_RETURN_IF_ERROR(operation(stream));
    return absl::OkStatus();
  }
  // The library's name of the code of each primitive ("brgconv:avx512_core").
  const std::vector<std::string>& codes() const { return codes_; }

 private:
  std::vector<std::function<absl::Status(dnnl::stream&)>> operations_;
  std::vector<std::string> codes_;
  std::vector<dnnl::memory> kept_;
};

// The operations of one layer.
struct CompiledLayer {
  OperationList measure;    // measures or draws by the batch, in training; before `forward`
  OperationList forward;    // may run again, with the same result
  OperationList gradients;  // gradients of the parameters; before `data`
  OperationList data;       // the gradients of the layer's inputs
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BACKEND_ONEDNN_OPERATIONS_H_
