#include "augment/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>
#include <vector>

#include "augment/fuse/mask.h"
#include "tests/augment/fixtures.h"
#include "tests/augment/image_testing.h"
#include "tests/messages.h"

namespace millrace::augment {
namespace {

using testing::ApplyTo;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MakeValue;
using testing::ResolveAndApply;
using testing::Value;

struct Scene {
  int64_t height = 10, width = 20;
  std::vector<float> boxes;
  std::vector<int32_t> labels;  // one per box
};

struct Moved {
  absl::Status status;
  std::vector<uint8_t> image, mask;
  std::vector<float> boxes;
  std::vector<int32_t> labels;
};

template <typename T>
std::vector<T> Copy(const ConstTensorView& view) {
  const auto values = view.as<T>();
  return {values.begin(), values.end()};
}

std::vector<uint8_t> BytesOf(const Value& value) {
  const auto values = value.as<uint8_t>();
  return {values.begin(), values.end()};
}

// An image whose pixels are their numbers, and a mask that is the same.
Moved Move(const TargetsOptions& options, const Scene& scene, uint64_t record = 0) {
  const Shape shape{scene.height, scene.width, 1};
  std::vector<uint8_t> pixels;
  for (int64_t i = 0; i < shape.num_elements(); ++i) pixels.push_back(static_cast<uint8_t>(i));
  const auto n = static_cast<int64_t>(scene.boxes.size()) / 4;
  RunArena arena;
  Run run(arena, 1, 0, {{0, record, 0}});
  run.Add("image", DType::kU8).Set(0, pixels.data(), shape);
  run.Add("mask", DType::kU8).Set(0, pixels.data(), shape);
  run.Add("boxes", DType::kF32).Set(0, scene.boxes.data(), Shape{n, 4});
  run.Add("classes", DType::kI32)
      .Set(0, scene.labels.data(), Shape{static_cast<int64_t>(scene.labels.size())});
  const Shape unknown{Shape::kUnknown, Shape::kUnknown, 1};
  auto op = MakeWithTargets(options, "stage");
  EXPECT_TRUE(op.ok()) << op.status();
  ResolveAndApply(**op,
                  Schema({{"image", DType::kU8, unknown},
                          {"mask", DType::kU8, unknown},
                          {"boxes", DType::kF32, Shape{Shape::kUnknown, 4}},
                          {"classes", DType::kI32, Shape{Shape::kUnknown}}}),
                  run);
  if (!run.ok(0)) return {run.status(0), {}, {}, {}, {}};
  return {absl::OkStatus(), Copy<uint8_t>(run.Get("image").at(0)),
          Copy<uint8_t>(run.Get("mask").at(0)), Copy<float>(run.Get("boxes").at(0)),
          Copy<int32_t>(run.Get("classes").at(0))};
}

BoxOptions WithLabels() { return {.labels = {"classes"}}; }

TEST(Targets, CenterCropMovesClipsAndDropsBoxes) {
  // The window is rows 3 to 6, columns 5 to 14.
  const TargetsOptions options{CenterCropOptions{.height = 4, .width = 10}, WithLabels(), "mask"};
  const Moved moved = Move(options, {.boxes = {6, 4, 9, 6, 0, 0, 8, 5, 15, 0, 20, 10, 7, 7, 7, 9},
                                     .labels = {1, 2, 3, 4}});
  EXPECT_THAT(moved.boxes, ElementsAre(1, 1, 4, 3, 0, 0, 3, 2));
  EXPECT_THAT(moved.labels, ElementsAre(1, 2));
  EXPECT_EQ(moved.image, moved.mask);
  // Of the second box 6 of 40 pixels are left.
  TargetsOptions few = options;
  few.boxes->min_area_share = 0.16f;
  EXPECT_THAT(Move(few, {.boxes = {0, 0, 8, 5}, .labels = {2}}).labels, IsEmpty());
  few.boxes->min_area_share = 0.125f;
  EXPECT_THAT(Move(few, {.boxes = {0, 0, 8, 5}, .labels = {2}}).labels, ElementsAre(2));
}

TEST(Targets, FormatsAreKept) {
  TargetsOptions options{PadOptions{.top = 10, .left = 20}, WithLabels(), ""};
  options.boxes->corners = false;
  EXPECT_THAT(Move(options, {.boxes = {2, 3, 4, 5}, .labels = {1}}).boxes,
              ElementsAre(22, 13, 4, 5));
  options.boxes->normalized = true;
  EXPECT_THAT(Move(options, {.boxes = {0.25f, 0.5f, 0.5f, 0.25f}, .labels = {1}}).boxes,
              ElementsAre(0.625f, 0.75f, 0.25f, 0.125f));
  options.boxes->corners = true;
  EXPECT_THAT(Move(options, {.boxes = {0.25f, 0.5f, 0.5f, 0.75f}, .labels = {1}}).boxes,
              ElementsAre(0.625f, 0.75f, 0.75f, 0.875f));
}

TEST(Targets, ResizeScalesBoxesAndTakesTheNearestOfMasks) {
  const TargetsOptions options{
      ResizeOptions{.height = 5, .width = 40, .method = ResizeMethod::kNearest}, WithLabels(),
      "mask"};
  const Moved moved = Move(options, {.boxes = {2, 4, 6, 8}, .labels = {1}});
  EXPECT_THAT(moved.boxes, ElementsAre(4, 2, 12, 4));
  EXPECT_EQ(moved.image, moved.mask);
}

TEST(Targets, FlipsMirrorBoxesWhereTheyMirrorTheImage) {
  for (const bool vertical : {false, true}) {
    const TargetsOptions options{FlipOptions{.probability = 0.5f, .vertical = vertical},
                                 WithLabels(), "mask"};
    int flipped = 0;
    for (uint64_t record = 0; record < 40; ++record) {
      const Moved moved = Move(options, {.boxes = {2, 3, 6, 8}, .labels = {1}}, record);
      ASSERT_EQ(moved.image, moved.mask);
      if (moved.image[0] == 0) {
        ASSERT_THAT(moved.boxes, ElementsAre(2, 3, 6, 8));
        continue;
      }
      ++flipped;
      if (vertical) {
        ASSERT_THAT(moved.boxes, ElementsAre(2, 2, 6, 7));
      } else {
        ASSERT_THAT(moved.boxes, ElementsAre(14, 3, 18, 8));
      }
    }
    EXPECT_GT(flipped, 5);
    EXPECT_LT(flipped, 35);
  }
}

// A box around one pixel goes where that pixel goes.
TEST(Targets, RandomCropsMoveBoxesWithTheImage) {
  const Scene scene{.boxes = {11, 5, 12, 6}, .labels = {9}};  // pixel 111
  const TargetsOptions options{RandomCropOptions{.height = 7, .width = 9}, WithLabels(), "mask"};
  int seen = 0;
  for (uint64_t record = 0; record < 60; ++record) {
    const Moved moved = Move(options, scene, record);
    ASSERT_EQ(moved.image, moved.mask);
    const auto at = std::ranges::find(moved.image, 111) - moved.image.begin();
    if (at == 63) {
      ASSERT_THAT(moved.labels, IsEmpty());
      continue;
    }
    ++seen;
    const auto x = static_cast<float>(at % 9), y = static_cast<float>(at / 9);
    ASSERT_THAT(moved.boxes, ElementsAre(x, y, x + 1, y + 1));
  }
  EXPECT_GT(seen, 10);
}

TEST(Targets, RandomResizedCropsScaleWhatTheyDraw) {
  const TargetsOptions options{
      RandomResizedCropOptions{.height = 30, .width = 40, .area = {0.2f, 0.9f}}, WithLabels(),
      "mask"};
  for (uint64_t record = 0; record < 60; ++record) {
    // The box of the lower right half of the image's middle: its corner is one of pixels.
    const Moved moved = Move(options, {.boxes = {10, 5, 20, 10}, .labels = {9}}, record);
    for (int64_t y = 0; y < 30; ++y) {
      for (int64_t x = 0; x < 40; ++x) {
        const int pixel = moved.mask[static_cast<size_t>(y * 40 + x)];
        const bool inside = pixel % 20 >= 10 && pixel / 20 >= 5;
        const auto middle_x = static_cast<float>(x) + 0.5f, middle_y = static_cast<float>(y) + 0.5f;
        const bool boxed = !moved.boxes.empty() && middle_x > moved.boxes[0] &&
                           middle_x < moved.boxes[2] && middle_y > moved.boxes[1] &&
                           middle_y < moved.boxes[3];
        const bool edge =
            !moved.boxes.empty() && (middle_x == moved.boxes[0] || middle_y == moved.boxes[1]);
        ASSERT_TRUE(edge || inside == boxed) << record << " " << x << " " << y;
      }
    }
  }
}

// S-ROUND-3.
TEST(Targets, TheImageIsThatOfTheOpAlone) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 200; ++i) pixels.push_back(static_cast<uint8_t>(i));
  const Value in = MakeValue(DType::kU8, Shape{10, 20, 1}, pixels);
  const RandomResizedCropOptions resized{.height = 30, .width = 40, .area = {0.2f, 0.9f}};
  const RandomCropOptions cropped{.height = 7, .width = 9};
  for (uint64_t record = 0; record < 20; ++record) {
    const Scene scene{.boxes = {2, 3, 6, 8}, .labels = {1}};
    const auto image = [&](const GeometryOptions& geometry) {
      return Move({geometry, WithLabels(), "mask"}, scene, record).image;
    };
    EXPECT_EQ(image(resized),
              BytesOf(ApplyTo(MakeRandomResizedCrop(resized, "stage"), in, record)));
    EXPECT_EQ(image(cropped), BytesOf(ApplyTo(MakeRandomCrop(cropped, "stage"), in, record)));
    EXPECT_EQ(image(FlipOptions{}), BytesOf(ApplyTo(MakeFlip({}, "stage"), in, record)));
  }
}

