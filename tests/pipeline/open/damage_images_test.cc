#include <filesystem>
#include <fstream>

#include "tests/damaged_bytes.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/readers/image_fixtures.h"
#include "tests/sanitized.h"
#include "tests/temp_folder.h"

// A folder of images, one of which was damaged. Chunks of PNG have checksums: an image is damaged,
// or what is damaged of its file is none of its pixels.

namespace millrace::pipeline {
namespace {

constexpr size_t kImages = 6;
constexpr uint32_t kSide = 9;

class DamageImagesTest : public testing::Test {
 protected:
  DamageImagesTest() {
    std::filesystem::create_directories(folder_ / "images/class");
    for (size_t i = 0; i < kImages; ++i) {
      pngs_.push_back(readers::MakePng(kSide, kSide, static_cast<uint8_t>(10 + i)));
      Write(i, pngs_[i]);
    }
  }

  std::string PathOf(size_t image) const {
    return folder_ / ("images/class/" + std::to_string(image) + ".png");
  }
  void Write(size_t image, const std::string& bytes) {
    std::ofstream(PathOf(image), std::ios::binary) << bytes;
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& policy) {
    const auto plan =
        Plan::FromText(absl::StrCat("stage { image_folder { path: \"", folder_ / "images",
                                    "\" } } stage { decode_image { field: \"record\" } } "
                                    "stage { resize { height: 9 width: 9 } } stage { batch { size: "
                                    "6 } } on_damage { policy: \"",
                                    policy, "\" ", policy == "fail" ? "" : "max_share: 1 ", "}"),
                       "p");
    if (!plan.ok()) return plan.status();
    return Pipeline::Open(*plan, context_, {});
  }

  const TempFolder folder_;
  const std::shared_ptr<Context> context_ = *MakeContext();
  std::vector<std::string> pngs_;
};

// S-DAMAGE-1.
TEST_F(DamageImagesTest, DrawnDamageCostsItsOwnImage) {
  std::mt19937_64 random(9);
  int num_damaged = 0;
  for (int round = 0; round < Rounds(520); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    const size_t hit = random() % kImages;
    Write(hit, DamagedBytes(pngs_[hit], random));
    const auto pipeline = Open("mask");
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    const auto batch = (*pipeline)->Next();
    ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
    const bool damaged = !(*batch)->damaged().empty();
    if (damaged) {
      ++num_damaged;
      const auto error = GetRecordError((*batch)->damaged()[0].error);
      ASSERT_EQ(error->file, PathOf(hit));
      const auto failed = (*Open("fail"))->Next();
      ASSERT_EQ(GetRecordError(failed.status())->file, PathOf(hit));
    }
    const auto pixels = (*batch)->Find("image").as<uint8_t>();
    for (size_t i = 0; i < kImages; ++i) {
      const auto row = pixels.subspan(i * kSide * kSide * 3, size_t{kSide} * kSide * 3);
      const int want = damaged && i == hit ? 0 : static_cast<int>(10 + i);
      ASSERT_THAT(row, testing::Each(want)) << i;
    }
    Write(hit, pngs_[hit]);
  }
  EXPECT_GT(num_damaged, Rounds(400));
}

}  // namespace
}  // namespace millrace::pipeline
