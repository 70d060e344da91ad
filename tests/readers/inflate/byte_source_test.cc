#include "readers/inflate/byte_source.h"

#include <fcntl.h>

#include <cerrno>

#include "readers/container/detect.h"
#include "readers/file/local_file.h"
#include "readers/open_file.h"
#include "tests/messages.h"
#include "tests/readers/record_test_util.h"

namespace millrace::readers {
namespace {

// Everything that `source` gives, `step` bytes at a time.
absl::StatusOr<std::string> Drain(ByteSource& source, size_t step) {
  std::string all;
  std::vector<std::byte> buffer(step);
  while (true) {
    const auto got = source.Read(buffer);
    if (!got.ok()) return got.status();
    if (*got == 0) return all;
    all.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
}

absl::StatusOr<std::string> DrainBytes(std::string bytes, Compression compression,
                                       size_t chunk_bytes = 256 << 10, size_t step = 1000) {
  const auto file = std::make_shared<FakeFile>(std::move(bytes));
  if (compression == Compression::kAuto) compression = DetectCompression(*file).value();
  auto source = MakeByteSource(file, compression, chunk_bytes);
  if (!source.ok()) return source.status();
  return Drain(**source, step);
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "line " + std::to_string(i * i) + "\n";
  return text;
}

Compression Detected(std::string bytes) {
  return DetectCompression(FakeFile(std::move(bytes))).value();
}

TEST(DetectCompressionTest, TellsTheThreeApart) {
  EXPECT_EQ(Detected(""), Compression::kNone);
  EXPECT_EQ(Detected("\x1f"), Compression::kNone);
  EXPECT_EQ(Detected(Frame("abc")), Compression::kNone);
  EXPECT_EQ(Detected(Deflated("abc", Wrapper::kGzip)), Compression::kGzip);
  for (int level = 1; level <= 9; ++level) {
    EXPECT_EQ(Detected(Deflated("abc", Wrapper::kZlib, level)), Compression::kZlib);
  }
}

TEST(DetectCompressionTest, GoodTfRecordHeaderWinsOverZlibsMagic) {
  // Lengths 0x0178, 0x9c78, ... begin like zlib streams; 0x088b1f like gzip.
  EXPECT_EQ(Detected(Header(0x0178)), Compression::kNone);
  EXPECT_EQ(Detected(Header(0x9c78)), Compression::kNone);
  EXPECT_EQ(Detected(Header(0x088b1f)), Compression::kNone);
}

TEST(ByteSourceTest, BufferSizesNeverChangeBytes) {
  const std::string text = Text();
  for (const Wrapper wrapper : {Wrapper::kGzip, Wrapper::kZlib}) {
    const std::string bytes = Deflated(text, wrapper);
    for (const size_t chunk_bytes : {16, 17, 100, 4096, 1 << 20}) {
      for (const size_t step : {1, 7, 1000, 1 << 20}) {
        const auto got = DrainBytes(bytes, Compression::kAuto, chunk_bytes, step);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_TRUE(*got == text) << chunk_bytes << " " << step;
      }
    }
  }
}

TEST(ByteSourceTest, StoredAndEmptyStreamsInflate) {
  for (const Wrapper wrapper : {Wrapper::kGzip, Wrapper::kZlib}) {
    EXPECT_EQ(DrainBytes(Deflated(Text(), wrapper, 0), Compression::kAuto).value(), Text());
    EXPECT_EQ(DrainBytes(Deflated("", wrapper), Compression::kAuto).value(), "");
  }
}

TEST(ByteSourceTest, GzipHeaderFieldsAreSkipped) {
  const std::string plain = Deflated("content", Wrapper::kGzip);
  std::string bytes = plain.substr(0, 10);
  bytes[3] = 4 | 8 | 16;  // FEXTRA, FNAME, FCOMMENT
  bytes += LittleEndian(5, 2) + "extra" + std::string("name.tfrecord\0", 14) +
           std::string("a comment\0", 10) + plain.substr(10);
  for (const size_t chunk_bytes : {16, 19, 1000}) {
    const auto got = DrainBytes(bytes, Compression::kGzip, chunk_bytes);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, "content");
  }
}

TEST(ByteSourceTest, MembersMayBeEmptyAndMany) {
  std::string bytes;
  std::string want;
  for (int i = 0; i < 50; ++i) {
    bytes += Deflated("", Wrapper::kGzip) + Deflated("part " + std::to_string(i), Wrapper::kGzip);
    want += "part " + std::to_string(i);
  }
  for (const size_t chunk_bytes : {16, 20, 23, 4096}) {
    EXPECT_EQ(DrainBytes(bytes, Compression::kGzip, chunk_bytes).value(), want);
  }
}

TEST(ByteSourceTest, StrayBytesAfterTheStreamAreDamage) {
  for (const Wrapper wrapper : {Wrapper::kGzip, Wrapper::kZlib}) {
    const auto got = DrainBytes(Deflated(Text(), wrapper) + "stray", Compression::kAuto);
    EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData) << got.status();
  }
  // ISA-L fetches eight bytes at once, of which the trailer of zlib takes four.
  for (size_t size = 1; size <= 8; ++size) {
    const std::string bytes = Deflated("", Wrapper::kZlib) + std::string(size, 'x');
    const auto got = DrainBytes(bytes, Compression::kZlib);
    EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData) << size;
  }
  const std::string zlib = Deflated("x", Wrapper::kZlib);
  EXPECT_EQ(ReasonOf(DrainBytes(zlib + zlib, Compression::kZlib).status()),
            RecordErrorReason::kCompressedData)
      << "zlib streams do not concatenate";
}

