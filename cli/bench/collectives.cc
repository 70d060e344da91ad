#include "cli/bench/collectives.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/half.h"
#include "base/status.h"
#include "cli/bench/buffer.h"

namespace millrace::cli {
namespace {

using collectives::Collective;
using collectives::Communicator;
using collectives::ReduceOp;
using collectives::Request;

// The value that rank `rank` brings as element `i`: a small whole number. Reductions of such
// numbers are exact in every type and order, so that one wrong bit shows.
int Value(int rank, uint64_t i) {
  return static_cast<int>((i * 7 + static_cast<uint64_t>(rank) * 5) % 3);
}
// Products stay small: all but one rank bring 1.
int Factor(int rank, uint64_t i, int size) {
  return i % static_cast<uint64_t>(size) == static_cast<uint64_t>(rank) ? 1 + Value(rank, i) : 1;
}

int Brought(ReduceOp op, int rank, uint64_t i, int size) {
  return op == ReduceOp::kProduct ? Factor(rank, i, size) : Value(rank, i);
}

double Reduced(ReduceOp op, uint64_t i, int size) {
  double result = Brought(op, 0, i, size);
  for (int r = 1; r < size; ++r) {
    const double value = Brought(op, r, i, size);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += value;
        break;
      case ReduceOp::kProduct:
        result *= value;
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / size : result;
}

void Store(DType dtype, std::byte* data, uint64_t i, double value) {
  const auto put = [&](auto typed) {
    std::memcpy(data + i * sizeof(typed), &typed, sizeof(typed));
  };
  switch (dtype) {
    case DType::kU8:
      return put(static_cast<uint8_t>(static_cast<int64_t>(value)));  // sums wrap round
    case DType::kI32:
      return put(static_cast<int32_t>(value));
    case DType::kI64:
      return put(static_cast<int64_t>(value));
    case DType::kF16:
      return put(ToHalf(static_cast<float>(value)));
    case DType::kBF16:
      return put(ToBFloat(static_cast<float>(value)));
    case DType::kF32:
      return put(static_cast<float>(value));
    default:
      return put(value);
  }
}

// One kind of call with one size: how much memory each rank has, and its contents before and after.
class Case {
 public:
  // `count` is that of nccl-tests: of the larger side, in whole blocks.
  Case(const CollectiveBenchOptions& options, const Communicator& communicator, uint64_t count)
      : options_(options),
        rank_(communicator.rank()),
        size_(communicator.size()),
        count_(count),
        block_(count / size_) {}

  // Every rank makes the same call, but in a ring of messages.
  absl::Status Call(Communicator& communicator, std::byte* in, std::byte* out) const;
  void Fill(std::byte* in) const;
  int64_t CountWrong(const std::byte* out) const;

 private:
  TensorView View(std::byte* data, uint64_t count) const {
    return {data, options_.dtype, Shape{static_cast<int64_t>(count)}};
  }
  absl::Status PassOn(Communicator& communicator, std::byte* in, std::byte* out) const;
  uint64_t NumIn() const { return options_.kind == Collective::kAllGather ? block_ : count_; }
  uint64_t NumOut() const { return options_.kind == Collective::kReduceScatter ? block_ : count_; }
  double Expected(uint64_t i) const;

  const CollectiveBenchOptions& options_;
  const int rank_;
  const int size_;
  const uint64_t count_;
  const uint64_t block_;
};

absl::Status Case::Call(Communicator& communicator, std::byte* in, std::byte* out) const {
  switch (options_.kind) {
    case Collective::kAllReduce:
      return communicator.AllReduce(View(out, count_), options_.op);
    case Collective::kReduceScatter:
      return communicator.ReduceScatter(View(in, count_), View(out, block_), options_.op);
    case Collective::kAllGather:
      return communicator.AllGather(View(in, block_), View(out, count_));
    case Collective::kBroadcast:
      return communicator.Broadcast(View(out, count_), options_.root);
    case Collective::kReduce:
      return communicator.Reduce(View(out, count_), options_.op, options_.root);
    case Collective::kAllToAll:
      return communicator.AllToAll(View(in, count_), View(out, count_));
    case Collective::kSend:
      return PassOn(communicator, in, out);
    default:
      return absl::InternalError("not a benched call");
  }
}

// Each rank sends to the next one and receives from the one before it, at the same time. Every
// second rank begins with the receipt: NCCL makes begun messages one after the other.
absl::Status Case::PassOn(Communicator& communicator, std::byte* in, std::byte* out) const {
  Request send{Collective::kSend, View(in, count_), {}, ReduceOp::kSum, (rank_ + 1) % size_};
  Request receive{
      Collective::kRecv, {}, View(out, count_), ReduceOp::kSum, (rank_ + size_ - 1) % size_};
  const bool sends_first = rank_ % 2 == 0;
  const auto first = communicator.Start(sends_first ? send : receive);
  const auto second = communicator.Start(sends_first ? receive : send);
  const absl::Status outcome = first->Wait();
  MILLRACE_RETURN_IF_ERROR(second->Wait());
  return outcome;
}

void Case::Fill(std::byte* in) const {
  for (uint64_t i = 0; i < NumIn(); ++i) {
    Store(options_.dtype, in, i, Brought(options_.op, rank_, i, size_));
  }
}

double Case::Expected(uint64_t i) const {
  switch (options_.kind) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return Reduced(options_.op, i, size_);
    case Collective::kReduceScatter:
      return Reduced(options_.op, block_ * rank_ + i, size_);
    case Collective::kAllGather:
      return Brought(options_.op, static_cast<int>(i / block_), i % block_, size_);
    case Collective::kBroadcast:
      return Brought(options_.op, options_.root, i, size_);
    case Collective::kAllToAll:
      return Brought(options_.op, static_cast<int>(i / block_), block_ * rank_ + i % block_, size_);
    default:
      return Brought(options_.op, (rank_ + size_ - 1) % size_, i, size_);
  }
}

int64_t Case::CountWrong(const std::byte* out) const {
  if (options_.kind == Collective::kReduce && rank_ != options_.root) return 0;
  const size_t element = SizeOf(options_.dtype);
  int64_t wrong = 0;
  for (uint64_t i = 0; i < NumOut(); ++i) {
    std::byte expected[sizeof(double)];
    Store(options_.dtype, expected, 0, Expected(i));
    if (std::memcmp(expected, out + i * element, element) != 0) ++wrong;
  }
  return wrong;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool InPlace(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kBroadcast ||
         kind == Collective::kReduce;
}

// The median time of a call on this rank.
absl::StatusOr<double> TimeCalls(Communicator& communicator, const CollectiveBenchOptions& options,
                                 const Case& one, std::byte* in, std::byte* out) {
  std::vector<double> seconds;
  for (int turn = -options.warmup; turn < options.repeats; ++turn) {
    MILLRACE_RETURN_IF_ERROR(communicator.Barrier());
    const auto start = std::chrono::steady_clock::now();
    MILLRACE_RETURN_IF_ERROR(one.Call(communicator, in, out));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (turn >= 0) seconds.push_back(took.count());
  }
  return Median(std::move(seconds));
}

struct Buffers {
  BenchBuffer in;
  BenchBuffer out;
  BenchBuffer figure;  // one number
};

// The reduction of all ranks' `value`.
template <typename T>
absl::StatusOr<T> Combine(Communicator& communicator, BenchBuffer& figure, T value, DType dtype,
                          ReduceOp op) {
  std::memcpy(figure.host(), &value, sizeof(value));
  MILLRACE_RETURN_IF_ERROR(figure.Upload(sizeof(value)));
  MILLRACE_RETURN_IF_ERROR(communicator.AllReduce({figure.data(), dtype, Shape{1}}, op));
  MILLRACE_RETURN_IF_ERROR(figure.Download(sizeof(value)));
  std::memcpy(&value, figure.host(), sizeof(value));
  return value;
}

// Those of `bytes` on all ranks or on none, so that nobody waits for a rank without memory.
absl::StatusOr<Buffers> MakeBuffers(Communicator& communicator, uint64_t bytes) {
  MILLRACE_ASSIGN_OR_RETURN(BenchBuffer figure, BenchBuffer::Make(communicator, sizeof(int64_t)));
  absl::StatusOr<BenchBuffer> in = BenchBuffer::Make(communicator, bytes);
  absl::StatusOr<BenchBuffer> out = BenchBuffer::Make(communicator, bytes);
  const int64_t lacks = in.ok() && out.ok() ? 0 : 1;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t num_lacking,
                            Combine(communicator, figure, lacks, DType::kI64, ReduceOp::kSum));
  MILLRACE_RETURN_IF_ERROR(in.status());
  MILLRACE_RETURN_IF_ERROR(out.status());
  if (num_lacking == 0) return Buffers{*std::move(in), *std::move(out), std::move(figure)};
  return absl::ResourceExhaustedError(
      absl::StrCat(num_lacking, " other ranks lack memory for ", bytes, " bytes"));
}

// The wrong elements of all ranks after one call.
absl::StatusOr<int64_t> Check(Communicator& communicator, const CollectiveBenchOptions& options,
                              const Case& one, uint64_t bytes, Buffers& buffers) {
  if (InPlace(options.kind)) {
    one.Fill(buffers.out.host());
    MILLRACE_RETURN_IF_ERROR(buffers.out.Upload(bytes));
  }
  MILLRACE_RETURN_IF_ERROR(one.Call(communicator, buffers.in.data(), buffers.out.data()));
  MILLRACE_RETURN_IF_ERROR(buffers.out.Download(bytes));
  return Combine(communicator, buffers.figure, one.CountWrong(buffers.out.host()), DType::kI64,
                 ReduceOp::kSum);
}

absl::StatusOr<CollectiveBenchRow> BenchSize(Communicator& communicator,
                                             const CollectiveBenchOptions& options, uint64_t count,
                                             Buffers& buffers) {
  const Case one(options, communicator, count);
  CollectiveBenchRow row;
  row.count = count;
  row.bytes = count * SizeOf(options.dtype);
  // Calls in place are timed on zeros: sums of sums would overflow.
  std::memset(buffers.out.host(), 0, row.bytes);
  one.Fill(buffers.in.host());
  MILLRACE_RETURN_IF_ERROR(buffers.out.Upload(row.bytes));
  MILLRACE_RETURN_IF_ERROR(buffers.in.Upload(row.bytes));
  MILLRACE_ASSIGN_OR_RETURN(const double seconds, TimeCalls(communicator, options, one,
                                                            buffers.in.data(), buffers.out.data()));
  MILLRACE_ASSIGN_OR_RETURN(
      row.seconds, Combine(communicator, buffers.figure, seconds, DType::kF64, ReduceOp::kMax));
  row.algorithm_bytes_per_second = static_cast<double>(row.bytes) / row.seconds;
  row.bus_bytes_per_second =
      row.algorithm_bytes_per_second * BusFactor(options.kind, communicator.size());
  if (!options.check) return row;
  MILLRACE_ASSIGN_OR_RETURN(row.num_wrong, Check(communicator, options, one, row.bytes, buffers));
  return row;
}

// A backend with sums of its own may average by a sum of quotients.
bool RoundsAverages(const Communicator& communicator) {
  return !communicator.capabilities().ordered_sums &&
         !std::has_single_bit(static_cast<unsigned>(communicator.size()));
}

absl::Status CheckOptions(const CollectiveBenchOptions& options, const Communicator& communicator) {
  const int size = communicator.size();
  if (options.min_bytes > options.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the smallest size, ", options.min_bytes,
                                                   " bytes, is above the largest, ",
                                                   options.max_bytes));
  }
  if (options.root < 0 || options.root >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat("root ", options.root, " is not a rank of ", size));
  }
  if (options.kind == Collective::kSend && size < 2) {
    return absl::InvalidArgumentError("send-recv needs two ranks");
  }
  if (options.op == ReduceOp::kAverage && SizeOf(options.dtype) > 0 &&
      (options.dtype == DType::kU8 || options.dtype == DType::kI32 ||
       options.dtype == DType::kI64)) {
    return absl::InvalidArgumentError(absl::StrCat("no averages of ", ToAbsl(Name(options.dtype))));
  }
  if (options.op == ReduceOp::kAverage && options.check && RoundsAverages(communicator)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NCCL may round averages over ", size, " ranks, so that none is exact: give --no-check"));
  }
  return absl::OkStatus();
}

