// A mesh whose only peer is the test, which sends what no rank of ours would.
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "collectives/net/wire.h"
#include "collectives/tcp/mesh.h"
#include "gmock/gmock.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

enum Kind : uint32_t { kShort = 1, kAnnounced, kGrant, kData, kRefused, kGivenUp, kTaken };

constexpr size_t kHeaderBytes = 32;
constexpr uint32_t kTag = 7;

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    std::vector<TcpMesh::Peer> peers(2);
    peers[1].socket = Socket(ends[0]);
    mesh_ = std::make_unique<TcpMesh>(0, std::move(peers));
    peer_ = Socket(ends[1]);
  }

  static std::string Frame(uint32_t kind, uint64_t id, uint64_t size, const std::string& data = "",
                           uint32_t group = 0) {
    return WireWriter().Add(kind).Add(group).Add(kTag).Add(uint32_t{0}).Add(id).Add(size).text() +
           data;
  }
  void Write(const std::string& bytes) {
    EXPECT_TRUE(SendAll(peer_, bytes, After(std::chrono::seconds(60))).ok());
  }
  // The next frame's kind and id; its data is left.
  std::pair<uint32_t, uint64_t> Read() {
    char bytes[kHeaderBytes];
    EXPECT_TRUE(ReceiveAll(peer_, bytes, sizeof(bytes), After(std::chrono::seconds(60))).ok());
    WireReader reader({bytes, sizeof(bytes)});
    const auto kind = reader.Number<uint32_t>();
    reader.Number<uint64_t>();
    reader.Number<uint32_t>();
    return {kind, reader.Number<uint64_t>()};
  }
  // As Read, with its data, while the mesh goes on writing.
  std::pair<uint32_t, uint64_t> Next() {
    const std::string header = Take(kHeaderBytes);
    WireReader reader(header);
    const auto kind = reader.Number<uint32_t>();
    reader.Number<uint64_t>();
    reader.Number<uint32_t>();
    const auto id = reader.Number<uint64_t>();
    last_size_ = reader.Number<uint64_t>();
    if (kind == kShort || kind == kData) Take(last_size_);
    return {kind, id};
  }
  std::string Take(size_t size) {
    std::string bytes(size, '\0');
    const Deadline deadline = After(std::chrono::seconds(60));
    for (size_t taken = 0; taken < size;) {
      mesh_->Idle(std::chrono::milliseconds(0));
      const ssize_t count = ::recv(peer_.fd(), bytes.data() + taken, size - taken, 0);
      if (count > 0) taken += static_cast<size_t>(count);
      const bool waits = count < 0 && errno == EAGAIN;
      const bool late = std::chrono::steady_clock::now() >= deadline;
      if (count == 0 || (count < 0 && !waits) || late) {
        ADD_FAILURE() << "no more after " << taken << " bytes";
        break;
      }
    }
    return bytes;
  }
  TcpMesh::Id Receive(std::span<char> memory) {
    const auto id = mesh_->Receive(std::as_writable_bytes(memory), 1, 0, kTag);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(0);
  }
  absl::Status Wait(TcpMesh::Id id) {
    while (true) {
      const absl::StatusOr<bool> ended = mesh_->Test(id);
      if (!ended.ok()) return ended.status();
      if (*ended) return absl::OkStatus();
      mesh_->Idle(std::chrono::milliseconds(10));
    }
  }
  // The peer has been given up, for a reason that the message says.
  void ExpectGone(TcpMesh::Id id) { EXPECT_MESSAGE(Wait(id), absl::StatusCode::kUnavailable); }
  void ExpectAlive() {
    std::array<char, 2> got{};
    Write(Frame(kShort, 99, 2, "ok"));
    EXPECT_TRUE(Wait(Receive(got)).ok());
    EXPECT_EQ(std::string(got.data(), 2), "ok");
  }

  std::unique_ptr<TcpMesh> mesh_;
  Socket peer_;
  uint64_t last_size_ = 0;  // of the frame that Next has read
};

