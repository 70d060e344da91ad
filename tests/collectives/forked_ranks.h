#ifndef MILLRACE_TESTS_COLLECTIVES_FORKED_RANKS_H_
#define MILLRACE_TESTS_COLLECTIVES_FORKED_RANKS_H_

// Ranks as processes, without a launcher: the test forks them, and socket pairs join them to a
// group that can do what a bootstrap needs (small messages, AllGather, Broadcast, Barrier, Split).

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/communicator.h"
#include "collectives/core/pending.h"
#include "tests/collectives/test_buffer.h"

namespace millrace::collectives {

class SocketGroup final : public Communicator {
 public:
  // `sockets` by rank, the own one unused; whoever forks closes them.
  SocketGroup(int rank, std::vector<int> sockets) : rank_(rank), sockets_(std::move(sockets)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }
  int local_rank() const override { return rank_; }
  int local_size() const override { return size(); }
  std::string_view backend() const override { return "sockets"; }
  void Leave(const absl::Status& reason) override { Abort(reason); }
  void Abort(const absl::Status&) override {
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    const int own[2] = {color, key};
    std::vector<int> all(2 * sockets_.size());
    MILLRACE_RETURN_IF_ERROR(Gather(own, all.data(), sizeof(own)));
    std::vector<std::pair<int, int>> members;  // key and rank
    for (int r = 0; r < size(); ++r) {
      if (all[2 * r] < 0) return absl::InvalidArgumentError("a negative color");
      if (all[2 * r] == color) members.emplace_back(all[2 * r + 1], r);
    }
    std::ranges::sort(members);
    std::vector<int> sockets;
    int rank = 0;
    for (const auto& [member_key, member] : members) {
      if (member == rank_) rank = static_cast<int>(sockets.size());
      sockets.push_back(sockets_[member]);
    }
    return std::make_unique<SocketGroup>(rank, std::move(sockets));
  }

 private:
  absl::Status RunChecked(const Request& request, const absl::Status& arguments) override {
    MILLRACE_RETURN_IF_ERROR(arguments);
    const size_t in = request.in.size_bytes(), out = request.out.size_bytes();
    char byte = 0;
    std::vector<char> bytes(sockets_.size());
    switch (request.kind) {
      case Collective::kSend:
        return Put(request.peer, request.in.data, in);
      case Collective::kRecv:
        return Get(request.peer, request.out.data, out);
      case Collective::kAllGather:
        return Gather(request.in.data, request.out.data, in);
      case Collective::kBarrier:
        return Gather(&byte, bytes.data(), 1);
      case Collective::kBroadcast:
        if (rank_ != request.peer) return Get(request.peer, request.out.data, out);
        for (int r = 0; r < size(); ++r) {
          if (r != rank_) MILLRACE_RETURN_IF_ERROR(Put(r, request.in.data, in));
        }
        return absl::OkStatus();
      default:
        return absl::UnimplementedError("not by sockets");
    }
  }
  std::unique_ptr<Pending> StartChecked(const Request& request,
                                        const absl::Status& arguments) override {
    return MakeEnded(RunChecked(request, arguments));
  }

  absl::Status Gather(const void* own, void* all, size_t bytes) {
    auto* const begin = static_cast<char*>(all);
    std::memmove(begin + bytes * rank_, own, bytes);
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) MILLRACE_RETURN_IF_ERROR(Put(r, begin + bytes * rank_, bytes));
    }
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) MILLRACE_RETURN_IF_ERROR(Get(r, begin + bytes * r, bytes));
    }
    return absl::OkStatus();
  }
  absl::Status Put(int peer, const void* data, size_t bytes) {
    const ssize_t sent = ::send(sockets_[peer], data, bytes, MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(bytes)) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("rank ", peer, " is gone"));
  }
  absl::Status Get(int peer, void* data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
      const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(timeout()).count();
      pollfd waiting{sockets_[peer], POLLIN, 0};
      if (::poll(&waiting, 1, limit == 0 ? -1 : static_cast<int>(limit)) == 0) {
        return absl::DeadlineExceededError(absl::StrCat("nothing of rank ", peer));
      }
      const ssize_t got = ::recv(sockets_[peer], static_cast<char*>(data) + at, bytes - at, 0);
      if (got <= 0) return absl::UnavailableError(absl::StrCat("rank ", peer, " is gone"));
      at += got;
    }
    return absl::OkStatus();
  }

  const int rank_;
  const std::vector<int> sockets_;
};

// What a rank's process tells the test.
inline void TellStatus(int pipe, const absl::Status& status) {
  std::string text(1, static_cast<char>(status.code()));
  text += ToStd(status.message());
  if (::write(pipe, text.data(), text.size()) < 0) _exit(2);
}

// Waits for it until `deadline`; a rank that says nothing has died or hangs.
inline absl::Status ReadStatus(int pipe, std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  pollfd waiting{pipe, POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(std::max<int64_t>(limit, 0))) == 0) {
    return absl::DeadlineExceededError("the rank hangs");
  }
  char text[4096];
  const ssize_t got = ::read(pipe, text, sizeof(text));
  if (got <= 0) return absl::AbortedError("the rank has died");
  return absl::Status(static_cast<absl::StatusCode>(text[0]), {text + 1, size_t(got - 1)});
}

// Runs `body` on `size` ranks, each a fork of this process, which must have no other threads and no
// CUDA yet. Returns every rank's status; kills what still runs after `limit`.
inline std::vector<absl::Status> RunForked(int size, std::chrono::seconds limit,
                                           const RankBody& body) {
  std::vector<std::vector<int>> sockets(size, std::vector<int>(size, -1));
  for (int a = 0; a < size; ++a) {
    for (int b = a + 1; b < size; ++b) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::perror("socketpair");
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  std::vector<std::pair<pid_t, int>> ranks;  // process and pipe
  for (int rank = 0; rank < size; ++rank) {
    int pipe[2];
    if (::pipe(pipe) != 0) std::perror("pipe");
    std::fflush(nullptr);  // or each rank prints it again
    const pid_t child = ::fork();
    if (child == 0) {
      for (int other = 0; other < size; ++other) {
        for (const int socket : sockets[other]) {
          if (other != rank && socket >= 0) ::close(socket);
        }
      }
      SocketGroup group(rank, sockets[rank]);
      TellStatus(pipe[1], body(group));
      _exit(0);
    }
    ::close(pipe[1]);
    ranks.emplace_back(child, pipe[0]);
  }
  for (const std::vector<int>& row : sockets) {
    for (const int socket : row) {
      if (socket >= 0) ::close(socket);
    }
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<absl::Status> outcomes;
  for (const auto& [child, pipe] : ranks) outcomes.push_back(ReadStatus(pipe, deadline));
  for (const auto& [child, pipe] : ranks) {
    // Who has told its status may still hang at its end, as may a device that waits for a peer.
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(pipe);
  }
  return outcomes;
}

}  // namespace millrace::collectives

#endif  // MILLRACE_TESTS_COLLECTIVES_FORKED_RANKS_H_
