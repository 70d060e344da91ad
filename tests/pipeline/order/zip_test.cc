#include "pipeline/order/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/optimize/optimizer.h"
#include "pipeline/pipeline.h"
#include "tests/messages.h"
#include "tests/pipeline/executor/fake_source.h"
#include "tests/pipeline/order/order_model.h"
#include "tests/sanitized.h"

// Which records a zip puts side by side: numbers of ranges, against an oracle that only iterates.

namespace millrace::pipeline {
namespace {

PhysicalPlan PlanOf(const std::string& text) {
  const auto plan = Plan::FromText(text, "p");
  EXPECT_TRUE(plan.ok()) << plan.status() << text;
  auto physical = BuildPhysicalPlan(*plan);
  EXPECT_TRUE(physical.ok()) << physical.status() << text;
  return *std::move(physical);
}

std::string TextOf(const std::string& first, const std::string& second, const std::string& behind) {
  return absl::StrCat("seed: 5 stage { zip {\n input { stage { range { count: 23 } } ", first,
                      " }\n input { stage { name: \"second\" range { count: 17 } } ", second,
                      " }\n field: [\"a\", \"b\"] } }\n", behind, "stage { batch { size: 7 } }\n");
}

std::string Named(const std::string& name, const std::string& op) {
  return absl::StrCat("stage { name: \"", name, "\" ", op, " }");
}

std::vector<OrderSource> RangeFacts(const PhysicalPlan& plan) {
  std::vector<OrderSource> facts;
  for (const SourceSpec& source : plan.sources) facts.push_back({source.count, 0, {}});
  return facts;
}

// Every input as the only one of a join that is begun again after as many elements as the zip has
// (S-ORDER-13), element by element.
class ZipModel {
 public:
  ZipModel(const PhysicalPlan& plan, std::vector<OrderSource> sources)
      : plan_(plan), sources_(std::move(sources)) {
    for (const ZipPlan::Input& input : plan.zip->inputs) {
      size_ = std::min(size_, Elements(input.order, kMost).size());
    }
  }

  // Of a pass; kMost where it has no end.
  size_t size() const { return size_; }

  // The number of element i of input j in `epoch`, counted in its own source.
  uint64_t At(size_t j, uint64_t epoch, uint64_t i) {
    model::Rows& rows = rows_[j];
    const uint64_t passes = epoch + 1;
    if (rows.size() < passes * size_) {
      OrderPlan join;
      join.root = OrderPlan::Root::kConcatenate;
      join.inputs = {plan_.zip->inputs[j].order};
      join.steps.resize(2);
      join.steps[0].count = size_;  // take
      join.steps[1].kind = OrderStep::Kind::kRepeat;
      join.steps[1].count = passes;
      rows = Elements(join, passes * size_);
    }
    uint64_t record = rows.at(epoch * size_ + i).record;
    for (const OrderSource& source : sources_) {
      if (record < source.num_records) break;
      record -= source.num_records;
    }
    return record;
  }

  // The elements of the order behind the zip: (epoch, number of the zip's element). None of its
  // stages asks for the end of an endless zip.
  model::Rows Samples() const {
    model::Model model({{size_, 0, {}}}, plan_.seed);
    return model.Elements(plan_.order, kMost);
  }

  static constexpr size_t kMost = 150;

 private:
  model::Rows Elements(const OrderPlan& order, size_t most) const {
    return model::Model(sources_, plan_.seed).Elements(order, most);
  }

  const PhysicalPlan& plan_;
  const std::vector<OrderSource> sources_;
  size_t size_ = kMost;
  std::map<size_t, model::Rows> rows_;
};

// Rows of a stream of a zip of numbers; at most kMost.
struct SeenRow {
  SampleId id;
  int64_t a = 0, b = 0;
};

std::vector<SeenRow> RowsOf(Pipeline& pipeline) {
  std::vector<SeenRow> rows;
  while (rows.size() < ZipModel::kMost) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      if ((*batch)->valid()[row] == 0 || rows.size() == ZipModel::kMost) continue;
      rows.push_back({(*batch)->ids()[row], (*batch)->Find("a").as<int64_t>()[row],
                      (*batch)->Find("b").as<int64_t>()[row]});
    }
  }
  return rows;
}

