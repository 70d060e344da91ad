// bench_reader_rows ROW ...: rows of the readers bench that need no pipeline. Each prints one JSON
// object with "per_second", by the processor time of the process.
//
//   parse_40 SECONDS [shuffled]       Examples of 40 features into columns; [entries in any order]
//   parse_40_limit SECONDS            CRC-32C over the same bytes
//   index FILE [FOLDER]               RecordSource::Open without an index, records; [kept there]
//   index_limit FILE                  a plain walk over the headers of FILE, records
//   write FILE RECORDS none|gzip      TfRecordWriter, records
//   write_limit FILE RECORDS none|gzip  CRCs, deflate, write and sync without anything else
#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/op.h"
#include "bench/example_runs.h"
#include "bench/print_rate.h"
#include "bench/tfrecord_frame.h"
#include "readers/example_builder.h"
#include "readers/parse_example.h"
#include "readers/record_source.h"
#include "readers/record_writer.h"

namespace millrace::bench {
namespace {

int Fail(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  return 1;
}

// ---- parse_40: 13 floats, 26 integers below a million, and a label, as click logs have them ----

constexpr int kFloats = 13;
constexpr int kInts = 26;

std::vector<std::string> MakeExamples(bool shuffled) {
  std::mt19937_64 random(1);
  std::vector<int> order(1 + kFloats + kInts);
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::vector<std::string> examples;
  for (int64_t i = 0; i < kRows * kRuns; ++i) {
    readers::ExampleBuilder builder;
    if (shuffled) std::shuffle(order.begin(), order.end(), random);
    for (const int feature : order) {
      if (feature == 0) {
        builder.AddInt("label", static_cast<int64_t>(random() % 2));
      } else if (feature <= kFloats) {
        builder.AddFloat("I" + std::to_string(feature), static_cast<float>(random() % 1000) / 8);
      } else {
        builder.AddInt("C" + std::to_string(feature - kFloats),
                       static_cast<int64_t>(random() % 1'000'000));
      }
    }
    examples.push_back(builder.Serialize());
  }
  return examples;
}

std::vector<readers::FeatureSpec> Features() {
  std::vector<readers::FeatureSpec> features;
  const auto add = [&](std::string key, DType dtype) {
    readers::FeatureSpec& spec = features.emplace_back();
    spec.name = key;
    spec.key = std::move(key);
    spec.dtype = dtype;
  };
  add("label", DType::kI64);
  for (int i = 1; i <= kFloats; ++i) add("I" + std::to_string(i), DType::kF32);
  for (int i = 1; i <= kInts; ++i) add("C" + std::to_string(i), DType::kI64);
  return features;
}

int Parse(double seconds, bool shuffled) {
  const std::vector<std::string> examples = MakeExamples(shuffled);
  auto op = readers::MakeParseExample({.features = Features()});
  if (!op.ok()) return Fail(op.status().ToString());
  std::vector<std::unique_ptr<Op>> ops;
  ops.push_back(*std::move(op));
  std::vector<std::vector<int64_t>> slab;
  std::vector<FieldSlots> slots;
  for (const readers::FeatureSpec& spec : Features()) {
    slab.emplace_back(kRows);
    slots.push_back({spec.name, spec.dtype, {}, reinterpret_cast<std::byte*>(slab.back().data())});
  }
  const bool ok = PrintRunRate(seconds, examples, ops, slots);
  return ok ? 0 : Fail("an Example was not parsed");
}

int ParseLimit(double seconds) {
  const std::vector<std::string> examples = MakeExamples(false);
  uint32_t sum = 0;
  PrintRate(seconds, [&] {
    for (const std::string& example : examples) sum += MaskedCrc(example.data(), example.size());
    return kRows * kRuns;
  });
  return sum == 0 ? Fail("no sum") : 0;
}

// ---- index ----

int PrintSeconds(double start, uint64_t records) {
  std::printf("{\"per_second\": %.1f}\n",
              static_cast<double>(records) / (ProcessSeconds() - start));
  return 0;
}

// The index is written to `folder`, which is emptied; "/dev/null" keeps none.
int Index(const char* path, const char* folder) {
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) std::filesystem::remove_all(folder, ignored);
  readers::RecordSourceOptions options;
  options.index_folder = folder;
  const double start = ProcessSeconds();
  const auto source = readers::RecordSource::Open({path}, options);
  if (!source.ok()) return Fail(source.status().ToString());
  return PrintSeconds(start, (*source)->num_records());
}

// Reads windows, checks each header, and keeps where each record begins.
int IndexLimit(const char* path) {
  constexpr size_t kWindowBytes = 256 << 10;
  const double start = ProcessSeconds();
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return Fail("cannot open");
  std::vector<unsigned char> window(kWindowBytes);
  std::vector<uint64_t> begins;
  uint64_t window_begin = 0;
  uint64_t window_end = 0;
  for (uint64_t offset = 0;;) {
    if (offset + kHeaderBytes > window_end) {
      const ssize_t n = pread(file, window.data(), window.size(), static_cast<off_t>(offset));
      if (n <= 0) break;
      window_begin = offset;
      window_end = offset + static_cast<uint64_t>(n);
    }
    const unsigned char* header = window.data() + (offset - window_begin);
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, header, 8);
    std::memcpy(&crc, header + 8, 4);
    if (MaskedCrc(header, 8) != crc) return Fail("damaged");
    begins.push_back(offset);
    offset += kHeaderBytes + length + kFooterBytes;
  }
  close(file);
  return PrintSeconds(start, begins.size());
}

