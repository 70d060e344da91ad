#include "collectives/message_server.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <thread>

#include "collectives/net/message_frame.h"
#include "collectives/net/socket.h"

namespace millrace::collectives {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::seconds kGuard{30};  // against a test that hangs
constexpr MessageLimits kLimits = {1000, uint64_t{1} << 24};

class MessageServerTest : public ::testing::Test {
 protected:
  void Start(const StrangerLimits& limits = {}) {
    auto server = MessageServer::Listen("", limits);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<MessageConnection> Connect() {
    auto connection = MessageConnection::Connect(server_->places(), kGuard);
    EXPECT_TRUE(connection.ok()) << connection.status();
    (*connection)->set_limits(kLimits);
    return *std::move(connection);
  }
  // A connection that says what it likes.
  Socket ConnectRaw(std::string_view says) {
    const auto place = ParseHostPort(server_->places());
    auto socket = collectives::Connect(Resolve(*place)->front(), After(kGuard));
    EXPECT_TRUE(socket.ok() && SendAll(*socket, says, After(kGuard)).ok());
    return *std::move(socket);
  }
  MessageServer::Event Next() {
    const Deadline limit = After(kGuard);
    while (events_.empty() && std::chrono::steady_clock::now() < limit) {
      auto events = server_->Wait(limit);
      EXPECT_TRUE(events.ok()) << events.status();
      for (auto& event : *events) events_.push_back(std::move(event));
    }
    if (events_.empty()) return {};
    MessageServer::Event event = std::move(events_.front());
    events_.erase(events_.begin());
    return event;
  }
  // Its first message lets a client in. Returns its number.
  int LetIn(MessageConnection& client) {
    EXPECT_TRUE(client.Send("hello", "", kGuard).ok());
    const MessageServer::Event event = Next();
    server_->Admit(event.client, kLimits);
    return event.client;
  }
  // True once the server has closed the connection.
  bool IsClosed(const Socket& socket) {
    const Deadline limit = After(kGuard);
    char byte = 0;
    while (std::chrono::steady_clock::now() < limit) {
      (void)server_->Wait(After(std::chrono::milliseconds(1)));
      const ssize_t count = ::recv(socket.fd(), &byte, 1, MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    }
    return false;
  }

  std::unique_ptr<MessageServer> server_;
  std::vector<MessageServer::Event> events_;
};

TEST_F(MessageServerTest, MessagesOfAnySizeGoBothWays) {
  Start();
  auto client = Connect();
  const int number = LetIn(*client);
  const std::string large(uint64_t{1} << 24, 'x');
  std::thread other([&] {
    EXPECT_TRUE(client->Send("large", large, kGuard).ok());
    const auto answer = client->Receive(kGuard);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->header, "answer");
    EXPECT_EQ(answer->payload, large);
    EXPECT_TRUE(client->Send("", "", kGuard).ok());
  });
  const MessageServer::Event event = Next();
  EXPECT_EQ(event.client, number);
  ASSERT_TRUE(event.message.has_value());
  EXPECT_EQ(event.message->header, "large");
  EXPECT_EQ(event.message->payload, large);
  server_->Send(number, {"answer", large});
  EXPECT_EQ(Next().message->header, "");
  other.join();
}

TEST_F(MessageServerTest, AClientThatIsGoneIsAnEvent) {
  Start();
  auto client = Connect();
  const int number = LetIn(*client);
  client.reset();
  const MessageServer::Event event = Next();
  EXPECT_EQ(event.client, number);
  EXPECT_FALSE(event.message.has_value());
  EXPECT_EQ(event.why.code(), absl::StatusCode::kUnavailable);
}

TEST_F(MessageServerTest, AMessageOverTheLimitsEndsTheConnection) {
  Start();
  auto client = Connect();
  LetIn(*client);
  ASSERT_TRUE(client->Send(std::string(kLimits.header_bytes + 1, 'x'), "", kGuard).ok());
  const MessageServer::Event event = Next();
  EXPECT_EQ(event.why.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(event.why.message()), HasSubstr("1001 + 0 bytes is over the limit"));
}

TEST_F(MessageServerTest, StrangersWithOtherBytesOrLargeMessagesAreClosed) {
  Start();
  EXPECT_TRUE(IsClosed(ConnectRaw("GET / HTTP/1.1\r\nHost: node1\r\n\r\n")));
  // The sizes alone, of more memory than there is.
  std::string frame = FrameOf("", "");
  frame[15] = '\x7f';
  EXPECT_TRUE(IsClosed(ConnectRaw(frame)));
}

TEST_F(MessageServerTest, AStrangerThatIsSilentIsClosed) {
  StrangerLimits limits;
  limits.introduction = std::chrono::milliseconds(1);
  Start(limits);
  EXPECT_TRUE(IsClosed(ConnectRaw("")));
}

TEST_F(MessageServerTest, ManyStrangersKeepNobodyFromComing) {
  StrangerLimits limits;
  limits.connections = 4;
  limits.introduction = std::chrono::hours(1);
  Start(limits);
  auto client = Connect();
  const int number = LetIn(*client);
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(ConnectRaw("1"));
    (void)server_->Wait(After(kGuard));
  }
  EXPECT_TRUE(IsClosed(strangers[0]));
  auto late = Connect();
  EXPECT_NE(LetIn(*late), number);
  ASSERT_TRUE(client->Send("still here", "", kGuard).ok());
  EXPECT_EQ(Next().client, number);
}

TEST_F(MessageServerTest, AClientThatIsClosedGetsWhatWasSentBefore) {
  Start();
  auto client = Connect();
  const int number = LetIn(*client);
  server_->Send(number, {"last words", ""});
  server_->Close(number);
  const auto words = client->Receive(kGuard);
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->header, "last words");
  EXPECT_EQ(client->Receive(kGuard).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(MessageServerTest, AWaitForAMessageHasALimit) {
  Start();
  auto client = Connect();
  const absl::Status status = client->Receive(std::chrono::milliseconds(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(MessageServerTest, ItGoesOnWithAConnectionThatItHasMadeItself) {
  Start();
  const auto first = std::move(server_);
  Start();
  auto connection = MessageConnection::Connect(first->places(), kGuard);
  ASSERT_TRUE(connection.ok()) << connection.status();
  ASSERT_TRUE((*connection)->Send("hello", "", kGuard).ok());
  const int link = server_->Adopt(*std::move(connection));
  auto events = first->Wait(After(kGuard));
  while (events.ok() && events->empty()) events = first->Wait(After(kGuard));
  ASSERT_TRUE(events.ok()) << events.status();
  first->Admit(events->front().client, kLimits);
  first->Send(events->front().client, {"welcome", ""});
  const MessageServer::Event event = Next();
  EXPECT_EQ(event.client, link);
  EXPECT_EQ(event.message->header, "welcome");
}

TEST_F(MessageServerTest, PlacesOfOtherFormsAreRefused) {
  EXPECT_EQ(MessageServer::Listen("nowhere").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageConnection::Connect("nowhere", kGuard).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::collectives
