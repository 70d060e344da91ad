#include <algorithm>
#include <cstdlib>
#include <thread>

#include "readers/http/file.h"
#include "readers/open_file.h"
#include "tests/messages.h"
#include "tests/readers/http/http_server.h"
#include "tests/readers/record_test_util.h"

// A server made by hand shows what a real one does rarely; http_nginx_test.cc has a real one.

namespace millrace::readers {
namespace {

using Code = absl::StatusCode;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string Text(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + i * i % 23));
  return text;
}

HttpOptions Quick() {
  HttpOptions options;
  options.backoff = milliseconds(0);
  options.max_backoff = milliseconds(0);
  options.block_bytes = 100;
  options.cache_bytes = 400;
  options.read_ahead_blocks = 0;
  return options;
}

absl::StatusOr<std::shared_ptr<const RandomAccessFile>> Open(const std::string& url,
                                                             const HttpOptions& options) {
  const auto files = HttpFiles::Make(options);
  if (!files.ok()) return files.status();
  const auto opened = (*files)->Open({&url, 1});
  if (!opened.ok()) return opened.status();
  return opened->front().file;
}

absl::StatusOr<std::string> Read(const RandomAccessFile& file, uint64_t offset, size_t size) {
  std::string out(size, '?');
  const auto got = file.ReadAt(offset, std::as_writable_bytes(std::span(out)));
  if (!got.ok()) return got.status();
  return out.substr(0, *got);
}

// What a read of bytes 0 to 99 of a file of 200 comes to, where its server answers the request that
// opens it well and those after it with `answers`.
absl::Status StatusOfRead(std::vector<Answer> answers, HttpOptions options = Quick()) {
  answers.insert(answers.begin(), Good(Text(200)));
  const ScriptServer server(std::move(answers));
  const auto file = Open(server.Url("a.tfrecord"), options);
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return file.status();
  const auto read = Read(**file, 0, 100);
  if (!read.ok()) {
    EXPECT_THAT(read.status().message(), HasSubstr(server.Url("a.tfrecord")));
    EXPECT_THAT(read.status().message(), HasSubstr("at offset "));
    return read.status();
  }
  EXPECT_EQ(*read, Text(100));
  return absl::OkStatus();
}

class HttpFileTest : public testing::Test {
 protected:
  HttpFileTest() { ::setenv("no_proxy", "127.0.0.1", 1); }
};

TEST_F(HttpFileTest, AnyReadHasTheBytesOfTheFile) {
  const std::string text = Text(1050);
  const ScriptServer server({Good(text)});
  for (const int ahead : {0, 3}) {
    HttpOptions options = Quick();
    options.read_ahead_blocks = ahead;
    const auto file = Open(server.Url("a"), options);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->size(), text.size());
    for (const auto& [offset, size] : std::vector<std::pair<uint64_t, size_t>>{{0, 10},
                                                                               {10, 90},
                                                                               {90, 20},
                                                                               {1000, 50},
                                                                               {1000, 51},
                                                                               {0, 1050},
                                                                               {1049, 1},
                                                                               {1050, 1},
                                                                               {5000, 3},
                                                                               {350, 0},
                                                                               {199, 702}}) {
      const auto read = Read(**file, offset, size);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, offset < text.size() ? text.substr(offset, size) : "") << offset;
    }
  }
}

