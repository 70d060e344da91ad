#include "pipeline/plan/paths.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace::pipeline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kListPrefix = "list:";  // of readers/expand_files.h

// The bytes in front of the name itself: "list:", and braces around alternatives.
size_t BytesBeforeName(std::string_view text) {
  const size_t begin = text.starts_with(kListPrefix) ? kListPrefix.size() : 0;
  return std::min(text.find_first_not_of('{', begin), text.size());
}

bool IsRelative(std::string_view text) {
  if (text.find("://") != std::string_view::npos) return false;
  const std::string_view name = text.substr(BytesBeforeName(text));
  return !name.empty() && name[0] != '/';
}

// `folder` as a part of a pattern that stands for itself.
std::string Escaped(const std::string& folder) {
  std::string pattern;
  for (const char c : folder) {
    if (std::string_view("*?[]{}\\").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

// Walks a message and its places in the text.
class Resolver {
 public:
  // `folder` ends with '/'.
  Resolver(std::string folder, const TextLocations& locations)
      : folder_(std::move(folder)), pattern_folder_(Escaped(folder_)), locations_(locations) {}

  void Resolve(Message* message) {
    const Reflection* reflection = message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int count = field->is_repeated() ? reflection->FieldSize(*message, field) : 1;
      for (int i = 0; i < count; ++i) {
        path_.push_back({field->name(), field->is_repeated() ? i : -1});
        ResolveValue(message, field, i);
        path_.pop_back();
      }
    }
  }

 private:
  void ResolveValue(Message* message, const FieldDescriptor* field, int i) {
    const Reflection* reflection = message->GetReflection();
    if (field->message_type() != nullptr) {
      return Resolve(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, i)
                                          : reflection->MutableMessage(message, field));
    }
    if (!field->options().GetExtension(proto::path)) return;
    if (field->is_repeated()) {  // patterns
      const std::string text = reflection->GetRepeatedString(*message, field, i);
      reflection->SetRepeatedString(message, field, i, Resolved(text, pattern_folder_));
    } else {
      reflection->SetString(message, field,
                            Resolved(reflection->GetString(*message, field), folder_));
    }
  }

  // The text at path_, with the folder in front where its name is relative to it.
  std::string Resolved(const std::string& text, const std::string& folder) const {
    if (!IsRelative(text) || locations_.IsGiven(path_, BytesBeforeName(text))) return text;
    if (!text.starts_with(kListPrefix)) return folder + text;
    return absl::StrCat(std::string(kListPrefix), folder_, text.substr(kListPrefix.size()));
  }

  const std::string folder_;
  const std::string pattern_folder_;
  const TextLocations& locations_;
  std::vector<FieldStep> path_;
};

}  // namespace

void ResolvePaths(const std::string& plan_file, PlanMessage* plan) {
  std::error_code error;  // a plan from a pipe has no folder
  const bool is_file =
      plan_file != "/dev/stdin" && std::filesystem::is_regular_file(plan_file, error);
  if (is_file) ResolvePathsBeside(plan_file, plan);
}

void ResolvePathsBeside(const std::string& plan_file, PlanMessage* plan) {
  const size_t slash = plan_file.rfind('/');
  if (slash == std::string::npos) return;
  Resolver(plan_file.substr(0, slash + 1), plan->locations).Resolve(&plan->pipeline);
}

std::string LookedFrom(std::string_view name) {
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  return error || !IsRelative(name) ? "" : absl::StrCat("; the current folder is ", folder);
}

}  // namespace millrace::pipeline
