#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/audit.h"
#include "pipeline/optimize/optimizer.h"
#include "readers/example_builder.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/temp_folder.h"

// Records of two sources side by side on their way into batches: read, looked at, damaged, audited.

namespace millrace::pipeline {
namespace {

constexpr uint64_t kFirst = 40, kSecond = 50;  // records of the inputs

// Record i of the first input holds a = i and i % 4 tags; that of the second b = 10 i, and bytes of
// which a run takes a few.
FakeData First() {
  FakeData data;
  for (uint64_t i = 0; i < kFirst; ++i) {
    readers::ExampleBuilder example;
    example.AddInt("a", static_cast<int64_t>(i));
    example.AddInts("tags", std::vector<int64_t>(i % 4, static_cast<int64_t>(i)));
    data.payloads.push_back(example.Serialize());
  }
  return data;
}
FakeData Second() {
  FakeData data;
  for (uint64_t i = 0; i < kSecond; ++i) {
    readers::ExampleBuilder example;
    example.AddInt("b", static_cast<int64_t>(10 * i));
    example.AddBytes("ballast", std::string(60'000, static_cast<char>('a' + i % 26)));
    data.payloads.push_back(example.Serialize());
  }
  return data;
}

std::string Parse(const std::string& field, const std::string& features) {
  return absl::StrCat("stage { parse_example { field: \"", field, "\" ", features, " } }\n");
}
std::string Feature(const std::string& key, const std::string& more = "") {
  return absl::StrCat("feature { key: \"", key, "\" dtype: INT64 ", more, " }");
}

// Steps behind either input and behind the zip, and a filter or unbatch behind the maps.
struct Steps {
  std::string first, second, behind, cut;
};

std::string TextOf(const Steps& steps) {
  return absl::StrCat(
      "seed: 7 lanes: 2 stage { zip {\n input { stage { tfrecord { files: \"x\" } } ", steps.first,
      " }\n input { stage { name: \"y\" tfrecord { files: \"y\" } } ", steps.second,
      " }\n field: [\"one\", \"two\"] } }\n", steps.behind, Parse("one", Feature("a")),
      Parse("two", Feature("b")), steps.cut, "stage { batch { size: 6 } }\n");
}

// Opens what a text says over these sources.
class ZipRunTest : public testing::Test {
 protected:
  std::unique_ptr<Pipeline> Open(const std::string& text, std::shared_ptr<Context> context,
                                 const OpenOptions& options = {}) const {
    const auto plan = Plan::FromText(text, "p");
    EXPECT_TRUE(plan.ok()) << plan.status() << text;
    auto physical = BuildPhysicalPlan(*plan);
    EXPECT_TRUE(physical.ok()) << physical.status() << text;
    if (change) change(*physical);
    std::vector<std::unique_ptr<readers::RecordSource>> sources;
    sources.push_back(std::make_unique<FakeSource>(first));
    sources.push_back(std::make_unique<FakeSource>(second));
    OpenedSources opened = JoinSources(*physical, std::move(sources));
    auto pipeline =
        OpenPhysical(*std::move(physical), std::move(opened), std::move(context), options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  // The error that the stream of `steps` ends with.
  absl::Status ErrorOf(const Steps& steps) const {
    return Drain(*Open(TextOf(steps), FakeContext(2))).end;
  }

  FakeData first = First(), second = Second();
  std::function<void(PhysicalPlan&)> change;  // of what is opened
};

struct SeenRow {
  SampleId id;
  int64_t a = 0, b = 0;
};

std::vector<SeenRow> RowsOf(Pipeline& pipeline) {
  std::vector<SeenRow> rows;
  ForEachRow(pipeline, [&](const Batch& batch, int64_t row) {
    rows.push_back(
        {batch.ids()[row], batch.Find("a").as<int64_t>()[row], batch.Find("b").as<int64_t>()[row]});
  });
  return rows;
}

constexpr char kKeepSome[] = "stage { filter { predicate: \"a >= 3 and b < 350\" } }\n";

std::vector<Steps> AllSteps() {
  const std::string shuffle = "stage { shuffle { buffer_size: 9 } }";
  const std::string global = "stage { global_shuffle {} }";
  const std::string twice = "stage { repeat { epochs: 2 } }\n";
  return {{"", "", "", ""},
          {"", "", global + twice, ""},
          {shuffle, global, twice, ""},
          {shuffle, "stage { shard { num_shards: 2 } } stage { repeat {} }", shuffle + twice, ""},
          {"", "stage { interleave { cycle_length: 3 } }",
           "stage { global_shuffle { block_bytes: 90000 } }\n", ""},
          {"", shuffle, twice, kKeepSome}};
}

// S-ZIP-1.
TEST_F(ZipRunTest, FieldsOfARowComeFromTheSameElement) {
  const auto rows =
      RowsOf(*Open(TextOf({"", "", "stage { global_shuffle {} }\n", ""}), FakeContext(2)));
  ASSERT_EQ(rows.size(), kFirst);
  std::set<int64_t> seen;
  for (const SeenRow& row : rows) {
    EXPECT_EQ(row.a, static_cast<int64_t>(row.id.record));
    EXPECT_EQ(row.b, 10 * row.a);
    seen.insert(row.a);
  }
  EXPECT_EQ(seen.size(), kFirst);
}

// S-RANDOM-2.
TEST_F(ZipRunTest, BitsDoNotDependOnThreadsRingOrBudget) {
  for (const Steps& steps : AllSteps()) {
    const std::string text = TextOf(steps);
    const Stream expected = Drain(*Open(text, FakeContext(1)));
    ASSERT_TRUE(expected.end.ok()) << expected.end;
    ASSERT_GT(expected.digests.size(), 4u);
    const std::pair<int, int64_t> ways[] = {{1, 1}, {2, 200'000}, {8, 1}, {8, 1 << 30}};
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
TEST_F(ZipRunTest, RanksAddUpAndEveryPlaceCanBeGoneTo) {
  for (const Steps& steps : AllSteps()) {
    const std::string text = TextOf(steps);
    const auto whole = Open(text, FakeContext(2));
    const Stream expected = Drain(*whole);
    std::vector<uint64_t> sums(expected.digests.size(), 0);
    for (const int rank : {0, 1}) {
      OpenOptions options;
      options.rank = rank;
      options.world = 2;
      const Stream part = Drain(*Open(text, FakeContext(2), options));
      ASSERT_EQ(part.digests.size(), sums.size());
      for (size_t b = 0; b < sums.size(); ++b) sums[b] += part.digests[b];
    }
    EXPECT_EQ(sums, expected.digests) << text;
    for (size_t b = 0; b < expected.digests.size(); ++b) {
      ASSERT_TRUE(whole->Restore(expected.tokens[b]).ok());
      const std::vector<uint64_t> rest(expected.digests.begin() + static_cast<ptrdiff_t>(b) + 1,
                                       expected.digests.end());
      ASSERT_EQ(Drain(*whole).digests, rest) << text;
      if (!steps.cut.empty()) continue;
      ASSERT_TRUE(whole->Seek(b + 1).ok());
      ASSERT_EQ(Drain(*whole).digests, rest) << text;
    }
  }
}

// S-CUT-1, S-CUT-5: tags of the first input, split, beside what the second one has.
TEST_F(ZipRunTest, CutsSeeTheFieldsOfAllInputs) {
  const std::string text = absl::StrCat(
      "stage { zip { input { stage { tfrecord { files: \"x\" } } }\n"
      " input { stage { tfrecord { files: \"y\" } } stage { shuffle { buffer_size: 8 } } }\n"
      " field: [\"one\", \"two\"] } }\n",
      Parse("one", Feature("a") + Feature("tags", "shape: -1")), Parse("two", Feature("b")),
      kKeepSome, "stage { unbatch { field: \"tags\" } }\n", "stage { batch { size: 6 } }\n");
  const Steps uncut{"", "stage { name: \"shuffle\" shuffle { buffer_size: 8 } }", "", ""};
  std::vector<std::pair<int64_t, int64_t>> expected, seen;
  const std::string plain = TextOf(uncut).substr(8);  // the same seed, 0
  for (const SeenRow& row : RowsOf(*Open(plain, FakeContext(1)))) {
    if (row.a < 3 || row.b >= 350) continue;
    for (int64_t tag = 0; tag < row.a % 4; ++tag) expected.emplace_back(row.a, row.b);
  }
  ASSERT_GT(expected.size(), 30u);
  for (const SeenRow& row : RowsOf(*Open(text, FakeContext(2)))) seen.emplace_back(row.a, row.b);
  EXPECT_EQ(seen, expected);
}

// S-ZIP-4.
TEST_F(ZipRunTest, ADamagedRecordIsNamedByItsOwnFile) {
  const uint64_t bad = 31;  // ordinal 3 of shard-4
  const auto spoil = [&](int kind, FakeData& data) {
    data.io_errors = data.short_reads = data.bad_crc = {};
    (kind == 0 ? data.io_errors : kind == 1 ? data.short_reads : data.bad_crc) = {bad};
  };
  for (const std::string cut : {"", kKeepSome}) {
    for (const int kind : {0, 1, 2}) {
      first = First();
      first.records_per_shard = 10;  // there the same element is ordinal 1 of shard-3
      spoil(kind, second);
      const absl::Status status = ErrorOf({"", "", "", cut});
      const auto error = GetRecordError(status);
      ASSERT_TRUE(error.has_value()) << status;
      EXPECT_EQ(error->file, "shard-4") << status;
      EXPECT_EQ(error->ordinal, 3);
      // Of two lanes that take three rows in turn, the filter leaves out the first three.
      EXPECT_EQ(error->position, cut.empty() ? 31 : 25) << status;
      EXPECT_MESSAGE(status);
      spoil(kind, first);
      EXPECT_EQ(GetRecordError(ErrorOf({"", "", "", cut}))->file, "shard-3");
    }
  }
}

// S-ZIP-4.
TEST_F(ZipRunTest, WhatAStageSaysOfARowNamesTheFirstInputsRecord) {
  second.payloads[16] = First().payloads[0];
  const absl::Status status = ErrorOf({"", "", "", ""});
  const auto error = GetRecordError(status);
  ASSERT_TRUE(error.has_value()) << status;
  EXPECT_EQ(error->reason, RecordErrorReason::kFeature);
  EXPECT_EQ(error->file, "shard-2");
  EXPECT_EQ(error->ordinal, 2);
  EXPECT_EQ(error->position, 16);
  EXPECT_MESSAGE(status);
  const RecordError where = Open(TextOf({}), FakeContext(1))->Locate({.epoch = 0, .record = 16});
  EXPECT_EQ(where.file, "shard-2");
  EXPECT_EQ(where.ordinal, 2);
}

// And fails rows whose fields do not belong together.
void ThrowAtTwenty(Run& run, Column*, int64_t row) {
  const auto value = [&](const char* field) {
    return *static_cast<const int64_t*>(run.Get(field).at(row).data);
  };
  if (value("b") != 10 * value("a")) run.Fail(row, absl::InternalError("of two elements"));
  if (run.id(row).record == 20) throw std::runtime_error("no");
}

// S-USER-3.
TEST_F(ZipRunTest, AnOpThatThrowsSpoilsItsRowAlone) {
  change = [](PhysicalPlan& plan) {
    plan.ops.push_back(MakeRowOp("thrower", "", DType::kU8, ThrowAtTwenty));
  };
  const absl::Status status = ErrorOf({"", "", "", ""});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(GetRecordError(status)->position, 20) << status;
  EXPECT_MESSAGE(status);
}

TEST_F(ZipRunTest, TheDataFingerprintIsThatOfAllSourcesInOrder) {
  const auto fingerprint = [this] { return Open(TextOf({}), FakeContext(1))->data_fingerprint(); };
  first.fingerprint = 1;
  second.fingerprint = 2;
  const uint64_t base = fingerprint();
  EXPECT_EQ(base, Mix64(Mix64(1) + 2));  // S-ORDER-21
  std::swap(first.fingerprint, second.fingerprint);
  EXPECT_NE(fingerprint(), base);
}

// S-VISIT-1.
TEST_F(ZipRunTest, AnAuditProvesEachElementVisitedOnce) {
  const TempFolder folder;
  const std::string text =
      TextOf({"stage { global_shuffle {} }", "stage { shuffle { buffer_size: 5 } }",
              "stage { global_shuffle {} } stage { repeat { epochs: 2 } }\n", ""});
  const auto plan = *Plan::FromText(text, "p");
  std::vector<std::string> logs;
  for (const bool forgets : {false, true}) {
    logs.clear();
    for (const int rank : {0, 1}) {
      OpenOptions options;
      options.rank = rank;
      options.world = 2;
      const auto pipeline = Open(text, FakeContext(2), options);
      const auto header = MakeAuditHeader(plan, *pipeline, options);
      ASSERT_TRUE(header.ok()) << header.status();
      EXPECT_EQ(header->expected_records, kFirst);
      logs.push_back(folder / absl::StrCat("log-", forgets, rank));
      const auto log = *AuditLog::Open(logs.back(), *header);
      uint64_t index = 0;
      while (const auto batch = *pipeline->Next()) {
        if (!forgets || index != 3) {
          ASSERT_TRUE(log->Add(*batch).ok());
        }
        ++index;
      }
      ASSERT_TRUE(log->Finish(index, true).ok());
    }
    const auto report = CheckAudit(logs);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->proven() && report->exactly_once(), !forgets);
    EXPECT_EQ(report->visits, forgets ? 2 * kFirst - 6 : 2 * kFirst);
  }
}

}  // namespace
}  // namespace millrace::pipeline
