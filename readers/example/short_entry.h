#ifndef MILLRACE_READERS_EXAMPLE_SHORT_ENTRY_H_
#define MILLRACE_READERS_EXAMPLE_SHORT_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

// The form that nearly all entries of an Example have, recognised at a glance. Writers put the key
// before the value, pack numbers, and use no more bytes for a length than it needs, so an entry of
// less than 128 bytes with n bytes of numbers (or one string of n bytes) is
//
//   0a L  0a K key  12 n+4  T n+2  0a n  payload       T: tag of the list, L = K + n + 8
//
// and two records differ in n and the payload only. So a comparison of the first eight bytes with
// those of an earlier record, and one of the six before the payload, check what the WireReader
// takes 30 branches for. An entry of another form is not wrong, it is left to the WireReader.

namespace millrace::readers::internal {

template <typename Word>
Word LoadWord(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// std::memcmp(a, b, size) == 0 without a call.
inline bool SameBytes(const char* a, const char* b, size_t size) {
  const auto differ = [&]<typename Word>(Word, size_t at) {
    return LoadWord<Word>(a + at) != LoadWord<Word>(b + at);
  };
  if (size >= 8) {  // the last word may overlap the one before
    for (size_t at = 0; at + 8 < size; at += 8) {
      if (differ(uint64_t{}, at)) return false;
    }
    return !differ(uint64_t{}, size - 8);
  }
  if (size >= 4) return !differ(uint32_t{}, 0) && !differ(uint32_t{}, size - 4);
  if (size >= 2) return !differ(uint16_t{}, 0) && !differ(uint16_t{}, size - 2);
  return size == 0 || *a == *b;
}

inline constexpr ptrdiff_t kLeastShortEntry = 10;  // with an empty key and no payload
inline constexpr uint32_t kAroundPayload = 8;      // bytes of the body besides key and payload

// The bytes that short entries of one key begin with.
class ShortEntryOf {
 public:
  ShortEntryOf() = default;  // the entry of no key
  // `key` must outlive it.
  explicit ShortEntryOf(std::string_view key) : key_(key) {
    if (key.size() > 127 - kAroundPayload) return;
    around_ = static_cast<uint32_t>(key.size()) + kAroundPayload;
    const size_t in_head = key.size() < 4 ? key.size() : 4;
    if (in_head > 0) std::memcpy(reinterpret_cast<char*>(&head_) + 4, key.data(), in_head);
    head_ |= uint64_t{0x0a} | uint64_t{0x0a} << 16 | uint64_t{key.size()} << 24;
    // All of that counts, and that L is below 128.
    mask_ = 0xffff80ff | ((uint64_t{1} << (8 * in_head)) - 1) << 32;
  }

  std::string_view key() const { return key_; }

  // Returns where the entry at `p` ends. nullptr: it is none of this key, or not within `limit`.
  const char* EndAt(const char* p, const char* limit) const {
    if (limit - p < kLeastShortEntry) return nullptr;
    const auto head = LoadWord<uint64_t>(p);
    if (((head ^ head_) & mask_) != 0) return nullptr;
    const uint32_t body_bytes = head >> 8 & 0xff;
    if (body_bytes < around_ || limit - p < int64_t{body_bytes} + 2) return nullptr;
    if (key_.size() > 4 && !SameBytes(p + 8, key_.data() + 4, key_.size() - 4)) return nullptr;
    return p + 2 + body_bytes;
  }

  // Where the value begins in an entry at `p`.
  const char* ValueAt(const char* p) const { return p + around_ - 4; }

 private:
  std::string_view key_;
  uint64_t head_ = 0;
  uint64_t mask_ = 0;
  uint32_t around_ = 128;  // more than any short entry has
};

// The key of the entry at `p`, if that begins as a short one; it is not checked to be UTF-8. Null
// otherwise.
inline std::string_view KeyOfShortEntry(const char* p, const char* limit) {
  if (limit - p < kLeastShortEntry) return {};
  const auto head = LoadWord<uint32_t>(p);
  const uint32_t body_bytes = head >> 8 & 0xff;
  const uint32_t key_bytes = head >> 24;
  if ((head & 0x00ff80ff) != 0x000a000a || key_bytes + kAroundPayload > body_bytes) return {};
  if (limit - p < int64_t{body_bytes} + 2) return {};
  return {p + 4, key_bytes};
}

// True when one value fills the bytes from `value` to `end`, of a short entry.
inline bool IsOneValue(const char* value, const char* end) {
  return value[0] == 0x12 && value[1] == end - value - 2;
}

// The payload of the value from `value` to `end`, of a short entry, if it is a list of the tag
// `list_tag` in the common form; null otherwise.
inline std::string_view ShortPayload(const char* value, const char* end, uint8_t list_tag) {
  constexpr uint32_t kBefore = 6;
  const auto n = static_cast<uint64_t>(end - value) - kBefore;
  const uint64_t form = uint64_t{0x0a'02'00'04'12} | uint64_t{list_tag} << 16;
  constexpr uint64_t kEachLength = uint64_t{1} << 8 | uint64_t{1} << 24 | uint64_t{1} << 40;
  // The two bytes before the value can be read: there the entry begins.
  const uint64_t found = LoadWord<uint64_t>(value - 2) >> 16;
  if (found != form + n * kEachLength) return {};
  return {value + kBefore, n};
}

// Decodes `payload` if it is one varint of at most 8 bytes, without a branch for each of them.
// REQUIRES: 8 bytes can be read that end with its last.
inline bool DecodeShortVarint(std::string_view payload, int64_t* out) {
  constexpr uint64_t kContinues = 0x8080808080808080;
  const size_t n = payload.size();
  if (n - 1 >= 8) return false;
  const size_t others = 64 - 8 * n;  // bits
  const uint64_t word = LoadWord<uint64_t>(payload.data() + n - 8) >> others;
  if ((word & kContinues) != (kContinues >> 8) >> others) return false;
  uint64_t bits = word & ~kContinues;  // seven of each byte; they move together in steps
  bits = (bits & 0x007f007f007f007f) | (bits & 0x7f007f007f007f00) >> 1;
  bits = (bits & 0x00003fff00003fff) | (bits & 0x3fff00003fff0000) >> 2;
  bits = (bits & 0x000000000fffffff) | (bits & 0x0fffffff00000000) >> 4;
  *out = static_cast<int64_t>(bits);
  return true;
}

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_SHORT_ENTRY_H_
