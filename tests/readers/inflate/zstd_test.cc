#include <zstd.h>

#include <random>

#include "base/little_endian.h"
#include "readers/container/detect.h"
#include "readers/inflate/byte_source.h"
#include "readers/record_writer.h"
#include "tests/readers/inflate/zstd_frame.h"
#include "tests/readers/source/record_source_fixture.h"
#include "tests/sanitized.h"

// zstd shards: written, read in order, and entered in the middle. libzstd is the oracle.

namespace millrace::readers {
namespace {

std::string Unpacked(std::string_view bytes, size_t size) {
  std::string out(size + 1, '\0');
  const size_t got = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  EXPECT_FALSE(ZSTD_isError(got)) << ZSTD_getErrorName(got);
  out.resize(std::min(got, out.size()));
  return out;
}

absl::StatusOr<std::string> Drain(std::string bytes, size_t chunk_bytes = 64 << 10) {
  auto source =
      MakeByteSource(std::make_shared<FakeFile>(std::move(bytes)), Compression::kZstd, chunk_bytes);
  if (!source.ok()) return source.status();
  std::string all;
  std::vector<std::byte> buffer(5000);
  while (true) {
    const auto got = (*source)->Read(buffer);
    if (!got.ok()) return got.status();
    if (*got == 0) return all;
    all.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
}

class ZstdTest : public RecordSourceFixture {
 protected:
  // Large enough for several frames and spans; quick to frame.
  static std::vector<std::string> Large() {
    std::mt19937_64 random(3);
    std::vector<std::string> payloads;
    for (int i = 0; i < 170; ++i) {
      std::string payload(60'000, '\0');
      for (size_t at = 0; at < payload.size(); at += 8) {
        const uint64_t bits = random() & 0x0f0f0f0f0f0f0f0f;
        std::memcpy(&payload[at], &bits, 8);
      }
      payloads.push_back(std::move(payload));
    }
    return payloads;
  }

  std::string Written(const std::vector<std::string>& payloads) {
    auto writer = TfRecordWriter::Open(data_ / "w", {Compression::kZstd, 1}).value();
    for (const std::string& payload : payloads) EXPECT_TRUE(writer->Write(payload).ok());
    num_bytes_ = writer->num_bytes();
    EXPECT_TRUE(writer->Close().ok());
    SetTime(data_ / "w", 1'700'000'000);
    return data_ / "w";
  }

  uint64_t num_bytes_ = 0;
};

TEST(ZstdSourceTest, FramesOfAllKindsInflate) {
  const std::string text = Frames(Payloads(100, 1));
  const std::string skipped = std::string("\x5a\x2a\x4d\x18\x03\0\0\0", 8) + "xyz";
  for (const std::string& bytes :
       {ZstdFrame(text), ZstdFrame(text, false), skipped + ZstdFrame(text),
        ZstdFrame(text.substr(0, 1000)) + skipped + ZstdFrame("") + ZstdFrame(text.substr(1000)) +
            skipped}) {
    for (const size_t chunk_bytes : {16, 1000, 1 << 20}) {
      const auto got = Drain(bytes, chunk_bytes);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_TRUE(*got == text);
    }
    EXPECT_EQ(DetectCompression(FakeFile(bytes)).value(), Compression::kZstd);
  }
}

TEST(ZstdSourceTest, DamageIsToldAsOfGzip) {
  const std::string text = Frames(Payloads(100, 1));
  const std::string good = ZstdFrame(text);
  std::string flipped = good;
  flipped[good.size() - 2] ^= 1;  // in the checksum
  EXPECT_EQ(ReasonOf(Drain(flipped).status()), RecordErrorReason::kCompressedData);
  EXPECT_EQ(ReasonOf(Drain(good + "stray").status()), RecordErrorReason::kCompressedData);
  EXPECT_EQ(ReasonOf(Drain(good.substr(0, good.size() - 1)).status()),
            RecordErrorReason::kCompressedCut);
  EXPECT_EQ(ReasonOf(Drain(good + good.substr(0, 3)).status()), RecordErrorReason::kCompressedCut);
  EXPECT_EQ(ReasonOf(Drain("").status()), RecordErrorReason::kCompressedCut);
  EXPECT_EQ(ReasonOf(Drain("plain text").status()), RecordErrorReason::kWrongCompression);
}

// Which libzstd's streams take; a fuzzer found it.
TEST(ZstdSourceTest, AFrameThatGivesLessThanItsHeaderSaysIsDamaged) {
  const std::string frame("\x28\xb5\x2f\xfd\x60\xe4\x00\x01\0\0", 10);  // of 484 bytes: none
  for (const size_t chunk_bytes : {size_t{7}, size_t{64} << 10}) {
    const auto got = Drain(frame, chunk_bytes);
    EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData) << got.status();
  }
}

// Given the whole frame at once, libzstd refuses its second block; in steps it takes it, whatever
// they are. A fuzzer found it.
TEST(ZstdSourceTest, AnEmptyCompressedBlockGivesTheSameInStepsOfAnySize) {
  const std::string header("\x28\xb5\x2f\xfd\x60\xf4\x00", 7);  // of 500 bytes
  const std::string blocks("\0\0\0\x04\0\0\xa3\x0f\0x", 10);    // none, none, x 500 times
  for (const size_t chunk_bytes : {size_t{16}, size_t{17}, size_t{64} << 10}) {
    const auto got = Drain(header + blocks, chunk_bytes);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, std::string(500, 'x'));
  }
}

// A header that asks for a window of 512 MiB.
TEST(ZstdSourceTest, WindowsOverTheLimitAreRefused) {
  const std::string header("\x28\xb5\x2f\xfd\x00\x98", 6);  // window descriptor: exponent 19
  const auto got = Drain(header + std::string("\x01\0\0", 3));
  EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData) << got.status();
}

TEST_F(ZstdTest, WriterMakesSeekableFramesThatLibzstdReads) {
  const auto payloads = Large();
  const std::string bytes = ReadFile(Written(payloads));
  const std::string frames = Unpacked(bytes, num_bytes_);
  EXPECT_EQ(frames.size(), num_bytes_);
  EXPECT_EQ(frames.substr(12, 60'000), payloads[0]);
  const auto* const end = reinterpret_cast<const std::byte*>(bytes.data() + bytes.size());
  EXPECT_EQ(LoadU32(end - 4), 0x8f92eab1u);
  EXPECT_EQ(end[-5], std::byte{0x80});
  const uint32_t count = LoadU32(end - 9);
  EXPECT_EQ(count, (num_bytes_ + (2 << 20) - 1) / (2 << 20));
  uint64_t in = 0, out = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const std::byte* const entry = end - 9 - 12 * (count - i);
    const std::string part = Unpacked(std::string_view(bytes).substr(in, LoadU32(entry)), 2 << 20);
    EXPECT_TRUE(part == frames.substr(out, LoadU32(entry + 4))) << "frames stand alone";
    in += LoadU32(entry);
    out += LoadU32(entry + 4);
  }
  EXPECT_EQ(out, num_bytes_);
  EXPECT_EQ(in + 8 + 12 * count + 9, bytes.size());
}

TEST_F(ZstdTest, EmptyShardsAreValid) {
  const auto source = Open({Written({})});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->num_records(), 0u);
}

TEST_F(ZstdTest, ShardsAreReadAnywhereAndKeepTheirPoints) {
  const auto payloads = Large();
  const std::string seekable = Written(payloads);
  const std::string one_frame = Shard("one", ZstdFrame(Unpacked(ReadFile(seekable), num_bytes_)));
  for (const std::string& shard : {seekable, one_frame}) {
    for (const bool first : {true, false}) {
      const auto source = Open({shard});
      ASSERT_TRUE(source.ok()) << source.status();
      EXPECT_EQ(walked_, first);
      ExpectRecords(**source, payloads);
    }
  }
}

TEST_F(ZstdTest, DamageBehindTheIndexGivesErrorsNeverOtherRecords) {
  const auto payloads = Payloads(100, 5);
  const std::string shard = Written(payloads);
  const std::string good = ReadFile(shard);
  ASSERT_TRUE(Open({shard}).ok());
  std::mt19937 random(5);
  for (int trial = 0; trial < Rounds(340); ++trial) {
    const bool kept = trial < Rounds(170);
    std::string bad = good;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    Shard("w", bad);
    if (!kept) SetTime(shard, 1'600'000'000 + trial);
    const auto source = Open({shard});
    if (!source.ok()) {
      EXPECT_FALSE(kept) << source.status();
      EXPECT_TRUE(GetRecordError(source.status()).has_value()) << source.status();
      continue;
    }
    for (uint64_t i = 0; i < payloads.size(); i += 7) {
      const auto got = ReadRecord(**source, i);
      EXPECT_TRUE(!got.ok() || *got == payloads[i]) << trial << " " << i;
    }
  }
}

TEST_F(ZstdTest, ShardDeclaredPlainSaysWhatItIs) {
  options_.compression = Compression::kNone;
  const auto source = Open({Written({"x"})});
  EXPECT_EQ(ReasonOf(source.status()), RecordErrorReason::kWrongCompression) << source.status();
}

}  // namespace
}  // namespace millrace::readers
