#include <algorithm>
#include <random>
#include <set>

#include "readers/container/container.h"
#include "readers/damage/compressed.h"
#include "readers/damage/parts.h"
#include "readers/damage/parts_index.h"
#include "readers/quarantine.h"
#include "tests/messages.h"
#include "tests/readers/damage/shard_parts_fixture.h"
#include "tests/readers/inflate/zstd_frame.h"
#include "tests/sanitized.h"

// Damaged shards of each container as a source that goes on behind damage. The oracles are the
// records that were written (what was not touched is there, unchanged and in order) and `records
// verify` (the same records, the same damage at the same places).

namespace millrace::readers {
namespace {

using testing::StartsWith;

enum class Pack { kPlain, kGzip, kZstd };

// A good file.
struct Good {
  const char* name;
  ContainerOptions container;
  size_t front = 0;  // bytes before the first record
  size_t record_bytes = 0;
  Strings records;  // as they are delivered
  std::string bytes;
};

constexpr size_t kRecords = 40;

std::string Numbered(size_t i, size_t size) {
  std::mt19937_64 random(i);
  std::string text = std::to_string(1000 + i) + ",";
  while (text.size() < size) text += static_cast<char>('a' + random() % 26);
  return text;
}

Good Lines(const char* name, ContainerOptions container, const std::string& front) {
  Good good{name, container, front.size(), 61, {}, front};
  for (size_t i = 0; i < kRecords; ++i) {
    good.records.push_back(Numbered(i, 60));
    good.bytes += good.records.back() + "\n";
  }
  return good;
}

Good JsonLines() {
  Good good{"jsonl", Kind(ContainerKind::kText), 0, 61, {}, ""};
  for (size_t i = 0; i < kRecords; ++i) {
    good.records.push_back("{\"x\": \"" + Numbered(i, 51) + "\"}");
    good.bytes += good.records.back() + "\n";
  }
  return good;
}

Good Samples() {
  Good good{"tar", Kind(ContainerKind::kTar), 0, 2048, {}, ""};
  Named members;
  for (size_t i = 0; i < kRecords; ++i) {
    // Data that begins as its name does has headers with a good checksum one byte behind their
    // place.
    members.emplace_back(std::to_string(1000 + i) + ".a", "a " + Numbered(i, 300));
    members.emplace_back(std::to_string(1000 + i) + ".b", "b " + Numbered(i, 40));
  }
  good.bytes = Tar(members);
  for (size_t i = 0; i < kRecords; ++i) good.records.push_back(good.bytes.substr(i * 2048, 2048));
  return good;
}

Good Regular(const char* name, ContainerOptions container, const std::string& front,
             const std::string& footer) {
  Good good{name, container, front.size(), 60, {}, front};
  for (size_t i = 0; i < kRecords; ++i) good.bytes += good.records.emplace_back(Numbered(i, 60));
  good.bytes += footer;
  return good;
}

std::vector<Good> GoodFiles() {
  ContainerOptions csv = Kind(ContainerKind::kCsv);
  csv.has_header = true;
  return {Lines("text", Kind(ContainerKind::kText), ""),
          Lines("csv", csv, "number,text\n"),
          JsonLines(),
          Samples(),
          Regular("idx", Kind(ContainerKind::kIdx), Idx(8, {kRecords, 60}, ""), ""),
          Regular("fixed_length", FixedLength(7, 60, 5), "header.", "foot.")};
}

// A damaged file, and where that can show: in [begin, end) of the good one's inflated bytes.
struct Harm {
  std::string bytes;
  size_t begin = 0;
  size_t end = 0;
  bool moves = false;  // what lies behind is not where it was
  std::string inserted;
  bool is_plain = true;  // `bytes` are the inflated ones
};

// A bit flip, a cut, a splice or a swap.
Harm Draw(const std::string& good, std::mt19937_64& random) {
  const size_t at = random() % good.size();
  const size_t count = std::min<size_t>(1 + random() % 200, good.size() - at);
  Harm harm{good, at, at + count, false, "", true};
  switch (random() % 5) {
    case 0:
    case 1:
      harm.bytes[at] = static_cast<char>(harm.bytes[at] ^ 1 << random() % 8);
      harm.end = at + 1;
      break;
    case 2:
      harm.bytes.resize(at);
      harm.end = good.size();
      harm.moves = true;
      break;
    case 3: {
      const size_t from = random() % good.size();
      harm.inserted = good.substr(from, random() % 200);
      harm.bytes.replace(at, count, harm.inserted);
      harm.moves = harm.bytes.size() != good.size();
      break;
    }
    default: {  // two stretches of one size, which may overlap
      const size_t other = random() % (good.size() - count + 1);
      harm.bytes.replace(at, count, good.substr(other, count));
      harm.bytes.replace(other, count, good.substr(at, count));
      harm.begin = std::min(at, other);
      harm.end = std::max(at, other) + count;
    }
  }
  return harm;
}

class ResyncPartsTest : public ContainerTest {
 protected:
  static constexpr size_t kMemberBytes = 500;
  // Of up to 200 bytes that are put in: no more line breaks, and no more records of one size.
  static constexpr size_t kMostMade = 5;

