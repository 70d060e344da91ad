#ifndef MILLRACE_READERS_EXAMPLE_PARSER_H_
#define MILLRACE_READERS_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The wire format of tf.train.Example (and of SequenceExample, readers/example/sequence_parser.h),
// read in place. Parsing into message objects costs a map node, a string and a vector per feature
// and copies the image; here a key and a value are views into the record, an entry that nobody
// wants is one addition, and numbers go to where they will stay. The messages are
//
//   Example  { Features features = 1; }
//   Features { map<string, Feature> feature = 1; }
//            an entry is { string key = 1; Feature value = 2; }
//   Feature  { oneof { BytesList = 1; FloatList = 2; Int64List = 3; } }
//   *List    { repeated bytes/float/int64 value = 1; }   packed or not
//
// Validity and meaning are those of libprotobuf: unknown fields and known ones of another wire type
// are skipped, of a key given twice the later entry wins, a message given twice inside one entry is
// merged, another kind of list discards the earlier one, keys must be UTF-8, a tag has at most 5
// bytes and a number at most 10.
// tests/readers/example/example_parser_test.cc holds the two against each other.

namespace millrace::readers::internal {

// Which list a Feature holds; kNone: none. The numbers are those of the fields.
enum class FeatureKind : uint8_t { kNone = 0, kBytes = 1, kFloat = 2, kInt = 3 };

// A fault, and the byte of the Example at which it lies. what == nullptr: there is none.
struct WireError {
  const char* what = nullptr;
  uint64_t offset = 0;
  std::string_view key = {};  // of the feature it lies in, a view into the record; empty: not known

  bool ok() const { return what == nullptr; }
  std::string ToString() const;  // "byte 17: length runs past its message, in feature 'image'"
  // Notes the feature, if none is. Returns false.
  bool In(std::string_view feature) {
    if (key.empty()) key = feature;
    return false;
  }
};

// Steps through the fields of one message, checking every bound. The bytes must outlive it.
class WireReader {
 public:
  // Reads `message`, the outermost one; the first error goes to `error`.
  WireReader(std::string_view message, WireError* error)
      : p_(message.data()),
        end_(message.data() + message.size()),
        base_(message.data()),
        depth_(kMaxDepth),
        error_(error) {}
  // Reads `message`, a field of the one that `parent` reads.
  WireReader(std::string_view message, const WireReader& parent)
      : p_(message.data()),
        end_(message.data() + message.size()),
        base_(parent.base_),
        depth_(parent.depth_ - 1),
        error_(parent.error_) {}

  // Reads the next tag. False at the end of the message and on an error.
  bool Next() {
    if (p_ == end_) return false;
    const uint8_t first = static_cast<uint8_t>(*p_);
    if (first < 0x08 || first >= 0x80 || (first & 7) == 4 || (first & 7) > 5) return NextSlowly();
    tag_ = first;
    ++p_;
    return true;
  }
  // The rest of the message, between fields.
  const char* position() const { return p_; }
  const char* end() const { return end_; }
  // Goes on at `p`, behind fields that the caller has checked.
  WireReader& JumpTo(const char* p) {
    p_ = p;
    return *this;
  }
  uint32_t tag() const { return tag_; }
  bool ok() const { return error_->ok(); }

  // Exactly one of these follows a Next that returned true. False: an error.
  bool ReadBytes(std::string_view* out);    // wire type 2
  bool ReadVarint(uint64_t* out);           // wire type 0
  bool ReadFixed32(std::string_view* out);  // wire type 5; four little-endian bytes
  bool Skip();                              // any, groups included

  // Reads a list's next varint straight from `*p`. False: an error.
  static bool DecodeVarint(const char*& p, const char* end, uint64_t* out);
  bool Fail(const char* what, const char* at);

 private:
  static constexpr int kMaxDepth = 100;  // protobuf's limit of messages and groups in each other

  bool NextSlowly();
  bool ReadTag();
  bool SkipFixed(ptrdiff_t size);
  bool SkipGroup();
  bool SkipValue();

