#include "pipeline/executor/adapter.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/sanitized.h"

// The adapter against a model of a pipeline and its consumer, in simulated time.

namespace millrace::pipeline {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;

// Workers make batches of `cost` thread-nanoseconds as long as the ring is not full; a consumer
// takes one whenever it has done with the one before, for which it needs `think`.
struct Model {
  std::function<int64_t(int64_t now_ns)> cost;
  std::function<int64_t(int64_t now_ns)> think;
  double busy_share = 1;  // of a thread that makes a batch; the rest it waits for reads
};

struct Outcome {
  int64_t batches = 0;
  int64_t wait_ns = 0;
  double thread_seconds = 0;  // of goals
  int changes = 0;            // of goals
  Goals goals;
};

// One run. Time goes on in steps of 0.1 ms.
class Simulation {
 public:
  Simulation(Model model, const Goals& start) : model_(std::move(model)), goals_(start) {}

  // Runs until `end_ns`, with the adapter or with what it has; returns what happened meanwhile.
  Outcome RunTo(int64_t end_ns, Adapter* adapter = nullptr) {
    Outcome outcome;
    const int64_t delivered = delivered_, waited = wait_ns_;
    while (now_ns_ < end_ns) {
      now_ns_ += kStep;
      const bool worked = Work();
      const bool took = Consume();
      outcome.thread_seconds += goals_.threads * 1e-9 * kStep;
      if (adapter == nullptr || (!worked && !took)) continue;  // as in the executor: no call then
      const Goals before = goals_;
      goals_ = adapter->Update({.now_ns = now_ns_,
                                .consumer_wait_ns = wait_ns_,
                                .busy_ns = static_cast<int64_t>(busy_ns_),
                                .ready_batches = ready_});
      outcome.changes += goals_ == before ? 0 : 1;
    }
    outcome.batches = delivered_ - delivered;
    outcome.wait_ns = wait_ns_ - waited;
    outcome.goals = goals_;
    return outcome;
  }
  const Goals& goals() const { return goals_; }
  int64_t now_ns() const { return now_ns_; }

 private:
  static constexpr int64_t kStep = kMs / 10;

  bool Work() {
    double left = static_cast<double>(goals_.threads) * kStep;
    bool worked = false;
    while (left > 0 && ready_ < goals_.ring) {
      if (remaining_ <= 0) remaining_ = static_cast<double>(model_.cost(now_ns_));
      const double done = std::min(left, remaining_);
      remaining_ -= done;
      left -= done;
      busy_ns_ += model_.busy_share * done;
      worked = true;
      if (remaining_ <= 0) ++ready_;
    }
    return worked;
  }
  bool Consume() {
    bool took = false;
    while (free_ns_ <= now_ns_ && ready_ > 0) {
      --ready_;
      ++delivered_;
      took = true;
      free_ns_ = std::max(free_ns_, now_ns_ - kStep) + model_.think(now_ns_);
    }
    if (free_ns_ <= now_ns_) {
      wait_ns_ += kStep;
      free_ns_ = now_ns_;
    }
    return took;
  }

