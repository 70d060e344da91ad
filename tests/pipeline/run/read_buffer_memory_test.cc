#include <cstddef>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "pipeline/run/read_buffer.h"
#include "tests/failing_new.h"

namespace millrace::pipeline {
namespace {

// A destructor frees buffers, and an exception would end the program.
TEST(ReadBufferMemoryTest, ToFreeTakesNone) {
  if (!kNewFails) GTEST_SKIP() << "new does not fail here";
  std::vector<ReadBuffer> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back(MakeReadBuffer(1));
  std::thread([&] {  // which has kept nothing yet
    const AllocationsLeft none(0);
    for (ReadBuffer& buffer : buffers) buffer.reset();
  })
      .join();
}

}  // namespace
}  // namespace millrace::pipeline
