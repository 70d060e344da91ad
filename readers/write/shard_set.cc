#include "readers/write/shard_set.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/caught.h"
#include "base/status.h"
#include "readers/file/work_folder.h"
#include "readers/open_file.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kManifest = ".manifest.json";
constexpr std::string_view kFacts = ".facts";  // ends the name of a shard's facts
constexpr uint64_t kMaxFactsBytes = 64 << 20;

Json ToJson(const ShardFacts& facts) {
  Json json{{"records", facts.num_records}, {"bytes", facts.file_bytes}};
  if (facts.num_left_out > 0) json["left_out"] = facts.num_left_out;
  for (const auto& [label, count] : facts.records_per_label) {
    json["labels"][std::to_string(label)] = count;
  }
  return json;
}

// nullopt: not what ToJson made.
std::optional<ShardFacts> FactsFrom(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_count = [](const Json& value) { return value.is_number_unsigned(); };
  if (!json.is_object() || !json.contains("records") || !json.contains("bytes") ||
      !is_count(json["records"]) || !is_count(json["bytes"])) {
    return std::nullopt;
  }
  ShardFacts facts;
  facts.num_records = json["records"].get<uint64_t>();
  facts.file_bytes = json["bytes"].get<uint64_t>();
  if (json.contains("left_out")) {
    if (!is_count(json["left_out"])) return std::nullopt;
    facts.num_left_out = json["left_out"].get<uint64_t>();
  }
  if (!json.contains("labels")) return facts;
  for (const auto& [label, count] : json["labels"].items()) {
    if (!is_count(count)) return std::nullopt;
    facts.records_per_label[std::strtoll(label.c_str(), nullptr, 10)] = count.get<uint64_t>();
  }
  return facts;
}

// Renames that are taken back unless they are to stay, also where memory ends. Nothing is ever
// replaced.
class Moves {
 public:
  Moves() = default;
  Moves(const Moves&) = delete;
  Moves& operator=(const Moves&) = delete;
  ~Moves() {
    // Without memory, what is left stays where it is.
    Caught([&] { Undo(); }).IgnoreError();
  }

  absl::Status Move(const fs::path& from, const fs::path& to) {
    done_.emplace_back(from.string(), to.string());  // first, since it may find no memory
    absl::Status status = Rename(done_.back().first, done_.back().second, Existing::kKeep);
    if (!status.ok()) done_.pop_back();
    return status;
  }
  // Moves all back. False: something could not be.
  bool Undo() {
    bool all = true;
    for (; !done_.empty(); done_.pop_back()) {
      const auto& [from, to] = done_.back();
      all = Rename(to, from, Existing::kKeep).ok() && all;
    }
    return all;
  }
  void Stay() { done_.clear(); }

 private:
  std::vector<std::pair<std::string, std::string>> done_;
};

// The names in `folder` for which `wanted(name, whether it is a folder)` holds, sorted.
absl::StatusOr<std::vector<std::string>> NamesIn(
    const fs::path& folder, const std::function<bool(std::string_view, bool)>& wanted) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;  // the entry has just gone
    const bool is_folder = entry->symlink_status(ignored).type() == fs::file_type::directory;
    if (wanted(name, is_folder)) names.push_back(std::move(name));
  }
  if (error) return ErrnoStatus(error.value(), "list", folder.string());
  std::sort(names.begin(), names.end());
  return names;
}

// True for "BASE-DDDDD-of-DDDDD" and one of the extensions, D a digit. A folder that is called like
// a file of a set is none.
bool IsShardOf(std::string_view base, std::string_view name, bool is_folder) {
  constexpr std::string_view kPattern = "-DDDDD-of-DDDDD";
  if (!name.starts_with(base) || name.size() < base.size() + kPattern.size()) return false;
  const std::string_view number = name.substr(base.size(), kPattern.size());
  const std::string_view extension =
      WithoutCompressionEnding(name.substr(base.size() + kPattern.size()));
  if (std::ranges::find(kShardExtensions, extension) == std::end(kShardExtensions)) return false;
  if (is_folder && !extension.empty()) return false;
  return std::equal(number.begin(), number.end(), kPattern.begin(), [](char c, char pattern) {
    return pattern == 'D' ? c >= '0' && c <= '9' : c == pattern;
  });
}