// A box that is whole stays whole: its end does not land beyond the image by a rounding.
TEST(Targets, BoxesUpToTheEdgeKeepAllTheirArea) {
  for (int64_t width = 1; width < 400; width += 2) {
    TargetsOptions options{ResizeOptions{.height = 10, .width = 320}, WithLabels(), ""};
    options.boxes->min_area_share = 1;
    const auto last = static_cast<float>(width);
    const Scene scene{.height = 3, .width = width, .boxes = {0, 0, last, 3}, .labels = {1}};
    ASSERT_THAT(Move(options, scene).boxes, ElementsAre(0, 0, 320, 10)) << width;
  }
}

// What is written has area: a consumer that checks its boxes finds none without.
TEST(Targets, BoxesThatLoseTheirAreaByRoundingAreDropped) {
  TargetsOptions options{FlipOptions{.probability = 1}, WithLabels(), ""};
  const Scene thin{.height = 2, .width = 320, .boxes = {0, 0, 1e-6f, 2}, .labels = {1}};
  EXPECT_THAT(Move(options, thin).boxes, IsEmpty());
  EXPECT_THAT(Move(options, thin).labels, IsEmpty());
  // A width of its own keeps what the corners cannot say.
  options.boxes->corners = false;
  EXPECT_THAT(Move(options, thin).boxes, ElementsAre(320, 0, 1e-6f, 2));
  options.boxes->normalized = true;
  const Scene tiny{.height = 2, .width = 1, .boxes = {0, 0, FLT_TRUE_MIN, 1}, .labels = {1}};
  const TargetsOptions half{PadOptions{.right = 1}, options.boxes, ""};
  EXPECT_THAT(Move(half, tiny).boxes, IsEmpty());
}

