#include "trainer/strategy/host_weight_update.h"

#include <algorithm>
#include <iterator>

#include "base/status.h"
#include "trainer/compute/keep_denormals.h"
#include "trainer/compute/threads.h"
#include "trainer/optimizer/square_sum.h"
#include "trainer/ranks/agree.h"
#include "trainer/ranks/waiting.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {
namespace {

// Fewer elements are done by one thread before another one has begun.
constexpr int64_t kLeastOfThread = 16384;

int ThreadsFor(int64_t elements, int threads) {
  return static_cast<int>(std::clamp<int64_t>(elements / kLeastOfThread, 1, std::max(1, threads)));
}

}  // namespace

std::span<float> HostWeightUpdate::GradientOf(collectives::GradientReducer& gradients,
                                              size_t i) const {
  return gradients.gradient(ReducerIndex(*model_, i)).as<float>();
}

std::span<const float> HostWeightUpdate::SumsOf(collectives::GradientReducer& sums,
                                                size_t p) const {
  const Piece& piece = pieces()[p];
  return GradientOf(sums, piece.parameter).subspan(piece.begin, piece.size());
}

std::span<float> HostWeightUpdate::WeightsOf(TensorSet& weights, size_t p) const {
  const Piece& piece = pieces()[p];
  return std::span(weights[piece.parameter]).subspan(piece.begin, piece.size());
}

std::vector<HostWeightUpdate::BucketPieces> HostWeightUpdate::CutByBucket(
    const collectives::GradientReducer& sums,
    const std::function<bool(size_t p)>& is_wanted) const {
  std::vector<BucketPieces> buckets;
  for (size_t p = 0; p < pieces().size(); ++p) {
    if (!is_wanted(p)) continue;
    const size_t bucket = sums.bucket_of(ReducerIndex(*model_, pieces()[p].parameter));
    if (buckets.empty() || buckets.back().bucket != bucket) buckets.push_back({bucket, {}, 0});
    buckets.back().pieces.push_back(p);
    buckets.back().elements += static_cast<int64_t>(pieces()[p].size());
  }
  return buckets;
}

// The elements of a bucket are one range, which is cut evenly: so a piece may be in several parts.
// Threads do not wait for each other between buckets.
void HostWeightUpdate::OnThreads(
    const std::vector<BucketPieces>& buckets, const std::function<void(size_t bucket)>& enter,
    const std::function<void(int thread, size_t p, size_t from, size_t to)>& body) {
  int64_t elements = 0;
  for (const BucketPieces& bucket : buckets) elements += bucket.elements;
  RunOnThreads(ThreadsFor(elements, threads_), [&](int thread, int of) {
    const KeepDenormals keep;
    for (const BucketPieces& bucket : buckets) {
      if (thread == 0) enter(bucket.bucket);
      const auto [begin, end] = PartOf(bucket.elements, thread, of);
      int64_t start = 0;  // of the piece
      for (const size_t p : bucket.pieces) {
        const auto size = static_cast<int64_t>(pieces()[p].size());
        const int64_t from = std::max<int64_t>(begin - start, 0);
        const int64_t to = std::min<int64_t>(end - start, size);
        if (from < to) body(thread, p, static_cast<size_t>(from), static_cast<size_t>(to));
        start += size;
      }
    }
  });
}

void HostWeightUpdate::Magnitudes::Add(const Magnitudes& other) {
  for (int i = 0; i < 2; ++i) largest[i] = std::max(largest[i], other.largest[i]);
  for (int i = 0; i < 4; ++i) squares[i] += other.squares[i];
}

void HostWeightUpdate::FindOwn(collectives::GradientReducer& sums, TensorSet& weights,
                               std::span<const Wanted> wanted, std::span<Magnitudes> found) {
  const std::vector<Magnitudes> none(found.size());
  std::vector<std::vector<Magnitudes>> parts(std::max(1, threads_), none);  // by thread
  const auto add = [&](int thread, size_t p, size_t from, size_t to) {
    const size_t i = pieces()[p].parameter;
    const std::span<const float> values[] = {WeightsOf(weights, p), SumsOf(sums, p)};
    Magnitudes& part = parts[thread][i];
    for (int k = 0; k < 2; ++k) {
      if (!wanted[i][k]) continue;
      const double largest = LargestAndSquares(values[k].subspan(from, to - from), guesses_[i][k],
                                               weights[i].size(), &part.squares[2 * k]);
      part.largest[k] = std::max(part.largest[k], largest);
    }
  };
  const auto is_wanted = [&](size_t p) {
    const Wanted& of = wanted[pieces()[p].parameter];
    return of[0] || of[1];
  };
  const std::vector<BucketPieces> buckets = CutByBucket(sums, is_wanted);
  if (!buckets.empty())
    OnThreads(
        buckets, [](size_t) {}, add);
  for (const std::vector<Magnitudes>& of_thread : parts) {
    for (size_t i = 0; i < found.size(); ++i) found[i].Add(of_thread[i]);
  }
}

