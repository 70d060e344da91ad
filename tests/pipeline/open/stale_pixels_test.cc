#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/optimize/optimizer.h"
#include "tests/augment/image_testing.h"
#include "tests/augment/tar_testing.h"
#include "tests/damaged_bytes.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/sanitized.h"

// Damaged images between good ones, in slabs that held other images before. A row that holds a
// sample has what its ops make of the record alone, in memory of their own, to the bit; any other
// row is all zero. So no pixel of an earlier sample reaches a batch.

namespace millrace::pipeline {
namespace {

namespace images = augment::testing;

constexpr size_t kRecords = 240;
constexpr int64_t kHeight = 12, kWidth = 10, kBatchRows = 8, kMaxPixels = 1 << 18;

// Two thirds are cut off or damaged, some where no crop needs it.
std::vector<std::string> MakeRecords() {
  std::mt19937_64 random(5);
  std::vector<std::string> records;
  for (uint32_t i = 0; i < kRecords; ++i) {
    const images::Image image = images::MakeImage(20 + i % 17, 24 + i % 13, 3, i);
    const std::string good =
        i % 4 == 0 ? images::EncodePng(image.height, image.width, 2, 8, image.pixels)
                   : images::EncodeJpeg(
                         image, {.h_samp = 1 + static_cast<int>(i % 2), .progressive = i % 5 == 0});
    switch (i % 3) {
      case 0:
        records.push_back(good);
        break;
      case 1:
        records.push_back(good.substr(0, random() % good.size()));
        break;
      default:
        records.push_back(DamagedBytes(good, random));
    }
  }
  return records;
}

const augment::RandomResizedCropOptions kRandomCrop{.height = kHeight, .width = kWidth};
// Some images are smaller than that.
const augment::CenterCropOptions kCenterCrop{.height = 30, .width = 28};

std::string Text(const augment::RandomResizedCropOptions& crop) {
  return absl::StrCat("random_resized_crop { height: ", crop.height, " width: ", crop.width, " }");
}
std::string Text(const augment::CenterCropOptions& crop) {
  return absl::StrCat("center_crop { height: ", crop.height, " width: ", crop.width, " }");
}

// Records, and what becomes of each, one by one and op by op; none where it is an error.
struct Records {
  template <typename Crop>
  Records(std::vector<std::string> all, bool allow_truncated, const Crop& crop)
      : crop_text(Text(crop)), encoded(std::move(all)) {
    for (size_t i = 0; i < encoded.size(); ++i) {
      const images::DecodeResult result = images::DecodeToCropThenCrop(
          encoded[i], {.max_pixels = kMaxPixels, .allow_truncated = allow_truncated}, crop, i);
      if (!result.status.ok()) ++num_bad;
      alone.push_back(result.status.ok() ? std::optional(result.image.pixels) : std::nullopt);
    }
  }

