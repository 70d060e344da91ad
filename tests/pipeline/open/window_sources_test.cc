#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/optimize/optimizer.h"
#include "readers/example_builder.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Windows over each kind of source: over what joins and zips put together too. The numbers of a
// window are those of the same plan without it, cut into pieces.

namespace millrace::pipeline {
namespace {

// Record i of a source of files holds number = 1000 + i.
FakeData NumberedRecords() {
  FakeData data;
  for (int64_t i = 0; i < 30; ++i) {
    readers::ExampleBuilder example;
    example.AddInt("number", 1000 + i);
    data.payloads.push_back(example.Serialize());
  }
  return data;
}

// Sources of files are those records, and ranges are ranges.
std::unique_ptr<Pipeline> OpenOverSources(const std::string& text, const OpenOptions& options) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_TRUE(plan.ok()) << plan.status() << text;
  auto physical = BuildPhysicalPlan(*plan);
  EXPECT_TRUE(physical.ok()) << physical.status() << text;
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  for (const SourceSpec& source : physical->sources) {
    if (source.kind == SourceSpec::Kind::kRange) {
      sources.push_back(MakeRangeSource(source.count));
    } else {
      sources.push_back(std::make_unique<FakeSource>(NumberedRecords()));
    }
  }
  OpenedSources opened = JoinSources(*physical, std::move(sources));
  auto pipeline = OpenPhysical(*std::move(physical), std::move(opened), FakeContext(3), options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return pipeline.ok() ? *std::move(pipeline) : nullptr;
}

// Of each row, the numbers of the fields in turn.
std::vector<std::vector<int64_t>> NumbersOfRows(const std::string& text,
                                                const OpenOptions& options = {}) {
  std::vector<std::vector<int64_t>> rows;
  const auto pipeline = OpenOverSources(text, options);
  ForEachRow(*pipeline, [&](const Batch& batch, int64_t row) {
    std::vector<int64_t>& numbers = rows.emplace_back();
    for (const Field& field : pipeline->schema().fields()) {
      const auto size = static_cast<size_t>(field.shape.num_elements());
      const auto values =
          batch.Find(field.name).as<int64_t>().subspan(static_cast<size_t>(row) * size, size);
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
  });
  return rows;
}

// Windows of rows whose fields are numbers.
std::vector<std::vector<int64_t>> CutIntoWindows(const std::vector<std::vector<int64_t>>& rows,
                                                 size_t size, size_t shift) {
  std::vector<std::vector<int64_t>> windows;
  for (size_t begin = 0; begin + size <= rows.size(); begin += shift) {
    std::vector<int64_t>& window = windows.emplace_back();
    for (size_t field = 0; field < rows[0].size(); ++field) {
      for (size_t i = 0; i < size; ++i) window.push_back(rows[begin + i][field]);
    }
  }
  return windows;
}

std::string NamedRange(const std::string& name, int count, const std::string& behind = "") {
  return absl::StrCat("input { stage { name: \"", name, "\" range { count: ", count, " } }\n",
                      behind, " }\n");
}

const char kNumber[] = "feature { key: \"number\" dtype: INT64 } } }\n";

std::vector<std::string> SourcesOfWindows() {
  const std::string shuffle = "stage { name: \"inner\" shuffle { buffer_size: 5 } }\n";
  const std::string records = "stage { tfrecord { files: \"x\" } }\n";
  const std::string parse = absl::StrCat("stage { parse_example { ", kNumber);
  return {"stage { range { count: 40 } }\n" + shuffle,
          absl::StrCat("stage { concatenate { ", NamedRange("a", 9, shuffle), NamedRange("b", 20),
                       "} }\n"),
          absl::StrCat("stage { mix { ", NamedRange("a", 15, shuffle), NamedRange("b", 25),
                       "} }\nstage { shuffle { buffer_size: 4 } }\n"),
          absl::StrCat("stage { zip { ", NamedRange("a", 30, shuffle), NamedRange("b", 25),
                       "field: [\"one\", \"two\"] } }\nstage { global_shuffle {} }\n"),
          absl::StrCat("stage { zip { input { ", records, shuffle, " } ", NamedRange("b", 28),
                       "field: [\"one\", \"two\"] } }\nstage { parse_example { field: \"one\" ",
                       kNumber),
          absl::StrCat("stage { concatenate { input { ", records, shuffle, " } input { stage { ",
                       "name: \"again\" tfrecord { files: \"y\" } } } } }\n", parse)};
}

// S-WINDOW-1, S-WINDOW-3.
TEST(WindowSourcesTest, WindowsGoOverAnySource) {
  for (const std::string& source : SourcesOfWindows()) {
    const auto rows = NumbersOfRows(absl::StrCat(source, "stage { batch { size: 5 } }\n"));
    ASSERT_GT(rows.size(), 20u) << source;
    for (const auto& [size, shift] : {std::pair{4, 1}, {4, 4}, {3, 5}}) {
      const std::string text =
          absl::StrCat(source, "stage { window { size: ", size, " shift: ", shift,
                       " drop_remainder: true } }\nstage { batch { size: 5 } }\n");
      const auto expected =
          CutIntoWindows(rows, static_cast<size_t>(size), static_cast<size_t>(shift));
      EXPECT_EQ(NumbersOfRows(text), expected) << text;
      // S-RANK-2: of two ranks the first has the first two rows of each batch.
      std::vector<std::vector<int64_t>> both;
      const auto first = NumbersOfRows(text, RankOptions(0, 2));
      const auto second = NumbersOfRows(text, RankOptions(1, 2));
      for (size_t row = 0, a = 0, b = 0; row < expected.size(); ++row) {
        both.push_back(row % 5 < 2 ? first.at(a++) : second.at(b++));
      }
      EXPECT_EQ(both, expected) << text;
    }
  }
}

// S-WINDOW-2: a window is named by its number, and Locate by its first element.
TEST(WindowSourcesTest, LocateNamesTheFirstInputOfTheFirstElement) {
  const std::string text = absl::StrCat(
      "stage { zip { input { stage { tfrecord { files: \"x\" } } } ", NamedRange("b", 28),
      "field: [\"one\", \"two\"] } }\nstage { parse_example { field: \"one\" ", kNumber,
      "stage { window { size: 4 shift: 3 drop_remainder: true } }\nstage { batch { size: 5 } }\n");
  const auto pipeline = OpenOverSources(text, {});
  EXPECT_EQ(pipeline->num_records(), 9u);
  const RecordError where = pipeline->Locate({.epoch = 0, .record = 5});
  EXPECT_EQ(where.file, "shard-2");  // record 15
  EXPECT_EQ(where.ordinal, 1);
}

}  // namespace
}  // namespace millrace::pipeline
