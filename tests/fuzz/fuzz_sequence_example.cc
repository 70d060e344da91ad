#include <google/protobuf/stubs/logging.h>

#include "base/record_error.h"
#include "readers/parse_sequence_example.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/readers/example/sequence_oracle.h"

// tf.train.SequenceExample: the parser takes what libprotobuf takes and sees the same, and the op
// makes of it what was asked for.

namespace millrace {
namespace {

using readers::FeatureSpec;

const std::vector<FeatureSpec>& Lists() {
  static const auto* const lists = new std::vector<FeatureSpec>{
      readers::ListSpec("a", DType::kI64), readers::ListSpec("b", DType::kF32, {2}),
      readers::ListSpec("c", DType::kU8, {3})};
  return *lists;
}

// The array of `spec` in `seen`; nothing where it is missing or of another form.
std::optional<std::string> Expected(const readers::SequenceValues& seen, const FeatureSpec& spec) {
  const auto list = seen.lists.find(spec.key);
  if (list == seen.lists.end()) return std::nullopt;
  return ArrayOf(spec, list->second);
}

void CheckOp(std::string_view record, const readers::SequenceValues& seen) {
  static const auto* const op = readers::MakeParseSequenceExample({Lists()})->release();
  RunArena arena;
  Run run(arena, 1, 0, {SampleId()});
  run.Add("record", DType::kBytes).Set(0, record.data(), {static_cast<int64_t>(record.size())});
  op->Apply(run);
  bool fits = true;
  for (const FeatureSpec& spec : Lists()) {
    const auto expected = Expected(seen, spec);
    fits = fits && expected.has_value();
    if (!run.ok(0) || !expected) continue;
    const ConstTensorView value = run.Get(spec.name).at(0);
    fuzz::Require(
        std::string_view(static_cast<const char*>(value.data), value.size_bytes()) == *expected,
        "a list is what libprotobuf sees");
  }
  fuzz::Require(run.ok(0) == fits, "the op takes what is as declared");
  fuzz::Require(fits || GetRecordError(run.status(0))->reason == RecordErrorReason::kFeature,
                "a valid message is not called damaged");
}

}  // namespace
}  // namespace millrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;                       // NOLINT
  static google::protobuf::LogSilencer silencer;  // of keys that are not UTF-8
  const fuzz::InputFile input(data, size);
  readers::internal::WireError error;
  const auto ours = readers::ParseSequenceWithMillrace(input.text(), &error);
  const auto theirs = readers::ParseSequenceWithProtobuf(input.text());
  fuzz::Require(ours == theirs, "both parsers see the same SequenceExample");
  const bool checked = readers::internal::CheckSequenceExample(input.text(), &error);
  fuzz::Require(checked == ours.has_value(), "the check agrees with the parser");
  if (theirs) CheckOp(input.text(), *theirs);
  return 0;
}
