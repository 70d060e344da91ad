#include "trainer/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "tests/damaged_bytes.h"
#include "tests/messages.h"
#include "tests/sanitized.h"
#include "tests/temp_folder.h"
#include "tests/trainer/model/test_nets.h"
#include "trainer/checkpoint/safetensors.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteAll(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : model_(MakeModel(R"(layer { input_layer { shape: 2 } }
          layer { name: "out" fully_connected { outputs: 2 } }
          layer { softmax_cross_entropy {} })")),
        weights_(MakeInitialWeights(model_, 5)),
        slots_({{"momentum", MakeInitialWeights(model_, 6)}}),
        others_({{"momentum", weights_}}) {
    state_.step = 1234;
    state_.updates = 1230;
    state_.epoch = 3;
    state_.resume_token = std::string("token\0\xff", 7);
    state_.model_fingerprint = model_.Fingerprint();
    state_.plan_fingerprint = 0xfedcba9876543210u;
    state_.data_fingerprint = 2;
    state_.global_batch = 256;
  }

  absl::StatusOr<std::string> SaveIn(const CheckpointFolder& folder, const TensorSet& weights,
                                     const Slots& slots) const {
    const ModelTensors tensors = {model_, weights, slots, {}};
    return folder.Save(state_, {&tensors, 1});
  }
  std::string Save(uint64_t step, int keep = 100) {
    state_.step = step;
    auto path = SaveIn(CheckpointFolder(folder_, {keep}), weights_, slots_);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.ok() ? *path : "";
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const Model model_;
  const TensorSet weights_;
  const Slots slots_;
  const Slots others_;
  TrainState state_;
  const TempFolder scratch_;
  const std::string folder_ = scratch_ / "checkpoints";  // not made yet
};

TEST_F(CheckpointTest, RoundTripKeepsEveryBit) {
  const std::string path = Save(1234);
  EXPECT_EQ(fs::path(path).filename(), "checkpoint-00001234.safetensors");
  auto loaded = LoadCheckpoint(path, model_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->state, state_);
  EXPECT_EQ(loaded->weights, weights_);
  const auto momentum = TakeSlot("momentum", model_, *loaded);
  ASSERT_TRUE(momentum.ok()) << momentum.status();
  EXPECT_EQ(*momentum, slots_[0].tensors);
  EXPECT_TRUE(loaded->others.empty());
}

TEST_F(CheckpointTest, PositionsOfWorkersAreKept) {
  state_.workers = {{7, std::string("\0token", 6)}, {0, ""}, {uint64_t{1} << 60, "t"}};
  const auto loaded = LoadCheckpoint(Save(7), model_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->state, state_);
}

TEST_F(CheckpointTest, TheScaleOfTheLossIsKept) {
  state_.loss_scale = LossScale{1 << 24, 1999};
  const auto loaded = LoadCheckpoint(Save(7), model_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->state, state_);
}

TEST_F(CheckpointTest, ACutFileIsSaidToBeThatWithItsSizes) {
  const std::string path = Save(7);
  const uint64_t size = fs::file_size(path);
  fs::resize_file(path, size - 3);
  EXPECT_THAT(std::string(LoadCheckpoint(path, model_).status().message()),
              ::testing::HasSubstr(absl::StrCat("damaged checkpoint: it is cut off: it has ",
                                                size - 3, " bytes of ", size)));
}

TEST_F(CheckpointTest, WithoutANumberOfUpdatesEveryStepWasOne) {
  const std::string path = Save(7);
  auto file = ReadSafetensors(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file->metadata.erase("updates"), 1u);
  std::vector<TensorRef> tensors;
  for (const auto& [name, tensor] : file->tensors) {
    tensors.push_back({name, tensor.shape, tensor.data});
  }
  ASSERT_TRUE(WriteSafetensors(path, file->metadata, tensors).ok());
  const auto loaded = LoadCheckpoint(path, model_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->state.updates, 7u);
}

