// Rank 0 listens, the others connect. A frame is magic, type and length (32 bits each) and a body.
//   rank r -> 0   kHello    job id, size, rank, how long it will wait still and in all, its data
//   0 -> rank r   kWelcome  at once: what answers is the rendezvous, which now waits for the others
//   0 -> rank r   kResult   everybody's data
//                 kRefusal  code and text, any time
// Rank 0 waits no longer than the least patient rank, so that its list of missing ranks reaches all
// of them. Strangers (port scanners, old runs) are turned away and change nothing. A failure is one
// for all: rank 0 refuses those who come after it for a while, with the same words.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/net/pending_connections.h"
#include "collectives/net/rendezvous.h"
#include "collectives/net/wire.h"

namespace millrace::collectives {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

enum class Frame : uint32_t { kHello = 1, kWelcome, kResult, kRefusal };

constexpr uint32_t kServerMagic = 0x3156524d;  // "MRV1"
constexpr size_t kHeaderBytes = 12;
constexpr size_t kMaxHelloBytes = kMaxRendezvousBytes + kMaxJobIdBytes + 64;
constexpr size_t kMaxResultBytes = kMaxRendezvousRanks * (kMaxRendezvousBytes + 8);
constexpr size_t kMaxStrangers = 64;
constexpr milliseconds kFirstServerPause{20};
constexpr milliseconds kLongestServerPause{500};

std::string Framed(Frame type, std::string_view body) {
  WireWriter header;
  header.Add(kServerMagic).Add(static_cast<uint32_t>(type)).Add(static_cast<uint32_t>(body.size()));
  return absl::StrCat(header.text(), ToAbsl(body));
}

struct Header {
  Frame type = Frame::kHello;
  size_t length = 0;
};

// nullopt: no frame of this protocol, or one longer than `limit`.
std::optional<Header> ParseHeader(std::string_view bytes, size_t limit) {
  WireReader reader(bytes);
  const bool magic = reader.Number<uint32_t>() == kServerMagic;
  Header header;
  header.type = static_cast<Frame>(reader.Number<uint32_t>());
  header.length = reader.Number<uint32_t>();
  if (!magic || header.length > limit) return std::nullopt;
  return header;
}

milliseconds ReadTime(WireReader& reader) {
  return milliseconds(std::min<uint64_t>(reader.Number<uint64_t>(), 1u << 30));
}

class Server {
 public:
  Server(const RendezvousOptions& options, Socket listener, std::string_view own,
         const RendezvousWaits& waits)
      : options_(options),
        listener_(std::move(listener)),
        pending_(listener_, static_cast<size_t>(options.size) + kMaxStrangers, waits.introduction),
        deadline_(After(options.timeout)),
        patience_(options.timeout),
        waits_(waits),
        num_named_(static_cast<size_t>(options.size)) {
    data_.resize(static_cast<size_t>(options.size));
    data_[0] = std::string(own);
    came_.insert(0);
  }

  absl::StatusOr<std::vector<std::string>> Run() {
    while (outcome_.ok() && num_here_ < options_.size && !IsOver()) Fail(Turn());
    if (outcome_.ok() && num_here_ < options_.size)
      outcome_ = NeverCame(options_, patience_, Missing());
    return Finish();
  }

 private:
  struct Seated {
    Socket socket;
    int rank = 0;
  };

