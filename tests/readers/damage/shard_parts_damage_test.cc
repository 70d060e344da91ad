#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "readers/damage/parts.h"
#include "tests/messages.h"
#include "tests/readers/damage/shard_parts_fixture.h"
#include "tests/sanitized.h"

// Many damaged places in one file, and drawn damage: what is not hit stays.

namespace millrace::readers {
namespace {

using testing::HasSubstr;

std::string RowOf(int i) { return std::to_string(i) + ",\"name " + std::to_string(i) + "\"\n"; }

std::vector<std::string> LinesOf(const std::string& bytes) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size() - 1) + 1;
    lines.push_back(bytes.substr(at, end - at));
    at = end;
  }
  return lines;
}

ContainerOptions CsvWithHeader() {
  ContainerOptions csv = Kind(ContainerKind::kCsv);
  csv.has_header = true;
  return csv;
}

TEST_F(ShardPartsTest, FiftyStrayQuotesCostFiftyRows) {
  for (const bool quotes_elsewhere : {false, true}) {
    std::string bytes;
    std::string want;
    for (int i = 0; i < 1000; ++i) {
      const std::string good =
          quotes_elsewhere ? RowOf(i) : std::to_string(i) + ",a" + std::to_string(i) + "\n";
      const bool is_bad = i % 20 == 10;
      bytes += is_bad ? std::to_string(i) + ",\"b\n" : good;
      if (!is_bad) want += good;
    }
    const std::string path = Write("a.csv", bytes);
    const VerifyReport report = Check(path);
    EXPECT_EQ(report.num_damaged, 50u);
    EXPECT_EQ(report.num_records, 950u);
    EXPECT_EQ(Repaired(path).value(), want);
  }
}

TEST_F(ShardPartsTest, FiftyLongLinesCostFiftyLines) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += std::string(i % 20 == 10 ? 300 : 3, 'x') + "\n";
  VerifyOptions options;
  options.max_record_bytes = 100;
  const VerifyReport report = Check(Write("a.txt", bytes), options);
  EXPECT_EQ(report.num_damaged, 50u);
  EXPECT_EQ(report.num_records, 950u);
}

TEST_F(ShardPartsTest, FiftyDamagedHeadersCostTheSamplesAroundThem) {
  constexpr size_t kSamples = 500;
  Named files;
  for (size_t i = 0; i < kSamples; ++i) {
    files.emplace_back(std::to_string(1000 + i) + ".a", std::string(600, 'a'));
    files.emplace_back(std::to_string(1000 + i) + ".b", "b");
  }
  std::string bytes = Tar(files);
  constexpr size_t kSampleBytes = (512 + 1024) + (512 + 512);
  Named want;
  std::set<size_t> gone;
  for (size_t i = 5; i < kSamples; i += 10) {
    bytes[i * kSampleBytes + 512 + 1024 + 3] ^= 1;  // the name of its second member
    gone.insert({i, i + 1});
  }
  for (size_t i = 0; i < kSamples; ++i) {
    if (!gone.contains(i)) want.insert(want.end(), {files[2 * i], files[2 * i + 1]});
  }
  const std::string path = Write("a.tar", bytes);
  EXPECT_EQ(Check(path).num_records, kSamples - 100);
  EXPECT_EQ(Untar(Repaired(path).value()), want);
}

TEST_F(ShardPartsTest, WhatIsGivenUpForItsCostIsTold) {
  // Each block is the header of pax records that reach over a MiB and are none.
  std::string header = Tar({{"a.x", ""}}).substr(0, 512);
  header[156] = 'x';
  header.replace(124, 12, "00000400000\0", 12);
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::string octal(7, '0');
  for (size_t i = 6; sum > 0; sum /= 8) octal[--i] = static_cast<char>('0' + sum % 8);
  octal[6] = '\0';
  header.replace(148, 7, octal);
  std::string bytes;
  for (int i = 0; i < 4000; ++i) bytes += header;
  const VerifyReport report = Check(Write("a.tar", bytes));
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_MESSAGE(report.places[0].message);
}

TEST_F(ShardPartsTest, ATornFirstRowCostsItselfAlone) {
  const std::string path = Write("a.csv", "1\n2,3\n4,5\n6,7\n");
  const VerifyReport report = Check(path);
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_EQ(report.places[0].error.offset, 0);
  EXPECT_EQ(Repaired(path).value(), "2,3\n4,5\n6,7\n");
  const std::string named = Write("b.csv", "x,y\n1\n2,3\n4,5\n");
  EXPECT_EQ(Repaired(named, Of(CsvWithHeader())).value(), "x,y\n2,3\n4,5\n");
  const std::string few = Write("c.csv", "x,y\n1\n");
  EXPECT_EQ(Repaired(few, Of(CsvWithHeader())).value(), "x,y\n") << "the row of names tells";
}

