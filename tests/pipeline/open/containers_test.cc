#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/memory_records.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/temp_folder.h"

// Plans over every kind of source, from files to batches. How records lie in files is tested in
// tests/readers/container/container_test.cc; here: that everything else works on all of them alike.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Strings = std::vector<std::string>;

constexpr int kShards = 3;
constexpr int kPerShard = 11;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// "number 07": all of one length, so that they fit every container.
std::string Payload(int number) { return absl::StrCat("number ", number < 10 ? "0" : "", number); }

class ContainersTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    for (int shard = 0; shard < kShards; ++shard) {
      std::string lines, rows = "a,b\n", fixed = "H", idx, labels;
      for (int i = shard * kPerShard; i < (shard + 1) * kPerShard; ++i) {
        lines += Payload(i) + "\n";
        rows += Payload(i) + "\r\n\r\n";
        fixed += Payload(i);
        idx += Payload(i);
        labels += static_cast<char>(i % 5);
      }
      Write(absl::StrCat("text-", shard), lines);
      Write(absl::StrCat("csv-", shard), rows);
      Write(absl::StrCat("fixed-", shard), fixed + "FF");
      Write(absl::StrCat("idx-", shard), std::string("\0\0\x08\x03", 4) + BigEndian(kPerShard) +
                                             BigEndian(3) + BigEndian(3) + idx);
      Write(absl::StrCat("labels-", shard),
            std::string("\0\0\x08\x01", 4) + BigEndian(kPerShard) + labels);
    }
    for (int i = 0; i < kShards * kPerShard; ++i) {
      Write(absl::StrCat("images/class", i / kPerShard, "/", Payload(i), ".png"), Payload(i));
    }
  }
  static void TearDownTestSuite() { delete folder_; }

  static void Write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = *folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out << bytes;
    ASSERT_TRUE(out.good()) << path;
  }
  static std::string Path(const std::string& name) { return *folder_ / name; }

  // One source of each kind, of the same records.
  static std::vector<std::string> Sources() {
    return {absl::StrCat("text { files: '", Path("text-*"), "' }"),
            absl::StrCat("csv { files: '", Path("csv-*"), "' header: true }"),
            absl::StrCat("fixed_length { files: '", Path("fixed-*"),
                         "' record_bytes: 9 header_bytes: 1 footer_bytes: 2 }"),
            absl::StrCat("idx { files: '", Path("idx-*"), "' }"),
            absl::StrCat("image_folder { path: '", Path("images"), "' }"),
            "memory {}"};
  }
  static std::string Text(const std::string& source, const std::string& order) {
    return absl::StrCat("seed: 5\nstage { ", source, " }\n", order,
                        "stage { decode_raw { shape: 9 } }\nstage { batch { size: 4 } }\n");
  }

  static absl::StatusOr<std::unique_ptr<Pipeline>> TryOpen(const std::string& text,
                                                           OpenOptions options = {}) {
    const auto plan = Plan::FromText(text, "p");
    if (!plan.ok()) return plan.status();
    options.index_folder = Path("index");
    options.memory["memory"] = Records();
    return Pipeline::Open(*plan, *MakeContext(), options);
  }
  static std::unique_ptr<Pipeline> Open(const std::string& text, OpenOptions options = {}) {
    auto pipeline = TryOpen(text, std::move(options));
    EXPECT_TRUE(pipeline.ok()) << pipeline.status() << "\n" << text;
    return pipeline.ok() ? *std::move(pipeline) : nullptr;
  }
  static std::shared_ptr<const MemoryRecords> Records() {
    Strings records;
    for (int i = 0; i < kShards * kPerShard; ++i) records.push_back(Payload(i));
    return MemoryRecords::Make(records);
  }

  struct Rows {
    Strings records;
    std::vector<int64_t> labels;
    std::vector<std::string> tokens;  // of batches
  };
  // The rows of a field of 9 bytes, and the labels if there are any.
  static Rows Drain(Pipeline& pipeline, const std::string& field = "record") {
    Rows rows;
    while (true) {
      const auto batch = pipeline.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) return rows;
      rows.tokens.push_back((*batch)->resume_token());
      for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
        if ((*batch)->valid()[static_cast<size_t>(row)] == 0) continue;
        const auto* bytes = static_cast<const char*>((*batch)->Find(field).data) + 9 * row;
        rows.records.emplace_back(bytes, 9);
        const ConstTensorView labels = (*batch)->Find("label");
        if (labels.data == nullptr) continue;
        rows.labels.push_back(static_cast<const int64_t*>(labels.data)[row]);
      }
    }
  }

 private:
  static TempFolder* folder_;
};

