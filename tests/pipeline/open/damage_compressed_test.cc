
#include <filesystem>

#include "readers/quarantine.h"
#include "readers/repair.h"
#include "tests/pipeline/open/damage_files_fixture.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/readers/inflate/zstd_frame.h"
#include "tests/readers/record_test_util.h"
#include "tests/sanitized.h"

// Compressed files that were damaged before anything was known of them: there are no access points,
// and the pass that would make them fails.

namespace millrace::pipeline {
namespace {

constexpr size_t kRecords = 24;
// What inflating damaged bytes makes up may be copies of what came before, of at most 258 bytes
// each.
constexpr size_t kPayloadBytes = 300;
constexpr size_t kFrameBytes = 16 + kPayloadBytes;
const int kHarms = Rounds(520);  // of each kind

std::string ZstdFrame(std::string_view bytes) { return readers::ZstdFrame(bytes); }

struct Kind {
  const char* name;
  const char* compression;
  std::string (*deflate)(std::string_view bytes);
  size_t member_bytes;  // inflated
};

std::string Gzip(std::string_view bytes) {
  return readers::Deflated(bytes, readers::Wrapper::kGzip);
}
std::string Zlib(std::string_view bytes) {
  return readers::Deflated(bytes, readers::Wrapper::kZlib);
}

const Kind kKinds[] = {{"gzip", "gzip", Gzip, kRecords* kFrameBytes},
                       {"gzip_members", "gzip", Gzip, 1000},
                       {"zlib", "zlib", Zlib, kRecords* kFrameBytes},
                       {"zstd", "zstd", ZstdFrame, 1000}};

class DamageCompressedTest : public DamageFilesFixture, public testing::WithParamInterface<Kind> {
 protected:
  DamageCompressedTest() : DamageFilesFixture(kRecords, kPayloadBytes, GetParam().compression) {
    const std::string bytes = readers::Frames(payloads_);
    for (size_t at = 0; at < bytes.size(); at += GetParam().member_bytes) {
      begins_.push_back(good_.size());
      good_ += GetParam().deflate(bytes.substr(at, GetParam().member_bytes));
    }
  }

  // Bytes [begin, end) of the undamaged file are not what they were: neither is any record that has
  // bytes in their members.
  void Touch(Harm& harm, size_t begin, size_t end) const {
    for (size_t i = 0; i < begins_.size(); ++i) {
      const size_t member_end = i + 1 < begins_.size() ? begins_[i + 1] : good_.size();
      if (begin >= member_end || end <= begins_[i]) continue;
      const size_t first = i * GetParam().member_bytes;
      for (size_t record = first / kFrameBytes; record < kRecords; ++record) {
        if (record * kFrameBytes < first + GetParam().member_bytes) harm.touched.insert(record);
      }
    }
  }

  Harm Draw(int round) {
    const size_t at =
        random_() % 2 == 0
            ? random_() % good_.size()
            : std::min(begins_[random_() % begins_.size()] + random_() % 24, good_.size() - 1);
    const size_t count = std::min<size_t>(1 + random_() % 100, good_.size() - at);
    Harm harm{good_, {}, absl::StrCat("round ", round, ", at ", at)};
    switch (round % 5) {
      case 0:
        harm.bytes[at] ^= static_cast<char>(1 << random_() % 8);
        Touch(harm, at, at + 1);
        break;
      case 1:
        harm.bytes.resize(at);
        Touch(harm, at, good_.size());
        break;
      case 2:
        harm.bytes.erase(at, count);
        Touch(harm, at, at + count);
        break;
      case 3: {
        std::string noise(count, '\0');
        for (char& c : noise) c = static_cast<char>(random_());
        harm.bytes.insert(at, noise);
        Touch(harm, at, at + 1);
        break;
      }
      default: {
        const size_t other = random_() % (good_.size() - count + 1);
        harm.bytes.replace(at, count, good_, other, count);
        harm.bytes.replace(other, count, good_, at, count);
        Touch(harm, at, at + count);
        Touch(harm, other, other + count);
      }
    }
    return harm;
  }

