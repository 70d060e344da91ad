// Ranks are threads with a mesh each; one is a process, to be killed.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/net/socket.h"
#include "collectives/net/wire.h"
#include "collectives/peer_lost.h"
#include "collectives/tcp/connect_tcp.h"
#include "gmock/gmock.h"
#include "tests/collectives/processes.h"
#include "tests/temp_folder.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr size_t kShortest = 1;
constexpr size_t kLongestShort = 64 << 10;
constexpr size_t kLong = 5 << 20;  // more than the kernel keeps for a connection

RendezvousOptions Options(const std::string& address, int rank, int size) {
  RendezvousOptions options;
  options.address = address;
  options.rank = rank;
  options.size = size;
  options.timeout = std::chrono::seconds(60);
  return options;
}

Bytes Pattern(size_t size, int seed) {
  constexpr size_t kPeriod = 256;
  Bytes bytes(size);
  for (size_t i = 0; i < std::min(size, kPeriod); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + seed);
  }
  for (size_t done = kPeriod; done < size; done *= 2) {
    std::memcpy(bytes.data() + done, bytes.data(), std::min(done, size - done));
  }
  return bytes;
}

absl::Status WaitAll(Transport& transport, const std::vector<Transport::Id>& ids) {
  absl::Status outcome;
  for (const Transport::Id id : ids) {
    while (true) {
      const absl::StatusOr<bool> ended = transport.Test(id);
      if (outcome.ok()) outcome = ended.status();
      if (!ended.ok() || *ended) break;
      transport.Idle(std::chrono::milliseconds(10));
    }
  }
  return outcome;
}
absl::Status Send(Transport& transport, const Bytes& bytes, int peer, uint32_t tag) {
  MILLRACE_ASSIGN_OR_RETURN(const Transport::Id id, transport.Send(bytes, peer, tag));
  return WaitAll(transport, {id});
}
absl::Status Receive(Transport& transport, Bytes& bytes, int peer, uint32_t tag) {
  MILLRACE_ASSIGN_OR_RETURN(const Transport::Id id, transport.Receive(bytes, peer, tag));
  return WaitAll(transport, {id});
}
absl::Status Expect(bool good, std::string_view what) {
  return good ? absl::OkStatus() : absl::InternalError(ToAbsl(what));
}

// The ranks tell each other their choices, as the communicator does.
absl::StatusOr<std::unique_ptr<Transport>> Split(Transport& transport, int color, int key) {
  constexpr uint32_t kChoiceTag = 9;
  std::vector<Transport::Choice> choices(transport.size());
  Transport::Choice& own = choices[transport.rank()];
  own = {color, key, transport.next_group()};
  std::vector<Transport::Id> ids;
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == transport.rank()) continue;
    MILLRACE_ASSIGN_OR_RETURN(const auto sent,
                              transport.Send(std::as_bytes(std::span(&own, 1)), peer, kChoiceTag));
    const auto theirs = std::as_writable_bytes(std::span(&choices[peer], 1));
    MILLRACE_ASSIGN_OR_RETURN(const auto received, transport.Receive(theirs, peer, kChoiceTag));
    ids.insert(ids.end(), {sent, received});
  }
  MILLRACE_RETURN_IF_ERROR(WaitAll(transport, ids));
  return transport.Split(choices);
}

using Body = std::function<absl::Status(Transport&)>;

void RunTransports(int size, const Body& body) {
  const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto transport = ConnectTcp(Options(address, rank, size));
      ASSERT_TRUE(transport.ok()) << transport.status();
      const absl::Status status = body(**transport);
      EXPECT_TRUE(status.ok()) << "rank " << rank << ": " << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TcpTransport, KnowsItsPlace) {
  RunTransports(3, [](Transport& transport) {
    MILLRACE_RETURN_IF_ERROR(Expect(transport.size() == 3 && transport.name() == "tcp", "size"));
    return Expect(transport.local_rank() == transport.rank() && transport.local_size() == 3,
                  "local");
  });
}

