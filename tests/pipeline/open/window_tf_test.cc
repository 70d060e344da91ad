#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/optimize/optimizer.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Windows against tf.data's own (tests/fixtures/make_windows.py), from the text of the plan to the
// batch.

namespace millrace::pipeline {
namespace {

std::vector<int64_t> NumbersIn(const std::string& text) {
  std::istringstream in(text);
  std::vector<int64_t> numbers;
  for (int64_t number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

// "take 3 shard 2 1" as stages.
std::string StagesOfSteps(const std::string& steps) {
  std::istringstream in(steps);
  std::string text;
  uint64_t first = 0, second = 0;
  for (std::string name; in >> name >> first;) {
    if (name == "shard") in >> second;
    absl::StrAppend(&text, "stage { ", name, " { ",
                    name == "shard"    ? absl::StrCat("num_shards: ", first, " index: ", second)
                    : name == "repeat" ? absl::StrCat("epochs: ", first)
                                       : absl::StrCat("count: ", first),
                    " } }\n");
  }
  return text;
}

struct RecordedCase {
  explicit RecordedCase(const std::string& line) {
    const std::vector<std::string> parts = absl::StrSplit(line, '|');
    const std::vector<int64_t> window = NumbersIn(parts[2]);
    size = static_cast<size_t>(window[0]);
    outcome = parts[4];
    text = absl::StrCat("stage { range { count: ", parts[0], "} }\n", StagesOfSteps(parts[1]),
                        "stage { window { size: ", size,
                        window[1] == 0 ? "" : absl::StrCat(" shift: ", window[1]),
                        " stride: ", window[2], " drop_remainder: ", window[3] == 1, " } }\n",
                        StagesOfSteps(parts[3]), "stage { batch { size: 4 } }\n");
  }

  std::string text;
  size_t size = 0;
  std::string outcome;
};

absl::StatusOr<std::vector<int64_t>> NumbersOfWindows(const RecordedCase& one) {
  const auto plan = Plan::FromText(one.text, "p");
  EXPECT_TRUE(plan.ok()) << plan.status() << one.text;
  auto physical = BuildPhysicalPlan(*plan);
  EXPECT_TRUE(physical.ok()) << physical.status() << one.text;
  OpenedSources sources;
  sources.source = MakeRangeSource(physical->sources[0].count);
  sources.facts = {{physical->sources[0].count, 0, {}}};
  auto pipeline = OpenPhysical(*std::move(physical), std::move(sources), FakeContext(2), {});
  if (!pipeline.ok()) return pipeline.status();
  EXPECT_EQ((*pipeline)->schema().Find("value")->shape, Shape({static_cast<int64_t>(one.size)}));
  std::vector<int64_t> numbers;
  ForEachRow(**pipeline, [&](const Batch& batch, int64_t row) {
    const auto values =
        batch.Find("value").as<int64_t>().subspan(static_cast<size_t>(row) * one.size, one.size);
    numbers.insert(numbers.end(), values.begin(), values.end());
  });
  return numbers;
}

// S-WINDOW-1, S-WINDOW-2.
TEST(WindowTfTest, WindowsEqualTheRecordedOnesOfTensorFlow) {
  const char* root = std::getenv("MILLRACE_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream in(std::string(root) + "/tests/fixtures/windows.txt");
  int cases = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    const RecordedCase one(line);
    const auto windows = NumbersOfWindows(one);
    if (one.outcome == " short") {
      EXPECT_EQ(windows.status().code(), absl::StatusCode::kInvalidArgument) << line;
    } else {
      ASSERT_TRUE(windows.ok()) << windows.status() << line;
      ASSERT_EQ(*windows, NumbersIn(one.outcome)) << line;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 132);
}

}  // namespace
}  // namespace millrace::pipeline