TEST_F(HttpFileTest, WhatIsInMemoryIsCopiedWithoutARequest) {
  const ScriptServer server({Good(Text(1000))});
  const auto file = Open(server.Url("a"), Quick());
  ASSERT_TRUE(file.ok() && Read(**file, 150, 100).ok());
  const size_t num_requests = server.requests().size();
  EXPECT_EQ(num_requests, 3u) << "one to open it, one for each block";
  std::string out(200, '?');
  EXPECT_TRUE((*file)->TryReadAt(100, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(out, Text(1000).substr(100, 200));
  EXPECT_FALSE((*file)->TryReadAt(250, std::as_writable_bytes(std::span(out))));
  EXPECT_FALSE((*file)->TryReadAt(900, std::as_writable_bytes(std::span(out))));
  EXPECT_EQ(Read(**file, 150, 150).value(), Text(1000).substr(150, 150));
  EXPECT_EQ(server.requests().size(), num_requests);
}

TEST_F(HttpFileTest, ReadersOfOneBlockWaitForOneRequest) {
  const ScriptServer server({Good(Text(100))});
  const auto file = Open(server.Url("a"), Quick());
  ASSERT_TRUE(file.ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(Read(**file, 0, 100).value(), Text(100)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(HttpFileTest, OpeningAndReadingEndWhereTheCallerWantsThat) {
  const auto silent = [](Exchange& exchange) { exchange.WaitUntilClientIsGone(); };
  for (const bool opens : {false, true}) {
    for (const size_t block_bytes : {size_t{100}, size_t{1}}) {
      const ScriptServer server({opens ? Good(Text(200)) : silent, silent});
      HttpOptions options = Quick();
      options.block_bytes = block_bytes;
      const size_t last = opens ? 2 : 1;
      const auto cancels = [&] { return server.requests().size() == last; };
      const auto files = HttpFiles::Make(options, cancels).value();
      const std::string url = server.Url("a");
      const auto opened = files->Open({&url, 1});
      EXPECT_EQ(opened.ok(), opens) << opened.status();
      const absl::Status status =
          opens ? Read(*opened->front().file, 0, 1).status() : opened.status();
      EXPECT_TRUE(absl::IsCancelled(status)) << status;
    }
  }
}

TEST_F(HttpFileTest, FilesOfOneSourceShareFewBlocksAndEveryReadIsRight) {
  const std::string text = Text(2000);
  const ScriptServer server({Good(text)});
  HttpOptions options = Quick();
  options.cache_bytes = 0;  // two blocks all the same
  options.read_ahead_blocks = 4;
  const auto files = HttpFiles::Make(options).value();
  EXPECT_EQ(files->memory_bytes(), 200u);
  const std::vector<std::string> urls = {server.Url("a"), server.Url("b")};
  const auto opened = files->Open(urls).value();
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 60; ++i) {
        const uint64_t offset = i * (7 + 30 * t) % 1900;
        EXPECT_EQ(Read(*opened[t % 2].file, offset, 70).value(), text.substr(offset, 70));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(HttpFileTest, SingleRecordsAtRandomAreFetchedWithoutTheirBlocks) {
  const std::string text = Text(100'000);
  const ScriptServer server({Good(text)});
  HttpOptions options = Quick();
  options.block_bytes = 1000;
  options.cache_bytes = 2000;
  const auto file = Open(server.Url("a"), options).value();
  for (uint64_t i = 0; i < 60; ++i) {
    const uint64_t offset = i * 37'123 % 99'000;
    ASSERT_EQ(Read(*file, offset, 10).value(), text.substr(offset, 10));
  }
  EXPECT_THAT(server.requests().back(), HasSubstr("bytes=" + std::to_string(59 * 37'123 % 99'000)));
  EXPECT_EQ(Read(*file, 59 * 37'123 % 99'000 + 10, 10).value(),
            text.substr(59 * 37'123 % 99'000 + 10, 10));
}

TEST_F(HttpFileTest, ServersThatAreBusyAreAskedAgain) {
  const auto busy = Says("HTTP/1.1 503 Busy");
  EXPECT_TRUE(StatusOfRead({busy, busy, Good(Text(200))}).ok());
  EXPECT_TRUE(StatusOfRead({Says("HTTP/1.1 429 Slow down\r\nRetry-After: 3600"),
                            Says("HTTP/1.1 500 No", "sorry"), Good(Text(200))})
                  .ok());
  const absl::Status status = StatusOfRead({busy});
  EXPECT_EQ(status.code(), Code::kUnavailable) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("5 attempts"), HasSubstr("503")));
}

TEST_F(HttpFileTest, NoAttemptBeginsAfterTheTimeForThem) {
  HttpOptions options = Quick();
  options.backoff = options.max_backoff = milliseconds(3'600'000);
  const absl::Status status = StatusOfRead({Says("HTTP/1.1 503 Busy")}, options);
  EXPECT_EQ(status.code(), Code::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("1 attempt "));
}

TEST_F(HttpFileTest, ABodyThatBreaksOffGoesOnWhereItEnded) {
  for (const bool reset : {true, false}) {
    const ScriptServer server({Good(Text(200)),
                               [&](Exchange& exchange) {
                                 exchange.Send(PartHead(0, 99, 200) + Text(30));
                                 if (reset) exchange.Reset();
                               },
                               Good(Text(200))});
    const auto file = Open(server.Url("a"), Quick()).value();
    EXPECT_EQ(Read(*file, 0, 100).value(), Text(100));
    ASSERT_THAT(server.requests(), SizeIs(3));
    if (!reset) {
      EXPECT_THAT(server.requests()[2], HasSubstr("bytes=30-99"));
    }
  }
}

// S-ERROR-5.
TEST_F(HttpFileTest, ABodyThatBreaksOffDoesNotGoOnWithAnotherVersion) {
  const absl::Status status =
      StatusOfRead({[](Exchange& exchange) { exchange.Send(PartHead(0, 99, 200) + Text(30)); },
                    Good(Text(200), "\"v2\"")});
  EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
  EXPECT_MESSAGE(status);
}

// S-ERROR-5.
TEST_F(HttpFileTest, AnotherVersionIsAnErrorThatNamesBoth) {
  for (const auto& changed :
       {Good(Text(200), "\"v2\""), Good(Text(201)),
        Says("HTTP/1.1 416 No\r\nETag: \"v2\"\r\nContent-Range: bytes */50")}) {
    const absl::Status status = StatusOfRead({changed});
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
    EXPECT_MESSAGE(status);
  }
}

TEST_F(HttpFileTest, AnswersToAnotherQuestionAreDataLoss) {
  const auto part = [](uint64_t first, uint64_t last, size_t size) {
    return [=](Exchange& exchange) { exchange.Send(PartHead(first, last, 200) + Text(size)); };
  };
  for (const Answer& wrong :
       {Answer(part(100, 199, 100)), Answer(part(0, 49, 50)), Answer(part(0, 199, 200)),
        Says("HTTP/1.1 206 Part\r\nETag: \"v1\"", Text(100)),
        Says("HTTP/1.1 206 Part\r\nETag: \"v1\"\r\nContent-Range: bytes 0-99/200", Text(50)),
        Says("HTTP/1.1 206 Part\r\nETag: \"v1\"\r\nContent-Range: bytes 0-99/200", Text(150)),
        Says("HTTP/1.1 206 Part\r\nETag: \"v1\"\r\nContent-Range: lines 0-99/200", Text(100))}) {
    EXPECT_EQ(StatusOfRead({wrong}).code(), Code::kDataLoss);
  }
}

TEST_F(HttpFileTest, AWholeFileIsTakenForARangeOnlyWhenThatIsTheSame) {
  const auto whole = Says("HTTP/1.1 200 OK\r\nETag: \"v1\"", Text(200));
  EXPECT_EQ(StatusOfRead({whole}).code(), Code::kFailedPrecondition);
  const ScriptServer server({whole});
  const absl::Status status = Open(server.Url("a"), Quick()).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
  EXPECT_MESSAGE(status);
  HttpOptions options = Quick();
  options.block_bytes = 200;
  EXPECT_EQ(Read(**Open(server.Url("a"), options), 150, 100).value(), Text(200).substr(150));
}

TEST_F(HttpFileTest, AnEmptyFileIsOpenedHoweverTheServerSaysSo) {
  for (const auto& empty :
       {Says("HTTP/1.1 416 No\r\nContent-Range: bytes */0"), Says("HTTP/1.1 200 OK")}) {
    const ScriptServer server({empty});
    const auto file = Open(server.Url("a"), Quick());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->size(), 0u);
    EXPECT_EQ(Read(**file, 0, 10).value(), "");
  }
}

TEST_F(HttpFileTest, AnEncodedBodyIsRefused) {
  const absl::Status status = StatusOfRead({Says(
      "HTTP/1.1 206 Part\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-99/200", Text(100))});
  EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
  EXPECT_MESSAGE(status);
}

TEST_F(HttpFileTest, WhatWillNotGetBetterIsAskedOnce) {
  for (const auto& [line, code] :
       std::vector<std::pair<std::string, Code>>{{"404 Not Found", Code::kNotFound},
                                                 {"410 Gone", Code::kNotFound},
                                                 {"403 Forbidden", Code::kPermissionDenied},
                                                 {"401 Who", Code::kPermissionDenied},
                                                 {"400 What", Code::kFailedPrecondition},
                                                 {"204 Nothing", Code::kFailedPrecondition}}) {
    const ScriptServer server({Says("HTTP/1.1 " + line)});
    const absl::Status status = Open(server.Url("a"), Quick()).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_MESSAGE(status);
    EXPECT_THAT(server.requests(), SizeIs(1));
  }
}

// Within this time a server that answers well must get a core, on a loaded machine too.
constexpr milliseconds kStall{500};

TEST_F(HttpFileTest, AServerThatHangsIsGivenUp) {
  HttpOptions options = Quick();
  options.stall_time = kStall;
  options.max_attempts = 2;
  for (const size_t sent : {0, 40}) {  // nothing at all, or some of the body
    const absl::Status status =
        StatusOfRead({[sent](Exchange& exchange) {
                       if (sent > 0)
                         exchange.Send(PartHead(exchange.Range().first, 99, 200) + Text(sent));
                       exchange.WaitUntilClientIsGone();
                     }},
                     options);
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("2 attempts"), HasSubstr("500 ms")));
  }
}

TEST_F(HttpFileTest, AServerThatDripsIsGivenUp) {
  constexpr size_t kSize = 64 << 20;
  HttpOptions options = Quick();
  options.block_bytes = kSize;
  options.stall_time = kStall;
  options.min_bytes_per_second = uint64_t{1} << 50;
  options.max_attempts = 1;
  const auto drip = [](Exchange& exchange) {
    const auto [first, last] = exchange.Range();
    exchange.Send(PartHead(first, last, kSize));
    while (exchange.Send("x")) {
    }
  };
  const ScriptServer server({drip});
  const auto file = Open(server.Url("a"), options);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Read(**file, 0, 100).status().code(), Code::kDeadlineExceeded);
}

TEST_F(HttpFileTest, AFailedBlockIsAskedForAgainByTheNextRead) {
  HttpOptions options = Quick();
  options.max_attempts = 1;
  const ScriptServer server({Good(Text(200)), Says("HTTP/1.1 503 Busy"), Good(Text(200))});
  const auto file = Open(server.Url("a"), options).value();
  EXPECT_EQ(Read(*file, 0, 100).status().code(), Code::kUnavailable);
  EXPECT_EQ(Read(*file, 0, 100).value(), Text(100));
}

TEST_F(HttpFileTest, FilesAreClosedWhileBlocksAreOnTheirWay) {
  HttpOptions options = Quick();
  options.read_ahead_blocks = 2;
  const ScriptServer server({Good(Text(400)), Good(Text(400)),
                             [](Exchange& exchange) { exchange.WaitUntilClientIsGone(); }});
  const auto file = Open(server.Url("a"), options).value();
  EXPECT_EQ(Read(*file, 0, 100).value(), Text(100));
}

TEST_F(HttpFileTest, NothingListensIsUnavailable) {
  uint16_t port = 0;
  Listen(&port);
  const absl::Status status =
      Open("http://127.0.0.1:" + std::to_string(port) + "/a", Quick()).status();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr("5 attempts"));
}