  const Model model_;
  Goals goals_;
  int64_t now_ns_ = 0, free_ns_ = 0, wait_ns_ = 0, delivered_ = 0;
  double busy_ns_ = 0, remaining_ = 0;
  int ready_ = 0;
};

// A consumer that would keep `demand` threads busy, by time.
Model WithDemand(std::function<double(int64_t now_ns)> demand, int64_t think = 10 * kMs) {
  return {.cost = [=](int64_t now) { return static_cast<int64_t>(demand(now) * think); },
          .think = [=](int64_t) { return think; }};
}

// The same, as the consumer's pace changes and not the work.
Model WithPace(std::function<double(int64_t now_ns)> demand, int64_t cost = 10 * kMs) {
  return {.cost = [=](int64_t) { return cost; },
          .think = [=](int64_t now) { return static_cast<int64_t>(cost / demand(now)); }};
}

int64_t BestFixed(const Model& model, const Goals& limits, int64_t end_ns) {
  int64_t best = 0;
  for (int threads = 1; threads <= limits.threads; ++threads) {
    for (int ring = 1; ring <= limits.ring; ring *= 2) {
      best = std::max(best, Simulation(model, {threads, ring}).RunTo(end_ns).batches);
    }
  }
  return best;
}

TEST(AdapterTest, BeginsAtItsLimits) {
  Adapter adapter({7, 3});
  EXPECT_EQ(adapter.Update({}), (Goals{7, 3}));
  EXPECT_EQ(Adapter({0, -1}).goals(), (Goals{1, 1}));
}

TEST(AdapterTest, ALimitThatMovesIsObeyedAtOnce) {
  Adapter adapter({8, 4});
  adapter.SetThreadLimit(2);
  EXPECT_EQ(adapter.goals(), (Goals{2, 4}));
  Simulation simulation(WithDemand([](int64_t) { return 20.0; }), adapter.goals());
  simulation.RunTo(kSecond, &adapter);
  EXPECT_EQ(simulation.goals().threads, 2);
  adapter.SetThreadLimit(3);
  EXPECT_EQ(adapter.goals(), (Goals{3, 4}));
  adapter.SetThreadLimit(0);
  EXPECT_EQ(adapter.goals(), (Goals{1, 4}));
}

// A limit above the threads in use leaves them as they are.
TEST(AdapterTest, ALowerLimitTakesNoMoreThanItMust) {
  Adapter adapter({8, 4});
  Simulation simulation(WithDemand([](int64_t) { return 0.4; }), adapter.goals());
  simulation.RunTo(3 * kSecond, &adapter);
  ASSERT_EQ(adapter.goals().threads, 1);
  adapter.SetThreadLimit(5);
  EXPECT_EQ(adapter.goals().threads, 1);
}

TEST(AdapterTest, NeverLeavesItsLimitsWhateverItIsTold) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 50; ++run) {
    const Goals limits{1 + static_cast<int>(random() % 70), 1 + static_cast<int>(random() % 20)};
    Adapter adapter(limits);
    Observation now;
    for (int i = 0; i < 5000; ++i) {
      const auto elapsed = static_cast<int64_t>(random() % (100 * kMs));
      now.now_ns += elapsed;
      now.consumer_wait_ns += random() % 3 == 0 ? elapsed : 0;
      now.busy_ns += static_cast<int64_t>(random() % 100) * elapsed;
      now.ready_batches = static_cast<int>(random() % 30);
      now.reserved_bytes = static_cast<int64_t>(random() % 1000);
      now.budget_bytes = 900;
      const Goals goals = adapter.Update(now);
      ASSERT_GE(goals.threads, 1);
      ASSERT_LE(goals.threads, limits.threads);
      ASSERT_GE(goals.ring, 1);
      ASSERT_LE(goals.ring, limits.ring);
    }
  }
}

TEST(AdapterTest, ConsumerThatIsNeverSatisfiedKeepsAllThreads) {
  Adapter adapter({8, 4});
  Simulation simulation(WithDemand([](int64_t) { return 20.0; }), adapter.goals());
  EXPECT_EQ(simulation.RunTo(10 * kSecond, &adapter).changes, 0);
  EXPECT_EQ(simulation.goals().threads, 8);
}

TEST(AdapterTest, SlowConsumerFreesThreadsAndRingWithinASecond) {
  for (const double demand : {0.05, 0.4, 1.0, 3.0}) {
    Adapter adapter({16, 16});
    Simulation simulation(WithDemand([=](int64_t) { return demand; }), adapter.goals());
    simulation.RunTo(kSecond + 300 * kMs, &adapter);  // the ring has to fill first
    EXPECT_LE(simulation.goals().threads, std::ceil(1.6 * demand)) << demand;
    EXPECT_GE(simulation.goals().threads, demand) << demand;
    EXPECT_LE(simulation.goals().ring, 3) << demand;
    EXPECT_LE(simulation.RunTo(20 * kSecond, &adapter).wait_ns, 100 * kMs) << demand;
  }
}

// Changes of the consumer's pace and of the work, up and down.
TEST(AdapterTest, StepIsAnsweredWithinASecondBothWays) {
  for (const double low : {0.2, 0.9, 2.0}) {
    for (const double high : {4.0, 9.0, 30.0}) {
      for (const bool pace : {false, true}) {
        const auto demand = [=](int64_t now) { return now / (5 * kSecond) % 2 == 0 ? low : high; };
        Adapter adapter({32, 8});
        Simulation simulation(pace ? WithPace(demand) : WithDemand(demand), adapter.goals());
        for (int phase = 0; phase < 6; ++phase) {
          const int64_t begin = phase * 5 * kSecond;
          const double now = demand(begin);
          simulation.RunTo(begin + kSecond, &adapter);
          EXPECT_GE(simulation.goals().threads, now) << low << " " << high << " phase " << phase;
          const Outcome rest = simulation.RunTo(begin + 5 * kSecond, &adapter);
          EXPECT_LE(rest.wait_ns, 50 * kMs) << low << " " << high << " phase " << phase;
          // Room to breathe, and no more: what is left over goes to the consumer.
          EXPECT_LE(rest.thread_seconds, 4 * (std::max(2.0, 2 * 1.6 * now) + 1))
              << low << " " << high;
        }
      }
    }
  }
}