TEST_F(CheckpointTest, SlotsAreFoundByTheirNames) {
  state_.step = 1;
  const Slots slots = {{"m", slots_[0].tensors}, {"v", weights_}};
  const auto path = SaveIn(CheckpointFolder(folder_, {3}), weights_, slots);
  ASSERT_TRUE(path.ok()) << path.status();
  auto loaded = LoadCheckpoint(*path, model_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto v = TakeSlot("v", model_, *loaded);
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(*v, weights_);
  EXPECT_MESSAGE(TakeSlot("momentum", model_, *loaded).status(), absl::StatusCode::kNotFound);
  const auto m = TakeSlot("m", model_, *loaded);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(*m, slots_[0].tensors);
}

TEST_F(CheckpointTest, FileIsSafetensorsByTheSpecification) {
  const std::string bytes = ReadAll(Save(1));
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  ASSERT_LT(header, bytes.size());
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
  EXPECT_THAT(bytes.substr(8, header),
              HasSubstr(R"("out/weights":{"data_offsets":[0,16],"dtype":"F32","shape":[2,2]})"));
  EXPECT_EQ(bytes.size(), 8 + header + 2 * (16 + 8));
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + header, weights_[0].data(), 16), 0);
}

TEST_F(CheckpointTest, EveryTruncationIsDataLoss) {
  const std::string path = Save(1);
  const std::string bytes = ReadAll(path);
  for (size_t size = 0; size < bytes.size(); ++size) {
    WriteAll(path, bytes.substr(0, size));
    const auto loaded = LoadCheckpoint(path, model_);
    ASSERT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << size;
    ASSERT_THAT(std::string(loaded.status().message()), HasSubstr(path));
  }
  WriteAll(path, bytes + "x");
  EXPECT_EQ(LoadCheckpoint(path, model_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, EveryFlippedBitIsDataLoss) {
  const std::string path = Save(1);
  const std::string bytes = ReadAll(path);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += SampleStride()) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    WriteAll(path, damaged);
    const auto loaded = LoadCheckpoint(path, model_);
    ASSERT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
  }
}

TEST_F(CheckpointTest, EveryDrawnDamageIsDataLoss) {
  const std::string path = Save(1);
  const std::string bytes = ReadAll(path);
  std::mt19937_64 random(12);
  for (int round = 0; round < Rounds(500); ++round) {
    WriteAll(path, DamagedBytes(bytes, random));
    const auto loaded = LoadCheckpoint(path, model_);
    ASSERT_EQ(loaded.status().code(), absl::StatusCode::kDataLoss) << round << loaded.status();
  }
}

