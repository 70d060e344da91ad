#include "base/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host.h"
#include "base/metric_table.h"
#include "tests/messages.h"

namespace millrace {
namespace {

class NoIo : public IoEngine {
 public:
  void Submit(std::vector<ReadRequest> requests,
              std::function<void(std::vector<absl::Status>)> done) override {
    done(std::vector<absl::Status>(requests.size(), absl::UnimplementedError("no I/O")));
  }
};

ContextOptions GoodOptions() {
  ContextOptions options;
  options.threads = 2;
  options.io = std::make_shared<NoIo>();
  return options;
}

TEST(ContextOptions, ValidateNamesTheFirstBadField) {
  EXPECT_TRUE(GoodOptions().Validate().ok());
  const auto error = [](void (*spoil)(ContextOptions&)) {
    ContextOptions options = GoodOptions();
    spoil(options);
    return Context::Make(options).status();
  };
  EXPECT_MESSAGE(error([](ContextOptions& o) { o.threads = -1; }),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error([](ContextOptions& o) { o.threads = 5000; }),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error([](ContextOptions& o) { o.memory_budget_bytes = -1; }),
                 absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(error([](ContextOptions& o) { o.io = nullptr; }),
                 absl::StatusCode::kInvalidArgument);
}

TEST(Context, ZeroThreadsMeansTheUsableCores) {
  ContextOptions options = GoodOptions();
  options.threads = 0;
  const auto context = Context::Make(options);
  ASSERT_TRUE(context.ok());
  EXPECT_EQ((*context)->workers().num_threads(), ReadCores().usable);
}

TEST(Context, CarriesWhatItWasGiven) {
  ContextOptions options = GoodOptions();
  options.memory_budget_bytes = 12345;
  IoEngine* io = options.io.get();
  const auto context = Context::Make(std::move(options));
  ASSERT_TRUE(context.ok());
  EXPECT_EQ((*context)->memory_budget_bytes(), 12345);
  EXPECT_EQ(&(*context)->io(), io);
  (*context)->metrics().counter(metric::kBatches).Add(2);
  EXPECT_EQ((*context)->metrics().Snapshot().at("millrace_batches_total"), 2);
}

TEST(Context, LogReachesTheSinkAndIsDroppedWithoutOne) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  ContextOptions options = GoodOptions();
  options.log = [&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); };
  (*Context::Make(options))->Log(LogLevel::kWarning, "careful");
  EXPECT_THAT(seen, testing::ElementsAre(testing::Pair(LogLevel::kWarning, "careful")));
  (*Context::Make(GoodOptions()))->Log(LogLevel::kError, "to nobody");
}

TEST(Context, DestructionWaitsForItsTasks) {
  std::atomic<int> runs = 0;
  {
    const auto context = *Context::Make(GoodOptions());
    for (int i = 0; i < 100; ++i) context->workers().Enqueue([&] { runs.fetch_add(1); });
  }
  EXPECT_EQ(runs.load(), 100);
}

TEST(Context, AForkedChildIsToldToMakeItsOwn) {
  const auto context = *Context::Make(GoodOptions());
  EXPECT_TRUE(context->CheckNotForked().ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Only async-signal-safe ways out: the worker threads are not in this process.
    _exit(context->CheckNotForked().code() == absl::StatusCode::kFailedPrecondition ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(context->CheckNotForked().ok());
}

// Whoever forks and exits may drop what the parent had.
TEST(Context, AForkedChildMayDropIt) {
  auto context = *Context::Make(GoodOptions());
  context->workers().Enqueue([] {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // the test's way to see that it hangs
    context.reset();
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace millrace