  ResyncPartsTest() { options_.resync = true; }

  // The file as it lies on disk; `begins`: of its members.
  static std::string Packed(const std::string& bytes, Pack pack, std::vector<size_t>* begins) {
    if (pack == Pack::kPlain) return bytes;
    std::string packed;
    for (size_t at = 0; at < bytes.size(); at += kMemberBytes) {
      begins->push_back(packed.size());
      const std::string part = bytes.substr(at, kMemberBytes);
      packed += pack == Pack::kGzip ? Deflated(part, Wrapper::kGzip) : ZstdFrame(part);
    }
    begins->push_back(packed.size());
    return packed;
  }

  // What of the inflated bytes damage of [begin, end) of the file may hit.
  static void Spread(const std::vector<size_t>& begins, Harm& harm) {
    if (begins.empty()) return;
    const auto member = [&](size_t at) {
      const auto next = std::ranges::upper_bound(begins, at);
      return static_cast<size_t>(std::max<ptrdiff_t>(next - begins.begin() - 1, 0));
    };
    harm.begin = member(harm.begin) * kMemberBytes;
    harm.end = (member(harm.end - 1) + 1) * kMemberBytes;
    harm.moves = true;
    harm.is_plain = false;
  }

  static bool Touches(const Good& good, const Harm& harm, size_t record) {
    const bool is_regular = good.container.kind == ContainerKind::kIdx ||
                            good.container.kind == ContainerKind::kFixedLength;
    if (good.container.kind == ContainerKind::kIdx && harm.begin < good.front) return true;
    // An archive without its end mark may lack the last member of its last sample.
    const bool hits_end = harm.end > good.front + kRecords * good.record_bytes;
    if (good.container.kind == ContainerKind::kTar && hits_end && record + 1 == kRecords)
      return true;
    size_t begin = good.front + record * good.record_bytes;
    size_t end = begin + good.record_bytes;
    if (is_regular && harm.moves) return end > harm.begin;
    // A line break may be hit, a quote or a member may be of the record before.
    begin -= std::min(begin, is_regular ? 0 : good.record_bytes);
    end += is_regular ? 0 : good.record_bytes;
    return begin < harm.end && harm.begin < end;
  }

  struct Delivered {
    Strings records;
    std::vector<RecordError> damaged;
  };

  static Delivered ReadAll(const RecordSource& source) {
    Delivered all;
    for (uint64_t i = 0; i < source.num_records(); ++i) {
      auto record = ReadRecord(source, i);
      if (record.ok()) {
        all.records.push_back(*std::move(record));
        continue;
      }
      const auto error = GetRecordError(record.status());
      EXPECT_TRUE(error.has_value()) << record.status();
      if (!error.has_value()) continue;
      EXPECT_NE(error->reason, Reason::kUnknown) << record.status();
      EXPECT_EQ(error->ordinal, static_cast<int64_t>(i));
      all.damaged.push_back(*error);
    }
    return all;
  }

  void ExpectAsVerified(const Delivered& got, const std::string& path, Compression compression) {
    VerifyOptions verify;
    verify.container = options_.container;
    verify.compression = compression;
    const auto report = Verify(Strings{path}, verify);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_records, got.records.size());
    ASSERT_EQ(report->places.size(), got.damaged.size());
    for (size_t i = 0; i < got.damaged.size(); ++i) {
      EXPECT_EQ(QuarantineLine(report->places[i].error), QuarantineLine(got.damaged[i]));
    }
  }

