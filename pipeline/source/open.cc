#include "pipeline/source/open.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/philox.h"
#include "base/status.h"
#include "pipeline/op_table.h"
#include "pipeline/order/byte_parts.h"
#include "pipeline/plan/paths.h"
#include "pipeline/select/lengths.h"
#include "pipeline/select/selection.h"
#include "pipeline/source/memory.h"
#include "readers/dali_index.h"
#include "readers/expand_files.h"
#include "readers/image_records.h"
#include "readers/open_file.h"
#include "readers/shard_stamp.h"

namespace millrace::pipeline {
namespace {

using readers::RecordRef;
using readers::RecordSource;

constexpr int64_t kCacheShare = 16;  // blocks take at most one part in so many of the budget
constexpr uint64_t kRangeFingerprint = 0x72616E6765;  // "range"

class RangeSource final : public RecordSource {
 public:
  explicit RangeSource(uint64_t count) : count_(count) {}
  uint64_t num_records() const override { return count_; }
  bool has_bytes() const override { return false; }
  const std::vector<std::string>& files() const override { return files_; }
  RecordRef Locate(uint64_t record) const override {
    RecordRef ref;
    ref.ordinal = record;
    return ref;
  }
  std::shared_ptr<const RandomAccessFile> file(uint32_t) const override { return no_file_; }
  uint64_t FramedBytes(const RecordRef&) const override { return 0; }
  absl::StatusOr<std::string_view> Unframe(const RecordRef&,
                                           std::span<const std::byte>) const override {
    return std::string_view();
  }
  uint64_t Fingerprint() const override { return Mix64(Mix64(kRangeFingerprint) + count_); }

 private:
  const uint64_t count_;
  const std::vector<std::string> files_ = {"range"};
  const std::shared_ptr<const RandomAccessFile> no_file_;
};

class JoinedSource final : public RecordSource {
 public:
  explicit JoinedSource(std::vector<std::unique_ptr<RecordSource>> sources)
      : sources_(std::move(sources)) {
    for (const auto& source : sources_) {
      first_records_.push_back(num_records_);
      first_shards_.push_back(static_cast<uint32_t>(files_.size()));
      num_records_ += source->num_records();
      files_.insert(files_.end(), source->files().begin(), source->files().end());
      fingerprint_ = Mix64(fingerprint_ + source->Fingerprint());
      memory_bytes_ += source->memory_bytes();
      gap_bytes_ = std::min(gap_bytes_, source->gap_bytes());
      has_cell_orders_ |= source->has_cell_orders();
    }
  }
  uint64_t num_records() const override { return num_records_; }
  bool has_labels() const override { return sources_[0]->has_labels(); }
  int64_t Label(uint64_t record) const override {
    const size_t i = IndexOf(first_records_, record);
    return sources_[i]->Label(record - first_records_[i]);
  }
  bool has_cell_orders() const override { return has_cell_orders_; }
  std::span<const int64_t> CellsOf(uint32_t shard) const override {
    const size_t i = IndexOf(first_shards_, shard);
    return sources_[i]->CellsOf(shard - first_shards_[i]);
  }
  uint64_t memory_bytes() const override { return memory_bytes_; }
  size_t gap_bytes() const override { return gap_bytes_; }
  const std::vector<std::string>& files() const override { return files_; }

