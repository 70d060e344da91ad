
#include <algorithm>
#include <fstream>
#include <random>
#include <set>

#include "readers/damage/compressed.h"
#include "readers/source/record_reader.h"
#include "tests/readers/inflate/zstd_frame.h"
#include "tests/readers/record_test_util.h"
#include "tests/sanitized.h"

// The reader that goes on behind damage. The oracle is the list of payloads that was framed:
// whatever is done to the bytes, what is read is payloads as they were, in their order, none twice,
// and none is missing but those whose bytes were touched.

namespace millrace::readers {
namespace {

using Reason = RecordErrorReason;
using Strings = std::vector<std::string>;

constexpr size_t kRecords = 60;

Strings RandomPayloads(std::mt19937_64& random, size_t least_bytes = 0) {
  Strings payloads;
  for (size_t i = 0; i < kRecords; ++i) {
    std::string payload(least_bytes + random() % 90, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    payloads.push_back(payload + std::to_string(i));  // no two are alike
  }
  return payloads;
}

// Bytes that come once, a few at a time, and do not say how many there are.
class Pipe : public ByteSource {
 public:
  explicit Pipe(std::string bytes) : bytes_(std::move(bytes)) {}

  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    const size_t count = std::min({out.size(), bytes_.size() - at_, size_t{7}});
    std::memcpy(out.data(), bytes_.data() + at_, count);
    at_ += count;
    return count;
  }
  std::optional<uint64_t> Remaining() const override { return std::nullopt; }
  const std::string& path() const override { return path_; }

 private:
  const std::string bytes_;
  const std::string path_ = "pipe";
  size_t at_ = 0;
};

struct Read {
  Strings payloads;
  std::vector<RecordError> errors;
  uint64_t read_bytes = 0;  // of good frames
  uint64_t skipped_bytes = 0;
  absl::Status dead;
};

Read ReadOn(RecordReader& reader) {
  Read read;
  int64_t last = -1;
  while (true) {
    const auto next = reader.Next();
    if (next.ok() && !next->has_value()) break;
    const auto error = GetRecordError(next.status());
    if (!next.ok() && !reader.ReadsOn()) {
      read.dead = next.status();
      break;
    }
    const int64_t ordinal = next.ok() ? static_cast<int64_t>((*next)->ref.ordinal) : error->ordinal;
    EXPECT_EQ(ordinal, last + 1);
    last = ordinal;
    if (next.ok()) {
      read.payloads.emplace_back((*next)->payload);
      read.read_bytes += (*next)->payload.size() + 16;
    } else {
      read.errors.push_back(*error);
    }
  }
  read.skipped_bytes = reader.skipped_bytes();
  return read;
}

TfRecordReaderOptions Options(size_t chunk_bytes = 1 << 20) {
  TfRecordReaderOptions options;
  options.resync = true;
  options.max_record_bytes = 1 << 20;
  options.chunk_bytes = chunk_bytes;
  return options;
}

Read ReadPlain(const std::string& bytes, size_t chunk_bytes = 1 << 20) {
  const auto read = [&](std::shared_ptr<const RandomAccessFile> file) {
    return ReadOn(*MakeTfRecordReader(*MakeByteSource(std::move(file), Compression::kNone),
                                      Options(chunk_bytes)));
  };
  const Read in_place = read(std::make_shared<LendingFile>(bytes));
  Read copied = read(std::make_shared<FakeFile>(bytes));
  EXPECT_EQ(in_place.payloads, copied.payloads);
  EXPECT_EQ(in_place.errors.size(), copied.errors.size());
  EXPECT_EQ(in_place.skipped_bytes, copied.skipped_bytes);
  return copied;
}

// Payloads that are not in `touched` are all there, in order, and nothing else is.
void ExpectUntouched(const Strings& payloads, const std::set<size_t>& touched,
                     const Strings& read) {
  auto at = read.begin();
  for (size_t i = 0; i < payloads.size(); ++i) {
    const bool there = at != read.end() && *at == payloads[i];
    if (there) ++at;
    ASSERT_TRUE(there || touched.contains(i)) << "record " << i << " is lost";
  }
  ASSERT_EQ(at, read.end()) << "a record that was never written, or comes twice";
}

// Where the parts of a file begin, and its end.
std::vector<size_t> BeginsOf(const Strings& parts) {
  std::vector<size_t> begins = {0};
  for (const std::string& part : parts) begins.push_back(begins.back() + part.size());
  return begins;
}

struct Harm {
  std::string bytes;
  std::set<size_t> touched;  // parts
};

// Flips a bit, takes out, puts in or swaps; or cuts, at last.
Harm Damaged(const std::string& good, const std::vector<size_t>& begins, std::mt19937_64& random) {
  Harm harm{good, {}};
  const auto touch = [&](size_t begin, size_t end) {
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      if (begins[i] < end && begin < begins[i + 1]) harm.touched.insert(i);
    }
  };
  // Half of the damage goes to where a part begins.
  const size_t part = random() % (begins.size() - 1);
  const size_t at = std::min(
      random() % 2 == 0 ? random() % good.size() : begins[part] + random() % 16, good.size() - 1);
  const size_t count = std::min<size_t>(1 + random() % 200, good.size() - at);
  switch (random() % 5) {
    case 0:
      harm.bytes[at] ^= static_cast<char>(1 << random() % 8);
      touch(at, at + 1);
      break;
    case 1:
      harm.bytes.erase(at, count);
      touch(at, at + count);
      break;
    case 2: {
      std::string noise(count, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      harm.bytes.insert(at, noise);
      touch(at, at + 1);
      break;
    }
    case 3: {
      const size_t few = std::min<size_t>(count, 15);  // no frame comes twice
      harm.bytes.replace(at, few, good, random() % (good.size() - few), few);
      touch(at, at + few);
      break;
    }
    default:
      harm.bytes.resize(at);
      touch(at, good.size());
  }
  return harm;
}

TEST(ResyncTest, PlainDamageCostsWhatItTouches) {
  std::mt19937_64 random(1);
  for (int round = 0; round < Rounds(1200); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    const Strings payloads = RandomPayloads(random);
    Strings frames;
    for (const std::string& payload : payloads) frames.push_back(Frame(payload));
    const std::string good = Frames(payloads);
    const std::vector<size_t> begins = BeginsOf(frames);
    const Harm harm = Damaged(good, begins, random);
    const size_t chunk_bytes = size_t{64} << random() % 8;
    const Read read = ReadPlain(harm.bytes, chunk_bytes);
    ASSERT_TRUE(read.dead.ok()) << read.dead;
    ASSERT_NO_FATAL_FAILURE(ExpectUntouched(payloads, harm.touched, read.payloads));
    ASSERT_EQ(read.read_bytes + read.skipped_bytes, harm.bytes.size());
    // Whole frames that are gone leave no trace.
    const bool whole = read.read_bytes == harm.bytes.size();
    ASSERT_EQ(read.errors.empty(), whole);
    for (const RecordError& error : read.errors) {
      ASSERT_EQ(error.file, "fake.tfrecord");
      ASSERT_LE(error.offset, static_cast<int64_t>(harm.bytes.size()));
    }
    if (!read.errors.empty() && read.payloads.size() + 1 < kRecords) {
      const auto first = static_cast<uint64_t>(read.errors[0].offset);
      ASSERT_LE(begins[*harm.touched.begin()], first);
    }
    const auto pipe = MakeTfRecordReader(std::make_unique<Pipe>(harm.bytes), Options(chunk_bytes));
    const Read piped = ReadOn(*pipe);
    ASSERT_EQ(piped.payloads, read.payloads);
    ASSERT_EQ(piped.errors.size(), read.errors.size());
    ASSERT_EQ(piped.skipped_bytes, read.skipped_bytes);
  }
}

TEST(ResyncTest, DamageIsToldAtItsPlaceAndReadOn) {
  std::string bytes = Frames({"zero", "one", "two", "three"});
  bytes[20 + 3] ^= 1;  // the length of "one"
  const Read read = ReadPlain(bytes);
  EXPECT_EQ(read.payloads, (Strings{"zero", "two", "three"}));
  ASSERT_EQ(read.errors.size(), 1u);
  EXPECT_EQ(read.errors[0].reason, Reason::kLengthCrc);
  EXPECT_EQ(read.errors[0].offset, 20);
  EXPECT_EQ(read.errors[0].ordinal, 1);
  EXPECT_EQ(read.skipped_bytes, 19u);
}

// Two bytes of "one" are gone, so that its frame ends inside the next.
TEST(ResyncTest, ARecordThatSwallowedTheBeginOfTheNextGivesItBack) {
  std::string bytes = Frames({"zero", "one", "two"});
  bytes.erase(20 + 13, 2);
  const Read read = ReadPlain(bytes);
  EXPECT_EQ(read.payloads, (Strings{"zero", "two"}));
  ASSERT_EQ(read.errors.size(), 1u);
  EXPECT_EQ(read.errors[0].reason, Reason::kDataCrc);
  EXPECT_EQ(read.skipped_bytes, 17u);
}

TEST(ResyncTest, WithoutCrcsThereIsNothingToGoBy) {
  std::string bytes = Frames({"zero", "one", "two"});
  bytes[20 + 6] ^= 1;  // 2^48 bytes
  TfRecordReaderOptions options = Options();
  options.verify_crc = false;
  const auto reader = MakeTfRecordReader(
      *MakeByteSource(std::make_shared<FakeFile>(bytes), Compression::kNone), options);
  const Read read = ReadOn(*reader);
  EXPECT_EQ(read.payloads, Strings{"zero"});
  EXPECT_EQ(ReasonOf(read.dead), Reason::kAbsurdLength);
}

TEST(ResyncTest, WithoutCrcsADamagedStreamEnds) {
  const TempFolder folder;
  std::string bytes = Deflated(Frames({"zero"}), Wrapper::kGzip);
  bytes[bytes.size() - 6] ^= 1;  // of the member's CRC
  WriteFile(folder / "f", bytes + Deflated(Frames({"one"}), Wrapper::kGzip));
  TfRecordReaderOptions options = Options();
  options.verify_crc = false;
  const Read read = ReadOn(**OpenTfRecordReader(folder / "f", options));
  EXPECT_LE(read.payloads.size(), 1u);
  EXPECT_EQ(read.dead.code(), absl::StatusCode::kDataLoss);
}

TEST(ResyncTest, AFileThatCannotBeReadIsNoDamage) {
  const auto file = std::make_shared<FakeFile>("x" + Frames({"zero", "one", "two"}));
  file->FailFrom(40);
  const auto reader =
      MakeTfRecordReader(*MakeByteSource(file, Compression::kNone), Options(/*chunk_bytes=*/64));
  EXPECT_EQ(ReadOn(*reader).dead.code(), absl::StatusCode::kUnknown);
}

// Each header claims the rest of the file and has a good CRC: checked one after the other they
// would be read 20,000 times.
TEST(ResyncTest, ForgedHeadersAreNotAllBelieved) {
  std::string bytes = "x";
  for (uint64_t i = 0; i < 20'000; ++i) bytes += Header(200'000);
  const std::string last = Frames({"last"});
  const Read read = ReadPlain(bytes + std::string(200'000, 'x') + last);
  EXPECT_EQ(read.skipped_bytes + read.read_bytes, bytes.size() + 200'000 + last.size());
  const auto pipe = MakeTfRecordReader(std::make_unique<Pipe>(bytes), Options());
  EXPECT_EQ(ReadOn(*pipe).skipped_bytes, bytes.size());
}

class ResyncCompressedTest : public testing::TestWithParam<Compression> {
 protected:
  // Members of about four records, which begin and end inside records too.
  Strings Members(const Strings& payloads) const {
    const std::string bytes = Frames(payloads);
    Strings members;
    for (size_t at = 0; at < bytes.size(); at += kMemberBytes) {
      const std::string part = bytes.substr(at, kMemberBytes);
      members.push_back(GetParam() == Compression::kGzip ? Deflated(part, Wrapper::kGzip)
                                                         : ZstdFrame(part));
    }
    return members;
  }
  // Records that have bytes in one of these members.
  static std::set<size_t> RecordsOf(const Strings& payloads, const std::set<size_t>& members) {
    std::set<size_t> records;
    size_t begin = 0;
    for (size_t i = 0; i < payloads.size(); ++i) {
      const size_t end = begin + payloads[i].size() + 16;
      for (const size_t member : members) {
        if (begin < (member + 1) * kMemberBytes && member * kMemberBytes < end) records.insert(i);
      }
      begin = end;
    }
    return records;
  }
  Read ReadBytes(const std::string& bytes) const {
    return ReadOn(*MakeTfRecordReader(
        MakeResyncSource(std::make_shared<FakeFile>(bytes), GetParam()), Options()));
  }

  static constexpr size_t kMemberBytes = 1500;
  // What inflating damaged bytes makes up may be copies of what came before, of at most 258 bytes
  // each.
  static constexpr size_t kLeastBytes = 300;
};

TEST_P(ResyncCompressedTest, DamageCostsTheRecordsOfItsMembers) {
  std::mt19937_64 random(2);
  size_t num_seen = 0;
  for (int round = 0; round < Rounds(600); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    const Strings payloads = RandomPayloads(random, kLeastBytes);
    const Strings members = Members(payloads);
    std::string good;
    for (const std::string& member : members) good += member;
    const Harm harm = Damaged(good, BeginsOf(members), random);
    const Read read = ReadBytes(harm.bytes);
    if (!read.dead.ok()) {  // the file's own first bytes
      ASSERT_EQ(ReasonOf(read.dead), Reason::kWrongCompression) << read.dead;
      ASSERT_TRUE(harm.touched.contains(0));
      continue;
    }
    ASSERT_NO_FATAL_FAILURE(
        ExpectUntouched(payloads, RecordsOf(payloads, harm.touched), read.payloads));
    num_seen += read.errors.empty() ? 0 : 1;
    for (const RecordError& error : read.errors) {
      ASSERT_EQ(error.file, "fake.tfrecord");
      ASSERT_GE(error.offset, 0);
    }
  }
  EXPECT_GT(num_seen, Rounds(450u));
}

TEST_P(ResyncCompressedTest, WhatCameBeforeTheDamageInItsMemberIsThere) {
  std::mt19937_64 random(3);
  const Strings payloads = RandomPayloads(random, kLeastBytes);
  const std::string frames = Frames(payloads);
  const std::string member =
      GetParam() == Compression::kGzip ? Deflated(frames, Wrapper::kGzip) : ZstdFrame(frames);
  const Read read = ReadBytes(member.substr(0, member.size() - 4) + member);
  ASSERT_TRUE(read.dead.ok()) << read.dead;
  Strings twice = payloads;
  twice.insert(twice.end(), payloads.begin(), payloads.end());
  EXPECT_EQ(read.payloads, twice);
  ASSERT_EQ(read.errors.size(), 1u);
  EXPECT_EQ(read.errors[0].reason, Reason::kCompressedData);
}

TEST_P(ResyncCompressedTest, DamageIsToldWithTheReasonOfTheStream) {
  std::mt19937_64 random(4);
  const Strings payloads = RandomPayloads(random, kLeastBytes);
  Strings members = Members(payloads);
  members.back().resize(members.back().size() - 3);
  std::string bytes;
  for (const std::string& member : members) bytes += member;
  const Read read = ReadBytes(bytes);
  ASSERT_EQ(read.errors.size(), 1u);
  EXPECT_EQ(read.errors[0].reason, Reason::kCompressedCut);
  EXPECT_EQ(read.errors[0].ordinal, static_cast<int64_t>(read.payloads.size()));
}

// Noise that has the first bytes of a member at every fourth byte.
TEST_P(ResyncCompressedTest, ASmallFileIsSearchedAgainAfterEachDamage) {
  Strings members;
  for (int i = 0; i < 40; ++i) {
    members.push_back(Members({std::string(1, static_cast<char>('a' + i % 26))})[0]);
  }
  std::string bytes;
  for (size_t i = 0; i < members.size(); ++i) {
    if (i % 9 == 4) members[i][members[i].size() / 2] ^= 0x55;
    bytes += members[i];
  }
  const Read read = ReadBytes(bytes);
  EXPECT_TRUE(read.dead.ok()) << read.dead;
  EXPECT_GE(read.payloads.size(), 36u);
}

TEST_P(ResyncCompressedTest, ForgedMembersAreNotAllBelieved) {
  const std::string magic = GetParam() == Compression::kGzip ? std::string("\x1f\x8b\x08\0", 4)
                                                             : std::string("\x28\xb5\x2f\xfd");
  std::mt19937_64 random(5);
  std::string bytes = Members(RandomPayloads(random, kLeastBytes))[0];
  bytes.resize(bytes.size() - 2);
  for (int i = 0; i < 100'000; ++i) bytes += magic;
  const auto file = std::make_shared<FakeFile>(bytes);
  const Read read = ReadOn(*MakeTfRecordReader(MakeResyncSource(file, GetParam()), Options()));
  EXPECT_TRUE(read.dead.ok()) << read.dead;
  EXPECT_GT(read.payloads.size(), 2u);
  EXPECT_LT(file->bytes_read(), 8 * bytes.size() + (4 << 20));  // not 4 KiB for each
}

INSTANTIATE_TEST_SUITE_P(All, ResyncCompressedTest,
                         testing::Values(Compression::kGzip, Compression::kZstd));

// One stream has nothing to go on with.
TEST(ResyncTest, BehindDamageThatStopsZlibNothingIsRead) {
  std::mt19937_64 random(6);
  const Strings payloads = RandomPayloads(random);
  const std::string bytes = Deflated(Frames(payloads), Wrapper::kZlib);
  std::set<size_t> all;
  for (size_t i = 0; i < kRecords; ++i) all.insert(i);
  for (int round = 0; round < Rounds(500); ++round) {
    const Harm harm = Damaged(bytes, {0, bytes.size()}, random);
    const Read read = ReadOn(*MakeTfRecordReader(
        MakeResyncSource(std::make_shared<FakeFile>(harm.bytes), Compression::kZlib), Options()));
    ASSERT_NO_FATAL_FAILURE(ExpectUntouched(payloads, all, read.payloads));
    ASSERT_TRUE(!read.dead.ok() || !read.errors.empty() || harm.bytes == bytes);
  }
}

}  // namespace
}  // namespace millrace::readers
