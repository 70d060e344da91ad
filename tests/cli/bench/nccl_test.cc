// `millrace bench --backend nccl` over a fake libnccl, with the host for a device.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/commands/command.h"
#include "cli/exit.h"
#include "cli/flags/command_line.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/collectives/nccl/nccl_fixture.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome RunBench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"millrace", "bench"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  CommandLine line("millrace", "", [] { return std::string(); });
  AddBench(line.top());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = line.Run(static_cast<int>(argv.size()), argv.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

Outcome RunOverNccl(const std::string& operation, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {operation, "--backend", "nccl", "--max-bytes",
                                        "4096",    "--factor",  "8",    "--warmup",
                                        "1",       "--repeats", "2",    "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunBench(arguments);
}

class NcclBenchTest : public testing::Test {
 protected:
  void SetUp() override { setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL, 1); }
  void TearDown() override { unsetenv("MILLRACE_NCCL_LIBRARY"); }
};

TEST_F(NcclBenchTest, EveryOperationIsRight) {
  for (const char* operation : {"allreduce", "reduce-scatter", "all-gather", "broadcast", "reduce",
                                "all-to-all", "send-recv"}) {
    for (const char* ranks : {"2", "3"}) {
      const Outcome outcome = RunOverNccl(operation, {"--ranks", ranks});
      ASSERT_EQ(outcome.code, kDone) << operation << " " << outcome.err;
      const auto json = nlohmann::json::parse(outcome.out);
      EXPECT_EQ(json["backend"], "nccl");
      EXPECT_EQ(json["ranks"], std::stoi(ranks));
      ASSERT_FALSE(json["rows"].empty());
      for (const auto& row : json["rows"]) EXPECT_EQ(row["wrong"], 0) << operation;
    }
  }
}

TEST_F(NcclBenchTest, WrongElementsFailTheCommand) {
  auto& spoils_on = collectives::ControlOf(FAKE_NCCL).spoils_on;
  spoils_on = 1;
  const Outcome outcome = RunOverNccl("allreduce", {"--ranks", "2"});
  spoils_on = -1;
  EXPECT_EQ(outcome.code, kFailed);
  // One of each size.
  EXPECT_THAT(outcome.err, HasSubstr("error: 4 elements are wrong"));
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["rows"].size(), 4);
  for (const auto& row : json["rows"]) EXPECT_EQ(row["wrong"], 1);
}

TEST_F(NcclBenchTest, OneRankConnectsByTheFactory) {
  const Outcome outcome = RunBench({"allreduce", "--backend", "nccl", "--max-bytes", "64"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 ranks, nccl: 2.28.9; single: "));
}

TEST_F(NcclBenchTest, AnAbsentLibraryIsSaid) {
  setenv("MILLRACE_NCCL_LIBRARY", "/no/such/libnccl.so", 1);
  for (const char* ranks : {"1", "2"}) {
    const Outcome outcome = RunOverNccl("allreduce", {"--ranks", ranks});
    EXPECT_EQ(outcome.code, kFailed);
    EXPECT_THAT(outcome.err, HasSubstr("no NCCL: tried /no/such/libnccl.so"));
  }
}

TEST_F(NcclBenchTest, AnOldLibraryIsSaid) {
  setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL_OLD, 1);
  const Outcome outcome = RunOverNccl("allreduce", {"--ranks", "2"});
  EXPECT_EQ(outcome.code, kFailed);
  EXPECT_THAT(outcome.err, HasSubstr("version 2.17.1; wanted is 2.18.0"));
}

TEST_F(NcclBenchTest, ALibraryThatAllocatesNothingIsSaid) {
  setenv("MILLRACE_NCCL_LIBRARY", FAKE_NCCL_BARE, 1);
  const Outcome outcome = RunOverNccl("allreduce", {"--ranks", "2"});
  EXPECT_EQ(outcome.code, kFailed);
  EXPECT_THAT(outcome.err, HasSubstr("NCCL 2.18.5 allocates no memory"));
}

TEST_F(NcclBenchTest, AveragesThatMayRoundAreNotChecked) {
  const std::vector<std::string> average = {"--ranks", "3", "--op", "average"};
  const Outcome refused = RunOverNccl("allreduce", average);
  EXPECT_EQ(refused.code, kFailed);
  EXPECT_THAT(refused.err, HasSubstr("give --no-check"));
  const Outcome taken = RunOverNccl("allreduce", {"--ranks", "3", "--op", "average", "--no-check"});
  EXPECT_EQ(taken.code, kDone) << taken.err;
}

TEST_F(NcclBenchTest, ThreadsAreNotConnectedByANetwork) {
  const Outcome outcome = RunBench({"allreduce", "--backend", "tcp", "--ranks", "2"});
  EXPECT_EQ(outcome.code, kFailed);
  EXPECT_THAT(outcome.err, HasSubstr("backend 'tcp' does not connect"));
}

}  // namespace
}  // namespace millrace::cli
