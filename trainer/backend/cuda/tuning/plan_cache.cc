#include "trainer/backend/cuda/tuning/plan_cache.h"

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace millrace::trainer::cuda {
namespace {

constexpr uint64_t kMaxBytes = 64 << 20;

// As all names in the folder: 32 digits, and what it is.
std::string FileName(const std::string& key) {
  const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
  return absl::StrFormat("%016x%016x.plans", hash.high64, hash.low64);
}

}  // namespace

PlanCache::PlanCache(const std::string& folder, const std::string& key)
    : key_(key), folder_(folder), path_(folder_.PathOf(FileName(key))) {}

absl::StatusOr<PlanBook> PlanCache::Load() const {
  std::optional<std::vector<std::byte>> bytes;
  if (folder_.exists()) bytes = readers::CacheFolder::Load(path_, kMaxBytes);
  if (!bytes) return PlanBook(key_);
  absl::StatusOr<PlanBook> book = PlanBook::FromText(
      std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
  if (!book.ok()) return absl::DataLossError(absl::StrCat(path_, ": ", book.status().message()));
  if (book->key() == key_) return book;
  return absl::DataLossError(
      absl::StrCat(path_, ": the plans are of ", book->key(), ", not of ", key_));
}

absl::Status PlanCache::Store(const PlanBook& book) const {
  if (!folder_.exists()) {
    return absl::FailedPreconditionError(
        "there is no folder for plans: neither XDG_CACHE_HOME nor HOME is an absolute path");
  }
  const UniqueFd lock = folder_.Lock(path_, {});
  const absl::StatusOr<PlanBook> kept = Load();
  PlanBook all = kept.ok() ? *kept : PlanBook(key_);
  all.Add(book);
  if (kept.ok() && all == *kept) return absl::OkStatus();
  const std::string text = all.ToText();
  return readers::CacheFolder::Store(path_, std::as_bytes(std::span(text)));
}

}  // namespace millrace::trainer::cuda