  const char* p_;
  const char* const end_;
  const char* const base_;  // the Example's first byte
  const int depth_;         // how many messages may still lie inside this one
  WireError* const error_;
  uint32_t tag_ = 0;
};

// An entry of the features map: its key, and its value still undecoded.
struct FeatureEntry {
  std::string_view key;
  std::string_view body;   // the whole entry
  std::string_view value;  // its Feature, when num_values is 1
  int num_values = 0;
};

// Finds key and value in entry->body. False: an error.
bool ReadEntry(const WireReader& features, FeatureEntry* entry);

// Calls visit(const FeatureEntry&) for every entry of the maps in the fields of tag `map_tag`, in
// order; a key may come more than once. Before each, take(p, end) may take entries from `p` on by
// itself; it returns where it stopped. False: `error` says why.
template <uint32_t map_tag, typename Take, typename Visit>
bool VisitMap(std::string_view message, WireError* error, Take&& take, Visit&& visit) {
  WireReader top(message, error);
  while (top.Next()) {
    std::string_view body;
    if (top.tag() != map_tag ? !top.Skip() : !top.ReadBytes(&body)) return false;
    if (top.tag() != map_tag) continue;
    WireReader features(body, top);
    while (features.JumpTo(take(features.position(), features.end())).Next()) {
      FeatureEntry entry;
      if (features.tag() != 0x0a) {
        if (!features.Skip()) return false;
        continue;
      }
      if (!features.ReadBytes(&entry.body)) return false;
      if (!ReadEntry(features, &entry)) return error->In(entry.key);
      visit(entry);
    }
    if (!error->ok()) return false;
  }
  return error->ok();
}

// The same for the features of an Example.
template <typename Take, typename Visit>
bool VisitExample(std::string_view example, WireError* error, Take&& take, Visit&& visit) {
  return VisitMap<0x0a>(example, error, take, visit);
}

// The same without taking any.
template <typename Visit>
bool VisitExample(std::string_view example, WireError* error, Visit&& visit) {
  const auto none = [](const char* p, const char*) { return p; };
  return VisitExample(example, error, none, visit);
}

// Decodes the elements of one *List. The sink is that of DecodeFeature.
template <typename Sink>
bool DecodeList(FeatureKind kind, WireReader list, Sink& sink) {
  while (list.Next()) {
    std::string_view bytes;
    uint64_t number = 0;
    if (kind == FeatureKind::kBytes && list.tag() == 0x0a) {
      if (!list.ReadBytes(&bytes)) return false;
      sink.Bytes(bytes);
    } else if (kind == FeatureKind::kInt && list.tag() == 0x0a) {
      if (!list.ReadBytes(&bytes)) return false;
      const char* const end = bytes.data() + bytes.size();
      for (const char* p = bytes.data(); p != end;) {
        if (!WireReader::DecodeVarint(p, end, &number)) return list.Fail("bad varint", p);
        sink.Int(static_cast<int64_t>(number));
      }
    } else if (kind == FeatureKind::kInt && list.tag() == 0x08) {
      if (!list.ReadVarint(&number)) return false;
      sink.Int(static_cast<int64_t>(number));
    } else if (kind == FeatureKind::kFloat && list.tag() == 0x0a) {
      if (!list.ReadBytes(&bytes)) return false;
      if (bytes.size() % 4 != 0)
        return list.Fail("packed floats not of 4 bytes each", bytes.data());
      sink.Floats(bytes);
    } else if (kind == FeatureKind::kFloat && list.tag() == 0x0d) {
      if (!list.ReadFixed32(&bytes)) return false;
      sink.Floats(bytes);
    } else if (!list.Skip()) {
      return false;
    }
  }
  return list.ok();
}

// Calls decode(WireReader) for the entry's value, for each if it is given several times. `message`
// is what VisitMap was given. False: `error` says why.
template <typename Decode>
bool DecodeValues(std::string_view message, const FeatureEntry& entry, WireError* error,
                  Decode&& decode) {
  const WireReader top(message, error);
  const WireReader map(entry.body, top);  // stands for its level of nesting only
  WireReader values(entry.body, map);
  if (entry.num_values == 1) {
    return decode(WireReader(entry.value, values)) || error->In(entry.key);
  }
  while (values.Next()) {
    std::string_view value;
    if (values.tag() != 0x12) {
      if (!values.Skip()) break;
    } else if (!values.ReadBytes(&value) || !decode(WireReader(value, values))) {
      break;
    }
  }
  return values.ok() || error->In(entry.key);
}

// Decodes a Feature, or one more part of it; `kind` is that of the parts before it.
template <typename Sink>
bool DecodeLists(WireReader feature, FeatureKind* kind, Sink& sink) {
  while (feature.Next()) {
    const uint32_t tag = feature.tag();
    std::string_view list;
    if (tag != 0x0a && tag != 0x12 && tag != 0x1a) {
      if (!feature.Skip()) return false;
      continue;
    }
    if (!feature.ReadBytes(&list)) return false;
    if (*kind != static_cast<FeatureKind>(tag >> 3)) {
      *kind = static_cast<FeatureKind>(tag >> 3);
      sink.Begin(*kind);
    }
    if (!DecodeList(*kind, WireReader(list, feature), sink)) return false;
  }
  return feature.ok();
}

// Decodes the entry's Feature into `sink`, which has
//   Begin(FeatureKind)        the values that follow are of this kind; earlier ones do not count
//   Bytes(std::string_view)   one value; a view into the record
//   Int(int64_t)              one value
//   Floats(std::string_view)  values, 4 little-endian bytes each
// `example` is what VisitExample was given. False: `error` says why.
template <typename Sink>
bool DecodeFeature(std::string_view example, const FeatureEntry& entry, WireError* error,
                   Sink& sink) {
  FeatureKind kind = FeatureKind::kNone;
  return DecodeValues(example, entry, error,
                      [&](const WireReader& feature) { return DecodeLists(feature, &kind, sink); });
}

// A sink that keeps nothing.
struct IgnoreSink {
  void Begin(FeatureKind) {}
  void Bytes(std::string_view) {}
  void Int(int64_t) {}
  void Floats(std::string_view) {}
};

// True when `example` is a valid tf.train.Example in every part.
bool CheckExample(std::string_view example, WireError* error);

}  // namespace millrace::readers::internal

#endif  // MILLRACE_READERS_EXAMPLE_PARSER_H_
