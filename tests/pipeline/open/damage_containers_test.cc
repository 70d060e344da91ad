#include <algorithm>
#include <fstream>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "readers/quarantine.h"
#include "readers/repair.h"
#include "tests/pipeline/executor/executor_fixture.h"
#include "tests/readers/damage/shard_parts_fixture.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/temp_folder.h"

// Damaged shards of each container but TFRecord under each policy: text, CSV, tar, IDX and records
// of fixed length, as they are and as gzip with a damaged member in the middle. What records are
// lost is tests/readers/damage/resync_parts_test.cc's; here is what becomes of them in a stream.

namespace millrace::pipeline {
namespace {

using readers::ContainerKind;
using readers::ContainerOptions;

constexpr size_t kRecords = 60;
constexpr size_t kTextBytes = 40;
constexpr int kBatch = 7;

struct Case {
  std::string name;
  std::string source;  // of the plan, with its files left out
  ContainerOptions container;
  std::string bytes;               // of the file, damaged
  std::vector<std::string> whole;  // records that are
  size_t payload_bytes = 0;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::string TextOf(size_t i) {
  std::mt19937_64 random(i);
  std::string text = std::to_string(100 + i) + ",";
  while (text.size() < kTextBytes) text += static_cast<char>('a' + random() % 26);
  return text;
}

std::vector<std::string> Texts() {
  std::vector<std::string> texts;
  for (size_t i = 0; i < kRecords; ++i) texts.push_back(TextOf(i));
  return texts;
}

std::string Joined(const std::vector<std::string>& texts, const std::string& end) {
  std::string bytes;
  for (const std::string& text : texts) bytes += text + end;
  return bytes;
}

void Drop(size_t begin, size_t end, std::vector<std::string>& records) {
  records.erase(records.begin() + static_cast<ptrdiff_t>(begin),
                records.begin() + static_cast<ptrdiff_t>(end));
}

// Three members, of which the one in the middle cannot be inflated.
std::string DamagedGzip(const std::string& bytes) {
  const size_t third = bytes.size() / 3;
  std::string middle = readers::Deflated(bytes.substr(third, third), readers::Wrapper::kGzip);
  std::fill(middle.begin() + 10, middle.end(), '\xff');
  return readers::Deflated(bytes.substr(0, third), readers::Wrapper::kGzip) + middle +
         readers::Deflated(bytes.substr(2 * third), readers::Wrapper::kGzip);
}

Case Lines(const std::string& word, ContainerKind kind) {
  Case one{word, word, readers::Kind(kind), "", Texts(), kTextBytes};
  one.bytes = Joined(one.whole, "\n");
  return one;
}

Case Csv() {
  Case one = Lines("csv", ContainerKind::kCsv);
  one.bytes[10 * (kTextBytes + 1) + 4] = '"';  // is never closed
  Drop(10, 11, one.whole);
  return one;
}

Case LongLine() {
  Case one = Lines("text", ContainerKind::kText);
  one.source = "text";
  one.bytes.insert(10 * (kTextBytes + 1), std::string(1000, 'x') + "\n");
  return one;
}

Case Tar() {
  Case one{"tar", "tar", readers::Kind(ContainerKind::kTar), "", {}, 1024};
  readers::Named members;
  for (size_t i = 0; i < kRecords; ++i)
    members.emplace_back(std::to_string(100 + i) + ".x", TextOf(i));
  one.bytes = readers::Tar(members);
  for (size_t i = 0; i < kRecords; ++i) one.whole.push_back(one.bytes.substr(i * 1024, 1024));
  one.bytes[10 * 1024 + 3] ^= 1;
  Drop(9, 12, one.whole);
  return one;
}

Case Idx() {
  Case one{"idx", "idx", readers::Kind(ContainerKind::kIdx), "", Texts(), kTextBytes};
  one.bytes = readers::Idx(8, {kRecords, kTextBytes}, Joined(one.whole, ""));
  one.bytes.resize(one.bytes.size() - 5 * kTextBytes / 2);
  Drop(kRecords - 3, kRecords, one.whole);
  return one;
}

Case Fixed() {
  Case one{"fixed_length", "fixed_length", readers::FixedLength(0, kTextBytes, 0), "",
           Texts(),        kTextBytes};
  one.bytes = Joined(one.whole, "");
  one.bytes.resize(one.bytes.size() - 5 * kTextBytes / 2);
  Drop(kRecords - 3, kRecords, one.whole);
  return one;
}

Case Packed(Case one, size_t begin, size_t end) {
  one.name += ".gz";
  one.bytes = DamagedGzip(one.bytes);
  Drop(begin, end, one.whole);
  return one;
}

std::vector<Case> Cases() {
  Case text = Lines("text", ContainerKind::kText);
  Case csv = Lines("csv", ContainerKind::kCsv);
  Case idx{"idx", "idx", readers::Kind(ContainerKind::kIdx), "", Texts(), kTextBytes};
  idx.bytes = readers::Idx(8, {kRecords, kTextBytes}, Joined(idx.whole, ""));
  Case fixed = Fixed();
  fixed.whole = Texts();
  fixed.bytes = Joined(fixed.whole, "");
  // A third of 60 records ends with a record, so the line behind the damage is taken for its rest.
  return {LongLine(), Csv(), Tar(), Idx(), Fixed(), Packed(text, 20, 41), Packed(csv, 20, 41),
          // Of records of one size nothing behind the damage has a known place.
          Packed(idx, 19, kRecords), Packed(fixed, 20, kRecords)};
}

class DamageContainersTest : public testing::TestWithParam<Case> {
 protected:
  DamageContainersTest() : path_(folder_ / GetParam().name) {
    std::ofstream(path_, std::ios::binary) << GetParam().bytes;
  }

