#include "trainer/backend/cuda/tensors.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

namespace millrace::trainer::cuda {
namespace {

using ::testing::ElementsAre;

Parameter WithShape(const Shape& shape) {
  Parameter parameter;
  parameter.name = "weights";
  parameter.shape = shape;
  return parameter;
}

// 0, 1, 2, ... in the device's order.
std::vector<float> NumbersOf(const Shape& shape) {
  std::vector<float> numbers(shape.num_elements());
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  std::vector<float> ordered(numbers.size());
  ToDeviceOrder(WithShape(shape), numbers, ordered);
  return ordered;
}

// Element (f, c, y, x) of a convolution of two filters of two channels of 1 by 3 pixels is
// 6 f + 3 c + x.
TEST(TensorsTest, ChannelsOfAConvolutionLieTogether) {
  EXPECT_THAT(NumbersOf({2, 2, 1, 3}), ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
}

// A filter of a grouped convolution has the channels of its group: here one, which lie as they do.
TEST(TensorsTest, AGroupedConvolutionIsOneOfFewerChannels) {
  EXPECT_THAT(NumbersOf({4, 1, 1, 2}), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(NumbersOf({2, 2, 2, 1}), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

// A transposed one from one channel to three filters, of 1 by 2 pixels: element (c, f, y, x) is
// 2 f + x, and the product that it is the gradient of has one filter of three channels.
TEST(TensorsTest, ATransposedConvolutionIsTheOneThatItIsTheGradientOf) {
  EXPECT_THAT(NumbersOf({1, 3, 1, 2}), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(TensorsTest, OtherTensorsStayAsTheyAre) {
  EXPECT_THAT(NumbersOf({5}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(NumbersOf({2, 3}), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TensorsTest, TheWayBackRestoresTheModelsOrder) {
  for (const Shape& shape : {Shape{6, 4, 3, 5}, Shape{3, 1, 2, 2}, Shape{2, 7, 1, 1}, Shape{9}}) {
    const std::vector<float> ordered = NumbersOf(shape);
    std::vector<float> back(ordered.size());
    FromDeviceOrder(WithShape(shape), ordered, back);
    for (size_t k = 0; k < back.size(); ++k) EXPECT_EQ(back[k], k) << shape.ToString();
  }
}

TEST(TensorsTest, SomeFiltersGoAlone) {
  const Shape shape = {6, 4, 3, 5};
  const Parameter parameter = WithShape(shape);
  std::vector<float> numbers(shape.num_elements());
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  std::vector<float> ordered(numbers.size());
  const size_t half = numbers.size() / 2;
  ToDeviceOrder(parameter, std::span(numbers).first(half), std::span(ordered).first(half));
  ToDeviceOrder(parameter, std::span(numbers).subspan(half), std::span(ordered).subspan(half));
  EXPECT_EQ(ordered, NumbersOf(shape));
}

}  // namespace
}  // namespace millrace::trainer::cuda