struct NamedCollective {
  const char* name;
  Collective kind;
};
constexpr NamedCollective kCollectives[] = {
    {"allreduce", Collective::kAllReduce},  {"reduce-scatter", Collective::kReduceScatter},
    {"all-gather", Collective::kAllGather}, {"broadcast", Collective::kBroadcast},
    {"reduce", Collective::kReduce},        {"all-to-all", Collective::kAllToAll},
    {"send-recv", Collective::kSend},
};

}  // namespace

double BusFactor(Collective kind, int num_ranks) {
  const double n = num_ranks;
  switch (kind) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return (n - 1) / n;
    default:
      return 1;
  }
}

std::vector<std::string> CollectiveNames() {
  std::vector<std::string> names;
  for (const NamedCollective& named : kCollectives) names.push_back(named.name);
  return names;
}

absl::StatusOr<Collective> CollectiveOf(std::string_view name) {
  for (const NamedCollective& named : kCollectives) {
    if (name == named.name) return named.kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("no operation '", ToAbsl(name), "' (there are ",
                                                 absl::StrJoin(CollectiveNames(), ", "), ")"));
}

absl::StatusOr<ReduceOp> ReduceOpOf(std::string_view name) {
  constexpr std::pair<const char*, ReduceOp> kOps[] = {{"sum", ReduceOp::kSum},
                                                       {"product", ReduceOp::kProduct},
                                                       {"min", ReduceOp::kMin},
                                                       {"max", ReduceOp::kMax},
                                                       {"average", ReduceOp::kAverage}};
  for (const auto& [known, op] : kOps) {
    if (name == known) return op;
  }
  return absl::InvalidArgumentError(absl::StrCat("no reduction '", ToAbsl(name),
                                                 "' (there are sum, product, min, max, average)"));
}