TEST(Targets, NoBoxesStayNone) {
  const TargetsOptions options{CenterCropOptions{.height = 4, .width = 10}, WithLabels(), ""};
  EXPECT_THAT(Move(options, {}).boxes, IsEmpty());
}

TEST(Targets, ValuesThatDoNotFitAreTheRowsError) {
  const TargetsOptions options{CenterCropOptions{.height = 4, .width = 10}, WithLabels(), ""};
  EXPECT_MESSAGE(Move(options, {.boxes = {1, 2, 3, 4, 0, NAN, 1, 1}, .labels = {1, 2}}).status);
  EXPECT_MESSAGE(Move(options, {.boxes = {1, 2, 3, 4, 5, 6, 2, 8}, .labels = {1, 2}}).status);
  EXPECT_FALSE(Move(options, {.boxes = {1, 4, 3, 2}, .labels = {1}}).status.ok());
  EXPECT_THAT(Move(options, {.boxes = {6, 4, 6, 6}, .labels = {1}}).labels, IsEmpty());  // a drop
  TargetsOptions sizes = options;
  sizes.boxes->corners = false;
  EXPECT_MESSAGE(Move(sizes, {.boxes = {6, 4, -1, 3}, .labels = {1}}).status);
  EXPECT_TRUE(Move(sizes, {.boxes = {6, 4, 1, 0}, .labels = {1}}).boxes.empty());
  EXPECT_MESSAGE(Move(options, {.boxes = {1, 2, 3, 4}, .labels = {1, 2}}).status);
  const TargetsOptions small{RandomCropOptions{.height = 40, .width = 10}, WithLabels(), "mask"};
  EXPECT_MESSAGE(Move(small, {}).status);
}

