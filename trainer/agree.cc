#include "trainer/agree.h"

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::ReduceOp;

namespace {

constexpr char kAgreedUrl[] = "millrace.trainer/agreed";

absl::Status MarkAgreed(absl::Status status) {
  status.SetPayload(kAgreedUrl, absl::Cord());
  return status;
}

template <typename T>
TensorView View(std::span<T> values, DType dtype) {
  return {values.data(), dtype, Shape{static_cast<int64_t>(values.size())}};
}

// Every rank's `text` becomes that of `root`.
absl::Status BroadcastFrom(Communicator& communicator, int root, std::string& text) {
  int64_t size = static_cast<int64_t>(text.size());
  MILLRACE_RETURN_IF_ERROR(communicator.Broadcast(View(std::span(&size, 1), DType::kI64), root));
  text.resize(size);
  if (size == 0) return absl::OkStatus();
  return communicator.Broadcast({text.data(), DType::kU8, Shape{size}}, root);
}

}  // namespace

absl::Status AgreeOnStatus(Communicator& communicator, const absl::Status& mine) {
  if (communicator.size() == 1) return mine.ok() ? mine : MarkAgreed(mine);
  // The lowest rank that failed; size() when none did.
  int64_t failed = mine.ok() ? communicator.size() : communicator.rank();
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllReduce(View(std::span(&failed, 1), DType::kI64), ReduceOp::kMin));
  if (failed == communicator.size()) return absl::OkStatus();
  const int root = static_cast<int>(failed);
  int64_t code = static_cast<int64_t>(mine.code());
  MILLRACE_RETURN_IF_ERROR(communicator.Broadcast(View(std::span(&code, 1), DType::kI64), root));
  std::string text(mine.message());
  MILLRACE_RETURN_IF_ERROR(BroadcastFrom(communicator, root, text));
  const std::string rank = absl::StrCat("rank ", root);
  if (root == communicator.rank()) return MarkAgreed(Annotate(mine, rank));
  return MarkAgreed(Annotate(absl::Status(static_cast<absl::StatusCode>(code), text), rank));
}

bool IsAgreed(const absl::Status& status) { return status.GetPayload(kAgreedUrl).has_value(); }

absl::Status BroadcastText(Communicator& communicator, std::string& text) {
  return BroadcastFrom(communicator, 0, text);
}

absl::Status CheckSameSettings(Communicator& communicator, std::span<const Setting> settings) {
  std::vector<int64_t> mine;
  for (const Setting& setting : settings) mine.push_back(static_cast<int64_t>(setting.value));
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(communicator.size()));
  MILLRACE_RETURN_IF_ERROR(communicator.AllGather(View(std::span(mine), DType::kI64),
                                                  View(std::span(all), DType::kI64)));
  for (size_t i = mine.size(); i < all.size(); ++i) {
    const size_t setting = i % mine.size();
    if (all[i] == all[setting]) continue;
    return MarkAgreed(absl::InvalidArgumentError(absl::StrCat(
        "rank ", i / mine.size(), " differs from rank 0 in: ", ToAbsl(settings[setting].name))));
  }
  return absl::OkStatus();
}

absl::Status SumOverRanks(Communicator& communicator, std::span<double> values) {
  return communicator.AllReduce(View(values, DType::kF64), ReduceOp::kSum);
}

absl::Status SumOverRanks(Communicator& communicator, std::span<int64_t> values) {
  return communicator.AllReduce(View(values, DType::kI64), ReduceOp::kSum);
}

absl::Status MaxOverRanks(Communicator& communicator, std::span<double> values) {
  return communicator.AllReduce(View(values, DType::kF64), ReduceOp::kMax);
}

}  // namespace millrace::trainer