// Bytes of a file, or of all files in a folder.
uint64_t SizeOf(const fs::path& path, std::error_code& error) {
  if (!fs::is_directory(path, error)) return error ? 0 : fs::file_size(path, error);
  uint64_t size = 0;
  fs::recursive_directory_iterator entry(path, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(error) || error) continue;
    size += entry->file_size(error);
  }
  return size;
}

// The place of a set: the folder of its shards and what their names begin with.
struct Place {
  explicit Place(const std::string& prefix)
      : folder(fs::path(prefix).has_parent_path() ? fs::path(prefix).parent_path() : "."),
        base(fs::path(prefix).filename().string()) {}

  // With mkdtemp's letters shorter than a shard's name, so no name is too long for it alone.
  std::string WorkStem() const { return absl::StrCat(".", base, ".convert-"); }

  // All shards of this prefix, of however many: a glob would find them together with the new ones.
  absl::StatusOr<std::vector<std::string>> Shards() const {
    return NamesIn(folder, [&](std::string_view name, bool is_folder) {
      return IsShardOf(base, name, is_folder);
    });
  }
  absl::StatusOr<std::vector<std::string>> WorkFolders() const {
    const std::string stem = WorkStem();
    return NamesIn(folder, [&](std::string_view name, bool is_folder) {
      return is_folder && name.starts_with(stem) &&
             name.size() == stem.size() + WorkFolder::kMark.size();
    });
  }

  absl::Status ExistsAlready(const std::vector<std::string>& shards) const {
    return absl::AlreadyExistsError(absl::StrCat((folder / shards[0]).string(), ": exists already",
                                                 shards.size() > 1 ? ", and more of its set" : ""));
  }

  const fs::path folder;
  const std::string base;
};

// Where shards are files.
absl::Status CheckNoFolders(const std::vector<std::string>& files, std::string_view extension) {
  if (extension.empty()) return absl::OkStatus();
  for (const std::string& file : files) {
    std::error_code ignored;  // then the move says what is wrong
    if (fs::symlink_status(file, ignored).type() != fs::file_type::directory) continue;
    return absl::AlreadyExistsError(absl::StrCat(file, ": is a folder"));
  }
  return absl::OkStatus();
}

}  // namespace

class ShardSet::Impl {
 public:
  explicit Impl(const ShardSetOptions& options)
      : options_(options),
        place_(options.prefix),
        files_(Names(options.prefix, options.num_shards, options.extension)),
        facts_(files_.size()) {}

  absl::Status Begin() {
    MILLRACE_RETURN_IF_ERROR(CheckNoFolders(files_, options_.extension));
    MILLRACE_RETURN_IF_ERROR(TakeOver());
    MILLRACE_RETURN_IF_ERROR(CheckNoShards());
    MILLRACE_RETURN_IF_ERROR(RemoveAbandoned(/*all=*/false));
    if (work_ != nullptr) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(work_,
                              WorkFolder::Make(place_.folder / place_.WorkStem(), options_.job));
    return absl::OkStatus();
  }

  const std::vector<std::string>& files() const { return files_; }
  const std::optional<ShardFacts>& facts(size_t shard) const { return facts_[shard]; }
  fs::path PathOf(size_t shard) const { return work_->path() / Basename(shard); }
  fs::path folder() const { return work_->path(); }
  void Keep() { work_->Keep(); }

  absl::Status Wrote(size_t shard, ShardFacts facts) {
    std::error_code error;
    facts.file_bytes = SizeOf(PathOf(shard), error);
    if (error) return ErrnoStatus(error.value(), "stat", PathOf(shard).string());
    MILLRACE_RETURN_IF_ERROR(WriteWhole(FactsPath(shard), ToJson(facts).dump()));
    facts_[shard] = std::move(facts);
    return absl::OkStatus();
  }

