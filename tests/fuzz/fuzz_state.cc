#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "pipeline/cut/state.h"
#include "pipeline/order/resume_token.h"
#include "pipeline/pipeline.h"
#include "tests/fuzz/fuzz_input.h"

// Resume tokens: what is accepted is written back as it was read, and a forged state of a cut gives
// batches or an error. Its numbers are the input's, under a good checksum.

namespace millrace::pipeline {
namespace {

constexpr char kPlan[] = R"(
  seed: 7
  lanes: 2
  stage { range { count: 64 } }
  stage { repeat { epochs: 3 } }
  stage { filter { predicate: "value < 40" } }
  stage { shuffle { buffer_size: 8 } }
  stage { batch { size: 4 } }
)";

struct Opened {
  std::unique_ptr<Pipeline> pipeline;
  ResumeToken token;  // of its first batch
};

Opened OpenPipeline() {
  ContextOptions options;
  options.threads = 1;
  auto context = MakeContext(options);
  const auto plan = Plan::FromText(kPlan, "plan.pbtxt");
  fuzz::Require(plan.ok() && context.ok(), "the plan is good");
  auto pipeline = Pipeline::Open(*plan, *std::move(context));
  fuzz::Require(pipeline.ok(), "it can be opened");
  const auto batch = (*pipeline)->Next();
  fuzz::Require(batch.ok() && batch->has_value(), "it gives a batch");
  auto token = ResumeToken::Parse((*batch)->resume_token());
  fuzz::Require(token.ok(), "a batch's token can be read");
  return {*std::move(pipeline), *std::move(token)};
}

void RestoreForged(const uint8_t* data, size_t size) {
  static const Opened* const opened = new Opened(OpenPipeline());
  ResumeToken token = opened->token;
  StateWriter writer;
  for (size_t i = 0; i < size;) {
    const size_t bytes = std::min<size_t>(size - i - 1, data[i] % 9);  // of the next number
    uint64_t number = 0;
    std::memcpy(&number, data + i + 1, std::min<size_t>(bytes, sizeof number));
    writer.Number(number);
    i += 1 + bytes;
  }
  token.state = writer.Finish();
  if (!opened->pipeline->Restore(token.ToString()).ok()) return;
  for (int i = 0; i < 3; ++i) {
    const auto batch = opened->pipeline->Next();
    if (!batch.ok() || !batch->has_value()) return;
  }
}

void ParseText(std::string_view text) {
  const auto token = ResumeToken::Parse(text);
  if (!token.ok()) return;
  fuzz::Require(token->ToString() == text, "a token is written as it was read");
  if (auto state = StateReader::Open(token->state); state.ok()) {
    while (state->ok() && !state->at_end()) state->Number();
  }
}

}  // namespace
}  // namespace millrace::pipeline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;            // NOLINT
  using namespace millrace::pipeline;  // NOLINT
  if (fuzz::TakeByte(data, size) % 2 == 0) {
    RestoreForged(data, size);
  } else {
    const fuzz::InputFile input(data, size);
    ParseText(input.text());
  }
  return 0;
}
