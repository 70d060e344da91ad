#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "readers/container/container.h"
#include "readers/container/tfrecord_frame.h"

namespace millrace::readers {
namespace {

class TfRecordContainer final : public Container {
 public:
  explicit TfRecordContainer(bool verify_crc) : verify_crc_(verify_crc) {}

  const FrameFormat& format() const override { return kTfRecordFrames; }

  bool LooksPlain(std::span<const std::byte> first) const override {
    return first.size() >= kHeaderBytes && DecodeHeader(first.data()).crc_ok;
  }

  absl::StatusOr<RecordIndex> FindFrames(
      const RandomAccessFile& file, const WalkOptions& options,
      const std::shared_ptr<IndexMemory>& memory) const override {
    std::vector<uint64_t> begins;
    MILLRACE_RETURN_IF_ERROR(WalkRecords(file, options, begins));
    return RecordIndex::Make(begins, kTfRecordFrames, memory);
  }

  absl::StatusOr<std::string_view> Unframe(const std::string& file, const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    if (framed.size() < ref.length + kFrameBytes) {
      return DamagedRecord(file, ref, RecordErrorReason::kTruncatedPayload,
                           "fewer bytes than the record has");
    }
    const FrameHeader header = DecodeHeader(framed.data());
    if (verify_crc_ && !header.crc_ok) {
      return DamagedRecord(file, ref, RecordErrorReason::kLengthCrc,
                           "the CRC of the length does not match");
    }
    if (header.length != ref.length) {
      return DamagedRecord(
          file, ref, RecordErrorReason::kUnknown,
          absl::StrCat("a record of ", header.length, " bytes where the index says ", ref.length,
                       ": the shard changed after it was indexed"));
    }
    const auto payload = framed.subspan(kHeaderBytes, ref.length);
    if (verify_crc_ && !PayloadCrcOk(framed.subspan(kHeaderBytes, ref.length + kFooterBytes))) {
      return DamagedRecord(file, ref, RecordErrorReason::kDataCrc,
                           "the CRC of the payload does not match");
    }
    return std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size());
  }

  size_t UnframeAll(std::span<const RecordRef> refs, const std::byte* framed,
                    std::span<const size_t> starts,
                    std::span<std::string_view> payloads) const override {
    for (size_t i = 0; i < refs.size(); ++i) {
      const std::byte* const frame = framed + starts[i];
      if (starts[i + 1] - starts[i] < refs[i].length + kFrameBytes ||
          !FrameOk(frame, refs[i].length, verify_crc_)) {
        return i;
      }
      payloads[i] = {reinterpret_cast<const char*>(frame + kHeaderBytes), refs[i].length};
    }
    return refs.size();
  }

 private:
  const bool verify_crc_;
};

}  // namespace

std::unique_ptr<const Container> MakeTfRecordContainer(bool verify_crc) {
  return std::make_unique<TfRecordContainer>(verify_crc);
}

}  // namespace millrace::readers