  absl::Status Commit(const ManifestText& text) {
    MILLRACE_RETURN_IF_ERROR(CheckNoShards());  // writing took a while
    Moves moves;
    const absl::Status moved = Caught([&] { return TryMoves(text, moves); });
    if (!moved.ok()) {
      // The shards that a killed process had moved already stay; the next process that does this
      // job goes on with them.
      if (!in_place_.empty()) work_->Keep();
      if (moves.Undo()) return moved;
      work_->Keep();
      return Annotate(moved,
                      absl::StrCat("what could not be moved back is in ", work_->path().string()));
    }
    moves.Stay();
    return options_.overwrite ? RemoveAbandoned(/*all=*/true) : absl::OkStatus();
  }

 private:
  std::string Basename(size_t shard) const { return fs::path(files_[shard]).filename().string(); }
  fs::path FactsPath(size_t shard) const {
    return absl::StrCat(PathOf(shard).string(), ToAbsl(kFacts));
  }

  // Goes on with the work of a killed process, if one did the same job.
  absl::Status TakeOver() {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, place_.WorkFolders());
    for (const std::string& name : names) {
      work_ = WorkFolder::TakeOver(place_.folder / name, options_.job);
      if (work_ != nullptr) break;
    }
    if (work_ == nullptr) return absl::OkStatus();
    for (size_t shard = 0; shard < files_.size(); ++shard) FindWritten(shard);
    return absl::OkStatus();
  }

  // A shard is whole when its facts say its size, be it in the work folder or moved already.
  void FindWritten(size_t shard) {
    const auto text = ReadWholeFile(FactsPath(shard).string(), kMaxFactsBytes);
    if (!text.ok()) return;
    std::optional<ShardFacts> facts = FactsFrom(*text);
    if (!facts.has_value()) return;
    std::error_code error;
    const bool here = SizeOf(PathOf(shard), error) == facts->file_bytes && !error;
    const bool moved = !here && SizeOf(files_[shard], error) == facts->file_bytes && !error;
    if (!here && !moved) return;
    if (moved) in_place_.insert(Basename(shard));
    facts_[shard] = std::move(facts);
  }

  // The shards in the way: those of the prefix that this set did not put there itself.
  absl::StatusOr<std::vector<std::string>> OldShards() const {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> names, place_.Shards());
    std::erase_if(names, [&](const std::string& name) { return in_place_.contains(name); });
    return names;
  }

  absl::Status CheckNoShards() const {
    if (options_.overwrite) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> old, OldShards());
    return old.empty() ? absl::OkStatus() : place_.ExistsAlready(old);
  }

  // Removes what killed writers to this prefix left. Replaced shards go only with `all`.
  absl::Status RemoveAbandoned(bool all) const {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names, place_.WorkFolders());
    for (const std::string& name : names) {
      std::error_code ignored;
      if (all || !fs::exists(place_.folder / name / WorkFolder::kReplaced, ignored)) {
        RemoveIfAbandoned((place_.folder / name).string());
      }
    }
    return absl::OkStatus();
  }

  absl::Status TryMoves(const ManifestText& text, Moves& moves) const {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> old, OldShards());
    const fs::path replaced = work_->path() / WorkFolder::kReplaced;
    std::error_code error;
    if (!old.empty()) fs::create_directory(replaced, error);
    if (error) return ErrnoStatus(error.value(), "mkdir", replaced.string());
    for (const std::string& name : old) {
      MILLRACE_RETURN_IF_ERROR(moves.Move(place_.folder / name, replaced / name));
    }
    for (size_t shard = 0; shard < files_.size(); ++shard) {
      if (in_place_.contains(Basename(shard))) continue;
      MILLRACE_RETURN_IF_ERROR(moves.Move(PathOf(shard), files_[shard]));
    }
    return WriteWhole(absl::StrCat(options_.prefix, ToAbsl(kManifest)), Manifest(text));
  }

  std::string Manifest(const ManifestText& text) const {
    Json shards = Json::array();
    uint64_t num_records = 0;
    for (size_t shard = 0; shard < files_.size(); ++shard) {
      Json entry{{"file", Basename(shard)}};
      entry.update(ToJson(*facts_[shard]));
      num_records += facts_[shard]->num_records;
      shards.push_back(std::move(entry));
    }
    Json manifest{{"format", text.format},
                  {"compression", std::string(CompressionName(text.compression))},
                  {"source", text.source},
                  {"records", num_records}};
    if (!text.schema.empty()) manifest["schema"] = text.schema;
    if (text.record_bytes > 0) manifest["record_bytes"] = text.record_bytes;
    if (!text.class_names.empty()) manifest["classes"] = text.class_names;
    manifest["shards"] = std::move(shards);
    return manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  const ShardSetOptions options_;
  const Place place_;
  const std::vector<std::string> files_;
  std::vector<std::optional<ShardFacts>> facts_;
  std::set<std::string> in_place_;  // shards that the process whose work this goes on with moved
  std::unique_ptr<WorkFolder> work_;
};

