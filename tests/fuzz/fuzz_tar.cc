#include "readers/text/tar_sample.h"
#include "tests/fuzz/fuzz_input.h"

// Samples of WebDataset: members lie in the blocks that they were read from.

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;  // NOLINT
  const fuzz::InputFile input(data, size);
  const auto members = readers::internal::ReadTarSample(input.text());
  if (!members.ok()) return 0;
  for (const auto& member : *members) {
    const char* const begin = input.text().data();
    fuzz::Require(member.bytes.empty() ||
                      (member.bytes.data() >= begin &&
                       member.bytes.data() + member.bytes.size() <= begin + input.text().size()),
                  "a member lies in the blocks");
  }
  return 0;
}
