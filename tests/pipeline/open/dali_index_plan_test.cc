#include <gmock/gmock.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "pipeline/pipeline.h"
#include "readers/dali_index.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

// tfrecord { dali_index }, from files to batches.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRecords = 40;          // of each of two files
constexpr uint64_t kFrameBytes = 24;  // a number of 8 bytes

class DaliIndexPlanTest : public testing::Test {
 protected:
  // Record i of file f is the number 100 f + i.
  DaliIndexPlanTest() {
    for (int f = 0; f < 2; ++f) {
      auto writer = readers::TfRecordWriter::Open(File(f));
      EXPECT_TRUE(writer.ok()) << writer.status();
      for (int64_t i = 0; i < kRecords; ++i) {
        const int64_t value = 100 * f + i;
        EXPECT_TRUE((*writer)->Write({reinterpret_cast<const char*>(&value), 8}).ok());
      }
      EXPECT_TRUE((*writer)->Close().ok());
      WriteIndex(f, 1);
    }
  }

  std::string File(int f) const { return folder_ / absl::StrCat("data-", f); }
  // Lists every `step`-th record from `first` on, `shift` bytes from where it is.
  void WriteIndex(int f, int step, uint64_t shift = 0, uint64_t first = 0) const {
    std::string lines;
    for (uint64_t i = first; i < kRecords; i += static_cast<uint64_t>(step)) {
      absl::StrAppend(&lines, i * kFrameBytes + shift, " ", kFrameBytes, "\n");
    }
    WriteFile(folder_ / absl::StrCat("data-", f, ".idx"), lines);
  }

  // Batches of 4 of both files.
  std::string Text(const std::string& stages, bool by_index, const std::string& head = "") const {
    return absl::StrCat(
        head, "stage { tfrecord { files: \"", folder_ / "data-?", "\" ",
        by_index ? absl::StrCat("dali_index: \"", folder_ / "data-*.idx", "\" ") : "", "} }\n",
        stages,
        "stage { decode_raw { output: \"x\" dtype: INT64 } }\nstage { batch { size: 4 } }\n");
  }

  // All numbers of the stream, or the error that ends it. An empty `token` becomes that of the
  // first batch, and nothing is read behind it.
  absl::StatusOr<std::vector<int64_t>> Read(const std::string& text, std::string* token = nullptr) {
    const auto plan = Plan::FromText(text, "p");
    if (!plan.ok()) return plan.status();
    auto context = MakeContext();
    if (!context.ok()) return context.status();
    OpenOptions options;
    options.index_folder = folder_ / "index";
    if (token != nullptr) options.resume_token = *token;
    auto pipeline = Pipeline::Open(*plan, *context, options);
    if (!pipeline.ok()) return pipeline.status();
    std::vector<int64_t> numbers;
    while (true) {
      const auto batch = (*pipeline)->Next();
      if (!batch.ok()) return batch.status();
      if (!batch->has_value()) return numbers;
      const auto values = (*batch)->Find("x").as<int64_t>();
      numbers.insert(numbers.end(), values.begin(), values.end());
      if (token != nullptr && token->empty()) {
        *token = (*batch)->resume_token();
        return numbers;
      }
    }
  }

  const TempFolder folder_;
};

TEST_F(DaliIndexPlanTest, AWholeIndexGivesTheSameStreamAndTakesItsTokens) {
  const std::string stages = "stage { global_shuffle {} }\nstage { repeat { epochs: 2 } }\n";
  const auto plain = Read(Text(stages, false));
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto by_index = Read(Text(stages, true));
  ASSERT_TRUE(by_index.ok()) << by_index.status();
  EXPECT_EQ(*by_index, *plain);
  std::string token;
  ASSERT_TRUE(Read(Text(stages, false), &token).ok());
  const auto rest = Read(Text(stages, true), &token);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(*rest, std::vector<int64_t>(plain->begin() + 4, plain->end()));
}

TEST_F(DaliIndexPlanTest, AnIndexOfSomeRecordsIsTheSetOfThese) {
  WriteIndex(0, 10);
  WriteIndex(1, 20);
  EXPECT_THAT(*Read(Text("", true)), ElementsAre(0, 10, 20, 30, 100, 120, 0, 0));
  EXPECT_THAT(
      *Read(Text("stage { interleave { cycle_length: 2 } }\nstage { take { count: 4 } }\n", true)),
      ElementsAre(0, 100, 10, 120));
  std::string token;
  ASSERT_TRUE(Read(Text("", true), &token).ok());
  EXPECT_FALSE(Read(Text("", false), &token).ok());  // other data
}