TEST_F(ShardPartsTest, NoRecordBecomesTheRowOfNames) {
  for (const char* row : {"\"x,y\n", "x\"x,y\n"}) {
    const std::string path = Write("a.csv", std::string(row) + "1,2\n3,4\n5,6\n");
    VerifyOptions options;
    options.container = CsvWithHeader();
    const VerifyReport report = Check(path, options);
    EXPECT_EQ(report.num_records, 3u) << row;
    ASSERT_EQ(report.places.size(), 1u) << row;
    EXPECT_EQ(report.places[0].error.offset, 0) << row;
    const absl::Status refused = Repaired(path, Of(CsvWithHeader())).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << row;
    EXPECT_MESSAGE(refused, "row_of_names");
  }
}

// As R writes it, which does not name the column of row names.
TEST_F(ShardPartsTest, ARowOfNamesMayHaveAnotherNumberOfCells) {
  const std::string bytes = "x,y\n1,2,3\n4,5,6\n7\n";
  const std::string path = Write("a.csv", bytes);
  VerifyOptions options;
  options.container = CsvWithHeader();
  const VerifyReport report = Check(path, options);
  EXPECT_EQ(report.num_records, 2u);
  ASSERT_EQ(report.places.size(), 1u);
  EXPECT_MESSAGE(report.places[0].message);
  EXPECT_EQ(Repaired(path, Of(CsvWithHeader())).value(), "x,y\n1,2,3\n4,5,6\n");
}

TEST_F(ShardPartsTest, RowsBehindAHundredThatAreNoneStay) {
  std::string bad;
  for (int i = 0; i < 150; ++i) bad += "a\"b\"c,1\n";
  for (const bool has_header : {false, true}) {
    const std::string header = has_header ? "\"x\"y,z\n" : "";
    const std::string path = Write("a.csv", header + bad + "1,2\n3\n5,6\n7,8\n");
    VerifyOptions options;
    options.container = Kind(ContainerKind::kCsv);
    options.container->has_header = has_header;
    const VerifyReport report = Check(path, options);
    EXPECT_EQ(report.num_records, 3u);
    EXPECT_EQ(report.num_damaged, has_header ? 152u : 151u);
  }
}

// Of three members the second cannot be inflated.
std::string ThreeMembers(const std::string& a, const std::string& b, const std::string& c) {
  std::string second = Deflated(b, Wrapper::kGzip);
  std::fill_n(second.begin() + 10, second.size() - 10, '\xff');
  return Deflated(a, Wrapper::kGzip) + second + Deflated(c, Wrapper::kGzip);
}

TEST_F(ShardPartsTest, BehindDamageOfAStreamLinesGoOnAtTheNextMember) {
  std::string third;
  for (int i = 0; i < 300; ++i) third += RowOf(i);
  const std::string bytes = ThreeMembers("1,2\n3,4\n5", ",6\n7,8\n", "9,0\n" + third);
  for (const char* name : {"a.csv.gz", "a.txt.gz"}) {
    const std::string path = Write(name, bytes);
    const VerifyReport report = Check(path);
    EXPECT_EQ(report.num_records, 302u);
    ASSERT_EQ(report.places.size(), 1u);
    EXPECT_EQ(report.places[0].error.offset, 8);
    EXPECT_EQ(report.places[0].error.ordinal, 2);
    EXPECT_EQ(Inflated(Repaired(path).value()), "1,2\n3,4\n" + third);
  }
}

