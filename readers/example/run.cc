#include "readers/example/run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "base/utf8.h"
#include "readers/example/feature_spec.h"
#include "readers/example/value_sink.h"

namespace millrace::readers::internal {
namespace {

// The size of a value that always has room, in every record; no short entry has more.
constexpr int64_t kFewBytes = 1024;
constexpr size_t kMaxKeyBytes = 256;   // of a key that a message may show
constexpr size_t kMaxKeysShown = 256;  // and of how many the nearest is looked for

constexpr uint8_t TagOf(FeatureKind kind) { return static_cast<uint8_t>(kind) << 3 | 2; }
constexpr uint8_t kFloatTag = TagOf(FeatureKind::kFloat);

std::string_view NameOf(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return "bytes";
    case FeatureKind::kFloat:
      return "float";
    case FeatureKind::kInt:
      return "int64";
    case FeatureKind::kNone:
      break;
  }
  return "nothing";
}

// At least as many numbers as the entry holds, at most one for each of its bytes: each number ends
// with a byte below 0x80, or has 4 bytes.
int64_t MostValues(const FeatureSpec& spec, std::string_view body) {
  if (spec.dtype == DType::kF32) return static_cast<int64_t>(body.size() / 4);
  return std::ranges::count_if(body, [](char c) { return static_cast<signed char>(c) >= 0; });
}

// `count` varints that fill `payload`.
bool DecodeInts(std::string_view payload, size_t count, int64_t* out) {
  const char* p = payload.data();
  const char* const end = p + payload.size();
  for (size_t i = 0; i < count; ++i) {
    uint64_t number = 0;
    if (!WireReader::DecodeVarint(p, end, &number)) return false;
    out[i] = static_cast<int64_t>(number);
  }
  return p == end;
}

}  // namespace

std::string WhyMissing(std::string_view key, std::span<const std::string_view> keys) {
  if (std::ranges::find(keys, key) != keys.end()) return "is there without a value";
  std::vector<std::string> shown;
  for (const std::string_view other : keys.first(std::min(keys.size(), kMaxKeysShown))) {
    if (other.size() <= kMaxKeyBytes) shown.emplace_back(other);
  }
  return absl::StrCat("is missing", DidYouMean(key, shown));
}

std::string WhyNotKind(const ValueSink& sink) {
  if (sink.kind == sink.wanted) return "";
  return absl::StrCat("holds ", ToAbsl(NameOf(sink.kind)), ", wanted ",
                      ToAbsl(NameOf(sink.wanted)));
}

FeatureKeys::FeatureKeys(std::span<const FeatureSpec> features) {
  for (size_t i = 0; i < features.size(); ++i) {
    if (IsUtf8(features[i].key)) numbers_.emplace(features[i].key, i);
  }
}

ExampleRun::ExampleRun(std::span<const FeatureSpec> features, const FeatureKeys& keys,
                       const char* message, Run& run)
    : keys_(keys),
      message_(message),
      run_(run),
      first_column_(run.columns().size()),
      targets_(features.size()) {
  for (size_t i = 0; i < features.size(); ++i) {
    const FeatureSpec& spec = features[i];
    const Column& column = run.Add(spec.name, spec.dtype);
    Target& target = targets_[i];
    target.spec = &spec;
    target.list_tag = TagOf(KindOf(spec.dtype));
    if (spec.dtype == DType::kBytes || IsRagged(spec)) continue;
    const size_t bytes = static_cast<size_t>(spec.shape.num_elements()) * SizeOf(spec.dtype);
    if (bytes == 0 || bytes > kFewBytes) continue;
    target.value_bytes = bytes;
    target.first = run.AllocateAll(column, spec.shape);
  }
}

void ExampleRun::Parse(const Column& records) {
  for (row_ = 0; row_ < run_.num_rows(); ++row_) {
    if (run_.ok(row_)) ParseRow(row_, records.bytes(row_));
  }
  PointColumns();
}

void ExampleRun::ParseRow(int64_t row, std::string_view record) {
  num_entries_ = 0;
  num_taken_ = 0;
  WireError error;
  WireError replaced_error;
  const bool framed = VisitExample(
      record, &error, [this](const char* p, const char* end) { return Take(p, end); },
      [&](const FeatureEntry& entry) { Keep(record, entry, &replaced_error); });
  if (!framed) FailExample(error);
  if (!replaced_error.ok()) FailExample(replaced_error);
  if (num_taken_ < targets_.size() && run_.ok(row)) FinishRow(record);
}

