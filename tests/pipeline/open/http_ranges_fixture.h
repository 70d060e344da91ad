#ifndef MILLRACE_TESTS_PIPELINE_OPEN_HTTP_RANGES_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_OPEN_HTTP_RANGES_FIXTURE_H_

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/digest.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/logical/plan_texts.h"
#include "tests/readers/http/http_server.h"
#include "tests/readers/record_test_util.h"
#include "tests/temp_files.h"
#include "tests/temp_folder.h"

// Streams of two shards behind a server that notes each range that is asked for.

namespace millrace::pipeline {

// Bytes [first, second) of a shard.
using Stretch = std::pair<uint64_t, uint64_t>;

// Two shards, "a" and "b", of records that begin with their number.
class HttpRangesFixture : public testing::Test {
 protected:
  static constexpr int64_t kShardRecords = 100;
  static constexpr uint64_t kFrame = 1016;  // of a record of 1,000 bytes

  HttpRangesFixture() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    options_.index_folder = folder_ / "index";
    for (int64_t i = 0; i < 2 * kShardRecords; ++i) {
      std::string record(1000, static_cast<char>('a' + i % 26));
      record.replace(0, 8, readers::LittleEndian(static_cast<uint64_t>(i), 8));
      shards_[i < kShardRecords ? "a" : "b"] += readers::Frame(record);
    }
    for (const auto& [name, bytes] : shards_) WriteFile(folder_ / name, bytes);
    options_.http.block_bytes = 16 << 10;
  }

  readers::Answer Serve() const {
    return [a = readers::Good(shards_.at("a")),
            b = readers::Good(shards_.at("b"))](readers::Exchange& exchange) {
      (exchange.request().starts_with("GET /a ") ? a : b)(exchange);
    };
  }

  // A plan over the shards at `where`.
  static std::string PlanOf(const std::string& where, const std::string& order,
                            const std::string& behind, const std::string& maps = "") {
    return absl::StrCat("seed: 5\nstage { tfrecord { files: [\"", where, "a\", \"", where,
                        "b\"] } }\n", order,
                        "\nstage { decode_raw { field: \"record\" output: \"x\" dtype: INT64 "
                        "shape: 125 } }\n",
                        maps, "\nstage { batch { size: 10 } }\n", behind);
  }

  // The records of an epoch, in their order, and how many requests there had been when it ended.
  struct Epoch {
    std::vector<uint64_t> records;
    size_t requests = 0;
  };
  struct Outcome {
    uint64_t samples = 0;
    uint64_t digest = 0;
    std::vector<Epoch> epochs;
    std::map<std::string, double> metrics;

