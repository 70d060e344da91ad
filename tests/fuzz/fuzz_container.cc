#include <array>
#include <vector>

#include "readers/container/container.h"
#include "tests/fuzz/fuzz_input.h"

// How records lie in lines, CSV rows, tars, IDX and fixed-length files: frames follow each other
// within the file, no record is longer than allowed, and every payload lies in its frame.

namespace millrace::readers {
namespace {

ContainerOptions Chosen(uint8_t choice) {
  constexpr std::array kKinds = {ContainerKind::kTfRecord, ContainerKind::kFixedLength,
                                 ContainerKind::kText,     ContainerKind::kCsv,
                                 ContainerKind::kTar,      ContainerKind::kIdx};
  ContainerOptions options;
  options.kind = kKinds[choice % kKinds.size()];
  options.header_bytes = choice >> 6;
  options.record_bytes = 1 + (choice >> 4);
  options.footer_bytes = choice >> 7;
  options.has_header = (choice & 0x40) != 0;
  return options;
}

void Walk(const Container& container, const fuzz::InputFile& file) {
  WalkOptions options;
  options.max_record_bytes = 4096;
  const auto frames = container.FindFrames(file, options, std::make_shared<IndexMemory>());
  if (!frames.ok()) return;
  fuzz::Require(frames->end() <= file.size(), "frames lie in the file");
  const uint64_t overhead = container.format().overhead_bytes;
  for (uint64_t i = 0; i < frames->num_records(); ++i) {
    RecordRef ref;
    ref.ordinal = i;
    ref.offset = frames->offset(i);
    ref.length = frames->length(i);
    fuzz::Require(ref.offset + ref.length + overhead <= frames->offset(i + 1),
                  "frames follow each other");
    const auto bytes = std::as_bytes(std::span(file.text()));
    const auto framed = bytes.subspan(ref.offset, ref.length + overhead);
    const auto payload = container.Unframe(file.path(), ref, framed);
    if (!payload.ok()) continue;
    const auto* begin = reinterpret_cast<const std::byte*>(payload->data());
    fuzz::Require(payload->empty() || (begin >= framed.data() &&
                                       begin + payload->size() <= framed.data() + framed.size()),
                  "a payload lies in its frame");
  }
}

}  // namespace
}  // namespace millrace::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;           // NOLINT
  using namespace millrace::readers;  // NOLINT
  const auto container =
      MakeContainer(Chosen(fuzz::TakeByte(data, size)), /*verify_crc=*/(size & 1) != 0);
  const fuzz::InputFile file(data, size);
  Walk(*container, file);
  return 0;
}
