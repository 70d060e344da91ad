#include "readers/text/json_record.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/utf8.h"
#include "readers/example/feature_spec.h"
#include "readers/text/number_text.h"

namespace millrace::readers::internal {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexValue(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Writes `code` as UTF-8 and returns the place behind it.
char* PutUtf8(uint32_t code, char* out) {
  const auto put = [&](uint32_t byte) { *out++ = static_cast<char>(byte); };
  const auto more = [&](int shift) { put(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    more(0);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    more(6);
    more(0);
  } else {
    put(0xf0 | code >> 18);
    more(12);
    more(6);
    more(0);
  }
  return out;
}

}  // namespace

// Reads one record. Functions return false after they have set error_.
class JsonReader {
 public:
  JsonReader(const JsonPaths& paths, std::string_view record, RunArena& arena,
             std::span<RecordField> fields)
      : paths_(paths),
        p_(record.data()),
        begin_(p_),
        end_(p_ + record.size()),
        arena_(arena),
        fields_(fields) {}

  absl::Status Read() {
    ReadRecord();
    return error_;
  }

 private:
  bool Syntax(std::string_view text) {
    error_ = absl::DataLossError(
        absl::StrCat("not a JSON record: byte ", p_ - begin_, ": ", ToAbsl(text)));
    return false;
  }
  bool Wrong(const FeatureSpec& spec, std::string_view text) {
    error_ = absl::InvalidArgumentError(absl::StrCat("value '", spec.key, "' ", ToAbsl(text)));
    return false;
  }

  bool ReadRecord() {
    SkipBlanks();
    if (!At('{')) return Syntax("the record is no object");
    if (!ReadObject(1)) return false;
    SkipBlanks();
    return p_ == end_ || Syntax("something behind the object");
  }

  bool At(char c) const { return p_ != end_ && *p_ == c; }
  bool Take(char c) {
    if (!At(c)) return false;
    ++p_;
    return true;
  }
  void SkipBlanks() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\t' || *p_ == '\n' || *p_ == '\r')) ++p_;
  }

  // Calls item() for each element between `open`, which is next, and `close`.
  template <typename Item>
  bool ReadItems(char close, int depth, Item&& item) {
    if (depth > JsonPaths::kMaxDepth) return Syntax("nested too deeply");
    ++p_;
    SkipBlanks();
    if (Take(close)) return true;
    for (;;) {
      SkipBlanks();
      if (!item()) return false;
      SkipBlanks();
      if (Take(close)) return true;
      if (!Take(',')) return Syntax(close == '}' ? "no , or } behind a member" : "no , or ]");
    }
  }

  bool ReadKey(std::string_view* key) {
    if (!At('"')) return Syntax("no key");
    if (!ReadString(key)) return false;
    SkipBlanks();
    if (!Take(':')) return Syntax("no : behind a key");
    SkipBlanks();
    return true;
  }

  // path_ is that of the object.
  bool ReadObject(int depth) {
    const size_t length = path_.size();
    return ReadItems('}', depth, [&] {
      std::string_view key;
      if (!ReadKey(&key)) return false;
      path_.append(length == 0 ? "" : ".").append(key);
      const bool read = ReadMember(depth);
      path_.resize(length);
      return read;
    });
  }

  bool ReadMember(int depth) {
    const auto feature = paths_.wanted_.find(path_);
    if (feature != paths_.wanted_.end()) return ReadFeature(feature->second, depth);
    if (At('{') && paths_.parents_.contains(path_)) return ReadObject(depth + 1);
    return SkipValue(depth);
  }

  bool ReadFeature(size_t number, int depth) {
    const FeatureSpec& spec = paths_.features_[number];
    RecordField& field = fields_[number];
    if (field.present) return Wrong(spec, "is there twice");
    if (At('n')) return ReadWord("null");  // missing
    field.present = true;
    return ReadShaped(spec, 0, depth, field);
  }

  // The values from extent `level` of the shape on.
  bool ReadShaped(const FeatureSpec& spec, int level, int depth, RecordField& field) {
    const int rank = spec.dtype == DType::kBytes ? 0 : spec.shape.rank();
    if (level == rank) return ReadScalar(spec, field);
    if (!At('[')) return Wrong(spec, absl::StrCat("is no array of rank ", rank));
    const int64_t wanted = spec.shape[level];
    int64_t count = 0;
    const bool read = ReadItems(']', depth + 1, [&] {
      if (count++ == wanted) {
        return Wrong(spec, absl::StrCat("has an array of more than ", wanted, " elements"));
      }
      return ReadShaped(spec, level + 1, depth + 1, field);
    });
    if (!read) return false;
    if (wanted != Shape::kUnknown && count != wanted) {
      return Wrong(spec, absl::StrCat("has an array of ", count, " elements, wanted ", wanted));
    }
    return true;
  }

  bool ReadScalar(const FeatureSpec& spec, RecordField& field) {
    if (spec.dtype == DType::kBytes) {
      return At('"') ? ReadString(&field.bytes) : Wrong(spec, "is no string");
    }
    std::string_view text;
    if (At('t') || At('f')) {
      text = At('t') ? "1" : "0";
      if (!ReadWord(At('t') ? "true" : "false")) return false;
    } else if (At('-') || (p_ != end_ && IsDigit(*p_)) || AtNonFinite()) {
      if (!ReadNumber(&text)) return false;
    } else {
      const bool is_word = At('N') || At('I');
      return Wrong(spec, is_word ? "is no number; allow_nan takes NaN and Infinity for one"
                                 : "is no number");
    }
    error_ = Annotate(AddText(spec, text, field), spec.key);
    return error_.ok();
  }

  bool SkipValue(int depth) {
    std::string_view ignored;
    if (p_ == end_) return Syntax("ends before a value");
    switch (*p_) {
      case '{':
        return ReadItems('}', depth + 1, [&] { return ReadKey(&ignored) && SkipValue(depth + 1); });
      case '[':
        return ReadItems(']', depth + 1, [&] { return SkipValue(depth + 1); });
      case '"':
        return ReadString(&ignored);
      case 't':
        return ReadWord("true");
      case 'f':
        return ReadWord("false");
      case 'n':
        return ReadWord("null");
      default:
        return ReadNumber(&ignored);
    }
  }

  bool ReadWord(std::string_view word) {
    const std::string_view rest(p_, static_cast<size_t>(end_ - p_));
    if (!rest.starts_with(word)) return Syntax("no value");
    p_ += word.size();
    return true;
  }

  bool ReadDigits() {
    if (p_ == end_ || !IsDigit(*p_)) return Syntax("no digit where a number needs one");
    while (p_ != end_ && IsDigit(*p_)) ++p_;
    return true;
  }

  // Whether NaN or Infinity is next, and may be.
  bool AtNonFinite() const { return paths_.allow_nan_ && (At('N') || At('I')); }

  bool ReadNumber(std::string_view* text) {
    const char* const begin = p_;
    const bool negative = Take('-');
    if (AtNonFinite() && !(negative && At('N'))) {
      if (!ReadWord(At('N') ? "NaN" : "Infinity")) return false;
      *text = {begin, static_cast<size_t>(p_ - begin)};
      return true;
    }
    if (!Take('0') && !ReadDigits()) return false;
    if (Take('.') && !ReadDigits()) return false;
    if (Take('e') || Take('E')) {
      if (!Take('+')) Take('-');
      if (!ReadDigits()) return false;
    }
    *text = {begin, static_cast<size_t>(p_ - begin)};
    return true;
  }

  // The string at p_; a view into the record, or into the arena where it has escapes.
  bool ReadString(std::string_view* out) {
    const char* const begin = ++p_;
    for (; p_ != end_ && *p_ != '"'; ++p_) {
      if (*p_ == '\\') return ReadEscaped(begin, out);
      if (static_cast<uint8_t>(*p_) < 0x20) return Syntax("a control character in a string");
    }
    if (p_ == end_) return Syntax("a string without end");
    *out = {begin, static_cast<size_t>(p_ - begin)};
    ++p_;
    return true;
  }

  // Goes on at the first escape of a string. No escape is shorter than what it stands for.
  bool ReadEscaped(const char* begin, std::string_view* out) {
    const char* close = p_;
    while (close != end_ && *close != '"') close += *close == '\\' && end_ - close > 1 ? 2 : 1;
    auto* const text = reinterpret_cast<char*>(arena_.Allocate(static_cast<size_t>(close - begin)));
    char* to = text + (p_ - begin);
    std::memcpy(text, begin, static_cast<size_t>(p_ - begin));
    while (p_ != end_ && *p_ != '"') {
      if (static_cast<uint8_t>(*p_) < 0x20) return Syntax("a control character in a string");
      if (*p_ != '\\') {
        *to++ = *p_++;
      } else if (!ReadEscape(&to)) {
        return false;
      }
    }
    if (!Take('"')) return Syntax("a string without end");
    *out = {text, static_cast<size_t>(to - text)};
    return true;
  }

  bool ReadEscape(char** to) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    ++p_;
    if (p_ == end_) return Syntax("a string without end");
    if (*p_ == 'u') return ReadUnicode(to);
    const size_t letter = kLetters.find(*p_);
    if (letter == std::string_view::npos) return Syntax("an unknown escape");
    *(*to)++ = kMeanings[letter];
    ++p_;
    return true;
  }

