#include "readers/image/labels.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/record_error.h"
#include "base/status.h"
#include "base/text.h"
#include "readers/image_header.h"
#include "readers/open_file.h"

namespace millrace::readers::internal {
namespace {

constexpr size_t kWnidSize = 9;  // n and 8 digits

bool IsInFolder(std::string_view path) { return path.find('/') != std::string_view::npos; }

absl::Status Mixture(std::string_view root, std::string_view one, std::string_view other) {
  return absl::InvalidArgumentError(absl::StrCat(
      ToAbsl(root), ": '", ToAbsl(one), "' and '", ToAbsl(other),
      "' do not follow one label rule (class folders, WNID_ names, or plain names and a label)"));
}

// Whether all paths follow the label rule of the first, and whether `label` goes with it.
absl::Status CheckRule(std::span<const std::string> paths, const ImageLabelOptions& options,
                       std::string_view root) {
  const bool has_class = !ClassOf(paths[0]).empty();
  for (const std::string& path : paths) {
    if (IsInFolder(path) != IsInFolder(paths[0]) || ClassOf(path).empty() == has_class) {
      return Mixture(root, paths[0], path);
    }
  }
  if (options.label.has_value() && !options.classes.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(root), ": a label for all images was given, and classes too"));
  }
  if (has_class != options.label.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(root), has_class ? ": a label was given, but the paths name the classes"
                                           : ": the names of the images tell no class, as those of "
                                             "subfolders and n01440764_18.JPEG do; put the images "
                                             "of each class into a subfolder of its name, or give "
                                             "one label for all (--label, in a plan `label`)"));
}

// Classes that images name, in order.
std::set<std::string_view> NamedClasses(std::span<const std::string> paths) {
  std::set<std::string_view> names;
  for (const std::string& path : paths) {
    const std::string_view name = ClassOf(path);
    if (names.empty() || name != *names.rbegin()) names.insert(name);
  }
  return names;
}

// Names of the classes, by label.
std::vector<std::string> ClassNames(const ImageListing& listing, const ImageLabelOptions& options,
                                    const std::set<std::string_view>& named) {
  if (!options.classes.empty()) return options.classes;
  if (IsInFolder(listing.paths[0])) return listing.folders;
  return {named.begin(), named.end()};
}

using LabelOf = std::map<std::string_view, int64_t>;

absl::StatusOr<LabelOf> NumberClasses(const std::vector<std::string>& class_names,
                                      const std::set<std::string_view>& named,
                                      std::string_view root) {
  LabelOf label_of;
  for (const std::string& name : class_names) {
    if (label_of.emplace(name, static_cast<int64_t>(label_of.size())).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(root), ": the class '", name, "' is given twice"));
  }
  for (const std::string_view name : named) {
    if (label_of.contains(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(ToAbsl(root), ": the class '", ToAbsl(name),
                                                   "' is none of those that are given",
                                                   DidYouMean(name, class_names)));
  }
  return label_of;
}

// Tells of classes that have no image, with an empty folder or without one.
void TellEmpty(const std::vector<std::string>& class_names, const std::set<std::string_view>& named,
               const ImageLabelOptions& options, std::string_view root) {
  if (!options.warn) return;
  std::vector<std::string> empty;
  for (size_t label = 0; label < class_names.size(); ++label) {
    if (named.contains(class_names[label])) continue;
    empty.push_back(absl::StrCat("'", class_names[label], "' (label ", label, ")"));
  }
  if (empty.empty()) return;
  options.warn(absl::StrCat(ToAbsl(root), ": ", empty.size(), " of ", class_names.size(),
                            " classes ", empty.size() == 1 ? "has" : "have",
                            " no images: ", FirstNames(empty)));
}

}  // namespace

absl::Status NoImages(std::string_view root, const std::vector<std::string>& left_out) {
  return absl::NotFoundError(
      absl::StrCat(ToAbsl(root), ": no .jpg, .jpeg, .jpe, .jfif or .png inside",
                   left_out.empty() ? "" : ", but images of other kinds: ", FirstNames(left_out)));
}

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

absl::Status TellLeftOut(const ImageListing& listing, const ImageLabelOptions& options,
                         std::string_view root) {
  if (listing.left_out.empty()) return absl::OkStatus();
  const size_t count = listing.left_out.size();
  const std::string text =
      absl::StrCat(ToAbsl(root), ": ", count, count == 1 ? " image is" : " images are",
                   " left out, since only .jpg, .jpeg, .jpe, .jfif and .png are read: ",
                   FirstNames(listing.left_out));
  if (options.strict) return absl::InvalidArgumentError(text);
  if (options.warn) options.warn(text);
  return absl::OkStatus();
}

absl::StatusOr<PathLabels> LabelImages(const ImageListing& listing,
                                       const ImageLabelOptions& options, std::string_view root) {
  if (listing.paths.empty()) return NoImages(root, listing.left_out);
  MILLRACE_RETURN_IF_ERROR(CheckRule(listing.paths, options, root));
  MILLRACE_RETURN_IF_ERROR(TellLeftOut(listing, options, root));
  PathLabels result;
  result.num_not_read = listing.left_out.size();
  if (options.label.has_value()) {
    result.labels.assign(listing.paths.size(), *options.label);
    return result;
  }
  const std::set<std::string_view> named = NamedClasses(listing.paths);
  result.class_names = ClassNames(listing, options, named);
  MILLRACE_ASSIGN_OR_RETURN(const LabelOf label_of, NumberClasses(result.class_names, named, root));
  TellEmpty(result.class_names, named, options, root);
  result.labels.reserve(listing.paths.size());
  for (const std::string& path : listing.paths) {
    result.labels.push_back(label_of.at(ClassOf(path)));
  }
  return result;
}

absl::StatusOr<SourceImage> MakeSourceImage(std::string encoded, const std::string& path,
                                            const PathLabels& labels, uint64_t index) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(encoded);
  if (!header.ok()) {
    absl::Status status = Annotate(header.status(), path);
    if (absl::IsResourceExhausted(status)) return status;
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

namespace millrace::readers {

absl::StatusOr<std::vector<std::string>> ReadClassNames(const std::string& file) {
  constexpr uint64_t kMaxBytes = uint64_t{16} << 20;
  MILLRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxBytes));
  std::string_view rest = text;
  rest = rest.substr(0, rest.find_last_not_of("\r\n") + 1);  // npos + 1 is 0
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  while (!rest.empty()) {
    const std::string_view name = TakeLine(rest);
    const std::string where = absl::StrCat(file, ":", names.size() + 1);
    if (name.empty()) return absl::InvalidArgumentError(where + ": a line without a class");
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the class '", ShownText(name), "' is there already"));
    }
    names.emplace_back(name);
  }
  if (names.empty()) return absl::InvalidArgumentError(file + ": names no class");
  return names;
}

}  // namespace millrace::readers