TEST_F(CheckpointTest, AbsurdSizesAreNeverAllocated) {
  fs::create_directories(folder_);
  const std::string path = folder_ + "/checkpoint-00000001.safetensors";
  const auto file = [](uint64_t size, const std::string& header) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    return bytes + header;
  };
  const std::string digest = R"("__metadata__":{"digest":"0123456789abcdef"})";
  for (const std::string& entry :
       {std::string(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})"),
        std::string(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"),
        std::string(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"),
        std::string(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"),
        std::string(R"({"dtype":"F64","shape":[1],"data_offsets":[0,4]})"), std::string("7"),
        std::string(R"({"shape":3,"data_offsets":[0,4]})")}) {
    const std::string header = "{" + digest + R"(,"a":)" + entry + "}";
    WriteAll(path, file(header.size(), header) + std::string(4, '\0'));
    EXPECT_EQ(ReadSafetensors(path).status().code(), absl::StatusCode::kDataLoss) << entry;
  }
  for (const uint64_t size : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{99'999'999}}) {
    WriteAll(path, file(size, "{}"));
    EXPECT_EQ(ReadSafetensors(path).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  const std::string deep(Rounds(size_t{1} << 20), '[');
  WriteAll(path, file(deep.size(), deep));
  EXPECT_EQ(ReadSafetensors(path).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, AHeaderDeeperThanTheStackIsDataLoss) {
  fs::create_directories(folder_);
  const std::string path = folder_ + "/checkpoint-00000001.safetensors";
  const size_t kDepth = Rounds(1'000'000u);
  const std::string deep = std::string(kDepth, '[') + std::string(kDepth, ']');
  const std::string metadata = R"({"__metadata__":{"digest":"0123456789abcdef"},"a":{"dtype":)";
  for (const std::string& header :
       {R"({"__metadata__":)" + deep + "}",
        metadata + deep + R"(,"shape":[1],"data_offsets":[0,4]}})",
        metadata + R"("F32","shape":)" + deep + R"(,"data_offsets":[0,4]}})",
        metadata + R"("F32","shape":[1],"data_offsets":)" + deep + "}}"}) {
    std::string size(8, '\0');
    const uint64_t header_bytes = header.size();
    std::memcpy(size.data(), &header_bytes, size.size());
    WriteAll(path, size + header + std::string(4, '\0'));
    EXPECT_EQ(ReadSafetensors(path).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(CheckpointTest, OnlyTheNewestAreKeptAndOtherFilesStay) {
  fs::create_directories(folder_);
  WriteAll(folder_ + "/notes.txt", "mine");
  WriteAll(folder_ + "/checkpoint-best.safetensors", "mine too");
  for (uint64_t step : {5, 30, 200, 1000}) Save(step, 2);
  EXPECT_THAT(Names(),
              ElementsAre("checkpoint-00000200.safetensors", "checkpoint-00001000.safetensors",
                          "checkpoint-best.safetensors", "notes.txt"));
}

TEST_F(CheckpointTest, TheBestAreKeptBesideTheNewest) {
  const auto save = [this](uint64_t step, std::optional<double> accuracy) {
    state_.step = step;
    state_.test_accuracy = accuracy;
    const CheckpointFolder folder(folder_, {.newest = 1, .best = 2});
    ASSERT_TRUE(SaveIn(folder, weights_, slots_).ok());
  };
  save(1, 0.5);
  save(2, 0.75);
  save(3, std::nullopt);
  save(4, 0.25);
  EXPECT_THAT(Names(),
              ElementsAre("checkpoint-00000001.safetensors", "checkpoint-00000002.safetensors",
                          "checkpoint-00000004.safetensors"));
  save(5, 0.75);
  EXPECT_THAT(Names(),
              ElementsAre("checkpoint-00000002.safetensors", "checkpoint-00000005.safetensors"));
  save(6, 0.8);
  EXPECT_THAT(Names(),
              ElementsAre("checkpoint-00000005.safetensors", "checkpoint-00000006.safetensors"));
  const auto loaded = LoadCheckpoint(folder_ + "/checkpoint-00000006.safetensors", model_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->state.test_accuracy, 0.8);
}

// A folder with files in it is what even root cannot unlink.
TEST_F(CheckpointTest, AnOldOneThatCannotBeRemovedIsAWarningAndTheOthersGo) {
  const std::string stays = folder_ + "/checkpoint-00000001.safetensors";
  fs::create_directories(stays);
  WriteAll(stays + "/notes.txt", "mine");
  for (uint64_t step : {2, 3}) Save(step);
  state_.step = 4;
  std::vector<std::string> warnings;
  const CheckpointFolder folder(folder_, {2},
                                [&](std::string_view line) { warnings.emplace_back(line); });
  const auto saved = SaveIn(folder, weights_, slots_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(LoadCheckpoint(*saved, model_).ok());
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr(*saved + " is saved"), HasSubstr(stays),
                                          HasSubstr("not empty"))));
  EXPECT_THAT(Names(),
              ElementsAre("checkpoint-00000001.safetensors", "checkpoint-00000003.safetensors",
                          "checkpoint-00000004.safetensors"));
  Save(5, 2);  // with nobody to warn
}

TEST_F(CheckpointTest, NewestIsByNumberAndNoneIsEmpty) {
  auto found = ListCheckpoints(folder_);
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ElementsAre());
  const std::string older = Save(99999999);
  const std::string newest = Save(123456789);
  found = ListCheckpoints(folder_);
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ElementsAre(newest, older));
}

// S-TRAIN-4.
TEST_F(CheckpointTest, AFileLeftByACrashIsNotACheckpoint) {
  const std::string path = Save(1);
  WriteAll(folder_ + "/.checkpoint-00000002.safetensors.tmp-123-0", "half");
  const auto found = ListCheckpoints(folder_);
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ElementsAre(path));
}

TEST_F(CheckpointTest, OneThatIsSetAsideIsNoneAndItsStepIsSavedAgain) {
  const std::string path = Save(1);
  const auto aside = SetAside(path);
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_EQ(*aside, path + ".damaged");
  const auto found = ListCheckpoints(folder_);
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(*found, ElementsAre());
  Save(1);
  EXPECT_TRUE(SetAside(path).ok()) << "in the place of the one before";
}

// S-TRAIN-4.
TEST_F(CheckpointTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const std::string path = Save(1);
  const std::string before = ReadAll(path);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  for (const rlim_t limit : {0u, 100u, static_cast<unsigned>(before.size()) - 1}) {
    const rlimit small = {limit, old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    state_.step = 2;
    const auto saved = SaveIn(CheckpointFolder(folder_, {3}), slots_[0].tensors, others_);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_MESSAGE(saved.status(), absl::StatusCode::kResourceExhausted, "write");
    EXPECT_EQ(ReadAll(path), before);
    EXPECT_THAT(Names(), ElementsAre("checkpoint-00000001.safetensors"));
  }
}

TEST_F(CheckpointTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  const std::string path = Save(1);
  const std::string before = ReadAll(path);
  const std::vector<TensorRef> tensors = {{"a", Shape{2, 2}, weights_[0]}};
  for (int good_writes : {0, 1, 2}) {
    const auto status = WriteSafetensors(path, {}, tensors, Existing::kReplace,
                                         [&](int fd, const void* data, size_t size) -> ssize_t {
                                           if (good_writes-- > 0) return write(fd, data, size);
                                           errno = ENOSPC;
                                           return -1;
                                         });
    EXPECT_MESSAGE(status, absl::StatusCode::kResourceExhausted, "write");
    EXPECT_EQ(ReadAll(path), before);
    EXPECT_THAT(Names(), ElementsAre("checkpoint-00000001.safetensors"));
  }
}

// Two trainings in one folder: the other one wrote this step while we were at it.
TEST_F(CheckpointTest, ACheckpointThatAnotherTrainingWroteIsNotReplaced) {
  const std::string path = Save(7);
  const std::string before = ReadAll(path);
  const auto saved = SaveIn(CheckpointFolder(folder_, {3}), slots_[0].tensors, others_);
  EXPECT_MESSAGE(saved.status(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadAll(path), before);
  EXPECT_THAT(Names(), ElementsAre("checkpoint-00000007.safetensors"));
}

TEST_F(CheckpointTest, WhatAKilledWriterLeftIsRemovedAndWhatIsInUseStays) {
  fs::create_directories(folder_);
  WriteAll(folder_ + "/.checkpoint-00000001.safetensors.tmp-123-0", "half");
  WriteAll(folder_ + "/.checkpoint-00000001.safetensors.tmp-124-0", "being written");
  WriteAll(folder_ + "/.notes.txt.tmp-123-0", "mine");
  const UniqueFd in_use(
      open((folder_ + "/.checkpoint-00000001.safetensors.tmp-124-0").c_str(), O_RDONLY));
  ASSERT_TRUE(in_use.valid());
  ASSERT_EQ(flock(in_use.get(), LOCK_EX), 0);
  Save(2);
  EXPECT_THAT(Names(), ElementsAre(".checkpoint-00000001.safetensors.tmp-124-0",
                                   ".notes.txt.tmp-123-0", "checkpoint-00000002.safetensors"));
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsNamed) {
  WriteAll(folder_, "a file");
  const auto saved = SaveIn(CheckpointFolder(folder_, {3}), weights_, slots_);
  EXPECT_MESSAGE(saved.status(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointTest, AnotherModelIsFailedPrecondition) {
  const std::string path = Save(1);
  const Model other = MakeModel(R"(layer { input_layer { shape: 2 } }
    layer { name: "out" fully_connected { outputs: 3 } } layer { softmax_cross_entropy {} })");
  const auto loaded = LoadCheckpoint(path, other);
  EXPECT_MESSAGE(loaded.status(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CheckpointTest, TensorsThatDoNotFitTheModelAreDataLoss) {
  state_.step = 1;
  const auto path = SaveIn(CheckpointFolder(folder_, {3}), weights_, slots_);
  ASSERT_TRUE(path.ok());
  const auto file = ReadSafetensors(*path);
  ASSERT_TRUE(file.ok());
  const std::vector<TensorRef> fewer = {{"out/weights", Shape{2, 2}, weights_[0]}};
  ASSERT_TRUE(WriteSafetensors(*path, file->metadata, fewer).ok());
  const auto loaded = LoadCheckpoint(*path, model_);
  EXPECT_MESSAGE(loaded.status(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(WriteSafetensors(*path, {}, fewer).ok());
  EXPECT_EQ(LoadCheckpoint(*path, model_).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::trainer