// Rows of one run have nothing to do with each other.
TEST(Targets, ARowOfTheRunThatFailsLeavesTheOthersAlone) {
  constexpr int64_t kRows = 3;
  const std::vector<uint8_t> pixels(200, 7);
  const std::vector<float> good = {6, 4, 9, 6, 0, 0, 1, 1}, bad = {1, 2, 3, NAN};
  const std::vector<int32_t> labels = {1, 2};
  RunArena arena;
  millrace::Run run(arena, 1, 0, {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}});
  for (const char* name : {"image", "mask"}) {
    Column& column = run.Add(name, DType::kU8);
    for (int64_t r = 0; r < kRows; ++r) column.Set(r, pixels.data(), Shape{10, 20, 1});
  }
  Column& boxes = run.Add("boxes", DType::kF32);
  Column& classes = run.Add("classes", DType::kI32);
  for (int64_t r = 0; r < kRows; ++r) {
    boxes.Set(r, r == 1 ? bad.data() : good.data(), Shape{r == 1 ? 1 : 2, 4});
    classes.Set(r, labels.data(), Shape{r == 1 ? 1 : 2});
  }
  auto op =
      MakeWithTargets({CenterCropOptions{.height = 4, .width = 10}, WithLabels(), "mask"}, "s");
  ASSERT_TRUE(op.ok()) << op.status();
  ResolveAndApply(**op,
                  Schema({{"image", DType::kU8, Shape{10, 20, 1}},
                          {"mask", DType::kU8, Shape{10, 20, 1}},
                          {"boxes", DType::kF32, Shape{Shape::kUnknown, 4}},
                          {"classes", DType::kI32, Shape{Shape::kUnknown}}}),
                  run);
  EXPECT_MESSAGE(run.status(1));
  for (const int64_t r : {0, 2}) {
    ASSERT_TRUE(run.ok(r)) << run.status(r);
    EXPECT_THAT(Copy<float>(run.Get("boxes").at(r)), ElementsAre(1, 1, 4, 3));
    EXPECT_THAT(Copy<int32_t>(run.Get("classes").at(r)), ElementsAre(1));
    EXPECT_EQ(run.Get("mask").at(r).shape, (Shape{4, 10, 1}));
  }
}

TEST(Targets, AMaskOfAnotherSizeThanItsImageIsTheRowsError) {
  const std::vector<uint8_t> pixels(200, 7);
  for (const Shape& shape : {Shape{9, 20, 1}, Shape{10, 19, 1}}) {
    RunArena arena;
    millrace::Run run(arena, 1, 0, {{0, 0, 0}});
    run.Add("image", DType::kU8).Set(0, pixels.data(), Shape{10, 20, 1});
    run.Add("mask", DType::kU8).Set(0, pixels.data(), shape);
    auto op = MakeWithTargets({FlipOptions{}, std::nullopt, "mask"}, "s");
    ASSERT_TRUE(op.ok()) << op.status();
    const Shape unknown{Shape::kUnknown, Shape::kUnknown, 1};
    ResolveAndApply(**op, Schema({{"image", DType::kU8, unknown}, {"mask", DType::kU8, unknown}}),
                    run);
    EXPECT_MESSAGE(run.status(0));
  }
}

