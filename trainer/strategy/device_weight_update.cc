// The arithmetic is that of the CPU's loops (trainer/optimizer/elements.h). Its numbers are worked
// out on the host and sent once for each update: parameters that have the same settings are a group
// and share them. Trust ratios are made of norms in the device's memory, so nothing waits for them.

#include "trainer/strategy/device_weight_update.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "trainer/job/job.pb.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/ranks/waiting.h"
#include "trainer/strategy/reducer_options.h"

namespace millrace::trainer {

using collectives::GradientReducer;
using cuda::ArenaLayout;
using cuda::UpdateTile;

namespace {

size_t SizeOfElement(const UpdateElement& element) {
  return std::visit([](const auto& one) { return sizeof(one); }, element);
}

// Appends the tiles of elements [begin, end) of a region.
void AppendTiles(uint64_t begin, uint64_t end, UpdateTile tile, std::vector<UpdateTile>& tiles) {
  for (uint64_t at = begin; at < end; at += UpdateTile::kMostCount) {
    tile.begin = at;
    tile.count = static_cast<uint32_t>(std::min<uint64_t>(UpdateTile::kMostCount, end - at));
    tiles.push_back(tile);
  }
}

}  // namespace

DeviceWeightUpdate::DeviceWeightUpdate(cuda::Device& device, const Model& model,
                                       const OptimizerSpec& optimizer,
                                       const DeviceUpdateOptions& options)
    : device_(device),
      model_(model),
      options_(options),
      rule_(MakeUpdateRule(optimizer)),
      settings_(SettingsOf(optimizer, model)) {
  for (const ParameterSettings& settings : settings_) {
    const auto found = std::ranges::find(groups_, settings);
    group_of_.push_back(static_cast<uint32_t>(found - groups_.begin()));
    if (found == groups_.end()) groups_.push_back(settings);
  }
}

absl::StatusOr<std::unique_ptr<WeightUpdate>> DeviceWeightUpdate::Make(
    cuda::Device& device, const Model& model, const OptimizerSpec& optimizer, const Slots& slots,
    cuda::StoreOptions store, const DeviceUpdateOptions& options) {
  std::unique_ptr<DeviceWeightUpdate> made(
      new DeviceWeightUpdate(device, model, optimizer, options));
  MILLRACE_ASSIGN_OR_RETURN(made->store_,
                            cuda::ParameterStore::Make(device, model, std::move(store)));
  MILLRACE_RETURN_IF_ERROR(made->store_->ImportSlots(slots));
  MILLRACE_RETURN_IF_ERROR(made->MakeTables());
  return made;
}

// In the order in which parameters lie, so that a bucket's are one launch.
std::vector<std::vector<UpdateTile>> DeviceWeightUpdate::MakeTiles(bool of_norms) const {
  const ArenaLayout& layout = store_->layout();
  std::vector<std::vector<UpdateTile>> tiles(layout.regions.size());
  for (size_t r = 0; r < layout.regions.size(); ++r) {
    for (const size_t i : layout.regions[r].parameters) {
      const bool has_trust = rule_->trust().has_value() && settings_[i].trust;
      if (settings_[i].frozen || (of_norms && !has_trust)) continue;
      const Piece& piece = store_->slot_layout().pieces[i];
      const size_t start = layout.offset_in_region(i);
      AppendTiles(start + piece.begin, start + piece.end,
                  {0, 0, group_of_[i], static_cast<uint32_t>(i), has_trust ? 1u : 0u}, tiles[r]);
    }
  }
  return tiles;
}

absl::Status DeviceWeightUpdate::MakeTables() {
  std::vector<UpdateTile> all;
  for (const std::vector<UpdateTile>& of_region : MakeTiles(/*of_norms=*/false)) {
    first_tile_.push_back(all.size());
    all.insert(all.end(), of_region.begin(), of_region.end());
  }
  first_tile_.push_back(all.size());
  allows_vectors_ = std::ranges::all_of(all, [](const UpdateTile& t) { return t.begin % 4 == 0; });
  MILLRACE_ASSIGN_OR_RETURN(tiles_, MakeDeviceArray<UpdateTile>(device_, all));
  const size_t bytes = std::max<size_t>(1, groups_.size()) * sizeof(UpdateElement);
  MILLRACE_ASSIGN_OR_RETURN(elements_, device_.Allocate(bytes));
  for (Staging& staging : staging_) {
    MILLRACE_ASSIGN_OR_RETURN(staging.memory, device_.AllocateHost(bytes));
    MILLRACE_ASSIGN_OR_RETURN(staging.read, device_.MakeMark());
  }
  if (!rule_->trust()) return absl::OkStatus();
  MILLRACE_ASSIGN_OR_RETURN(norms_, DeviceNorms::Make(device_, model_, MakeTiles(/*of_norms=*/true),
                                                      options_.communicator));
  return absl::OkStatus();
}

float* DeviceWeightUpdate::GradientOf(GradientReducer& gradients, size_t region) const {
  const size_t first = store_->layout().regions[region].first;
  return gradients.gradient(ReducerIndex(model_, first)).as<float>().data();
}

absl::Status DeviceWeightUpdate::FindNorms(GradientReducer& sums, int64_t step) {
  const Waiting waiting(options_.communicator != nullptr ? options_.progress : nullptr, step);
  std::vector<DeviceNorms::Region> regions;
  for (size_t r = 0; r < store_->layout().regions.size(); ++r) {
    regions.push_back({GradientOf(sums, r), store_->masters() + store_->layout().regions[r].begin});
  }
  return norms_->Find(regions);
}

absl::StatusOr<UpdateElement> DeviceWeightUpdate::SendNumbers(const UpdateStep& update,
                                                              float scale) {
  Staging& staging = staging_[turn_];
  turn_ = (turn_ + 1) % staging_.size();
  MILLRACE_RETURN_IF_ERROR(device_.Wait(*staging.read));
  UpdateElement element;
  size_t bytes = 0;
  for (const ParameterSettings& group : groups_) {
    element = rule_->ElementOf(
        {update.count, update.rate * group.lr_scale, scale, group.weight_decay, std::nullopt});
    std::visit([&](const auto& one) { std::memcpy(&staging.memory[bytes], &one, sizeof(one)); },
               element);
    bytes += SizeOfElement(element);
  }
  MILLRACE_RETURN_IF_ERROR(device_.Copy(elements_.get(), staging.memory.get(), bytes));
  MILLRACE_RETURN_IF_ERROR(device_.Record(*staging.read));
  return element;
}

cuda::UpdateArgs DeviceWeightUpdate::ArgsOf(size_t region) const {
  const ArenaLayout::Region& place = store_->layout().regions[region];
  const cuda::SlotLayout::Range& own = store_->slot_layout().ranges[region];
  cuda::UpdateArgs args;
  args.elements = elements_.get();
  args.tiles = DeviceArray<UpdateTile>(tiles_) + first_tile_[region];
  args.num_tiles = static_cast<int64_t>(first_tile_[region + 1] - first_tile_[region]);
  args.master = store_->masters() + place.begin;
  args.compute = store_->compute_at(place.begin);
  args.compute_type = store_->compute_type();
  for (size_t s = 0; s < store_->slot_names().size(); ++s) {
    args.slots[s] = store_->slot(s) + own.offset;
  }
  args.slots_begin = own.begin;
  args.allows_vectors = allows_vectors_;
  if (norms_ != nullptr) {
    args.squares = norms_->squares();
    args.trust = *rule_->trust();
  }
  return args;
}

absl::Status DeviceWeightUpdate::Apply(GradientReducer& sums, const UpdateStep& update,
                                       TensorSet& /*weights*/) {
  if (norms_ != nullptr) MILLRACE_RETURN_IF_ERROR(FindNorms(sums, update.step));
  MILLRACE_ASSIGN_OR_RETURN(const UpdateElement element,
                            SendNumbers(update, sums.outcome().clip_factor));
  for (size_t r = 0; r < store_->layout().regions.size(); ++r) {
    const size_t bucket = store_->layout().regions[r].bucket;
    if (options_.progress != nullptr && first_tile_[r] < first_tile_[r + 1]) {
      options_.progress->Enter(update.step, static_cast<int>(bucket),
                               collectives::Phase::kUpdating);
    }
    cuda::UpdateArgs args = ArgsOf(r);
    args.element = element;
    args.gradient = GradientOf(sums, r);
    MILLRACE_RETURN_IF_ERROR(Annotate(
        device_.OnDevice([&] { return device_.kernels().update->update(device_.stream(), args); }),
        absl::StrCat("update of bucket ", bucket)));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Slots*> DeviceWeightUpdate::FetchSlots() {
  MILLRACE_ASSIGN_OR_RETURN(fetched_, store_->ExportSlots());
  return &fetched_;
}

absl::Status DeviceWeightUpdate::Put(const Piece& piece, const float* from,
                                     GradientReducer& gradients) {
  float* const to = gradients.gradient(ReducerIndex(model_, piece.parameter)).as<float>().data();
  return Annotate(device_.Copy(to + piece.begin, from, piece.size() * sizeof(float)),
                  absl::StrCat("shard of ", model_.parameters[piece.parameter].name));
}

// Behind this all ranks say that they wait, so a watchdog would find nobody whose device stands
// still: it is awaited before.
absl::Status DeviceWeightUpdate::PutWeights(const TensorSet& /*weights*/,
                                            GradientReducer& gradients) {
  for (const Piece& piece : store_->slot_layout().pieces) {
    if (piece.size() == 0) continue;
    const float* const master = store_->tensors().parameters[piece.parameter].master;
    MILLRACE_RETURN_IF_ERROR(Put(piece, master + piece.begin, gradients));
  }
  return device_.Synchronize();
}

absl::Status DeviceWeightUpdate::PutSlot(size_t s, GradientReducer& gradients) {
  for (const Piece& piece : store_->slot_layout().pieces) {
    if (piece.size() == 0) continue;
    MILLRACE_RETURN_IF_ERROR(Put(piece, store_->slot_at(s, piece.parameter), gradients));
  }
  return absl::OkStatus();
}

absl::Status DeviceWeightUpdate::TakeWeights(GradientReducer& gradients, TensorSet& /*weights*/) {
  const ArenaLayout& layout = store_->layout();
  for (size_t r = 0; r < layout.regions.size(); ++r) {
    const ArenaLayout::Region& region = layout.regions[r];
    MILLRACE_RETURN_IF_ERROR(Annotate(
        device_.Copy(store_->masters() + region.begin, GradientOf(gradients, r),
                     region.size * sizeof(float)),
        absl::StrCat("gathered weights from ", model_.parameters[region.first].name, " on")));
  }
  return store_->RefreshCompute();
}

absl::StatusOr<TensorSet> DeviceWeightUpdate::TakeTensors(GradientReducer& gradients) {
  std::vector<const float*> memory;
  for (size_t i = 0; i < model_.parameters.size(); ++i) {
    memory.push_back(gradients.gradient(ReducerIndex(model_, i)).as<float>().data());
  }
  return store_->Download(memory);
}

}  // namespace millrace::trainer
