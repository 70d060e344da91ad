#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/optimize/optimizer.h"
#include "readers/example_builder.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"

// Windows of records on their way into batches: read, decoded, drawn for, damaged. What a window
// has to hold is taken from the same plan without the window, row by row.

namespace millrace::pipeline {
namespace {

constexpr size_t kElements = 40;
constexpr size_t kElementPixels = 2 * 2 * 3;

// Record i holds a = i and an image of which no two pixels are equal.
FakeData ElementRecords() {
  FakeData data;
  for (size_t i = 0; i < kElements; ++i) {
    readers::ExampleBuilder example;
    example.AddInt("a", static_cast<int64_t>(i));
    std::string image;
    for (size_t k = 0; k < kElementPixels; ++k) image += static_cast<char>((17 * i + 5 * k) % 251);
    example.AddBytes("image", image);
    data.payloads.push_back(example.Serialize());
  }
  return data;
}

constexpr char kParseElements[] =
    "stage { parse_example { feature { key: \"a\" dtype: INT64 } "
    "feature { key: \"image\" dtype: BYTES } } }\n"
    "stage { decode_raw { field: \"image\" dtype: UINT8 shape: [2, 2, 3] } }\n"
    "stage { flip { probability: 0.5 } }\n";
constexpr char kWindowsTwice[] = "stage { repeat { epochs: 2 } }\n";

struct WindowOf {
  size_t size = 3, shift = 2, stride = 1;
};

std::string WindowText(const WindowOf& window) {
  return absl::StrCat("stage { window { size: ", window.size, " shift: ", window.shift,
                      " stride: ", window.stride, " drop_remainder: true } }\n");
}

// AroundWindow in front of the window and behind it.
struct AroundWindow {
  std::string front, behind;
};

std::string TextAround(const AroundWindow& steps, const std::string& window, int batch = 6) {
  return absl::StrCat("seed: 7 lanes: 2 stage { tfrecord { files: \"x\" } }\n", steps.front,
                      kParseElements, window, steps.behind, "stage { batch { size: ", batch,
                      " } }\n");
}

// What one element holds.
struct Element {
  int64_t a = 0;
  std::vector<uint8_t> image;
  friend bool operator==(const Element&, const Element&) = default;
};

using Elements = std::vector<Element>;

// All rows of a stream, of so many elements each.
std::vector<Elements> WindowsIn(Pipeline& pipeline, size_t size) {
  std::vector<Elements> rows;
  ForEachRow(pipeline, [&](const Batch& batch, int64_t row) {
    const auto a = batch.Find("a").as<int64_t>();
    const auto image = batch.Find("image").as<uint8_t>();
    Elements& elements = rows.emplace_back();
    for (size_t i = 0; i < size; ++i) {
      const size_t k = static_cast<size_t>(row) * size + i;
      const auto pixels = image.subspan(k * kElementPixels, kElementPixels);
      elements.push_back({a[k], {pixels.begin(), pixels.end()}});
    }
  });
  return rows;
}

class WindowRunTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Pipeline>> TryOpen(const std::string& text,
                                                    std::shared_ptr<Context> context,
                                                    const OpenOptions& options = {}) const {
    const auto plan = Plan::FromText(text, "p");
    EXPECT_TRUE(plan.ok()) << plan.status() << text;
    auto physical = BuildPhysicalPlan(*plan);
    EXPECT_TRUE(physical.ok()) << physical.status() << text;
    if (change) change(*physical);
    return TryOpenFake(*std::move(physical), data, std::move(context), options);
  }
  std::unique_ptr<Pipeline> Open(const std::string& text, std::shared_ptr<Context> context,
                                 const OpenOptions& options = {}) const {
    auto pipeline = TryOpen(text, std::move(context), options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  // The error that the stream ends with.
  absl::Status ErrorOf(const std::string& text) const {
    return Drain(*Open(text, FakeContext(2))).end;
  }

  // The windows that a list of elements has.
  static std::vector<Elements> Slice(const Elements& elements, const WindowOf& window) {
    std::vector<Elements> windows;
    const size_t span = (window.size - 1) * window.stride + 1;
    for (size_t begin = 0; begin + span <= elements.size(); begin += window.shift) {
      Elements& one = windows.emplace_back();
      for (size_t i = 0; i < window.size; ++i) one.push_back(elements[begin + i * window.stride]);
    }
    return windows;
  }

  FakeData data = ElementRecords();
  std::function<void(PhysicalPlan&)> change;  // of what is opened
};

Elements FlatElements(const std::vector<Elements>& rows) {
  Elements elements;
  for (const Elements& row : rows) elements.insert(elements.end(), row.begin(), row.end());
  return elements;
}

const std::string kShuffleElements = "stage { shuffle { buffer_size: 9 } }\n";
const std::string kGlobalElements = "stage { global_shuffle {} }\n";

// S-WINDOW-1, S-WINDOW-3: what is drawn for an element too.
TEST_F(WindowRunTest, WindowsAreSlicesOfWhatStandsInFrontOfThem) {
  const std::string fronts[] = {
      "",
      kShuffleElements,
      kGlobalElements,
      kShuffleElements + kWindowsTwice,
      "stage { interleave { cycle_length: 3 } }\n",
      "stage { skip { count: 5 } }\n" + kGlobalElements + "stage { shard { num_shards: 2 } }\n"};
  for (const std::string& front : fronts) {
    const Elements elements =
        FlatElements(WindowsIn(*Open(TextAround({front, ""}, ""), FakeContext(2)), 1));
    for (const WindowOf window :
         {WindowOf{1, 1, 1}, {3, 2, 1}, {3, 1, 2}, {2, 7, 3}, {5, 5, 1}, {13, 1, 1}}) {
      const std::string text = TextAround({front, ""}, WindowText(window));
      const auto expected = Slice(elements, window);
      ASSERT_GT(expected.size(), 2u);
      EXPECT_EQ(WindowsIn(*Open(text, FakeContext(2)), window.size), expected) << text;
    }
  }
}

// S-WINDOW-2.
TEST_F(WindowRunTest, EachEpochOfTheWindowsIsAPassOfTheElements) {
  const WindowOf window{4, 3, 2};
  // A pass may have several epochs of the elements itself.
  for (const std::string& front : {kShuffleElements, kGlobalElements + kWindowsTwice}) {
    const std::string text = TextAround({front, kWindowsTwice}, WindowText(window));
    const auto seen = WindowsIn(*Open(text, FakeContext(2)), window.size);
    const std::string again = front + "stage { name: \"again\" repeat { epochs: 2 } }\n";
    const Elements both =
        FlatElements(WindowsIn(*Open(TextAround({again, ""}, ""), FakeContext(2)), 1));
    const auto half = both.begin() + static_cast<ptrdiff_t>(both.size() / 2);
    std::vector<Elements> expected = Slice({both.begin(), half}, window);
    std::ranges::copy(Slice({half, both.end()}, window), std::back_inserter(expected));
    EXPECT_EQ(seen, expected) << text;
  }
}

// S-WINDOW-2: windows are shuffled whole, by their numbers.
TEST_F(WindowRunTest, StepsBehindActOnWindows) {
  const WindowOf window{3, 2, 1};
  const auto plain =
      WindowsIn(*Open(TextAround({kGlobalElements, ""}, WindowText(window)), FakeContext(2)), 3);
  const std::string second = "stage { name: \"windows\" shuffle { buffer_size: 7 } }\n";
  const auto pipeline =
      Open(TextAround({kGlobalElements, second}, WindowText(window)), FakeContext(2));
  size_t moved = 0, rows = 0;
  ForEachRow(*pipeline, [&](const Batch& batch, int64_t row) {
    const uint64_t number = batch.ids()[row].record;
    ASSERT_LT(number, plain.size());
    for (size_t i = 0; i < window.size; ++i) {
      EXPECT_EQ(batch.Find("a").as<int64_t>()[static_cast<size_t>(row) * window.size + i],
                plain[number][i].a);
    }
    moved += number == rows++ ? 0 : 1;
  });
  EXPECT_EQ(rows, plain.size());
  EXPECT_GT(moved, rows / 2);
}

std::vector<AroundWindow> AllAroundWindow() {
  const std::string windows = "stage { name: \"windows\" shuffle { buffer_size: 7 } }\n";
  return {{"", ""},
          {kShuffleElements, windows + kWindowsTwice},
          {kGlobalElements,
           "stage { name: \"windows\" global_shuffle {} }\n" + std::string(kWindowsTwice)},
          {"stage { interleave { cycle_length: 3 } }\n",
           "stage { shard { num_shards: 2 } }\nstage { repeat { epochs: 4 } }\n"},
          {kShuffleElements, "stage { name: \"windows\" global_shuffle { block_bytes: 1500 } }\n" +
                                 std::string(kWindowsTwice)},
          {kWindowsTwice, "stage { skip { count: 3 } }\n"}};
}

// S-RANDOM-2.
TEST_F(WindowRunTest, BitsDoNotDependOnThreadsRingOrBudget) {
  for (const AroundWindow& steps : AllAroundWindow()) {
    const std::string text = TextAround(steps, WindowText({5, 2, 2}));
    const Stream expected = Drain(*Open(text, FakeContext(1)));
    ASSERT_TRUE(expected.end.ok()) << expected.end;
    ASSERT_GT(expected.digests.size(), 2u);
    const std::pair<int, int64_t> ways[] = {{1, 1}, {2, 20'000}, {8, 1}, {8, 1 << 30}};
    for (const auto& [threads, budget] : ways) {
      OpenOptions options;
      options.prefetch_batches = 1 + threads % 3;
      const Stream seen = Drain(*Open(text, FakeContext(threads, budget), options));
      EXPECT_EQ(seen.digests, expected.digests) << text << threads << " threads, " << budget;
      EXPECT_EQ(seen.tokens, expected.tokens);
    }
  }
}

// S-RANK-2, S-STATE-20.
TEST_F(WindowRunTest, RanksAddUpAndEveryPlaceCanBeGoneTo) {
  for (const AroundWindow& steps : AllAroundWindow()) {
    const std::string text = TextAround(steps, WindowText({5, 2, 2}));
    const auto whole = Open(text, FakeContext(2));
    const Stream expected = Drain(*whole);
    std::vector<uint64_t> sums(expected.digests.size(), 0);
    for (const int rank : {0, 1, 2, 3}) {
      const Stream part = Drain(*Open(text, FakeContext(2), RankOptions(rank, 4)));
      ASSERT_EQ(part.digests.size(), sums.size());
      for (size_t b = 0; b < sums.size(); ++b) sums[b] += part.digests[b];
    }
    EXPECT_EQ(sums, expected.digests) << text;
    for (size_t b = 0; b < expected.digests.size(); ++b) {
      const std::vector<uint64_t> rest(expected.digests.begin() + static_cast<ptrdiff_t>(b) + 1,
                                       expected.digests.end());
      ASSERT_TRUE(whole->Restore(expected.tokens[b]).ok());
      ASSERT_EQ(Drain(*whole).digests, rest) << text;
      ASSERT_TRUE(whole->Seek(b + 1).ok());
      ASSERT_EQ(Drain(*whole).digests, rest) << text;
    }
  }
}

// Ops behind a window see its shape, and what they make is stored as ever.
TEST_F(WindowRunTest, OpsBehindWorkOnWindows) {
  const std::string cast =
      "stage { cast { field: \"a\" dtype: FLOAT32 } }\n"
      "stage { cast { field: \"image\" dtype: FLOAT32 } }\n";
  const WindowOf window{3, 1, 1};
  const auto plain = WindowsIn(*Open(TextAround({"", ""}, WindowText(window)), FakeContext(2)), 3);
  const auto pipeline = Open(TextAround({"", cast}, WindowText(window)), FakeContext(2));
  EXPECT_EQ(pipeline->schema().ToString(), "a: float32[3], image: float32[3, 2, 2, 3]");
  size_t rows = 0;
  ForEachRow(*pipeline, [&](const Batch& batch, int64_t row) {
    for (size_t i = 0; i < 3; ++i) {
      const size_t k = static_cast<size_t>(row) * 3 + i;
      EXPECT_EQ(batch.Find("a").as<float>()[k], static_cast<float>(plain[rows][i].a));
      for (size_t p = 0; p < kElementPixels; ++p) {
        ASSERT_EQ(batch.Find("image").as<float>()[k * kElementPixels + p],
                  static_cast<float>(plain[rows][i].image[p]));
      }
    }
    ++rows;
  });
  EXPECT_EQ(rows, plain.size());
}

// S-WINDOW-5.
TEST_F(WindowRunTest, ADamagedRecordIsNamedByTheFirstWindowThatHoldsIt) {
  const std::string text = TextAround({"", ""}, WindowText({4, 3, 2}));
  const uint64_t bad = 17;  // ordinal 3 of shard-2; element 1 of window 5, the first that has it
  for (const int kind : {0, 1, 2}) {
    data.io_errors = data.short_reads = data.bad_crc = {};
    (kind == 0 ? data.io_errors : kind == 1 ? data.short_reads : data.bad_crc) = {bad};
    const absl::Status status = ErrorOf(text);
    const auto error = GetRecordError(status);
    ASSERT_TRUE(error.has_value()) << status;
    EXPECT_EQ(error->file, "shard-2") << status;
    EXPECT_EQ(error->ordinal, 3);
    EXPECT_EQ(error->position, 5) << status;
    EXPECT_MESSAGE(status);
  }
}

// S-WINDOW-5: of several bad elements of a window the first, and what a stage in front says is said
// of its own record.
TEST_F(WindowRunTest, WhatAStageInFrontSaysNamesTheElement) {
  readers::ExampleBuilder example;
  example.AddInt("b", 1);
  data.payloads[24] = example.Serialize();
  data.payloads[23] = example.Serialize();
  const absl::Status status = ErrorOf(TextAround({"", ""}, WindowText({5, 5, 1})));
  const auto error = GetRecordError(status);
  ASSERT_TRUE(error.has_value()) << status;
  EXPECT_EQ(error->reason, RecordErrorReason::kFeature);
  EXPECT_EQ(error->file, "shard-3");
  EXPECT_EQ(error->ordinal, 2);
  EXPECT_EQ(error->position, 4);
  EXPECT_MESSAGE(status);
  const RecordError where = Open(TextAround({"", ""}, WindowText({5, 5, 1})), FakeContext(1))
                                ->Locate({.epoch = 0, .record = 4});
  EXPECT_EQ(where.file, "shard-2");
  EXPECT_EQ(where.ordinal, 6);
}

// S-WINDOW-5, S-DAMAGE-4, S-DAMAGE-5.
TEST_F(WindowRunTest, PoliciesActOnWindows) {
  const WindowOf window{3, 1, 1};
  const auto good =
      WindowsIn(*Open(TextAround({"", ""}, WindowText(window), 38), FakeContext(2)), 3);
  data.bad_crc = {20};
  for (const std::string policy : {"mask", "skip", "replace"}) {
    const std::string text = absl::StrCat("on_damage { policy: \"", policy, "\" max_share: 1 }\n",
                                          TextAround({"", ""}, WindowText(window), 38));
    const auto pipeline = Open(text, FakeContext(2));
    const auto batch = pipeline->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    std::vector<int64_t> damaged;
    for (const DamagedSample& sample : (*batch)->damaged()) {
      damaged.push_back(static_cast<int64_t>(sample.id.record));
      EXPECT_EQ(GetRecordError(sample.error)->ordinal, 6) << sample.error;  // of shard-2
    }
    EXPECT_EQ(damaged, (std::vector<int64_t>{18, 19, 20}));
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      const uint64_t number = (*batch)->ids()[row].record;
      const bool is_bad = row >= 18 && row <= 20;
      const bool empty = policy == "mask" ? is_bad : policy == "skip" && row >= 35;
      ASSERT_EQ((*batch)->valid()[row], empty ? 0 : 1) << policy << " " << row;
      if (empty) continue;
      if (policy != "skip") {
        EXPECT_EQ(number == static_cast<uint64_t>(row), !is_bad);
      }
      for (size_t i = 0; i < 3; ++i) {
        ASSERT_EQ((*batch)->Find("a").as<int64_t>()[static_cast<size_t>(row) * 3 + i],
                  good[number][i].a)
            << policy << " " << row;
      }
    }
  }
}

void ThrowAtRecordTwenty(Run& run, Column*, int64_t row) {
  if (run.id(row).record == 20) throw std::runtime_error("no");
}

// S-USER-3: at an element 20, or at a window 20.
TEST_F(WindowRunTest, AnOpThatThrowsSpoilsItsWindowsAlone) {
  for (const bool front : {true, false}) {
    change = [front](PhysicalPlan& plan) {
      plan.ops.insert(front ? plan.ops.begin() : plan.ops.end(),
                      MakeRowOp("thrower", "", DType::kU8, ThrowAtRecordTwenty));
    };
    const absl::Status status = ErrorOf(TextAround({"", ""}, WindowText({3, 1, 1})));
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(GetRecordError(status)->position, front ? 18 : 20) << status;
    EXPECT_EQ(GetRecordError(status)->ordinal, 6) << status;  // of shard-2, both
    EXPECT_MESSAGE(status);
  }
}

// S-WINDOW-4.
TEST_F(WindowRunTest, WindowsThatAreNotFullAreLeftOutOrRefused) {
  const auto open = [&](const std::string& window) {
    return TryOpen(TextAround({"", ""}, "stage { window { " + window + " } }\n"), FakeContext(1));
  };
  EXPECT_TRUE(open("size: 8").ok());
  EXPECT_TRUE(open("size: 2 shift: 8").ok());
  EXPECT_MESSAGE(open("size: 7"));
  EXPECT_MESSAGE(open("size: 3 shift: 1"));
  EXPECT_MESSAGE(open("size: 41"));
  EXPECT_EQ(open("size: 7").status().code(), absl::StatusCode::kInvalidArgument);
  const auto none = open("size: 41 drop_remainder: true");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ((*none)->length().batches, 0u);
  EXPECT_FALSE((*none)->Next()->has_value());
  const auto endless =
      TryOpen(TextAround({"", "stage { repeat {} }\n"}, WindowText({41, 1, 1})), FakeContext(1));
  EXPECT_EQ(endless.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(endless);
}

// S-DAMAGE-7.
TEST_F(WindowRunTest, AQuarantineIsRefused) {
  OpenOptions options;
  options.quarantine_file = "q";
  const auto opened = TryOpen(TextAround({"", ""}, WindowText({})), FakeContext(1), options);
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(opened);
}

}  // namespace
}  // namespace millrace::pipeline
