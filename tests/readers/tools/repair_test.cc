#include "readers/repair.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/container/tfrecord_frame.h"
#include "readers/damage/tfrecord.h"
#include "readers/example_builder.h"
#include "readers/quarantine.h"
#include "readers/record_reader.h"
#include "readers/record_writer.h"
#include "tests/messages.h"
#include "tests/readers/inflate/deflated.h"
#include "tests/temp_files.h"

namespace millrace::readers {
namespace {

using ::testing::ElementsAre;

// Frames of the payloads, one after the other.
std::string Framed(std::span<const std::string> payloads) {
  std::string bytes;
  for (const std::string& payload : payloads) {
    std::byte header[kHeaderBytes];
    EncodeHeader(payload.size(), header);
    std::byte footer[kFooterBytes];
    StoreU32(MaskedCrc32c(std::as_bytes(std::span(payload))), footer);
    bytes.append(reinterpret_cast<const char*>(header), kHeaderBytes);
    bytes += payload;
    bytes.append(reinterpret_cast<const char*>(footer), kFooterBytes);
  }
  return bytes;
}

std::vector<std::string> Payloads(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::string> payloads;
  for (size_t i = 0; i < count; ++i) {
    std::string payload(random() % 60, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    payloads.push_back(payload);
  }
  return payloads;
}

std::vector<std::string> ReadAll(const std::string& path) {
  std::vector<std::string> payloads;
  const auto reader = OpenTfRecordReader(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  while (reader.ok()) {
    const auto record = (*reader)->Next();
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok() || !record->has_value()) break;
    payloads.emplace_back((*record)->payload);
  }
  return payloads;
}

size_t OffsetOf(std::span<const std::string> payloads, size_t record) {
  return Framed(payloads.first(record)).size();
}

std::vector<RepairedFile> Repaired(const TempFolder& folder, const std::string& bytes,
                                   const RepairOptions& options = {}) {
  const std::string in = folder / "in/a.tfrecord";
  WriteFile(in, bytes);
  std::filesystem::remove_all(folder / "out");
  const auto repaired = Repair({&in, 1}, folder / "out", options);
  EXPECT_TRUE(repaired.ok()) << repaired.status();
  EXPECT_EQ(ReadFile(in), bytes);
  return repaired.ok() ? *repaired : std::vector<RepairedFile>(1);
}

std::vector<std::string> Without(std::vector<std::string> payloads, size_t record) {
  payloads.erase(payloads.begin() + static_cast<ptrdiff_t>(record));
  return payloads;
}

TEST(RepairTest, FilesOfEveryKindAreProgress) {
  const TempFolder folder;
  WriteFile(folder / "in/a.tfrecord", Framed(Payloads(100, 1)));
  WriteFile(folder / "in/b.jsonl", "{\"a\": 1}\n");
  const std::vector<std::string> files = {folder / "in/a.tfrecord", folder / "in/b.jsonl"};
  std::vector<int64_t> done;
  int64_t all = 0;
  RepairOptions options;
  options.progress = [&](int64_t done_bytes, int64_t total_bytes) {
    done.push_back(done_bytes);
    all = total_bytes;
  };
  ASSERT_TRUE(Repair(files, folder / "out", options).ok());
  const auto size = [](const std::string& file) {
    return static_cast<int64_t>(std::filesystem::file_size(file));
  };
  EXPECT_EQ(all, size(files[0]) + size(files[1]));
  EXPECT_THAT(done, ElementsAre(size(files[0]), all));
}

// Every bit of a frame: that record is dropped, and every other one is kept.
TEST(RepairTest, AnyFlippedBitCostsItsRecordAlone) {
  const TempFolder folder;
  const std::vector<std::string> payloads = Payloads(6, 1);
  const std::string good = Framed(payloads);
  for (const size_t record : {size_t{0}, size_t{5}}) {
    const size_t begin = OffsetOf(payloads, record);
    const size_t end = OffsetOf(payloads, record + 1);
    for (size_t at = begin; at < end; ++at) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
      const auto repaired = Repaired(folder, bytes, {.compression = Compression::kNone});
      ASSERT_EQ(ReadAll(folder / "out/a.tfrecord"), Without(payloads, record)) << at - begin;
      ASSERT_EQ(repaired[0].dropped.size(), 1u);
      EXPECT_EQ(repaired[0].dropped[0].error.offset, static_cast<int64_t>(begin));
      EXPECT_EQ(repaired[0].dropped[0].error.ordinal, static_cast<int64_t>(record));
      EXPECT_EQ(repaired[0].num_kept, 5u);
    }
  }
}

// Bytes that are missing or too many: the record that they are in is lost, and no other.
TEST(RepairTest, CutsAndSplicesInARecordCostItAlone) {
  const TempFolder folder;
  std::mt19937_64 random(5);
  for (int round = 0; round < 100; ++round) {
    const std::vector<std::string> payloads = Payloads(8, 100 + static_cast<uint64_t>(round));
    const size_t record = random() % 8;
    const size_t begin = OffsetOf(payloads, record);
    const size_t bytes_of = payloads[record].size() + kFrameBytes;
    std::string bytes = Framed(payloads);
    if (round % 2 == 0) {
      const size_t at = random() % bytes_of;
      bytes.erase(begin + at, 1 + random() % (bytes_of - at));
      if (bytes.size() == Framed(Without(payloads, record)).size()) continue;  // all of it
    } else {
      std::string noise(1 + random() % 50, '\0');
      for (char& c : noise) c = static_cast<char>(random());
      bytes.insert(begin + 1 + random() % (bytes_of - 1), noise);
    }
    const auto repaired = Repaired(folder, bytes, {.compression = Compression::kNone});
    ASSERT_EQ(ReadAll(folder / "out/a.tfrecord"), Without(payloads, record)) << round;
    ASSERT_EQ(repaired[0].dropped.size(), 1u) << round;
    EXPECT_EQ(repaired[0].dropped[0].error.ordinal, static_cast<int64_t>(record)) << round;
  }
}

std::string ExamplePayload(int64_t number) {
  ExampleBuilder builder;
  builder.AddInt("n", number);
  return builder.Serialize();
}

TEST(RepairTest, ReframeKeepsWhatIsWholeButForItsFrame) {
  const TempFolder folder;
  const std::vector<std::string> payloads = {ExamplePayload(1), ExamplePayload(2), "no Example",
                                             ExamplePayload(4)};
  std::string bytes = Framed(payloads);
  bytes[OffsetOf(payloads, 2) - 1] ^= 1;  // payload CRC of record 1
  bytes[OffsetOf(payloads, 3) - 1] ^= 1;  // of record 2
  bytes[OffsetOf(payloads, 3) + 9] ^= 1;  // length CRC of record 3
  Repaired(folder, bytes);
  EXPECT_THAT(ReadAll(folder / "out/a.tfrecord"), ElementsAre(payloads[0]));
  const auto repaired = Repaired(folder, bytes, {.reframe = true});
  EXPECT_THAT(ReadAll(folder / "out/a.tfrecord"),
              ElementsAre(payloads[0], payloads[1], payloads[3]));
  EXPECT_EQ(repaired[0].num_reframed, 2u);
  EXPECT_EQ(repaired[0].dropped.size(), 1u);
}

TEST(RepairTest, QuarantineNamesWhatIsLeftOutForWhatItHolds) {
  const TempFolder folder;
  const std::vector<std::string> payloads = Payloads(4, 9);
  RepairOptions options;
  for (const size_t record : {size_t{1}, size_t{3}}) {
    options.listed.push_back(
        {.file = folder / "in/a.tfrecord",
         .offset = static_cast<int64_t>(OffsetOf(payloads, record)),
         .ordinal = static_cast<int64_t>(record),
         .reason = record == 1 ? RecordErrorReason::kImage : RecordErrorReason::kDataCrc});
  }
  const auto repaired = Repaired(folder, Framed(payloads), options);
  // Record 3 is whole again.
  EXPECT_EQ(ReadAll(folder / "out/a.tfrecord"), Without(payloads, 1));
  EXPECT_MESSAGE(repaired[0].dropped[0].message);
}

TEST(RepairTest, QuarantineMaySpellTheNameOtherwise) {
  const TempFolder folder;
  const std::vector<std::string> payloads = Payloads(4, 9);
  std::filesystem::create_directories(folder / "in");
  for (const std::string& name : {folder / "in/../in/./a.tfrecord",
                                  std::filesystem::relative(folder / "in/a.tfrecord").string()}) {
    RepairOptions options;
    options.listed.push_back({.file = name,
                              .offset = static_cast<int64_t>(OffsetOf(payloads, 2)),
                              .ordinal = 2,
                              .reason = RecordErrorReason::kImage});
    Repaired(folder, Framed(payloads), options);
    EXPECT_EQ(ReadAll(folder / "out/a.tfrecord"), Without(payloads, 2)) << name;
  }
}

TEST(RepairTest, OtherDamageOfACompressedFileSaysNothingOfAPlace) {
  const TempFolder folder;
  const std::vector<std::string> payloads = Payloads(6, 9);
  std::string bytes = Framed(payloads);
  bytes[kHeaderBytes] ^= 1;  // in the payload of record 0
  const std::string path = folder / "a.gz";
  WriteFile(path, Deflated(bytes, Wrapper::kGzip));
  const RecordError place = {.file = path,
                             .offset = static_cast<int64_t>(OffsetOf(payloads, 5)),
                             .ordinal = 5,
                             .reason = RecordErrorReason::kDataCrc};
  const std::vector<PlaceCheck> checks = VerifyPlaces({&place, 1});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_FALSE(checks[0].damaged) << checks[0].message;
}

TEST(RepairTest, CompressedFilesAreCopiedUpToLostBytes) {
  const TempFolder folder;
  const std::string in = folder / "in/a.gz";
  std::filesystem::create_directories(folder / "in");
  const std::vector<std::string> payloads = Payloads(200, 3);
  auto writer = *TfRecordWriter::Open(in, {.compression = Compression::kGzip});
  for (const std::string& payload : payloads) ASSERT_TRUE(writer->Write(payload).ok());
  ASSERT_TRUE(writer->Close().ok());
  std::string bytes = ReadFile(in);
  bytes.resize(bytes.size() / 2);
  WriteFile(in, bytes);
  const auto repaired = Repair({&in, 1}, folder / "out", {});
  ASSERT_TRUE(repaired.ok()) << repaired.status();
  const std::vector<std::string> kept = ReadAll(folder / "out/a.gz");
  EXPECT_GT(kept.size(), 50u);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), payloads.begin()));
  EXPECT_EQ((*repaired)[0].dropped.size(), 1u);
}

