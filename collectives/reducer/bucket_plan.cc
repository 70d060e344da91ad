// The plan and its agreement between ranks.
//
// Ranks that fuse different tensors into one reduction add apples to pears without any error, so
// Make compares a hash of everything that the plan is made from. Only when the hashes differ do the
// plans themselves travel (rank 0's and the lowest differing rank's, to everybody), so that every
// rank can name the same tensor.

#include "collectives/reducer/bucket_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "collectives/agreed.h"
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::collectives {
namespace {

// Far above any model, far below an overflow in bytes or padding.
constexpr int64_t kMaxElements = int64_t{1} << 48;
// Fields before the gradients: format, and two per option.
constexpr size_t kHeaderFields = 21;

absl::StatusOr<size_t> CountElements(const GradientSpec& gradient) {
  int64_t count = 1;
  for (const int64_t extent : gradient.shape.extents()) {
    if (extent < 0 || (extent > 0 && count > kMaxElements / extent)) {
      return absl::InvalidArgumentError(absl::StrCat("gradient '", gradient.name, "' has shape ",
                                                     gradient.shape.ToString(),
                                                     ": unknown or too large"));
    }
    count *= extent;
  }
  return static_cast<size_t>(count);
}

size_t Padded(size_t bytes, int num_shares = 1) {
  const size_t step = BucketPlan::kAlignment * static_cast<size_t>(num_shares);
  return (bytes + step - 1) / step * step;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

absl::Status CheckOptions(const ReducerOptions& options) {
  if (options.bucket_bytes == 0 || options.edge_bucket_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.bucket_bytes == 0 ? "bucket_bytes" : "edge_bucket_bytes", " must be above 0"));
  }
  if (!(options.clip_norm >= 0 && std::isfinite(options.clip_norm))) {
    return absl::InvalidArgumentError(
        absl::StrCat("clip_norm ", options.clip_norm, " is not a finite number of 0 or more"));
  }
  if (options.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches ", options.micro_batches, " must be above 0"));
  }
  if (!IsFloat(options.wire)) {
    return absl::InvalidArgumentError(
        absl::StrCat("wire ", ToAbsl(Name(options.wire)), " is not float32, float16 or bfloat16"));
  }
  if (options.exact && options.wire != DType::kF32) {
    return absl::InvalidArgumentError("exact sums do not go with a narrower type on the wire");
  }
  if (options.exact && options.shard) {
    return absl::InvalidArgumentError("exact sums do not go with shards");
  }
  return absl::OkStatus();
}

// Buckets in the order in which they were opened; those of several types are open side by side.
class BucketCutter {
 public:
  explicit BucketCutter(const ReducerOptions& options) : options_(options) {}

  void Add(size_t gradient, DType dtype, size_t bytes) {
    auto open = open_.find(dtype);
    if (open != open_.end()) {
      const size_t limit = open->second == 0 ? options_.edge_bucket_bytes : options_.bucket_bytes;
      const BucketPlan::Bucket& bucket = buckets_[open->second];
      if (bucket.bytes > 0 && bucket.bytes + bytes > limit) open = open_.end();
    }
    if (open == open_.end()) {
      open = open_.insert_or_assign(dtype, buckets_.size()).first;
      buckets_.push_back({dtype, {}, 0, 0});
    }
    BucketPlan::Bucket& bucket = buckets_[open->second];
    bucket.gradients.push_back(gradient);
    bucket.bytes += sizes_.emplace_back(Padded(bytes));
  }

  // A bucket is full when its last gradient is there, so that is the order in which they are
  // reduced.
  std::vector<BucketPlan::Bucket> Take() {
    const auto before = [](const auto& a, const auto& b) {
      return a.gradients.back() < b.gradients.back();
    };
    const auto last = std::max_element(buckets_.begin(), buckets_.end(), before);
    if (last != buckets_.end()) ShortenLast(*last);
    std::sort(buckets_.begin(), buckets_.end(), before);
    return std::move(buckets_);
  }

 private:
  // The gradients in the last bucket wait until backward is done, and then backward waits for them.
  void ShortenLast(BucketPlan::Bucket& bucket) {
    BucketPlan::Bucket last = {bucket.dtype, {}, 0, 0};
    size_t num_kept = bucket.gradients.size();
    while (num_kept > 0) {
      const size_t bytes = sizes_[bucket.gradients[num_kept - 1]];
      if (last.bytes > 0 && last.bytes + bytes > options_.edge_bucket_bytes) break;
      last.bytes += bytes;
      --num_kept;
    }
    if (bucket.bytes - last.bytes <= options_.edge_bucket_bytes) return;  // it would gain little
    const auto first = bucket.gradients.begin() + static_cast<std::ptrdiff_t>(num_kept);
    last.gradients.assign(first, bucket.gradients.end());
    bucket.gradients.erase(first, bucket.gradients.end());
    bucket.bytes -= last.bytes;
    buckets_.push_back(std::move(last));
  }

  const ReducerOptions& options_;
  std::vector<size_t> sizes_;  // by gradient, padded
  std::vector<BucketPlan::Bucket> buckets_;
  std::map<DType, size_t> open_;
};

void AppendField(std::string& out, std::string_view field) {
  const uint64_t size = field.size();
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(size >> shift));
  out.append(field);
}

