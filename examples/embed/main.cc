// A pipeline over records that this program pushes, with an op of its own: prints the mean length
// of the words of each batch.
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "millrace/pipeline/op_table.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/push_source.h"

namespace pipeline = millrace::pipeline;

constexpr char kPlan[] = R"(
  stage { push {} }
  stage { custom { op: "length" version: 1 } }
  stage { batch { size: 4 } }
)";

// Runs on many threads at once; the result depends on the sample alone.
absl::Status Length(const pipeline::Sample& sample, pipeline::SampleOutput& output) {
  auto length = output.Allocate(0);
  if (!length.ok()) return length.status();
  length->as<int64_t>()[0] = static_cast<int64_t>(sample.bytes(0).size());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const pipeline::OpTable>> MakeOps() {
  pipeline::SampleOpSpec spec;
  spec.reads = {"record"};
  spec.writes = {{"length", millrace::DType::kI64, {}}};
  spec.removes = {"record"};  // a batch holds no bytes
  auto ops = std::make_shared<pipeline::OpTable>();
  absl::Status status = ops->RegisterSample("length", 1, spec, Length);
  if (!status.ok()) return status;
  return ops;
}

absl::Status Print(pipeline::Pipeline& batches) {
  while (true) {
    auto batch = batches.Next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return absl::OkStatus();
    const auto lengths = (*batch)->Get<int64_t>("length");
    if (!lengths.ok()) return lengths.status();
    int64_t sum = 0;
    for (const int64_t length : *lengths) sum += length;  // padding is 0
    std::cout << "batch " << (*batch)->index() << ": " << (*batch)->num_valid_rows() << " words of "
              << static_cast<double>(sum) / (*batch)->num_valid_rows() << " letters\n";
  }
}

absl::Status Run() {
  auto plan = pipeline::Plan::FromText(kPlan, "words");
  if (!plan.ok()) return plan.status();
  auto context = pipeline::MakeContext();
  if (!context.ok()) return context.status();
  auto ops = MakeOps();
  if (!ops.ok()) return ops.status();

  pipeline::OpenOptions options;
  options.ops = *ops;
  options.push = pipeline::PushSource::Make({.name = "words"});
  std::thread producer([feed = options.push] {
    for (const char* word : {"a", "millrace", "carries", "water", "to", "a", "wheel", "so", "that",
                             "it", "never", "stands", "still"}) {
      if (!feed->Push(word).ok()) return;  // nobody reads any more
    }
    feed->Finish();
  });
  absl::Status status;
  if (auto batches = pipeline::Pipeline::Open(*plan, *context, options); batches.ok()) {
    status = Print(**batches);
  } else {
    status = batches.status();
    options.push->Fail(status);  // so that the producer ends
  }
  producer.join();
  return status;
}

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
