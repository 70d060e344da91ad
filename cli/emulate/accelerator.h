#ifndef MILLRACE_CLI_EMULATE_ACCELERATOR_H_
#define MILLRACE_CLI_EMULATE_ACCELERATOR_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::cli {

// An accelerator as a benchmark describes it: it takes a nominal time for its samples.
struct Accelerator {
  std::string_view name;
  int batch = 0;               // samples of a step
  double compute_seconds = 0;  // seconds of a step

  double samples_per_second() const { return batch / compute_seconds; }
};

// ResNet-50 of MLPerf Storage v2.0 (mlcommons/storage, configs/dlio/workload/resnet50_{h100,a100}):
// "h100-storage", "a100-storage". The same batches at the rates per accelerator in MLPerf
// Training's results: "h100-train" (7,050 img/s), "a100-train" (3,180 img/s).
std::span<const Accelerator> Accelerators();
// Their names, in that order.
std::vector<std::string> AcceleratorNames();
// nullptr if there is none of that name.
const Accelerator* FindAccelerator(std::string_view name);

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_EMULATE_ACCELERATOR_H_
