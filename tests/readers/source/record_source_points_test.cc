#include <isa-l/igzip_lib.h>

#include <array>
#include <random>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/container/tfrecord_frame.h"
#include "tests/readers/source/record_source_fixture.h"

// The access points of compressed shards: kept, checked, made anew, and not needed.

namespace millrace::readers {
namespace {

class RecordSourcePointsTest : public RecordSourceFixture {
 protected:
  // Noise, so that there are several spans of 4 MiB.
  static std::vector<std::string> Noise(int num) {
    std::mt19937_64 random(1);
    std::vector<std::string> payloads;
    for (int i = 0; i < num; ++i) {
      std::string payload(100'000, '\0');
      for (size_t at = 0; at < payload.size(); at += 8) {
        const uint64_t bits = random();
        std::memcpy(&payload[at], &bits, 8);
      }
      payloads.push_back(std::move(payload));
    }
    return payloads;
  }

  // Frames of much, by the code under test: the slow sums would take longer than all else.
  static std::string FastFrames(const std::vector<std::string>& payloads) {
    std::string frames;
    for (const std::string& payload : payloads) {
      std::array<std::byte, kFooterBytes> footer;
      StoreU32(MaskedCrc32c(std::as_bytes(std::span(payload))), footer.data());
      frames += Header(payload.size()) + payload;
      frames.append(reinterpret_cast<const char*>(footer.data()), footer.size());
    }
    return frames;
  }

  std::string FileOf(std::string_view extension) const {
    for (const auto& entry : std::filesystem::directory_iterator(index_.path())) {
      if (entry.path().extension() == std::string(extension)) return entry.path();
    }
    return "";
  }
};

TEST_F(RecordSourcePointsTest, SecondOpenInflatesNothing) {
  const auto payloads = Noise(90);
  const std::string shard = Shard("a", Deflated(FastFrames(payloads), Wrapper::kGzip, 0));
  const auto first = Open({shard});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(walked_);
  ExpectRecords(**first, payloads);
  const auto second = Open({shard});
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(walked_);
  ExpectRecords(**second, payloads);
  EXPECT_GT((*second)->memory_bytes(), payloads.size() * 100'000) << "inflated spans, and indexes";
  EXPECT_EQ((*second)->file(0)->path(), shard) << "messages name the shard";
}

TEST_F(RecordSourcePointsTest, PointsAreAsFarApartAsIsAsked) {
  const auto payloads = Noise(90);
  const std::string shard = Shard("a", Deflated(FastFrames(payloads), Wrapper::kGzip, 1));
  uint64_t last = UINT64_MAX;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 20, uint64_t{256} << 10}) {
    options_.span_bytes = bytes;
    const auto source = Open({shard});
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_TRUE(walked_) << "points at another distance are others";
    ASSERT_TRUE((*source)->spans().has_value()) << bytes << " " << (*source)->memory_bytes();
    EXPECT_LT((*source)->spans()->span_bytes, last / 2);
    last = (*source)->spans()->span_bytes;
    ExpectRecords(**source, payloads);
    ASSERT_TRUE(Open({shard}).ok());
    EXPECT_FALSE(walked_);
  }
}

TEST_F(RecordSourcePointsTest, LostOrDamagedPointsOrIndexAreMadeAgain) {
  const auto payloads = Payloads(300, 1);
  const std::string shard = Shard("a", Deflated(Frames(payloads), Wrapper::kZlib));
  ASSERT_TRUE(Open({shard}).ok());
  const std::string points = FileOf(".points");
  const std::string index = FileOf(".index");
  const std::string good_points = ReadFile(points);
  const std::string good_index = ReadFile(index);
  for (const std::string& file : {points, index}) {
    for (const std::string& bad : {std::string(), std::string("damaged"), good_index, good_points,
                                   good_points.substr(0, good_points.size() / 2)}) {
      WriteFile(file, bad);
      const auto source = Open({shard});
      ASSERT_TRUE(source.ok()) << source.status();
      ExpectRecords(**source, payloads);
      EXPECT_EQ(ReadFile(points), good_points);
      EXPECT_EQ(ReadFile(index), good_index);
    }
  }
  for (size_t at = 0; at < good_points.size(); ++at) {
    std::string flipped = good_points;
    flipped[at] ^= 0x10;
    WriteFile(points, flipped);
    ASSERT_TRUE(Open({shard}).ok());
    ASSERT_EQ(ReadFile(points), good_points) << at;
  }
}

TEST_F(RecordSourcePointsTest, ChangedShardIsInflatedAgain) {
  const std::string shard = Shard("a", Deflated(Frames({"one", "two"}), Wrapper::kGzip));
  ASSERT_TRUE(Open({shard}).ok());
  WriteFile(shard, Deflated(Frames({"three", "four"}), Wrapper::kGzip));
  SetTime(shard, 1'700'000'001);
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectRecords(**source, {"three", "four"});
}

TEST_F(RecordSourcePointsTest, PointsThatLieAreCaughtAtTheRecord) {
  const std::string old_bytes = Deflated(Frames({"one", "two"}), Wrapper::kGzip, 0);
  const std::string shard = Shard("a", old_bytes);
  ASSERT_TRUE(Open({shard}).ok());
  const std::string new_bytes = Deflated(Frames({"two", "one"}), Wrapper::kGzip, 0);
  ASSERT_EQ(new_bytes.size(), old_bytes.size());
  Shard("a", new_bytes);  // the same size and time: the points look good
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok());
  const auto first = ReadRecord(**source, 0);
  EXPECT_EQ(first.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(first.status()), RecordErrorReason::kCompressedData) << first.status();
}

TEST_F(RecordSourcePointsTest, DamageBehindTheIndexHitsItsSpanOnly) {
  const auto payloads = Noise(90);
  const std::string bytes = Deflated(FastFrames(payloads), Wrapper::kGzip, 0);
  const std::string shard = Shard("a", bytes);
  ASSERT_TRUE(Open({shard}).ok());
  std::string bad = bytes;
  bad[bad.size() / 2] ^= 1;
  Shard("a", bad);
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok()) << source.status();
  size_t failed = 0;
  for (size_t i = 0; i < payloads.size(); ++i) {
    const auto got = ReadRecord(**source, i);
    if (!got.ok()) {
      EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData);
      ++failed;
    } else {
      EXPECT_TRUE(*got == payloads[i]) << i;
    }
  }
  EXPECT_GT(failed, 0u);
  EXPECT_LT(failed, payloads.size() * 2 / 3) << "about 42 records are in a span of 4 MiB";
}