TEST_F(HostilePeer, AFrameOfNoKindEndsTheConnection) {
  std::array<char, 1> memory;
  Write(Frame(77, 1, 1));
  ExpectGone(Receive(memory));
}

TEST_F(HostilePeer, AShortMessageThatIsLongEndsTheConnection) {
  std::array<char, 1> memory;
  Write(Frame(kShort, 1, ~uint64_t{0}));
  ExpectGone(Receive(memory));
}

TEST_F(HostilePeer, AnAnnouncementOfAnySizeIsOnlyRefused) {
  std::array<char, 8> memory;
  Write(Frame(kAnnounced, 5, ~uint64_t{0}));
  EXPECT_TRUE(absl::IsInvalidArgument(Wait(Receive(memory))));
  EXPECT_EQ(Read(), std::make_pair(uint32_t{kRefused}, uint64_t{5}));
  ExpectAlive();
}

TEST_F(HostilePeer, OtherDataThanAnnouncedEndsTheConnection) {
  std::vector<char> memory(100000);
  Write(Frame(kAnnounced, 5, memory.size()));
  const TcpMesh::Id id = Receive(memory);
  mesh_->Idle(std::chrono::milliseconds(10));
  EXPECT_EQ(Read(), std::make_pair(uint32_t{kGrant}, uint64_t{5}));
  Write(Frame(kData, 5, memory.size() + 1));
  ExpectGone(id);
}

TEST_F(HostilePeer, NoDataAtAllIsNotTheMessage) {
  std::vector<char> memory(100000);
  Write(Frame(kAnnounced, 5, memory.size()));
  const TcpMesh::Id id = Receive(memory);
  mesh_->Idle(std::chrono::milliseconds(10));
  EXPECT_EQ(Read(), std::make_pair(uint32_t{kGrant}, uint64_t{5}));
  Write(Frame(kData, 5, 0));
  ExpectGone(id);
}

TEST_F(HostilePeer, MoreTakenThanSentEndsTheConnection) {
  std::array<char, 1> memory;
  Write(Frame(kTaken, 0, 1));
  ExpectGone(Receive(memory));
}

// A grant for it would send its memory a second time, maybe after it has ended.
TEST_F(HostilePeer, AMessageThatWasNotAnnouncedIsNotGranted) {
  const std::vector<char> memory(100);
  const auto id = mesh_->Send(std::as_bytes(std::span(memory)), 1, 0, kTag);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(Next(), std::make_pair(uint32_t{kShort}, *id));
  Write(Frame(kGrant, *id, 0));
  ExpectAlive();
  EXPECT_EQ(Next(), std::make_pair(uint32_t{kGivenUp}, *id));
}

// The receiver has granted it, and would wait for ever.
TEST_F(HostilePeer, ThePeerIsToldOfAGrantedMessageThatIsGivenUpInTheQueue) {
  const std::vector<char> memory(4 << 20);  // more than the kernel takes at once
  std::vector<TcpMesh::Id> ids;
  for (int i = 0; i < 2; ++i) {
    const auto id = mesh_->Send(std::as_bytes(std::span(memory)), 1, 0, kTag);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(Next(), std::make_pair(uint32_t{kAnnounced}, *id));
    ids.push_back(*id);
  }
  Write(Frame(kGrant, ids[0], 0) + Frame(kGrant, ids[1], 0));
  mesh_->Idle(std::chrono::milliseconds(10));
  mesh_->Cancel(ids[1]);
  EXPECT_EQ(Next(), std::make_pair(uint32_t{kData}, ids[0]));
  EXPECT_EQ(Next(), std::make_pair(uint32_t{kGivenUp}, ids[1]));
  EXPECT_TRUE(Wait(ids[0]).ok());
}

