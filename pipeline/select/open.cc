#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/little_endian.h"
#include "base/status.h"
#include "pipeline/cut/examiner.h"
#include "pipeline/select/lengths.h"
#include "pipeline/select/selection.h"
#include "readers/cache_folder.h"
#include "readers/shard_stamp.h"

// Selections and lengths on disk: which file, and whether what it holds is what would be found now.

namespace millrace::pipeline {
namespace {

using readers::CacheFolder;

constexpr std::string_view kMagic = "MLRSELCT";
constexpr uint64_t kVersion = 1;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kChecksumBytes = 8;
constexpr uint64_t kBudgetShare = 4;  // lengths take at most one part in so many of the budget

uint64_t WordsOf(uint64_t num_records) { return (num_records + 63) / 64; }

uint64_t FileBytes(uint64_t num_records) {
  return kHeaderBytes + WordsOf(num_records) * sizeof(uint64_t) + kChecksumBytes;
}

struct Keys {
  std::string file;      // the file's name
  SelectionKey content;  // changes with the files too
};

// A result that is kept: its text (SelectPlan::key, LengthsPlan::key), and the ending of its file's
// name.
struct Kept {
  std::string key;
  const char* ending = "";
};

// The keys of the files as they were when they were opened, or as they are `now`. Nullopt if they
// cannot be told from changed ones.
std::optional<Keys> MakeKeys(const PhysicalPlan& plan, const Kept& kept,
                             const readers::RecordSource& source, bool now) {
  std::string name = kept.key;
  std::string stamps = absl::StrCat(source.Fingerprint());
  const bool has_files = std::ranges::any_of(plan.sources, [](const SourceSpec& spec) {
    return spec.kind == SourceSpec::Kind::kFiles || spec.kind == SourceSpec::Kind::kImageFolder;
  });
  for (uint32_t i = 0; has_files && i < source.files().size(); ++i) {
    std::error_code error;
    const bool is_url = readers::IsUrl(source.files()[i]);
    const std::string path =
        is_url ? source.files()[i]
               : std::filesystem::absolute(source.files()[i], error).lexically_normal().string();
    std::optional<readers::ShardStamp> stamp = source.stamp(i);
    if (now && !is_url) {  // a URL is of one version while it is open
      const auto found = readers::StampOf(path);
      stamp = found.ok() ? std::optional(*found) : std::nullopt;
    }
    if (error || !stamp.has_value() || !stamp->vouches()) return std::nullopt;
    absl::StrAppend(&name, "|", path.size(), ":", path);
    absl::StrAppend(&stamps, "|", stamp->file_size, ",", stamp->mtime_ns);
  }
  if (!has_files) absl::StrAppend(&name, "|", source.Fingerprint());
  const SelectionKey file = KeyOf(name);
  return Keys{absl::StrFormat("%016x%016x%s", file.high, file.low, kept.ending),
              KeyOf(absl::StrCat(name, "|", stamps))};
}

// The file of what is kept.
class Keeper {
 public:
  Keeper(const PhysicalPlan& plan, Kept kept, const readers::RecordSource& source,
         const OpenOptions& options)
      : plan_(plan),
        kept_(std::move(kept)),
        source_(source),
        folder_(options.index_folder),
        cancels_(options.cancels),
        keys_(folder_.exists() ? MakeKeys(plan, kept_, source, /*now=*/false) : std::nullopt),
        file_(keys_ ? folder_.PathOf(keys_->file) : "") {}

  // The bytes of the file, which has so many; nullopt: there are none.
  std::optional<std::vector<std::byte>> Load(uint64_t file_bytes) const {
    if (!keys_.has_value()) return std::nullopt;
    return CacheFolder::Load(file_, file_bytes);
  }
  // REQUIRES: Load gave bytes, or Lock was valid.
  const SelectionKey& content() const { return keys_->content; }
  // Not valid when nothing can be kept.
  UniqueFd Lock() const { return keys_.has_value() ? folder_.Lock(file_, cancels_) : UniqueFd(); }
  // Stores what `encode` makes of the key.
  template <typename Encode>
  absl::Status Keep(bool locked, const Encode& encode) const {
    if (!locked) return absl::UnavailableError("the folder of indexes cannot be used");
    // The key would vouch for it.
    const std::optional<Keys> now = MakeKeys(plan_, kept_, source_, /*now=*/true);
    if (!now.has_value() || now->content != keys_->content) {
      return absl::AbortedError("a file changed meanwhile");
    }
    return CacheFolder::Store(file_, encode(keys_->content));
  }

