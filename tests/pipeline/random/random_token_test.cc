#include <functional>
#include <random>

#include "pipeline/cut/state.h"
#include "tests/pipeline/random/plan_worlds.h"

// What tokens cost, and what damaged and forged ones do, over drawn plans. The rules cited are
// those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

constexpr size_t kMaxBatches = 6;

std::vector<std::string> TokensOf(Pipeline& pipeline) {
  std::vector<std::string> tokens = {pipeline.Save()};
  while (tokens.size() <= kMaxBatches) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    tokens.push_back((*batch)->resume_token());
  }
  return tokens;
}

// Calls `check(plan, context, tokens, random)`.
template <typename Check>
void ForEachPlan(uint64_t first, uint64_t plans, const Check& check) {
  ForEachOpenedPlan(first, plans,
                    [&](const OpenablePlan& plan, const auto& context, Pipeline& pipeline,
                        auto& random) { check(plan, context, TokensOf(pipeline), random); });
}

// Rows that may be open between two batches: those in buffers, and in buckets that are not full.
uint64_t MaxOpenRows(const PhysicalPlan& plan) {
  uint64_t rows = 0;
  if (!plan.cut.has_value()) return 0;
  for (const SettleStep& step : plan.cut->settle) {
    if (step.kind == SettleStep::Kind::kShuffle) rows += std::max(step.count, plan.lanes);
  }
  for (const uint64_t size : plan.batch.bucket_sizes) rows += size;
  return rows;
}

// S-STATE-13.
TEST(RandomTokenTest, TokensAreAsSmallAsTheRuleSays) {
  ForEachPlan(2'000'000, 150, [](const OpenablePlan& plan, const auto&, const auto& tokens, auto&) {
    const PhysicalPlan physical = plan.Physical();
    const uint64_t limit =
        physical.cut.has_value() ? 2048 + 16 * (physical.lanes + MaxOpenRows(physical)) : 200;
    for (const std::string& token : tokens) EXPECT_LE(token.size(), limit) << token;
  });
}