TEST_F(HostilePeer, OnceAbortedTheMemoryOfMessagesIsLeftAlone) {
  std::vector<char> memory(100000);
  Write(Frame(kAnnounced, 5, memory.size()));
  const TcpMesh::Id id = Receive(memory);
  EXPECT_EQ(Next(), std::make_pair(uint32_t{kGrant}, uint64_t{5}));
  Write(Frame(kData, 5, memory.size(), "x"));
  mesh_->Idle(std::chrono::milliseconds(10));
  EXPECT_EQ(memory[0], 'x');
  // Another thread of the group sits in the wait.
  std::thread other([&] {
    while (mesh_->Test(id).ok()) mesh_->Idle(std::chrono::seconds(60));
  });
  mesh_->Abort(absl::CancelledError("enough"));
  memory.assign(memory.size(), '\0');
  Write(std::string(memory.size() - 1, 'x'));
  other.join();
  EXPECT_EQ(memory, std::vector<char>(memory.size(), '\0'));
}

// A flood of short messages that the peer does not take turns into announcements, so that the peer
// goes on reading; what it takes and tells makes room for short ones again.
TEST_F(HostilePeer, ShortMessagesBeyondWhatThePeerTakesAreAnnounced) {
  const std::vector<char> memory(60000);
  const auto send = [&] {
    const auto id = mesh_->Send(std::as_bytes(std::span(memory)), 1, 0, kTag);
    EXPECT_TRUE(id.ok()) << id.status();
    return Next().first;
  };
  uint64_t unasked = 0;
  while (send() == kShort && unasked < uint64_t{64} << 20) unasked += kHeaderBytes + memory.size();
  EXPECT_GT(unasked, uint64_t{15} << 20);
  EXPECT_LE(unasked, uint64_t{16} << 20);
  EXPECT_EQ(send(), uint32_t{kAnnounced});
  Write(Frame(kTaken, 0, unasked));
  ExpectAlive();
  EXPECT_EQ(send(), uint32_t{kShort});
}

TEST_F(HostilePeer, ThePeerIsToldWhatIsTaken) {
  std::vector<char> memory(60000);
  const std::string frame = Frame(kShort, 1, memory.size(), std::string(memory.size(), 'x'));
  uint64_t taken = 0;
  for (bool posted = true; taken < uint64_t{8} << 20; posted = !posted) {
    TcpMesh::Id id = posted ? Receive(memory) : 0;
    for (size_t sent = 0; sent < frame.size();) {
      const ssize_t count =
          ::send(peer_.fd(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<size_t>(count);
      mesh_->Idle(std::chrono::milliseconds(0));
    }
    if (!posted) id = Receive(memory);
    EXPECT_TRUE(Wait(id).ok());
    taken += frame.size();
  }
  uint64_t told = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Next().first, uint32_t{kTaken});
    told += last_size_;
  }
  EXPECT_LE(told, taken);
  EXPECT_GE(told, uint64_t{8} << 20);
}

TEST_F(HostilePeer, DataThatNobodyGrantedIsDropped) {
  Write(Frame(kData, 5, 9000, std::string(9000, 'x')));
  ExpectAlive();
}

TEST_F(HostilePeer, WordsAboutMessagesThatAreNotAreIgnored) {
  Write(Frame(kGrant, 1234, 0));
  Write(Frame(kRefused, 1234, 0));
  Write(Frame(kGivenUp, 1234, 0));
  ExpectAlive();
  EXPECT_EQ(Read(), std::make_pair(uint32_t{kGivenUp}, uint64_t{1234}));
}

TEST_F(HostilePeer, AMessageIsSentOnce) {
  const std::vector<char> memory(100000);
  const auto id = mesh_->Send(std::as_bytes(std::span(memory)), 1, 0, kTag);
  ASSERT_TRUE(id.ok()) << id.status();
  Write(Frame(kGrant, *id, 0) + Frame(kGrant, *id, 0));
  std::array<char, 1> other;
  ExpectGone(Receive(other));
}