TEST_F(HttpFileTest, RedirectsAreFollowedAFewTimesAndNeverOutOfHttp) {
  const auto to = [](const std::string& place) {
    return Says("HTTP/1.1 302 x\r\nLocation: " + place);
  };
  const ScriptServer server({to("/there"), Good(Text(200))});
  EXPECT_TRUE(Open(server.Url("a"), Quick()).ok());
  EXPECT_THAT(server.requests().back(), HasSubstr("/there"));
  HttpOptions options = Quick();
  options.max_redirects = 3;
  const ScriptServer loop({to("/again")});
  EXPECT_EQ(Open(loop.Url("a"), options).status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(loop.requests(), SizeIs(4));
  const ScriptServer out({to("file:///etc/passwd")});
  EXPECT_EQ(Open(out.Url("a"), Quick()).status().code(), Code::kInvalidArgument);
}

TEST_F(HttpFileTest, ASignerMayAddHeadersToEveryRequest) {
  const ScriptServer server({Good(Text(200))});
  HttpOptions options = Quick();
  options.sign = [](std::string_view url, uint64_t first, uint64_t last,
                    std::vector<std::string>& headers) {
    headers.push_back("X-Signed: " + std::string(url.substr(url.rfind('/'))) + " " +
                      std::to_string(first) + " " + std::to_string(last));
  };
  const auto file = Open(server.Url("a"), options).value();
  ASSERT_TRUE(Read(*file, 120, 10).ok());
  EXPECT_THAT(server.requests(), ElementsAre(HasSubstr("X-Signed: /a 0 0\r\n"),
                                             HasSubstr("X-Signed: /a 100 199\r\n")));
}

TEST_F(HttpFileTest, SecretsAreSentButNotShown) {
  const ScriptServer server({Says("HTTP/1.1 403 No")});
  std::string url = server.Url("a?token=hush");
  url.insert(url.find("127"), "user:hush@");
  const absl::Status status = OpenFile(url).status();
  EXPECT_EQ(status.code(), Code::kPermissionDenied) << status;
  EXPECT_THAT(status.message(), AllOf(Not(HasSubstr("hush")), HasSubstr(server.Url("a"))));
  EXPECT_THAT(server.requests()[0], AllOf(HasSubstr("token=hush"), HasSubstr("Basic ")));
  EXPECT_EQ(ShownUrl("https://u:p@h:1/x@y/z?q#f"), "https://h:1/x@y/z");
  EXPECT_EQ(ShownUrl("http://u:p@h"), "http://h");
  EXPECT_EQ(ShownUrl("http://h?a=u@b"), "http://h");
  EXPECT_EQ(ShownUrl("http://u:a/b@h/x"), "http://u:a/b@h/x") << "the host is u, as curl sees it";
}

TEST(HttpOptionsTest, ValidateNamesTheFirstBadField) {
  EXPECT_TRUE(HttpOptions().Validate().ok());
  HttpOptions options;
  options.max_in_flight = 0;
  EXPECT_MESSAGE(options.Validate());
  options.max_attempts = 0;
  EXPECT_MESSAGE(HttpFiles::Make(options).status());
}

TEST(HttpOptionsTest, WaitsDoubleUpToALimitAndDifferByChance) {
  HttpOptions options;
  options.backoff = milliseconds(100);
  options.max_backoff = milliseconds(1000);
  EXPECT_EQ(BackoffAfter(1, options, 0), milliseconds(50));
  EXPECT_EQ(BackoffAfter(1, options, 0.5), milliseconds(75));
  EXPECT_EQ(BackoffAfter(3, options, 0), milliseconds(200));
  EXPECT_EQ(BackoffAfter(4, options, 0), milliseconds(400));
  EXPECT_EQ(BackoffAfter(1000, options, 0.5), milliseconds(750));
}

TEST(HttpOptionsTest, UrlsAreToldFromPaths) {
  for (const auto* url : {"http://h/a", "https://h/a", "HTTP://h/a"}) EXPECT_TRUE(IsUrl(url));
  for (const auto* path : {"", "http:/h", "httpx://h", "/http://h", "s3://h/a"}) {
    EXPECT_FALSE(IsUrl(path)) << path;
  }
}

}  // namespace
}  // namespace millrace::readers
