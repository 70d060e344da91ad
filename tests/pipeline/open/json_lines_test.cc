#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

// Plans over JSON lines as people have them.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;

class JsonLinesTest : public testing::Test {
 protected:
  // The values of `a` in a file of these bytes.
  absl::StatusOr<std::vector<float>> Read(std::string_view bytes, const std::string& options = "") {
    WriteFile(folder_ / "a.jsonl", bytes);
    const Plan plan = Make(
        absl::StrCat(options, "stage { text { files: '", folder_ / "a.jsonl",
                     "' } }\nstage { parse_json { ", allow_nan_ ? "allow_nan: true " : "",
                     "feature { key: 'a' dtype: FLOAT32 } } }\nstage { batch { size: 16 } }\n"));
    OpenOptions open;
    open.index_folder = folder_ / "index";
    const auto context = MakeContext();
    const auto pipeline = Pipeline::Open(plan, *context, open);
    if (!pipeline.ok()) return pipeline.status();
    num_records_ = (*pipeline)->num_records();
    const auto batch = (*pipeline)->Next();
    if (!batch.ok()) return batch.status();
    const auto values = (*batch)->Find("a").as<float>();
    return std::vector<float>(values.begin(),
                              values.begin() + static_cast<std::ptrdiff_t>(num_records_));
  }

  const TempFolder folder_;
  bool allow_nan_ = false;
  uint64_t num_records_ = 0;
};

// S-SOURCE-3.
TEST_F(JsonLinesTest, BlankLinesAreNoRecords) {
  for (const char* options : {"", "on_damage { policy: 'skip' }\n"}) {
    EXPECT_THAT(*Read("{\"a\":1}\n\n{\"a\":2}\n \t\r\n\n", options), ElementsAre(1, 2));
    EXPECT_THAT(*Read("\xef\xbb\xbf\n{\"a\":3}\r\r{\"a\":4}\r", options), ElementsAre(3, 4));
    EXPECT_EQ(num_records_, 2u);
  }
}

// S-PARSE-4.
TEST_F(JsonLinesTest, NanIsANumberIfThePlanSaysSo) {
  EXPECT_EQ(Read("{\"a\":NaN}\n").status().code(), absl::StatusCode::kInvalidArgument);
  allow_nan_ = true;
  const auto values = Read("{\"a\":NaN}\n{\"a\":-Infinity}\n");
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_TRUE(std::isnan((*values)[0]));
  EXPECT_EQ((*values)[1], -INFINITY);
}

}  // namespace
}  // namespace millrace::pipeline