TEST_F(HostilePeer, WhatNobodyAskedForIsNotKeptWithoutEnd) {
  const std::string frame = Frame(kShort, 1, 60000, std::string(60000, 'x'));
  uint64_t taken = 0;
  int turns_without = 0;
  while (turns_without < 20 && taken < uint64_t{200} << 20) {
    const ssize_t count = ::send(peer_.fd(), frame.data() + taken % frame.size(),
                                 frame.size() - taken % frame.size(), MSG_NOSIGNAL);
    turns_without = count > 0 ? 0 : turns_without + 1;
    if (count > 0) taken += static_cast<uint64_t>(count);
    mesh_->Idle(std::chrono::milliseconds(0));
  }
  EXPECT_GE(taken, uint64_t{64} << 20);
  EXPECT_LT(taken, uint64_t{80} << 20);
  // It goes on once they are asked for.
  std::vector<char> memory(60000);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Wait(Receive(memory)).ok());
  mesh_->Idle(std::chrono::milliseconds(0));
  EXPECT_GT(::send(peer_.fd(), frame.data() + taken % frame.size(), 1, MSG_NOSIGNAL), 0);
}

TEST_F(HostilePeer, WhatComesForAGroupThatHasEndedIsDropped) {
  constexpr uint32_t kGroup = 5;
  const std::string frame = Frame(kShort, 1, 60000, std::string(60000, 'x'), kGroup);
  // Returns false when the mesh does not take it.
  const auto write = [&] {
    int turns_without = 0;
    for (size_t sent = 0; sent < frame.size() && turns_without < 20;) {
      const ssize_t count =
          ::send(peer_.fd(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
      turns_without = count > 0 ? 0 : turns_without + 1;
      if (count > 0) sent += static_cast<size_t>(count);
      mesh_->Idle(std::chrono::milliseconds(0));
    }
    return turns_without < 20;
  };
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(write());
  mesh_->EndGroup(kGroup);
  EXPECT_EQ(Next().first, uint32_t{kTaken});
  for (uint64_t taken = 0; taken < uint64_t{100} << 20; taken += frame.size()) {
    ASSERT_TRUE(write()) << "after " << taken << " bytes";
  }
  Write(Frame(kAnnounced, 5, 100000, "", kGroup));
  ExpectAlive();
}

TEST_F(HostilePeer, GroupsThatHaveEndedKeepNoOtherGroupsMessages) {
  for (const uint32_t group : {4, 2, 6, 3, 2}) mesh_->EndGroup(group);
  for (const uint32_t group : {1, 2, 3, 4, 5, 6, 7}) {
    Write(Frame(kShort, 1, 2, "ok", group));
  }
  ExpectAlive();
  const std::vector<uint32_t> kept = {1, 5, 7};
  for (const uint32_t group : kept) {
    std::array<char, 2> got{};
    const auto id = mesh_->Receive(std::as_writable_bytes(std::span(got)), 1, group, kTag);
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_TRUE(mesh_->Test(*id).value_or(false)) << group;
  }
}

// A message of two bytes that nobody asks for takes much more than that.
TEST_F(HostilePeer, ManyShortMessagesAreNotKeptWithoutEndEither) {
  uint32_t tags = 0;
  const auto write = [&] {
    const std::string frame = WireWriter()
                                  .Add(uint32_t{kShort})
                                  .Add(uint32_t{1})
                                  .Add(++tags)
                                  .Add(uint32_t{0})
                                  .Add(uint64_t{1})
                                  .Add(uint64_t{0})
                                  .text();
    for (int turn = 0; turn < 20; ++turn) {
      if (::send(peer_.fd(), frame.data(), frame.size(), MSG_NOSIGNAL) > 0) return true;
      mesh_->Idle(std::chrono::milliseconds(0));
    }
    return false;
  };
  while (tags < 200000 && write()) continue;
  EXPECT_LT(tags, 100000u);  // of 64 MiB
}

}  // namespace
}  // namespace millrace::collectives