  void Expect(uint64_t group, std::span<const RecordRef> refs) const override {
    std::vector<std::vector<RecordRef>> own(sources_.size());
    for (RecordRef ref : refs) {
      const size_t i = IndexOf(first_shards_, ref.shard);
      ref.shard -= first_shards_[i];
      own[i].push_back(ref);
    }
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i].empty()) sources_[i]->Expect(group, own[i]);
    }
  }
  void Forget(uint64_t group) const override {
    for (const auto& source : sources_) source->Forget(group);
  }
  void KeepExpected(uint64_t bytes) const override {
    for (const auto& source : sources_) source->KeepExpected(bytes);
  }
  std::optional<readers::FetchFacts> fetches() const override {
    std::optional<readers::FetchFacts> facts;
    for (const auto& source : sources_) {
      const std::optional<readers::FetchFacts> own = source->fetches();
      if (own.has_value() && (!facts.has_value() || own->single)) facts = own;
    }
    return facts;
  }
  uint64_t fetched_bytes() const override {
    uint64_t bytes = 0;
    for (const auto& source : sources_) bytes += source->fetched_bytes();
    return bytes;
  }
  RecordRef Locate(uint64_t record) const override {
    const size_t i = IndexOf(first_records_, record);
    RecordRef ref = sources_[i]->Locate(record - first_records_[i]);
    ref.shard += first_shards_[i];
    return ref;
  }
  std::shared_ptr<const RandomAccessFile> file(uint32_t shard) const override {
    const size_t i = IndexOf(first_shards_, shard);
    return sources_[i]->file(shard - first_shards_[i]);
  }
  std::optional<readers::ShardStamp> stamp(uint32_t shard) const override {
    const size_t i = IndexOf(first_shards_, shard);
    return sources_[i]->stamp(shard - first_shards_[i]);
  }
  uint64_t FramedBytes(const RecordRef& ref) const override {
    const auto [source, own] = OwnRef(ref);
    return source->FramedBytes(own);
  }
  absl::StatusOr<std::string_view> Unframe(const RecordRef& ref,
                                           std::span<const std::byte> framed) const override {
    const auto [source, own] = OwnRef(ref);
    return source->Unframe(own, framed);
  }
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  // The last source that begins at or before `number` (empty ones begin where the next one does).
  template <typename T>
  static size_t IndexOf(const std::vector<T>& firsts, T number) {
    return static_cast<size_t>(std::ranges::upper_bound(firsts, number) - firsts.begin()) - 1;
  }
  std::pair<const RecordSource*, RecordRef> OwnRef(RecordRef ref) const {
    const size_t i = IndexOf(first_shards_, ref.shard);
    ref.shard -= first_shards_[i];
    return {sources_[i].get(), ref};
  }

  const std::vector<std::unique_ptr<RecordSource>> sources_;
  std::vector<uint64_t> first_records_;
  std::vector<uint32_t> first_shards_;
  std::vector<std::string> files_;
  uint64_t num_records_ = 0;
  uint64_t memory_bytes_ = 0;
  size_t gap_bytes_ = SIZE_MAX;
  bool has_cell_orders_ = false;  // true if a source has orders of its cells
  uint64_t fingerprint_ = 0;
};

absl::StatusOr<readers::Compression> ParseCompression(const std::string& name) {
  using readers::Compression;
  if (name.empty() || name == "auto") return Compression::kAuto;
  if (name == "none") return Compression::kNone;
  if (name == "gzip") return Compression::kGzip;
  if (name == "zlib") return Compression::kZlib;
  if (name == "zstd") return Compression::kZstd;
  return absl::InvalidArgumentError(
      absl::StrCat("compression \"", name, "\" is none of auto, none, gzip, zlib, zstd"));
}

absl::StatusOr<readers::FileIo> ParseIo(const std::string& name) {
  if (name.empty() || name == "pread") return readers::FileIo::kPread;
  if (name == "mmap") return readers::FileIo::kMmap;
  if (name == "direct") return readers::FileIo::kDirect;
  return absl::InvalidArgumentError(
      absl::StrCat("io \"", name, "\" is none of pread, mmap, direct"));
}

absl::StatusOr<OpenedSources> OpenPush(const PhysicalPlan& plan, const OpenOptions& options) {
  const std::string stage = absl::StrCat("stage \"", plan.sources[0].stage, "\"");
  if (options.push == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(stage, ": the plan reads a push source, and OpenOptions.push is empty"));
  }
  if (!options.resume_token.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        stage, ": a push source cannot be read again, so it does not continue from a token"));
  }
  MILLRACE_ASSIGN_OR_RETURN(std::unique_ptr<GrowingSource> source, OpenPushSource(*options.push));
  OpenedSources opened;
  opened.growing = source.get();
  opened.source = std::move(source);
  opened.facts.push_back({.num_records = kInfinite, .total_bytes = 0, .shard_records = {}});
  return opened;
}

bool HasStep(const OrderPlan& order, bool (*wanted)(const OrderStep&)) {
  return std::ranges::any_of(order.steps, wanted) ||
         std::ranges::any_of(order.inputs,
                             [&](const OrderPlan& input) { return HasStep(input, wanted); });
}

// Interleave, blocks of bytes and parts of them have to know the files.
bool WantsShards(const PhysicalPlan& plan) {
  const auto wants = [](const OrderStep& step) {
    return step.kind == OrderStep::Kind::kInterleave || step.by_bytes ||
           (step.kind == OrderStep::Kind::kGlobalShuffle && step.count != 0);
  };
  const bool zip_wants =
      plan.zip.has_value() && std::ranges::any_of(plan.zip->inputs, [&](const auto& input) {
        return HasStep(input.order, wants);
      });
  return zip_wants || HasStep(plan.order, wants) || HasStep(RecordOrderOf(plan), wants);
}

