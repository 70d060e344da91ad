#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collectives/net/socket.h"
#include "collectives/net/wire.h"
#include "tests/collectives/net/rendezvous_conformance.h"

namespace millrace::collectives {
namespace {

constexpr short kReadable = POLLIN;
constexpr std::chrono::milliseconds kSoon{20};  // for what never comes

INSTANTIATE_TEST_SUITE_P(Server, Rendezvous, testing::Values(Way::kServer));
using ServerRendezvous = Rendezvous;
INSTANTIATE_TEST_SUITE_P(Server, ServerRendezvous, testing::Values(Way::kServer));

TEST_P(ServerRendezvous, AnAddressThatIsTakenIsAnErrorOnEveryRank) {
  const auto place = ParseHostPort(std::string_view(address_).substr(4));
  ASSERT_TRUE(place.ok());
  const auto taken = Listen(place->host, place->port);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const auto zero = Start(Options(0, 2));
  const auto one = Start(Options(1, 2), {.welcome = kSoon});
  EXPECT_MESSAGE(ErrorIn(zero->Await()), absl::StatusCode::kAlreadyExists);
  EXPECT_MESSAGE(ErrorIn(one->Await()), absl::StatusCode::kFailedPrecondition);
}

TEST_P(ServerRendezvous, AnotherProgramThatAnswersIsAnError) {
  const auto place = ParseHostPort(std::string_view(address_).substr(4));
  ASSERT_TRUE(place.ok());
  const auto taken = Listen(place->host, place->port);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const auto one = Start(Options(1, 2), {.welcome = kLong});
  ASSERT_TRUE(WaitFor(*taken, kReadable, After(kLong)));
  const Socket guest = Accept(*taken).value_or(Socket());
  EXPECT_TRUE(SendAll(guest, "HTTP/1.1 400 Bad Request\r\n\r\n", After(kLong)).ok());
  EXPECT_MESSAGE(ErrorIn(one->Await()), absl::StatusCode::kFailedPrecondition);
}

TEST_P(ServerRendezvous, TheTimeThatIsSaidIsThatOfTheLeastPatientRank) {
  const auto zero = Start(Options(0, 3), OverWhenMet(2));
  const auto one = Start(Options(1, 3, std::chrono::seconds(50)));
  for (Process* const rank : {zero.get(), one.get()}) {
    EXPECT_MESSAGE(ErrorIn(rank->Await()), absl::StatusCode::kDeadlineExceeded, "both");
  }
}

// `hostname -i` may give another than 127.0.0.1.
TEST_P(ServerRendezvous, RanksMeetAtAnyAddressOfTheLoopback) {
  for (const char* host : {"127.0.1.1", "127.1", "localhost"}) {
    RendezvousOptions zero = Options(0, 2);
    RendezvousOptions one = Options(1, 2);
    zero.address = one.address = absl::StrCat(host, ":", FreePort());
    const auto first = Start(zero);
    const auto second = Start(one);
    EXPECT_EQ(first->Await(), "r0 r1") << host;
    EXPECT_EQ(second->Await(), "r0 r1") << host;
  }
}

// The resolver is not asked, which may know no localhost, or ::1 alone.
TEST(Resolve, LocalhostIsTheLoopbackAddressThatIsListenedOn) {
  EXPECT_EQ(Resolve({"localhost", 7001}).value(), std::vector{LoopbackAddress(7001)});
}

// A connection to rank 0, which may still have to listen.
Socket Stranger(const std::string& address) {
  const auto place = ParseHostPort(std::string_view(address).substr(4));
  EXPECT_TRUE(place.ok());
  const std::string where = Resolve(*place).value().front();
  const Deadline deadline = After(kLong);
  absl::StatusOr<Socket> stranger = absl::UnavailableError("not yet");
  while (!stranger.ok() && std::chrono::steady_clock::now() < deadline) {
    stranger = Connect(where, deadline);
  }
  EXPECT_TRUE(stranger.ok()) << stranger.status();
  return std::move(stranger).value_or(Socket());
}

TEST_P(ServerRendezvous, TheTimeOfTheLeastPatientRankIsThatOfAll) {
  const auto zero = Start(Options(0, 3, std::chrono::hours(1)));
  const Socket one = Stranger(address_);
  WireWriter hello;  // it has nothing left of 7 seconds
  hello.Add("this job").Add(uint32_t{3}).Add(uint32_t{1}).Add(uint64_t{0}).Add(uint64_t{7000});
  hello.Add("r1");
  const std::string head = std::string("MRV1\1\0\0\0", 8) +
                           WireWriter().Add(static_cast<uint32_t>(hello.text().size())).text();
  EXPECT_TRUE(SendAll(one, head + hello.text(), After(kLong)).ok());
  ASSERT_TRUE(Ends(*zero));
  EXPECT_MESSAGE(ErrorIn(zero->Await()), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(ServerRendezvous, StrangersChangeNothing) {
  const auto zero = Start(Options(0, 2));
  std::vector<Socket> strangers;
  for (const std::string& text : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("MRV1"),
                                  std::string(), std::string("MRV1\1\0\0\0\xff\xff\xff\xff", 12),
                                  std::string("MRV1\1\0\0\0\4\0\0\0\xff\xff\xff\xff", 16)}) {
    strangers.push_back(Stranger(address_));
    EXPECT_TRUE(SendAll(strangers.back(), text, After(kLong)).ok());
  }
  const auto one = Start(Options(1, 2));
  EXPECT_EQ(zero->Await(), "r0 r1");
  EXPECT_EQ(one->Await(), "r0 r1");
}

TEST_P(ServerRendezvous, ManyWhoSayNothingKeepNoRankFromComing) {
  const auto zero = Start(Options(0, 2));
  std::vector<Socket> strangers;
  for (int i = 0; i < 70; ++i) strangers.push_back(Stranger(address_));
  const auto one = Start(Options(1, 2));
  EXPECT_EQ(zero->Await(), "r0 r1");
  EXPECT_EQ(one->Await(), "r0 r1");
}

TEST_P(ServerRendezvous, WhoSaysNothingIsSentAway) {
  const auto zero = Start(Options(0, 2), {.introduction = kSoon});
  const Socket stranger = Stranger(address_);
  char byte;
  const absl::Status left = ReceiveAll(stranger, &byte, 1, After(kLong));
  EXPECT_TRUE(absl::IsUnavailable(left)) << left;
  // It tries again where it did not get a core in time to say who it is.
  const auto one = Start(Options(1, 2));
  EXPECT_EQ(zero->Await(), "r0 r1");
  EXPECT_EQ(one->Await(), "r0 r1");
}

TEST_P(ServerRendezvous, AFailureIsToldInTheSameWordsToRanksThatComeLater) {
  const auto zero = Start(Options(0, 3), {.refusal = kLong});
  const std::string first = Start(Options(1, 4))->Await();
  EXPECT_MESSAGE(ErrorIn(first), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Start(Options(2, 3))->Await(), first);
  EXPECT_EQ(Start(Options(3, 4))->Await(), first);
  EXPECT_EQ(zero->Await(), first);
}

TEST_P(ServerRendezvous, ARankThatComesAfterTwoOfOneNumberIsTold) {
  const auto zero = Start(Options(0, 3), {.refusal = kLong});
  const auto once = Start(Options(1, 3));
  const std::string twice = Start(Options(1, 3))->Await();
  EXPECT_MESSAGE(ErrorIn(twice), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(once->Await(), twice);
  EXPECT_EQ(Start(Options(2, 3))->Await(), twice);
  EXPECT_EQ(zero->Await(), twice);
}

TEST_P(ServerRendezvous, WithoutDescriptorsRankZeroSaysWhatToDo) {
  // Made before the limit: UndefinedBehaviorSanitizer looks at objects through a pipe.
  const RendezvousOptions options = Options(0, 2);
  Process zero([&options] {
    const int next = ::dup(0);  // the listener's
    ::close(next);
    const rlimit limit{static_cast<rlim_t>(next) + 1, static_cast<rlim_t>(next) + 1};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return std::string("setrlimit");
    return Said(RunRendezvous(options, ""));
  });
  const auto one = Start(Options(1, 2));  // ended with the test
  EXPECT_MESSAGE(ErrorIn(zero.Await()), absl::StatusCode::kResourceExhausted);
}

TEST_P(ServerRendezvous, WhoWaitsForARankZeroThatDiesIsTold) {
  const auto place = ParseHostPort(std::string_view(address_).substr(4));
  ASSERT_TRUE(place.ok());
  auto zero = Listen(place->host, place->port);
  ASSERT_TRUE(zero.ok()) << zero.status();
  const auto one = Start(Options(1, 3), {.welcome = kLong});
  ASSERT_TRUE(WaitFor(*zero, kReadable, After(kLong)));
  Socket guest = Accept(*zero).value_or(Socket());
  EXPECT_TRUE(SendAll(guest, std::string("MRV1\2\0\0\0\0\0\0\0", 12), After(kLong)).ok());
  zero->Close();
  guest.Close();
  EXPECT_MESSAGE(ErrorIn(one->Await()), absl::StatusCode::kUnavailable);
}

TEST(RendezvousAddress, IsChecked) {
  for (const char* good : {"tcp:host:1", "host:65535", "tcp://host:1", "[::1]:29500", "127.0.0.1:1",
                           "file:/a", "file:relative", "/folder", "file:///a"}) {
    EXPECT_TRUE(CheckRendezvousAddress(good).ok()) << good;
  }
  for (const char* bad : {"", "host", "host:", "host:0", "host:65536", "host:-1", ":29500",
                          "::1:29500", "tcp:", "file:", "host:29500x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckRendezvousAddress(bad))) << bad;
  }
}

TEST(RendezvousOptions, AreChecked) {
  const auto with = [](int rank, int size, size_t bytes) {
    RendezvousOptions options;
    options.address = "127.0.0.1:1";
    options.rank = rank;
    options.size = size;
    return RunRendezvous(options, std::string(bytes, 'x')).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(with(2, 2, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(with(-1, 2, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(with(0, 0, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(with(0, 1025, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(with(0, 2, 60001)));
}

}  // namespace
}  // namespace millrace::collectives
