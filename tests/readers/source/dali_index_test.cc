#include "readers/dali_index.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/record_index.h"
#include "tests/messages.h"
#include "tests/readers/source/record_source_fixture.h"

namespace millrace::readers {
namespace {

using testing::StartsWith;

// What tfrecord2idx writes: its own walk, so that nothing under test makes what tests expect.
std::string IdxOf(const std::vector<std::string>& payloads, uint64_t first = 0) {
  std::string lines;
  uint64_t offset = first;
  for (const std::string& payload : payloads) {
    lines += std::to_string(offset) + " " + std::to_string(payload.size() + 16) + "\n";
    offset += payload.size() + 16;
  }
  return lines;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(text.substr(at, text.find('\n', at) + 1 - at));
  }
  return lines;
}

class DaliIndexTest : public RecordSourceFixture {
 protected:
  // Opens the shard of `payloads_`, which do not change from the first time on, by an index of this
  // text.
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenBy(const std::string& idx) {
    if (shard_.empty()) shard_ = Shard("a", Frames(payloads_));
    WriteFile(idx_, idx);
    options_.dali_index = {idx_};
    return Open({shard_});
  }
  absl::Status ErrorBy(const std::string& idx) {
    const auto source = OpenBy(idx);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument) << idx;
    return source.status();
  }

  std::vector<std::string> payloads_ = Payloads(60, 1);
  const std::string idx_ = data_ / "a.idx";
  std::string shard_;
};

TEST_F(DaliIndexTest, WhatIsWrittenIsWhatTfrecord2idxWritesAndReadsBack) {
  const std::string shard = Shard("a", Frames(payloads_));
  const std::string other = Shard("b", Frames(Payloads(5, 9)));
  const auto source = *Open({shard, other});
  ASSERT_TRUE(WriteDaliIndex(*source, 0, 60, data_ / "a.idx", Existing::kKeep).ok());
  ASSERT_TRUE(WriteDaliIndex(*source, 60, 5, data_ / "b.idx", Existing::kKeep).ok());
  EXPECT_EQ(ReadFile(data_ / "a.idx"), IdxOf(payloads_));
  EXPECT_EQ(ReadFile(data_ / "b.idx"), IdxOf(Payloads(5, 9)));

  options_.dali_index = {data_ / "a.idx", data_ / "b.idx"};
  const auto by_idx = Open({shard, other});
  ASSERT_TRUE(by_idx.ok()) << by_idx.status();
  EXPECT_FALSE(walked_);
  EXPECT_EQ((*by_idx)->Fingerprint(), source->Fingerprint());
  std::vector<std::string> all = payloads_;
  std::ranges::copy(Payloads(5, 9), std::back_inserter(all));
  ExpectRecords(**by_idx, all);
}

// Indexes of scripts/make_dali_index.py.
TEST_F(DaliIndexTest, OfTensorFlowsFilesWhatTfrecord2idxWroteIsWrittenAndRead) {
  for (const char* name : {"tf_plain", "examples"}) {
    const std::string shard = TestData(absl::StrCat(name, ".tfrecord"));
    const std::string idx = TestData(absl::StrCat(name, ".idx"));
    options_.dali_index.clear();
    const auto source = *Open({shard});
    const std::string mine = data_ / absl::StrCat(name, ".idx");
    ASSERT_TRUE(WriteDaliIndex(*source, 0, source->num_records(), mine, Existing::kKeep).ok());
    EXPECT_EQ(ReadFile(mine), ReadFile(idx));
    options_.dali_index = {idx};
    const auto by_idx = Open({shard});
    ASSERT_TRUE(by_idx.ok()) << by_idx.status();
    EXPECT_EQ((*by_idx)->num_records(), source->num_records());
    EXPECT_EQ((*by_idx)->Fingerprint(), source->Fingerprint());
    if (name == std::string_view("tf_plain")) ExpectRecords(**by_idx, TfPayloads());
  }
}

TEST_F(DaliIndexTest, AFileThatIsThereIsKeptUnlessToldOtherwise) {
  const auto source = *Open({Shard("a", Frames(payloads_))});
  WriteFile(data_ / "a.idx", "mine");
  EXPECT_EQ(WriteDaliIndex(*source, 0, 60, data_ / "a.idx", Existing::kKeep).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(data_ / "a.idx"), "mine");
  EXPECT_TRUE(WriteDaliIndex(*source, 0, 60, data_ / "a.idx", Existing::kReplace).ok());
  EXPECT_EQ(ReadFile(data_ / "a.idx"), IdxOf(payloads_));
}

