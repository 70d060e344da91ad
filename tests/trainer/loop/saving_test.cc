// Checkpoints are written while the steps go on.

#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>

#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"

namespace millrace::trainer {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr auto kHangGuard = std::chrono::minutes(2);

class SavingTest : public TrainTest {
 protected:
  SavingTest() {
    change_parts_ = [this](TrainParts& parts, const collectives::Communicator&) {
      parts.write_checkpoint = write_;
    };
    adjust_ = [this](TrainOptions& options, const collectives::Communicator& communicator) {
      if (communicator.rank() != 0) return;
      options.progress = [this](uint64_t done, uint64_t) {
        const std::lock_guard lock(steps_mu_);
        steps_done_ = done;
        stepped_.notify_all();
      };
    };
  }
  // Waits until `step` is done; false if that takes too long.
  bool AwaitStep(uint64_t step) {
    std::unique_lock lock(steps_mu_);
    return stepped_.wait_for(lock, kHangGuard, [&] { return steps_done_ >= step; });
  }

  WriteFunction write_;
  std::mutex steps_mu_;
  std::condition_variable stepped_;
  uint64_t steps_done_ = 0;
};

// Saves begin at steps 3, 6, 9 and 10. The first file waits for a step in which no save begins.
TEST_F(SavingTest, NoStepWaitsForTheFileAndItHoldsTheStateOfItsStep) {
  ASSERT_TRUE(Run(2).ok());
  std::map<std::string, TensorFile> expected;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
    expected[entry.path().filename()] = Load(entry.path());
  }
  RemoveCheckpoints();
  bool first = true;
  write_ = [&](int fd, const void* data, size_t size) -> ssize_t {
    if (std::exchange(first, false)) {
      EXPECT_TRUE(AwaitStep(4));
    }
    return write(fd, data, size);
  };
  const auto outcome = Run(2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(first);
  for (const auto& [name, file] : expected) {
    const TensorFile actual = Load(folder_ / "checkpoints" / name);
    EXPECT_EQ(actual.metadata, file.metadata);
    for (const auto& [tensor, value] : file.tensors) {
      EXPECT_EQ(actual.tensors.at(tensor).data, value.data) << name << ", " << tensor;
    }
  }
}

TEST_F(SavingTest, AFileThatCannotBeWrittenEndsAllRanksAtTheNextSave) {
  write_ = [](int, const void*, size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  EXPECT_FALSE(Run(2).ok());
  for (const absl::Status& status : statuses_) {
    EXPECT_MESSAGE(status, absl::StatusCode::kResourceExhausted, "every-rank");
  }
  EXPECT_EQ(steps_.size(), 6u);
}

TEST_F(SavingTest, AFileThatCannotBeWrittenAtTheEndIsAnError) {
  int files = 0;
  WriteJob("checkpoints", "", "epochs: 1");
  write_ = [&](int fd, const void* data, size_t size) -> ssize_t {
    if (size == sizeof(uint64_t)) ++files;  // the first write of each
    if (files < 2) return write(fd, data, size);
    errno = ENOSPC;
    return -1;
  };
  EXPECT_EQ(Run(2).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(fs::exists(folder_ / "checkpoints/checkpoint-00000003.safetensors"));
}

TEST_F(SavingTest, TheBestStayBesideTheNewest) {
  WriteJob("checkpoints");
  std::ifstream job(folder_ / "job.pbtxt");
  std::string text(std::istreambuf_iterator<char>(job), {});
  text.replace(text.find("every_steps: 3 keep: 100"), 24, "every_steps: 1 keep: 1 keep_best: 2");
  Write(folder_ / "job.pbtxt", text);
  ASSERT_TRUE(Run(2).ok());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("checkpoint-00000005.safetensors",
                                                     "checkpoint-00000010.safetensors"))
      << "those with an evaluation";
  EXPECT_THAT(lines_, Contains(HasSubstr("the newest 1 and the best 2 stay")));
}

}  // namespace
}  // namespace millrace::trainer