TEST(TcpTransport, MeetsInAFolderToo) {
  const TempFolder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto transport = ConnectTcp(Options(folder / "meet", rank, 2));
      EXPECT_TRUE(transport.ok()) << transport.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TcpTransport, AllPairsExchangeMessagesOfAllSizes) {
  RunTransports(4, [](Transport& transport) {
    for (const size_t size : {kShortest, size_t{100}, kLongestShort, kLongestShort + 1, kLong}) {
      const Bytes own = Pattern(size, transport.rank());
      std::vector<Bytes> theirs(4, Bytes(size));
      std::vector<Transport::Id> ids;
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == transport.rank()) continue;
        MILLRACE_ASSIGN_OR_RETURN(const auto sent, transport.Send(own, peer, 5));
        MILLRACE_ASSIGN_OR_RETURN(const auto received, transport.Receive(theirs[peer], peer, 5));
        ids.insert(ids.end(), {sent, received});
      }
      MILLRACE_RETURN_IF_ERROR(WaitAll(transport, ids));
      for (int peer = 0; peer < 4; ++peer) {
        const bool good = peer == transport.rank() || theirs[peer] == Pattern(size, peer);
        MILLRACE_RETURN_IF_ERROR(Expect(good, absl::StrCat(size, " bytes of ", peer)));
      }
    }
    return absl::OkStatus();
  });
}

// Nobody asks for the first messages before the last have come.
TEST(TcpTransport, TagsKeepMessagesApartAndEachTagInOrder) {
  RunTransports(2, [](Transport& transport) {
    const size_t sizes[] = {kLong, 10, kLongestShort + 1, kLongestShort};
    std::vector<Bytes> memory;
    std::vector<Transport::Id> ids;
    for (int i = 0; i < 8; ++i) memory.push_back(Pattern(sizes[i / 2], i));
    if (transport.rank() == 0) {
      for (int i = 0; i < 8; ++i) {
        MILLRACE_ASSIGN_OR_RETURN(const auto id, transport.Send(memory[i], 1, i / 2));
        ids.push_back(id);
      }
      return WaitAll(transport, ids);
    }
    for (int tag = 3; tag >= 0; --tag) {
      for (int i = 2 * tag; i < 2 * tag + 2; ++i) {
        Bytes got(sizes[tag]);
        MILLRACE_RETURN_IF_ERROR(Receive(transport, got, 0, tag));
        MILLRACE_RETURN_IF_ERROR(Expect(got == memory[i], absl::StrCat("message ", i)));
      }
    }
    return absl::OkStatus();
  });
}

// More than 64 MiB of them, after which both ranks speak of something else first.
TEST(TcpTransport, AFloodOfShortMessagesKeepsNoOtherTagWaiting) {
  RunTransports(2, [](Transport& transport) {
    constexpr int kMessages = 1200;
    const Bytes flood = Pattern(60000, 1);
    const int peer = 1 - transport.rank();
    std::vector<Transport::Id> ids;
    for (int i = 0; i < kMessages && transport.rank() == 0; ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const auto id, transport.Send(flood, peer, 1));
      ids.push_back(id);
    }
    Bytes out(1);
    Bytes in(1);
    MILLRACE_ASSIGN_OR_RETURN(const auto sent, transport.Send(out, peer, 2));
    MILLRACE_ASSIGN_OR_RETURN(const auto received, transport.Receive(in, peer, 2));
    MILLRACE_RETURN_IF_ERROR(WaitAll(transport, {sent, received}));
    if (transport.rank() == 0) return WaitAll(transport, ids);
    for (int i = 0; i < kMessages; ++i) {
      Bytes got(flood.size());
      MILLRACE_RETURN_IF_ERROR(Receive(transport, got, peer, 1));
      MILLRACE_RETURN_IF_ERROR(Expect(got == flood, absl::StrCat("message ", i)));
    }
    return absl::OkStatus();
  });
}