// The inverse of AppendField; nullopt for bytes that it did not make.
std::optional<std::vector<std::string_view>> Fields(std::string_view encoded) {
  std::vector<std::string_view> fields;
  while (!encoded.empty()) {
    if (encoded.size() < 8) return std::nullopt;
    uint64_t size = 0;
    for (int i = 0; i < 8; ++i) {
      size |= static_cast<uint64_t>(static_cast<unsigned char>(encoded[i])) << (8 * i);
    }
    encoded.remove_prefix(8);
    if (size > encoded.size()) return std::nullopt;
    fields.push_back(encoded.substr(0, size));
    encoded.remove_prefix(size);
  }
  if (fields.size() < kHeaderFields || (fields.size() - kHeaderFields) % 2 != 0) {
    return std::nullopt;
  }
  return fields;
}

bool HasTensor(const std::vector<std::string_view>& fields, std::string_view name) {
  for (size_t i = kHeaderFields; i < fields.size(); i += 2) {
    if (fields[i] == name) return true;
  }
  return false;
}

std::string MissingText(std::string_view name, size_t position, int there, int missing) {
  return absl::StrCat("tensor ", position, " of rank ", there, ", '", ToAbsl(name),
                      "', is missing on rank ", missing);
}

// The difference at the pair of fields (name, shape) that starts at `i`; both have it, or one ends.
std::string DescribeTensor(const std::vector<std::string_view>& a,
                           const std::vector<std::string_view>& b, size_t i, int rank) {
  const size_t position = (i - kHeaderFields) / 2;
  if (i < a.size() && !HasTensor(b, a[i])) return MissingText(a[i], position, 0, rank);
  if (i < b.size() && !HasTensor(a, b[i])) return MissingText(b[i], position, rank, 0);
  if (a[i] != b[i]) {
    return absl::StrCat("tensor ", position, " is '", ToAbsl(a[i]), "' on rank 0 and '",
                        ToAbsl(b[i]), "' on rank ", rank);
  }
  return absl::StrCat("tensor ", position, ", '", ToAbsl(a[i]), "', is ", ToAbsl(a[i + 1]),
                      " on rank 0 and ", ToAbsl(b[i + 1]), " on rank ", rank);
}

// The three numbers that each rank tells about its plan.
struct Header {
  int64_t hash = 0;
  int64_t planned = 0;  // 1, or 0: the text is the reason
  int64_t bytes = 0;    // of the text
};

absl::StatusOr<std::vector<Header>> GatherHeaders(Communicator& communicator, Header own) {
  std::vector<Header> all(communicator.size());
  static_assert(sizeof(Header) == 3 * sizeof(int64_t));
  const int64_t count = static_cast<int64_t>(all.size()) * 3;
  MILLRACE_RETURN_IF_ERROR(communicator.AllGather(
      TensorView{&own, DType::kI64, Shape{3}}, TensorView{all.data(), DType::kI64, Shape{count}}));
  return all;
}

absl::StatusOr<std::string> BroadcastText(Communicator& communicator, std::string_view own,
                                          int64_t bytes, int root) {
  std::string text = communicator.rank() == root ? std::string(own) : std::string(bytes, '\0');
  MILLRACE_RETURN_IF_ERROR(
      communicator.Broadcast(TensorView{text.data(), DType::kU8, Shape{bytes}}, root));
  return text;
}

}  // namespace

absl::StatusOr<BucketPlan> MakeBucketPlan(const std::vector<GradientSpec>& gradients,
                                          const ReducerOptions& options, int num_shares) {
  MILLRACE_RETURN_IF_ERROR(CheckOptions(options));
  BucketPlan plan;
  BucketCutter cutter(options);
  std::unordered_set<std::string_view> names;
  size_t elements = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const GradientSpec& gradient = gradients[i];
    if (!names.insert(gradient.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient name '", gradient.name, "' is used twice"));
    }
    if (!IsFloat(gradient.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat("gradient '", gradient.name, "' is ",
                                                     ToAbsl(Name(gradient.dtype)),
                                                     ": not float32, float16 or bfloat16"));
    }
    MILLRACE_ASSIGN_OR_RETURN(const size_t count, CountElements(gradient));
    elements += count;
    if (elements > static_cast<size_t>(kMaxElements)) {
      return absl::InvalidArgumentError(
          absl::StrCat("all gradients up to '", gradient.name, "' are too large together"));
    }
    plan.counts.push_back(count);
    cutter.Add(i, gradient.dtype, count * SizeOf(gradient.dtype));
  }
  plan.buckets = cutter.Take();
  plan.offsets.resize(gradients.size());
  plan.bucket_of.resize(gradients.size());
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    BucketPlan::Bucket& bucket = plan.buckets[b];
    bucket.offset = plan.total_bytes;
    for (const size_t gradient : bucket.gradients) {
      plan.bucket_of[gradient] = b;
      plan.offsets[gradient] = plan.total_bytes;
      plan.total_bytes += Padded(plan.counts[gradient] * SizeOf(bucket.dtype));
    }
    bucket.bytes = Padded(bucket.bytes, num_shares);
    plan.total_bytes = bucket.offset + bucket.bytes;
  }
  return plan;
}