absl::Status HostWeightUpdate::ShareLargest(std::span<Magnitudes> found) const {
  if (communicator_ == nullptr) return absl::OkStatus();
  std::vector<double> largest;
  for (const Magnitudes& of : found) {
    largest.insert(largest.end(), std::begin(of.largest), std::end(of.largest));
  }
  MILLRACE_RETURN_IF_ERROR(MaxOverRanks(*communicator_, largest));
  for (size_t i = 0; i < found.size(); ++i) {
    std::copy_n(&largest[2 * i], 2, found[i].largest);
  }
  return absl::OkStatus();
}

absl::Status HostWeightUpdate::ShareSquares(std::span<Magnitudes> found) const {
  if (communicator_ == nullptr) return absl::OkStatus();
  std::vector<double> squares;
  for (const Magnitudes& of : found) {
    squares.insert(squares.end(), std::begin(of.squares), std::end(of.squares));
  }
  MILLRACE_RETURN_IF_ERROR(SumOverRanks(*communicator_, std::span<double>(squares)));
  for (size_t i = 0; i < found.size(); ++i) std::copy_n(&squares[4 * i], 4, found[i].squares);
  return absl::OkStatus();
}

// Squares are rounded by the largest magnitude of the whole parameter, which is known after a pass
// over all ranks' pieces. That of the update before mostly rounds alike, so one pass does; where it
// does not, there is another one. So the norms do not depend on how parameters are cut.
absl::Status HostWeightUpdate::FindNorms(collectives::GradientReducer& sums, int64_t step,
                                         TensorSet& weights) {
  const size_t count = model_->parameters.size();
  const Waiting waiting(communicator_ != nullptr ? progress_ : nullptr, step);
  guesses_.resize(count);
  std::vector<Wanted> wanted(count);
  for (size_t p = 0; p < pieces().size(); ++p) {
    wanted[pieces()[p].parameter].fill(optimizer_.wants_norms(p));
  }
  std::vector<Magnitudes> found(count);
  FindOwn(sums, weights, wanted, found);
  MILLRACE_RETURN_IF_ERROR(ShareLargest(found));
  for (size_t i = 0; i < count; ++i) {
    for (int k = 0; k < 2; ++k) {
      const double largest = found[i].largest[k];
      wanted[i][k] = wanted[i][k] && !SameRounding(largest, guesses_[i][k], weights[i].size());
      guesses_[i][k] = largest;
      if (wanted[i][k]) std::fill_n(&found[i].squares[2 * k], 2, 0.0);
    }
  }
  FindOwn(sums, weights, wanted, found);
  MILLRACE_RETURN_IF_ERROR(ShareSquares(found));
  std::vector<ParameterNorms> norms(count);
  for (size_t i = 0; i < count; ++i) {
    norms[i] = {NormOf(&found[i].squares[0]), NormOf(&found[i].squares[2])};
  }
  optimizer_.SetNorms(std::move(norms));
  return absl::OkStatus();
}

absl::Status HostWeightUpdate::Apply(collectives::GradientReducer& sums, const UpdateStep& update,
                                     TensorSet& weights) {
  if (optimizer_.has_norms()) {
    MILLRACE_RETURN_IF_ERROR(FindNorms(sums, update.step, weights));
  }
  absl::Status told;
  const auto enter = [&](size_t bucket) {
    if (progress_ == nullptr || !told.ok()) return;
    told = WithoutExceptions([&] {
      progress_->Enter(update.step, static_cast<int>(bucket), collectives::Phase::kUpdating);
      return absl::OkStatus();
    });
  };
  const float scale = sums.outcome().clip_factor;
  const auto all = [](size_t) { return true; };
  OnThreads(CutByBucket(sums, all), enter, [&](int, size_t p, size_t from, size_t to) {
    optimizer_.Apply(p, update, scale, SumsOf(sums, p).subspan(from, to - from),
                     WeightsOf(weights, p).subspan(from, to - from), from);
  });
  return told;
}

std::vector<std::string> HostWeightUpdate::slot_names() const {
  std::vector<std::string> names;
  for (const Slot& slot : optimizer_.slots()) names.push_back(slot.name);
  return names;
}

absl::Status HostWeightUpdate::PutWeights(const TensorSet& weights,
                                          collectives::GradientReducer& gradients) {
  for (const Piece& piece : pieces()) {
    const auto own = std::span(weights[piece.parameter]).subspan(piece.begin, piece.size());
    std::ranges::copy(own, GradientOf(gradients, piece.parameter).subspan(piece.begin).begin());
  }
  return absl::OkStatus();
}

absl::Status HostWeightUpdate::PutSlot(size_t s, collectives::GradientReducer& gradients) {
  for (size_t p = 0; p < pieces().size(); ++p) {
    const Piece& piece = pieces()[p];
    std::ranges::copy(optimizer_.slots()[s].tensors[p],
                      GradientOf(gradients, piece.parameter).subspan(piece.begin).begin());
  }
  return absl::OkStatus();
}

absl::Status HostWeightUpdate::TakeWeights(collectives::GradientReducer& gradients,
                                           TensorSet& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    std::ranges::copy(GradientOf(gradients, i), weights[i].begin());
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorSet> HostWeightUpdate::TakeTensors(collectives::GradientReducer& gradients) {
  TensorSet whole;
  for (size_t i = 0; i < model_->parameters.size(); ++i) {
    const std::span<float> gathered = GradientOf(gradients, i);
    whole.emplace_back(gathered.begin(), gathered.end());
  }
  return whole;
}

}  // namespace millrace::trainer