// Rank 1 is the test: it tries an address, gives it up, and comes by another.
TEST(TcpTransport, AConnectionThatWasGivenUpIsNotTakenForTheRank) {
  const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
  const Deadline deadline = After(std::chrono::seconds(60));
  std::thread zero([&] {
    const auto transport = ConnectTcp(Options(address, 0, 2));
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_TRUE(Send(**transport, Pattern(1, 42), 1, 1).ok());
  });
  const uint64_t own = 1234;
  WireWriter place;
  place.Add(std::string_view("host")).Add(own).Add(std::string_view("")).Add(uint32_t{0});
  const auto told = RunRendezvous(Options(address, 1, 2), place.text());
  EXPECT_TRUE(told.ok()) << told.status();
  const std::string of_zero = told.ok() ? (*told)[0] : std::string();
  WireReader theirs(of_zero);
  theirs.String();  // its host
  const auto nonce = theirs.Number<uint64_t>();
  const std::string loopback(theirs.String());
  const std::string greeting =
      WireWriter().Add(uint64_t{0x316873656d76724d}).Add(uint32_t{1}).Add(own).Add(nonce).text();
  absl::StatusOr<Socket> socket = absl::UnavailableError("none");
  std::string answer(greeting.size(), '\0');
  for (const bool given_up : {true, false}) {
    socket = Connect(loopback, deadline);
    if (!socket.ok()) break;
    EXPECT_TRUE(SendAll(*socket, greeting, deadline).ok());
    if (given_up) socket->Close();
  }
  EXPECT_TRUE(socket.ok()) << socket.status();
  if (socket.ok()) {
    EXPECT_TRUE(ReceiveAll(*socket, answer.data(), answer.size(), deadline).ok());
    EXPECT_TRUE(SendAll(*socket, greeting, deadline).ok());
    std::string message(32 + 1, '\0');
    EXPECT_TRUE(ReceiveAll(*socket, message.data(), message.size(), deadline).ok());
    EXPECT_EQ(message.back(), 42);
  }
  zero.join();
}

// Rank 0 is the test: strangers crowd rank 1's first connection out.
TEST(TcpTransport, AConnectionThatIsCutBeforeItsAnswerIsMadeAgain) {
  const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
  const Deadline deadline = After(std::chrono::seconds(60));
  std::thread one([&] {
    const auto transport = ConnectTcp(Options(address, 1, 2));
    ASSERT_TRUE(transport.ok()) << transport.status();
    EXPECT_TRUE(Send(**transport, Pattern(1, 42), 0, 1).ok());
  });
  const auto listener = Listen("127.0.0.1", 0);
  const int port = listener.ok() ? PortOf(*listener).value_or(0) : 0;
  EXPECT_GT(port, 0);
  const uint64_t own = 1234;
  WireWriter place;
  place.Add(std::string_view("host")).Add(own).Add(std::string_view("")).Add(uint32_t{1});
  place.Add(LoopbackAddress(port));
  const auto told = RunRendezvous(Options(address, 0, 2), place.text());
  EXPECT_TRUE(told.ok()) << told.status();
  const std::string of_one = told.ok() ? (*told)[1] : std::string();
  WireReader theirs(of_one);
  theirs.String();  // its host
  const auto nonce = theirs.Number<uint64_t>();
  const std::string answer =
      WireWriter().Add(uint64_t{0x316873656d76724d}).Add(uint32_t{0}).Add(own).Add(nonce).text();
  Socket socket;
  for (const bool cut : {true, false}) {
    if (!listener.ok() || !WaitFor(*listener, POLLIN, deadline)) break;
    socket = Accept(*listener).value_or(Socket());
    if (cut) socket.Close();
  }
  EXPECT_TRUE(socket.valid());
  // Two greetings, a header and a byte.
  std::string said(2 * answer.size() + 32 + 1, '\0');
  EXPECT_TRUE(ReceiveAll(socket, said.data(), answer.size(), deadline).ok());
  EXPECT_TRUE(SendAll(socket, answer, deadline).ok());
  EXPECT_TRUE(ReceiveAll(socket, said.data(), said.size() - answer.size(), deadline).ok());
  EXPECT_EQ(said[said.size() - answer.size() - 1], 42);
  socket.Close();
  one.join();
}