TempFolder* ContainersTest::folder_ = nullptr;

// S-SOURCE-1, S-SOURCE-7, S-SOURCE-8.
TEST_F(ContainersTest, EverySourceGivesItsRecordsInOrderAndByEveryOrder) {
  Strings all;
  for (int i = 0; i < kShards * kPerShard; ++i) all.push_back(Payload(i));
  Strings shuffled;
  for (const std::string& source : Sources()) {
    EXPECT_EQ(Drain(*Open(Text(source, ""))).records, all) << source;
    const std::string order =
        "stage { global_shuffle {} }\nstage { shard { num_shards: 2 index: 1 } }\n"
        "stage { repeat { epochs: 3 } }\n";
    const Rows rows = Drain(*Open(Text(source, order)));
    EXPECT_EQ(rows.records.size(), 3u * 16) << source;
    if (shuffled.empty()) shuffled = rows.records;
    EXPECT_EQ(rows.records, shuffled) << "the order is one of numbers: " << source;
  }
}

// S-SOURCE-1, S-STATE-1.
TEST_F(ContainersTest, EverySourceGoesOnFromEveryToken) {
  for (const std::string& source : Sources()) {
    const std::string text =
        Text(source, "stage { shuffle { buffer_size: 7 } }\nstage { repeat { epochs: 2 } }\n");
    const Rows whole = Drain(*Open(text));
    ASSERT_EQ(whole.records.size(), 66u) << source;
    for (size_t i = 0; i + 1 < whole.tokens.size(); i += 3) {
      OpenOptions options;
      options.resume_token = whole.tokens[i];
      const Rows rest = Drain(*Open(text, options));
      EXPECT_EQ(rest.records, Strings(whole.records.begin() + 4 * (static_cast<int64_t>(i) + 1),
                                      whole.records.end()))
          << source << " after " << i;
    }
  }
}

// S-SOURCE-1: files are read in turns whatever lies in them.
TEST_F(ContainersTest, InterleaveTakesTurnsAmongTheFilesOfAnySource) {
  for (const std::string& source : Sources()) {
    const std::string text = Text(source, "stage { interleave { cycle_length: 3 } }\n");
    if (source.starts_with("image_folder") || source.starts_with("memory")) {
      EXPECT_MESSAGE(ErrorOf(text));
      continue;
    }
    const Strings records = Drain(*Open(text)).records;
    EXPECT_EQ(Strings(records.begin(), records.begin() + 4),
              (Strings{Payload(0), Payload(11), Payload(22), Payload(1)}))
        << source;
  }
}

// S-SOURCE-1: of one join's inputs each may be another container.
TEST_F(ContainersTest, SourcesOfAllKindsMayBeJoined) {
  std::string inputs;
  for (const std::string& source : Sources()) {
    if (source.starts_with("image_folder")) continue;
    absl::StrAppend(&inputs, "input { stage { ", source, " } stage { take { count: 2 } } }\n");
  }
  const Strings records = Drain(*Open(Text("concatenate { " + inputs + " }", ""))).records;
  ASSERT_EQ(records.size(), 10u);
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i], Payload(i % 2));
}

// S-SOURCE-6, S-ZIP-1: the data set of MNIST as it is published.
TEST_F(ContainersTest, ZippedIdxFilesOfImagesAndLabelsTrain) {
  const std::string text = absl::StrCat(
      "seed: 1\nstage { zip {\n input { stage { name: 'images' idx { files: '", Path("idx-*"),
      "' } } }\n input { stage { name: 'labels' idx { files: '", Path("labels-*"),
      "' } } }\n field: ['image', 'label'] } }\nstage { global_shuffle {} }\n"
      "stage { decode_raw { field: 'image' shape: [3, 3] } }\n"
      "stage { decode_raw { field: 'label' } }\n"
      "stage { cast { field: 'label' dtype: INT64 } }\nstage { batch { size: 5 } }\n");
  const Rows rows = Drain(*Open(text), "image");
  ASSERT_EQ(rows.records.size(), 33u);
  Strings sorted = rows.records;
  std::ranges::sort(sorted);
  EXPECT_NE(sorted, rows.records);
  for (size_t i = 0; i < rows.records.size(); ++i) {
    EXPECT_EQ(rows.labels[i], std::stoi(rows.records[i].substr(7)) % 5) << rows.records[i];
    EXPECT_EQ(sorted[i], Payload(static_cast<int>(i)));
  }
}

