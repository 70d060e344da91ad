#include "cli/page/contact_sheet.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/context.h"
#include "tests/temp_folder.h"

namespace millrace::cli {
namespace {

constexpr int kRows = 40;
constexpr int kSide = 64;

class ContactSheetTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string file = folder_ / "raw.bin";
    std::ofstream(file) << std::string(size_t{kRows} * kSide * kSide, 'x');
    const std::string text = "stage { fixed_length { files: \"" + file +
                             "\" record_bytes: 4096 } } " +
                             "stage { decode_raw { output: \"image\" shape: [64, 64, 1] } } stage "
                             "{ batch { size: 40 } }";
    auto plan = pipeline::Plan::FromText(text, "test.pbtxt");
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_.push_back(*plan);
    auto context = pipeline::MakeContext();
    ASSERT_TRUE(context.ok());
    auto stream = pipeline::Pipeline::Open(*plan, *context, {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  TempFolder folder_;
  std::vector<pipeline::Plan> plan_;
  std::unique_ptr<pipeline::Pipeline> stream_;
};

TEST_F(ContactSheetTest, ASectionIsHandedOnRowByRow) {
  const auto watch = pipeline::CropWatch::Make(plan_[0]);
  const auto sheet = ContactSheet::Make("test.pbtxt", plan_[0], watch, *stream_);
  const auto batch = stream_->Next();
  ASSERT_TRUE(batch.ok() && batch->has_value());
  std::vector<std::string> pieces;
  ASSERT_TRUE(sheet
                  .AppendSection(**batch, kRows,
                                 [&](std::string_view html) {
                                   pieces.emplace_back(html);
                                   return absl::OkStatus();
                                 })
                  .ok());
  int figures = 0;
  for (const std::string& piece : pieces) {
    const size_t first = piece.find("<figure>");
    if (first == std::string::npos) continue;
    EXPECT_EQ(piece.find("<figure>", first + 1), std::string::npos);
    ++figures;
  }
  EXPECT_EQ(figures, kRows);
}

TEST_F(ContactSheetTest, ASinkThatFailsEndsTheSection) {
  const auto watch = pipeline::CropWatch::Make(plan_[0]);
  const auto sheet = ContactSheet::Make("test.pbtxt", plan_[0], watch, *stream_);
  const auto batch = stream_->Next();
  ASSERT_TRUE(batch.ok() && batch->has_value());
  int calls = 0;
  const absl::Status status = sheet.AppendSection(**batch, kRows, [&](std::string_view) {
    return ++calls == 3 ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::ResourceExhaustedError("disk full"));
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace millrace::cli
