#include "readers/convert.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT: mkdtemp is POSIX

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/permutation.h"
#include "base/status.h"
#include "readers/atomic_file.h"
#include "readers/example_builder.h"
#include "readers/image_source.h"
#include "readers/record_writer.h"
#include "readers/unique_fd.h"

namespace millrace::readers {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".tfrecord";
constexpr std::string_view kReplaced = "replaced";  // of a work folder: the shards taken away
constexpr std::string_view kMark = "XXXXXX";        // what mkdtemp fills in

// A new hidden folder that goes away with its contents. While it is in use it is locked, so one
// without a lock was left by a process that was killed.
class WorkFolder {
 public:
  // `stem` begins its name.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Make(const fs::path& stem) {
    constexpr int kAttempts = 100;  // to be locked before another process takes it for abandoned
    std::string path;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      path = absl::StrCat(stem.string(), ToAbsl(kMark));
      if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "mkdtemp", path);
      UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!fd.valid() && errno == ENOENT) continue;
      if (!fd.valid()) return ErrnoStatus(errno, "open", path);
      const bool locked = TakeUseLock(fd.get());
      if (!locked && errno == EWOULDBLOCK) continue;
      std::error_code error;
      if (fs::exists(path, error)) {
        return std::unique_ptr<WorkFolder>(new WorkFolder(path, std::move(fd)));
      }
    }
    return absl::AbortedError(absl::StrCat(path, ": other processes remove it"));
  }
  ~WorkFolder() {
    if (kept_) return;
    std::error_code ignored;  // what cannot be removed stays; the conversion's own status matters
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  void Keep() { kept_ = true; }
  const fs::path& path() const { return path_; }

 private:
  WorkFolder(fs::path path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  const fs::path path_;
  const UniqueFd lock_;
  bool kept_ = false;
};

// Renames that can be taken back. Nothing is ever replaced.
class Moves {
 public:
  absl::Status Move(const fs::path& from, const fs::path& to) {
    MILLRACE_RETURN_IF_ERROR(Rename(from.string(), to.string(), Existing::kKeep));
    done_.emplace_back(from, to);
    return absl::OkStatus();
  }
  // False: something could not be moved back.
  bool Undo() {
    bool all = true;
    for (; !done_.empty(); done_.pop_back()) {
      const auto& [from, to] = done_.back();
      all = Rename(to.string(), from.string(), Existing::kKeep).ok() && all;
    }
    return all;
  }

 private:
  std::vector<std::pair<fs::path, fs::path>> done_;
};

// The names in `folder` for which `wanted` holds, sorted. Folders count only when asked for.
absl::StatusOr<std::vector<std::string>> NamesIn(
    const fs::path& folder, bool folders, const std::function<bool(std::string_view)>& wanted) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;  // the entry has just gone
    const bool is_folder = entry->symlink_status(ignored).type() == fs::file_type::directory;
    if (is_folder == folders && wanted(name)) names.push_back(std::move(name));
  }
  if (error) return ErrnoStatus(error.value(), "list", folder.string());
  std::sort(names.begin(), names.end());
  return names;
}

// True for "BASE-DDDDD-of-DDDDD.tfrecord", D a digit.
bool IsShardOf(std::string_view base, std::string_view name) {
  constexpr std::string_view kPattern = "-DDDDD-of-DDDDD";
  if (name.size() != base.size() + kPattern.size() + kExtension.size()) return false;
  if (!name.starts_with(base) || !name.ends_with(kExtension)) return false;
  const std::string_view number = name.substr(base.size(), kPattern.size());
  return std::equal(number.begin(), number.end(), kPattern.begin(), [](char c, char pattern) {
    return pattern == 'D' ? c >= '0' && c <= '9' : c == pattern;
  });
}

absl::StatusOr<std::string> LabelsPath(const ConvertOptions& options) {
  if (!options.labels.empty()) return options.labels;
  constexpr std::string_view kImagesPart = "images-idx3";
  std::string path = options.images;
  const size_t at = path.rfind(kImagesPart);
  if (at == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("labels: needed, because '", options.images,
                                                   "' has no 'images-idx3' in its name"));
  }
  return path.replace(at, kImagesPart.size(), "labels-idx1");
}

