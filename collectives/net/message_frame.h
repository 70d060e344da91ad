#ifndef MILLRACE_COLLECTIVES_NET_MESSAGE_FRAME_H_
#define MILLRACE_COLLECTIVES_NET_MESSAGE_FRAME_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "collectives/message_connection.h"
#include "collectives/net/wire.h"

namespace millrace::collectives {

inline constexpr size_t kFrameBytes = 16;
inline constexpr uint32_t kFrameMagic = 0x4d524d31;

// The bytes in front of a message.
inline std::string FrameOf(std::string_view header, std::string_view payload) {
  WireWriter writer;
  writer.Add(kFrameMagic).Add(static_cast<uint32_t>(header.size())).Add(uint64_t{payload.size()});
  return writer.text();
}

// Gives `message` the sizes that `frame` tells.
//   DATA_LOSS  it is no frame, or tells more than the limits
inline absl::Status ReadFrame(std::string_view frame, const MessageLimits& limits,
                              Message& message) {
  WireReader reader(frame);
  const bool is_frame = reader.Number<uint32_t>() == kFrameMagic;
  const auto header = reader.Number<uint32_t>();
  const auto payload = reader.Number<uint64_t>();
  if (!is_frame) return absl::DataLossError("the bytes are no message of millrace");
  if (header > limits.header_bytes || payload > limits.payload_bytes) {
    return absl::DataLossError(absl::StrCat("a message of ", header, " + ", payload,
                                            " bytes is over the limit of ", limits.header_bytes,
                                            " + ", limits.payload_bytes));
  }
  message.header.resize(header);
  message.payload.resize(payload);
  return absl::OkStatus();
}

}  // namespace millrace::collectives

#endif  // MILLRACE_COLLECTIVES_NET_MESSAGE_FRAME_H_
