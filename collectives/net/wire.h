#ifndef MILLRACE_COLLECTIVES_NET_WIRE_H_
#define MILLRACE_COLLECTIVES_NET_WIRE_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::collectives {

// Appends numbers, their lowest byte first, and strings with their length in front.
class WireWriter {
 public:
  template <std::unsigned_integral T>
  WireWriter& Add(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) text_ += static_cast<char>(uint64_t{value} >> (8 * i));
    return *this;
  }
  WireWriter& Add(std::string_view text) {
    Add(static_cast<uint32_t>(text.size()));
    text_.append(text);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Reads the same. With any bytes, a read beyond their end gives zero or an empty string, and Ended
// is false for good.
class WireReader {
 public:
  explicit WireReader(std::string_view text) : text_(text) {}

  template <std::unsigned_integral T>
  T Number() {
    uint64_t value = 0;
    int shift = 0;
    for (const char byte : Take(sizeof(T))) {
      value |= uint64_t{static_cast<uint8_t>(byte)} << shift;
      shift += 8;
    }
    return static_cast<T>(value);
  }
  std::string_view String() { return Take(Number<uint32_t>()); }
  bool good() const { return good_; }
  // True if everything was read, and there was enough of it.
  bool Ended() const { return good_ && text_.empty(); }

 private:
  std::string_view Take(size_t bytes) {
    good_ = good_ && bytes <= text_.size();
    if (!good_) return {};
    const std::string_view taken = text_.substr(0, bytes);
    text_.remove_prefix(bytes);
    return taken;
  }

  std::string_view text_;
  bool good_ = true;  // true if all that was asked for was there
};

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_WIRE_H_
