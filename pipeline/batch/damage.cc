#include "pipeline/batch/damage.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "base/record_error.h"
#include "base/status.h"
#include "pipeline/batch/row_store.h"
#include "pipeline/order/selection.h"

namespace millrace::pipeline {
namespace {

constexpr int64_t kNobody = -1;

// The slot whose row stands in each slot from now on; kNobody: no row does.
using Arrangement = std::vector<int64_t>;

// The arrangement that moves no row; kNobody where there is no sample.
Arrangement AsTheyAre(const BatchData& data) {
  Arrangement from(static_cast<size_t>(data.layout->num_rows), kNobody);
  for (size_t slot = 0; slot < from.size(); ++slot) {
    if (data.valid()[slot] != 0) from[slot] = static_cast<int64_t>(slot);
  }
  return from;
}

// Rows move towards the front only, so that none is overwritten before it has moved.
void MoveRows(const Arrangement& from, size_t bytes, std::byte* first) {
  for (size_t slot = 0; slot < from.size(); ++slot) {
    if (from[slot] == kNobody || from[slot] == static_cast<int64_t>(slot)) continue;
    std::memcpy(first + slot * bytes, first + static_cast<size_t>(from[slot]) * bytes, bytes);
  }
}

// The same for a ragged tensor, whose rows close up.
void MoveRaggedRows(const Arrangement& from, size_t tensor, const BatchLayout& before,
                    BatchData& data, BatchLayout& after) {
  const std::vector<int64_t>& old = before.splits[tensor];
  const size_t bytes = before.row_bytes[tensor];
  std::byte* const first = data.tensor(tensor);
  int64_t end = 0;
  for (size_t slot = 0; slot < from.size(); ++slot) {
    after.splits[tensor][slot] = end;
    if (from[slot] == kNobody) continue;
    const auto row = static_cast<size_t>(from[slot]);
    const int64_t count = old[row + 1] - old[row];
    std::memmove(first + static_cast<size_t>(end) * bytes,
                 first + static_cast<size_t>(old[row]) * bytes, static_cast<size_t>(count) * bytes);
    end += count;
  }
  after.splits[tensor].back() = end;
  after.shapes[tensor] = after.fields[tensor].shape.Prepend(end);
}

void MoveOwnShapes(const Arrangement& from, const std::vector<Shape>& before,
                   std::vector<Shape>& after) {
  if (before.empty()) return;
  const Shape none(std::vector<int64_t>(static_cast<size_t>(before[0].rank()), 0));
  for (size_t slot = 0; slot < from.size(); ++slot) {
    after[slot] = from[slot] == kNobody ? none : before[static_cast<size_t>(from[slot])];
  }
}

void MoveTensors(const Arrangement& from, BatchData& data) {
  const std::shared_ptr<const BatchLayout> before = data.layout;
  const bool differs = !before->stores.empty();
  const auto after = differs ? std::make_shared<BatchLayout>(*before) : nullptr;
  for (size_t i = 0; i < before->fields.size(); ++i) {
    if (before->store(i) == RowStore::kSplits) continue;
    if (before->store(i) == RowStore::kRagged) {
      MoveRaggedRows(from, i, *before, data, *after);
    } else {
      MoveRows(from, before->row_bytes[i], data.tensor(i));
    }
    if (differs) MoveOwnShapes(from, before->own[i], after->own[i]);
  }
  if (differs) data.layout = after;
}

void Arrange(const Arrangement& from, BatchData& data) {
  MoveTensors(from, data);
  MoveRows(from, sizeof(SampleId), reinterpret_cast<std::byte*>(data.ids()));
  data.num_valid_rows = 0;
  for (size_t slot = 0; slot < from.size(); ++slot) {
    data.valid()[slot] = from[slot] == kNobody ? 0 : 1;
    data.num_valid_rows += data.valid()[slot];
  }
  ClearPadding(data);
}

}  // namespace

bool IsDamage(const absl::Status& error) {
  if (absl::IsResourceExhausted(error) || absl::IsCancelled(error) || absl::IsInternal(error)) {
    return false;
  }
  const std::optional<RecordError> found = GetRecordError(error);
  return found.has_value() && found->reason != RecordErrorReason::kUnknown;
}

SampleId Candidate(uint64_t seed, const DamagedSample& damaged, uint64_t position, uint32_t k,
                   uint64_t count, const Selection* selection) {
  uint64_t draw = Mix64(Mix64(seed) + HashName("on_damage"));
  draw = Mix64(draw + damaged.id.epoch);
  draw = Mix64(Mix64(draw + position) + k);
  const auto index = static_cast<uint64_t>((static_cast<unsigned __int128>(draw) * count) >> 64);
  SampleId id{.epoch = damaged.id.epoch, .record = index, .sub_index = 0};
  if (selection != nullptr) selection->ToRecords(0, {&id, 1});
  return id;
}

void MaskRows(BatchData& data) {
  Arrangement from = AsTheyAre(data);
  for (const DamagedSample& one : data.damaged) from[static_cast<size_t>(one.row)] = kNobody;
  Arrange(from, data);
}

void SkipRows(std::span<const uint32_t> group_of, BatchData& data) {
  const Arrangement all = AsTheyAre(data);
  std::vector<bool> damaged(all.size(), false);
  for (const DamagedSample& one : data.damaged) damaged[static_cast<size_t>(one.row)] = true;
  const auto group = [&](size_t slot) { return group_of.empty() ? 0 : group_of[slot]; };
  Arrangement from(all.size(), kNobody);
  std::map<uint32_t, size_t> next;  // slot that is to be filled, of each group
  for (size_t slot = 0; slot < all.size(); ++slot) {
    if (all[slot] == kNobody) continue;
    size_t& to = next.try_emplace(group(slot), slot).first->second;
    if (!damaged[slot]) from[to++] = all[slot];
  }
  // The slots that are left empty stand for the damaged samples of their group.
  for (DamagedSample& one : data.damaged) {
    one.row = static_cast<int64_t>(next[group(static_cast<size_t>(one.row))]++);
  }
  Arrange(from, data);
}

absl::Status DamageBudget::Count(const BatchData& data) {
  const bool replaced = spec_->policy == DamageSpec::Policy::kReplace;
  samples_ += static_cast<uint64_t>(data.num_valid_rows) + (replaced ? 0 : data.damaged.size());
  damaged_ += data.damaged.size();
  if (!data.damaged.empty()) last_ = data.damaged.back().error;
  if (spec_->max_count != 0 && damaged_ > spec_->max_count) {
    return Exceeded(absl::StrCat("max_count ", spec_->max_count));
  }
  const bool counts = spec_->max_share != 0 && samples_ >= kMinSamples;
  if (counts && static_cast<double>(damaged_) > spec_->max_share * static_cast<double>(samples_)) {
    return Exceeded(absl::StrCat("max_share ", spec_->max_share));
  }
  return absl::OkStatus();
}

absl::Status DamageBudget::Exceeded(std::string_view limit) const {
  absl::Status status = absl::DataLossError(absl::StrCat(
      damaged_, " of ", samples_, " samples were damaged, more than on_damage allows (",
      ToAbsl(limit), "); the last: ", last_.message()));
  SetRecordError(status, *GetRecordError(last_));
  return status;
}

}  // namespace millrace::pipeline