std::string EncodePlanInputs(const std::vector<GradientSpec>& gradients,
                             const ReducerOptions& options, std::string_view memory) {
  std::string encoded;
  const auto option = [&encoded](std::string_view name, const std::string& value) {
    AppendField(encoded, name);
    AppendField(encoded, value);
  };
  AppendField(encoded, "millrace gradient plan 4");
  option("bucket_bytes", absl::StrCat(options.bucket_bytes));
  option("edge_bucket_bytes", absl::StrCat(options.edge_bucket_bytes));
  option("exact", options.exact ? "true" : "false");
  option("average_by_rows", options.average_by_rows ? "true" : "false");
  option("skip_non_finite", options.skip_non_finite ? "true" : "false");
  option("clip_norm", absl::StrFormat("%.17g", options.clip_norm));
  option("shard", options.shard ? "true" : "false");
  option("micro_batches", absl::StrCat(options.micro_batches));
  option("wire", std::string(Name(options.wire)));
  option("memory", std::string(memory));
  for (const GradientSpec& gradient : gradients) {
    AppendField(encoded, gradient.name);
    AppendField(encoded,
                absl::StrCat(ToAbsl(Name(gradient.dtype)), " ", gradient.shape.ToString()));
  }
  return encoded;
}

uint64_t HashPlanInputs(std::string_view encoded) {
  return XXH3_64bits(encoded.data(), encoded.size());
}

std::string DescribeDifference(std::string_view rank0, std::string_view other, int rank) {
  const auto a = Fields(rank0);
  const auto b = Fields(other);
  if (!a || !b || (*a)[0] != (*b)[0]) return "the ranks run different versions of this program";
  for (size_t i = 1; i < kHeaderFields; i += 2) {
    if ((*a)[i + 1] == (*b)[i + 1]) continue;
    return absl::StrCat("option ", ToAbsl((*a)[i]), " is ", ToAbsl((*a)[i + 1]), " on rank 0 and ",
                        ToAbsl((*b)[i + 1]), " on rank ", rank);
  }
  size_t i = kHeaderFields;
  while (i < a->size() && i < b->size() && (*a)[i] == (*b)[i] && (*a)[i + 1] == (*b)[i + 1]) i += 2;
  if (i >= a->size() && i >= b->size()) return "the plans are equal but their hashes differ";
  return DescribeTensor(*a, *b, i, rank);
}

absl::Status AgreeOnPlan(Communicator& communicator, const absl::Status& planned,
                         std::string_view encoded) {
  const std::string reason = planned.ToString();
  const std::string_view text = planned.ok() ? encoded : std::string_view(reason);
  const Header own = {static_cast<int64_t>(HashPlanInputs(text)), planned.ok() ? 1 : 0,
                      static_cast<int64_t>(text.size())};
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<Header> all, GatherHeaders(communicator, own));
  const auto failed =
      std::find_if(all.begin(), all.end(), [](const Header& h) { return h.planned == 0; });
  if (failed != all.end()) {
    const int rank = static_cast<int>(failed - all.begin());
    MILLRACE_ASSIGN_OR_RETURN(const std::string why,
                              BroadcastText(communicator, text, failed->bytes, rank));
    if (!planned.ok()) return MarkAgreed(planned);
    return MarkAgreed(absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " could not plan its gradients: ", why)));
  }
  const auto differs = std::find_if(all.begin(), all.end(),
                                    [&all](const Header& h) { return h.hash != all[0].hash; });
  if (differs == all.end()) return absl::OkStatus();
  const int rank = static_cast<int>(differs - all.begin());
  MILLRACE_ASSIGN_OR_RETURN(const std::string rank0,
                            BroadcastText(communicator, text, all[0].bytes, 0));
  MILLRACE_ASSIGN_OR_RETURN(const std::string other,
                            BroadcastText(communicator, text, differs->bytes, rank));
  return MarkAgreed(absl::InvalidArgumentError(
      absl::StrCat("the gradient plans of ranks 0 and ", rank,
                   " differ: ", DescribeDifference(rank0, other, rank))));
}

}  // namespace millrace::collectives
