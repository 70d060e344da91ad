#include "readers/inflate/inflated_file.h"

#include <atomic>
#include <random>
#include <thread>

#include "base/little_endian.h"
#include "readers/container/container.h"
#include "readers/file/index_key.h"
#include "readers/inflate/pass.h"
#include "tests/readers/record_test_util.h"
#include "tests/sanitized.h"
#include "xxhash.h"

namespace millrace::readers {
namespace {

constexpr uint64_t kSpanBytes = 64 << 10;

// A file whose bytes can be changed under its readers; counts what is read.
class ChangingFile : public RandomAccessFile {
 public:
  explicit ChangingFile(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string& bytes() { return bytes_; }
  uint64_t num_bytes_read() const { return num_bytes_read_; }

  absl::StatusOr<size_t> ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t got = std::min<uint64_t>(out.size(), bytes_.size() - offset);
    std::memcpy(out.data(), bytes_.data() + offset, got);
    num_bytes_read_ += got;
    return got;
  }
  uint64_t size() const override { return bytes_.size(); }
  const std::string& path() const override { return path_; }

 private:
  std::string bytes_;
  const std::string path_ = "changing.gz";
  mutable std::atomic<uint64_t> num_bytes_read_ = 0;
};

// Bytes that deflate makes smaller, in some places more than in others.
std::string Text(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < size) {
    const auto what = random() % 4;
    if (what == 0 && text.size() > 40'000) {
      text += text.substr(text.size() - 30'000 + random() % 1000, 20 + random() % 3000);
    } else if (what == 1) {
      for (int i = 0; i < 500; ++i) text.push_back(static_cast<char>(random()));
    } else {
      for (int i = 0; i < 300; ++i) text += std::to_string(random() % 1000) + " ";
    }
  }
  text.resize(size);
  return text;
}

IndexKey KeyOf(const RandomAccessFile& file, Compression compression) {
  return MakeIndexKey(file.path(), {.file_size = file.size(), .mtime_ns = 7}, compression, 0);
}

absl::StatusOr<std::vector<std::byte>> PassOver(std::shared_ptr<const RandomAccessFile> file,
                                                Compression compression,
                                                uint64_t span_bytes = kSpanBytes) {
  const IndexKey key = KeyOf(*file, compression);
  return InflatePass(std::move(file), compression, {.span_bytes = span_bytes, .advanced = {}})
      .Finish(key);
}

absl::StatusOr<AccessPoints> Parse(std::vector<std::byte> bytes, const IndexKey& key) {
  return ReadPoints(MakeMemoryFile(std::move(bytes), "some.points"), key);
}

struct Opened {
  std::shared_ptr<ChangingFile> file;
  AccessPoints points;
  std::shared_ptr<const RandomAccessFile> inflated;
};

std::shared_ptr<const RandomAccessFile> Inflate(const Opened& opened) {  // with an empty cache
  return MakeInflatedFile(opened.file, opened.points, std::make_shared<SpanCache>(0));
}

Opened Open(std::string bytes, Compression compression) {
  Opened opened;
  opened.file = std::make_shared<ChangingFile>(std::move(bytes));
  opened.points =
      Parse(PassOver(opened.file, compression).value(), KeyOf(*opened.file, compression)).value();
  opened.inflated = Inflate(opened);
  return opened;
}

absl::StatusOr<std::string> ReadString(const RandomAccessFile& file, uint64_t offset, size_t size) {
  std::string out(size, '?');
  const auto got = file.ReadAt(offset, std::as_writable_bytes(std::span(out)));
  if (!got.ok()) return got.status();
  out.resize(*got);
  return out;
}

std::string Members(std::string_view text, size_t member_bytes) {
  std::string bytes;
  for (size_t at = 0; at < text.size(); at += member_bytes) {
    bytes += Deflated(text.substr(at, member_bytes), Wrapper::kGzip);
  }
  return bytes;
}

// The same text in every kind of stream.
std::vector<std::pair<std::string, Compression>> Streams(std::string_view text) {
  std::vector<std::pair<std::string, Compression>> streams;
  for (const int level : {0, 1, 6}) {
    streams.emplace_back(Deflated(text, Wrapper::kGzip, level), Compression::kGzip);
  }
  streams.emplace_back(Deflated(text, Wrapper::kZlib, 9), Compression::kZlib);
  streams.emplace_back(Members(text, 1000), Compression::kGzip);
  streams.emplace_back(Members(text, 90'000), Compression::kGzip);
  streams.emplace_back(Members(text, 150'000) + Deflated("", Wrapper::kGzip), Compression::kGzip);
  return streams;
}

TEST(InflatedFileTest, AnyRangeIsWhatZlibDeflated) {
  for (const unsigned seed : {1u, 2u}) {
    const std::string text = Text(400'000, seed);
    for (const auto& [bytes, compression] : Streams(text)) {
      const Opened opened = Open(bytes, compression);
      ASSERT_EQ(opened.inflated->size(), text.size());
      EXPECT_GE(opened.points.spans.size(), 2u);
      std::mt19937 random(seed);
      for (int i = 0; i < 8; ++i) {
        const size_t at = random() % text.size();
        const size_t size = random() % (i % 3 == 0 ? 200'000 : 3000);
        const auto got = ReadString(*opened.inflated, at, size);
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_TRUE(*got == text.substr(at, size)) << at << " " << size;
      }
      EXPECT_EQ(ReadString(*opened.inflated, text.size(), 10).value(), "");
    }
  }
}

TEST(InflatedFileTest, EmptyStreamsHaveNoSpans) {
  for (const auto& bytes :
       {Deflated("", Wrapper::kGzip), Members("ab", 1).substr(0, 0) + Deflated("", Wrapper::kGzip) +
                                          Deflated("", Wrapper::kGzip)}) {
    const Opened opened = Open(bytes, Compression::kGzip);
    EXPECT_EQ(opened.points.spans.size(), 0u);
    EXPECT_EQ(ReadString(*opened.inflated, 0, 10).value(), "");
  }
}

TEST(InflatedFileTest, SpansAreAsLongAsAskedFor) {
  const std::string text = Text(500'000, 5);
  for (const auto& [bytes, compression] : Streams(text)) {
    const Opened opened = Open(bytes, compression);
    const auto& spans = opened.points.spans;
    for (size_t i = 0; i + 1 < spans.size(); ++i) {
      EXPECT_GE(opened.points.span_bytes(i), kSpanBytes);
      EXPECT_LT(opened.points.span_bytes(i), 6 * kSpanBytes) << "a block or member is longer";
    }
  }
  const Opened members = Open(Members(text, 1000), Compression::kGzip);
  EXPECT_LT(members.points.spans.size(), 500'000 / kSpanBytes + 2) << "not one for each member";
  for (const AccessSpan& span : members.points.spans) {
    EXPECT_EQ(span.window_bytes, 0u) << "a member needs none";
  }
}

TEST(InflatedFileTest, ReadInTheMiddleTouchesItsSpanOnly) {
  const std::string text = Text(700'000, 6);
  const Opened opened = Open(Deflated(text, Wrapper::kGzip), Compression::kGzip);
  const uint64_t before = opened.file->num_bytes_read();
  EXPECT_EQ(ReadString(*opened.inflated, 300'000, 100).value(), text.substr(300'000, 100));
  const size_t span = opened.points.SpanOf(300'000);
  EXPECT_EQ(opened.file->num_bytes_read() - before,
            opened.points.in_end(span) - opened.points.in_begin(span));
  EXPECT_LT(opened.file->num_bytes_read() - before, opened.file->size() / 2);
}

TEST(InflatedFileTest, WhatIsInTheCacheIsCopiedWithoutWaiting) {
  const std::string text = Text(700'000, 7);
  const Opened opened = Open(Deflated(text, Wrapper::kGzip), Compression::kGzip);
  std::string out(200, '?');
  const auto bytes = std::as_writable_bytes(std::span(out));
  EXPECT_FALSE(opened.inflated->TryReadAt(1000, bytes));
  ASSERT_TRUE(ReadString(*opened.inflated, 0, 10).ok());
  const uint64_t read = opened.file->num_bytes_read();
  ASSERT_TRUE(opened.inflated->TryReadAt(1000, bytes));
  EXPECT_EQ(out, text.substr(1000, 200));
  EXPECT_TRUE(ReadString(*opened.inflated, 500, 10).ok());
  EXPECT_EQ(opened.file->num_bytes_read(), read) << "inflated once";
  EXPECT_FALSE(opened.inflated->TryReadAt(text.size() - 1, bytes)) << "past the end";
}

TEST(InflatedFileTest, WhatLiesBehindReadsInOrderIsNotKept) {
  const std::string text = Text(1'000'000, 7);
  const Opened opened = Open(Deflated(text, Wrapper::kGzip), Compression::kGzip);
  ASSERT_GT(opened.points.spans.size(), 8u);
  for (const bool drop_behind : {false, true}) {
    const auto cache = std::make_shared<SpanCache>(0);
    cache->SetLimits(0, drop_behind);
    const auto inflated = MakeInflatedFile(opened.file, opened.points, cache);
    ASSERT_TRUE(ReadString(*inflated, 0, text.size()).ok());
    std::byte byte;
    EXPECT_EQ(inflated->TryReadAt(0, {&byte, 1}), !drop_behind);
    EXPECT_TRUE(inflated->TryReadAt(text.size() - 1, {&byte, 1}));
  }
}

TEST(InflatedFileTest, NoMoreThanTheLimitIsKept) {
  const std::string text = Text(1'000'000, 7);
  const std::string many = Members(text, 200'000);
  std::string bytes;
  for (int i = 0; i < 20; ++i) bytes += many;
  auto file = std::make_shared<ChangingFile>(bytes);
  const IndexKey key = KeyOf(*file, Compression::kGzip);
  const auto points = Parse(PassOver(file, Compression::kGzip, 1 << 20).value(), key).value();
  const auto inflated = MakeInflatedFile(file, points, std::make_shared<SpanCache>(0));
  ASSERT_TRUE(ReadString(*inflated, 0, inflated->size()).ok());
  uint64_t kept = 0;
  std::byte byte;
  for (size_t span = 0; span < points.spans.size(); ++span) {
    if (inflated->TryReadAt(points.spans[span].out, {&byte, 1})) kept += points.span_bytes(span);
  }
  EXPECT_GT(kept, SpanCache::kLeastBytes / 2);
  EXPECT_LE(kept, SpanCache::kLeastBytes);
}

TEST(InflatedFileTest, ThreadsThatReadInOrderInflateEachSpanOnce) {
  const std::string text = Text(1'000'000, 8);
  const Opened opened = Open(Deflated(text, Wrapper::kGzip), Compression::kGzip);
  const uint64_t before = opened.file->num_bytes_read();
  std::atomic<size_t> next = 0;
  std::atomic<int> wrong = 0;
  const auto read = [&] {
    constexpr size_t kRun = 10'000;
    for (size_t at = next.fetch_add(kRun); at < text.size(); at = next.fetch_add(kRun)) {
      const auto got = ReadString(*opened.inflated, at, kRun);
      if (!got.ok() || *got != text.substr(at, kRun)) ++wrong;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(read);
  }
  EXPECT_EQ(wrong, 0);
  uint64_t once = 0;
  for (size_t i = 0; i < opened.points.spans.size(); ++i) {
    once += opened.points.in_end(i) - opened.points.in_begin(i);
  }
  EXPECT_EQ(opened.file->num_bytes_read() - before, once);
}

TEST(InflatedFileTest, ThreadsThatJumpAboutReadRightBytes) {
  const std::string text = Text(1'000'000, 9);
  const Opened opened = Open(Deflated(text, Wrapper::kZlib), Compression::kZlib);
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed] {
        std::mt19937 random(seed);
        for (int i = 0; i < 100; ++i) {
          const size_t at = random() % text.size();
          const auto got = ReadString(*opened.inflated, at, 5000);
          if (!got.ok() || *got != text.substr(at, 5000)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(InflatedFileTest, LostWindowsAreInflatedAgain) {
  const std::string text = Text(700'000, 10);
  Opened opened = Open(Deflated(text, Wrapper::kGzip), Compression::kGzip);
  opened.points.windows = MakeMemoryFile({}, "cut.points");
  const auto inflated = Inflate(opened);
  EXPECT_EQ(ReadString(*inflated, 600'000, 1000).value(), text.substr(600'000, 1000));
}

TEST(InflatedFileTest, DamagedSpanFailsItsOwnReadsOnly) {
  const std::string text = Text(700'000, 11);
  Opened opened = Open(Deflated(text, Wrapper::kGzip), Compression::kGzip);
  const size_t bad = 2;
  ASSERT_GT(opened.points.spans.size(), 4u);
  opened.file->bytes()[(opened.points.in_begin(bad) + opened.points.in_end(bad)) / 2] ^= 0x10;
  for (size_t span = 0; span < opened.points.spans.size(); ++span) {
    const uint64_t at = opened.points.spans[span].out;
    const auto got = ReadString(*opened.inflated, at, 1000);
    if (span != bad) {
      EXPECT_TRUE(got.ok() && *got == text.substr(at, 1000)) << span;
      continue;
    }
    EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ReasonOf(got.status()), RecordErrorReason::kCompressedData);
  }
}

// Flips a bit, cuts, or puts a piece elsewhere.
void Damage(std::string& bytes, std::mt19937& random) {
  const size_t at = random() % bytes.size();
  switch (random() % 4) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes.replace(at, 64, bytes.substr(random() % bytes.size(), 64));
      break;
    default:
      bytes[at] ^= static_cast<char>(1 << random() % 8);
  }
}

// Reads it all in pieces; each is right or an error. Returns the number of errors.
int ExpectRightOrError(const RandomAccessFile& file, std::string_view text) {
  constexpr size_t kPiece = 50'000;
  int errors = 0;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    const auto got = ReadString(file, at, kPiece);
    if (got.ok()) {
      EXPECT_TRUE(*got == text.substr(at, kPiece)) << at;
    } else {
      ++errors;
    }
  }
  return errors;
}

TEST(InflatedFileTest, DamageOfTheFileGivesErrorsNeverOtherBytes) {
  const std::string text = Text(150'000, 12);
  for (const auto& [bytes, compression] :
       {std::pair(Deflated(text, Wrapper::kGzip), Compression::kGzip),
        std::pair(Deflated(text, Wrapper::kZlib), Compression::kZlib),
        std::pair(Members(text, 30'000), Compression::kGzip)}) {
    Opened opened = Open(bytes, compression);
    std::mt19937 random(12);
    int failed = 0;
    for (int trial = 0; trial < Rounds(170); ++trial) {
      opened.file->bytes() = bytes;
      Damage(opened.file->bytes(), random);
      failed += ExpectRightOrError(*Inflate(opened), text) > 0;
      if (HasFailure()) FAIL() << trial;
    }
    EXPECT_GT(failed, Rounds(120)) << "the damage is seen";
  }
}

TEST(InflatedFileTest, DamagedPointsAreRefusedOrGiveTheSameBytes) {
  const std::string text = Text(200'000, 13);
  auto file = std::make_shared<ChangingFile>(Deflated(text, Wrapper::kGzip));
  const std::vector<std::byte> good = PassOver(file, Compression::kGzip).value();
  const std::string bytes(reinterpret_cast<const char*>(good.data()), good.size());
  std::mt19937 random(13);
  for (int trial = 0; trial < Rounds(500); ++trial) {
    std::string bad = bytes;
    Damage(bad, random);
    const auto span = std::as_bytes(std::span(bad));
    auto points = Parse({span.begin(), span.end()}, KeyOf(*file, Compression::kGzip));
    if (!points.ok()) continue;
    Opened opened{.file = file, .points = *std::move(points), .inflated = nullptr};
    EXPECT_EQ(ExpectRightOrError(*Inflate(opened), text), 0) << "only windows can be damaged";
  }
}

// Points with good checksums that say something else.
TEST(InflatedFileTest, ForgedPointsGiveErrorsNeverOtherBytes) {
  const std::string text = Text(200'000, 14);
  auto file = std::make_shared<ChangingFile>(Deflated(text, Wrapper::kGzip));
  const IndexKey key = KeyOf(*file, Compression::kGzip);
  const std::vector<std::byte> good = PassOver(file, Compression::kGzip).value();
  constexpr size_t kHeader = 88;
  constexpr size_t kRow = 40;
  const size_t count = LoadU64(&good[48]);
  std::mt19937 random(14);
  int read = 0;
  for (int trial = 0; trial < Rounds(500); ++trial) {
    std::vector<std::byte> bad = good;
    std::byte* const row = &bad[kHeader + random() % count * kRow];
    const size_t field = std::array<size_t, 4>{0, 8, 16, 32}[random() % 4];
    const uint64_t change = random() % 2 == 0 ? uint64_t{1} << random() % 64 : random() % 64;
    StoreU64(LoadU64(row + field) ^ change, row + field);
    if (random() % 8 == 0) StoreU64(LoadU64(&bad[56]) ^ change, &bad[56]);
    StoreU64(XXH3_64bits(&bad[kHeader], count * kRow), &bad[72]);
    StoreU64(XXH3_64bits(bad.data(), 80), &bad[80]);
    auto points = Parse(std::move(bad), key);
    if (!points.ok()) continue;
    ++read;
    Opened opened{.file = file, .points = *std::move(points), .inflated = nullptr};
    const auto inflated = Inflate(opened);
    ExpectRightOrError(*inflated, text.substr(0, inflated->size()));
  }
  EXPECT_GT(read, Rounds(50)) << "what can be seen only by inflating";
}

TEST(InflatedFileTest, PointsOfAnotherFileOrStateAreNotUsed) {
  auto file = std::make_shared<ChangingFile>(Deflated(Text(200'000, 15), Wrapper::kGzip));
  const std::vector<std::byte> bytes = PassOver(file, Compression::kGzip).value();
  IndexKey key = KeyOf(*file, Compression::kGzip);
  EXPECT_TRUE(Parse(bytes, key).ok());
  key.stamp.mtime_ns += 1;
  EXPECT_EQ(Parse(bytes, key).status().code(), absl::StatusCode::kFailedPrecondition);
  key = KeyOf(*file, Compression::kZlib);
  EXPECT_EQ(Parse(bytes, key).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(InflatePassTest, DamageIsWhatAByteSourceSays) {
  const std::string text = Text(200'000, 16);
  const std::string good = Deflated(text, Wrapper::kGzip);
  std::string flipped = good;
  flipped[good.size() / 2] ^= 4;
  std::string sum = good;
  sum[good.size() - 6] ^= 1;
  for (const std::string& bytes : {flipped, sum, good + "stray", good.substr(0, good.size() - 3),
                                   good.substr(0, good.size() / 3), std::string("plain")}) {
    auto file = std::make_shared<ChangingFile>(bytes);
    auto source = MakeByteSource(file, Compression::kGzip).value();
    std::vector<std::byte> buffer(1 << 20);
    absl::StatusOr<size_t> got = 1;
    while (got.ok() && *got > 0) got = source->Read(buffer);
    ASSERT_FALSE(got.ok());
    const auto points = PassOver(file, Compression::kGzip);
    EXPECT_EQ(ReasonOf(points.status()), ReasonOf(got.status())) << points.status();
  }
}

// Records of a shard are found while it is inflated, without a second pass: the end is known only
// when it is reached.
TEST(InflatePassTest, RecordsAreFoundOnTheWay) {
  for (const size_t last : {0, 100, 300'000}) {
    std::string frames;
    std::vector<uint64_t> begins = {0};
    for (size_t i = 0; i < 500; ++i) {
      frames += Frame(Text(i == 499 ? last : i * 13 % 4000, static_cast<unsigned>(i)));
      begins.push_back(frames.size());
    }
    auto file = std::make_shared<ChangingFile>(Deflated(frames, Wrapper::kGzip));
    InflatePass pass(file, Compression::kGzip, {.span_bytes = kSpanBytes, .advanced = {}});
    WalkOptions walk;
    walk.plain = false;
    std::vector<uint64_t> found;
    const absl::Status status = WalkRecords(pass, walk, found);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(found, begins);
  }
}

TEST(InflatePassTest, LinesAreFoundOnTheWay) {
  const auto container = MakeTextContainer({});
  for (const size_t size : {size_t{256} << 10, (size_t{256} << 10) + 1}) {  // a whole window
    std::string text;
    while (text.size() < size) text += std::to_string(text.size()) + "\n";
    text.resize(size);
    auto file = std::make_shared<ChangingFile>(Deflated(text, Wrapper::kGzip));
    InflatePass pass(file, Compression::kGzip, {.span_bytes = kSpanBytes, .advanced = {}});
    WalkOptions walk;
    walk.plain = false;
    const auto lines = container->FindFrames(pass, walk, std::make_shared<IndexMemory>());
    ASSERT_TRUE(lines.ok()) << lines.status();
    EXPECT_EQ(lines->end(), size);
  }
}

// More than the pass keeps of what it has inflated.
TEST(InflatePassTest, ALongReadOnTheWayIsWhole) {
  const std::string text = Text(3'000'000, 18);
  auto file = std::make_shared<ChangingFile>(Deflated(text, Wrapper::kGzip));
  InflatePass pass(file, Compression::kGzip, {.span_bytes = kSpanBytes, .advanced = {}});
  EXPECT_EQ(ReadString(pass, 0, 512).value(), text.substr(0, 512));
  EXPECT_EQ(ReadString(pass, 512, 1 << 20).value(), text.substr(512, 1 << 20));
  EXPECT_EQ(ReadString(pass, 1'900'000, 2 << 20).value(), text.substr(1'900'000));
  EXPECT_EQ(pass.ReadAt(10, {}).value(), 0u);
  EXPECT_EQ(ReadString(pass, 10, 10).status().code(), absl::StatusCode::kInternal);
}

TEST(InflatePassTest, InflatedBytesAreReadOnTheWay) {
  const std::string text = Text(700'000, 17);
  auto file = std::make_shared<ChangingFile>(Deflated(text, Wrapper::kGzip));
  InflatePass pass(file, Compression::kGzip, {.span_bytes = kSpanBytes, .advanced = {}});
  EXPECT_EQ(ReadString(pass, 10, 1000).value(), text.substr(10, 1000));
  EXPECT_EQ(ReadString(pass, 500, 250'000).value(), text.substr(500, 250'000));
  EXPECT_EQ(ReadString(pass, 600'000, 200'000).value(), text.substr(600'000));
  EXPECT_EQ(pass.size(), text.size()) << "the end was seen";
  const auto points = Parse(pass.Finish(KeyOf(*file, Compression::kGzip)).value(),
                            KeyOf(*file, Compression::kGzip));
  ASSERT_TRUE(points.ok());
  const auto alone =
      Parse(PassOver(file, Compression::kGzip).value(), KeyOf(*file, Compression::kGzip));
  EXPECT_EQ(points->spans.size(), alone->spans.size());
}

}  // namespace
}  // namespace millrace::readers
