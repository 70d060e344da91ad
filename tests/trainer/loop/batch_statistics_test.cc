#include "trainer/loop/batch_statistics.h"

#include <gmock/gmock.h>

#include "base/status.h"
#include "collectives/factory.h"
#include "tests/trainer/model/test_nets.h"

namespace millrace::trainer {
namespace {

// Of two ranks, the second of which has twice the rows in the first batch, and none in the second.
TEST(BatchStatisticsTest, EachBatchIsAveragedOnce) {
  const Model model = MakeModel(R"(layer { input_layer { shape: 1 } }
    layer { batch_norm { momentum: 0.5 } } layer { fully_connected { outputs: 2 } }
    layer { softmax_cross_entropy {} })");
  const absl::Status status =
      collectives::RunRanks(2, [&](collectives::Communicator& communicator) {
        const bool is_first = communicator.rank() == 0;
        BatchStatistics statistics;
        statistics.Add({{is_first ? 6.0f : 3.0f}, {is_first ? 1.0f : 4.0f}}, is_first ? 1 : 2);
        MILLRACE_RETURN_IF_ERROR(statistics.AverageOverRanks(communicator));
        statistics.Add({{8.0f}, {2.0f}}, is_first ? 1 : 0);
        MILLRACE_RETURN_IF_ERROR(statistics.AverageOverRanks(communicator));
        MILLRACE_RETURN_IF_ERROR(statistics.AverageOverRanks(communicator));
        TensorSet buffers = {{0.0f}, {1.0f}};
        statistics.Update(model, buffers);
        EXPECT_EQ(buffers, (TensorSet{{0.5f * 2.0f + 0.5f * 8.0f}, {0.5f * 2.0f + 0.5f * 2.0f}}));
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace millrace::trainer