  static void ExpectOthers(const Good& good, const Harm& harm, const Strings& got) {
    Strings untouched;
    for (size_t i = 0; i < kRecords; ++i) {
      if (!Touches(good, harm, i)) untouched.push_back(good.records[i]);
    }
    // Each comes once and in order, unless the damage itself is a copy of it.
    size_t num_came = 0;
    for (const std::string& record : got) {
      if (num_came < untouched.size() && record == untouched[num_came]) {
        ++num_came;
      } else if (harm.inserted.find(record) == std::string::npos) {
        EXPECT_EQ(std::ranges::count(untouched, record), 0) << record << " comes out of order";
      }
    }
    ASSERT_EQ(num_came, untouched.size());
    // What the others are became of those that were touched; what an inflater makes up is any
    // bytes.
    const size_t num_touched = kRecords - untouched.size();
    if (harm.is_plain) {
      EXPECT_LE(got.size() - num_came, num_touched + kMostMade);
    }
  }

  // Draws damage of one container. Returns how often it was told.
  int DrawDamage(const Good& good, Pack pack, int rounds) {
    constexpr Compression kCompressions[] = {Compression::kNone, Compression::kGzip,
                                             Compression::kZstd};
    const Compression compression = kCompressions[static_cast<size_t>(pack)];
    options_.container = good.container;
    options_.compression = compression;
    options_.index_folder = "/dev/null";  // no index is kept of shards that are read once
    std::vector<size_t> begins;
    const std::string packed = Packed(good.bytes, pack, &begins);
    std::mt19937_64 random(7);
    int num_told = 0;
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      const testing::ScopedTrace trace(__FILE__, __LINE__,
                                       std::string(good.name) + " round " + std::to_string(round));
      Harm harm = Draw(packed, random);
      Spread(begins, harm);
      const std::string path = Shard(good.name + std::to_string(++num_shards_), harm.bytes);
      const auto source = Open({path});
      if (!source.ok()) {  // what is no stream of this compression from its first byte on
        EXPECT_EQ(GetRecordError(source.status()).value_or(RecordError()).reason,
                  Reason::kWrongCompression)
            << source.status();
        continue;
      }
      const Delivered got = ReadAll(**source);
      ExpectOthers(good, harm, got.records);
      ExpectAsVerified(got, path, compression);
      num_told += got.damaged.empty() ? 0 : 1;
      std::filesystem::remove(path);
    }
    return num_told;
  }
};

TEST_F(ResyncPartsTest, DrawnDamageOfPlainShardsCostsWhatItTouches) {
  for (const Good& good : GoodFiles()) {
    const int num_told = DrawDamage(good, Pack::kPlain, Rounds(520));
    // Any bytes are lines, and any bytes are a record of fixed length: only sizes tell.
    EXPECT_GT(num_told, good.container.kind == ContainerKind::kText ? -1 : Rounds(60)) << good.name;
  }
}

TEST_F(ResyncPartsTest, DrawnDamageOfGzipMembersCostsWhatTheyHold) {
  for (const Good& good : GoodFiles())
    EXPECT_GT(DrawDamage(good, Pack::kGzip, Rounds(130)), Rounds(90));
}

TEST_F(ResyncPartsTest, DrawnDamageOfZstdFramesCostsWhatTheyHold) {
  for (const Good& good : GoodFiles())
    EXPECT_GT(DrawDamage(good, Pack::kZstd, Rounds(130)), Rounds(90));
}

TEST_F(ResyncPartsTest, WithoutResyncDamageIsTheErrorOfTheShard) {
  for (const Good& good : GoodFiles()) {
    options_.container = good.container;
    options_.resync = false;
    const std::string packed = Deflated(good.bytes, Wrapper::kGzip);
    const std::string cut = packed.substr(0, packed.size() / 2);
    const std::string path = Shard(std::string(good.name) + ".gz", cut);
    const absl::Status refused = Open({path}).status();
    EXPECT_EQ(GetRecordError(refused).value_or(RecordError()).reason, Reason::kCompressedCut)
        << good.name << refused;
    const auto report = Verify(Strings{path}, {.container = good.container});
    ASSERT_EQ(report->places.size(), 1u) << good.name;
    EXPECT_EQ(QuarantineLine(report->places[0].error), QuarantineLine(*GetRecordError(refused)));
    EXPECT_EQ(report->places[0].message, std::string(refused.message()));
    EXPECT_THAT(report->places[0].message, StartsWith(path + ": record "));
    options_.resync = true;
    const auto source = Open({path});
    ASSERT_TRUE(source.ok()) << good.name << source.status();
    const Delivered got = ReadAll(**source);
    EXPECT_GT(got.records.size(), kRecords / 8) << good.name;
    ASSERT_EQ(got.damaged.size(), 1u) << good.name;
    EXPECT_EQ(got.damaged[0].reason, Reason::kCompressedCut) << good.name;
  }
}

