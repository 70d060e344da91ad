// Kernels have the same bits in every run, at once or kept and run later.

#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "tests/trainer/backend/cuda/host_kernels.h"
#include "tests/trainer/backend/cuda/host_stream.h"
#include "tests/trainer/backend/cuda/kernel_cases.h"

namespace millrace::trainer::cuda {
namespace {

TEST(KernelBitsTest, EveryRunHasTheSame) {
  std::vector<KernelCase> first = AllKernelCases();
  std::vector<KernelCase> second = AllKernelCases();
  const std::vector<KernelCase> before = AllKernelCases();
  for (size_t i = 0; i < first.size(); ++i) {
    const absl::Status status = first[i].RunHere(HostKernels(), nullptr);
    ASSERT_TRUE(status.ok()) << first[i].name << ": " << status;
    std::vector<std::function<absl::Status()>> kept;
    HostStream stream{&kept};
    ASSERT_TRUE(second[i].RunHere(HostKernels(), &stream).ok());
    ASSERT_FALSE(kept.empty()) << first[i].name;
    bool has_changed = false;
    for (size_t k = 0; k < first[i].memory.size(); ++k) {
      has_changed = has_changed || first[i].memory[k].bytes() != before[i].memory[k].bytes();
      EXPECT_EQ(second[i].memory[k].bytes(), before[i].memory[k].bytes()) << first[i].name;
    }
    EXPECT_TRUE(has_changed) << first[i].name;
    for (const auto& work : kept) ASSERT_TRUE(work().ok());
    for (size_t k = 0; k < first[i].memory.size(); ++k) {
      EXPECT_EQ(second[i].memory[k].bytes(), first[i].memory[k].bytes())
          << first[i].name << ", memory " << k;
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::cuda
