#include "readers/parse_example.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/example_parser_internal.h"

// The op works in two passes over a run. The first walks each record's entries and remembers where
// the wanted ones lie; the second goes feature by feature, because a column is written whole before
// the next is added. Files are written by one program, so the i-th entry of a record nearly always
// has the key of the i-th entry of the record before: that guess is checked with one comparison,
// and only a wrong one costs a search.

namespace millrace::readers {
namespace {

using internal::FeatureEntry;
using internal::FeatureKind;
using internal::WireError;

constexpr int kUnwanted = -1;
constexpr int64_t kMaxElements = int64_t{1} << 31;  // of a feature; a record holds no more

FeatureKind KindOf(DType dtype) {
  if (dtype == DType::kBytes) return FeatureKind::kBytes;
  return dtype == DType::kF32 ? FeatureKind::kFloat : FeatureKind::kInt;
}

std::string_view KindName(FeatureKind kind) {
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

// Counts all values and keeps those that fit, if they are of the wanted kind.
struct ValueSink {
  FeatureKind wanted = FeatureKind::kNone;
  FeatureKind kind = FeatureKind::kNone;
  int64_t count = 0;
  int64_t capacity = 0;  // elements of `out`, which are of the wanted kind
  void* out = nullptr;
  std::string_view bytes;  // the last string

  void Begin(FeatureKind new_kind) {
    kind = new_kind;
    count = 0;
  }
  void Bytes(std::string_view value) {
    bytes = value;
    ++count;
  }
  void Int(int64_t value) {
    if (count < capacity && kind == wanted) static_cast<int64_t*>(out)[count] = value;
    ++count;
  }
  void Floats(std::string_view packed) {
    const int64_t n = static_cast<int64_t>(packed.size() / 4);
    const int64_t kept = std::min(n, std::max<int64_t>(capacity - count, 0));
    if (kept > 0 && kind == wanted) {
      std::memcpy(static_cast<float*>(out) + count, packed.data(), static_cast<size_t>(kept) * 4);
    }
    count += n;
  }
};

void FailRow(Run& run, int64_t row, absl::StatusCode code, RecordErrorReason reason,
             std::string_view text) {
  absl::Status status(code, ToAbsl(text));
  RecordError error;
  error.position = static_cast<int64_t>(run.position(row));
  error.reason = reason;
  SetRecordError(status, error);
  run.Fail(row, std::move(status));
}

void FailExample(Run& run, int64_t row, const WireError& error) {
  FailRow(run, row, absl::StatusCode::kDataLoss, RecordErrorReason::kExample,
          absl::StrCat("not a tf.train.Example: ", error.ToString()));
}

void FailFeature(Run& run, int64_t row, const FeatureSpec& spec, std::string_view text) {
  FailRow(run, row, absl::StatusCode::kInvalidArgument, RecordErrorReason::kFeature,
          absl::StrCat("feature '", spec.key, "' ", ToAbsl(text)));
}

// True when the record says how many values there are.
bool IsRagged(const FeatureSpec& spec) {
  return spec.dtype != DType::kBytes && spec.shape.rank() > 0 && spec.shape[0] == Shape::kUnknown;
}

// The shape with `extent` in the place of an unknown first one.
Shape ShapeOf(const FeatureSpec& spec, int64_t extent) {
  if (!IsRagged(spec)) return spec.shape;
  return Shape(spec.shape.extents().subspan(1)).Prepend(extent);
}

// At least as many numbers as the entry holds, at most one for each of its bytes: each number ends
// with a byte below 0x80, or has 4 bytes.
int64_t MostValues(const FeatureSpec& spec, std::string_view body) {
  if (spec.dtype == DType::kF32) return static_cast<int64_t>(body.size() / 4);
  return std::ranges::count_if(body, [](char c) { return static_cast<signed char>(c) >= 0; });
}

absl::Status CheckSpec(const FeatureSpec& spec) {
  const auto bad = [&](std::string_view text) {
    return absl::InvalidArgumentError(
        absl::StrCat("parse_example: feature '", spec.key, "': ", ToAbsl(text)));
  };
  if (spec.name.empty()) return bad("no column name");
  if (spec.dtype == DType::kBytes) return absl::OkStatus();
  if (spec.dtype != DType::kI64 && spec.dtype != DType::kF32) {
    return bad(absl::StrCat("dtype ", ToAbsl(Name(spec.dtype)),
                            "; an Example holds bytes, int64 and float32"));
  }
  int64_t elements = 1;
  for (int i = 0; i < spec.shape.rank(); ++i) {
    const int64_t extent = spec.shape[i];
    if (i == 0 && extent == Shape::kUnknown) continue;
    if (extent < 0) return bad("only the first extent of its shape may be unknown");
    if (extent > 0 && elements > kMaxElements / extent) return bad("its shape is too large");
    elements *= extent;
  }
  if (elements == 0 && IsRagged(spec)) return bad("an unknown extent of values without elements");
  return absl::OkStatus();
}

class ParseExample final : public Op {
 public:
  explicit ParseExample(ParseExampleOptions options)
      : features_(std::move(options.features)), field_(std::move(options.field)) {
    for (size_t i = 0; i < features_.size(); ++i) {
      by_key_.emplace_back(features_[i].key, static_cast<int>(i));
    }
    std::ranges::sort(by_key_);
  }

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(Annotate(input.CheckHas(field_), "parse_example"));
    if (input.Find(field_)->dtype != DType::kBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("parse_example: field '", field_, "' must be bytes"));
    }
    Schema output = input;
    output.Remove(field_);
    for (const FeatureSpec& spec : features_) {
      if (output.Find(spec.name) != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("parse_example: field '", spec.name, "' exists already"));
      }
      output.Set({spec.name, spec.dtype,
                  spec.dtype == DType::kBytes ? Shape{Shape::kUnknown} : spec.shape});
    }
    return output;
  }