  std::string crop_text;
  std::vector<std::string> encoded;
  std::vector<std::optional<std::vector<uint8_t>>> alone;
  size_t num_bad = 0;
};

// `behind`: stages that change the pixels' type and place, and no value.
std::string PlanText(const std::string& policy, bool allow_truncated, const std::string& crop,
                     const std::string& behind) {
  return absl::StrCat(
      "seed: 1 stage { tfrecord { files: \"x\" } } stage { decode_image { field: "
      "\"record\" max_pixels: ",
      kMaxPixels, " allow_truncated: ", allow_truncated ? "true" : "false", " } } stage { ", crop,
      " } ", behind, " stage { batch { size: ", kBatchRows,
      " } } stage { prefetch { batches: 2 } } on_damage { policy: \"", policy, "\" max_share: 1 }");
}

struct Kind {
  std::string policy;
  bool allow_truncated;
};

// Calls `see(batch)` for every batch of the plan; returns how many slabs held them.
size_t ForEachBatch(const std::string& text, const OptimizerOptions& optimizer,
                    const std::vector<std::string>& records,
                    const std::function<void(const Batch&)>& see) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto physical = BuildPhysicalPlan(*plan, optimizer);
  EXPECT_TRUE(physical.ok()) << physical.status();
  FakeData data;
  data.payloads = records;
  const auto pipeline = OpenFake(*std::move(physical), data, FakeContext(2));
  std::set<const void*> slabs;
  while (true) {
    const auto batch = pipeline->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return slabs.size();
    slabs.insert((*batch)->Find("image").data);
    see(**batch);
  }
}

// Every row of every batch against what its record is alone; `at` is the place of pixel i in a row.
template <typename T>
void ExpectRowsOfRecordsAlone(const Kind& kind, const Records& records, const std::string& behind,
                              const OptimizerOptions& optimizer,
                              const std::function<size_t(size_t)>& at) {
  size_t batches = 0, damaged = 0, whole = 0;
  const auto see = [&](const Batch& batch) {
    ++batches;
    damaged += batch.damaged().size();
    const auto values = batch.Find("image").as<T>();
    const size_t size = values.size() / static_cast<size_t>(batch.num_rows());
    for (size_t row = 0; row < static_cast<size_t>(batch.num_rows()); ++row) {
      const auto got = values.subspan(row * size, size);
      if (batch.valid()[row] == 0) {
        ASSERT_THAT(got, testing::Each(T{0})) << "row " << row;
        continue;
      }
      ++whole;
      const uint64_t record = batch.ids()[row].record;
      ASSERT_TRUE(records.alone[record].has_value()) << "record " << record;
      const std::vector<uint8_t>& expected = *records.alone[record];
      size_t same = 0;
      while (same < size && got[at(same)] == static_cast<T>(expected[same])) ++same;
      ASSERT_EQ(same, size) << "record " << record << ", pixel " << same;
    }
  };
  const size_t slabs =
      ForEachBatch(PlanText(kind.policy, kind.allow_truncated, records.crop_text, behind),
                   optimizer, records.encoded, see);
  EXPECT_EQ(batches, (records.encoded.size() + kBatchRows - 1) / kBatchRows);
  EXPECT_EQ(damaged, records.num_bad);
  EXPECT_EQ(whole, records.encoded.size() - (kind.policy == "replace" ? 0 : records.num_bad));
  EXPECT_LT(slabs, batches / 2);  // most batches lie where another lay
}

const OptimizerOptions kNoRules{
    .project = false, .decode_region = false, .map_into_batch = false, .fuse_image = false};

class StalePixelsTest : public testing::TestWithParam<Kind> {
 protected:
  template <typename Crop>
  static Records Cropped(const Crop& crop) {
    Records records(MakeRecords(), GetParam().allow_truncated, crop);
    EXPECT_GT(records.num_bad, kRecords / 10);
    // Some are decoded as far as they go, or as far as is needed.
    EXPECT_LT(records.num_bad, kRecords * 2 / 3);
    return records;
  }
};

// S-DAMAGE-3, S-DAMAGE-4, S-DAMAGE-5, S-IMAGE-3, S-BATCH-3.
TEST_P(StalePixelsTest, NoneIsInBytesWhateverTheRules) {
  OptimizerOptions unfused, apart;
  unfused.fuse_image = false;
  apart.decode_region = false;
  for (const Records& records : {Cropped(kRandomCrop), Cropped(kCenterCrop)}) {
    for (const OptimizerOptions& optimizer : {OptimizerOptions(), unfused, apart, kNoRules}) {
      ExpectRowsOfRecordsAlone<uint8_t>(GetParam(), records, "", optimizer,
                                        [](size_t i) { return i; });
    }
  }
}

const char kPlanesOfFloats[] =
    "stage { normalize { mean: [0, 0, 0] stddev: [1, 1, 1] } } stage { transpose {} }";
size_t PlaceInPlanes(size_t i) { return i % 3 * static_cast<size_t>(kHeight * kWidth) + i / 3; }

TEST_P(StalePixelsTest, NoneIsInPlanesOfFloatsFusedOrNot) {
  const Records records = Cropped(kRandomCrop);
  for (const OptimizerOptions& optimizer : {OptimizerOptions(), kNoRules}) {
    ExpectRowsOfRecordsAlone<float>(GetParam(), records, kPlanesOfFloats, optimizer, PlaceInPlanes);
  }
}

// The fuzzing cases of hostile-jpeg.tar.xz between good images.
TEST(StalePixelsOfHostileFilesTest, NoneIsInABatch) {
  const char* folder = std::getenv("MILLRACE_TEST_DATA");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  std::vector<std::string> encoded;
  for (std::string& file : Sampled(images::ReadTar(std::string(folder) + "/hostile-jpeg.tar.xz"))) {
    const auto i = static_cast<uint32_t>(encoded.size());
    if (i % 3 == 0) encoded.push_back(images::EncodeJpeg(images::MakeImage(30, 40, 3, i)));
    encoded.push_back(std::move(file));
  }
  ASSERT_GT(encoded.size(), Rounds(size_t{4000}));
  for (const bool allow_truncated : {false, true}) {
    const Records records(encoded, allow_truncated, kRandomCrop);
    EXPECT_GT(records.num_bad, Rounds(size_t{1000}));
    EXPECT_LT(records.num_bad, encoded.size() - Rounds(size_t{1000}));
    for (const OptimizerOptions& optimizer : {OptimizerOptions(), kNoRules}) {
      ExpectRowsOfRecordsAlone<float>({"mask", allow_truncated}, records, kPlanesOfFloats,
                                      optimizer, PlaceInPlanes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, StalePixelsTest,
                         testing::Values(Kind{"skip", false}, Kind{"mask", false},
                                         Kind{"replace", false}, Kind{"skip", true},
                                         Kind{"mask", true}, Kind{"replace", true}),
                         [](const auto& kind) {
                           return kind.param.policy +
                                  (kind.param.allow_truncated ? "Truncated" : "");
                         });

}  // namespace
}  // namespace millrace::pipeline
