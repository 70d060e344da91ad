#ifndef MILLRACE_TESTS_PIPELINE_EXECUTOR_EXECUTOR_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_EXECUTOR_EXECUTOR_FIXTURE_H_

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/context.h"
#include "pipeline/digest.h"
#include "pipeline/open/open.h"
#include "tests/pipeline/executor/fake_ops.h"
#include "tests/pipeline/executor/fake_source.h"

namespace millrace::pipeline {

inline absl::StatusOr<std::unique_ptr<Pipeline>> TryOpenFake(PhysicalPlan plan,
                                                             const FakeData& data,
                                                             std::shared_ptr<Context> context,
                                                             const OpenOptions& options = {}) {
  std::vector<std::unique_ptr<readers::RecordSource>> sources;
  sources.push_back(std::make_unique<FakeSource>(data));
  OpenedSources opened = JoinSources(plan, std::move(sources));
  return OpenPhysical(std::move(plan), std::move(opened), std::move(context), options);
}

inline std::unique_ptr<Pipeline> OpenFake(PhysicalPlan plan, const FakeData& data,
                                          std::shared_ptr<Context> context,
                                          const OpenOptions& options = {}) {
  auto pipeline = TryOpenFake(std::move(plan), data, std::move(context), options);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  return pipeline.ok() ? *std::move(pipeline) : nullptr;
}

inline OpenOptions RankOptions(int rank, int world) {
  OpenOptions options;
  options.rank = rank;
  options.world = world;
  return options;
}

// A sink that keeps all warnings in `logged`, which outlives it.
inline LogSink KeepWarnings(std::vector<std::string>& logged) {
  return [&logged](LogLevel level, std::string_view message) {
    EXPECT_EQ(level, LogLevel::kWarning);
    logged.emplace_back(message);
  };
}

// Everything a stream says, batch by batch, and its end.
struct Stream {
  std::vector<uint64_t> digests;  // of each batch
  std::vector<std::string> tokens;
  absl::Status end;  // OK when it came to its end
};

inline Stream Drain(Pipeline& pipeline, size_t max_batches = 1000) {
  Stream stream;
  while (stream.digests.size() < max_batches) {
    auto batch = pipeline.Next();
    if (!batch.ok()) {
      stream.end = batch.status();
      break;
    }
    if (!batch->has_value()) break;
    StreamDigest digest;
    digest.Add(**batch);
    stream.digests.push_back(digest.value());
    stream.tokens.push_back((*batch)->resume_token());
  }
  return stream;
}

// Calls `see(batch, row)` for every row that has a sample, to the end of the stream.
template <typename See>
void ForEachRow(Pipeline& pipeline, const See& see) {
  while (true) {
    const auto batch = pipeline.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok() || !batch->has_value()) return;
    for (int64_t row = 0; row < (*batch)->num_rows(); ++row) {
      if ((*batch)->valid()[row] != 0) see(**batch, row);
    }
  }
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_EXECUTOR_EXECUTOR_FIXTURE_H_
