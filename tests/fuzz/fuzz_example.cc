#include <google/protobuf/stubs/logging.h>

#include "readers/example_view.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/readers/example/example_oracle.h"

// tf.train.Example: the parser takes what libprotobuf takes, and sees the same.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;                       // NOLINT
  static google::protobuf::LogSilencer silencer;  // of keys that are not UTF-8
  const fuzz::InputFile input(data, size);
  readers::internal::WireError error;
  const auto ours = readers::ParseWithMillrace(input.text(), &error);
  const auto theirs = readers::ParseWithProtobuf(input.text());
  fuzz::Require(ours == theirs, "both parsers see the same Example");
  const bool checked = readers::internal::CheckExample(input.text(), &error);
  fuzz::Require(checked == ours.has_value(), "the check agrees with the parser");
  fuzz::Require(readers::ViewExample(input.text()).ok() == checked, "so does the view");
  return 0;
}
