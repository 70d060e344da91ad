#include "readers/example/feature_lists.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "readers/example/feature_spec.h"
#include "readers/example/sequence_parser.h"
#include "readers/example/value_sink.h"

namespace millrace::readers::internal {
namespace {

int64_t ElementsPerStep(const FeatureSpec& spec) { return ShapeOf(spec, 1).num_elements(); }

// The sink of DecodeFeatureList: puts the values of all steps one behind the other, and keeps what
// is wrong with the first bad step.
class StepSink {
 public:
  // Without `out` no value is kept.
  StepSink(const FeatureSpec& spec, void* out)
      : packed_(spec.dtype == DType::kU8),
        elements_(ElementsPerStep(spec)),
        step_bytes_(static_cast<size_t>(elements_) * SizeOf(spec.dtype)),
        out_(static_cast<std::byte*>(out)) {
    values_.wanted = KindOf(spec.dtype);
    values_.capacity = out == nullptr || packed_ ? 0 : elements_;
  }

  void Step() {
    FinishStep();
    ++step_;
    values_.kind = FeatureKind::kNone;
    values_.count = 0;
    if (out_ != nullptr) values_.out = out_ + static_cast<size_t>(step_) * step_bytes_;
  }
  void Begin(FeatureKind kind) { values_.Begin(kind); }
  void Bytes(std::string_view value) { values_.Bytes(value); }
  void Int(int64_t value) { values_.Int(value); }
  void Floats(std::string_view packed) { values_.Floats(packed); }

  // The fault of the first bad step, or "".
  std::string Finish() {
    FinishStep();
    return why_;
  }

 private:
  void FinishStep() {
    if (step_ < 0 || !why_.empty()) return;
    const std::string why = WhyNotStep();
    if (!why.empty()) {
      why_ = absl::StrCat("step ", step_, " ", why);
    } else if (packed_ && out_ != nullptr) {
      std::memcpy(values_.out, values_.bytes.data(), step_bytes_);
    }
  }
  std::string WhyNotStep() const {
    if (std::string why = WhyNotKind(values_); !why.empty()) return why;
    const int64_t wanted = packed_ ? 1 : elements_;
    if (values_.count != wanted) {
      return absl::StrCat("has ", values_.count, " values, wanted ", wanted);
    }
    if (!packed_ || values_.bytes.size() == step_bytes_) return "";
    return absl::StrCat("has ", values_.bytes.size(), " bytes, wanted ", step_bytes_);
  }

  const bool packed_;  // one string of `elements_` bytes per step
  const int64_t elements_;
  const size_t step_bytes_;
  std::byte* const out_;
  int64_t step_ = -1;
  ValueSink values_;  // of this step
  std::string why_;
};

}  // namespace

FeatureListRun::FeatureListRun(std::span<const FeatureSpec> lists, const FeatureKeys& keys,
                               Run& run)
    : lists_(lists),
      keys_(keys),
      run_(run),
      first_column_(run.columns().size()),
      found_(lists.size()) {
  for (const FeatureSpec& spec : lists) run.Add(spec.name, spec.dtype);
}

void FeatureListRun::Parse(const Column& records) {
  for (row_ = 0; row_ < run_.num_rows(); ++row_) {
    if (run_.ok(row_)) ParseRow(records.bytes(row_));
  }
}

void FeatureListRun::ParseRow(std::string_view record) {
  for (Found& found : found_) found.here = false;
  WireError error;
  WireError replaced_error;
  const bool framed = VisitFeatureLists(
      record, &error, [&](const FeatureEntry& entry) { Keep(record, entry, &replaced_error); });
  if (!framed) return FailExample(error);
  if (!replaced_error.ok()) return FailExample(replaced_error);
  for (size_t i = 0; i < lists_.size(); ++i) {
    if (found_[i].here) {
      Decode(i, record);
    } else {
      SetMissing(i, record);
    }
  }
}

void FeatureListRun::Keep(std::string_view record, const FeatureEntry& entry, WireError* error) {
  const std::optional<size_t> list = keys_.Find(entry.key);
  if (!list) return;
  Found& found = found_[*list];
  if (found.here) {
    IgnoreSteps ignore;  // a list that a later one replaces must be valid nevertheless
    DecodeFeatureList(record, found.entry, error, ignore);
  }
  found = {true, entry};
}

void FeatureListRun::Decode(size_t list, std::string_view record) {
  const FeatureSpec& spec = lists_[list];
  const FeatureEntry& entry = found_[list].entry;
  WireError error;
  int64_t steps = 0;
  const auto count = [&](const WireReader&) { return ++steps > 0; };
  if (!VisitSteps(record, entry, &error, count)) return FailExample(error);
  StepSink sink(spec, Room(list, steps, entry.body.size()));
  if (!DecodeFeatureList(record, entry, &error, sink)) return FailExample(error);
  if (const std::string why = sink.Finish(); !why.empty()) FailList(spec, why);
}

void FeatureListRun::SetMissing(size_t list, std::string_view record) {
  if (lists_[list].allow_missing) {
    Room(list, 0, 0);
    return;
  }
  WireError error;
  std::vector<std::string_view> keys;
  VisitFeatureLists(record, &error, [&](const FeatureEntry& entry) { keys.push_back(entry.key); });
  FailList(lists_[list], WhyMissing(lists_[list].key, keys));
}

void* FeatureListRun::Room(size_t list, int64_t steps, size_t bytes) {
  const FeatureSpec& spec = lists_[list];
  // Each value takes at least so many, so short steps cannot make us allocate a large value.
  const int64_t least = ElementsPerStep(spec) * (spec.dtype == DType::kF32 ? 4 : 1);
  if (steps > static_cast<int64_t>(bytes) / least) return nullptr;
  return run_.Allocate(column(list), row_, ShapeOf(spec, steps));
}

void FeatureListRun::FailExample(const WireError& wire) {
  FailRecord(run_, row_,
             absl::DataLossError(absl::StrCat("not a ", kSequenceExample, ": ", wire.ToString())));
}

void FeatureListRun::FailList(const FeatureSpec& spec, const std::string& text) {
  FailRecord(run_, row_,
             absl::InvalidArgumentError(absl::StrCat("feature list '", spec.key, "' ", text)));
}

}  // namespace millrace::readers::internal