// S-DAMAGE-1: a read that fails is no damage, nor the end of what there is.
TEST_F(ResyncPartsTest, AReadThatFailsIsItsOwnErrorInEveryContainer) {
  for (const Good& good : GoodFiles()) {
    const auto container = MakeContainer(good.container, /*verify_crc=*/true);
    for (size_t from = 0; from < good.bytes.size(); from += good.bytes.size() / 40) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, std::string(good.name));
      const auto file = std::make_shared<FakeFile>(good.bytes);
      file->FailFrom(from);
      const auto frames = container->FindFrames(*file, {}, std::make_shared<IndexMemory>());
      if (!container->is_regular()) {
        EXPECT_EQ(frames.status().code(), absl::StatusCode::kUnknown) << frames.status();
      }
      const auto on_part = [](const ShardPart& part) { return part.damage; };
      const absl::Status walked = WalkParts({.file = file}, good.container, 1 << 20, on_part);
      EXPECT_EQ(walked.code(), absl::StatusCode::kUnknown) << walked;
    }
    for (const Pack pack : {Pack::kGzip, Pack::kZstd}) {
      std::vector<size_t> begins;
      const auto file = std::make_shared<FakeFile>(Packed(good.bytes, pack, &begins));
      file->FailFrom(begins[1] + 1);
      const auto source =
          MakeResyncSource(file, pack == Pack::kGzip ? Compression::kGzip : Compression::kZstd);
      std::vector<std::byte> out(1 << 20);
      absl::StatusOr<size_t> got = 1;
      while (got.ok() && *got > 0) got = source->Read(out);
      EXPECT_EQ(got.status().code(), absl::StatusCode::kUnknown) << got.status();
      EXPECT_TRUE(source->lost().empty());
    }
  }
}

TEST_F(ResyncPartsTest, WhatIsToldOfAGoodShardIsTheSame) {
  for (const Good& good : GoodFiles()) {
    options_.container = good.container;
    const std::string path = Shard(good.name, good.bytes);
    uint64_t fingerprint = 0;
    for (const bool resync : {false, true, true}) {
      options_.resync = resync;
      const auto source = Open({path});
      ASSERT_TRUE(source.ok()) << good.name << source.status();
      ExpectRecords(**source, good.records);
      if (!resync) fingerprint = (*source)->Fingerprint();
      EXPECT_EQ((*source)->Fingerprint(), fingerprint) << good.name;
    }
    EXPECT_FALSE(walked_) << good.name << ": the index of the second open is there";
  }
}

TEST_F(ResyncPartsTest, RecordsOfFixedSizeAreThoseThatLieWhole) {
  struct Case {
    ContainerOptions container;
    std::string bytes;
    Strings want;
    uint64_t damage_at;
  };
  const std::string idx = Idx(8, {4, 3}, "aaabbbcccddd");
  const Case cases[] = {
      {Kind(ContainerKind::kIdx), idx.substr(0, idx.size() - 4), {"aaa", "bbb"}, 18},
      {Kind(ContainerKind::kIdx), idx.substr(0, idx.size() - 3), {"aaa", "bbb", "ccc"}, 21},
      {Kind(ContainerKind::kIdx), idx + "ee", {"aaa", "bbb", "ccc", "ddd"}, 24},
      {Kind(ContainerKind::kIdx), idx.substr(0, 9), {}, 0},
      {Kind(ContainerKind::kIdx), "", {}, 0},
      {FixedLength(1, 3, 0), "haaabbbc", {"aaa", "bbb"}, 7},
      {FixedLength(1, 3, 2), "haaabbbf", {"aaa", "bbb"}, 7},  // within its footer
      {FixedLength(1, 3, 2), "haaabbbcccd", {"aaa", "bbb", "ccc"}, 10},
      {FixedLength(1, 3, 4),
       "haaabbbff",
       {"aaa"},
       4},  // too little for a footer of a record's size
      {FixedLength(9, 3, 0), "short", {}, 5},
  };
  for (const Case& one : cases) {
    options_.container = one.container;
    const std::string path = Shard("shard-" + std::to_string(++num_shards_), one.bytes);
    const auto source = Open({path});
    ASSERT_TRUE(source.ok()) << one.bytes << source.status();
    const Delivered got = ReadAll(**source);
    EXPECT_EQ(got.records, one.want) << one.bytes;
    ASSERT_EQ(got.damaged.size(), 1u) << one.bytes;
    EXPECT_EQ(got.damaged[0].offset, static_cast<int64_t>(one.damage_at)) << one.bytes;
    ExpectAsVerified(got, path, Compression::kNone);
  }
}

