#include <gmock/gmock.h>

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/messages.h"
#include "tests/trainer/loop/train_fixture.h"
#include "trainer/weights.h"

// The weights with which a training begins, from the file of another one.

namespace millrace::trainer {
namespace {

class InitFromTest : public TrainTest {
 protected:
  // Trains, and exports the weights for PyTorch. Returns the checkpoint's tensors.
  TensorFile TrainAndExport() {
    const auto outcome = Run(1);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    const auto count = ExportWeights(Options("", Exported()));
    EXPECT_TRUE(count.ok()) << count.status();
    return outcome.ok() ? Load(outcome->checkpoint) : TensorFile();
  }
  std::string Exported() const { return folder_ / "exported.safetensors"; }
  WeightsOptions Options(const std::string& from, const std::string& to) const {
    WeightsOptions options;
    options.job_path = folder_ / "job.pbtxt";
    options.variables = {{"DATA", folder_}};
    options.from = from;
    options.to = to;
    return options;
  }
  // A job that begins with `file` and changes no weight.
  void WriteJobFrom(const std::string& file, const std::string& more = "") {
    WriteJob("others", "base_lr: 0",
             absl::StrCat("epochs: 1 init_from { file: \"", file, "\" ", more, " }"));
  }
};

TEST_F(InitFromTest, EveryRankBeginsWithTheFilesWeights) {
  const TensorFile trained = TrainAndExport();
  ASSERT_TRUE(ImportWeights(Options(Exported(), folder_ / "imported.safetensors")).ok());
  for (const char* file : {"exported.safetensors", "imported.safetensors"}) {
    SCOPED_TRACE(file);
    fs::remove_all(folder_ / "others");
    WriteJobFrom(file);
    const auto outcome = Run(2);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    for (const auto& [name, tensor] : Load(outcome->checkpoint).tensors) {
      if (name.starts_with("momentum/")) continue;
      EXPECT_EQ(tensor.data, trained.tensors.at(name).data) << name;
    }
  }
}

TEST_F(InitFromTest, ExceptedLayersBeginAnew) {
  const TensorFile trained = TrainAndExport();
  WriteJobFrom("exported.safetensors", "except: \"fc1.*\"");
  const auto outcome = Run(1);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const TensorFile begun = Load(outcome->checkpoint);
  EXPECT_EQ(begun.tensors.at("conv1/weights").data, trained.tensors.at("conv1/weights").data);
  EXPECT_NE(begun.tensors.at("fc1/weights").data, trained.tensors.at("fc1/weights").data);
}

TEST_F(InitFromTest, APatternThatMatchesNothingIsAnErrorWithItsPlace) {
  TrainAndExport();
  WriteJobFrom("exported.safetensors", "except: [\"fc1.*\",\n\"fc9.*\"]");
  EXPECT_MESSAGE(Run(2).status(), absl::StatusCode::kInvalidArgument);
  WeightsOptions options = Options(Exported(), folder_ / "imported.safetensors");
  options.except = {"fc9.*"};
  EXPECT_MESSAGE(ImportWeights(options).status(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(fs::exists(folder_ / "imported.safetensors"));
}

TEST_F(InitFromTest, TheTableSaysTheFirstWeights) {
  TrainAndExport();
  EXPECT_THAT(lines_,
              testing::Contains(testing::ContainsRegex("first weights +drawn by the seed")));
  WriteJobFrom("exported.safetensors", "except: \"fc1.*\"");
  ASSERT_TRUE(Run(1).ok());
  EXPECT_THAT(lines_, testing::Contains(testing::ContainsRegex(
                          "first weights +.*/exported.safetensors, except fc1\\.\\*$")));
}

TEST_F(InitFromTest, AFileToWriteIsCheckedBeforeTheWork) {
  for (const char* const to : {".", "none/out.safetensors"}) {
    const absl::Status status = ExportWeights(Options("", folder_ / to)).status();
    EXPECT_THAT(status.message(), testing::Not(testing::HasSubstr("checkpoint"))) << status;
  }
}

TEST_F(InitFromTest, AResumedTrainingDoesNotReadTheFile) {
  TrainAndExport();
  WriteJobFrom("exported.safetensors");
  ASSERT_TRUE(Run(1, false, 2).ok());
  fs::remove(Exported());
  const auto outcome = Run(1, true);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
}

TEST_F(InitFromTest, WhatIsWrongWithTheFileIsToldByAllRanks) {
  TrainAndExport();
  WriteJobFrom("nowhere.safetensors");
  EXPECT_TRUE(absl::IsNotFound(Run(2).status()));
  WriteModel(4);
  WriteJobFrom("exported.safetensors");
  EXPECT_MESSAGE(Run(2).status(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(statuses_.size(), 2u);
  EXPECT_EQ(statuses_[1].message(), statuses_[0].message());
}

// A ReLU makes a zero of NaN, so the loss of such weights may be finite.
TEST_F(InitFromTest, WeightsThatAreNotFiniteAreRefused) {
  TensorFile trained = TrainAndExport();
  trained.tensors.at("fc1/weights").data[5] = std::numeric_limits<float>::quiet_NaN();
  std::vector<TensorRef> tensors;
  for (const auto& [name, tensor] : trained.tensors) {
    tensors.push_back({name, tensor.shape, tensor.data});
  }
  ASSERT_TRUE(WriteSafetensors(Exported(), {}, tensors).ok());
  WriteJobFrom("exported.safetensors");
  const auto outcome = Run(2);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(outcome.status().message(),
              testing::HasSubstr("exported.safetensors: a value of 'fc1/weights' is not finite"));
}

TEST_F(InitFromTest, ThereMustBeACheckpointToExport) {
  EXPECT_TRUE(absl::IsNotFound(ExportWeights(Options("", Exported())).status()));
  TrainAndExport();
  WeightsOptions average = Options("", Exported());
  average.average = true;
  EXPECT_TRUE(absl::IsNotFound(ExportWeights(average).status()));
}

}  // namespace
}  // namespace millrace::trainer