 private:
  const PhysicalPlan& plan_;
  const Kept kept_;
  const readers::RecordSource& source_;
  const CacheFolder folder_;
  const Cancels& cancels_;
  const std::optional<Keys> keys_;
  const std::string file_;
};

// Takes what is kept, or makes and keeps it. `decode(bytes, key)` is nullopt where the bytes are
// not what they should be.
template <typename T, typename Decode, typename Make, typename Encode>
absl::StatusOr<T> LoadOrMake(const Keeper& keeper, uint64_t file_bytes, const char* what,
                             const Context& context, const Decode& decode, const Make& make,
                             const Encode& encode) {
  const auto load = [&]() -> std::optional<T> {
    const auto bytes = keeper.Load(file_bytes);
    if (!bytes.has_value()) return std::nullopt;
    return decode(*bytes, keeper.content());
  };
  if (std::optional<T> found = load()) return *std::move(found);
  const UniqueFd lock = keeper.Lock();
  // The process that held the lock may have made it meanwhile.
  if (lock.valid()) {
    if (std::optional<T> found = load()) return *std::move(found);
  }
  absl::StatusOr<T> made = make();
  if (!made.ok()) return made.status();
  const absl::Status kept =
      keeper.Keep(lock.valid(), [&](const SelectionKey& key) { return encode(*made, key); });
  if (kept.ok()) return made;
  context.Log(LogLevel::kWarning,
              ToStd(absl::StrCat(what, " not kept, and the next run looks at every record again: ",
                                 kept.message())));
  return made;
}

}  // namespace

SelectionKey KeyOf(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

std::vector<std::byte> EncodeSelection(const Selection& selection, const SelectionKey& key) {
  std::vector<std::byte> bytes(FileBytes(selection.num_records()));
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  StoreU64(kVersion, &bytes[8]);
  StoreU64(key.high, &bytes[16]);
  StoreU64(key.low, &bytes[24]);
  StoreU64(selection.num_records(), &bytes[32]);
  StoreU64(selection.num_kept(), &bytes[40]);
  std::byte* to = bytes.data() + kHeaderBytes;
  for (const uint64_t word : selection.bits()) {
    StoreU64(word, to);
    to += sizeof(word);
  }
  StoreU64(XXH3_64bits(bytes.data(), bytes.size() - kChecksumBytes), to);
  return bytes;
}

std::optional<Selection> DecodeSelection(std::span<const std::byte> bytes, const SelectionKey& key,
                                         uint64_t num_records) {
  if (bytes.size() != FileBytes(num_records)) return std::nullopt;
  const size_t body = bytes.size() - kChecksumBytes;
  if (LoadU64(&bytes[body]) != XXH3_64bits(bytes.data(), body)) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) return std::nullopt;
  if (LoadU64(&bytes[8]) != kVersion || LoadU64(&bytes[32]) != num_records) return std::nullopt;
  if (SelectionKey{LoadU64(&bytes[16]), LoadU64(&bytes[24])} != key) return std::nullopt;
  std::vector<uint64_t> bits(WordsOf(num_records));
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = LoadU64(&bytes[kHeaderBytes + i * sizeof(uint64_t)]);
  }
  if (num_records % 64 != 0 && bits.back() >> (num_records % 64) != 0) return std::nullopt;
  Selection selection(num_records, std::move(bits));
  if (selection.num_kept() != LoadU64(&bytes[40])) return std::nullopt;
  return selection;
}

absl::StatusOr<std::shared_ptr<const Selection>> OpenSelection(const PhysicalPlan& plan,
                                                               const readers::RecordSource& source,
                                                               Context& context,
                                                               const OpenOptions& options) {
  if (!plan.select.has_value()) return std::shared_ptr<const Selection>();
  if (source.num_records() / 8 > static_cast<uint64_t>(context.memory_budget_bytes())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a materialized filter keeps a bit for each of ", source.num_records(),
        " records: more than the ", context.memory_budget_bytes(), " B of the memory budget"));
  }
  const Keeper keeper(plan, {plan.select->key, ".select"}, source, options);
  const uint64_t num_records = source.num_records();
  MILLRACE_ASSIGN_OR_RETURN(
      Selection selection,
      (LoadOrMake<Selection>(
          keeper, FileBytes(num_records), "the outcome of a filter is", context,
          [&](const auto& bytes, const SelectionKey& key) {
            return DecodeSelection(bytes, key, num_records);
          },
          [&] { return ScanRecords(*plan.select->scan, source, context, options); },
          EncodeSelection)));
  return std::make_shared<const Selection>(std::move(selection));
}

absl::StatusOr<std::shared_ptr<const LengthTable>> OpenLengths(const PhysicalPlan& plan,
                                                               const readers::RecordSource& source,
                                                               Context& context,
                                                               const OpenOptions& options) {
  if (!plan.lengths.has_value()) return nullptr;
  const auto warn = [&](const auto& why) -> std::shared_ptr<const LengthTable> {
    context.Log(LogLevel::kWarning,
                ToStd(absl::StrCat("stage \"", plan.batch.stage,
                                   "\": keep_lengths: the lengths are found out as if they were "
                                   "not kept: ",
                                   why)));
    return nullptr;
  };
  const uint64_t num_records = source.num_records();
  const size_t width = Examiner(*plan.lengths->scan).extents_per_row();
  const auto most = static_cast<uint64_t>(context.memory_budget_bytes()) / kBudgetShare;
  if (num_records > most / LengthTable::BytesOf(1, width)) {
    return warn(absl::StrCat("they would take more than ", most, " B of the memory budget"));
  }
  const Keeper keeper(plan, {plan.lengths->key, ".lengths"}, source, options);
  absl::StatusOr<LengthTable> table = LoadOrMake<LengthTable>(
      keeper, LengthTable::FileBytes(num_records, width), "the lengths are", context,
      [&](const auto& bytes, const SelectionKey& key) {
        return LengthTable::Decode(bytes, key.high, key.low, num_records, width);
      },
      [&] { return ScanLengths(*plan.lengths->scan, source, context, options); },
      [](const LengthTable& lengths, const SelectionKey& key) {
        return lengths.Encode(key.high, key.low);
      });
  if (absl::IsCancelled(table.status())) return table.status();
  if (!table.ok()) return warn(table.status().message());
  return std::make_shared<const LengthTable>(*std::move(table));
}

}  // namespace millrace::pipeline