  Plan PlanOf(const std::string& policy, const std::string& order = "") const {
    const bool is_text = GetParam().container.kind == ContainerKind::kText;
    const bool is_fixed = GetParam().container.kind == ContainerKind::kFixedLength;
    const auto plan = Plan::FromText(
        absl::StrCat("seed: 5 stage { ", GetParam().source, " { files: \"", path_, "\"",
                     is_text ? " max_record_bytes: 200" : "",
                     is_fixed ? absl::StrCat(" record_bytes: ", kTextBytes) : "", " } } ", order,
                     " stage { decode_raw { output: \"bytes\" shape: ", GetParam().payload_bytes,
                     " } } stage { batch { size: ", kBatch, " } } on_damage { ", policy, " }"),
        "p");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const Plan& plan, const std::string& token = "") {
    OpenOptions options;
    options.index_folder = folder_ / "index";
    options.quarantine_file = quarantine_;
    options.resume_token = token;
    return Pipeline::Open(plan, context_, options);
  }

  struct Stream {
    std::vector<std::string> rows;
    std::vector<std::string> tokens;  // behind each batch
    std::vector<size_t> ends;         // of each batch, in rows
    std::vector<RecordError> damaged;
    size_t num_masked = 0;
    absl::Status end;
  };

  Stream Read(const Plan& plan, const std::string& token = "") {
    Stream stream;
    auto pipeline = Open(plan, token);
    stream.end = pipeline.status();
    while (stream.end.ok()) {
      const auto batch = (*pipeline)->Next();
      stream.end = batch.status();
      if (!batch.ok() || !batch->has_value()) break;
      for (const auto& one : (*batch)->damaged()) {
        stream.damaged.push_back(GetRecordError(one.error).value_or(RecordError()));
      }
      const auto bytes = (*batch)->Find("bytes").as<uint8_t>();
      for (size_t row = 0; row < static_cast<size_t>((*batch)->num_rows()); ++row) {
        if ((*batch)->valid()[row] == 0) {
          ++stream.num_masked;
          continue;
        }
        const size_t size = GetParam().payload_bytes;
        stream.rows.emplace_back(reinterpret_cast<const char*>(bytes.data()) + row * size, size);
      }
      stream.ends.push_back(stream.rows.size());
      stream.tokens.push_back((*pipeline)->Save());
    }
    return stream;
  }