  void Apply(Run& run) const override {
    const Column records = run.Take(field_);
    const std::vector<FeatureEntry> entries = FindEntries(run, records);
    for (size_t i = 0; i < features_.size(); ++i) {
      Column& column = run.Add(features_[i].name, features_[i].dtype);
      for (int64_t row = 0; row < run.num_rows(); ++row) {
        if (!run.ok(row)) continue;
        const FeatureEntry& entry = entries[static_cast<size_t>(row) * features_.size() + i];
        if (IsRagged(features_[i])) {
          DecodeRagged(run, column, row, records.bytes(row), features_[i], entry);
        } else {
          Decode(run, column, row, records.bytes(row), features_[i], entry);
        }
      }
    }
  }

 private:
  struct Guess {
    std::string_view key;
    int feature;
  };

  int Lookup(std::string_view key) const {
    const auto it = std::ranges::lower_bound(
        by_key_, key, {}, [](const auto& pair) { return std::string_view(pair.first); });
    return it != by_key_.end() && it->first == key ? it->second : kUnwanted;
  }

  // Entry `row * features + feature`; num_values 0 and an empty body where there is none.
  std::vector<FeatureEntry> FindEntries(Run& run, const Column& records) const {
    std::vector<FeatureEntry> entries(static_cast<size_t>(run.num_rows()) * features_.size());
    std::vector<Guess> guesses;  // by the entry's number in its record
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      FeatureEntry* const found = entries.data() + static_cast<size_t>(row) * features_.size();
      const std::string_view record = records.bytes(row);
      WireError error;
      WireError replaced_error;
      size_t number = 0;
      const auto visit = [&](const FeatureEntry& entry) {
        if (number == guesses.size()) guesses.push_back({entry.key, Lookup(entry.key)});
        Guess& guess = guesses[number++];
        if (guess.key != entry.key) guess = {entry.key, Lookup(entry.key)};
        if (guess.feature == kUnwanted) return;
        FeatureEntry& slot = found[guess.feature];
        internal::IgnoreSink
            ignore;  // a value that a later one replaces must be valid nevertheless
        internal::DecodeFeature(record, slot, &replaced_error, ignore);
        slot = entry;
      };
      if (!internal::VisitExample(record, &error, visit)) FailExample(run, row, error);
      if (!replaced_error.ok()) FailExample(run, row, replaced_error);
    }
    return entries;
  }

  static void Decode(Run& run, Column& column, int64_t row, std::string_view record,
                     const FeatureSpec& spec, const FeatureEntry& entry) {
    const bool is_bytes = spec.dtype == DType::kBytes;
    const int64_t wanted = is_bytes ? 1 : spec.shape.num_elements();
    ValueSink sink;
    sink.wanted = KindOf(spec.dtype);
    // Numbers take at least these bytes, so a short entry cannot make us allocate a large value.
    const int64_t least = wanted * (spec.dtype == DType::kF32 ? 4 : 1);
    if (!is_bytes && static_cast<int64_t>(entry.body.size()) >= least) {
      sink.out = run.Allocate(column, row, spec.shape);
      sink.capacity = wanted;
    }
    WireError error;
    if (!internal::DecodeFeature(record, entry, &error, sink)) {
      return FailExample(run, row, error);
    }
    if (sink.kind == FeatureKind::kNone) return SetDefault(run, column, row, spec);
    if (!CheckKind(run, row, spec, sink)) return;
    if (sink.count != wanted) {
      return FailFeature(run, row, spec,
                         absl::StrCat("has ", sink.count, " values, wanted ", wanted));
    }
    if (is_bytes) {
      column.Set(row, sink.bytes.data(), {static_cast<int64_t>(sink.bytes.size())});
    } else if (sink.out == nullptr) {
      run.Allocate(column, row, spec.shape);  // no elements
    }
  }

  static bool CheckKind(Run& run, int64_t row, const FeatureSpec& spec, const ValueSink& sink) {
    const FeatureKind wanted = KindOf(spec.dtype);
    if (sink.kind == wanted) return true;
    FailFeature(
        run, row, spec,
        absl::StrCat("holds ", ToAbsl(KindName(sink.kind)), ", wanted ", ToAbsl(KindName(wanted))));
    return false;
  }

  static void DecodeRagged(Run& run, Column& column, int64_t row, std::string_view record,
                           const FeatureSpec& spec, const FeatureEntry& entry) {
    ValueSink sink;
    sink.wanted = KindOf(spec.dtype);
    sink.capacity = MostValues(spec, entry.body);
    sink.out = run.arena().Allocate(static_cast<size_t>(sink.capacity) * SizeOf(spec.dtype));
    WireError error;
    if (!internal::DecodeFeature(record, entry, &error, sink)) {
      return FailExample(run, row, error);
    }
    if (sink.kind == FeatureKind::kNone) {
      if (spec.has_default) return SetDefault(run, column, row, spec);
      return column.Set(row, sink.out, ShapeOf(spec, 0));
    }
    if (!CheckKind(run, row, spec, sink)) return;
    const int64_t step = ShapeOf(spec, 1).num_elements();
    if (sink.count % step != 0) {
      return FailFeature(run, row, spec,
                         absl::StrCat("has ", sink.count, " values, wanted a multiple of ", step));
    }
    column.Set(row, sink.out, ShapeOf(spec, sink.count / step));
  }

  static void SetDefault(Run& run, Column& column, int64_t row, const FeatureSpec& spec) {
    if (!spec.has_default) return FailFeature(run, row, spec, "is missing");
    const Shape shape = ShapeOf(spec, 1);
    if (spec.dtype == DType::kBytes) {
      column.Set(row, spec.default_bytes.data(), {static_cast<int64_t>(spec.default_bytes.size())});
      return;
    }
    void* const out = run.Allocate(column, row, shape);
    const auto elements = static_cast<size_t>(shape.num_elements());
    if (spec.dtype == DType::kF32) {
      std::fill_n(static_cast<float*>(out), elements, spec.default_float);
    } else {
      std::fill_n(static_cast<int64_t*>(out), elements, spec.default_int);
    }
  }

  const std::vector<FeatureSpec> features_;
  const std::string field_;
  std::vector<std::pair<std::string, int>> by_key_;  // sorted; constant after construction
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeParseExample(ParseExampleOptions options) {
  if (options.features.empty()) {
    return absl::InvalidArgumentError("parse_example: no feature is asked for");
  }
  std::set<std::string_view> keys;
  std::set<std::string_view> names;
  for (const FeatureSpec& spec : options.features) {
    MILLRACE_RETURN_IF_ERROR(CheckSpec(spec));
    if (!keys.insert(spec.key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("parse_example: feature '", spec.key, "' is asked for twice"));
    }
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("parse_example: column '", spec.name, "' is given twice"));
    }
  }
  return std::make_unique<ParseExample>(std::move(options));
}

}  // namespace millrace::readers
