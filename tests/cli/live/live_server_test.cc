#include "cli/live/live_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "cli/live/folder.h"
#include "cli/live/live_client.h"
#include "cli/live/slow_answer.h"
#include "cli/live/tracer.h"

namespace millrace::cli {
namespace {

using testing::HasSubstr;

// A folder below the working folder of the test.
class LiveTest : public testing::Test {
 protected:
  LiveTest() {
    char name[] = "/tmp/millrace_live_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~LiveTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LiveServer> Start(LiveServer::Source source, Tracer tracer = {}) {
    auto server = LiveServer::Start(folder_, "job", std::move(source), std::move(tracer));
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  std::string path() const { return SocketPath(folder_, getpid(), "job"); }
  // A connection that nobody reads from.
  UniqueFd Connect() const {
    UniqueFd client(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path().c_str());
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }

  std::string folder_;
};

TEST_F(LiveTest, AnswersEachConnectionWithANewText) {
  int asked = 0;
  const auto server = Start([&asked] { return "text " + std::to_string(++asked); });
  EXPECT_EQ(*AskText(path()), "text 1");
  EXPECT_EQ(*AskText(path()), "text 2");
}

TEST_F(LiveTest, AClientIsDroppedWhoseTextCannotBeMade) {
  int asked = 0;
  const auto server = Start([&asked]() -> std::string {
    if (++asked == 1) throw std::bad_alloc();
    return "text";
  });
  EXPECT_EQ(AskText(path()).value_or(""), "");
  EXPECT_EQ(*AskText(path()), "text");
}

TEST_F(LiveTest, AClientThatSaysNothingGetsTheFigures) {
  const auto server = Start([] { return "figures"; });
  const UniqueFd client = Connect();
  char text[16] = {};
  EXPECT_EQ(recv(client.get(), text, sizeof(text), 0), 7);
  EXPECT_STREQ(text, "figures");
}

TEST_F(LiveTest, ALineWithoutItsEndIsTakenWhenTheClientClosesItsSide) {
  const auto server = Start([] { return "figures"; });
  const UniqueFd client = Connect();
  EXPECT_EQ(send(client.get(), "trace 60", 8, 0), 8);
  shutdown(client.get(), SHUT_WR);
  char text[64] = {};
  EXPECT_GT(recv(client.get(), text, sizeof(text) - 1, 0), 0);
  EXPECT_EQ(std::string(text), "error: the program writes a trace itself (--trace)");
}

// The whole answer to a line.
std::string AnswerTo(const std::string& path, std::string_view line) {
  auto answer = SlowAnswer::Ask(path, line);
  EXPECT_TRUE(answer.ok()) << answer.status();
  while (answer.ok()) {
    const auto is_whole = answer->Take();
    EXPECT_TRUE(is_whole.ok()) << is_whole.status();
    if (!is_whole.ok() || *is_whole) return answer->text();
    pollfd watched{answer->fd(), POLLIN, 0};
    poll(&watched, 1, -1);
  }
  return "";
}

TEST_F(LiveTest, ATraceIsAnsweredWhenItsTimeIsOver) {
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  const auto server = Start([] { return "figures"; }, {[&] { ++begun; },
                                                       [&] {
                                                         ++ended;
                                                         return "trace";
                                                       }});
  EXPECT_EQ(*AskText(path()), "figures");
  EXPECT_EQ(begun, 0);
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(AnswerTo(path(), TraceRequest(0.01)), "trace");
    EXPECT_EQ(begun, i);
    EXPECT_EQ(ended, i);
  }
}

TEST_F(LiveTest, MeanwhileFiguresAreAnsweredAndOtherTracesRefused) {
  std::atomic<bool> ended = false;
  const auto server = Start([] { return "figures"; }, {[] {},
                                                       [&] {
                                                         ended = true;
                                                         return "trace";
                                                       }});
  const auto first = SlowAnswer::Ask(path(), TraceRequest(60));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(AnswerTo(path(), TraceRequest(60)), "error: another trace is under way");
  std::vector<UniqueFd> idle(20);
  for (UniqueFd& client : idle) client = Connect();
  EXPECT_EQ(*AskText(path(), std::chrono::minutes(1)), "figures");
  EXPECT_FALSE(ended);
}  // nor does the end of the server wait for the trace

TEST_F(LiveTest, WithoutMemoryForItATraceIsRefused) {
  const auto server =
      Start([] { return "figures"; }, {[] { throw std::bad_alloc(); }, [] { return "trace"; }});
  EXPECT_EQ(AnswerTo(path(), TraceRequest(0.01)), "error: the program has no memory for a trace");
}

TEST_F(LiveTest, MakesNothingBeforeSomebodyAsks) {
  std::atomic<bool> asked = false;
  {
    const auto server = Start([&asked] {
      asked = true;
      return "";
    });
  }
  EXPECT_FALSE(asked);
}

TEST_F(LiveTest, ALongTextComesWhole) {
  const std::string text(5 << 20, 'x');
  const auto server = Start([&text] { return text; });
  EXPECT_EQ(*AskText(path(), std::chrono::minutes(1)), text);
}

TEST_F(LiveTest, ClientsThatDoNotReadHoldUpNobody) {
  const std::string text(5 << 20, 'x');
  const auto server = Start([&text] { return text; });
  std::vector<UniqueFd> idle(20);
  for (UniqueFd& client : idle) client = Connect();
  EXPECT_EQ(*AskText(path(), std::chrono::minutes(1)), text);
}  // nor the end of the server

TEST_F(LiveTest, TheSocketIsOfThisUserAloneAndGoesWithTheServer) {
  {
    const auto server = Start([] { return ""; });
    struct stat found {};
    ASSERT_EQ(lstat(path().c_str(), &found), 0);
    EXPECT_TRUE(S_ISSOCK(found.st_mode));
    EXPECT_EQ(found.st_mode & 0777, 0600u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_EQ(AskText(path()).status().code(), absl::StatusCode::kNotFound);
}

// Leaves a socket on which nobody listens any more, as a killed process does.
void LeaveStale(const std::string& path) {
  const UniqueFd left(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
  ASSERT_EQ(bind(left.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
}

TEST_F(LiveTest, StaleSocketsAreRemovedByTheNextLook) {
  LeaveStale(SocketPath(folder_, 12345, "other"));
  const auto server = Start([] { return R"({"pid": 7, "command": "run"})"; });
  const std::vector<Running> running = AskAll(folder_);
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0].socket.pid, getpid());
  EXPECT_EQ(running[0].socket.name, "job");
  ASSERT_TRUE(running[0].snapshot.ok()) << running[0].snapshot.status();
  EXPECT_EQ(running[0].snapshot->pid, 7);
  EXPECT_FALSE(std::filesystem::exists(SocketPath(folder_, 12345, "other")));
}

// The number of a process that has ended.
int64_t DeadPid() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

TEST_F(LiveTest, SocketsOfDeadProcessesAreRemovedWithoutAskingOthers) {
  const int64_t dead = DeadPid();
  std::atomic<bool> asked = false;
  const auto server = Start([&asked] {
    asked = true;
    return "";
  });
  LeaveStale(SocketPath(folder_, dead, "job"));
  RemoveStale(folder_);
  EXPECT_FALSE(std::filesystem::exists(SocketPath(folder_, dead, "job")));
  EXPECT_TRUE(std::filesystem::exists(path()));
  EXPECT_FALSE(asked);
}

TEST_F(LiveTest, AStaleSocketOfTheSameNameIsReplaced) {
  LeaveStale(path());
  const auto server = Start([] { return "new"; });
  EXPECT_EQ(*AskText(path()), "new");
}

TEST_F(LiveTest, AProcessThatDoesNotAnswerIsToldFromOneThatHasEnded) {
  const UniqueFd silent(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path().c_str());
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(silent.get(), 1), 0);
  EXPECT_EQ(AskText(path(), std::chrono::milliseconds(10)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LiveTest, ANameThatDoesNotFitIsAnErrorAndLeavesNothing) {
  const auto server = LiveServer::Start(folder_, std::string(100, 'x'), [] { return ""; });
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  const auto nowhere = LiveServer::Start(folder_ + "/no", "job", [] { return ""; });
  EXPECT_FALSE(nowhere.ok());
}

class FolderTest : public LiveTest {
 protected:
  absl::StatusOr<std::string> Folder(const std::string& runtime) const {
    return LiveFolder(runtime.empty() ? nullptr : runtime.c_str(), folder_ + "/");
  }
  void Make(const std::string& below) const {
    std::filesystem::create_directories(folder_ + "/" + below);
  }
  const std::string user_ = std::to_string(geteuid());
};

TEST_F(FolderTest, TheFirstPlaceOfThisUserIsTaken) {
  EXPECT_EQ(Folder("").status().code(), absl::StatusCode::kNotFound);
  Make("tmp");
  EXPECT_EQ(*Folder(""), folder_ + "/tmp/millrace-" + user_);
  Make("run/user/" + user_);
  EXPECT_EQ(*Folder(""), folder_ + "/run/user/" + user_ + "/millrace");
  Make("xdg");
  EXPECT_EQ(*Folder(folder_ + "/xdg"), folder_ + "/xdg/millrace");
  EXPECT_EQ(*Folder(folder_ + "/gone"), folder_ + "/run/user/" + user_ + "/millrace");
  EXPECT_EQ(*Folder("relative"), folder_ + "/run/user/" + user_ + "/millrace");
}

TEST_F(FolderTest, TheFolderIsMadeForThisUserAlone) {
  Make("tmp");
  struct stat found {};
  ASSERT_EQ(lstat(Folder("")->c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST_F(FolderTest, AFolderThatOthersMayUseIsRefused) {
  Make("tmp");
  const std::string path = *Folder("");
  chmod(path.c_str(), 0770);
  EXPECT_EQ(Folder("").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Folder("").status().message()), HasSubstr("chmod 700"));
}

TEST_F(FolderTest, ALinkOrAFileInItsPlaceIsRefused) {
  Make("tmp");
  const std::string path = folder_ + "/tmp/millrace-" + user_;
  std::filesystem::create_directory_symlink(folder_, path);
  EXPECT_EQ(Folder("").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(FolderTest, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  Make("tmp");
  const std::string path = *Folder("");
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Folder("").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Folder("").status().message()), HasSubstr("belongs to user 65534"));
}

TEST_F(FolderTest, OtherFilesOfTheFolderAreNoSockets) {
  for (const char* const name : {"x.sock", "12.sock", "12-.sock", "x-job.sock", "12-job", ".12"}) {
    std::fclose(std::fopen((folder_ + "/" + name).c_str(), "w"));
  }
  std::fclose(std::fopen((folder_ + "/34-job.sock").c_str(), "w"));
  std::fclose(std::fopen((folder_ + "/12-my-job.x.sock").c_str(), "w"));
  const std::vector<LiveSocket> sockets = ListSockets(folder_);
  ASSERT_EQ(sockets.size(), 2u);
  EXPECT_EQ(sockets[0].name, "my-job.x");
  EXPECT_EQ(sockets[1].pid, 34);
  EXPECT_TRUE(ListSockets(folder_ + "/no").empty());
}

}  // namespace
}  // namespace millrace::cli