// S-STATE-13: thousands of open rows.
TEST(RandomTokenTest, OpenRowsOfALargeShuffleCostAtMost16BytesEach) {
  RandomPlan made;
  made.ranges = {20'000};
  made.text =
      "lanes: 8 stage { range { count: 20000 } } stage { global_shuffle {} } "
      "stage { filter { predicate: \"value >= 3000\" } } stage { shuffle { buffer_size: 4000 } } "
      "stage { batch { size: 512 } }";
  const OpenablePlan plan(made);
  const auto opened = plan.Open(FakeContext(2));
  ASSERT_TRUE(opened.ok()) << opened.status();
  size_t largest = 0;
  while (true) {
    const auto batch = (*opened)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    if (!batch->has_value()) break;
    largest = std::max(largest, (*batch)->resume_token().size());
  }
  EXPECT_GT(largest, 4000u);
  EXPECT_LE(largest, 2048 + 16 * (8 + 4000u));
}

std::string Damaged(std::string token, std::mt19937_64& random) {
  const size_t at = random() % token.size();
  switch (random() % 5) {
    case 0:
      token[at] = static_cast<char>(random());
      break;
    case 1:
      token.resize(at);
      break;
    case 2:
      token.erase(at, 1 + random() % 5);
      break;
    case 3:
      token.insert(at, std::string(1 + random() % 20, static_cast<char>('0' + random() % 75)));
      break;
    default:
      std::swap(token[at], token[random() % token.size()]);
  }
  return token;
}

// Opens at the token and asks for a few batches: whatever it says, it says so at once.
void TryToken(const OpenablePlan& plan, const std::shared_ptr<Context>& context,
              const std::string& token) {
  OpenOptions options = OfRank(0, 1, token);
  options.force_resume = true;
  const auto opened = plan.Open(context, options);
  if (!opened.ok()) {
    EXPECT_TRUE(opened.status().code() == absl::StatusCode::kInvalidArgument ||
                opened.status().code() == absl::StatusCode::kFailedPrecondition)
        << opened.status() << " of " << token;
    return;
  }
  for (int i = 0; i < 3; ++i) {
    const auto batch = (*opened)->Next();
    if (!batch.ok() || !batch->has_value()) return;
    EXPECT_LE((*batch)->num_valid_rows(), (*batch)->num_rows());
  }
}

// S-STATE-2, S-STATE-12.
TEST(RandomTokenTest, DamagedTokensNeverCrash) {
  ForEachPlan(2'100'000, 60,
              [](const OpenablePlan& plan, const auto& context, const auto& tokens, auto& random) {
                for (int i = 0; i < 30; ++i) {
                  TryToken(plan, context, Damaged(tokens[random() % tokens.size()], random));
                }
                std::string noise(random() % 3000, ' ');
                for (char& c : noise) c = static_cast<char>(random());
                TryToken(plan, context, noise);
              });
}

// The state with one of its numbers changed and everything around it right again.
std::string ForgedAt(const std::string& token,
                     const std::function<void(std::vector<uint64_t>& numbers)>& forge) {
  constexpr std::string_view kMark = " state=";
  const size_t at = token.find(kMark);
  if (at == std::string::npos) return token;
  auto reader = StateReader::Open(token.substr(at + kMark.size()));
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<uint64_t> numbers;
  while (!reader->at_end()) numbers.push_back(reader->Number());
  forge(numbers);
  StateWriter writer;
  for (const uint64_t value : numbers) writer.Number(value);
  return token.substr(0, at + kMark.size()) + writer.Finish();
}

std::string Forged(const std::string& token, std::mt19937_64& random) {
  return ForgedAt(token, [&](std::vector<uint64_t>& numbers) {
    uint64_t& number = numbers[random() % numbers.size()];
    const uint64_t values[] = {number + 1, number - 1, random() % 100, random(), ~uint64_t{0}};
    number = values[random() % 5];
  });
}

// S-STATE-12.
TEST(RandomTokenTest, ForgedTokensNeverCrash) {
  ForEachPlan(2'200'000, 60,
              [](const OpenablePlan& plan, const auto& context, const auto& tokens, auto& random) {
                for (int i = 0; i < 30; ++i) {
                  TryToken(plan, context, Forged(tokens[random() % tokens.size()], random));
                }
              });
}

// S-STATE-12: batches of the last pass are delivered; there are no records for one behind it.
TEST(RandomTokenTest, APassBehindTheLastIsAnErrorNotAWaitWithoutEnd) {
  RandomPlan made;
  made.ranges = {20};
  made.text =
      "lanes: 2 stage { range { count: 20 } } stage { filter { predicate: \"value >= 0\" } } "
      "stage { batch { size: 4 } } stage { repeat { epochs: 3 } }";
  const OpenablePlan plan(made);
  const auto opened = plan.Open(FakeContext(2));
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (int i = 0; i < 7; ++i) ASSERT_TRUE((*opened)->Next().ok());  // two of the second pass
  constexpr size_t kPass = 3;  // behind the hash, whether it ended, and the index
  const std::string token =
      ForgedAt((*opened)->Save(), [](std::vector<uint64_t>& numbers) { ++numbers.at(kPass); });
  for (const int prefetch : {1, 2, 16}) {
    OpenOptions options = OfRank(0, 1, token);
    options.prefetch_batches = prefetch;
    const auto forged = plan.Open(FakeContext(2), options);
    ASSERT_TRUE(forged.ok()) << forged.status();
    const Stream stream = Drain(**forged);
    // The third would have to know whether it ends its epoch.
    EXPECT_EQ(stream.digests.size(), 2u);
    EXPECT_EQ(stream.end.code(), absl::StatusCode::kInternal) << stream.end;
  }
}

// S-STATE-12: the stream goes on where it was.
TEST(RandomTokenTest, RestoreOfADamagedTokenChangesNothing) {
  ForEachPlan(2'300'000, 40,
              [](const OpenablePlan& plan, const auto& context, const auto& tokens, auto& random) {
                const auto opened = plan.Open(context);
                ASSERT_TRUE(opened.ok());
                for (size_t b = 1; b < tokens.size(); ++b) {
                  const std::string& token = tokens[random() % tokens.size()];
                  const absl::Status status = (*opened)->Restore(token.substr(0, token.size() / 2));
                  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
                  EXPECT_EQ((*opened)->Save(), tokens[b - 1]);
                  const auto batch = (*opened)->Next();
                  ASSERT_TRUE(batch.ok() && batch->has_value()) << batch.status();
                  EXPECT_EQ((*batch)->resume_token(), tokens[b]);
                }
              });
}

// S-STATE-2, S-STATE-12.
TEST(RandomTokenTest, TokensOfOtherPlansAreRefused) {
  std::vector<std::string> others;
  ForEachPlan(2'400'000, 60,
              [&](const OpenablePlan& plan, const auto& context, const auto& tokens, auto& random) {
                for (const std::string& other : others) {
                  const auto opened = plan.Open(context, OfRank(0, 1, other));
                  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition)
                      << opened.status();
                  TryToken(plan, context, other);
                }
                others.push_back(tokens[random() % tokens.size()]);
                if (others.size() > 5) others.erase(others.begin());
              });
}

}  // namespace
}  // namespace millrace::pipeline
