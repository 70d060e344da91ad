#include "readers/quarantine.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/damaged_bytes.h"
#include "tests/messages.h"
#include "tests/temp_files.h"

namespace millrace::readers {
namespace {

RecordError Place(std::string file, int64_t ordinal) {
  return {.file = std::move(file),
          .offset = 100 * ordinal,
          .ordinal = ordinal,
          .position = ordinal + 7,
          .reason = RecordErrorReason::kDataCrc};
}

void Append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(QuarantineTest, LinesReadBack) {
  for (const std::string file : {"a.tfrecord", "/x y/\"q\"\\b\n\t", "\xc3\xa4", "\xff\xfe"}) {
    for (int32_t reason = 1; reason <= 12; ++reason) {
      RecordError error = Place(file, 3);
      error.reason = static_cast<RecordErrorReason>(reason);
      std::string line = QuarantineLine(error);
      ASSERT_EQ(line.find('\n'), line.size() - 1);
      line.pop_back();
      const auto read = ParseQuarantineLine(line);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->file, file);
      EXPECT_EQ(read->offset, 300);
      EXPECT_EQ(read->ordinal, 3);
      EXPECT_EQ(read->position, 10);
      EXPECT_EQ(read->reason, error.reason);
    }
  }
}

TEST(QuarantineTest, WhatIsNoLineNamesItsPlace) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  for (const std::string bad :
       {"", "x", "{}", "{\"file\": \"a\"}", "{\"file\": \"a\", \"ordinal\": }",
        "{\"file\": \"a\", \"ordinal\": 1} x",
        "{\"file\": \"a\", \"ordinal\": 99999999999999999999}",
        "{\"file\": \"a\\q\", \"ordinal\": 1}", "{\"file\": \"a\", \"ordinal\": 1, \"new\": 2}",
        "{\"file\": \"a\", \"ordinal\": 1, \"reason\": \"bad luck\"}", "{\"file\": \"a"}) {
    WriteFile(path, QuarantineLine(Place("a", 1)) + bad + "\n");
    const absl::Status status = ReadQuarantine(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_MESSAGE(status) << bad;
    EXPECT_FALSE(QuarantineLog::Open(path).ok());
  }
}

// A list of text has no checksum: what reads as lines is lines, and everything else an error that
// names its line.
TEST(QuarantineTest, DrawnDamageIsAnErrorOfALineOrALine) {
  const TempFolder folder;
  const std::string path = folder / "bad.jsonl";
  std::string good;
  for (int i = 0; i < 20; ++i) {
    good += QuarantineLine(
        {"data/" + std::to_string(i), i * 100, i, i * 7, RecordErrorReason::kDataCrc});
  }
  std::mt19937_64 random(8);
  int errors = 0;
  for (int round = 0; round < 520; ++round) {
    std::ofstream(path, std::ios::binary) << DamagedBytes(good, random);
    const auto read = ReadQuarantine(path);
    if (read.ok()) {
      EXPECT_LE(read->size(), 21u) << round;
      continue;
    }
    ++errors;
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << read.status();
    EXPECT_TRUE(std::string(read.status().message()).starts_with(path + ":")) << read.status();
  }
  EXPECT_GT(errors, 200);
}

TEST(QuarantineTest, EachRecordStandsOnceWhoeverStartsAgain) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  const std::vector<RecordError> first = {Place("a", 1), Place("b", 1)};
  const std::vector<RecordError> second = {Place("b", 1), Place("a", 2), Place("a", 2)};
  ASSERT_TRUE((*QuarantineLog::Open(path))->Add(first).ok());
  const auto again = *QuarantineLog::Open(path);
  ASSERT_TRUE(again->Add(second).ok());
  ASSERT_TRUE(again->Add(second).ok());
  EXPECT_EQ(ReadFile(path),
            QuarantineLine(first[0]) + QuarantineLine(first[1]) + QuarantineLine(second[1]));
  EXPECT_EQ(ReadQuarantine(path)->size(), 3u);
}