TEST_F(ResyncPartsTest, AQuoteTakesNoRowsAlong) {
  options_.container = Kind(ContainerKind::kCsv);
  const std::string path = Shard("a.csv", "1,a\n2,\"b\n3,c\n4,\"d\"\n5,e\n");
  options_.resync = false;
  EXPECT_EQ((*Open({path}))->num_records(), 3u) << "as its quotes say";
  options_.resync = true;
  for (int i = 0; i < 2; ++i) {
    const auto source = Open({path});
    ASSERT_TRUE(source.ok()) << source.status();
    const Delivered got = ReadAll(**source);
    EXPECT_EQ(got.records, (Strings{"1,a", "3,c", "4,\"d\"", "5,e"}));
    ASSERT_EQ(got.damaged.size(), 1u);
    EXPECT_EQ(got.damaged[0].offset, 4);
    ExpectAsVerified(got, path, Compression::kNone);
  }
}

TEST_F(ResyncPartsTest, DamageIsToldWithItsPlaceAndText) {
  options_.container = Kind(ContainerKind::kCsv);
  const auto source = Open({Shard("a.csv", "1,a\n2\n3,c\n")});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->FramedBytes((*source)->Locate(1)), 0u) << "nothing of it has to be read";
  const absl::Status status = ReadRecord(**source, 1).status();
  EXPECT_MESSAGE(status);
}

TEST_F(ResyncPartsTest, AStreamThatIsSaidToBePlainIsNoDamage) {
  options_.compression = Compression::kNone;
  for (const Good& good : GoodFiles()) {
    // Any bytes are records of one size, and no header of a tar is like any other damage.
    if (good.container.kind == ContainerKind::kFixedLength) continue;
    if (good.container.kind == ContainerKind::kTar) continue;
    options_.container = good.container;
    const std::string path = Shard(good.name, Deflated(good.bytes, Wrapper::kGzip));
    const absl::Status refused = Open({path}).status();
    EXPECT_EQ(GetRecordError(refused).value_or(RecordError()).reason, Reason::kWrongCompression)
        << good.name << refused;
  }
}

// However many texts a file makes up.
TEST_F(ResyncPartsTest, AnyNumberOfDamagedRowsIsKnown) {
  options_.container = Kind(ContainerKind::kCsv);
  std::string bytes = "1,a\n2,b\n3,c\n";
  for (size_t i = 0; i < 90; ++i) bytes += "4,d\n";
  for (size_t i = 3; i < 300; ++i) bytes += std::string(i, ',') + "\n";
  const auto source = Open({Shard("a.csv", bytes)});
  ASSERT_TRUE(source.ok()) << source.status();
  const Delivered got = ReadAll(**source);
  EXPECT_EQ(got.records.size(), 93u);
  EXPECT_EQ(got.damaged.size(), 297u);
}