// A pipeline that has access points may mean another record by the same offset.
TEST_F(ShardPartsTest, NothingBehindLostBytesIsCalledIntactOrDropped) {
  const std::string path = Write("a.csv.gz", ThreeMembers("1,2\n3,4\n", "5,6\n", "x\n7,8\n9,0\n"));
  uint64_t behind = 0;
  const auto on_part = [&](const ShardPart& part) {
    if (part.damage.ok()) behind = part.offset;
    return absl::OkStatus();
  };
  const auto shard = OpenInflated(path, Compression::kGzip, Kind(ContainerKind::kCsv));
  ASSERT_TRUE(shard.ok()) << shard.status();
  ASSERT_TRUE(WalkParts(*shard, Kind(ContainerKind::kCsv), 1 << 20, on_part).ok());
  ASSERT_GT(behind, 8u);
  const std::vector<RecordError> places = {
      {path, 4, 1, 70, Reason::kExample},
      {path, static_cast<int64_t>(behind), 3, 71, Reason::kExample}};
  const std::vector<PlaceCheck> checks = VerifyPlaces(places);
  EXPECT_FALSE(checks[0].damaged) << checks[0].message;
  EXPECT_TRUE(checks[1].damaged);
  EXPECT_MESSAGE(checks[1].message);
  RepairOptions options;
  options.listed = places;
  options.listed[0].reason = options.listed[1].reason = Reason::kFeature;
  EXPECT_EQ(Inflated(Repaired(path, options).value()), "1,2\n7,8\n9,0\n");
}

TEST_F(ShardPartsTest, BehindDamageOfAStreamATarGoesOnAtTheNextHeader) {
  Named files;
  for (int i = 100; i < 160; ++i) files.emplace_back(std::to_string(i) + ".x", std::to_string(i));
  const std::string tar = Tar(files);
  constexpr size_t kOne = 1024;  // bytes of a sample
  const std::string bytes =
      ThreeMembers(tar.substr(0, 10 * kOne), tar.substr(10 * kOne, 10 * kOne + 100),
                   tar.substr(20 * kOne + 100));
  const std::string path = Write("a.tar.gz", bytes);
  const auto repaired = Repaired(path);
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  Named want(files.begin(), files.begin() + 9);  // the tenth may have had another member
  want.insert(want.end(), files.begin() + 22, files.end());
  EXPECT_EQ(Untar(Inflated(*repaired)), want);
}

// Damages `bytes` in one of several ways, at a drawn place that it returns.
size_t Hit(std::string& bytes, std::mt19937_64& random) {
  const size_t at = random() % bytes.size();
  switch (random() % 4) {
    case 0:
      bytes[at] = '"';
      break;
    case 1:
      bytes[at] ^= static_cast<char>(1 << random() % 8);
      break;
    case 2:
      bytes.erase(at, 1 + random() % 4);
      break;
    default:
      bytes.insert(at, 1 + random() % 3, random() % 2 == 0 ? '\n' : ',');
  }
  return at;
}

TEST_F(ShardPartsTest, DrawnDamageOfLinesCostsTheLinesThatItHits) {
  std::mt19937_64 random(11);
  std::string good;
  for (int i = 100; i < 140; ++i) good += RowOf(i);
  const std::vector<std::string> rows = LinesOf(good);
  int num_seen = 0;
  for (int round = 0; round < Rounds(1200); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    const bool is_csv = round % 2 == 0;
    std::string bytes = good;
    const size_t at = Hit(bytes, random);
    const std::string path = Write(is_csv ? "a.csv" : "a.txt", bytes);
    const VerifyReport report = Check(path);
    num_seen += report.ok() ? 0 : 1;
    // Copies are synced, so few are made where nothing is to be left out.
    const bool copies = !report.ok() || round % 16 < 2;
    const std::string repaired = copies ? Repaired(path).value() : bytes;
    const size_t hit = static_cast<size_t>(
        std::count(good.begin(), good.begin() + static_cast<ptrdiff_t>(at), '\n'));
    const std::vector<std::string> left = LinesOf(repaired);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i == hit || i == hit + 1) continue;
      ASSERT_THAT(left, testing::Contains(rows[i])) << i;
    }
    ASSERT_TRUE(is_csv || repaired == bytes) << "any bytes are lines";
    const VerifyReport again = Check(Write(is_csv ? "b.csv" : "b.txt", repaired));
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(again.num_records, report.num_records);
  }
  EXPECT_GT(num_seen, Rounds(200));
}