  // \u and four digits; two of them for what lies above 0xffff.
  bool ReadUnicode(char** to) {
    uint32_t code = 0;
    if (!ReadHex(&code)) return false;
    if (code >= 0xdc00 && code < 0xe000) return Syntax("half of a surrogate pair");
    if (code >= 0xd800 && code < 0xdc00) {
      uint32_t low = 0;
      if (!Take('\\') || !At('u')) return Syntax("half of a surrogate pair");
      if (!ReadHex(&low)) return false;
      if (low < 0xdc00 || low >= 0xe000) return Syntax("half of a surrogate pair");
      code = 0x10000 + (code - 0xd800) * 0x400 + (low - 0xdc00);
    }
    *to = PutUtf8(code, *to);
    return true;
  }

  bool ReadHex(uint32_t* code) {
    ++p_;
    for (int i = 0; i < 4; ++i, ++p_) {
      const int digit = p_ == end_ ? -1 : HexValue(*p_);
      if (digit < 0) return Syntax("\\u without four digits");
      *code = *code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }

  const JsonPaths& paths_;
  const char* p_;
  const char* const begin_;
  const char* const end_;
  RunArena& arena_;
  const std::span<RecordField> fields_;
  std::string path_;
  absl::Status error_;
};

JsonPaths::JsonPaths(std::span<const FeatureSpec> features, bool allow_nan)
    : features_(features), allow_nan_(allow_nan) {
  for (size_t i = 0; i < features.size(); ++i) {
    const std::string& path = features[i].key;
    wanted_.emplace(path, i);
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      parents_.insert(path.substr(0, dot));
    }
  }
}

absl::Status JsonPaths::Read(std::string_view record, RunArena& arena,
                             std::span<RecordField> fields) const {
  if (!IsUtf8(record)) return absl::DataLossError("not a JSON record: it is not UTF-8");
  return JsonReader(*this, record, arena, fields).Read();
}

}  // namespace millrace::readers::internal