  void Check(const Harm& harm) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, harm.what);
    Write(harm.bytes);
    std::vector<std::string> rows;
    size_t damaged = 0;
    const absl::Status failed = Read("fail", rows, damaged);
    // A bit of a header that says nothing, or whole members that are gone.
    if (failed.ok()) return ExpectOthersUnchanged(harm, rows);
    ++num_seen_;
    const auto error = GetRecordError(failed);
    ASSERT_TRUE(error.has_value()) << failed;
    EXPECT_EQ(error->file, shard_);
    EXPECT_GE(error->ordinal, static_cast<int64_t>(rows.size()));
    const bool other_format = error->reason == RecordErrorReason::kWrongCompression;
    for (const std::string policy : {"skip", "mask"}) {
      rows.clear();
      damaged = 0;
      const absl::Status status = Read(policy, rows, damaged);
      if (other_format) {
        ASSERT_FALSE(status.ok());
        continue;
      }
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_GE(damaged, 1u);
      ASSERT_NO_FATAL_FAILURE(ExpectOthersUnchanged(harm, rows));
    }
  }

  std::string good_;
  std::vector<size_t> begins_;  // of members
  std::mt19937_64 random_{11};
  int num_seen_ = 0;
};

// S-DAMAGE-10.
TEST_P(DamageCompressedTest, WhatCanBeInflatedIsDelivered) {
  for (int round = 0; round < kHarms; ++round) {
    ASSERT_NO_FATAL_FAILURE(Check(Draw(round)));
  }
  EXPECT_GT(num_seen_, kHarms * 8 / 10);
}

// S-DAMAGE-10.
TEST_P(DamageCompressedTest, WhatCameBeforeACutIsThere) {
  Write(std::string_view(good_).substr(0, good_.size() - 3));
  std::vector<std::string> rows;
  size_t damaged = 0;
  ASSERT_TRUE(Read("mask", rows, damaged).ok());
  EXPECT_GE(rows.size(), kRecords - 4);
  EXPECT_EQ(damaged, 1u);
}

// S-DAMAGE-10.
TEST_P(DamageCompressedTest, TheErrorNamesTheStreamsDamage) {
  Write(std::string_view(good_).substr(0, good_.size() / 2));
  const auto pipeline = Open("replace");
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::vector<RecordErrorReason> reasons;
  while (true) {
    const auto batch = (*pipeline)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    for (const auto& damaged : (*batch)->damaged())
      reasons.push_back(GetRecordError(damaged.error)->reason);
  }
  EXPECT_THAT(reasons, testing::ElementsAre(RecordErrorReason::kCompressedCut));
}

// S-DAMAGE-7.
TEST_P(DamageCompressedTest, WhatIsLostIsQuarantinedAndFoundAgain) {
  Write(std::string_view(good_).substr(0, good_.size() - 3));
  quarantine_ = folder_ / "bad.jsonl";
  std::vector<std::string> rows;
  size_t damaged = 0;
  ASSERT_TRUE(Read("skip", rows, damaged).ok());
  const auto listed = readers::ReadQuarantine(quarantine_);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ((*listed)[0].file, shard_);
  EXPECT_EQ((*listed)[0].ordinal, static_cast<int64_t>(rows.size()));
  EXPECT_EQ((*listed)[0].reason, RecordErrorReason::kCompressedCut);
  const auto checks = readers::VerifyPlaces(*listed);
  EXPECT_TRUE(checks[0].damaged);
  EXPECT_EQ((*listed)[0].offset, static_cast<int64_t>(rows.size() * kFrameBytes));
}

// The file has the size and the time that it had, so that its index and access points stay. All of
// it is one span here.
TEST_P(DamageCompressedTest, BehindAccessPointsNoOtherBytesAreDelivered) {
  Write(good_);
  const auto time = std::filesystem::last_write_time(shard_);
  std::vector<std::string> rows;
  size_t damaged = 0;
  ASSERT_TRUE(Read("fail", rows, damaged).ok());
  ASSERT_EQ(rows, payloads_);
  int num_seen = 0;
  for (int round = 0; round < kHarms; ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    std::string bytes = good_;
    const size_t at = random_() % bytes.size();
    const size_t other = random_() % bytes.size();
    if (round % 2 == 0) std::swap(bytes[at], bytes[other]);
    bytes[at] ^= static_cast<char>(1 << random_() % 8);
    std::ofstream(shard_, std::ios::binary) << bytes;
    std::filesystem::last_write_time(shard_, time);
    rows.clear();
    damaged = 0;
    ASSERT_TRUE(Read("skip", rows, damaged).ok());
    num_seen += damaged > 0 ? 1 : 0;
    ASSERT_EQ(rows, damaged > 0 ? std::vector<std::string>() : payloads_);
  }
  EXPECT_GT(num_seen, kHarms * 8 / 10);
}

INSTANTIATE_TEST_SUITE_P(All, DamageCompressedTest, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace millrace::pipeline
