#include "tests/pipeline/cuda/fake_cuda.h"
#include "tests/pipeline/device/device_conformance.h"
#include "tests/pipeline/device/fake_device.h"

namespace millrace::pipeline {
namespace {

DeviceUnderTest FakeUnderTest(bool automatic) {
  const auto device = std::make_shared<FakeDevice>(automatic);
  return {.device = std::shared_ptr<Device>(device),
          .read_back = [device](void* host, const void* memory, size_t bytes, void* stream) {
            const absl::Status status = device->Synchronize(stream);
            std::memcpy(host, memory, bytes);
            return status;
          }};
}

INSTANTIATE_TEST_SUITE_P(FakeDevice, DeviceConformanceTest,
                         testing::Values([] { return FakeUnderTest(true); },
                                         [] { return FakeUnderTest(false); }));

// A CUDA device on the fake driver: 0 has memory pools, 1 has none.
DeviceUnderTest CudaUnderTest(int ordinal) {
  return {.device = MakeCudaDevice(ordinal),
          .read_back = [](void* host, const void* memory, size_t bytes, void*) {
            std::memcpy(host, memory, bytes);
            return absl::OkStatus();
          }};
}

INSTANTIATE_TEST_SUITE_P(FakeCuda, DeviceConformanceTest,
                         testing::Values([] { return CudaUnderTest(0); },
                                         [] { return CudaUnderTest(1); }));

}  // namespace
}  // namespace millrace::pipeline