TEST(TcpTransport, UnequalSizesAreInvalidWhoeverIsFirst) {
  for (const size_t size : {size_t{10}, kLongestShort + 10}) {
    for (const bool receiver_first : {true, false}) {
      RunTransports(2, [&](Transport& transport) {
        Bytes token(1);
        Bytes bytes(size + transport.rank());
        if (transport.rank() == 0) {
          if (receiver_first) MILLRACE_RETURN_IF_ERROR(Receive(transport, token, 1, 1));
          MILLRACE_ASSIGN_OR_RETURN(const auto id, transport.Send(bytes, 1, 2));
          if (!receiver_first) MILLRACE_RETURN_IF_ERROR(Send(transport, token, 1, 1));
          const absl::Status status = WaitAll(transport, {id});
          MILLRACE_RETURN_IF_ERROR(
              Expect(status.ok() || absl::IsInvalidArgument(status), status.ToString()));
          return Receive(transport, token, 1, 3);  // the pair is still of use
        }
        if (!receiver_first) MILLRACE_RETURN_IF_ERROR(Receive(transport, token, 0, 1));
        MILLRACE_ASSIGN_OR_RETURN(const auto id, transport.Receive(bytes, 0, 2));
        if (receiver_first) MILLRACE_RETURN_IF_ERROR(Send(transport, token, 0, 1));
        const absl::Status status = WaitAll(transport, {id});
        MILLRACE_RETURN_IF_ERROR(Expect(absl::IsInvalidArgument(status), status.ToString()));
        MILLRACE_RETURN_IF_ERROR(Expect(
            status.message() ==
                absl::StrCat("rank 0 sends ", size, " bytes where rank 1 receives ", size + 1),
            status.ToString()));
        return Send(transport, token, 0, 3);
      });
    }
  }
}

TEST(TcpTransport, WhatARankSentBeforeItWentStillArrives) {
  RunTransports(2, [](Transport& transport) {
    Bytes bytes = Pattern(1000, 3);
    if (transport.rank() == 0) return Send(transport, bytes, 1, 1);
    Bytes got(1000);
    Bytes more(1);
    // The failure of the second tells that rank 0 has gone.
    const absl::Status gone = Receive(transport, more, 0, 2);
    MILLRACE_RETURN_IF_ERROR(Expect(absl::IsUnavailable(gone), gone.ToString()));
    MILLRACE_RETURN_IF_ERROR(Receive(transport, got, 0, 1));
    MILLRACE_RETURN_IF_ERROR(Expect(got == bytes, "bytes"));
    const absl::Status sent = Send(transport, bytes, 0, 1);
    return Expect(absl::IsUnavailable(sent), sent.ToString());
  });
}

TEST(TcpTransport, AKilledRankIsUnavailableByItsNumber) {
  const std::string address = absl::StrCat("tcp:127.0.0.1:", FreePort());
  Process one([&] {
    const auto transport = ConnectTcp(Options(address, 1, 2));
    Bytes bytes(1);
    if (transport.ok()) Send(**transport, bytes, 0, 1).IgnoreError();
    while (true) (*transport)->Idle(std::chrono::seconds(1));
    return std::string();
  });
  const auto transport = ConnectTcp(Options(address, 0, 2));
  ASSERT_TRUE(transport.ok()) << transport.status();
  Bytes bytes(1);
  EXPECT_TRUE(Receive(**transport, bytes, 1, 1).ok());
  Bytes sent(kLong);
  Bytes received(kLong);
  const auto send = (*transport)->Send(sent, 1, 2);
  const auto receive = (*transport)->Receive(received, 1, 2);
  ASSERT_TRUE(send.ok() && receive.ok());
  one.Kill();
  for (const Transport::Id id : {*send, *receive}) {
    const absl::Status status = WaitAll(**transport, {id});
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(ToStd(status.message())), HasSubstr("rank 1 is gone"));
    EXPECT_EQ(PeerLostOf(status).value_or(PeerLost{.rank = -1}).rank, 1);
  }
}

