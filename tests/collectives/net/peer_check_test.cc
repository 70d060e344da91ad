#include "collectives/net/peer_check.h"

#include <poll.h>

#include <thread>

#include "base/status.h"
#include "gmock/gmock.h"
#include "tests/collectives/processes.h"
#include "tests/messages.h"

namespace millrace::collectives {
namespace {

constexpr std::chrono::seconds kLong{60};  // a guard against hangs
constexpr std::chrono::milliseconds kTurn{1000};

// Waits for a byte.
absl::Status AwaitAnswer(const Socket& socket, Deadline deadline) {
  char byte;
  return ReceiveAll(socket, &byte, 1, deadline);
}

class PeerCheckTest : public testing::Test {
 protected:
  PeerCheckTest() : listener_(Listen("127.0.0.1", 0).value_or(Socket())) {
    const auto port = PortOf(listener_);
    EXPECT_TRUE(port.ok()) << port.status();
    address_ = LoopbackAddress(port.value_or(0));
  }
  // The next connection.
  Socket Taken() {
    EXPECT_TRUE(WaitFor(listener_, POLLIN, After(kLong)));
    return Accept(listener_).value_or(Socket());
  }
  void Answer() {
    const Socket guest = Taken();
    EXPECT_TRUE(SendAll(guest, "x", After(kLong)).ok());
  }
  // Nobody listens there.
  static std::string Nowhere() { return LoopbackAddress(FreePort()); }
  static PeerCheckLimits Limits() { return {After(kLong), kTurn}; }

  Socket listener_;
  std::string address_;
};

TEST_F(PeerCheckTest, TheFirstAddressThatAnswersIsTaken) {
  std::thread peer([this] { Answer(); });
  const auto reached = ConnectChecked({Nowhere(), address_}, {After(kLong), kLong}, AwaitAnswer);
  EXPECT_TRUE(reached.ok()) << reached.status();
  peer.join();
}

TEST_F(PeerCheckTest, WhoDoesNotAnswerInItsTurnIsTriedAgain) {
  std::thread peer([this] {
    const Socket busy = Taken();
    char byte;
    EXPECT_TRUE(absl::IsUnavailable(ReceiveAll(busy, &byte, 1, After(kLong))));
    Answer();
  });
  const auto reached = ConnectChecked({address_, Nowhere()}, Limits(), AwaitAnswer);
  EXPECT_TRUE(reached.ok()) << reached.status();
  peer.join();
}

TEST_F(PeerCheckTest, WhoHangsUpIsTriedAgain) {
  std::thread peer([this] {
    for (int i = 0; i < 2; ++i) Taken().Close();
    Answer();
  });
  const auto reached = ConnectChecked({address_}, Limits(), AwaitAnswer);
  EXPECT_TRUE(reached.ok()) << reached.status();
  peer.join();
}

TEST_F(PeerCheckTest, WhoIsSomebodyElseIsNotAskedAgain) {
  int asked = 0;
  const auto reached =
      ConnectChecked({address_, Nowhere()}, Limits(), [&](const Socket&, Deadline) {
        ++asked;
        return absl::FailedPreconditionError("somebody else");
      });
  EXPECT_EQ(asked, 1);
  EXPECT_MESSAGE(reached.status(), absl::StatusCode::kUnavailable);
}

TEST_F(PeerCheckTest, NobodyAtAnyAddressIsAnErrorThatNamesEach) {
  const std::string one = Nowhere();
  const std::string other = Nowhere();
  // For ever, were they tried until then.
  const auto reached = ConnectChecked({one, other}, {Deadline::max(), kTurn}, AwaitAnswer);
  EXPECT_MESSAGE(reached.status(), absl::StatusCode::kUnavailable);
}

TEST_F(PeerCheckTest, SilenceEndsAtTheDeadline) {
  const auto reached = ConnectChecked({address_, address_}, {After(2 * kTurn), kTurn}, AwaitAnswer);
  EXPECT_TRUE(absl::IsUnavailable(reached.status())) << reached.status();
}

}  // namespace
}  // namespace millrace::collectives
