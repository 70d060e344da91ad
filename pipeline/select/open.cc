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
#include "pipeline/select/selection.h"
#include "readers/cache_folder.h"
#include "readers/shard_stamp.h"

// Selections on disk: which file, and whether what it holds is what would be found now.

namespace millrace::pipeline {
namespace {

using readers::CacheFolder;

constexpr std::string_view kMagic = "MLRSELCT";
constexpr uint64_t kVersion = 1;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kChecksumBytes = 8;

uint64_t WordsOf(uint64_t num_records) { return (num_records + 63) / 64; }

uint64_t FileBytes(uint64_t num_records) {
  return kHeaderBytes + WordsOf(num_records) * sizeof(uint64_t) + kChecksumBytes;
}

struct Keys {
  std::string file;      // the file's name
  SelectionKey content;  // changes with the files too
};

// The keys of the files as they were when they were opened, or as they are `now`. Nullopt if they
// cannot be told from changed ones.
std::optional<Keys> MakeKeys(const PhysicalPlan& plan, const readers::RecordSource& source,
                             bool now) {
  std::string name = plan.select->key;
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
  return Keys{absl::StrFormat("%016x%016x.select", file.high, file.low),
              KeyOf(absl::StrCat(name, "|", stamps))};
}

// The file of one selection.
class Keeper {
 public:
  Keeper(const PhysicalPlan& plan, const readers::RecordSource& source, const std::string& folder)
      : plan_(plan),
        source_(source),
        folder_(folder),
        keys_(folder_.exists() ? MakeKeys(plan, source, /*now=*/false) : std::nullopt),
        file_(keys_ ? folder_.PathOf(keys_->file) : "") {}

  std::optional<Selection> Load() const {
    if (!keys_.has_value()) return std::nullopt;
    const auto bytes = CacheFolder::Load(file_, FileBytes(source_.num_records()));
    if (!bytes.has_value()) return std::nullopt;
    return DecodeSelection(*bytes, keys_->content, source_.num_records());
  }
  // Not valid when nothing can be kept.
  UniqueFd Lock() const { return keys_.has_value() ? folder_.Lock(file_) : UniqueFd(); }
  absl::Status Keep(const Selection& selection, bool locked) const {
    if (!locked) return absl::UnavailableError("the folder of indexes cannot be used");
    // The key would vouch for it.
    const std::optional<Keys> now = MakeKeys(plan_, source_, /*now=*/true);
    if (!now.has_value() || now->content != keys_->content) {
      return absl::AbortedError("a file changed meanwhile");
    }
    return CacheFolder::Store(file_, EncodeSelection(selection, keys_->content));
  }

 private:
  const PhysicalPlan& plan_;
  const readers::RecordSource& source_;
  const CacheFolder folder_;
  const std::optional<Keys> keys_;
  const std::string file_;
};

void LogNotKept(const Context& context, const absl::Status& why) {
  context.Log(LogLevel::kWarning,
              ToStd(absl::StrCat("the outcome of a filter is not kept, and the next run looks at "
                                 "every record again: ",
                                 why.message())));
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
  const Keeper keeper(plan, source, options.index_folder);
  std::optional<Selection> selection = keeper.Load();
  if (!selection.has_value()) {
    const UniqueFd lock = keeper.Lock();
    // The process that held the lock may have made it meanwhile.
    if (lock.valid()) selection = keeper.Load();
    if (!selection.has_value()) {
      MILLRACE_ASSIGN_OR_RETURN(selection,
                                ScanRecords(*plan.select->scan, source, context, options));
      const absl::Status kept = keeper.Keep(*selection, lock.valid());
      if (!kept.ok()) LogNotKept(context, kept);
    }
  }
  return std::make_shared<const Selection>(*std::move(selection));
}

}  // namespace millrace::pipeline
