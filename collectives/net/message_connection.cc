#include "collectives/message_connection.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "collectives/net/message_frame.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // bytes that have one deadline

Deadline DeadlineOf(std::chrono::nanoseconds timeout) {
  return timeout.count() == 0 ? Deadline::max() : After(timeout);
}

absl::Status SendPieces(const Socket& socket, std::string_view bytes,
                        std::chrono::nanoseconds timeout) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPiece);
    MILLRACE_RETURN_IF_ERROR(SendAll(socket, piece, DeadlineOf(timeout)));
    bytes.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status ReceivePieces(const Socket& socket, std::string& bytes,
                           std::chrono::nanoseconds timeout) {
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const size_t count = std::min(kPiece, bytes.size() - at);
    MILLRACE_RETURN_IF_ERROR(ReceiveAll(socket, bytes.data() + at, count, DeadlineOf(timeout)));
  }
  return absl::OkStatus();
}

// The addresses of all places, in their order.
absl::StatusOr<std::vector<std::string>> ResolveAll(const std::string& places) {
  std::vector<std::string> addresses;
  absl::Status unknown = absl::InvalidArgumentError("there is no place to connect to");
  for (const std::string& place : std::vector<std::string>(absl::StrSplit(places, ','))) {
    MILLRACE_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(place));
    const auto found = Resolve(parsed);
    if (!found.ok()) {
      unknown = found.status();
      continue;
    }
    addresses.insert(addresses.end(), found->begin(), found->end());
  }
  if (addresses.empty()) return unknown;
  return addresses;
}

}  // namespace

MessageConnection::MessageConnection(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}
MessageConnection::~MessageConnection() = default;

absl::StatusOr<std::unique_ptr<MessageConnection>> MessageConnection::Connect(
    const std::string& places, std::chrono::nanoseconds timeout) {
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ResolveAll(places));
  std::vector<std::string> failures;
  const auto each = timeout / static_cast<int64_t>(addresses.size());
  for (const std::string& address : addresses) {
    absl::StatusOr<Socket> socket = collectives::Connect(address, After(each));
    if (socket.ok()) {
      auto owned = std::make_unique<Socket>(*std::move(socket));
      return std::unique_ptr<MessageConnection>(new MessageConnection(std::move(owned)));
    }
    if (absl::IsResourceExhausted(socket.status())) return socket.status();
    const std::string why(socket.status().message());
    const std::string text = AddressText(address);
    failures.push_back(absl::StrContains(why, text) ? why : absl::StrCat(text, ": ", why));
  }
  return absl::UnavailableError(absl::StrJoin(failures, "; "));
}

absl::Status MessageConnection::Send(std::string_view header, std::string_view payload,
                                     std::chrono::nanoseconds timeout) {
  std::string first = FrameOf(header, payload);
  first.append(header);
  MILLRACE_RETURN_IF_ERROR(SendPieces(*socket_, first, timeout));
  return SendPieces(*socket_, payload, timeout);
}

absl::StatusOr<Message> MessageConnection::Receive(std::chrono::nanoseconds timeout) {
  std::string frame(kFrameBytes, '\0');
  MILLRACE_RETURN_IF_ERROR(ReceivePieces(*socket_, frame, timeout));
  Message message;
  MILLRACE_RETURN_IF_ERROR(ReadFrame(frame, limits_, message));
  MILLRACE_RETURN_IF_ERROR(ReceivePieces(*socket_, message.header, timeout));
  MILLRACE_RETURN_IF_ERROR(ReceivePieces(*socket_, message.payload, timeout));
  return message;
}

}  // namespace millrace::collectives