// Any number of bytes may be hit: what is told adds up, and nothing but damage is.
TEST_F(ShardPartsTest, DrawnDamageOfRecordsOfOneSizeIsToldWhereItShows) {
  std::mt19937_64 random(13);
  const std::string idx = Idx(8, {30, 2, 2}, std::string(120, 'v'));
  const std::string fixed = "head" + std::string(120, 'v') + "ft";
  VerifyOptions of_fixed;
  of_fixed.container = FixedLength(4, 4, 2);
  for (int round = 0; round < Rounds(1200); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    const bool is_idx = round % 2 == 0;
    std::string bytes = is_idx ? idx : fixed;
    const size_t before = bytes.size();
    const size_t at = Hit(bytes, random);
    const std::string path = Write(is_idx ? "a-ubyte" : "a.bin", bytes);
    const VerifyReport report = Check(path, is_idx ? VerifyOptions() : of_fixed);
    const bool has_length = bytes.size() == before;
    const bool is_whole = is_idx ? has_length && at >= 16 : (bytes.size() - 6) % 4 == 0;
    const bool is_off = !has_length && !is_whole && (!is_idx || at >= 16);
    ASSERT_TRUE(!is_whole || report.ok());
    ASSERT_TRUE(!is_off || !report.ok());
    ASSERT_LE(report.num_damaged, 1u);
    const size_t front = is_idx ? 16 : 4;
    const size_t footer = is_idx ? 0 : 2;
    const size_t there = bytes.size() - std::min(front, bytes.size());
    if (report.ok() && !is_idx) {
      ASSERT_EQ(report.num_records, (there - footer) / 4);
    }
    if (report.ok() && is_idx && at >= front) {
      ASSERT_EQ(report.num_records, 30u);
    }
    if (!report.ok()) {
      ASSERT_LE(report.num_records, there / 4) << "no record of bytes that are not there";
    }
    const size_t num_before = (std::max(at, front) - front) / 4;
    ASSERT_GE(report.num_records, num_before) << "whole in front of it";
    const absl::Status refused =
        Repaired(path, is_idx ? RepairOptions() : Of(*of_fixed.container)).status();
    ASSERT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  }
}

class MemoryFile final : public RandomAccessFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    ++num_reads_;
    if (offset >= bytes_.size()) return size_t{0};
    const size_t count = std::min<size_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }
  int num_reads() const { return num_reads_; }

 private:
  mutable int num_reads_ = 0;
  const std::string bytes_;
  const std::string path_ = "memory";
};

TEST_F(ShardPartsTest, BlocksThatAreNoHeadersAreReadManyAtOnce) {
  constexpr int kBlocks = 20'000;
  std::string bytes = Tar({{"a.x", "1"}}).substr(0, 1024);
  for (int i = 0; i < kBlocks; ++i) bytes += std::string(512, 'x');
  const auto file = std::make_shared<MemoryFile>(std::move(bytes));
  int num_damaged = 0;
  const auto on_part = [&](const ShardPart& part) {
    num_damaged += part.damage.ok() ? 0 : 1;
    return absl::OkStatus();
  };
  ASSERT_TRUE(WalkParts({.file = file}, Kind(ContainerKind::kTar), 1 << 20, on_part).ok());
  EXPECT_EQ(num_damaged, 1);
  EXPECT_LT(file->num_reads(), 200);
}

// No blocks: a magic at every eleventh byte that is no header's.
TEST_F(ShardPartsTest, ATarThatWouldBeReadAgainAtEveryByteIsGivenUpThere) {
  constexpr uint64_t kCount = 300'000;
  std::string bytes = Tar({{"a.x", "1"}}).substr(0, 1024);
  for (uint64_t i = 0; i < kCount; ++i) bytes += "ustar.12345";
  for (const bool is_stream : {false, true}) {
    const auto file = std::make_shared<MemoryFile>(bytes);
    InflatedShard shard = {.file = file};
    if (is_stream) shard.lost = {{1024, 16, absl::DataLossError("lost")}};
    std::string told;
    const auto on_part = [&](const ShardPart& part) {
      if (!part.damage.ok()) told += std::string(part.damage.message());
      return absl::OkStatus();
    };
    ASSERT_TRUE(WalkParts(shard, Kind(ContainerKind::kTar), 1 << 20, on_part).ok());
    EXPECT_THAT(told, HasSubstr("with it go all ")) << is_stream;
    EXPECT_LT(file->num_reads(), kCount / 2) << "reads of a block at least count";
  }
}

// Blocks of a tar, and a few bytes too many now and then.
std::string DrawTar(const std::string& tar, std::mt19937_64& random) {
  std::string bytes;
  for (size_t i = random() % 20; i > 0; --i) {
    bytes += tar.substr(random() % (tar.size() / 512) * 512, 512);
    if (random() % 20 == 0) bytes += "odd";
  }
  return bytes;
}

std::string DrawLines(std::mt19937_64& random) {
  std::string bytes;
  for (size_t i = random() % 60; i > 0; --i) bytes += "aa,,\"\n\n\r"[random() % 8];
  return bytes;
}