// ---- write: records of 620 bytes, as text compresses ----

constexpr size_t kRecordBytes = 620;

std::vector<std::string> MakeTexts() {
  std::mt19937_64 random(1);
  std::vector<std::string> texts(1024);
  for (std::string& text : texts) {
    while (text.size() < kRecordBytes) text += "word" + std::to_string(random() % 5000) + " ";
    text.resize(kRecordBytes);
  }
  return texts;
}

int Write(const char* path, uint64_t records, bool gzip) {
  const std::vector<std::string> texts = MakeTexts();
  readers::TfRecordWriterOptions options;
  if (gzip) options.compression = readers::Compression::kGzip;
  const double start = ProcessSeconds();
  auto writer = readers::TfRecordWriter::Open(path, options);
  if (!writer.ok()) return Fail(writer.status().ToString());
  for (uint64_t i = 0; i < records; ++i) {
    const absl::Status status = (*writer)->Write(texts[i % texts.size()]);
    if (!status.ok()) return Fail(status.ToString());
  }
  if (const absl::Status status = (*writer)->Close(); !status.ok()) return Fail(status.ToString());
  return PrintSeconds(start, records);
}

// Puts the frame of `text` behind `to`.
void AppendFrame(const std::string& text, std::vector<unsigned char>& to) {
  const size_t at = to.size();
  to.resize(at + kHeaderBytes + text.size() + kFooterBytes);
  const uint64_t length = text.size();
  std::memcpy(&to[at], &length, 8);
  const uint32_t length_crc = MaskedCrc(&to[at], 8);
  std::memcpy(&to[at + 8], &length_crc, 4);
  std::memcpy(&to[at + kHeaderBytes], text.data(), text.size());
  const uint32_t crc = MaskedCrc(text.data(), text.size());
  std::memcpy(&to[at + kHeaderBytes + text.size()], &crc, 4);
}

int WriteLimit(const char* path, uint64_t records, bool gzip) {
  constexpr size_t kBufferBytes = 256 << 10;
  constexpr int kGzipWindow = 15 + 16;
  const std::vector<std::string> texts = MakeTexts();
  const double start = ProcessSeconds();
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return Fail("cannot open");
  z_stream stream = {};
  const int level = readers::TfRecordWriterOptions().compression_level;
  deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY);
  std::vector<unsigned char> frames;
  frames.reserve(2 * kBufferBytes);
  std::vector<unsigned char> packed(kBufferBytes);
  const auto write_all = [&](const unsigned char* data, size_t size) {
    return size == 0 || write(file, data, size) == static_cast<ssize_t>(size);
  };
  const auto flush = [&](int mode) {
    if (!gzip) return write_all(frames.data(), frames.size());
    stream.next_in = frames.data();
    stream.avail_in = static_cast<uInt>(frames.size());
    do {
      stream.next_out = packed.data();
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, mode);
      if (!write_all(packed.data(), packed.size() - stream.avail_out)) return false;
    } while (stream.avail_out == 0);
    return true;
  };
  bool ok = true;
  for (uint64_t i = 0; i < records && ok; ++i) {
    AppendFrame(texts[i % texts.size()], frames);
    if (frames.size() < kBufferBytes) continue;
    ok = flush(Z_NO_FLUSH);
    frames.clear();
  }
  ok = ok && flush(Z_FINISH) && fsync(file) == 0;
  deflateEnd(&stream);
  close(file);
  return ok ? PrintSeconds(start, records) : Fail("cannot write");
}

int Main(const std::vector<std::string>& words) {
  const auto is = [&](std::string_view row, size_t count) {
    return !words.empty() && words[0] == row && words.size() == count;
  };
  if (is("parse_40", 2)) return Parse(std::stod(words[1]), false);
  if (is("parse_40", 3)) return Parse(std::stod(words[1]), true);
  if (is("parse_40_limit", 2)) return ParseLimit(std::stod(words[1]));
  if (is("index", 2)) return Index(words[1].c_str(), "/dev/null");
  if (is("index", 3)) return Index(words[1].c_str(), words[2].c_str());
  if (is("index_limit", 2)) return IndexLimit(words[1].c_str());
  if (is("write", 4)) return Write(words[1].c_str(), std::stoull(words[2]), words[3] == "gzip");
  if (is("write_limit", 4)) {
    return WriteLimit(words[1].c_str(), std::stoull(words[2]), words[3] == "gzip");
  }
  return Fail("usage: bench_reader_rows ROW ...; see bench/reader_rows.cc");
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  return millrace::bench::Main(std::vector<std::string>(argv + 1, argv + argc));
}