absl::StatusOr<std::unique_ptr<ImageSource>> OpenSource(const ConvertOptions& options) {
  if (options.input == ConvertInput::kIdx) {
    MILLRACE_ASSIGN_OR_RETURN(const std::string labels, LabelsPath(options));
    return OpenIdxImages(options.images, labels);
  }
  std::error_code error;
  const bool is_folder = fs::is_directory(options.images, error);
  if (error) return ErrnoStatus(error.value(), "stat", options.images);
  if (is_folder) return OpenImageFolder(options.images, {.label = options.label});
  ImageTarOptions tar;
  tar.labels.label = options.label;
  tar.random_access = options.shuffle_seed.has_value();
  tar.max_memory_bytes = options.max_memory_bytes;
  return OpenImageTar(options.images, tar);
}

std::string MakeExample(const SourceImage& image) {
  ExampleBuilder example;
  example.AddBytes("image/encoded", image.encoded);
  example.AddBytes("image/format", image.format);
  example.AddInt("image/class/label", image.label);
  if (!image.label_text.empty()) example.AddBytes("image/class/text", image.label_text);
  example.AddBytes("image/filename", image.filename);
  example.AddInt("image/height", image.height);
  example.AddInt("image/width", image.width);
  return example.Serialize();
}

class Conversion {
 public:
  Conversion(const ConvertOptions& options, const ConvertProgress& progress)
      : options_(options),
        progress_(progress),
        parent_(fs::path(options.output_prefix).has_parent_path()
                    ? fs::path(options.output_prefix).parent_path()
                    : "."),
        base_(fs::path(options.output_prefix).filename().string()) {}

