#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/metric_table.h"
#include "pipeline/optimize/optimizer.h"
#include "readers/example_builder.h"
#include "tests/pipeline/executor/executor_fixture.h"

// How much work a plan with a filter costs: its text through the optimizer and the executor, with
// ops that count. The rules cited are those of docs/semantics.md.

namespace millrace::pipeline {
namespace {

using testing::ElementsAre;

constexpr uint64_t kNumRecords = 2000;
constexpr uint64_t kEpochs = 2;

// What was made of a plan's ops, and what they did.
struct Work {
  // An op parse_example: which features it parses, and on how many rows.
  struct Parse {
    std::vector<std::string> features;
    std::atomic<uint64_t> rows{0};  // workers -> test
  };
  std::vector<std::unique_ptr<Parse>> parses;
  // Workers -> test: of record r in epoch e, at e kNumRecords + r.
  std::vector<std::atomic<int>> decodes = std::vector<std::atomic<int>>(kEpochs * kNumRecords);

  std::atomic<int>& DecodesOf(const SampleId& id) {
    return decodes.at(id.epoch * kNumRecords + id.record);
  }
};

class CountedParse final : public Op {
 public:
  CountedParse(std::unique_ptr<Op> parse, Work::Parse* work)
      : parse_(std::move(parse)), work_(work) {}
  absl::StatusOr<Schema> Resolve(const Schema& input) override { return parse_->Resolve(input); }
  void Apply(millrace::Run& run) const override {
    work_->rows += static_cast<uint64_t>(run.num_rows());
    parse_->Apply(run);
  }

 private:
  const std::unique_ptr<Op> parse_;
  Work::Parse* const work_;
};

// Makes a pixel of each image.
class CountedDecode final : public Op {
 public:
  CountedDecode(augment::DecodeImageOptions options, Work* work)
      : options_(std::move(options)), work_(work) {}
  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    Schema schema = input;
    schema.Remove(options_.field);
    schema.Set({options_.output, DType::kU8, {1, 1, 3}});
    return schema;
  }
  void Apply(millrace::Run& run) const override {
    const Column encoded = run.Take(options_.field);
    Column& image = run.Add(options_.output, DType::kU8);
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      ++work_->DecodesOf(run.id(row));
      auto* const pixel = static_cast<char*>(run.Allocate(image, row, {1, 1, 3}));
      pixel[0] = pixel[1] = pixel[2] = encoded.bytes(row)[0];
    }
  }

 private:
  const augment::DecodeImageOptions options_;
  Work* const work_;
};

OpFactory CountingFactory(Work* work) {
  return [work](const OpSpec& spec) -> absl::StatusOr<std::unique_ptr<Op>> {
    if (const auto* decode = std::get_if<augment::DecodeImageOptions>(&spec.options)) {
      return std::make_unique<CountedDecode>(*decode, work);
    }
    auto op = MakeBuiltinOp(spec);
    const auto* parse = std::get_if<readers::ParseExampleOptions>(&spec.options);
    if (!op.ok() || parse == nullptr) return op;
    work->parses.push_back(std::make_unique<Work::Parse>());
    for (const readers::FeatureSpec& feature : parse->features) {
      work->parses.back()->features.push_back(feature.key);
    }
    return std::make_unique<CountedParse>(*std::move(op), work->parses.back().get());
  };
}

int64_t LabelOf(uint64_t record) {
  return static_cast<int64_t>(HashName(std::to_string(record)) % 10);
}

FakeData Examples() {
  FakeData data;
  data.records_per_shard = 300;
  for (uint64_t record = 0; record < kNumRecords; ++record) {
    readers::ExampleBuilder example;
    example.AddInt("label", LabelOf(record));
    example.AddBytes("image/encoded", "not looked at");
    data.payloads.push_back(example.Serialize());
  }
  return data;
}

constexpr char kInFileOrder[] = "stage { tfrecord { files: \"a\" } }\n";
constexpr char kShuffledLanes[] =
    "seed: 3 lanes: 4 stage { tfrecord { files: \"a\" } } stage { global_shuffle {} }\n";