// Rank 0 sends much to rank 1; the one or the other gives up after `turns`, or it has ended by
// then.
absl::Status GiveUpAfter(Transport& transport, int turns, bool sender_gives_up) {
  const bool sends = transport.rank() == 0;
  auto memory = std::make_unique<Bytes>(Pattern(4 * kLong, sends ? 1 : 2));
  MILLRACE_ASSIGN_OR_RETURN(
      const auto id, sends ? transport.Send(*memory, 1, 1) : transport.Receive(*memory, 0, 1));
  bool ended = false;
  absl::Status status;
  for (int turn = 0; turn < turns && !ended; ++turn) {
    const absl::StatusOr<bool> test = transport.Test(id);
    status = test.status();
    ended = !test.ok() || *test;
    if (!ended) transport.Idle(std::chrono::milliseconds(1));
  }
  if (sends == sender_gives_up && !ended) {
    transport.Cancel(id);
    memory.reset();  // for AddressSanitizer: it is not touched any more
  }
  // What follows arrives, whatever was given up.
  Bytes token(1);
  Bytes result(1);
  MILLRACE_ASSIGN_OR_RETURN(const auto out, transport.Send(token, 1 - transport.rank(), 2));
  MILLRACE_ASSIGN_OR_RETURN(const auto in, transport.Receive(result, 1 - transport.rank(), 2));
  MILLRACE_RETURN_IF_ERROR(WaitAll(transport, {out, in}));
  if (memory == nullptr) return absl::OkStatus();
  if (sends) {
    if (!ended) transport.Cancel(id);
    return absl::OkStatus();
  }
  if (!ended) status = WaitAll(transport, {id});
  if (status.ok()) return Expect(*memory == Pattern(4 * kLong, 1), "the bytes that came");
  return Expect(absl::IsUnavailable(status), status.ToString());
}

TEST(TcpTransport, GivenUpMessagesLeaveThePairInStep) {
  for (int turns = 0; turns < 8; ++turns) {
    for (const bool sender_gives_up : {true, false}) {
      RunTransports(
          2, [&](Transport& transport) { return GiveUpAfter(transport, turns, sender_gives_up); });
    }
  }
}

TEST(TcpTransport, SplitOrdersByKeyAndKeepsGroupsApart) {
  RunTransports(4, [](Transport& transport) {
    const int rank = transport.rank();
    MILLRACE_ASSIGN_OR_RETURN(const auto half, Split(transport, rank % 2, -rank));
    MILLRACE_RETURN_IF_ERROR(
        Expect(half->size() == 2 && half->rank() == (rank < 2 ? 1 : 0), "place in the half"));
    MILLRACE_RETURN_IF_ERROR(Expect(half->local_size() == 2, "local size"));
    MILLRACE_ASSIGN_OR_RETURN(const auto again, Split(*half, 0, 0));
    // The same two ranks and tag in three groups, received in the other order.
    const int peer = (rank + 2) % 4;
    Transport* const groups[] = {&transport, half.get(), again.get()};
    const int peers[] = {peer, 1 - half->rank(), 1 - again->rank()};
    std::vector<Bytes> sent;
    std::vector<Transport::Id> ids;
    for (int i = 0; i < 3; ++i) sent.push_back(Pattern(8, 10 * rank + i));
    for (int i = 0; i < 3; ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const auto id, groups[i]->Send(sent[i], peers[i], 7));
      ids.push_back(id);
    }
    for (int i = 2; i >= 0; --i) {
      Bytes got(8);
      MILLRACE_RETURN_IF_ERROR(Receive(*groups[i], got, peers[i], 7));
      MILLRACE_RETURN_IF_ERROR(Expect(got == Pattern(8, 10 * peer + i), absl::StrCat("group ", i)));
    }
    return WaitAll(transport, ids);
  });
}

