#include "cli/metrics/metrics_server.h"

#include <gtest/gtest.h>

#include <charconv>
#include <memory>
#include <string>

#include "base/metric_table.h"
#include "tests/messages.h"

namespace millrace::cli {
namespace {

// The port in "http://127.0.0.1:9100/metrics".
int PortOf(const std::string& url) {
  int port = 0;
  const size_t begin = url.rfind(':') + 1;
  std::from_chars(url.data() + begin, url.data() + url.size(), port);
  return port;
}

class MetricsServerTest : public testing::Test {
 protected:
  const std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  const std::unique_ptr<MetricsServer> server_ =
      MetricsServer::Start({.host = "127.0.0.1"}, metrics_).value();
};

TEST(ListenAddressTest, AnAddressIsAPortWithOrWithoutAHost) {
  const auto parse = [](const char* text) {
    const auto address = ParseListenAddress(text);
    EXPECT_TRUE(address.ok()) << address.status();
    return address.ok() ? address->host + " " + std::to_string(address->port) : "";
  };
  EXPECT_EQ(parse("9100"), "127.0.0.1 9100");
  EXPECT_EQ(parse("0"), "127.0.0.1 0");
  EXPECT_EQ(parse("0.0.0.0:65535"), "0.0.0.0 65535");
  EXPECT_EQ(parse("node1:9100"), "node1 9100");
  EXPECT_EQ(parse("[::1]:9100"), "::1 9100");
}

TEST(ListenAddressTest, OtherTextsAreRefused) {
  for (const char* text : {"", "x", "node1:", ":9100", "node1:http", "65536", "-1", "::1:9100",
                           "[]:9100", "9100x", "a:1:2"}) {
    EXPECT_EQ(ParseListenAddress(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_MESSAGE(ParseListenAddress("node1").status());
}

TEST_F(MetricsServerTest, PathsHaveTheirAnswers) {
  metrics_->counter(metric::kRecordsRead).Add(3);
  const auto page = server_->AnswerTo("/metrics");
  EXPECT_EQ(page.code, 200);
  EXPECT_EQ(page.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(page.body, metrics_->PrometheusText());
  EXPECT_EQ(server_->AnswerTo("/").code, 200);
  EXPECT_EQ(server_->AnswerTo("/metrics/").code, 404);
}

TEST_F(MetricsServerTest, ItIsReadyOnceABatchWasDelivered) {
  EXPECT_EQ(server_->AnswerTo("/readyz").code, 503);
  metrics_->counter(metric::kBatches).Add();
  EXPECT_EQ(server_->AnswerTo("/readyz").code, 200);
}

TEST_F(MetricsServerTest, ItIsHealthyUntilARankIsGivenUp) {
  EXPECT_EQ(server_->AnswerTo("/healthz").code, 200);
  metrics_->counter(metric::kRanksLost).Add();
  EXPECT_EQ(server_->AnswerTo("/healthz").code, 503);
}

TEST_F(MetricsServerTest, AddressesThatCannotBeHadAreNamed) {
  const int port = PortOf(server_->url());
  ASSERT_GT(port, 0) << server_->url();
  EXPECT_MESSAGE(MetricsServer::Start({"127.0.0.1", port}, metrics_).status(), "in_use");
  EXPECT_MESSAGE(ServeMetrics(std::to_string(port - 1), 1, metrics_).status(), "in_use");
  EXPECT_MESSAGE(ServeMetrics("65535", 1, metrics_).status());
  EXPECT_EQ(MetricsServer::Start({"no.such.host.invalid", 0}, metrics_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(MetricsServerTest, AnAddressOfVersion6StandsInBrackets) {
  const auto server = MetricsServer::Start({.host = "::1"}, metrics_);
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: " << server.status();
  EXPECT_TRUE((*server)->url().starts_with("http://[::1]:")) << (*server)->url();
}

}  // namespace
}  // namespace millrace::cli