void CheckAgainstModel(const std::string& text) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, text);
  const PhysicalPlan plan = PlanOf(text);
  ZipModel model(plan, RangeFacts(plan));
  const auto pipeline = Pipeline::Open(*Plan::FromText(text, "p"), FakeContext(2));
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->num_records(), model.size() == ZipModel::kMost ? 0 : model.size());
  const std::vector<SeenRow> rows = RowsOf(**pipeline);
  const model::Rows samples = model.Samples();
  ASSERT_EQ(rows.size(), samples.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i].id, samples[i]) << i;
    ASSERT_EQ(rows[i].a, model.At(0, samples[i].epoch, samples[i].record)) << i;
    ASSERT_EQ(rows[i].b, model.At(1, samples[i].epoch, samples[i].record)) << i;
  }
}

// S-ZIP-1, S-ZIP-2, S-PLAN-16: every input against every other, and what may stand behind.
TEST(ZipTest, ElementsAreThoseOfAllInputsSideBySide) {
  const auto inputs = [](const std::string& name) -> std::vector<std::string> {
    return {"",
            Named(name, "take { count: 9 }"),
            Named(name, "skip { count: 5 }"),
            Named(name, "shard { num_shards: 2 index: 1 }"),
            Named(name, "repeat { epochs: 2 }"),
            Named(name, "repeat {}"),
            Named(name, "shuffle { buffer_size: 6 }"),
            Named(name, "global_shuffle {}"),
            Named(name, "global_shuffle {}") + Named(name + "-2", "repeat { epochs: 3 }"),
            Named(name, "shuffle { buffer_size: 4 }") + Named(name + "-2", "repeat {}") +
                Named(name + "-3", "skip { count: 20 }"),
            Named(name, "skip { count: 99 }")};
  };
  const std::vector<std::string> behind = {
      "", "stage { repeat { epochs: 3 } }\n",
      "stage { shuffle { buffer_size: 8 } } stage { repeat { epochs: 2 } }\n",
      "stage { skip { count: 2 } } stage { repeat { epochs: 2 } } stage { take { count: 25 } }\n",
      "stage { shard { num_shards: 3 index: 1 } } stage { repeat { epochs: 2 } }\n"};
  size_t plans = 0;
  for (const std::string& first : inputs("x")) {
    for (const std::string& second : inputs("y")) {
      for (const std::string& more : behind) {
        const std::string text = TextOf(first, second, more);
        if (!Plan::FromText(text, "p").ok()) continue;  // waits for the end of an endless zip
        if (plans++ % SampleStride() != 0) continue;
        CheckAgainstModel(text);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(plans, 500u);
}

// S-ZIP-1.
TEST(ZipTest, JoinsAndMoreThanTwoInputsMayStandSideBySide) {
  const std::string range = "stage { range { count: 6 } }";
  CheckAgainstModel(absl::StrCat(
      "seed: 9 stage { zip { input { stage { mix { input { ", range,
      " stage { global_shuffle {} } } input { ", range,
      " } weight: [1, 3] } } } input { stage { concatenate { input { ", range, " } input { ", range,
      " stage { shuffle { buffer_size: 3 } } } } } } input { ", range,
      " stage { repeat {} } } field: \"a\" field: \"b\" field: \"c\" } }\n"
      "stage { global_shuffle {} } stage { repeat { epochs: 4 } } stage { batch { size: 5 } }\n"));
}

// S-ZIP-3: as many bytes as an element's records have in the mean.
TEST(ZipTest, BlocksOfBytesCountTheRecordsOfAllInputs) {
  const PhysicalPlan plan = PlanOf(TextOf("", "stage { repeat {} }", ""));
  const std::vector<OrderSource> sources = {{23, 2300, {}}, {17, 17 * 50, {}}};
  const auto zip = Zip::Make(*plan.zip, sources, plan.seed, /*budget=*/nullptr);
  ASSERT_TRUE(zip.ok()) << zip.status();
  EXPECT_EQ((*zip)->facts().num_records, 23u);
  EXPECT_EQ((*zip)->facts().total_bytes, 23u * 150);
}

TEST(ZipTest, AnInputThatCannotBeOrderedIsNamed) {
  PhysicalPlan plan = PlanOf(TextOf("", "stage { name: \"s\" shuffle { buffer_size: 3 } }", ""));
  plan.zip->inputs[1].order.steps[0].count = 0;
  const auto zip = Zip::Make(*plan.zip, RangeFacts(plan), plan.seed, /*budget=*/nullptr);
  EXPECT_EQ(zip.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_MESSAGE(zip.status());
}

// Whoever asks for what, again and again, in whatever order and from how many threads.
TEST(ZipTest, WhatWasAskedBeforeNeverMatters) {
  const PhysicalPlan plan =
      PlanOf(TextOf("stage { shuffle { buffer_size: 7 } }", "stage { shuffle { buffer_size: 5 } }",
                    "stage { repeat {} }"));
  const std::vector<OrderSource> facts = RangeFacts(plan);
  const auto ask = [&](const Zip& zip, std::mt19937_64& random) {
    std::vector<SampleId> samples(1 + random() % 40);
    SampleId at{.epoch = random() % 4, .record = random() % zip.size()};
    for (SampleId& sample : samples) {
      sample = at;
      if (random() % 8 != 0) ++at.record;  // else once more, as behind an unbatch
      if (random() % 20 == 0 || at.record >= zip.size()) at.record = random() % zip.size();
    }
    const std::span<const SampleId> rest = std::span(samples).subspan(samples.size() / 2);
    for (const std::span<const SampleId> part : {std::span<const SampleId>(samples), rest}) {
      std::vector<SampleId> seen(part.size() * 2), expected(part.size() * 2);
      zip.Locate(part, seen);
      for (size_t i = 0; i < part.size(); ++i) {
        std::vector<SampleId> one(2);
        (*Zip::Make(*plan.zip, facts, plan.seed, /*budget=*/nullptr))->Locate({&part[i], 1}, one);
        expected[i] = one[0];
        expected[part.size() + i] = one[1];
      }
      ASSERT_EQ(seen, expected);
    }
  };
  const auto zip = *Zip::Make(*plan.zip, facts, plan.seed, /*budget=*/nullptr);
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 40 && !HasFatalFailure(); ++i) ask(*zip, random);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string Endless(uint64_t seed, const std::string& first, const std::string& predicate) {
  return absl::StrCat("seed: ", seed, " stage { zip { input { stage { range { count: 4 } } ", first,
                      " } input { stage { range { count: 4 } } } field: [\"a\", \"b\"] } } stage { "
                      "repeat {} }\n stage { filter { predicate: \"",
                      predicate, "\" } } stage { batch { size: 1 } }\n");
}

absl::StatusOr<std::optional<Batch>> FirstOf(const std::string& text) {
  return (*Pipeline::Open(*Plan::FromText(text, "p"), FakeContext(2)))->Next();
}

// S-CUT-18.
TEST(ZipTest, ShuffledInputsMayPassAFilterInALaterEpoch) {
  const std::string shuffle = "stage { global_shuffle {} }";
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto batch = FirstOf(Endless(seed, shuffle, "a == 3 and b == 0"));
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ((*batch)->Find("a").as<int64_t>()[0], 3);
  }
  const auto empty = FirstOf(Endless(0, "", "a == 3 and b == 0"));
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kFailedPrecondition) << empty.status();
}

}  // namespace
}  // namespace millrace::pipeline