TEST(TcpTransport, AGroupThatIsGoneLeavesItsMemoryAlone) {
  RunTransports(2, [](Transport& transport) {
    MILLRACE_ASSIGN_OR_RETURN(auto group, Split(transport, 0, 0));
    const size_t sizes[] = {kLongestShort, kLong};
    Bytes token(1);
    if (transport.rank() == 1) {
      Bytes bytes = Pattern(kLongestShort, 1);
      MILLRACE_RETURN_IF_ERROR(Receive(transport, token, 0, 1));
      MILLRACE_RETURN_IF_ERROR(Send(*group, bytes, 0, 0));
      return Send(transport, token, 0, 1);
    }
    std::vector<Bytes> memory;
    for (const size_t size : sizes) memory.push_back(Bytes(size));
    for (uint32_t i = 0; i < 2; ++i) {
      MILLRACE_RETURN_IF_ERROR(group->Receive(memory[i], 1, i).status());
    }
    group.reset();
    MILLRACE_RETURN_IF_ERROR(Send(transport, token, 1, 1));
    MILLRACE_RETURN_IF_ERROR(Receive(transport, token, 1, 1));
    return Expect(memory[0] == Bytes(kLongestShort), "what a group that is gone has received");
  });
}

// More than a connection takes at once, so that most are queued when the group goes.
TEST(TcpTransport, PostedMessagesArriveThoughTheirGroupIsGone) {
  constexpr int kMessages = 300;
  RunTransports(2, [](Transport& transport) {
    MILLRACE_ASSIGN_OR_RETURN(auto group, Split(transport, 0, 0));
    Bytes token(1);
    if (transport.rank() == 0) {
      for (int i = 0; i < kMessages; ++i) {
        MILLRACE_RETURN_IF_ERROR(group->Post(Pattern(kLongestShort, i), 1, 0));
      }
      group.reset();
      return Receive(transport, token, 1, 1);
    }
    for (int i = 0; i < kMessages; ++i) {
      Bytes bytes(kLongestShort);
      MILLRACE_RETURN_IF_ERROR(Receive(*group, bytes, 0, 0));
      MILLRACE_RETURN_IF_ERROR(Expect(bytes == Pattern(kLongestShort, i), absl::StrCat(i)));
    }
    return Send(transport, token, 0, 1);
  });
}

// More than a rank may have on its way to one that does not take it.
TEST(TcpTransport, WhatIsSentToAGroupThatIsGoneIsTaken) {
  RunTransports(2, [](Transport& transport) {
    MILLRACE_ASSIGN_OR_RETURN(auto group, Split(transport, 0, 0));
    Bytes token(1);
    if (transport.rank() == 1) group.reset();
    for (int i = 0; i < 10; ++i) {
      const Bytes bytes = Pattern(60000, i);
      std::vector<Transport::Id> sent;
      for (int k = 0; k < 50 && group != nullptr; ++k) {
        MILLRACE_ASSIGN_OR_RETURN(const Transport::Id id, group->Send(bytes, 1, 0));
        sent.push_back(id);
      }
      // It is with the other rank when that answers.
      for (const bool sends : {transport.rank() == 0, transport.rank() == 1}) {
        const int peer = 1 - transport.rank();
        MILLRACE_RETURN_IF_ERROR(sends ? Send(transport, token, peer, 1)
                                       : Receive(transport, token, peer, 1));
      }
      for (const Transport::Id id : sent) {
        MILLRACE_ASSIGN_OR_RETURN(const bool ended, group->Test(id));
        MILLRACE_RETURN_IF_ERROR(Expect(ended, absl::StrCat("message ", 50 * i, " is not sent")));
      }
    }
    return absl::OkStatus();
  });
}

TEST(TcpTransport, AbortEndsThisRankAndIsSeenByTheOthers) {
  RunTransports(2, [](Transport& transport) {
    Bytes bytes(kLong);
    MILLRACE_ASSIGN_OR_RETURN(const auto id, transport.Receive(bytes, 1 - transport.rank(), 1));
    if (transport.rank() == 0) transport.Abort(absl::CancelledError("enough"));
    const absl::Status status = WaitAll(transport, {id});
    return Expect(transport.rank() == 0 ? absl::IsCancelled(status) : absl::IsUnavailable(status),
                  status.ToString());
  });
}

}  // namespace
}  // namespace millrace::collectives