// S-DAMAGE-10: points of an earlier state of a shard are not used.
TEST_F(RecordSourcePointsTest, OldPointsAreNotUsed) {
  const auto payloads = Noise(130);
  const std::string shard = Shard("a", Deflated(FastFrames(payloads), Wrapper::kGzip, 0));
  ASSERT_TRUE(Open({shard}).ok());
  const std::vector<std::string> others = {"one", "two"};
  const std::string first = Deflated(Frames(others), Wrapper::kGzip);
  WriteFile(shard, first + first.substr(0, first.size() - 3) + first);
  options_.resync = true;
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ((*source)->num_records(), 7u);
  EXPECT_EQ(ReadRecord(**source, 0).value(), "one");
  EXPECT_EQ(ReasonOf(ReadRecord(**source, 4).status()), RecordErrorReason::kCompressedData);
  EXPECT_EQ(ReadRecord(**source, 6).value(), "two");
}

TEST_F(RecordSourcePointsTest, FolderThatCannotBeUsedCostsSpeedOnly) {
  const auto payloads = Payloads(300, 2);
  const std::string shard = Shard("a", Deflated(Frames(payloads), Wrapper::kGzip));
  options_.index_folder = "/dev/null/no folder";
  const auto source = Open({shard});
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectRecords(**source, payloads);
}

// ISA-L's igzip writes one deflate block without end at its level 0.
TEST_F(RecordSourcePointsTest, OneLargeBlockIsReadAnywhereToo) {
  const std::vector<std::string> payloads(10, std::string(4 << 20, 'x'));
  std::string all = FastFrames(payloads);
  std::string bytes(all.size() / 2, '\0');
  isal_zstream stream = {};
  isal_deflate_stateless_init(&stream);
  stream.end_of_stream = 1;
  stream.gzip_flag = IGZIP_GZIP;
  stream.next_in = reinterpret_cast<uint8_t*>(all.data());
  stream.avail_in = static_cast<uint32_t>(all.size());
  stream.next_out = reinterpret_cast<uint8_t*>(bytes.data());
  stream.avail_out = static_cast<uint32_t>(bytes.size());
  ASSERT_EQ(isal_deflate_stateless(&stream), COMP_OK);
  bytes.resize(stream.total_out);
  const auto source = Open({Shard("a", bytes)});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(FileOf(".points"), "") << "no block begins in the middle";
  ExpectRecords(**source, payloads);
}

}  // namespace
}  // namespace millrace::readers