ExampleRun::Target* ExampleRun::TargetOf(std::string_view key) {
  const std::optional<size_t> feature = keys_.Find(key);
  return feature ? &targets_[*feature] : nullptr;
}

void ExampleRun::Remember(std::string_view key, Target* target) {
  if (num_entries_ >= guesses_.size()) guesses_.resize(num_entries_ + 1);
  guesses_[num_entries_] = {ShortEntryOf(key), target};
}

const char* ExampleRun::Take(const char* p, const char* limit) {
  do {
    p = TakeGuessed(p, limit);
  } while (GuessBetter(p, limit));
  return p;
}

const char* ExampleRun::TakeGuessed(const char* p, const char* limit) {
  size_t number = num_entries_;  // here, not in memory: a value that is stored could change that
  size_t taken = 0;
  for (const std::span<const Guess> guesses = guesses_; number < guesses.size(); ++number) {
    const Guess& guess = guesses[number];
    const char* const end = guess.entry.EndAt(p, limit);
    if (end == nullptr) break;
    const char* const value = guess.entry.ValueAt(p);
    if (guess.target == nullptr) {
      if (!IsOneValue(value, end)) break;
    } else {
      if (!Store(*guess.target, value, end)) break;
      ++taken;
    }
    p = end;
  }
  num_entries_ = number;
  num_taken_ += taken;
  return p;
}

bool ExampleRun::GuessBetter(const char* p, const char* limit) {
  const std::string_view key = KeyOfShortEntry(p, limit);
  if (key.data() == nullptr) return false;
  if (num_entries_ < guesses_.size() && guesses_[num_entries_].entry.key() == key) return false;
  Target* const target = TargetOf(key);
  if (target == nullptr) return false;  // such a key is still to be checked
  Remember(key, target);
  return true;
}

inline bool ExampleRun::Store(Target& target, const char* value, const char* end) const {
  if (target.first == nullptr || target.found_in == row_) return false;
  const std::string_view payload = ShortPayload(value, end, target.list_tag);
  if (payload.data() == nullptr) return false;
  std::byte* const out = target.first + static_cast<size_t>(row_) * target.value_bytes;
  if (target.list_tag == kFloatTag) {
    if (payload.size() != target.value_bytes) return false;
    if (target.value_bytes == 4) {
      std::memcpy(out, payload.data(), 4);
    } else {
      std::memcpy(out, payload.data(), payload.size());
    }
  } else {
    auto* const ints = reinterpret_cast<int64_t*>(out);
    const bool one = target.value_bytes == 8;
    if (!(one && DecodeShortVarint(payload, ints)) &&
        !DecodeInts(payload, target.value_bytes / 8, ints)) {
      return false;
    }
  }
  target.found_in = row_;
  return true;
}

void ExampleRun::Keep(std::string_view record, const FeatureEntry& entry, WireError* error) {
  if (num_entries_ >= guesses_.size() || guesses_[num_entries_].entry.key() != entry.key) {
    Remember(entry.key, TargetOf(entry.key));
  }
  Target* const target = guesses_[num_entries_++].target;
  if (target == nullptr) return;
  if (target->kept_in == row_) {
    IgnoreSink ignore;  // a value that a later one replaces must be valid nevertheless
    DecodeFeature(record, target->entry, error, ignore);
  } else if (target->found_in == row_) {
    --num_taken_;
  }
  target->found_in = row_;
  target->kept_in = row_;
  target->entry = entry;
}

// Decodes what was kept, and sets what is missing.
void ExampleRun::FinishRow(std::string_view record) {
  for (size_t i = 0; i < targets_.size(); ++i) {
    const Target& target = targets_[i];
    if (target.found_in == row_ && target.kept_in != row_) continue;
    const FeatureEntry& entry = target.kept_in == row_ ? target.entry : FeatureEntry();
    if (IsRagged(*target.spec)) {
      DecodeRagged(i, record, entry);
    } else {
      Decode(i, record, entry);
    }
  }
}

void* ExampleRun::Room(size_t feature) {
  const Target& target = targets_[feature];
  if (target.first != nullptr) {
    return target.first + static_cast<size_t>(row_) * target.value_bytes;
  }
  return run_.Allocate(column(feature), row_, ShapeOf(*target.spec, 1));
}

