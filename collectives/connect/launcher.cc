#include "collectives/launcher.h"

#include <array>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "collectives/connect/launcher_sources.h"

namespace millrace::collectives {
namespace {

bool IsMpi(LauncherKind kind) {
  return kind == LauncherKind::kOpenMpi || kind == LauncherKind::kPmi;
}
bool IsSlurm(LauncherKind kind) {
  return kind == LauncherKind::kSlurm || kind == LauncherKind::kPmix;
}

// True where `inner` is meant to run inside tasks of `outer`, so that the sizes may differ.
bool MayNest(LauncherKind inner, LauncherKind outer, bool torchrun) {
  if (inner == LauncherKind::kTorchrun && torchrun) return IsMpi(outer) || IsSlurm(outer);
  return IsMpi(inner) && IsSlurm(outer);
}

absl::Status CheckSizes(const Launcher& winner, const Launcher& other, bool torchrun) {
  const bool says_little = other.kind == LauncherKind::kNone || other.size <= 1;
  if (says_little || winner.size == 0 || other.size == winner.size) return absl::OkStatus();
  if (MayNest(winner.kind, other.kind, torchrun)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("launchers contradict each other: ", winner.source, " but ", other.source,
                   "; start the ranks by one of them, or unset the variables of the other"));
}

}  // namespace

std::optional<std::string> Environment(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::StatusOr<Launcher> DetectLauncher(const EnvLookup& lookup, const LaunchFlags& flags) {
  std::array<Launcher, 7> found;
  MILLRACE_ASSIGN_OR_RETURN(found[0], ReadFlags(flags));
  MILLRACE_ASSIGN_OR_RETURN(found[1], ReadTorchrun(lookup));
  MILLRACE_ASSIGN_OR_RETURN(found[2], ReadOpenMpi(lookup));
  MILLRACE_ASSIGN_OR_RETURN(found[3], ReadPmi(lookup));
  MILLRACE_ASSIGN_OR_RETURN(const Launcher slurm, ReadSlurm(lookup));
  MILLRACE_ASSIGN_OR_RETURN(found[4], ReadPmix(lookup, slurm));
  if (found[4].kind == LauncherKind::kNone) found[4] = slurm;
  MILLRACE_ASSIGN_OR_RETURN(found[5], ReadTfConfig(lookup));
  Launcher* winner = nullptr;
  for (Launcher& launcher : found) {
    if (winner == nullptr && launcher.kind != LauncherKind::kNone) winner = &launcher;
  }
  if (winner == nullptr) {  // the weakest: an index may also number jobs of one process each
    MILLRACE_ASSIGN_OR_RETURN(found[6], ReadKubernetes(lookup, flags));
    winner = &found[6];
  }
  if (winner->kind == LauncherKind::kNone) winner->source = "no launcher variables";
  if (flags.size && *flags.size != winner->size && winner->size != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "launchers contradict each other: --world-size=", *flags.size, " but ", winner->source,
        winner->kind == LauncherKind::kNone ? ": give --rank too" : ""));
  }
  const bool torchrun = lookup("TORCHELASTIC_RUN_ID").has_value();
  for (const Launcher& other : found) {
    MILLRACE_RETURN_IF_ERROR(CheckSizes(*winner, other, torchrun));
  }
  return *winner;
}

}  // namespace millrace::collectives