// As one that is read by a .idx and without it has.
TEST(QuarantineTest, TwoRecordsMayHaveOneNumber) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  RecordError first = Place("a", 1);
  RecordError second = Place("a", 1);
  second.offset += 7;
  ASSERT_TRUE((*QuarantineLog::Open(path))->Add({&first, 1}).ok());
  ASSERT_TRUE((*QuarantineLog::Open(path))->Add({&second, 1}).ok());
  EXPECT_EQ(ReadQuarantine(path)->size(), 2u);
}

TEST(QuarantineTest, TornLastLineIsCutOffAtTheNextStart) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  const std::string whole = QuarantineLine(Place("a", 1));
  const std::string next = QuarantineLine(Place("a", 2));
  for (size_t bytes = 1; bytes + 1 < next.size(); ++bytes) {
    WriteFile(path, whole);
    Append(path, next.substr(0, bytes));
    EXPECT_EQ(ReadQuarantine(path)->size(), 1u);
    const auto log = QuarantineLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(ReadFile(path), whole);
    const RecordError error = Place("a", 2);
    ASSERT_TRUE((*log)->Add({&error, 1}).ok());
    EXPECT_EQ(ReadFile(path), whole + next);
  }
}

// As an editor leaves them. S-SOURCE-11.
TEST(QuarantineTest, LinesOfAnySystemAreRead) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  for (const std::string mark : {"", "\xef\xbb\xbf"}) {
    for (const std::string end : {"\n", "\r\n", "\r"}) {
      for (const bool ends : {true, false}) {
        std::string text = mark;
        for (int64_t i = 0; i < 3; ++i) {
          const std::string line = QuarantineLine(Place("a", i));
          text += line.substr(0, line.size() - 1) + (ends || i < 2 ? end : "");
        }
        WriteFile(path, text);
        const auto read = ReadQuarantine(path);
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(read->size(), 3u) << mark << end << ends;
        const std::vector<RecordError> met = {Place("a", 1), Place("a", 3)};
        ASSERT_TRUE((*QuarantineLog::Open(path))->Add(met).ok());
        EXPECT_EQ(ReadFile(path), text + (ends ? "" : "\n") + QuarantineLine(met[1]));
        EXPECT_EQ(ReadQuarantine(path)->size(), 4u);
      }
    }
  }
}

TEST(QuarantineTest, Utf16IsNamed) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  WriteFile(path, std::string("\xff\xfe{\0\"\0", 6));
  EXPECT_MESSAGE(ReadQuarantine(path), absl::StatusCode::kInvalidArgument, "utf16");
  EXPECT_MESSAGE(QuarantineLog::Open(path).status(), absl::StatusCode::kInvalidArgument, "utf16");
}

TEST(QuarantineTest, AMissingFolderIsNamed) {
  const TempFolder folder;
  EXPECT_MESSAGE(QuarantineLog::Open(folder / "no/q.jsonl").status(), absl::StatusCode::kNotFound);
}

TEST(QuarantineTest, WhatAKilledRankTearsIsCutOffByTheNextWriter) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  const auto log = QuarantineLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  std::string whole;
  for (int64_t i = 0; i < 3; ++i) {
    Append(path, QuarantineLine(Place("b", i)).substr(0, 1 + 9 * static_cast<size_t>(i)));
    const RecordError error = Place("a", i);
    ASSERT_TRUE((*log)->Add({&error, 1}).ok());
    whole += QuarantineLine(error);
    EXPECT_EQ(ReadFile(path), whole);
  }
}

TEST(QuarantineTest, SeveralRanksAppendWholeLines) {
  const TempFolder folder;
  const std::string path = folder / "q.jsonl";
  const auto one = *QuarantineLog::Open(path);
  const auto two = *QuarantineLog::Open(path);
  for (int64_t i = 0; i < 50; ++i) {
    const RecordError error = Place("a", i);
    ASSERT_TRUE((i % 2 == 0 ? one : two)->Add({&error, 1}).ok());
  }
  // Met by both: the reader takes it once.
  const RecordError shared = Place("a", 0);
  ASSERT_TRUE(two->Add({&shared, 1}).ok());
  const auto read = ReadQuarantine(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 50u);
}

}  // namespace
}  // namespace millrace::readers
