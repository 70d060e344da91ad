// Tensors of a batch by name: what is asked for, or an error that names what there is.
#include "pipeline/found_tensor.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "pipeline/batch_op.h"
#include "tests/messages.h"
#include "tests/pipeline/batch/batch_fixture.h"

namespace millrace::pipeline {
namespace {

using ::testing::ElementsAre;
using Kind = BatchSpec::Kind;

class FoundTensorTest : public testing::Test {
 protected:
  FoundTensorTest()
      : batch_(MakeBatch(BatchPlan(Kind::kPadded, {{"label", DType::kI32, {Shape::kUnknown}},
                                                   {"other", DType::kI32, {Shape::kUnknown}}}),
                         1, {{0, {Counting({2}), Counting({1})}}})) {}

  const Batch batch_;
};

TEST_F(FoundTensorTest, GetReturnsTheElements) {
  const auto label = batch_.Get<int32_t>("label");
  ASSERT_TRUE(label.ok()) << label.status();
  EXPECT_THAT(*label, ElementsAre(1, 2));
  EXPECT_EQ(label->data(), batch_.Find("label").data);
}

TEST_F(FoundTensorTest, GetOfAMissingNameSaysWhichThereAre) {
  const absl::Status status = batch_.Get<int32_t>("lable").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_MESSAGE(status);
  EXPECT_MESSAGE(batch_.Get<int32_t>("image").status());
}

TEST_F(FoundTensorTest, GetOfAnotherDtypeNamesBoth) {
  const absl::Status status = batch_.Get<int64_t>("label").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(status);
  EXPECT_EQ(batch_.Get<float>("label").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(FoundTensorTest, BitsAreUnsignedNumbersOfTheSameSize) {
  EXPECT_THAT(*batch_.Get<uint32_t>("label"), ElementsAre(1u, 2u));
  EXPECT_FALSE(batch_.Get<uint16_t>("label").ok());
}

// Every type against every dtype: one is right, or two for those that show bits.
template <typename T>
std::vector<DType> DTypesOf() {
  std::vector<DType> dtypes;
  for (int number = 0; number <= static_cast<int>(DType::kF64); ++number) {
    if (Element<T>::Is(static_cast<DType>(number))) dtypes.push_back(static_cast<DType>(number));
  }
  return dtypes;
}

TEST(Element, HoldsTheDtypesOfItsSize) {
  EXPECT_THAT(DTypesOf<float>(), ElementsAre(DType::kF32));
  EXPECT_THAT(DTypesOf<double>(), ElementsAre(DType::kF64));
  EXPECT_THAT(DTypesOf<Half>(), ElementsAre(DType::kF16));
  EXPECT_THAT(DTypesOf<BFloat>(), ElementsAre(DType::kBF16));
  EXPECT_THAT(DTypesOf<int32_t>(), ElementsAre(DType::kI32));
  EXPECT_THAT(DTypesOf<int64_t>(), ElementsAre(DType::kI64));
  EXPECT_THAT(DTypesOf<uint8_t>(), ElementsAre(DType::kU8));
  EXPECT_THAT(DTypesOf<uint16_t>(), ElementsAre(DType::kF16, DType::kBF16));
  EXPECT_THAT(DTypesOf<uint32_t>(), ElementsAre(DType::kI32, DType::kF32));
  EXPECT_THAT(DTypesOf<uint64_t>(), ElementsAre(DType::kI64, DType::kF64));
}

TEST_F(FoundTensorTest, FindOfAMissingNameHasNoDataAndNoElements) {
  const auto found = batch_.Find("lable");
  EXPECT_EQ(found.data, nullptr);
  EXPECT_DEATH(static_cast<void>(found.as<int32_t>()), "\"lable\"; the batch has label, other");
}

TEST_F(FoundTensorTest, TheTextOfAMissingNameIsThereWhenTheNameIsGone) {
  const auto found = batch_.Find(std::string("a name that is not kept in place"));
  const absl::Status status = batch_.Get<int32_t>("a name that is not kept in place").status();
  EXPECT_EQ(found.Check<int32_t>(), status);
}

// Hours of comparing, if each look told which name is the nearest.
TEST(FoundTensor, ANameThatIsOnlyLookedForCostsNoText) {
  const std::vector<std::string> names(10'000, std::string(200, 'x'));
  BatchView view;
  view.names = names;
  const std::string missing(200, 'y');
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(view.Find(missing).data, nullptr);
}

TEST_F(FoundTensorTest, FindAsAnotherTypeEndsTheProcess) {
  EXPECT_THAT(batch_.Find("label").as<int32_t>(), ElementsAre(1, 2));
  EXPECT_DEATH(static_cast<void>(batch_.Find("label").as<float>()), "\"label\" is int32.*float");
}

TEST_F(FoundTensorTest, BatchOpsFindTensorsInTheSameWay) {
  BatchView view;
  const std::vector<std::string> names = {"label"};
  std::vector<int32_t> values = {4, 5};
  const std::vector<TensorView> tensors = {{values.data(), DType::kI32, {2}}};
  view.names = names;
  view.tensors = tensors;
  view.Find("label").as<int32_t>()[1] = 6;
  EXPECT_THAT(values, ElementsAre(4, 6));
  EXPECT_DEATH(static_cast<void>(view.Find("labels").as<int32_t>()), "\"labels\"");
  EXPECT_DEATH(static_cast<void>(view.Find("label").as<int64_t>()), "int64_t");
}

}  // namespace
}  // namespace millrace::pipeline