absl::StatusOr<DType> ElementTypeOf(std::string_view name) {
  for (const DType dtype : {DType::kU8, DType::kI32, DType::kI64, DType::kF16, DType::kBF16,
                            DType::kF32, DType::kF64}) {
    if (name == Name(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no element type '", ToAbsl(name),
                   "' (there are uint8, int32, int64, float16, bfloat16, float32, float64)"));
}

uint64_t BytesOfAllSizes(const CollectiveBenchOptions& options) {
  uint64_t sum = 0;
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    sum += bytes;
    if (bytes > options.max_bytes / options.factor) break;  // the product would overflow
  }
  return sum;
}

absl::Status BenchCollective(Communicator& communicator, const CollectiveBenchOptions& options,
                             const std::function<void(const CollectiveBenchRow&)>& print) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options, communicator));
  MILLRACE_ASSIGN_OR_RETURN(Buffers buffers, MakeBuffers(communicator, options.max_bytes));
  const size_t element = SizeOf(options.dtype);
  const auto blocks = static_cast<uint64_t>(communicator.size());
  bool any = false;
  for (uint64_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
    const uint64_t count = bytes / element / blocks * blocks;
    if (count > 0) {
      MILLRACE_ASSIGN_OR_RETURN(const CollectiveBenchRow row,
                                BenchSize(communicator, options, count, buffers));
      print(row);
      any = true;
    }
    if (bytes > options.max_bytes / options.factor) break;  // the product would overflow
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "none of the sizes from ", options.min_bytes, " to ", options.max_bytes,
      " bytes has an element of ", ToAbsl(Name(options.dtype)), " for each of ", blocks, " ranks"));
}

}  // namespace millrace::cli