TEST_F(DaliIndexPlanTest, WhatAFilterFoundIsForTheSameChoiceOfRecords) {
  const std::string text =
      absl::StrCat("stage { tfrecord { files: \"", File(0), "\" dali_index: \"", File(0),
                   ".idx\" } }\nstage { decode_raw { output: \"x\" dtype: INT64 } }\n"
                   "stage { filter { predicate: \"x in (0, 4, 21)\" materialize: true } }\n",
                   kBatch);
  WriteIndex(0, 2);
  EXPECT_THAT(*Read(text), ElementsAre(0, 4, 0, 0));
  WriteIndex(0, 2, 0, 1);  // as many records, as long
  EXPECT_THAT(*Read(text), ElementsAre(21, 0, 0, 0));
}

TEST_F(DaliIndexPlanTest, AWrongIndexEndsTheStreamUnderEveryPolicy) {
  WriteIndex(0, 2, 4);
  for (const std::string policy : {"fail", "skip", "mask"}) {
    const auto read = Read(Text("", true, "on_damage { policy: \"" + policy + "\" }\n"));
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss) << policy;
    EXPECT_MESSAGE(read.status());
  }
}

TEST_F(DaliIndexPlanTest, AFileWhoseNameBeginsAnotherHasItsOwnIndex) {
  const std::string longer = File(0) + ".b";  // behind data-0, but data-0.b.idx before data-0.idx
  WriteFile(longer, ReadFile(File(1)));
  WriteFile(longer + ".idx", "0 24\n");
  WriteIndex(0, 20);
  const std::string text =
      absl::StrCat("stage { tfrecord { files: \"", folder_ / "data-0{,.b}", "\" dali_index: \"",
                   folder_ / "data-0*.idx",
                   "\" } }\nstage { decode_raw { output: \"x\" dtype: INT64 } }\n", kBatch);
  EXPECT_THAT(*Read(text), ElementsAre(0, 20, 100, 0));
}

TEST(PairDaliIndexes, GoesByNamesThenByOrder) {
  using Strings = std::vector<std::string>;
  const auto paired = [](const Strings& files, const Strings& indexes) {
    const auto pairs = readers::PairDaliIndexes(files, indexes);
    return pairs.ok() ? *pairs : Strings{std::string(pairs.status().message())};
  };
  // '-' < '.': these are sorted otherwise than their files.
  EXPECT_THAT(paired({"d/a-b.tfrecord", "d/a.tfrecord"}, {"d/a-b.idx", "d/a.idx"}),
              ElementsAre("d/a-b.idx", "d/a.idx"));
  EXPECT_THAT(paired({"x/b.tfrecord", "y/a.tfrecord"}, {"i/a.tfrecord.idx", "i/b.tfrecord.idx"}),
              ElementsAre("i/b.tfrecord.idx", "i/a.tfrecord.idx"));
  EXPECT_THAT(paired({"x/a", "y/a"}, {"x/a.idx", "y/a.idx"}), ElementsAre("x/a.idx", "y/a.idx"));
  EXPECT_THAT(paired({"a", "b"}, {"1.idx", "2.idx"}), ElementsAre("1.idx", "2.idx"));
  EXPECT_THAT(paired({"a", "b"}, {"a.idx", "z.idx"}), ElementsAre("a.idx", "z.idx"));
  EXPECT_THAT(paired({"a", "b"}, {"b.idx", "z.idx"}),
              ElementsAre(HasSubstr("b.idx: by its name the index of b, by its place that of a")));
  EXPECT_THAT(paired({"a", "b"}, {"a.idx"}), ElementsAre("1 index files for 2 files"));
}

TEST_F(DaliIndexPlanTest, EachFileNeedsItsOwn) {
  const std::string text =
      absl::StrCat("stage { tfrecord { files: \"", folder_ / "data-?", "\" dali_index: \"",
                   folder_ / "data-0.idx", "\" } }\nstage { decode_raw {} }\n", kBatch);
  EXPECT_MESSAGE(Read(text).status());
}

TEST(DaliIndexPlanCheck, WhatCannotStandBesideItIsTold) {
  const auto error = [](const std::string& options) {
    return ErrorOf("stage { tfrecord { files: \"a\" " + options + " } }\n" + kBatch);
  };
  EXPECT_MESSAGE(error("dali_index: \"\""));
  EXPECT_MESSAGE(error("dali_index: \"a.idx\" skip_crc: true"));
  EXPECT_MESSAGE(error("compression: \"gzip\" dali_index: \"a.idx\""));
}

TEST(DaliIndexPlanCheck, ItDoesNotCountAsAnotherPlan) {
  const auto fingerprint = [](const std::string& options) {
    return Make("stage { tfrecord { files: \"a\" " + options + " } }\n" + kBatch).Fingerprint();
  };
  EXPECT_EQ(fingerprint("dali_index: \"a.idx\""), fingerprint(""));
}

}  // namespace
}  // namespace millrace::pipeline