// S-SOURCE-7.
TEST_F(ContainersTest, ImagesOfAFolderHaveTheLabelsOfTheirClasses) {
  const std::string folder = Sources()[4];
  const auto expect_labels = [](const Rows& rows, size_t count) {
    ASSERT_EQ(rows.labels.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(rows.labels[i], std::stoi(rows.records[i].substr(7)) / kPerShard);
    }
  };
  expect_labels(Drain(*Open(Text(folder, "stage { global_shuffle {} }\n"))), 33);
  // Pass 1 keeps the records that it has read; labels are not among their bytes.
  for (const char* more : {"", " materialize: true"}) {
    const std::string filter =
        absl::StrCat("stage { filter { predicate: 'label in (0, 2)'", more, " } }\n");
    expect_labels(Drain(*Open(Text(folder, filter))), 22);
  }
  const std::string two = absl::StrCat("concatenate { input { stage { ", folder,
                                       " } } input { stage { name: 'again' ", folder, " } } }");
  expect_labels(Drain(*Open(Text(two, "stage { shuffle { buffer_size: 50 } }\n"))), 66);

  const std::string one = absl::StrCat("image_folder { path: '", Path("images/class1"), "'");
  EXPECT_THAT(Drain(*Open(Text(one + " label: 8 }", "stage { take { count: 2 } }\n"))).labels,
              ElementsAre(8, 8));
  EXPECT_MESSAGE(TryOpen(Text(one + " }", "")).status());
}

// S-SOURCE-7.
TEST_F(ContainersTest, AnImageThatChangedIsAnErrorThatNamesIt) {
  Write("few/a/1.png", "123456789");
  const auto pipeline = Open(Text(absl::StrCat("image_folder { path: '", Path("few"), "' }"),
                                  "stage { repeat { epochs: 1000 } }\n"));
  Write("few/a/1.png", "1234567890");
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = pipeline->Next().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_EQ(GetRecordError(status)->file, Path("few/a/1.png"));
  const absl::Status large =
      TryOpen(
          Text(absl::StrCat("image_folder { path: '", Path("few"), "' max_record_bytes: 9 }"), ""))
          .status();
  EXPECT_EQ(GetRecordError(large)->reason, RecordErrorReason::kAbsurdLength) << large;
}

// A member as POSIX has it, by hand.
std::string TarMember(const std::string& name, const std::string& bytes) {
  std::string header = name;
  header.resize(512);
  header.replace(124, 12, absl::StrCat("0000000000", bytes.size(), " "));
  header.replace(148, 8, 8, ' ');
  header[156] = '0';
  header.replace(257, 8, std::string("ustar\00000", 8));
  int sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  std::string octal;
  for (int shift = 15; shift >= 0; shift -= 3) octal += static_cast<char>('0' + (sum >> shift & 7));
  header.replace(148, 8, octal + std::string("\0 ", 2));
  return header + bytes + std::string(512 - bytes.size(), '\0');
}

// S-SOURCE-5.
TEST_F(ContainersTest, SamplesOfTarsShuffleAndGoOnFromEveryToken) {
  for (int shard = 0; shard < 2; ++shard) {
    std::string tar;
    for (int i = 0; i < 7; ++i) {
      const std::string name = absl::StrCat("sample", shard, i);
      tar += TarMember(name + ".txt", "text");
      if (i % 2 == 0) tar += TarMember(name + ".cls", "1");
    }
    Write(absl::StrCat("train-", shard, ".tar"), tar + std::string(1024, '\0'));
  }
  const std::string text =
      absl::StrCat("seed: 5\nstage { tar { files: '", Path("train-*.tar"),
                   "' } }\nstage { global_shuffle {} }\nstage { padded_batch { size: 3 } }\n");
  const auto names = [](Pipeline& pipeline, std::vector<std::string>* tokens) {
    Strings found;
    while (true) {
      const auto batch = pipeline.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) return found;
      tokens->push_back((*batch)->resume_token());
      const ConstTensorView records = (*batch)->Find("record");
      for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
        if ((*batch)->valid()[static_cast<size_t>(row)] == 0) continue;
        found.emplace_back(static_cast<const char*>(records.data) + row * records.shape[1], 8);
        const int members = (found.back()[7] - '0') % 2 == 0 ? 2 : 1;
        EXPECT_EQ((*batch)->row_shape(0, row), Shape({members * 1024})) << found.back();
      }
    }
  };
  std::vector<std::string> tokens;
  const Strings whole = names(*Open(text), &tokens);
  ASSERT_EQ(whole.size(), 14u);
  EXPECT_FALSE(std::ranges::is_sorted(whole));
  EXPECT_EQ(std::set<std::string>(whole.begin(), whole.end()).size(), 14u);
  for (size_t i = 0; i + 1 < 4; ++i) {
    OpenOptions options;
    options.resume_token = tokens[i];
    std::vector<std::string> later;
    EXPECT_EQ(names(*Open(text, options), &later),
              Strings(whole.begin() + 3 * (static_cast<int64_t>(i) + 1), whole.end()));
  }
}

