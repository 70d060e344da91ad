#include <iterator>
#include <span>

#include "readers/record_writer.h"
#include "tests/pipeline/open/damage_files_fixture.h"
#include "tests/sanitized.h"

// Plain files, damaged in every field of a frame by seeded flips, cuts, splices and swaps.

namespace millrace::pipeline {
namespace {

constexpr size_t kRecords = 12;
constexpr size_t kPayloadBytes = 20;
constexpr size_t kFrameBytes = 16 + kPayloadBytes;

// Bytes [begin, end) of the undamaged file are not what they were.
void Touch(Harm& harm, size_t begin, size_t end) {
  for (size_t at = begin; at < std::min(end, kRecords * kFrameBytes); ++at) {
    harm.touched.insert(at / kFrameBytes);
  }
}
// What is left of `record` before the harm belongs to the record before it if it is short; at the
// front of the file to that behind it.
void TouchBesideShortRest(Harm& harm, size_t record, size_t left) {
  if (left == 0 || left >= 16) return;
  harm.touched.insert(record > 0 ? record - 1 : *harm.touched.rbegin() + 1);
}

class DamageFilesTest : public DamageFilesFixture {
 protected:
  DamageFilesTest() : DamageFilesFixture(kRecords, kPayloadBytes, "none") {
    const std::string path = folder_ / "good";
    auto writer = *readers::TfRecordWriter::Open(path);
    for (const std::string& payload : payloads_) EXPECT_TRUE(writer->Write(payload).ok());
    EXPECT_TRUE(writer->Close().ok());
    std::ifstream in(path, std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(good_.size(), kRecords * kFrameBytes);
  }

  void Check(const Harm& harm) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, harm.what);
    Write(harm.bytes);
    for (const std::string policy : {"skip", "mask"}) {
      std::vector<std::string> rows;
      size_t damaged = 0;
      const absl::Status status = Read(policy, rows, damaged);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_GE(damaged, 1u);
      ASSERT_NO_FATAL_FAILURE(ExpectOthersUnchanged(harm, rows));
    }
    std::vector<std::string> rows;
    size_t damaged = 0;
    const absl::Status replaced = Read("replace", rows, damaged);
    ASSERT_TRUE(replaced.ok() || harm.touched.size() > kRecords / 2) << replaced;
    for (const std::string& row : rows) ASSERT_THAT(payloads_, testing::Contains(row));
    rows.clear();
    const absl::Status failed = Read("fail", rows, damaged);
    const auto error = GetRecordError(failed);
    ASSERT_TRUE(error.has_value()) << failed;
    EXPECT_GE(error->ordinal, static_cast<int64_t>(*harm.touched.begin()));
    EXPECT_LE(error->ordinal, static_cast<int64_t>(*harm.touched.rbegin()) + 1);
  }

  std::string good_;
};

// S-DAMAGE-1, S-DAMAGE-9.
TEST_F(DamageFilesTest, EveryByteOfAFrame) {
  for (size_t at = 0; at < kFrameBytes; ++at) {
    for (const size_t record : {size_t{0}, size_t{6}, kRecords - 1}) {
      Harm harm{good_, {record}, absl::StrCat("flip in byte ", at, " of ", record)};
      harm.bytes[record * kFrameBytes + at] ^= static_cast<char>(1 << (at % 8));
      ASSERT_NO_FATAL_FAILURE(Check(harm));
    }
  }
}

// S-DAMAGE-9.
TEST_F(DamageFilesTest, TheFileEndsAnywhere) {
  for (size_t bytes = 17; bytes < good_.size(); bytes += 5) {
    if (bytes % kFrameBytes == 0) continue;  // whole records: nobody can tell
    Harm harm{good_.substr(0, bytes), {}, absl::StrCat("cut at ", bytes)};
    Touch(harm, bytes, good_.size());
    TouchBesideShortRest(harm, bytes / kFrameBytes, bytes % kFrameBytes);
    ASSERT_NO_FATAL_FAILURE(Check(harm));
  }
}

// S-DAMAGE-9.
TEST_F(DamageFilesTest, CutsSplicesAndSwaps) {
  std::mt19937_64 random(17);
  for (int round = 0; round < Rounds(330); ++round) {
    const size_t record = random() % kRecords;
    const size_t at = record * kFrameBytes + 1 + random() % (kFrameBytes - 1);
    Harm harm{good_, {}, absl::StrCat("round ", round, ", at ", at)};
    if (round % 3 == 0) {
      const size_t count = std::min<size_t>(1 + random() % 70, good_.size() - at);
      harm.bytes.erase(at, count);
      // All headers are alike, so that a file without just one record may be left.
      if (harm.bytes == std::string(good_).erase(record * kFrameBytes, kFrameBytes)) continue;
      Touch(harm, at, at + count);
      TouchBesideShortRest(harm, record, at % kFrameBytes);
    } else if (round % 3 == 1) {
      std::string noise(1 + random() % 70, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      harm.bytes.insert(at, noise);
      Touch(harm, at, at + 1);
    } else {
      const size_t count = 1 + random() % 8;
      const size_t one = std::min(at, good_.size() - count);
      const size_t two = random() % (good_.size() - count);
      harm.bytes.replace(one, count, good_, two, count);
      harm.bytes.replace(two, count, good_, one, count);
      Touch(harm, one, one + count);
      Touch(harm, two, two + count);
      if (harm.bytes == good_) continue;
    }
    ASSERT_NO_FATAL_FAILURE(Check(harm));
  }
}

}  // namespace
}  // namespace millrace::pipeline