// Costs and pauses that vary from batch to batch.
TEST(AdapterTest, SteadyPhaseDoesNotOscillate) {
  for (const double demand : {0.3, 0.66, 0.8, 1.3, 2.0, 5.0, 7.5}) {
    std::mt19937_64 random(7);
    const auto jitter = [&random] { return 0.5 + 1e-3 * static_cast<double>(random() % 1000); };
    Model model;
    model.cost = [=](int64_t) { return static_cast<int64_t>(demand * 10 * kMs * jitter()); };
    model.think = [=](int64_t) { return static_cast<int64_t>(10 * kMs * jitter()); };
    Adapter adapter({8, 8});
    Simulation simulation(model, adapter.goals());
    simulation.RunTo(3 * kSecond, &adapter);
    const Outcome steady = simulation.RunTo(63 * kSecond, &adapter);
    EXPECT_LE(steady.changes, 8) << demand;
    EXPECT_LE(steady.wait_ns, kSecond) << demand;
  }
}

// Bursts whose pauses are shorter than its memory: it stays ready for the next.
TEST(AdapterTest, ShortPausesTakeNothingAway) {
  const Model model = WithPace([](int64_t now) { return now / (200 * kMs) % 2 == 0 ? 6.0 : 0.4; });
  Adapter adapter({8, 8});
  Simulation simulation(model, adapter.goals());
  simulation.RunTo(3 * kSecond, &adapter);
  EXPECT_LE(simulation.RunTo(23 * kSecond, &adapter).changes, 4);
  EXPECT_GE(simulation.goals().threads, 6);
}

TEST(AdapterTest, WorkDoneIsThatOfTheBestFixedSetting) {
  const auto square = [](int64_t period, double low, double high) {
    return [=](int64_t now) { return now / period % 2 == 0 ? low : high; };
  };
  const std::vector<std::pair<std::string, Model>> models = {
      {"fast", WithDemand([](int64_t) { return 12.0; })},
      {"slow", WithDemand([](int64_t) { return 0.3; })},
      {"just enough", WithDemand([](int64_t) { return 7.6; })},
      {"steps", WithPace(square(5 * kSecond, 0.5, 6))},
      {"long steps up to the limit", WithPace(square(10 * kSecond, 0.5, 8))},
      {"bursts of 2 s", WithPace(square(2 * kSecond, 0.2, 7))},
      {"bursts of 1 s", WithPace(square(kSecond, 0.2, 7))},
      {"bursts of 300 ms", WithPace(square(300 * kMs, 0.2, 7))},
      {"bursts of 50 ms", WithPace(square(50 * kMs, 0.2, 12), 5 * kMs)},
      {"costs change", WithDemand(square(3 * kSecond, 1, 7))},
      {"long steps of the consumer", WithDemand([](int64_t) { return 0.9; }, 700 * kMs)},
      {"handfuls",
       {.cost = [](int64_t) { return 20 * kMs; },
        .think = [n = 0](int64_t) mutable { return ++n % 4 == 0 ? 180 * kMs : kMs; }}},
  };
  const Goals limits{8, 8};
  for (const auto& [name, model] : Sampled(models)) {
    Adapter adapter(limits);
    Simulation simulation(model, adapter.goals());
    const Outcome outcome = simulation.RunTo(30 * kSecond, &adapter);
    const int64_t best = BestFixed(model, limits, 30 * kSecond);
    EXPECT_GE(static_cast<double>(outcome.batches), 0.95 * static_cast<double>(best)) << name;
  }
}

TEST(AdapterTest, SlowReadsDoNotCallForThreads) {
  // Slow phase, then the reads become a hundred times slower: threads would only wait with them.
  Model model = WithDemand([](int64_t now) { return now < 3 * kSecond ? 0.4 : 40.0; });
  model.busy_share = 0.01;
  Adapter adapter({8, 4});
  Simulation simulation(model, adapter.goals());
  simulation.RunTo(3 * kSecond, &adapter);
  EXPECT_EQ(simulation.goals().threads, 1);
  EXPECT_GT(simulation.RunTo(6 * kSecond, &adapter).wait_ns, 2 * kSecond);
  EXPECT_EQ(simulation.goals().threads, 1);
}

TEST(AdapterTest, RingDoesNotGrowWhenTheBudgetIsTaken) {
  for (const int64_t reserved : {89, 95}) {
    Adapter adapter({1, 8});
    Observation now{.ready_batches = 8, .reserved_bytes = reserved, .budget_bytes = 100};
    for (; now.now_ns < 2 * kSecond; now.now_ns += 10 * kMs) adapter.Update(now);
    ASSERT_EQ(adapter.goals().ring, 2);
    for (int i = 0; i < 10; ++i) {
      now.now_ns += 20 * kMs;
      now.consumer_wait_ns += 10 * kMs;
      now.busy_ns += 20 * kMs;
      now.ready_batches = i == 0 ? 1 : 0;
      adapter.Update(now);
    }
    EXPECT_EQ(adapter.goals().ring, reserved < 90 ? 8 : 2);
  }
}

}  // namespace
}  // namespace millrace::pipeline