// The number of records that lie, at most and as a rule, between two that follow each other in the
// order: 0 where it goes straight on, and where it goes anywhere.
uint64_t WindowOf(const OrderPlan& order) {
  uint64_t window = 0;
  for (const OrderPlan& input : order.inputs) window = std::max(window, WindowOf(input));
  for (const OrderStep& step : order.steps) {
    if (step.kind == OrderStep::Kind::kShuffle) window = std::max(window, step.count);
  }
  return window;
}

uint64_t WindowOf(const PhysicalPlan& plan) {
  uint64_t window = WindowOf(plan.order);
  if (plan.window.has_value()) {
    const uint64_t records = std::min(window, UINT64_MAX / plan.window->shift) * plan.window->shift;
    window = std::max(records, WindowOf(plan.window->order));
  }
  if (plan.zip.has_value()) {
    for (const ZipPlan::Input& input : plan.zip->inputs) {
      window = std::max(window, WindowOf(input.order));
    }
  }
  if (!plan.cut.has_value()) return window;
  for (const SettleStep& step : plan.cut->settle) {
    if (step.kind == SettleStep::Kind::kShuffle) window = std::max(window, step.count);
  }
  return window;
}

// Takes in how `order` goes through shards behind URLs: of several inputs the worst.
void AddFetchOrder(const OrderPlan& order, readers::FetchOrder& fetch) {
  for (const OrderPlan& input : order.inputs) AddFetchOrder(input, fetch);
  uint64_t stride = 1;
  for (const OrderStep& step : order.steps) {
    switch (step.kind) {
      case OrderStep::Kind::kGlobalShuffle:
        fetch.window_records = UINT64_MAX;
        break;
      case OrderStep::Kind::kShuffle:
        fetch.window_records = std::max(fetch.window_records, step.count);
        break;
      case OrderStep::Kind::kInterleave:
        fetch.files = std::max(fetch.files, step.count);
        break;
      case OrderStep::Kind::kShard:
        if (!step.by_bytes) stride = std::min(stride, kMaxShards) * step.count;
        break;
      default:
        break;
    }
  }
  fetch.stride_records = std::max(fetch.stride_records, stride);
}

// A rank reads a part of every batch, and of kept lengths, as far as there are enough lanes, lanes.
// Where every so many records are read, that counts alone. Behind another cut pass 1 does not know
// what it will read, unless lanes are free.
readers::FetchOrder FetchOrderOf(const PhysicalPlan& plan, int world) {
  readers::FetchOrder fetch;
  AddFetchOrder(plan.order, fetch);
  if (plan.window.has_value()) AddFetchOrder(plan.window->order, fetch);
  if (plan.zip.has_value()) {
    for (const ZipPlan::Input& input : plan.zip->inputs) AddFetchOrder(input.order, fetch);
  }
  const auto ranks = static_cast<uint64_t>(std::max(world, 1));
  if (plan.cut.has_value() && !plan.lengths.has_value() && !LanesAreFree(plan)) {
    fetch.stride_records = 1;
  } else if (fetch.stride_records == 1 && ranks > 1) {
    const bool by_lanes = plan.lengths.has_value() && ranks <= plan.lanes;
    fetch.stride_records = by_lanes ? plan.lanes : std::max<uint64_t>(plan.batch.size, 1);
    fetch.place_records = std::max<uint64_t>(fetch.stride_records / ranks, 1);
  }
  return fetch;
}

// The number of the first record that lies in `shard` or behind it, from `from` on.
uint64_t FirstOfShard(const RecordSource& source, uint32_t shard, uint64_t from) {
  uint64_t end = source.num_records();
  while (from < end) {
    const uint64_t middle = from + (end - from) / 2;
    if (source.Locate(middle).shard < shard) {
      from = middle + 1;
    } else {
      end = middle;
    }
  }
  return from;
}

uint64_t EndOf(const RecordSource& source, uint64_t record) {
  const RecordRef ref = source.Locate(record);
  return ref.offset + source.FramedBytes(ref);
}

OrderSource FactsOf(const RecordSource& source, bool with_shards) {
  OrderSource facts{.num_records = source.num_records(), .total_bytes = 0, .shard_records = {}};
  if (!with_shards) return facts;
  uint64_t first = 0;
  std::vector<uint64_t> shard_bytes;
  for (uint32_t shard = 0; shard < source.files().size(); ++shard) {
    const uint64_t end = FirstOfShard(source, shard + 1, first);
    facts.shard_records.push_back(end - first);
    shard_bytes.push_back(end > first ? EndOf(source, end - 1) : 0);
    facts.total_bytes += shard_bytes.back();
    first = end;
  }
  facts.first_of_part = [parts = ByteParts(source, std::move(shard_bytes))](uint64_t part,
                                                                            uint64_t num_parts) {
    return parts.First(part, num_parts);
  };
  return facts;
}