  const TempFolder folder_;
  const std::string path_;
  const std::shared_ptr<Context> context_ = *MakeContext();
  std::string quarantine_;
};

constexpr char kAll[] = " max_share: 1";

// S-DAMAGE-11.
TEST_P(DamageContainersTest, EachPolicyDeliversEveryWholeRecord) {
  EXPECT_TRUE(absl::IsDataLoss(Read(PlanOf("policy: \"fail\"")).end));
  quarantine_ = folder_ / "quarantine";
  const Stream skipped = Read(PlanOf(absl::StrCat("policy: \"skip\"", kAll)));
  ASSERT_TRUE(skipped.end.ok()) << skipped.end;
  EXPECT_EQ(skipped.rows, GetParam().whole);
  ASSERT_FALSE(skipped.damaged.empty());
  const Stream masked = Read(PlanOf(absl::StrCat("policy: \"mask\"", kAll)));
  EXPECT_EQ(masked.rows, GetParam().whole);
  EXPECT_GE(masked.num_masked, skipped.damaged.size());
  const Stream replaced = Read(PlanOf(absl::StrCat("policy: \"replace\"", kAll)));
  ASSERT_TRUE(replaced.end.ok()) << replaced.end;
  EXPECT_EQ(replaced.rows.size(), GetParam().whole.size() + skipped.damaged.size());
  for (const std::string& row : replaced.rows) {
    EXPECT_THAT(GetParam().whole, testing::Contains(row));
  }
}

// S-DAMAGE-7: and `records verify` says the same of the places.
TEST_P(DamageContainersTest, TheQuarantineNamesWhatVerifyFinds) {
  quarantine_ = folder_ / "quarantine";
  const Stream stream = Read(PlanOf(absl::StrCat("policy: \"skip\"", kAll)));
  const auto listed = readers::ReadQuarantine(quarantine_);
  ASSERT_TRUE(listed.ok()) << listed.status();
  readers::VerifyOptions options;
  options.container = GetParam().container;
  if (GetParam().container.kind == ContainerKind::kText) options.max_record_bytes = 200;
  const auto report = readers::Verify(std::vector<std::string>{path_}, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_records, stream.rows.size());
  ASSERT_EQ(report->places.size(), listed->size());
  ASSERT_EQ(stream.damaged.size(), listed->size());
  for (size_t i = 0; i < listed->size(); ++i) {
    EXPECT_EQ((*listed)[i].file, path_);
    EXPECT_EQ((*listed)[i].offset, report->places[i].error.offset);
    EXPECT_EQ((*listed)[i].ordinal, report->places[i].error.ordinal);
    EXPECT_EQ((*listed)[i].reason, report->places[i].error.reason);
    EXPECT_NE((*listed)[i].reason, RecordErrorReason::kUnknown);
  }
  const readers::VerifyPlacesOptions again = {.container = options.container,
                                              .max_record_bytes = options.max_record_bytes};
  for (const readers::PlaceCheck& check : readers::VerifyPlaces(*listed, again)) {
    EXPECT_TRUE(check.damaged) << check.message;
  }
}

// S-STATE-1.
TEST_P(DamageContainersTest, AShuffledStreamGoesOnBehindEveryBatch) {
  const Plan plan = PlanOf(absl::StrCat("policy: \"skip\"", kAll),
                           "stage { global_shuffle {} } stage { repeat { epochs: 2 } }");
  const Stream whole = Read(plan);
  ASSERT_TRUE(whole.end.ok()) << whole.end;
  EXPECT_NE(whole.rows, GetParam().whole);
  std::vector<std::string> sorted = whole.rows;
  std::ranges::sort(sorted);
  std::vector<std::string> want = GetParam().whole;
  want.insert(want.end(), GetParam().whole.begin(), GetParam().whole.end());
  std::ranges::sort(want);
  EXPECT_EQ(sorted, want);
  for (size_t i = 0; i < whole.tokens.size(); ++i) {
    const Stream rest = Read(plan, whole.tokens[i]);
    ASSERT_TRUE(rest.end.ok()) << rest.end;
    EXPECT_EQ(rest.rows,
              std::vector<std::string>(whole.rows.begin() + static_cast<ptrdiff_t>(whole.ends[i]),
                                       whole.rows.end()));
  }
}

// S-DAMAGE-6.
TEST_P(DamageContainersTest, TheLimitHolds) {
  const Plan plan = PlanOf("policy: \"skip\" max_count: 1", "stage { repeat { epochs: 2 } }");
  const Stream stream = Read(plan);
  EXPECT_TRUE(absl::IsDataLoss(stream.end)) << stream.end;
  EXPECT_THAT(std::string(stream.end.message()), testing::HasSubstr("max_count 1"));
}

// Rows are judged as parse_csv splits them, whatever the source says of its delimiter.
TEST(DamageDelimiterTest, GoodRowsStayUnderEachPolicy) {
  const TempFolder folder;
  std::ofstream out(folder / "a.tsv", std::ios::binary);
  for (int i = 0; i < 100; ++i) out << i << "\ttext" << std::string(i % 4, ',') << "\n";
  out.close();
  const auto context = *MakeContext();
  const std::string csv = absl::StrCat("csv { files: \"", folder / "a.tsv", "\" }");
  const std::string parse =
      "stage { parse_csv { column: [\"id\", \"text\"] delimiter: \"\\t\""
      " feature { key: \"id\" dtype: INT64 } ";
  const std::string zipped =
      absl::StrCat("zip { input { stage { ", csv, " } } field: \"row\"",
                   " input { stage { range { count: 100 } } } field: \"n\" }");
  for (const std::string policy : {"fail", "skip", "mask"}) {
    for (const bool is_zip : {false, true}) {
      const auto plan = Plan::FromText(
          absl::StrCat("seed: 5 stage { ", is_zip ? zipped : csv, " } ", parse,
                       is_zip ? "field: \"row\"" : "",
                       " } } stage { batch { size: 100 } } on_damage { policy: \"", policy, "\" }"),
          "p");
      ASSERT_TRUE(plan.ok()) << plan.status();
      OpenOptions options;
      options.index_folder = folder / "index";
      auto pipeline = Pipeline::Open(*plan, context, options);
      ASSERT_TRUE(pipeline.ok()) << pipeline.status();
      const auto batch = (*pipeline)->Next();
      ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
      EXPECT_TRUE((*batch)->damaged().empty()) << policy;
      const auto ids = (*batch)->Find("id").as<int64_t>();
      ASSERT_EQ(ids.size(), 100u) << policy;
      for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i) << policy;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamageContainersTest, testing::ValuesIn(Cases()),
                         [](const auto& test) {
                           std::string name = test.param.name;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace millrace::pipeline