  bool IsOver() const {
    return steady_clock::now() >= deadline_ || (waits_.is_over && waits_.is_over(num_here_));
  }
  // Waits once, and hears everybody.
  absl::Status Turn() {
    std::vector<const Socket*> others;
    for (const Seated& seated : seated_) others.push_back(&seated.socket);
    if (absl::Status watched = AskWatch(options_); !watched.ok()) {
      given_up_ = true;
      return watched;
    }
    if (const absl::Status waited = pending_.Wait(others, NextLook(options_, deadline_));
        !waited.ok()) {
      return Annotate(waited, absl::StrCat("rendezvous ", options_.address));
    }
    std::erase_if(seated_, [this](Seated& seated) { return HasLeft(seated); });
    for (PendingConnections::Guest& guest : pending_.guests()) Read(guest);
    return absl::OkStatus();
  }
  // The first failure is what everybody is told.
  void Fail(absl::Status outcome) {
    if (outcome_.ok()) outcome_ = std::move(outcome);
  }
  bool HasLeft(Seated& seated) {
    char byte;
    const ssize_t count = ::recv(seated.socket.fd(), &byte, 1, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    // Gone, or it talks where it is to wait.
    data_[static_cast<size_t>(seated.rank)].reset();
    --num_here_;
    return true;
  }
  void Read(PendingConnections::Guest& guest) {
    if (!guest.socket.valid() || !Hear(guest, kHeaderBytes)) return;
    const auto header =
        ParseHeader(std::string_view(guest.said).substr(0, kHeaderBytes), kMaxHelloBytes);
    if (!header || header->type != Frame::kHello) return guest.socket.Close();
    if (!Hear(guest, kHeaderBytes + header->length)) return;
    Seat(guest);
    guest.socket.Close();  // unless it has a seat
  }
  void Seat(PendingConnections::Guest& guest) {
    WireReader reader(std::string_view(guest.said).substr(kHeaderBytes));
    const std::string job_id(reader.String());
    const auto size = reader.Number<uint32_t>();
    const auto rank = reader.Number<uint32_t>();
    const milliseconds left = ReadTime(reader);
    const milliseconds patience = ReadTime(reader);
    std::string data(reader.String());
    if (!reader.Ended()) return;
    if (job_id != options_.job_id) {
      return Refuse(guest.socket, absl::FailedPreconditionError(absl::StrCat(
                                      "rendezvous ", options_.address, " is that of job '",
                                      options_.job_id, "', not of job '", job_id, "'")));
    }
    if (rank < kMaxRendezvousRanks) came_.insert(rank);
    if (outcome_.ok()) Fail(CheckPlace(rank, size));
    if (!outcome_.ok()) {
      // Where ranks disagree on the size, as many come as the one with the largest says.
      num_named_ = std::max<size_t>(num_named_, std::min<uint32_t>(size, kMaxRendezvousRanks));
      return Refuse(guest.socket, outcome_);
    }
    if (After(left) < deadline_) {
      deadline_ = After(left);
      patience_ = patience;
    }
    if (!SendAll(guest.socket, Framed(Frame::kWelcome, ""), After(waits_.grace)).ok()) return;
    data_[rank] = std::move(data);
    ++num_here_;
    seated_.push_back({std::move(guest.socket), static_cast<int>(rank)});
  }
  absl::Status CheckPlace(uint32_t rank, uint32_t size) const {
    if (size != static_cast<uint32_t>(options_.size) || rank >= size) {
      return absl::FailedPreconditionError(
          absl::StrCat("rendezvous ", options_.address, ": rank ", rank, " is started as one of ",
                       size, " ranks, rank 0 as one of ", options_.size));
    }
    if (data_[rank]) {
      return absl::AlreadyExistsError(absl::StrCat(
          "rendezvous ", options_.address, ": two processes say that they are rank ", rank));
    }
    return absl::OkStatus();
  }
  void Refuse(const Socket& socket, const absl::Status& status) const {
    WireWriter body;
    body.Add(static_cast<uint32_t>(status.code())).Add(ToStd(status.message()));
    SendAll(socket, Framed(Frame::kRefusal, body.text()), After(waits_.grace)).IgnoreError();
  }
  std::vector<MissingRank> Missing() const {
    std::vector<MissingRank> missing;
    for (int rank = 0; rank < options_.size; ++rank) {
      if (!data_[static_cast<size_t>(rank)]) missing.push_back({rank, ""});
    }
    return missing;
  }
  // Tells the others how it ended.
  absl::StatusOr<std::vector<std::string>> Finish() {
    if (!outcome_.ok()) {
      for (const Seated& seated : seated_) Refuse(seated.socket, outcome_);
      seated_.clear();
      if (!given_up_) TellWhoComesLate();
      return outcome_;
    }
    std::vector<std::string> all;
    WireWriter body;
    for (std::optional<std::string>& data : data_) {
      body.Add(*data);
      all.push_back(*std::move(data));
    }
    const std::string result = Framed(Frame::kResult, body.text());
    for (const Seated& seated : seated_) {
      const Deadline deadline = std::max(deadline_, After(waits_.grace));
      if (SendAll(seated.socket, result, deadline).ok()) continue;
      outcome_ = absl::UnavailableError(
          absl::StrCat("rendezvous ", options_.address, ": rank ", seated.rank, " has gone again"));
    }
    if (!outcome_.ok()) return outcome_;
    return all;
  }
  // A rank that comes when nobody listens any more would wait all its time for rank 0.
  void TellWhoComesLate() {
    deadline_ = std::min(deadline_, After(waits_.refusal));
    bool listens = true;
    while (listens && came_.size() < num_named_ && steady_clock::now() < deadline_) {
      listens = Turn().ok();
    }
  }

  const RendezvousOptions& options_;
  const Socket listener_;
  PendingConnections pending_;
  Deadline deadline_;                  // of the least patient rank that has come
  std::chrono::nanoseconds patience_;  // its timeout
  const RendezvousWaits& waits_;
  absl::Status outcome_;
  bool given_up_ = false;                         // true if the watch has ended it
  std::vector<std::optional<std::string>> data_;  // by rank
  int num_here_ = 1;
  std::vector<Seated> seated_;
  std::set<uint32_t> came_;  // ranks, whether seated or refused
  size_t num_named_;         // that will come, as far as anyone has said
};

// The next frame from rank 0.
absl::StatusOr<Header> ReceiveHeader(const Socket& socket, Deadline deadline) {
  char bytes[kHeaderBytes];
  MILLRACE_RETURN_IF_ERROR(ReceiveAll(socket, bytes, sizeof(bytes), deadline));
  const auto header = ParseHeader({bytes, sizeof(bytes)}, kMaxResultBytes);
  if (header) return *header;
  return absl::FailedPreconditionError(
      "what answers is no rendezvous: is the address taken by another program?");
}

class Client {
 public:
  Client(const RendezvousOptions& options, const HostPort& place, std::string_view own,
         const RendezvousWaits& waits)
      : options_(options),
        place_(place),
        own_(own),
        deadline_(After(options.timeout)),
        waits_(waits) {}

