#ifndef MILLRACE_TRAINER_SERVER_PROTOCOL_H_
#define MILLRACE_TRAINER_SERVER_PROTOCOL_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/message_connection.h"
#include "trainer/job/job.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/server/server.pb.h"

// The messages between workers and servers (server.proto), as bytes and as values.

namespace millrace::trainer {

// Changes with the meaning of any message.
inline constexpr uint32_t kServerProtocol = 1;
// The time between two signs of life of a process that has nothing else to say.
inline constexpr std::chrono::seconds kAliveEvery{1};
// The time without a sign of life after which a process is given up; 0: never.
inline std::chrono::nanoseconds SilenceLimit(std::chrono::milliseconds stall_abort) {
  if (stall_abort.count() == 0) return std::chrono::nanoseconds(0);
  return std::max<std::chrono::nanoseconds>(stall_abort, 3 * kAliveEvery);
}
// A token of a pipeline is the largest part of a header.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t{40} << 20;
// The limit of the headers between a server and the chief, which hold the tokens of all workers, or
// another process.
inline uint64_t HeaderLimit(bool is_chief, int workers) {
  return kMaxHeaderBytes * static_cast<uint64_t>(is_chief ? workers : 1);
}

collectives::Message Pack(const wire::Header& header, std::string payload = {});
// DATA_LOSS: the bytes are no header.
absl::StatusOr<wire::Header> Unpack(const collectives::Message& message);
// A header of `kind` alone.
wire::Header OfKind(wire::Kind kind);

// Appends the bytes of numbers.
void AppendFloats(std::span<const float> values, std::string& bytes);
// Fills `values` from the front of `bytes`, and removes it. DATA_LOSS: there are too few.
absl::Status TakeFloats(std::string_view& bytes, std::span<float> values);

// An error on its way, and back; collectives::PeerLost comes with it.
wire::Error ErrorOf(const absl::Status& status);
absl::Status StatusOf(const wire::Error& error);

// The number that all processes of one training have in common.
uint64_t JobNumber(const JobFile& job, const Model& model, int workers, int servers);

// One tensor set as the numbers of a header, and back. DATA_LOSS: they do not fit.
void SetBuffers(const TensorSet& buffers, google::protobuf::RepeatedField<float>* numbers);
absl::Status TakeBuffers(const google::protobuf::RepeatedField<float>& numbers, TensorSet& buffers);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_SERVER_PROTOCOL_H_