// The inflated bytes of the blocks that a block shuffle mixes, and of what is inflated around them.
uint64_t WindowBytesOf(const OrderPlan& order) {
  constexpr uint64_t kBlocks = 16;  // the blocks of a window, unless the plan says otherwise
  constexpr uint64_t kAround = uint64_t{4} << 20;
  uint64_t bytes = 0;
  for (const OrderPlan& input : order.inputs) bytes = std::max(bytes, WindowBytesOf(input));
  for (const OrderStep& step : order.steps) {
    if (step.kind != OrderStep::Kind::kGlobalShuffle || step.count == 0) continue;
    const uint64_t block = std::min(step.count, uint64_t{1} << 40);
    bytes = std::max(bytes, kBlocks * (block + kAround));
  }
  return bytes;
}

}  // namespace

ReadWindow WindowOfOrder(const PhysicalPlan& plan, int world) {
  ReadWindow window = {
      .records = WindowOf(plan),
      .bytes = std::max(WindowBytesOf(plan.order), WindowBytesOf(RecordOrderOf(plan))),
      .fetch = FetchOrderOf(plan, world)};
  if (!plan.zip.has_value()) return window;
  for (const ZipPlan::Input& input : plan.zip->inputs) {
    window.bytes = std::max(window.bytes, WindowBytesOf(input.order));
  }
  return window;
}

absl::Status OpenedSources::Select(const PhysicalPlan& plan, Context& context,
                                   const OpenOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(selection, OpenSelection(plan, *source, context, options));
  for (OrderSource& fact : facts) fact.selection = selection;
  return absl::OkStatus();
}

absl::Status OpenedSources::KeepLengths(const PhysicalPlan& plan, Context& context,
                                        const OpenOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(lengths, OpenLengths(plan, *source, context, options));
  return absl::OkStatus();
}

uint64_t OpenedSources::MemoryBytes() const {
  return source->memory_bytes() + (selection == nullptr ? 0 : selection->memory_bytes()) +
         (lengths == nullptr ? 0 : lengths->memory_bytes());
}

uint64_t OpenedSources::Fingerprint() const {
  const uint64_t records = source->Fingerprint();
  return selection == nullptr ? records : Mix64(records + selection->Digest());
}

CustomFactory CustomOpsOf(const OpenOptions& options) {
  if (options.ops == nullptr) return nullptr;
  return [table = options.ops.get()](const CustomOptions& custom) {
    return table->Make(custom.op, custom.version, custom.options, custom.stage);
  };
}

std::unique_ptr<RecordSource> MakeRangeSource(uint64_t count) {
  return std::make_unique<RangeSource>(count);
}

