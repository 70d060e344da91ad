#include "readers/example/parser.h"

#include <array>

#include "base/text.h"
#include "base/utf8.h"
#include "readers/example/sequence_parser.h"

namespace millrace::readers::internal {
namespace {

constexpr uint32_t kGroupStart = 3;
constexpr uint32_t kGroupEnd = 4;

}  // namespace

std::string WireError::ToString() const {
  if (ok()) return "ok";
  const std::string text = "byte " + std::to_string(offset) + ": " + what;
  return key.empty() ? text : text + ", in feature '" + ShownText(key) + "'";
}

bool WireReader::Fail(const char* what, const char* at) {
  if (error_->ok()) *error_ = {what, static_cast<uint64_t>(at - base_)};
  return false;
}

bool WireReader::DecodeVarint(const char*& p, const char* end, uint64_t* out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (p == end) return false;
    const uint64_t byte = static_cast<uint8_t>(*p++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out = value;
      return true;
    }
  }
  return false;
}

// A tag has at most 5 bytes; bits above the 32nd are dropped, as libprotobuf does.
bool WireReader::ReadTag() {
  const char* const start = p_;
  uint64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    if (p_ == end_) return Fail("tag cut off", start);
    const uint64_t byte = static_cast<uint8_t>(*p_++);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      tag_ = static_cast<uint32_t>(value);
      if (tag_ >> 3 == 0) return Fail("field number 0", start);
      if ((tag_ & 7) > 5) return Fail("unknown wire type", start);
      return true;
    }
  }
  return Fail("tag longer than 5 bytes", start);
}

bool WireReader::NextSlowly() {
  const char* const start = p_;
  if (!ReadTag()) return false;
  if ((tag_ & 7) == kGroupEnd) return Fail("end of a group that was not begun", start);
  return true;
}

bool WireReader::ReadBytes(std::string_view* out) {
  const char* const start = p_;
  uint64_t length = 0;
  int shift = 0;
  for (;; shift += 7) {
    if (p_ == end_) return Fail("length cut off", start);
    const uint64_t byte = static_cast<uint8_t>(*p_++);
    if (shift == 28 && byte >= 8) return Fail("length of 2 GiB or more", start);
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  if (length > static_cast<uint64_t>(end_ - p_)) {
    return Fail("length runs past its message", start);
  }
  *out = {p_, static_cast<size_t>(length)};
  p_ += length;
  return true;
}

bool WireReader::ReadVarint(uint64_t* out) {
  const char* const start = p_;
  return DecodeVarint(p_, end_, out) || Fail("bad varint", start);
}

bool WireReader::ReadFixed32(std::string_view* out) {
  *out = {p_, 4};
  return SkipFixed(4);
}

bool WireReader::SkipFixed(ptrdiff_t size) {
  if (end_ - p_ < size) return Fail("fixed-size value cut off", p_);
  p_ += size;
  return true;
}

bool WireReader::SkipValue() {
  uint64_t number;
  std::string_view bytes;
  switch (tag_ & 7) {
    case 0:
      return ReadVarint(&number);
    case 1:
      return SkipFixed(8);
    case 2:
      return ReadBytes(&bytes);
    default:
      return SkipFixed(4);
  }
}

bool WireReader::Skip() { return (tag_ & 7) == kGroupStart ? SkipGroup() : SkipValue(); }

// Groups end with a tag instead of having a length; `open` holds the numbers of those begun.
bool WireReader::SkipGroup() {
  const char* const start = p_;
  std::array<uint32_t, kMaxDepth> open;
  int num_open = 0;
  if (depth_ < 1) return Fail("nested too deeply", start);
  open[num_open++] = tag_ >> 3;
  while (num_open > 0) {
    if (p_ == end_) return Fail("group without end", start);
    const char* const tag_start = p_;
    if (!ReadTag()) return false;
    if ((tag_ & 7) == kGroupStart) {
      if (num_open >= depth_) return Fail("nested too deeply", tag_start);
      open[num_open++] = tag_ >> 3;
    } else if ((tag_ & 7) == kGroupEnd) {
      if (open[--num_open] != tag_ >> 3) return Fail("end of another group", tag_start);
    } else if (!SkipValue()) {
      return false;
    }
  }
  return true;
}

bool ReadEntry(const WireReader& features, FeatureEntry* entry) {
  WireReader reader(entry->body, features);
  while (reader.Next()) {
    if (reader.tag() == 0x0a) {
      if (!reader.ReadBytes(&entry->key)) return false;
      if (!IsUtf8(entry->key)) return reader.Fail("key is not UTF-8", entry->key.data());
    } else if (reader.tag() == 0x12) {
      if (!reader.ReadBytes(&entry->value)) return false;
      ++entry->num_values;
    } else if (!reader.Skip()) {
      return false;
    }
  }
  return reader.ok();
}

bool CheckExample(std::string_view example, WireError* error) {
  IgnoreSink sink;
  WireError value_error;  // the first one; VisitExample goes on to look at the framing
  const bool framed = VisitExample(example, error, [&](const FeatureEntry& entry) {
    if (value_error.ok()) DecodeFeature(example, entry, &value_error, sink);
  });
  if (!value_error.ok()) *error = value_error;
  return framed && value_error.ok();
}

bool CheckSequenceExample(std::string_view example, WireError* error) {
  if (!CheckExample(example, error)) return false;  // of the context; it skips what follows
  IgnoreSteps sink;
  WireError value_error;
  const bool framed = VisitFeatureLists(example, error, [&](const FeatureEntry& entry) {
    if (value_error.ok()) DecodeFeatureList(example, entry, &value_error, sink);
  });
  if (!value_error.ok()) *error = value_error;
  return framed && value_error.ok();
}

}  // namespace millrace::readers::internal