TEST(RepairTest, NothingIsOverwritten) {
  const TempFolder folder;
  const std::string a = folder / "x/a", b = folder / "y/a";
  WriteFile(a, Framed(Payloads(2, 1)));
  WriteFile(b, Framed(Payloads(2, 2)));
  EXPECT_EQ(Repair({&a, 1}, folder / "x", {}).status().code(), absl::StatusCode::kInvalidArgument);
  const std::vector<std::string> both = {a, b};
  EXPECT_EQ(Repair(both, folder / "out", {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Repair({&a, 1}, folder / "out", {}).ok());
  EXPECT_EQ(Repair({&b, 1}, folder / "out", {}).status().code(), absl::StatusCode::kAlreadyExists);
}

TEST(RepairTest, PlacesAreReadAgain) {
  const TempFolder folder;
  const std::string path = folder / "a";
  const std::vector<std::string> payloads = {ExamplePayload(1), "not an Example at all", "xyz",
                                             ExamplePayload(4), "12345"};
  std::string bytes = Framed(payloads);
  bytes[OffsetOf(payloads, 2) + kHeaderBytes] ^= 1;
  bytes.resize(bytes.size() - 3);
  WriteFile(path, bytes);
  const std::vector<RecordErrorReason> reasons = {
      RecordErrorReason::kDataCrc, RecordErrorReason::kExample, RecordErrorReason::kDataCrc,
      RecordErrorReason::kImage, RecordErrorReason::kTruncatedPayload};
  std::vector<RecordError> places;
  for (size_t i = 0; i < payloads.size(); ++i) {
    places.push_back({.file = path,
                      .offset = static_cast<int64_t>(OffsetOf(payloads, i)),
                      .ordinal = static_cast<int64_t>(i),
                      .reason = reasons[i]});
  }
  places.push_back({.file = folder / "gone", .offset = 0, .ordinal = 0});
  places.push_back({.file = path, .offset = 1 << 20, .ordinal = 9});
  const std::vector<PlaceCheck> checks = VerifyPlaces(places);
  std::vector<bool> damaged;
  for (const PlaceCheck& check : checks) damaged.push_back(check.damaged);
  EXPECT_THAT(damaged, ElementsAre(false, true, true, true, true, false, true));
  for (size_t i = 0; i < checks.size(); ++i) EXPECT_EQ(checks[i].unreadable, i == 5) << i;
  EXPECT_MESSAGE(checks[1].message);
  EXPECT_MESSAGE(checks[2].message);
  EXPECT_MESSAGE(checks[3].message);
  EXPECT_MESSAGE(checks[5].message);
}

// Bytes that look like headers again and again cost a bounded number of reads.
TEST(RepairTest, ForgedHeadersAreNotReadAgainAndAgain) {
  class Counting final : public RandomAccessFile {
   public:
    explicit Counting(std::string bytes) : bytes_(std::move(bytes)) {}
    absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
      const size_t size = std::min<size_t>(out.size(), bytes_.size() - offset);
      std::memcpy(out.data(), bytes_.data() + offset, size);
      read_ += size;
      return size;
    }
    uint64_t size() const override { return bytes_.size(); }
    const std::string& path() const override { return path_; }
    mutable uint64_t read_ = 0;

   private:
    const std::string bytes_;
    const std::string path_ = "forged";
  };
  constexpr size_t kBytes = 600'000;
  std::string bytes = "x";
  while (bytes.size() + kFrameBytes < kBytes) {
    std::byte header[kHeaderBytes];
    EncodeHeader(kBytes - bytes.size() - kFrameBytes, header);
    bytes.append(reinterpret_cast<const char*>(header), kHeaderBytes);
  }
  bytes.resize(kBytes, '\1');
  const Counting file(bytes);
  ResyncWalk walk(file, uint64_t{1} << 30);
  uint64_t end = 0;
  while (true) {
    const auto stretch = walk.Next();
    ASSERT_TRUE(stretch.ok()) << stretch.status();
    if (!stretch->has_value()) break;
    EXPECT_EQ((*stretch)->offset, end);
    end += (*stretch)->bytes;
  }
  EXPECT_EQ(end, kBytes);
  EXPECT_LT(file.read_, 8 * kBytes);
}

}  // namespace
}  // namespace millrace::readers
