#include "trainer/server/protocol.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/peer_lost.h"

namespace millrace::trainer {

static_assert(std::endian::native == std::endian::little, "payloads are as they lie in memory");

collectives::Message Pack(const wire::Header& header, std::string payload) {
  return {header.SerializeAsString(), std::move(payload)};
}

absl::StatusOr<wire::Header> Unpack(const collectives::Message& message) {
  wire::Header header;
  if (header.ParseFromString(message.header)) return header;
  return absl::DataLossError("a message is damaged");
}

wire::Header OfKind(wire::Kind kind) {
  wire::Header header;
  header.set_kind(kind);
  return header;
}

void AppendFloats(std::span<const float> values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

absl::Status TakeFloats(std::string_view& bytes, std::span<float> values) {
  if (bytes.size() < values.size_bytes()) return absl::DataLossError("a payload is too short");
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size_bytes());
  bytes.remove_prefix(values.size_bytes());
  return absl::OkStatus();
}

wire::Error ErrorOf(const absl::Status& status) {
  wire::Error error;
  error.set_code(static_cast<int32_t>(status.code()));
  error.set_text(std::string(status.message()));
  if (const auto lost = collectives::PeerLostOf(status)) error.set_lost_rank(lost->rank + 1);
  return error;
}

absl::Status StatusOf(const wire::Error& error) {
  const bool is_code = error.code() > 0 && error.code() <= 16;
  absl::Status status(
      is_code ? static_cast<absl::StatusCode>(error.code()) : absl::StatusCode::kUnknown,
      error.text());
  if (error.lost_rank() > 0) collectives::AddPeerLost(status, {.rank = error.lost_rank() - 1});
  return status;
}

uint64_t JobNumber(const JobFile& job, const Model& model, int workers, int servers) {
  const std::string text = absl::StrCat(job.text, "\n", model.ToText(), "\n", workers, " ", servers,
                                        " ", kServerProtocol);
  return XXH3_64bits(text.data(), text.size());
}

void SetBuffers(const TensorSet& buffers, google::protobuf::RepeatedField<float>* numbers) {
  for (const std::vector<float>& buffer : buffers) numbers->Add(buffer.begin(), buffer.end());
}

absl::Status TakeBuffers(const google::protobuf::RepeatedField<float>& numbers,
                         TensorSet& buffers) {
  auto next = numbers.begin();
  for (std::vector<float>& buffer : buffers) {
    if (numbers.end() - next < std::ssize(buffer)) {
      return absl::DataLossError("buffers of another model have come");
    }
    std::copy_n(next, buffer.size(), buffer.begin());
    next += std::ssize(buffer);
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
