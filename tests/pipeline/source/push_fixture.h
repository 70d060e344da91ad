#ifndef MILLRACE_TESTS_PIPELINE_SOURCE_PUSH_FIXTURE_H_
#define MILLRACE_TESTS_PIPELINE_SOURCE_PUSH_FIXTURE_H_

#include <chrono>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "pipeline/push_source.h"
#include "tests/pipeline/executor/executor_fixture.h"

namespace millrace::pipeline {

// Opens a plan whose records the test pushes into `options.push`.
inline absl::StatusOr<std::unique_ptr<Pipeline>> OpenPushed(PhysicalPlan plan,
                                                            std::shared_ptr<Context> context,
                                                            const OpenOptions& options) {
  SourceSpec spec;
  spec.kind = SourceSpec::Kind::kPush;
  spec.stage = "push";
  plan.sources = {spec};
  MILLRACE_ASSIGN_OR_RETURN(OpenedSources sources, OpenSources(plan, *context, options));
  return OpenPhysical(std::move(plan), std::move(sources), std::move(context), options);
}

inline absl::StatusOr<std::unique_ptr<Pipeline>> OpenPushed(PhysicalPlan plan,
                                                            std::shared_ptr<PushSource> push,
                                                            std::shared_ptr<Context> context,
                                                            std::string token = "") {
  OpenOptions options;
  options.push = std::move(push);
  options.resume_token = std::move(token);
  return OpenPushed(std::move(plan), std::move(context), options);
}

// Pushes all of `data` on a thread of its own; a push that fails ends it. Now and then it lets
// others go first.
class Feeder {
 public:
  Feeder(std::shared_ptr<PushSource> push, const FakeData& data, unsigned seed = 0)
      : thread_([push = std::move(push), &data, seed](const std::stop_token& stop) {
          std::mt19937 random(seed);
          for (const std::string& payload : data.payloads) {
            if (seed != 0 && random() % 8 == 0) std::this_thread::yield();
            if (!PushUnlessStopped(*push, payload, stop)) return;
          }
          push->Finish();
        }) {}

 private:
  // A test that failed may be gone while the source is full.
  static bool PushUnlessStopped(PushSource& push, const std::string& payload,
                                const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const absl::StatusOr<bool> pushed = push.PushFor(payload, std::chrono::milliseconds(20));
      if (!pushed.ok() || *pushed) return pushed.ok();
    }
    return false;
  }

  std::jthread thread_;
};

inline std::shared_ptr<PushSource> MakePush(uint64_t max_bytes) {
  PushSourceOptions options;
  options.max_bytes = max_bytes;
  return PushSource::Make(options);
}

}  // namespace millrace::pipeline

#endif  // MILLRACE_TESTS_PIPELINE_SOURCE_PUSH_FIXTURE_H_