  absl::StatusOr<std::vector<std::string>> Run() {
    milliseconds pause = kFirstServerPause;
    while (true) {
      absl::StatusOr<Socket> socket = ConnectOnce();
      absl::Status cause = socket.status();
      if (absl::IsResourceExhausted(cause)) return Annotated(cause);
      if (cause.ok()) {
        // Before its welcome, a cut connection may only mean that rank 0 is not up yet.
        absl::Status welcome = Greet(*socket);
        if (welcome.ok()) {
          absl::StatusOr<std::vector<std::string>> all = Await(*socket);
          if (!all.ok()) return Annotated(all.status());
          return all;
        }
        if (!absl::IsUnavailable(welcome)) return Annotated(welcome);
        cause = std::move(welcome);
      }
      if (steady_clock::now() + pause >= deadline_) {
        return NeverCame(options_, options_.timeout,
                         {{0, absl::StrCat("the last try: ", cause.message())}});
      }
      MILLRACE_RETURN_IF_ERROR(SleepWatched(options_, pause));
      pause = std::min(pause * 2, kLongestServerPause);
    }
  }

 private:
  std::string Context() const { return absl::StrCat("rendezvous ", options_.address); }
  // Rank 0's own words have it already.
  absl::Status Annotated(const absl::Status& status) const {
    if (absl::StartsWith(status.message(), "rendezvous ")) return status;
    return Annotate(status, Context());
  }
  absl::StatusOr<Socket> ConnectOnce() const {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, Resolve(place_));
    absl::Status last = absl::UnavailableError("the host has no address");
    for (const std::string& address : addresses) {
      absl::StatusOr<Socket> socket = Connect(address, std::min(deadline_, After(waits_.connect)));
      if (socket.ok()) return socket;
      last = socket.status();
    }
    return last;
  }
  absl::Status Greet(const Socket& socket) const {
    const auto left = std::chrono::ceil<milliseconds>(
        std::max(deadline_ - steady_clock::now(), steady_clock::duration::zero()));
    WireWriter hello;
    hello.Add(options_.job_id)
        .Add(static_cast<uint32_t>(options_.size))
        .Add(static_cast<uint32_t>(options_.rank))
        .Add(static_cast<uint64_t>(left.count()))
        .Add(static_cast<uint64_t>(
            std::chrono::duration_cast<milliseconds>(options_.timeout).count()))
        .Add(own_);
    MILLRACE_RETURN_IF_ERROR(SendAll(socket, Framed(Frame::kHello, hello.text()), deadline_));
    const absl::StatusOr<Header> header = ReceiveHeader(socket, After(waits_.welcome));
    if (absl::IsDeadlineExceeded(header.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("what listens there says nothing for ", waits_.welcome.count(),
                       " ms: is the address taken by another program?"));
    }
    MILLRACE_RETURN_IF_ERROR(header.status());
    if (header->type == Frame::kWelcome) return absl::OkStatus();
    if (header->type == Frame::kRefusal) return Refusal(socket, header->length);
    return absl::FailedPreconditionError("what answers is not rank 0");
  }
  static absl::StatusOr<std::string> Body(const Socket& socket, size_t length, Deadline deadline) {
    std::string body;
    char bytes[4096];
    while (body.size() < length) {
      const size_t count = std::min(length - body.size(), sizeof(bytes));
      MILLRACE_RETURN_IF_ERROR(ReceiveAll(socket, bytes, count, deadline));
      body.append(bytes, count);
    }
    return body;
  }
  absl::Status Refusal(const Socket& socket, size_t length) const {
    MILLRACE_ASSIGN_OR_RETURN(const std::string body, Body(socket, length, After(waits_.grace)));
    WireReader reader(body);
    const auto code = static_cast<absl::StatusCode>(reader.Number<uint32_t>());
    const std::string text(reader.String());
    if (!reader.Ended() || code == absl::StatusCode::kOk) {
      return absl::FailedPreconditionError("rank 0 refuses without a reason");
    }
    return absl::Status(code, text);
  }
  // Until rank 0 says something, or the deadline is over.
  absl::Status AwaitWord(const Socket& socket, Deadline deadline) const {
    while (!WaitFor(socket, POLLIN, NextLook(options_, deadline)) &&
           steady_clock::now() < deadline) {
      MILLRACE_RETURN_IF_ERROR(AskWatch(options_));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> Await(const Socket& socket) const {
    const Deadline deadline = After(deadline_ - steady_clock::now() + waits_.grace);
    MILLRACE_RETURN_IF_ERROR(AwaitWord(socket, deadline));
    const absl::StatusOr<Header> header = ReceiveHeader(socket, deadline);
    if (absl::IsUnavailable(header.status())) {
      return absl::UnavailableError("rank 0 has gone before all ranks were there");
    }
    if (absl::IsDeadlineExceeded(header.status())) {
      return absl::DeadlineExceededError("rank 0 was there, but does not say who is missing");
    }
    MILLRACE_RETURN_IF_ERROR(header.status());
    if (header->type == Frame::kRefusal) return Refusal(socket, header->length);
    MILLRACE_ASSIGN_OR_RETURN(const std::string body, Body(socket, header->length, deadline));
    WireReader reader(body);
    std::vector<std::string> all;
    for (int rank = 0; rank < options_.size; ++rank) all.emplace_back(reader.String());
    if (header->type == Frame::kResult && reader.Ended()) return all;
    return absl::FailedPreconditionError("rank 0 sends something else than the ranks' data");
  }

  const RendezvousOptions& options_;
  const HostPort& place_;
  const std::string_view own_;
  const Deadline deadline_;
  const RendezvousWaits& waits_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> RendezvousAtServer(const RendezvousOptions& options,
                                                            const HostPort& place,
                                                            std::string_view own,
                                                            const RendezvousWaits& waits) {
  if (options.rank != 0) return Client(options, place, own, waits).Run();
  absl::StatusOr<Socket> listener = Listen(place.host, place.port);
  if (!listener.ok()) {
    return Annotate(listener.status(), absl::StrCat("rendezvous ", options.address));
  }
  return Server(options, *std::move(listener), own, waits).Run();
}

}  // namespace millrace::collectives