std::vector<LostBytes> DrawLost(size_t size, std::mt19937_64& random) {
  std::vector<LostBytes> lost;
  for (uint64_t at = random() % 40; at <= size && random() % 3 != 0; at += random() % 400) {
    const uint64_t bytes = std::min<uint64_t>(16, size - at);
    lost.push_back({at, bytes, absl::DataLossError("lost")});
    at += bytes;
  }
  return lost;
}

TEST_F(ShardPartsTest, PartsOfAnyBytesFollowEachOtherAndHoldNothingLost) {
  std::mt19937_64 random(17);
  const std::string tar = Tar({{"a.x", "1"}, {"a.y", "2"}, {"b.x", std::string(600, 'b')}});
  for (int round = 0; round < Rounds(6000); ++round) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, round);
    ContainerOptions container = Kind(round % 3 == 0   ? ContainerKind::kTar
                                      : round % 3 == 1 ? ContainerKind::kText
                                                       : ContainerKind::kCsv);
    container.has_header = container.kind == ContainerKind::kCsv && random() % 2 == 0;
    const auto file = std::make_shared<MemoryFile>(
        container.kind == ContainerKind::kTar ? DrawTar(tar, random) : DrawLines(random));
    InflatedShard shard = {.file = file};
    if (random() % 2 == 0) shard.lost = DrawLost(file->size(), random);
    uint64_t end = 0;
    uint64_t ordinal = 0;
    size_t num_damaged = 0;
    const auto on_part = [&](const ShardPart& part) {
      EXPECT_GE(part.offset, end);
      EXPECT_EQ(part.ordinal, ordinal++);
      end = part.offset + part.bytes;
      if (!part.damage.ok()) ++num_damaged;
      for (const LostBytes& lost : shard.lost) {
        const bool overlaps = part.offset < lost.begin + lost.bytes && lost.begin < end;
        EXPECT_FALSE(part.damage.ok() && overlaps);
      }
      return absl::OkStatus();
    };
    const uint64_t limit = random() % 2 == 0 ? 4096 : 12;
    ASSERT_TRUE(WalkParts(shard, container, limit, on_part).ok());
    ASSERT_LE(end, file->size());
    ASSERT_GE(num_damaged, shard.lost.size());
    if (HasFailure()) break;
  }
}

TEST_F(ShardPartsTest, PlacesOfEachContainerAreReadAgain) {
  const std::string csv = Write("a.csv", "1,2\n3\n5,6\n");
  const std::string tar = Write("a.tar", Tar({{"a.x", "1"}, {"b.x", "2"}}));
  const std::string png = Write("a.png", "no image");
  const std::vector<RecordError> places = {
      {csv, 0, 0, 7, Reason::kExample},    {csv, 4, 1, 8, Reason::kExample},
      {csv, 6, 2, 9, Reason::kFeature},    {csv, 7, 3, 9, Reason::kFeature},
      {tar, 1024, 1, 3, Reason::kUnknown}, {png, 0, 0, 3, Reason::kImage}};
  const std::vector<PlaceCheck> checks = VerifyPlaces(places);
  ASSERT_EQ(checks.size(), places.size());
  EXPECT_FALSE(checks[0].damaged) << checks[0].message;
  EXPECT_MESSAGE(checks[1].message);
  EXPECT_MESSAGE(checks[2].message);
  EXPECT_MESSAGE(checks[3].message);
  EXPECT_FALSE(checks[4].damaged) << checks[4].message;
  EXPECT_TRUE(checks[5].damaged);
  const std::vector<RecordError> text = {{csv, 4, 1, 8, Reason::kUnknown}};
  VerifyPlacesOptions options;
  options.container = Kind(ContainerKind::kText);
  EXPECT_FALSE(VerifyPlaces(text, options)[0].damaged) << "any bytes are a line";
}

TEST_F(ShardPartsTest, NothingIsCopiedBeforeAllContainersAreKnownToDo) {
  const std::vector<std::string> files = {Write("a.csv", "1,2\n"),
                                          Write("b-ubyte", Idx(8, {1}, "x"))};
  const std::string out = folder_ / "out";
  EXPECT_EQ(Repair(files, out, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(ShardPartsTest, FilesBeforeOneThatCannotBeCopiedAreTold) {
  const std::vector<std::string> files = {Write("a.csv", "1,2\n3\n5,6\n"), folder_ / "gone.csv"};
  std::vector<std::string> told;
  const auto on_file = [&](const RepairedFile& file) { told.push_back(file.file); };
  EXPECT_FALSE(Repair(files, folder_ / "out", {}, on_file).ok());
  EXPECT_EQ(told, std::vector<std::string>{files[0]});
}

}  // namespace
}  // namespace millrace::readers