void ExampleRun::Decode(size_t feature, std::string_view record, const FeatureEntry& entry) {
  const FeatureSpec& spec = *targets_[feature].spec;
  const bool is_bytes = spec.dtype == DType::kBytes;
  const int64_t wanted = is_bytes ? 1 : spec.shape.num_elements();
  ValueSink sink;
  sink.wanted = KindOf(spec.dtype);
  // Numbers take at least these bytes, so a short entry cannot make us allocate a large value.
  const int64_t least = wanted * (spec.dtype == DType::kF32 ? 4 : 1);
  if (!is_bytes && static_cast<int64_t>(entry.body.size()) >= least) {
    sink.out = Room(feature);
    sink.capacity = wanted;
  }
  WireError error;
  if (!DecodeFeature(record, entry, &error, sink)) return FailExample(error);
  if (sink.kind == FeatureKind::kNone) return SetDefault(feature, record);
  if (const std::string why = WhyNotKind(sink); !why.empty()) return FailFeature(spec, why);
  if (sink.count != wanted) {
    return FailFeature(spec, absl::StrCat("has ", sink.count, " values, wanted ", wanted));
  }
  if (is_bytes) {
    column(feature).Set(row_, sink.bytes.data(), {static_cast<int64_t>(sink.bytes.size())});
  } else if (sink.out == nullptr) {
    Room(feature);  // no elements
  }
}

void ExampleRun::DecodeRagged(size_t feature, std::string_view record, const FeatureEntry& entry) {
  const FeatureSpec& spec = *targets_[feature].spec;
  ValueSink sink;
  sink.wanted = KindOf(spec.dtype);
  sink.capacity = MostValues(spec, entry.body);
  sink.out = run_.arena().Allocate(static_cast<size_t>(sink.capacity) * SizeOf(spec.dtype));
  WireError error;
  if (!DecodeFeature(record, entry, &error, sink)) return FailExample(error);
  if (sink.kind == FeatureKind::kNone) {
    if (spec.has_default) return SetDefault(feature, record);
    return column(feature).Set(row_, sink.out, ShapeOf(spec, 0));
  }
  if (const std::string why = WhyNotKind(sink); !why.empty()) return FailFeature(spec, why);
  const int64_t step = ShapeOf(spec, 1).num_elements();
  if (sink.count % step != 0) {
    return FailFeature(spec,
                       absl::StrCat("has ", sink.count, " values, wanted a multiple of ", step));
  }
  column(feature).Set(row_, sink.out, ShapeOf(spec, sink.count / step));
}

void ExampleRun::SetDefault(size_t feature, std::string_view record) {
  const FeatureSpec& spec = *targets_[feature].spec;
  if (!spec.has_default) return FailMissing(spec, record);
  if (spec.dtype == DType::kBytes) {
    const std::string& bytes = spec.default_bytes;
    return column(feature).Set(row_, bytes.data(), {static_cast<int64_t>(bytes.size())});
  }
  FillDefault(spec, Room(feature), ShapeOf(spec, 1).num_elements());
}

void ExampleRun::PointColumns() {
  for (size_t i = 0; i < targets_.size(); ++i) {
    const Target& target = targets_[i];
    if (target.first == nullptr) continue;
    if (run_.all_ok()) {
      column(i).SetAll(target.first, static_cast<int64_t>(target.value_bytes), target.spec->shape);
      continue;
    }
    for (row_ = 0; row_ < run_.num_rows(); ++row_) {
      if (run_.ok(row_)) column(i).Set(row_, Room(i), target.spec->shape);
    }
  }
}

void ExampleRun::FailExample(const WireError& wire) {
  FailRecord(run_, row_,
             absl::DataLossError(absl::StrCat("not a ", message_, ": ", wire.ToString())));
}

void ExampleRun::FailMissing(const FeatureSpec& spec, std::string_view record) {
  WireError error;
  std::vector<std::string_view> keys;
  VisitExample(record, &error, [&](const FeatureEntry& entry) { keys.push_back(entry.key); });
  FailFeature(spec, WhyMissing(spec.key, keys));
}

void ExampleRun::FailFeature(const FeatureSpec& spec, std::string_view text) {
  FailRecord(run_, row_,
             absl::InvalidArgumentError(absl::StrCat("feature '", spec.key, "' ", ToAbsl(text))));
}

}  // namespace millrace::readers::internal
