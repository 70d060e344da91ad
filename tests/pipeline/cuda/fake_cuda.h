#ifndef MILLRACE_TESTS_PIPELINE_CUDA_FAKE_CUDA_H_
#define MILLRACE_TESTS_PIPELINE_CUDA_FAKE_CUDA_H_

#include <gmock/gmock.h>

#include <cstdint>
#include <cstdlib>

#include "base/loaded_library.h"
#include "pipeline/cuda/types.h"
#include "tests/pipeline/cuda/fake_driver.h"

// For programs that millrace_use_fake_cuda (CMakeLists.txt) gives the path of the fake driver.

namespace millrace::pipeline {

// Set before any test loads a driver.
inline const bool kFakeCudaIsNamed = setenv("MILLRACE_CUDA_LIBRARY", FAKE_CUDA, 1) == 0;

// The questions of fake_driver.h, by name.
struct FakeCuda {
  decltype(fake_cuda_live)* live = nullptr;
  decltype(fake_cuda_calls)* calls = nullptr;
  decltype(fake_cuda_fail)* fail = nullptr;
  decltype(fake_cuda_lose)* lose = nullptr;
  decltype(fake_cuda_hold)* hold = nullptr;
  decltype(fake_cuda_capture)* capture = nullptr;
  decltype(fake_cuda_misuses)* misuses = nullptr;
  decltype(fake_cuda_reset)* reset = nullptr;
  cuda::Result (*get_current)(cuda::ContextHandle*) = nullptr;
};

inline const FakeCuda& TheFakeCuda() {
  static const FakeCuda fake = [] {
    const auto library = LoadedLibrary::Load(FAKE_CUDA, "no fake driver", "build it");
    FakeCuda found;
    EXPECT_TRUE(library.ok()) << library.status();
    EXPECT_TRUE(library->Find("fake_cuda_live", found.live).ok());
    EXPECT_TRUE(library->Find("fake_cuda_calls", found.calls).ok());
    EXPECT_TRUE(library->Find("fake_cuda_fail", found.fail).ok());
    EXPECT_TRUE(library->Find("fake_cuda_lose", found.lose).ok());
    EXPECT_TRUE(library->Find("fake_cuda_hold", found.hold).ok());
    EXPECT_TRUE(library->Find("fake_cuda_capture", found.capture).ok());
    EXPECT_TRUE(library->Find("fake_cuda_misuses", found.misuses).ok());
    EXPECT_TRUE(library->Find("fake_cuda_reset", found.reset).ok());
    EXPECT_TRUE(library->Find("cuCtxGetCurrent", found.get_current).ok());
    return found;
  }();
  return fake;
}

// The driver of the program is the fake one. Each test begins and ends with nothing live in it.
class FakeCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    fake_.lose(0);
    fake_.capture(0);
    fake_.reset();
    ASSERT_EQ(fake_.live(nullptr), 0);
  }
  void TearDown() override {
    for (const char* kind : {"memory", "host_memory", "streams", "events", "context_0", "context_1",
                             "pushed", "relaxed"}) {
      EXPECT_EQ(fake_.live(kind), 0) << kind;
    }
    EXPECT_EQ(fake_.misuses(), 0);
    fake_.lose(0);
  }
  void Fail(const char* function, cuda::Result error, int nth = 1) {
    fake_.fail(function, nth, static_cast<int>(error));
  }

  const FakeCuda& fake_ = TheFakeCuda();
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_CUDA_FAKE_CUDA_H_