absl::Status CheckShardOutput(const std::string& output_prefix, int num_shards,
                              Compression compression, int compression_level) {
  constexpr int kMostShards = 99999;  // of five digits
  if (output_prefix.empty()) return absl::InvalidArgumentError("output_prefix: no path given");
  if (num_shards < 1 || num_shards > kMostShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards: ", num_shards, " is not in 1 to ", kMostShards));
  }
  if (compression == Compression::kAuto) {
    return absl::InvalidArgumentError("compression: must be none, gzip, zlib or zstd");
  }
  if (compression_level < 1 || compression_level > 9) {
    return absl::InvalidArgumentError(
        absl::StrCat("compression_level: ", compression_level, " is not in 1 to 9"));
  }
  return absl::OkStatus();
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string SourceText(const std::vector<std::string>& files) {
  return files.size() == 1 ? files[0] : absl::StrCat(files[0], " and ", files.size() - 1, " more");
}

std::vector<std::string> ShardSet::Names(const std::string& prefix, int num_shards,
                                         std::string_view extension) {
  std::vector<std::string> names;
  for (int shard = 0; shard < num_shards; ++shard) {
    names.push_back(
        absl::StrFormat("%s-%05d-of-%05d%s", prefix, shard, num_shards, std::string(extension)));
  }
  return names;
}

absl::Status ShardSet::Check(const ShardSetOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckNoFolders(
      Names(options.prefix, options.num_shards, options.extension), options.extension));
  const Place place(options.prefix);
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> old, place.Shards());
  MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> left, place.WorkFolders());
  if (options.overwrite || old.empty() || !left.empty()) {
    return absl::OkStatus();  // Begin looks closer
  }
  return place.ExistsAlready(old);
}

absl::StatusOr<std::unique_ptr<ShardSet>> ShardSet::Begin(const ShardSetOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  MILLRACE_RETURN_IF_ERROR(impl->Begin());
  return std::unique_ptr<ShardSet>(new ShardSet(std::move(impl)));
}

ShardSet::ShardSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardSet::~ShardSet() = default;

const std::vector<std::string>& ShardSet::files() const { return impl_->files(); }
const std::optional<ShardFacts>& ShardSet::Written(size_t shard) const {
  return impl_->facts(shard);
}
std::string ShardSet::PathOf(size_t shard) const { return impl_->PathOf(shard).string(); }
std::string ShardSet::folder() const { return impl_->folder().string(); }
void ShardSet::Keep() { impl_->Keep(); }
absl::Status ShardSet::Wrote(size_t shard, ShardFacts facts) {
  return impl_->Wrote(shard, std::move(facts));
}
absl::Status ShardSet::Commit(const ManifestText& text) { return impl_->Commit(text); }

}  // namespace millrace::readers