TEST(ByteSourceTest, ReservedFlagsOfAGzipHeaderAreDamage) {
  for (const char flag : {'\x20', '\x40', '\x80'}) {
    std::string bytes = Deflated(Text(), Wrapper::kGzip);
    bytes[3] = flag;  // FLG, RFC 1952
    const auto got = DrainBytes(bytes, Compression::kGzip);
    EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData) << got.status();
  }
}

TEST(ByteSourceTest, ReadErrorsOfTheFileComeThrough) {
  auto file = std::make_shared<FakeFile>(Deflated(Text(), Wrapper::kGzip));
  file->FailFrom(file->size() / 2);
  auto source = MakeByteSource(file, Compression::kGzip, 64);
  const auto got = Drain(**source, 100);
  EXPECT_EQ(got.status().code(), absl::StatusCode::kUnknown);
  EXPECT_FALSE(GetRecordError(got.status()).has_value());
}

class LocalFileTest : public testing::Test {
 protected:
  LocalFileTest() { WriteFile(path_, "0123456789"); }

  std::shared_ptr<const RandomAccessFile> With(PreadFunction pread_function) {
    return MakeLocalFile(UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)), path_, 10,
                         std::move(pread_function));
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "digits";
};

TEST_F(LocalFileTest, ReadsAnywhereAndStopsAtTheEnd) {
  const auto file = OpenFile(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->size(), 10u);
  EXPECT_EQ((*file)->path(), path_);
  std::string out(4, '?');
  EXPECT_EQ((*file)->ReadAt(3, std::as_writable_bytes(std::span(out))).value(), 4u);
  EXPECT_EQ(out, "3456");
  EXPECT_EQ((*file)->ReadAt(8, std::as_writable_bytes(std::span(out))).value(), 2u);
  EXPECT_EQ((*file)->ReadAt(10, std::as_writable_bytes(std::span(out))).value(), 0u);
  EXPECT_EQ((*file)->ReadAt(1000, std::as_writable_bytes(std::span(out))).value(), 0u);
}

TEST_F(LocalFileTest, InterruptedAndShortReadsGoOn) {
  int calls = 0;
  const auto file = With([&](int fd, void* out, size_t size, off_t offset) -> ssize_t {
    if (++calls % 2 == 1) {
      errno = EINTR;
      return -1;
    }
    return ::pread(fd, out, std::min<size_t>(size, 3), offset);
  });
  std::string out(10, '?');
  EXPECT_EQ(file->ReadAt(0, std::as_writable_bytes(std::span(out))).value(), 10u);
  EXPECT_EQ(out, "0123456789");
  EXPECT_EQ(calls, 8);
}

TEST_F(LocalFileTest, IoErrorNamesFileAndOffset) {
  const auto file = With([](int fd, void* out, size_t, off_t offset) -> ssize_t {
    if (offset < 4) return ::pread(fd, out, 4 - static_cast<size_t>(offset), offset);
    errno = EIO;
    return -1;
  });
  std::string out(8, '?');
  const auto got = file->ReadAt(1, std::as_writable_bytes(std::span(out)));
  ASSERT_FALSE(got.ok());
  EXPECT_MESSAGE(got.status());
}

TEST_F(LocalFileTest, WhatMayPassIsTriedAFewTimesAndTheRestOnce) {
  for (const auto& [error, failures, good] :
       std::vector<std::tuple<int, int, bool>>{{EIO, 2, true},
                                               {EIO, 3, false},
                                               {EAGAIN, 2, true},
                                               {ESTALE, 2, true},
                                               {ETIMEDOUT, 2, true},
                                               {EBADF, 1, false},
                                               {EINTR, 50, true}}) {
    int calls = 0;
    // Two bytes at a time: each part has all its attempts.
    const auto file = MakeLocalFile(
        UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)), path_, 10,
        [&, error = error, failures = failures](int fd, void* out, size_t size, off_t offset) {
          if (calls++ % (failures + 1) == failures) {
            return ::pread(fd, out, std::min<size_t>(size, 2), offset);
          }
          errno = error;
          return ssize_t{-1};
        },
        {.attempts = 3, .backoff = std::chrono::milliseconds(0)});
    std::string out(6, '?');
    const auto got = file->ReadAt(2, std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(got.ok(), good) << error << " " << got.status();
    EXPECT_EQ(calls, good ? 3 * (failures + 1) : failures);
    EXPECT_EQ(out == "234567", good);
  }
}

TEST_F(LocalFileTest, ReadFullyCallsAShortFileDataLoss) {
  const auto file = OpenFile(path_);
  std::string out(6, '?');
  EXPECT_TRUE(ReadFully(**file, 4, std::as_writable_bytes(std::span(out))).ok());
  const absl::Status status = ReadFully(**file, 5, std::as_writable_bytes(std::span(out)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_MESSAGE(status);
}

TEST_F(LocalFileTest, OnlyRegularFilesOpen) {
  EXPECT_EQ(OpenFile(folder_.path()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenFile("/dev/null").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenFile(folder_ / "absent").status().code(), absl::StatusCode::kNotFound);
}

TEST(CompressionEndingTest, OneIsTakenOffButNotAllOfAName) {
  EXPECT_EQ(WithoutCompressionEnding("a.tsv.gz"), "a.tsv");
  EXPECT_EQ(WithoutCompressionEnding("a.tsv.zlib"), "a.tsv");
  EXPECT_EQ(WithoutCompressionEnding("a.gz.zst"), "a.gz");
  EXPECT_EQ(WithoutCompressionEnding("a.tsv"), "a.tsv");
  EXPECT_EQ(WithoutCompressionEnding(".gz"), ".gz");
}

}  // namespace
}  // namespace millrace::readers
