#include "trainer/server/placement.h"

#include <gmock/gmock.h>

namespace millrace::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model ModelOf(const std::vector<int64_t>& sizes) {
  Model model;
  for (const int64_t size : sizes) {
    Parameter parameter;
    parameter.shape = Shape{size};
    model.parameters.push_back(parameter);
  }
  return model;
}

TEST(PlaceParameters, TheLargestGoFirstAndEachToTheServerWithLeast) {
  const auto placed = PlaceParameters(ModelOf({10, 400, 10, 250, 150}), 2);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_THAT(*placed, ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
}

TEST(PlaceParameters, EveryServerHasSome) {
  const auto placed = PlaceParameters(ModelOf({7, 7, 7, 7}), 4);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_THAT(*placed, ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST(PlaceParameters, MoreServersThanParametersAreRefused) {
  const absl::Status status = PlaceParameters(ModelOf({7, 7}), 3).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 are more than the 2 parameters"));
}

}  // namespace
}  // namespace millrace::trainer
