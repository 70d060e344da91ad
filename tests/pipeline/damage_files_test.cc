#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>

#include "readers/record_writer.h"
#include "tests/pipeline/executor_fixture.h"
#include "tests/temp_folder.h"

// Real files, damaged in every field of a frame by seeded flips, cuts, splices and swaps. The oracle
// is the list of records that was written: whatever is done to a file, what is delivered is records
// as they were, in their order, and none is missing but those that were touched.

namespace millrace::pipeline {
namespace {

constexpr size_t kRecords = 12;
constexpr size_t kPayloadBytes = 20;
constexpr size_t kFrameBytes = 16 + kPayloadBytes;

// What is done to the file, and to which records.
struct Harm {
  std::string bytes;
  std::set<size_t> touched;
  std::string what;

  // Bytes [begin, end) of the undamaged file are not what they were.
  void Touch(size_t begin, size_t end) {
    for (size_t at = begin; at < std::min(end, kRecords * kFrameBytes); ++at) {
      touched.insert(at / kFrameBytes);
    }
  }
  // What is left of `record` before the harm belongs to the record before it if it is short; at the
  // front of the file to that behind it.
  void TouchBesideShortRest(size_t record, size_t left) {
    if (left == 0 || left >= 16) return;
    touched.insert(record > 0 ? record - 1 : *touched.rbegin() + 1);
  }
};

class DamageFilesTest : public testing::Test {
 protected:
  DamageFilesTest() {
    std::mt19937_64 random(4);
    const std::string path = folder_ / "good";
    auto writer = *readers::TfRecordWriter::Open(path);
    for (size_t i = 0; i < kRecords; ++i) {
      std::string payload(kPayloadBytes, '\0');
      for (char& c : payload) c = static_cast<char>(random());
      EXPECT_TRUE(writer->Write(payload).ok());
      payloads_.push_back(std::move(payload));
    }
    EXPECT_TRUE(writer->Close().ok());
    std::ifstream in(path, std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(good_.size(), kRecords * kFrameBytes);
  }

  absl::StatusOr<std::unique_ptr<Pipeline>> Open(const std::string& policy) {
    const Plan plan = *Plan::FromText(
        "stage { tfrecord { files: \"" + (folder_ / "bad") +
            "\" compression: \"none\" } }"
            "stage { decode_raw { output: \"bytes\" shape: 20 } } stage { batch { size: 5 } }" +
            "on_damage { policy: \"" + policy + "\" " + (policy == "fail" ? "" : "max_share: 1 ") +
            "}",
        "p");
    OpenOptions options;
    options.index_folder = folder_ / "index";
    return Pipeline::Open(plan, context_, options);
  }

  // Valid rows in the order of the stream; `damaged` counts.
  absl::Status Read(const std::string& policy, std::vector<std::string>& rows, size_t& damaged) {
    auto pipeline = Open(policy);
    if (!pipeline.ok()) return pipeline.status();
    while (true) {
      const auto batch = (*pipeline)->Next();
      if (!batch.ok()) return batch.status();
      if (!batch->has_value()) return absl::OkStatus();
      damaged += (*batch)->damaged().size();
      const auto bytes = (*batch)->Find("bytes").as<uint8_t>();
      for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
        if ((*batch)->valid()[static_cast<size_t>(row)] == 0) continue;
        const auto* first = reinterpret_cast<const char*>(bytes.data()) + row * kPayloadBytes;
        rows.emplace_back(first, kPayloadBytes);
      }
    }
  }

  // A record that was touched may be there all the same where a rest of it was enough.
  void ExpectOthersUnchanged(const Harm& harm, const std::vector<std::string>& rows) {
    auto at = rows.begin();
    for (size_t i = 0; i < kRecords; ++i) {
      const bool there = at != rows.end() && *at == payloads_[i];
      if (there) ++at;
      ASSERT_TRUE(there || harm.touched.contains(i)) << "record " << i;
    }
    ASSERT_EQ(at, rows.end()) << "a row that was never written";
  }

  void Check(const Harm& harm) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, harm.what);
    std::ofstream(folder_ / "bad", std::ios::binary) << harm.bytes;
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

  const TempFolder folder_;
  const std::shared_ptr<Context> context_ = *MakeContext();
  std::vector<std::string> payloads_;
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
    harm.Touch(bytes, good_.size());
    harm.TouchBesideShortRest(bytes / kFrameBytes, bytes % kFrameBytes);
    ASSERT_NO_FATAL_FAILURE(Check(harm));
  }
}

// S-DAMAGE-9.
TEST_F(DamageFilesTest, CutsSplicesAndSwaps) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 330; ++round) {
    const size_t record = random() % kRecords;
    const size_t at = record * kFrameBytes + 1 + random() % (kFrameBytes - 1);
    Harm harm{good_, {}, absl::StrCat("round ", round, ", at ", at)};
    if (round % 3 == 0) {
      const size_t count = std::min<size_t>(1 + random() % 70, good_.size() - at);
      harm.bytes.erase(at, count);
      // All headers are alike, so that a file without just one record may be left.
      if (harm.bytes == std::string(good_).erase(record * kFrameBytes, kFrameBytes)) continue;
      harm.Touch(at, at + count);
      harm.TouchBesideShortRest(record, at % kFrameBytes);
    } else if (round % 3 == 1) {
      std::string noise(1 + random() % 70, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      harm.bytes.insert(at, noise);
      harm.Touch(at, at + 1);
    } else {
      const size_t count = 1 + random() % 8;
      const size_t one = std::min(at, good_.size() - count);
      const size_t two = random() % (good_.size() - count);
      harm.bytes.replace(one, count, good_, two, count);
      harm.bytes.replace(two, count, good_, one, count);
      harm.Touch(one, one + count);
      harm.Touch(two, two + count);
      if (harm.bytes == good_) continue;
    }
    ASSERT_NO_FATAL_FAILURE(Check(harm));
  }
}

}  // namespace
}  // namespace millrace::pipeline