    uint64_t fetched() const { return Metric("millrace_fetched_bytes_total"); }
    uint64_t records() const { return Metric("millrace_fetched_record_bytes_total"); }
    uint64_t Metric(const char* name) const { return static_cast<uint64_t>(metrics.at(name)); }
  };
  // Reads a stream to its end; `server` is the one that its requests go to, if there is one.
  Outcome Drain(const std::string& text, const readers::ScriptServer* server = nullptr) {
    ContextOptions context_options;
    context_options.threads = 3;
    context_options.memory_budget_bytes = budget_;
    const auto context = MakeContext(context_options).value();
    const auto pipeline = Pipeline::Open(Make(text), context, options_);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    Outcome outcome;
    if (!pipeline.ok()) return outcome;
    StreamDigest digest;
    while (true) {
      const auto batch = (*pipeline)->Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok() || !batch->has_value()) break;
      outcome.samples += static_cast<uint64_t>((*batch)->num_valid_rows());
      digest.Add(**batch);
      AddIds(**batch, outcome.epochs);
      if (server != nullptr) outcome.epochs.back().requests = server->requests().size();
    }
    outcome.digest = digest.value();
    outcome.metrics = context->metrics().Snapshot();
    return outcome;
  }

  static void AddIds(const Batch& batch, std::vector<Epoch>& epochs) {
    epochs.resize(batch.epoch() + 1);
    for (int64_t row = 0; row < batch.num_valid_rows(); ++row) {
      epochs.back().records.push_back(batch.ids()[static_cast<size_t>(row)].record);
    }
  }

  // What was asked for of each shard since the first `skip` requests, but for those of one byte
  // that open a file.
  static std::map<std::string, std::vector<Stretch>> Asked(const readers::ScriptServer& server,
                                                           size_t skip) {
    std::map<std::string, std::vector<Stretch>> asked;
    const std::vector<std::string> requests = server.requests();
    for (size_t i = skip; i < requests.size(); ++i) {
      const auto [first, last] = readers::Exchange(-1, requests[i]).Range();
      if (last == 0) continue;
      asked[requests[i].substr(5, 1)].emplace_back(first, last + 1);
    }
    return asked;
  }

  // Makes the index, so that later requests are for records.
  size_t RequestsOfIndexing(const readers::ScriptServer& server) {
    EXPECT_EQ(Drain(PlanOf(server.Url(""), "", "stage { take { count: 1 } }")).samples, 10u);
    return server.requests().size();
  }

  // Every range is of whole records. Returns how often each record was asked for, shard by shard.
  static std::map<std::string, std::vector<int>> TimesAsked(
      const std::map<std::string, std::vector<Stretch>>& asked) {
    std::map<std::string, std::vector<int>> times;
    for (const auto& [shard, stretches] : asked) {
      std::vector<int>& count = times[shard];
      count.resize(kShardRecords);
      for (const auto& [begin, end] : stretches) {
        EXPECT_EQ(begin % kFrame, 0u) << begin;
        EXPECT_EQ(end % kFrame, 0u) << end;
        for (uint64_t i = begin / kFrame; i < end / kFrame; ++i) ++count[i];
      }
    }
    return times;
  }

  // The number of records that were asked for since the first `skip` requests, none of them twice.
  static int TimesAskedOnce(const readers::ScriptServer& server, size_t skip) {
    int all = 0;
    for (const auto& [shard, counts] : TimesAsked(Asked(server, skip))) {
      EXPECT_THAT(counts, testing::Each(testing::Le(1))) << "records of " << shard;
      for (const int count : counts) all += count;
    }
    return all;
  }

  // Each record was asked for once.
  static void ExpectOnce(const std::map<std::string, std::vector<Stretch>>& asked) {
    const auto times = TimesAsked(asked);
    ASSERT_THAT(times, testing::SizeIs(2));
    for (const auto& [shard, counts] : times) {
      EXPECT_THAT(counts, testing::Each(1)) << "records of " << shard;
    }
  }

  // The requests for each record since the first `skip`, by their numbers.
  static std::vector<std::vector<size_t>> RequestsOfRecords(const readers::ScriptServer& server,
                                                            size_t skip) {
    std::vector<std::vector<size_t>> numbers(2 * kShardRecords);
    const std::vector<std::string> requests = server.requests();
    for (size_t i = skip; i < requests.size(); ++i) {
      const auto [first, last] = readers::Exchange(-1, requests[i]).Range();
      if (last == 0) continue;
      const bool is_first = requests[i].starts_with("GET /a ");
      for (uint64_t r = first / kFrame; r < (last + 1) / kFrame; ++r) {
        numbers[is_first ? r : kShardRecords + r].push_back(i);
      }
    }
    return numbers;
  }

  // Each record was asked for once in each of two epochs. The second one begins before the first
  // has ended: the records in front of it may be asked for as soon as the first half of the first
  // one has been, and those that both want at that time once for both.
  static void ExpectOnceInEach(const readers::ScriptServer& server, size_t skip,
                               const std::vector<Epoch>& epochs) {
    ASSERT_THAT(epochs, testing::SizeIs(2));
    const auto numbers = RequestsOfRecords(server, skip);
    size_t half = 0;  // the request with which the first half of the first epoch is there
    for (size_t i = 0; i < kShardRecords; ++i) {
      const auto& of_record = numbers[epochs[0].records[i]];
      ASSERT_FALSE(of_record.empty());
      half = std::max(half, of_record.front());
    }
    size_t shared = 0;
    for (size_t at = 0; at < 2 * kShardRecords; ++at) {
      const uint64_t record = epochs[1].records[at];
      const bool is_early = at < kShardRecords;
      std::array<int, 2> times = {0, 0};
      for (const size_t number : numbers[record]) {
        const bool is_ahead = is_early && number > half && times[0] > 0;
        ++times[number >= epochs[0].requests || is_ahead ? 1 : 0];
      }
      EXPECT_EQ(times[0], 1) << "record " << record << " in epoch 0";
      const auto first = std::ranges::find(epochs[0].records, record);
      const bool is_shared =
          times[1] == 0 && is_early && first - epochs[0].records.begin() >= kShardRecords;
      EXPECT_EQ(times[1], is_shared ? 0 : 1) << "record " << record << " in epoch 1";
      shared += is_shared ? 1 : 0;
    }
    EXPECT_LE(shared, size_t{2 * kShardRecords / 5});
  }

  // What explain says of the bytes that are fetched.
  std::string FetchLine(const std::string& plan) {
    const auto text = Explain(Make(plan), nullptr, options_);
    EXPECT_TRUE(text.ok()) << text.status();
    if (!text.ok()) return std::string();
    const size_t begin = text->find("  fetch ");
    EXPECT_NE(begin, text->npos) << *text;
    return text->substr(begin, text->find('\n', begin) - begin);
  }

  const TempFolder folder_;
  std::map<std::string, std::string> shards_;
  OpenOptions options_;
  int64_t budget_ = int64_t{64} << 20;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_OPEN_HTTP_RANGES_FIXTURE_H_