  absl::StatusOr<ConvertReport> Run() {
    NameShards();
    MILLRACE_RETURN_IF_ERROR(CheckNoShards());
    MILLRACE_RETURN_IF_ERROR(CheckNoFolders());
    MILLRACE_RETURN_IF_ERROR(RemoveAbandoned(/*all=*/false));
    MILLRACE_ASSIGN_OR_RETURN(source_, OpenSource(options_));
    total_ = source_->num_images();
    if (static_cast<uint64_t>(options_.num_shards) > total_) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_shards: ", options_.num_shards, " shards for ", total_, " images"));
    }
    if (options_.shuffle_seed.has_value()) order_.emplace(total_, *options_.shuffle_seed);
    report_.class_names = source_->class_names();
    MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<WorkFolder> work,
                              WorkFolder::Make(parent_ / WorkStem()));
    for (size_t shard = 0; shard < report_.files.size(); ++shard) {
      MILLRACE_RETURN_IF_ERROR(WriteShard(shard, work->path() / Basename(shard)));
    }
    MILLRACE_RETURN_IF_ERROR(MoveShards(*work));
    if (options_.overwrite) MILLRACE_RETURN_IF_ERROR(RemoveAbandoned(/*all=*/true));
    return std::move(report_);
  }

 private:
  fs::path Basename(size_t shard) const { return fs::path(report_.files[shard]).filename(); }

  void NameShards() {
    for (int shard = 0; shard < options_.num_shards; ++shard) {
      report_.files.push_back(absl::StrFormat("%s-%05d-of-%05d%s", options_.output_prefix, shard,
                                              options_.num_shards, std::string(kExtension)));
    }
  }

  // With mkdtemp's letters shorter than a shard's name, so no name is too long for it alone.
  std::string WorkStem() const { return absl::StrCat(".", base_, ".convert-"); }

  // All shards of this prefix, of however many: a glob would find them together with the new ones.
  absl::StatusOr<std::vector<std::string>> OldShards() const {
    return NamesIn(parent_, /*folders=*/false,
                   [&](std::string_view name) { return IsShardOf(base_, name); });
  }

  absl::Status CheckNoShards() const {
    if (options_.overwrite) return absl::OkStatus();
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> old, OldShards());
    if (!old.empty()) {
      return absl::AlreadyExistsError(absl::StrCat((parent_ / old[0]).string(), ": exists already",
                                                   old.size() > 1 ? ", and more of its set" : ""));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNoFolders() const {
    for (const std::string& file : report_.files) {
      std::error_code ignored;  // then the move says what is wrong
      if (fs::symlink_status(file, ignored).type() != fs::file_type::directory) continue;
      return absl::AlreadyExistsError(absl::StrCat(file, ": is a folder"));
    }
    return absl::OkStatus();
  }

  // Removes what killed conversions to this prefix left. Replaced shards go only with `all`.
  absl::Status RemoveAbandoned(bool all) const {
    const std::string stem = WorkStem();
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                              NamesIn(parent_, /*folders=*/true, [&](std::string_view name) {
                                return name.starts_with(stem) &&
                                       name.size() == stem.size() + kMark.size();
                              }));
    for (const std::string& name : names) {
      std::error_code ignored;
      if (all || !fs::exists(parent_ / name / kReplaced, ignored)) {
        RemoveIfAbandoned((parent_ / name).string());
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteShard(size_t shard, const fs::path& path) {
    MILLRACE_ASSIGN_OR_RETURN(
        const std::unique_ptr<TfRecordWriter> writer,
        TfRecordWriter::Open(path.string(), {.compression = options_.compression,
                                             .compression_level = options_.compression_level}));
    const uint64_t num_shards = report_.files.size();
    const uint64_t end = (shard + 1) * total_ / num_shards;
    for (uint64_t i = shard * total_ / num_shards; i < end; ++i) {
      const uint64_t index = order_.has_value() ? (*order_)(i) : i;
      MILLRACE_ASSIGN_OR_RETURN(const SourceImage image, source_->Read(index));
      MILLRACE_RETURN_IF_ERROR(writer->Write(MakeExample(image)));
      ++report_.num_images;
      ++report_.images_per_label[image.label];
      if (progress_) {
        progress_(static_cast<int64_t>(report_.num_images), static_cast<int64_t>(total_));
      }
    }
    MILLRACE_RETURN_IF_ERROR(writer->Close());
    std::error_code error;
    report_.file_bytes += fs::file_size(path, error);
    return error ? ErrnoStatus(error.value(), "stat", path.string()) : absl::OkStatus();
  }

  absl::Status MoveShards(WorkFolder& work) {
    MILLRACE_RETURN_IF_ERROR(CheckNoShards());  // images take a while
    Moves moves;
    const absl::Status moved = TryMoves(work.path(), moves);
    if (moved.ok() || moves.Undo()) return moved;
    work.Keep();
    return Annotate(moved,
                    absl::StrCat("what could not be moved back is in ", work.path().string()));
  }

  absl::Status TryMoves(const fs::path& work, Moves& moves) const {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> old, OldShards());
    std::error_code error;
    if (!old.empty()) fs::create_directory(work / kReplaced, error);
    if (error) return ErrnoStatus(error.value(), "mkdir", (work / kReplaced).string());
    for (const std::string& name : old) {
      MILLRACE_RETURN_IF_ERROR(moves.Move(parent_ / name, work / kReplaced / name));
    }
    for (size_t shard = 0; shard < report_.files.size(); ++shard) {
      MILLRACE_RETURN_IF_ERROR(moves.Move(work / Basename(shard), report_.files[shard]));
    }
    return absl::OkStatus();
  }

  const ConvertOptions& options_;
  const ConvertProgress& progress_;
  const fs::path parent_;   // the folder of the shards
  const std::string base_;  // what their names begin with
  std::unique_ptr<ImageSource> source_;
  uint64_t total_ = 0;
  std::optional<Permutation> order_;
  ConvertReport report_;
};

}  // namespace

absl::Status ConvertOptions::Validate() const {
  if (images.empty()) return absl::InvalidArgumentError("images: no path given");
  if (output_prefix.empty()) return absl::InvalidArgumentError("output_prefix: no path given");
  if (num_shards < 1 || num_shards > 99999) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_shards: ", num_shards, " is not in 1 to 99999"));
  }
  if (input == ConvertInput::kIdx && label.has_value()) {
    return absl::InvalidArgumentError("label: IDX files hold their own labels");
  }
  if (input == ConvertInput::kImages && !labels.empty()) {
    return absl::InvalidArgumentError("labels: only IDX files have a file of labels");
  }
  if (max_memory_bytes < 0) return absl::InvalidArgumentError("max_memory_bytes: is negative");
  if (compression == Compression::kAuto) {
    return absl::InvalidArgumentError("compression: must be none, gzip, zlib or zstd");
  }
  if (compression_level < 1 || compression_level > 9) {
    return absl::InvalidArgumentError(
        absl::StrCat("compression_level: ", compression_level, " is not in 1 to 9"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ConvertReport> Convert(const ConvertOptions& options,
                                      const ConvertProgress& progress) {
  MILLRACE_RETURN_IF_ERROR(options.Validate());
  return Conversion(options, progress).Run();
}

}  // namespace millrace::readers