constexpr char kDecode[] = "stage { decode_image {} }\n";
constexpr char kFilter[] = "stage { filter { predicate: \"label == 4\" } }\n";

std::unique_ptr<Pipeline> OpenCounted(const std::string& source, const std::string& maps,
                                      Work* work, std::shared_ptr<Context> context) {
  const auto plan =
      Plan::FromText(source +
                         "stage { repeat { epochs: 2 } }\n"
                         "stage { parse_example { feature { key: \"image/encoded\" dtype: BYTES }\n"
                         "  feature { key: \"label\" dtype: INT64 } } }\n" +
                         maps + "stage { batch { size: 16 } } stage { prefetch { batches: 6 } }\n",
                     "plan");
  EXPECT_TRUE(plan.ok()) << plan.status();
  auto physical = MakePhysicalPlan(*plan, {}, CountingFactory(work));
  EXPECT_TRUE(physical.ok()) << physical.status();
  return OpenFake(*std::move(physical), Examples(), std::move(context));
}

// Checks every batch's rows, and returns how many there were.
uint64_t DrainDecodedOnce(Pipeline& pipeline, Work& work) {
  uint64_t rows = 0;
  ForEachRow(pipeline, [&](const Batch& batch, int64_t row) {
    ++rows;
    const SampleId id = batch.ids()[row];
    EXPECT_EQ(LabelOf(id.record), 4);
    EXPECT_EQ(work.DecodesOf(id), 1) << "epoch " << id.epoch << " record " << id.record;
  });
  return rows;
}

// S-CUT-6, wherever the decoder stands: what is delivered is decoded once, and nothing else is.
TEST(FilterWorkTest, AFilterOnTheLabelDecodesNothingThatItDrops) {
  uint64_t kept = 0;
  for (uint64_t record = 0; record < kNumRecords; ++record) kept += LabelOf(record) == 4 ? 1 : 0;
  for (const std::string& maps : {std::string(kDecode) + kFilter, std::string(kFilter) + kDecode}) {
    SCOPED_TRACE(maps);
    Work work;
    const auto pipeline = OpenCounted(kShuffledLanes, maps, &work, FakeContext(8));
    ASSERT_NE(pipeline, nullptr);
    const uint64_t rows = DrainDecodedOnce(*pipeline, work);
    EXPECT_EQ(rows, kEpochs * kept);
    uint64_t decodes = 0;
    for (const auto& count : work.decodes) decodes += static_cast<uint64_t>(count);
    EXPECT_EQ(decodes, rows);
    uint64_t parsed_labels = 0, parsed_images = 0;
    for (const auto& parse : work.parses) {
      (parse->features.size() == 1 ? parsed_labels : parsed_images) += parse->rows;
      if (parse->features.size() == 1) {
        EXPECT_THAT(parse->features, ElementsAre("label"));
      }
    }
    EXPECT_EQ(parsed_labels, kEpochs * kNumRecords);  // pass 1
    EXPECT_EQ(parsed_images, rows);                   // pass 2
  }
}

// One worker, so that pass 2 follows the order of the lane; in the order of the files, for bytes
// between records that lie apart are read too.
TEST(FilterWorkTest, WhatIsKeptIsNotReadAgain) {
  Work work;
  const std::shared_ptr<Context> context = FakeContext(1);
  const auto pipeline = OpenCounted(kInFileOrder, std::string(kFilter) + kDecode, &work, context);
  ASSERT_NE(pipeline, nullptr);
  EXPECT_GT(DrainDecodedOnce(*pipeline, work), 0u);
  int64_t framed_bytes = 0;
  for (const std::string& payload : Examples().payloads) {
    framed_bytes += static_cast<int64_t>(payload.size()) + 1;
  }
  EXPECT_EQ(context->metrics().counter(metric::kBytesRead).value(),
            static_cast<int64_t>(kEpochs) * framed_bytes);
}

}  // namespace
}  // namespace millrace::pipeline
