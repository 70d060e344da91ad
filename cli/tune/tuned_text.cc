#include "cli/tune/tuned_text.h"

#include <cstddef>
#include <filesystem>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status.h"
#include "pipeline/edit_plan.h"
#include "pipeline/text_proto.h"
#include "readers/open_file.h"

namespace millrace::cli {
namespace {

using pipeline::Plan;

std::filesystem::path FolderOf(const std::string& file) {
  std::error_code error;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(file, error).parent_path(),
                                           error);
}

bool IsSameFolder(const TunedText& tuned) { return FolderOf(tuned.out) == FolderOf(tuned.file); }

absl::Status OtherFolderError(const TunedText& tuned, const char* kind) {
  return absl::FailedPreconditionError(absl::StrCat(tuned.out, ": names of files in the ", kind,
                                                    " are relative to its folder; write to ",
                                                    FolderOf(tuned.file).string()));
}

absl::Status CheckIsSame(const TunedText& tuned, const Plan& plan,
                         const pipeline::EditedText& edited) {
  const bool same_folder = IsSameFolder(tuned);
  MILLRACE_ASSIGN_OR_RETURN(
      const Plan changed,
      Plan::FromTextOfFile(edited.text, same_folder ? tuned.file : tuned.out, edited.variables));
  if (changed.Fingerprint() != plan.Fingerprint()) {
    return absl::InternalError("the changed plan has another fingerprint");
  }
  if (SameButPerformance(plan, changed)) return absl::OkStatus();
  if (same_folder) return absl::InternalError("the changed plan is another plan");
  return OtherFolderError(tuned, "plan");
}

}  // namespace

absl::StatusOr<std::string> ReadText(const std::string& file) {
  return readers::ReadWholeFile(file, pipeline::kMaxTextProtoBytes);
}

absl::Status CheckFree(const TunedText& tuned) {
  std::error_code error;
  if (tuned.out.empty() || tuned.overwrite || !std::filesystem::exists(tuned.out, error)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(tuned.out, ": exists; --overwrite replaces it"));
}

absl::Status CheckPlanFits(const TunedText& tuned, const Plan& plan,
                           const pipeline::EditedText& edited) {
  if (tuned.out.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(CheckIsSame(tuned, plan, edited));
  return AtomicFile::Create(tuned.out).status();
}

absl::Status CheckJobFits(const TunedText& tuned) {
  if (tuned.out.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(AtomicFile::Create(tuned.out).status());
  return IsSameFolder(tuned) ? absl::OkStatus() : OtherFolderError(tuned, "job");
}

absl::Status WriteText(const TunedText& tuned, const std::string& text) {
  MILLRACE_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(tuned.out));
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(text))));
  return file->Commit(/*sync=*/false, tuned.overwrite ? Existing::kReplace : Existing::kKeep);
}

std::string NameBeside(const std::string& beside, const std::string& file) {
  const std::filesystem::path path = FolderOf(file) / std::filesystem::path(file).filename();
  return path.lexically_relative(FolderOf(beside)).string();
}

absl::StatusOr<pipeline::Variables> NamedIn(const std::string& file,
                                            const pipeline::Variables& variables) {
  MILLRACE_ASSIGN_OR_RETURN(const pipeline::NamedVariables named,
                            pipeline::VariablesOf(file, variables));
  pipeline::Variables of_file;
  for (const auto& [name, value] : variables) {
    if (named.all.contains(name)) of_file.emplace(name, value);
  }
  return of_file;
}

std::map<std::string, std::string> ChangedOf(const pipeline::Variables& given,
                                             const pipeline::Variables& now) {
  std::map<std::string, std::string> changed;
  for (const auto& [name, value] : now) {
    if (given.at(name) != value) changed.emplace(name, value);
  }
  return changed;
}

}  // namespace millrace::cli