TEST_F(DaliIndexTest, NoOtherIndexIsReadOrMade) {
  ASSERT_TRUE(OpenBy(IdxOf(payloads_)).ok());
  EXPECT_EQ(IndexFile(), "");
}

TEST_F(DaliIndexTest, RecordsAreThoseThatAreListed) {
  const std::vector<std::string> lines = Lines(IdxOf(payloads_));
  std::string some;
  std::vector<std::string> want;
  for (size_t i = 3; i < 60; i += i % 7 == 0 ? 1 : 4) {
    some += lines[i];
    want.push_back(payloads_[i]);
  }
  const auto source = OpenBy(some);
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectRecords(**source, want);
}

TEST_F(DaliIndexTest, AnotherChoiceOfRecordsIsOtherData) {
  payloads_ = {"abc", "def", "ghi", "jkl"};  // all frames of one size
  const std::vector<std::string> lines = Lines(IdxOf(payloads_));
  std::set<uint64_t> fingerprints;
  for (unsigned kept = 1; kept < 16; ++kept) {
    std::string idx;
    for (unsigned i = 0; i < 4; ++i) idx += (kept >> i & 1) != 0 ? lines[i] : "";
    fingerprints.insert((*OpenBy(idx))->Fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), 15u);
}

TEST_F(DaliIndexTest, ManyLinesAreReadInPieces) {
  payloads_.assign(40'000, "abc");
  const std::string idx = IdxOf(payloads_);
  ASSERT_GT(idx.size(), size_t{256} << 10);
  const auto source = OpenBy(idx);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->num_records(), 40'000u);
  EXPECT_EQ((*source)->Locate(39'999).offset, 39'999u * 19);
  EXPECT_TRUE(OpenBy(idx.substr(0, idx.size() - 1)).ok());  // the last line needs no end
}

TEST_F(DaliIndexTest, ARecordTakesAtMostTwelveBytesOfMemory) {
  payloads_.assign(10'000, "abc");
  EXPECT_LE((*OpenBy(IdxOf(payloads_)))->memory_bytes(), 10'001u * 4);
  std::string every_second;
  const std::vector<std::string> lines = Lines(IdxOf(payloads_));
  for (size_t i = 0; i < lines.size(); i += 2) every_second += lines[i];
  EXPECT_LE((*OpenBy(every_second))->memory_bytes(), 5'001u * 8);
  // Behind 4 GiB.
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i <= 1000; ++i) begins.push_back(i << 32);
  const std::vector<uint32_t> lengths(1000, 7);
  const auto wide =
      RecordIndex::Make(begins, kTfRecordFrames, std::make_shared<IndexMemory>(), lengths);
  ASSERT_TRUE(wide.ok());
  EXPECT_LE(wide->memory_bytes(), 1000u * 12 + 8);
  EXPECT_EQ(wide->offset(999), uint64_t{999} << 32);
  EXPECT_EQ(wide->length(999), 7u);
  EXPECT_EQ(wide->longest(), 7u);
}

TEST_F(DaliIndexTest, LinesThatCannotBeAreToldByFileAndLine) {
  payloads_ = {"abc", "defg"};  // frames of 19 and 20 bytes
  for (const std::string bad :
       {"19", "19 ", "-19 20", "19 -20", "+19 20", "0x13 20", "99999999999999999999 20",
        "19 99999999999999999999", "19.0 20", "19 20 3", "19,20"}) {
    EXPECT_MESSAGE(ErrorBy("0 19\n" + bad + "\n"), "no_pair") << bad;
  }
  EXPECT_MESSAGE(ErrorBy(std::string(1 << 20, '1')));
  EXPECT_MESSAGE(ErrorBy("0 19\n18 20\n"));
  EXPECT_MESSAGE(ErrorBy("19 20\n0 19\n"));
  EXPECT_MESSAGE(ErrorBy("0 19\n19 21\n"));
  EXPECT_MESSAGE(ErrorBy("18446744073709551600 16\n"));
  EXPECT_MESSAGE(ErrorBy("0 18446744073709551615\n"));
  EXPECT_MESSAGE(ErrorBy("0 15\n"));
  options_.max_record_bytes = 3;
  EXPECT_MESSAGE(ErrorBy("0 19\n19 20\n"));
}

TEST_F(DaliIndexTest, TheIndexOfAnotherFileIsAnErrorAtItsLineAndNeverOtherBytes) {
  std::vector<std::string> others = payloads_;
  others[4] += "longer";
  others[5] = others[5].substr(0, others[5].size() - 6);  // of the same size as a whole
  const auto source = OpenBy(IdxOf(others));
  ASSERT_TRUE(source.ok()) << source.status();
  for (uint64_t i = 0; i < 60; ++i) {
    const auto record = ReadRecord(**source, i);
    if (i != 4 && i != 5) {
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(*record, payloads_[i]);
      continue;
    }
    EXPECT_EQ(record.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(record.status().message()), StartsWith(absl::StrCat(idx_, ":", i + 1)));
    // No policy takes it for damage of the record.
    EXPECT_EQ(GetRecordError(record.status())->reason, RecordErrorReason::kUnknown);
  }
}

TEST_F(DaliIndexTest, DamageOfTheFileIsOneRecords) {
  const std::string idx = IdxOf(payloads_);
  std::string bytes = Frames(payloads_);
  const size_t header = (*OpenBy(idx))->Locate(7).offset;
  const size_t payload = (*OpenBy(idx))->Locate(20).offset + 12;
  bytes[header] ^= 1;
  bytes[payload] ^= 1;
  const auto source = Open({Shard("a", bytes)});
  ASSERT_TRUE(source.ok()) << source.status();
  for (uint64_t i = 0; i < 60; ++i) {
    const auto record = ReadRecord(**source, i);
    if (i == 7 || i == 20) {
      EXPECT_EQ(GetRecordError(record.status())->reason,
                i == 7 ? RecordErrorReason::kLengthCrc : RecordErrorReason::kDataCrc);
    } else {
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(*record, payloads_[i]);
    }
  }
}

TEST_F(DaliIndexTest, WhatCannotHaveOneIsRefused) {
  const std::string idx = data_ / "a.idx";
  WriteFile(idx, IdxOf(payloads_));
  options_.dali_index = {idx};
  const auto error = [&](const std::vector<std::string>& files) {
    const auto source = Open(files);
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    return source.status();
  };
  const std::string zipped = Shard("a.gz", Deflated(Frames(payloads_), Wrapper::kGzip));
  EXPECT_MESSAGE(error({zipped}));
  EXPECT_FALSE(CheckMayHaveDaliIndex(zipped).ok());
  const std::string plain = Shard("a", Frames(payloads_));
  EXPECT_TRUE(CheckMayHaveDaliIndex(plain).ok());
  EXPECT_MESSAGE(error({plain, zipped}));
  options_.verify_crc = false;
  EXPECT_MESSAGE(error({plain}));
  options_.verify_crc = true;
  options_.container.kind = ContainerKind::kText;
  EXPECT_MESSAGE(error({plain}));
  options_.container.kind = ContainerKind::kTfRecord;
  options_.dali_index = {data_ / "none.idx"};
  EXPECT_EQ(Open({plain}).status().code(), absl::StatusCode::kNotFound);
}

// Damage of every kind: an error that names the index, or records of the file, each whole.
TEST_F(DaliIndexTest, DamagedIndexesGiveErrorsOrTheRecordsThemselves) {
  payloads_ = Payloads(12, 3);
  const std::string whole = IdxOf(payloads_);
  std::map<uint64_t, std::string> at_offset;
  uint64_t end = 0;
  for (const std::string& payload : payloads_) {
    at_offset[end] = payload;
    end += payload.size() + 16;
  }
  std::mt19937_64 random(21);
  int refused = 0;
  int wrong_when_read = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string idx = whole;
    for (uint64_t n = 1 + random() % 2; n > 0; --n) {
      const size_t at = random() % idx.size();
      const size_t other = random() % idx.size();
      switch (random() % 6) {
        case 0:  // another digit, which leaves the line a line
          if (idx[at] >= '0' && idx[at] <= '9') idx[at] = static_cast<char>('0' + random() % 10);
          break;
        case 1:
          idx[at] = static_cast<char>(idx[at] ^ 1 << random() % 8);
          break;
        case 2:
          idx.erase(at, 1 + random() % 30);
          break;
        case 3:
          idx.insert(at, whole.substr(other % whole.size(), random() % 30));
          break;
        case 4:
          std::swap(idx[at], idx[other]);
          break;
        default:
          idx.resize(at);
      }
      if (idx.empty()) idx = whole;
    }
    const auto source = OpenBy(idx);
    if (!source.ok()) {
      ++refused;
      EXPECT_THAT(std::string(source.status().message()), StartsWith(idx_ + ":"));
      continue;
    }
    for (uint64_t record = 0; record < (*source)->num_records(); ++record) {
      const auto payload = ReadRecord(**source, record);
      if (payload.ok()) {
        EXPECT_EQ(*payload, at_offset.at((*source)->Locate(record).offset));
        continue;
      }
      ++wrong_when_read;
      EXPECT_THAT(std::string(payload.status().message()),
                  StartsWith(absl::StrCat(idx_, ":", record + 1, ": ")));
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(wrong_when_read, 50);
}

}  // namespace
}  // namespace millrace::readers
