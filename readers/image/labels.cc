#include "readers/image/labels.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"
#include "readers/image_header.h"

namespace millrace::readers::internal {
namespace {

constexpr size_t kWnidSize = 9;  // n and 8 digits

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// The class that a path names: its first folder, or the WNID before the underscore. Empty: none.
std::string_view ClassOf(std::string_view path) {
  const size_t slash = path.find('/');
  if (slash != std::string_view::npos) return path.substr(0, slash);
  const std::string_view wnid = path.substr(0, kWnidSize);
  const bool digits =
      std::ranges::all_of(wnid.substr(1), [](unsigned char c) { return std::isdigit(c) != 0; });
  return path.size() > kWnidSize && path[0] == 'n' && digits && path[kWnidSize] == '_'
             ? wnid
             : std::string_view();
}

bool IsInFolder(std::string_view path) { return path.find('/') != std::string_view::npos; }

absl::Status Mixture(std::string_view root, std::string_view one, std::string_view other) {
  return absl::InvalidArgumentError(absl::StrCat(
      ToAbsl(root), ": '", ToAbsl(one), "' and '", ToAbsl(other),
      "' do not follow one label rule (class folders, WNID_ names, or plain names and a label)"));
}

}  // namespace

bool IsImagePath(std::string_view path) {
  if (path.starts_with('.') || path.find("/.") != std::string_view::npos) return false;
  const std::string lower = Lower(path);
  return lower.ends_with(".jpg") || lower.ends_with(".jpeg") || lower.ends_with(".png");
}

absl::StatusOr<PathLabels> LabelPaths(std::span<const std::string> paths,
                                      const ImageLabelOptions& options, std::string_view root) {
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat(ToAbsl(root), ": no .jpg, .jpeg or .png inside"));
  }
  PathLabels result;
  for (const std::string& path : paths) {
    const std::string_view name = ClassOf(path);
    if (IsInFolder(path) != IsInFolder(paths[0]) || name.empty() != ClassOf(paths[0]).empty()) {
      return Mixture(root, paths[0], path);
    }
    if (!name.empty()) result.class_names.emplace_back(name);
  }
  if (result.class_names.empty() != options.label.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(root), options.label.has_value()
                                       ? ": a label was given, but the paths name the classes"
                                       : ": the names tell no class; give one label for all"));
  }
  std::ranges::sort(result.class_names);
  const auto repeated = std::ranges::unique(result.class_names);
  result.class_names.erase(repeated.begin(), repeated.end());
  for (const std::string& path : paths) {
    const auto it =
        std::ranges::lower_bound(result.class_names, ClassOf(path), {},
                                 [](const std::string& name) { return std::string_view(name); });
    result.labels.push_back(options.label.value_or(it - result.class_names.begin()));
  }
  return result;
}

absl::StatusOr<SourceImage> MakeSourceImage(std::string encoded, const std::string& path,
                                            const PathLabels& labels, uint64_t index) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(encoded);
  if (!header.ok()) {
    absl::Status status = Annotate(header.status(), path);
    RecordError error;
    error.file = path;
    error.reason = RecordErrorReason::kImage;
    SetRecordError(status, error);
    return status;
  }
  SourceImage image;
  image.encoded = std::move(encoded);
  image.format = header->format;
  image.filename = path;
  image.height = header->height;
  image.width = header->width;
  image.label = labels.labels[index];
  if (!labels.class_names.empty()) {
    image.label_text = labels.class_names[static_cast<size_t>(image.label)];
  }
  return image;
}

}  // namespace millrace::readers::internal