TEST_F(ResyncPartsTest, AnIndexOfALargerLimitChangesNothing) {
  std::string frames;
  for (const std::string& payload :
       {std::string("one"), std::string(300, 'x'), std::string("two")}) {
    frames += Frame(payload);
  }
  const std::pair<ContainerKind, std::string> shards[] = {
      {ContainerKind::kTfRecord, frames},
      {ContainerKind::kText, "one\n" + std::string(300, 'x') + "\ntwo\n"},
      {ContainerKind::kCsv, "one\n" + std::string(300, 'x') + "\ntwo\n"}};
  for (const auto& [kind, bytes] : shards) {
    for (const bool gzip : {false, true}) {
      options_.container = Kind(kind);
      const std::string path = Shard("shard-" + std::to_string(++num_shards_),
                                     gzip ? Deflated(bytes, Wrapper::kGzip) : bytes);
      absl::StatusOr<std::unique_ptr<RecordSource>> sources[2];
      options_.index_folder = "/dev/null";
      options_.max_record_bytes = 100;
      sources[0] = Open({path});
      options_.index_folder = index_.path();
      options_.max_record_bytes = 1000;
      ASSERT_TRUE(Open({path}).ok()) << "its index is kept";
      options_.max_record_bytes = 100;
      sources[1] = Open({path});
      ASSERT_EQ(sources[0].status(), sources[1].status());
      if (!sources[0].ok()) continue;
      EXPECT_EQ(ReadAll(**sources[1]).records, ReadAll(**sources[0]).records);
      EXPECT_EQ((*sources[1])->num_records(), (*sources[0])->num_records());
      EXPECT_EQ((*sources[1])->Fingerprint(), (*sources[0])->Fingerprint());
    }
  }
}

TEST_F(ResyncPartsTest, PlacesOfRecordsOfOneSizeTakeNoMemory) {
  constexpr size_t kBytes = 3'000'001;
  options_.container = FixedLength(4, 2, 0);
  const std::string whole = "head" + std::string(kBytes - 1, 'x');
  const std::string longer = whole + "y";
  const auto good = Open({Shard("a.bin", whole)});
  const auto source = Open({Shard("b.bin", longer)});
  ASSERT_TRUE(good.ok() && source.ok()) << source.status();
  EXPECT_EQ((*source)->num_records(), kBytes / 2 + 1);
  EXPECT_LT((*source)->memory_bytes(), (*good)->memory_bytes() + 1000);
  EXPECT_EQ(ReadRecord(**source, kBytes / 2 - 1).value(), "xx");
  EXPECT_EQ((*source)->FramedBytes((*source)->Locate(kBytes / 2)), 0u);
  EXPECT_EQ(GetRecordError(ReadRecord(**source, kBytes / 2).status())->offset,
            static_cast<int64_t>(kBytes + 3));
  EXPECT_NE((*source)->Fingerprint(), (*good)->Fingerprint());
}

TEST_F(ResyncPartsTest, MoreDamagedPlacesThanCanBeKeptAreAnErrorThatSaysSo) {
  if (kSanitized) GTEST_SKIP() << "a million damaged places take a minute";
  options_.container = Kind(ContainerKind::kCsv);
  std::string bytes = "1,2\n3,4\n5,6\n";
  bytes.reserve(3 << 20);
  for (int i = 0; i < 100; ++i) bytes += "7,8\n";
  for (int i = 0; i <= 1 << 20; ++i) bytes += "x\n";
  const std::string path = Shard("a.csv", bytes);
  const absl::Status refused = Open({path}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_MESSAGE(refused);
}

TEST_F(ResyncPartsTest, WhatIsLostOfAStreamNamesItsFileOnce) {
  options_.container = Kind(ContainerKind::kText);
  const std::string packed = Deflated("one\ntwo\nthree", Wrapper::kGzip);
  const std::string path = Shard("a.txt.gz", packed.substr(0, packed.size() - 9));
  const auto source = Open({path});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_GT((*source)->num_records(), 0u);
  const absl::Status status = ReadRecord(**source, (*source)->num_records() - 1).status();
  const std::string message(status.message());
  EXPECT_THAT(message, StartsWith(path + ": record "));
  EXPECT_EQ(message.find("a.txt.gz"), message.rfind("a.txt.gz")) << message;
}

TEST_F(ResyncPartsTest, BehindMissingBytesATarGoesOnAtAnyByte) {
  const Good good = Samples();
  options_.container = good.container;
  std::string bytes = good.bytes;
  bytes.erase(10 * good.record_bytes + 700, 100);
  const auto source = Open({Shard("a.tar", bytes)});
  ASSERT_TRUE(source.ok()) << source.status();
  const Delivered got = ReadAll(**source);
  EXPECT_GE(got.records.size(), kRecords - 3);
  EXPECT_EQ(got.records.back(), good.records.back());
}

}  // namespace
}  // namespace millrace::readers