// S-SOURCE-8.
TEST_F(ContainersTest, RecordsInMemoryGoByTheNameOfTheirStage) {
  const std::string text = Text("memory {}", "");
  EXPECT_EQ(Open(text)->data_fingerprint(), Open(text)->data_fingerprint());
  OpenOptions options;
  options.memory["mine"] = MemoryRecords::Make(Strings{"", "other", ""});
  const std::string named =
      "stage { name: 'mine' memory {} }\nstage { padded_batch { size: 3 } }\n";
  const auto pipeline = Open(named, options);
  EXPECT_NE(pipeline->data_fingerprint(), Open(text)->data_fingerprint());
  const auto batch = pipeline->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)->row_shape(0, 0), Shape({0}));
  EXPECT_EQ((*batch)->row_shape(0, 1), Shape({5}));
  options.memory["mine"] = MemoryRecords::Make(Strings{"", ""});
  EXPECT_TRUE(Open(named, options)->Next().ok()) << "nothing to read at all";
  EXPECT_MESSAGE(TryOpen("stage { name: 'memori' memory {} }\n"
                         "stage { padded_batch { size: 3 } }\n")
                     .status());
}

TEST_F(ContainersTest, RecordsInMemoryAreExplainedWithoutThem) {
  const auto plan =
      Plan::FromText("stage { memory {} }\nstage { ragged_batch { size: 3 } }\n", "memory.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto text = Explain(*plan, nullptr);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("memory"));
}

// S-DAMAGE-7.
TEST_F(ContainersTest, AZipHasNoQuarantine) {
  OpenOptions options;
  options.quarantine_file = Path("quarantine.jsonl");
  const auto refused = TryOpen(
      "stage { zip { input { stage { range { count: 4 } } } input { stage { range { count: 4 } } "
      "}\n"
      "field: ['a', 'b'] } }\nstage { batch { size: 2 } }\n",
      options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(refused.status());
}

// S-SOURCE-2, S-SOURCE-4.
TEST_F(ContainersTest, OptionsOfSourcesAreChecked) {
  const auto error = [](const std::string& source) {
    return ErrorOf("stage { " + source + " }\n" + kBatch);
  };
  EXPECT_MESSAGE(error("text { }"));
  EXPECT_MESSAGE(error("text { files: 'a' compression: 'gzp' }"));
  EXPECT_MESSAGE(error("fixed_length { files: 'a' }"));
  EXPECT_MESSAGE(error("csv { files: 'a' delimiter: '\"' }"));
  EXPECT_MESSAGE(error("csv { files: 'a' delimiter: 'ab' }"));
  EXPECT_MESSAGE(error("image_folder { }"));
  EXPECT_MESSAGE(error("texd { files: 'a' }"));
  EXPECT_MESSAGE(error("zip { input { stage { image_folder { path: 'a' } } } field: 'x' }"));
  EXPECT_MESSAGE(
      error("mix { input { stage { text { files: 'a' } } }"
            " input { stage { image_folder { path: 'a' } } } }"));
}

// S-PLAN-2.
TEST_F(ContainersTest, ExplainSaysWhatIsRead) {
  std::string text;
  for (const std::string& source : Sources()) {
    const auto plan = Plan::FromText(Text(source, ""), "p");
    OpenOptions options;
    options.index_folder = Path("index");
    options.memory["memory"] = Records();
    const auto explained = Explain(*plan, nullptr, options);
    ASSERT_TRUE(explained.ok()) << explained.status();
    EXPECT_THAT(*explained, HasSubstr("records 33 (")) << source;
    text += *explained;
  }
  EXPECT_THAT(text, HasSubstr("(lines of text, compression auto)"));
  EXPECT_THAT(text, HasSubstr("(rows of CSV, the first one names columns, compression auto)"));
  EXPECT_THAT(text, HasSubstr("(records of 9 B, header 1 B, footer 2 B, compression auto)"));
  EXPECT_THAT(text, HasSubstr("(elements of IDX, compression auto)"));
  EXPECT_THAT(text, HasSubstr("(images, labels by their folders)"));
  EXPECT_THAT(text, HasSubstr("records that the host program has in memory"));
}

}  // namespace
}  // namespace millrace::pipeline
