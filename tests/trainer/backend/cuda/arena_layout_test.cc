#include "trainer/backend/cuda/arena_layout.h"

#include <gmock/gmock.h>

#include <vector>

namespace millrace::trainer::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Parameters of so many elements.
Model WithSizes(const std::vector<int64_t>& sizes) {
  Model model;
  for (const int64_t size : sizes) {
    Parameter& parameter = model.parameters.emplace_back();
    parameter.name = "p";
    parameter.shape = Shape{size};
  }
  return model;
}

class ArenaLayoutTest : public ::testing::Test {
 protected:
  GradientPlace At(size_t element, size_t bucket) { return {&memory_[element], bucket}; }

  std::vector<float> memory_ = std::vector<float>(1000);
};

// As a reducer has them: the last parameter first, 16 elements apart.
TEST_F(ArenaLayoutTest, ABucketIsARange) {
  const Model model = WithSizes({20, 3, 16});
  const ArenaLayout layout = LayOut(model, {{At(64, 1), At(16, 0), At(0, 0)}});
  ASSERT_EQ(layout.regions.size(), 2u);
  EXPECT_THAT(layout.regions[0].parameters, ElementsAre(2, 1));
  EXPECT_EQ(layout.regions[0].first, 2u);
  EXPECT_EQ(layout.regions[0].size, 19u);
  EXPECT_THAT(layout.regions[1].parameters, ElementsAre(0));
  EXPECT_EQ(layout.regions[1].bucket, 1u);
  EXPECT_EQ(layout.regions[1].begin, ArenaLayout::kAlignment);
  EXPECT_THAT(layout.offsets, ElementsAre(64, 16, 0));
  EXPECT_EQ(layout.offset_in_region(1), 16u);
  EXPECT_EQ(layout.offset_in_region(0), 0u);
  EXPECT_EQ(layout.size, 84u);
}

TEST_F(ArenaLayoutTest, GradientsThatLieApartAreNoRun) {
  const Model model = WithSizes({4, 4, 4});
  const ArenaLayout layout = LayOut(model, {{At(0, 0), At(19, 0), At(100, 0)}});
  ASSERT_EQ(layout.regions.size(), 2u);
  EXPECT_THAT(layout.regions[0].parameters, ElementsAre(0, 1));
  EXPECT_THAT(layout.offsets, ElementsAre(0, 19, 64));
}

TEST_F(ArenaLayoutTest, BackwardMakesTheFirstParameterOfABucketLast) {
  const Model model = WithSizes({4, 4, 4, 4, 4});
  const std::vector<GradientPlace> apart = {At(600, 1), At(500, 1), At(0, 0), At(300, 0),
                                            At(304, 0)};
  EXPECT_THAT(LastOfBuckets(LayOut(model, apart)), ElementsAre(2, 0));
  EXPECT_THAT(LastOfBuckets(LayOut(WithSizes({}), {})), IsEmpty());
}

TEST_F(ArenaLayoutTest, WithoutGradientsParametersLieInTheirOrder) {
  const ArenaLayout layout = LayOut(WithSizes({20, 3, 16}), {});
  ASSERT_EQ(layout.regions.size(), 1u);
  EXPECT_THAT(layout.offsets, ElementsAre(0, 32, 48));
  EXPECT_EQ(layout.size, 64u);
  EXPECT_THAT(LayOut(Model(), {}).regions, IsEmpty());
}

TEST_F(ArenaLayoutTest, SlotsHaveRoomForOwnPiecesAlone) {
  const Model model = WithSizes({20, 3, 16, 5});
  const ArenaLayout layout = LayOut(model, {{At(64, 1), At(16, 0), At(0, 0), At(96, 1)}});
  const SlotLayout slots = LayOutSlots(layout, {{{2, 12, 16}, {1, 0, 3}, {0, 4, 8}}});
  ASSERT_EQ(slots.ranges.size(), 2u);
  EXPECT_EQ(slots.ranges[0].begin, 12u);
  EXPECT_EQ(slots.ranges[0].end, 19u);
  EXPECT_EQ(slots.ranges[0].offset, 0u);
  EXPECT_EQ(slots.ranges[1].begin, 4u);
  EXPECT_EQ(slots.ranges[1].end, 8u);
  EXPECT_EQ(slots.ranges[1].offset, ArenaLayout::kAlignment);
  EXPECT_EQ(slots.size, ArenaLayout::kAlignment + 4);
  EXPECT_EQ(slots.pieces[2].begin, 12u);
  EXPECT_EQ(slots.pieces[3].size(), 0u);
}

}  // namespace
}  // namespace millrace::trainer::cuda