namespace {

absl::StatusOr<std::unique_ptr<RecordSource>> OpenFiles(const SourceSpec& spec,
                                                        const ReadWindow& window, Context* context,
                                                        const OpenOptions& options) {
  readers::RecordSourceOptions source;
  source.container = spec.container;
  source.columns = spec.columns;
  source.ignore_header_names = spec.ignore_header_names;
  MILLRACE_ASSIGN_OR_RETURN(source.compression, ParseCompression(spec.compression));
  MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> files,
                            readers::ExpandFiles(spec.file_patterns, options.cancels));
  if (!spec.dali_index.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> indexes,
                              readers::ExpandFiles(spec.dali_index, options.cancels));
    MILLRACE_ASSIGN_OR_RETURN(source.dali_index,
                              readers::PairDaliIndexes(files, std::move(indexes)));
  }
  source.verify_crc = spec.verify_crc;
  MILLRACE_ASSIGN_OR_RETURN(source.access.io, ParseIo(spec.io));
  source.access.drop_behind = spec.drop_behind;
  source.span_bytes = spec.access_point_bytes;
  source.resync = spec.resync;
  if (spec.max_record_bytes != 0) source.max_record_bytes = spec.max_record_bytes;
  source.http = options.http;
  source.index_folder = options.index_folder;
  source.fetch_order = window.fetch;
  if (context != nullptr) {
    source.threads = context->workers().num_threads();
    if (options.cpu_budget > 0) source.threads = std::min(source.threads, options.cpu_budget);
    source.window_records = window.records;
    source.window_bytes = window.bytes;
    source.cache_bytes = static_cast<size_t>(context->memory_budget_bytes() / kCacheShare);
  }
  source.progress = options.index_progress;
  source.cancels = options.cancels;
  return RecordSource::Open(std::move(files), source);
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenImages(const SourceSpec& spec, Context* context,
                                                         const OpenOptions& options) {
  readers::ImageRecordOptions images{.max_record_bytes = spec.max_record_bytes};
  images.labels = {.label = spec.label, .classes = spec.classes, .strict = spec.strict};
  images.labels.cancels = options.cancels;
  if (!spec.classes_file.empty()) {
    MILLRACE_ASSIGN_OR_RETURN(images.labels.classes, readers::ReadClassNames(spec.classes_file));
  }
  if (context != nullptr) {
    images.labels.warn = [context](std::string_view text) {
      context->Log(LogLevel::kWarning, text);
    };
  }
  return readers::OpenImageRecords(spec.folder, images);
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenMemory(const SourceSpec& spec,
                                                         const OpenOptions& options) {
  const auto it = options.memory.find(spec.stage);
  if (it != options.memory.end() && it->second != nullptr) {
    return MakeMemorySource(it->second, spec.stage);
  }
  std::vector<std::string> names;
  for (const auto& [name, records] : options.memory) names.push_back(name);
  return absl::InvalidArgumentError(
      absl::StrCat("stage \"", spec.stage, "\": OpenOptions.memory has no records of that name",
                   DidYouMean(spec.stage, names)));
}

absl::StatusOr<std::unique_ptr<RecordSource>> OpenByKind(const SourceSpec& spec,
                                                         const ReadWindow& window, Context* context,
                                                         const OpenOptions& options) {
  switch (spec.kind) {
    case SourceSpec::Kind::kRange:
      return MakeRangeSource(spec.count);
    case SourceSpec::Kind::kMemory:
      return OpenMemory(spec, options);
    case SourceSpec::Kind::kImageFolder:
      return OpenImages(spec, context, options);
    case SourceSpec::Kind::kFiles:
    case SourceSpec::Kind::kPush:
      break;
  }
  return OpenFiles(spec, window, context, options);
}

// Adds where relative names were looked for to the error of a missing file.
absl::Status WithCurrentFolder(const absl::Status& status, const SourceSpec& spec) {
  std::vector<std::string> names = spec.file_patterns;
  names.insert(names.end(), spec.dali_index.begin(), spec.dali_index.end());
  names.push_back(spec.folder);
  names.push_back(spec.classes_file);
  for (const std::string& name : names) {
    const std::string from = LookedFrom(name);
    if (from.empty()) continue;
    absl::Status longer(status.code(), absl::StrCat(status.message(), from));
    status.ForEachPayload(
        [&](auto type, const absl::Cord& payload) { longer.SetPayload(type, payload); });
    return longer;
  }
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const SourceSpec& spec,
                                                         const ReadWindow& window, Context* context,
                                                         const OpenOptions& options) {
  auto source = OpenByKind(spec, window, context, options);
  if (absl::IsNotFound(source.status())) return WithCurrentFolder(source.status(), spec);
  return source;
}

OpenedSources JoinSources(const PhysicalPlan& plan,
                          std::vector<std::unique_ptr<RecordSource>> sources) {
  OpenedSources opened;
  for (const auto& source : sources) {
    opened.facts.push_back(FactsOf(*source, WantsShards(plan)));
  }
  if (sources.size() == 1) {
    opened.source = std::move(sources[0]);
  } else {
    opened.source = std::make_unique<JoinedSource>(std::move(sources));
  }
  return opened;
}

absl::StatusOr<OpenedSources> OpenSources(const PhysicalPlan& plan, Context& context,
                                          const OpenOptions& options) {
  std::vector<std::unique_ptr<RecordSource>> sources;
  const ReadWindow window = WindowOfOrder(plan, options.world);
  for (const SourceSpec& spec : plan.sources) {
    if (spec.kind == SourceSpec::Kind::kPush) {
      if (plan.sources.size() == 1) return OpenPush(plan, options);
      return absl::InvalidArgumentError(
          absl::StrCat("stage \"", spec.stage, "\": a push source cannot be joined"));
    }
    MILLRACE_ASSIGN_OR_RETURN(sources.emplace_back(), OpenSource(spec, window, &context, options));
  }
  return JoinSources(plan, std::move(sources));
}

}  // namespace millrace::pipeline
