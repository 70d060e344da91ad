#include "trainer/ranks/agree.h"

#include <array>
#include <exception>
#include <new>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace millrace::trainer {

using collectives::Communicator;
using collectives::ReduceOp;

namespace {

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

// Every rank's `status` becomes that of `root`, which is not OK.
absl::Status BroadcastStatus(Communicator& communicator, int root, absl::Status& status) {
  std::vector<std::string> parts = {std::string(status.message())};
  status.ForEachPayload([&parts](absl::string_view url, const absl::Cord& payload) {
    parts.emplace_back(url);
    parts.emplace_back(payload);
  });
  std::array<int64_t, 2> header = {static_cast<int64_t>(status.code()),
                                   static_cast<int64_t>(parts.size())};
  MILLRACE_RETURN_IF_ERROR(
      communicator.Broadcast(View(std::span<int64_t>(header), DType::kI64), root));
  parts.resize(header[1]);
  for (std::string& part : parts) {
    MILLRACE_RETURN_IF_ERROR(BroadcastFrom(communicator, root, part));
  }
  status = absl::Status(static_cast<absl::StatusCode>(header[0]), parts[0]);
  for (size_t i = 1; i + 1 < parts.size(); i += 2) {
    status.SetPayload(parts[i], absl::Cord(parts[i + 1]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WithoutExceptions(const std::function<absl::Status()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("exception: ", error.what()));
  }
}

absl::Status AgreeOnStatus(Communicator& communicator, const absl::Status& mine) {
  if (communicator.size() == 1) return mine.ok() ? mine : MarkAgreed(mine);
  // The lowest rank that failed; size() when none did.
  int64_t failed = mine.ok() ? communicator.size() : communicator.rank();
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllReduce(View(std::span(&failed, 1), DType::kI64), ReduceOp::kMin));
  if (failed == communicator.size()) return absl::OkStatus();
  const int root = static_cast<int>(failed);
  absl::Status status = mine;
  MILLRACE_RETURN_IF_ERROR(BroadcastStatus(communicator, root, status));
  return MarkAgreed(Annotate(status, absl::StrCat("rank ", root)));
}

absl::Status BroadcastText(Communicator& communicator, std::string& text) {
  return BroadcastFrom(communicator, 0, text);
}

absl::Status BroadcastTensors(Communicator& communicator,
                              std::vector<std::vector<float>>& tensors) {
  for (std::vector<float>& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(
        communicator.Broadcast(View(std::span<float>(tensor), DType::kF32), 0));
  }
  return absl::OkStatus();
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

absl::Status CheckSameText(Communicator& communicator, std::string_view name,
                           const std::string& text, const Comparison& compare) {
  std::string rank0 = text;
  MILLRACE_RETURN_IF_ERROR(BroadcastText(communicator, rank0));
  // The lowest rank that differs; size() when none does.
  int64_t differs = text == rank0 ? communicator.size() : communicator.rank();
  MILLRACE_RETURN_IF_ERROR(
      communicator.AllReduce(View(std::span(&differs, 1), DType::kI64), ReduceOp::kMin));
  if (differs == communicator.size()) return absl::OkStatus();
  std::string other = text;
  MILLRACE_RETURN_IF_ERROR(BroadcastFrom(communicator, static_cast<int>(differs), other));
  return MarkAgreed(absl::InvalidArgumentError(absl::StrCat(
      "rank ", differs, " differs from rank 0 in ", ToAbsl(name), ": ", compare(rank0, other))));
}

std::string FirstDifferentLine(const std::string& rank0, const std::string& other) {
  const std::vector<std::string> a = absl::StrSplit(rank0, '\n');
  const std::vector<std::string> b = absl::StrSplit(other, '\n');
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const auto line = [i](const std::vector<std::string>& lines) {
    return i < lines.size() && !lines[i].empty() ? absl::StrCat("\"", lines[i], "\"")
                                                 : std::string("nothing");
  };
  return absl::StrCat(line(a), " on rank 0, ", line(b), " there");
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