TEST(Targets, MasksAreZeroBeyondTheImage) {
  const TargetsOptions pad{PadOptions{.top = 1, .bottom = 2, .left = 3, .right = 4}, std::nullopt,
                           "mask"};
  const TargetsOptions crop{CenterCropOptions{.height = 14, .width = 26}, std::nullopt, "mask"};
  for (const TargetsOptions& options : {pad, crop}) {
    const Moved moved = Move(options, {});
    EXPECT_EQ(moved.mask, moved.image);  // which is padded with zeros too
    EXPECT_EQ(moved.mask[0], 0);
    EXPECT_EQ(moved.mask.back(), 0);
  }
}

// Pixel by pixel, as S-ROUND-3 has it, whatever is copied at once.
TEST(Targets, MasksOfPixelsOfAnySizeAreThoseOfTheFormula) {
  const Placement placements[] = {{{2, 3, 5, 7}, false, false},  {{-2, -3, 12, 16}, false, false},
                                  {{2, 3, 5, 7}, true, false},   {{2, 3, 5, 7}, true, true},
                                  {{-4, 8, 20, 9}, false, true}, {{-9, -20, 8, 12}, true, false},
                                  {{20, 20, 4, 4}, false, false}};
  const Shape sizes[] = {{5, 7}, {12, 16}, {3, 11}, {1, 1}};
  for (const int64_t channels : {1, 3, 8}) {
    const Shape shape{9, 12, channels};
    std::vector<uint8_t> mask(static_cast<size_t>(shape.num_elements()));
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<uint8_t>(1 + i * 7 % 251);
    for (const Placement& placement : placements) {
      for (const Shape& out : sizes) {
        std::vector<uint8_t> moved(static_cast<size_t>(out.num_elements() * channels), 255);
        MoveMask({mask.data(), DType::kU8, shape}, placement, out,
                 reinterpret_cast<std::byte*>(moved.data()));
        const auto source = [](int64_t i, int64_t n, int64_t begin, int64_t extent, bool mirrored) {
          const auto middle = static_cast<double>(mirrored ? n - 1 - i : i) + 0.5;
          return begin + static_cast<int64_t>(std::floor(middle * static_cast<double>(extent) /
                                                         static_cast<double>(n)));
        };
        const Region& window = placement.window;
        for (int64_t i = 0; i < out.num_elements() * channels; ++i) {
          const int64_t pixel = i / channels;
          const int64_t y =
              source(pixel / out[1], out[0], window.top, window.height, placement.upside_down);
          const int64_t x =
              source(pixel % out[1], out[1], window.left, window.width, placement.mirrored);
          const bool inside = y >= 0 && y < 9 && x >= 0 && x < 12;
          const int want =
              inside ? mask[static_cast<size_t>((y * 12 + x) * channels + i % channels)] : 0;
          ASSERT_EQ(moved[static_cast<size_t>(i)], want) << channels << " " << i;
        }
      }
    }
  }
}

TEST(Targets, FieldsAndOptionsThatDoNotFitAreNamed) {
  const auto error = [](Field boxes) {
    auto op = MakeWithTargets({CenterCropOptions{.height = 1, .width = 1}, BoxOptions{}, ""}, "s");
    return (*op)->Resolve(Schema({{"image", DType::kU8, Shape{4, 4, 1}}, boxes})).status();
  };
  EXPECT_MESSAGE(error({"boxes", DType::kF32, Shape{Shape::kUnknown, 5}}));
  EXPECT_MESSAGE(error({"boxes", DType::kI64, Shape{Shape::kUnknown, 4}}));
  EXPECT_FALSE(
      MakeWithTargets({PadOptions{.top = 1, .mode = PadMode::kEdge}, BoxOptions{}, ""}, "s").ok());
  EXPECT_FALSE(
      MakeWithTargets({FlipOptions{}, BoxOptions{.labels = {}, .min_area_share = 2}, ""}, "s")
          .ok());
}

}  // namespace
}  // namespace millrace::augment
