#include "trainer/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/atomic_file.h"
#include "base/local_path.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "trainer/checkpoint/safetensors.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "checkpoint-";
constexpr char kSuffix[] = ".safetensors";
constexpr char kTestAccuracy[] = "test_accuracy";
constexpr char kLossScale[] = "loss_scale";  // "SCALE GOOD_STEPS"
constexpr char kWorker[] = "worker_";  // the position of each, "BATCHES TOKEN" with TOKEN in hex
constexpr char kFormat[] = "millrace checkpoint 1";

// The step in a checkpoint's file name; false for any other file.
bool ParseName(const std::string& name, uint64_t& step) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  const size_t begin = sizeof(kPrefix) - 1;
  const size_t end = name.size() - (sizeof(kSuffix) - 1);
  if (end < begin + 8) return false;
  return absl::SimpleAtoi(name.substr(begin, end - begin), &step);
}

// Step -> path of all checkpoints in `folder`; none when there is no such folder.
absl::StatusOr<std::map<uint64_t, std::string>> List(const std::string& folder) {
  std::map<uint64_t, std::string> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  while (!error && entries != fs::directory_iterator()) {
    uint64_t step = 0;
    if (ParseName(entries->path().filename().string(), step)) found[step] = entries->path();
    entries.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), "list", folder);
  return found;
}

// Removes the unfinished files of a training that was killed.
absl::Status RemoveAbandoned(const std::string& folder) {
  uint64_t step = 0;
  const std::error_code error = AtomicFile::RemoveAbandonedIn(
      folder, [&step](const std::string& name) { return ParseName(name, step); });
  return error ? ErrnoStatus(error.value(), "list", folder) : absl::OkStatus();
}

std::optional<double> TestAccuracyIn(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find(kTestAccuracy);
  double accuracy = 0;
  if (found == metadata.end() || !absl::SimpleAtod(found->second, &accuracy)) return std::nullopt;
  return accuracy;
}

// The steps of the files among `found` that stay.
std::set<uint64_t> Kept(const std::map<uint64_t, std::string>& found, const KeepRule& rule) {
  std::set<uint64_t> kept;
  for (auto one = found.rbegin(); one != found.rend() && std::ssize(kept) < rule.newest; ++one) {
    kept.insert(one->first);
  }
  std::vector<std::pair<double, uint64_t>> best;
  for (auto one = found.begin(); rule.best > 0 && one != found.end(); ++one) {
    const auto metadata = ReadSafetensorsMetadata(one->second);
    const auto accuracy = metadata.ok() ? TestAccuracyIn(*metadata) : std::nullopt;
    if (accuracy) best.emplace_back(*accuracy, one->first);
  }
  std::ranges::sort(best, std::greater<>());
  best.resize(std::min(best.size(), static_cast<size_t>(rule.best)));
  for (const auto& [accuracy, step] : best) kept.insert(step);
  return kept;
}

std::map<std::string, std::string> Describe(const TrainState& state) {
  const auto hex = [](uint64_t value) { return absl::StrFormat("%016x", value); };
  std::map<std::string, std::string> metadata = {
      {"format", kFormat},
      {"step", absl::StrCat(state.step)},
      {"updates", absl::StrCat(state.updates)},
      {"epoch", absl::StrCat(state.epoch)},
      {"resume_token_hex", absl::BytesToHexString(state.resume_token)},
      {"model_fingerprint", hex(state.model_fingerprint)},
      {"plan_fingerprint", hex(state.plan_fingerprint)},
      {"data_fingerprint", hex(state.data_fingerprint)},
      {"global_batch", absl::StrCat(state.global_batch)},
      {"job", state.job}};
  for (size_t i = 0; i < state.workers.size(); ++i) {
    const WorkerPosition& worker = state.workers[i];
    metadata[absl::StrCat(kWorker, i)] =
        absl::StrCat(worker.batches, " ", absl::BytesToHexString(worker.resume_token));
  }
  if (state.loss_scale) {
    metadata[kLossScale] =
        absl::StrFormat("%.17g %d", state.loss_scale->scale, state.loss_scale->good_steps);
  }
  if (state.test_accuracy) {
    metadata[kTestAccuracy] = absl::StrFormat("%.17g", *state.test_accuracy);
  }
  return metadata;
}

bool IsHex(const std::string& text) {
  return text.size() % 2 == 0 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The positions of workers in `metadata`; false: one is damaged.
bool ParseWorkers(const std::map<std::string, std::string>& metadata,
                  std::vector<WorkerPosition>& workers) {
  for (auto found = metadata.find(absl::StrCat(kWorker, 0)); found != metadata.end();
       found = metadata.find(absl::StrCat(kWorker, workers.size()))) {
    const size_t space = found->second.find(' ');
    WorkerPosition worker;
    if (space == std::string::npos) return false;
    const std::string token = found->second.substr(space + 1);
    if (!absl::SimpleAtoi(found->second.substr(0, space), &worker.batches)) return false;
    if (!IsHex(token)) return false;
    worker.resume_token = absl::HexStringToBytes(token);
    workers.push_back(std::move(worker));
  }
  return true;
}

// False: the loss scale in `metadata` is damaged.
bool ParseLossScale(const std::map<std::string, std::string>& metadata,
                    std::optional<LossScale>& scale) {
  const auto found = metadata.find(kLossScale);
  if (found == metadata.end()) return true;
  const std::vector<std::string> numbers = absl::StrSplit(found->second, ' ');
  scale.emplace();
  return numbers.size() == 2 && absl::SimpleAtod(numbers[0], &scale->scale) &&
         absl::SimpleAtoi(numbers[1], &scale->good_steps);
}

absl::StatusOr<TrainState> ParseState(std::map<std::string, std::string> metadata) {
  TrainState state;
  const auto hex = [&](const char* key, uint64_t& value) {
    const std::string& text = metadata[key];
    return text.size() == 16 && IsHex(text) && absl::SimpleHexAtoi(text, &value);
  };
  // The first versions did not count updates: no optimizer of theirs needed the number.
  if (!metadata.contains("updates")) metadata["updates"] = metadata["step"];
  const bool good = IsCheckpoint(metadata) && absl::SimpleAtoi(metadata["step"], &state.step) &&
                    absl::SimpleAtoi(metadata["updates"], &state.updates) &&
                    absl::SimpleAtoi(metadata["epoch"], &state.epoch) &&
                    absl::SimpleAtoi(metadata["global_batch"], &state.global_batch) &&
                    hex("model_fingerprint", state.model_fingerprint) &&
                    hex("plan_fingerprint", state.plan_fingerprint) &&
                    hex("data_fingerprint", state.data_fingerprint) &&
                    IsHex(metadata["resume_token_hex"]) && ParseWorkers(metadata, state.workers) &&
                    ParseLossScale(metadata, state.loss_scale);
  if (!good) return absl::DataLossError("its metadata is not a checkpoint's");
  state.resume_token = absl::HexStringToBytes(metadata["resume_token_hex"]);
  state.job = metadata["job"];
  state.test_accuracy = TestAccuracyIn(metadata);
  return state;
}

// Moves the tensors "PREFIXname" out of `tensors`, in the order of the model's parameters or
// buffers.
//   NOT_FOUND  one is missing, or has another shape
template <typename Named>
absl::StatusOr<TensorSet> TakeTensors(const std::vector<Named>& list, const std::string& prefix,
                                      std::map<std::string, TensorFile::Tensor>& tensors) {
  TensorSet taken;
  for (const Named& named : list) {
    const auto found = tensors.find(prefix + named.name);
    if (found == tensors.end() || !(found->second.shape == named.shape)) {
      return absl::NotFoundError(
          absl::StrCat("it has no tensor '", prefix, named.name, "' ", named.shape.ToString()));
    }
    taken.push_back(std::move(found->second.data));
    tensors.erase(found);
  }
  return taken;
}

void AppendTensors(const ModelTensors& of, std::vector<TensorRef>& tensors) {
  for (size_t i = 0; i < of.model.parameters.size(); ++i) {
    const Parameter& parameter = of.model.parameters[i];
    tensors.push_back({parameter.name, parameter.shape, of.weights[i]});
    for (const Slot& slot : of.slots) {
      tensors.push_back(
          {absl::StrCat(slot.name, "/", parameter.name), parameter.shape, slot.tensors[i]});
    }
  }
  for (size_t i = 0; i < of.model.buffers.size(); ++i) {
    tensors.push_back({of.model.buffers[i].name, of.model.buffers[i].shape, of.buffers[i]});
  }
}

}  // namespace

absl::Status CheckWritable(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string local, LocalPath(folder));
  if (local != folder) return absl::InvalidArgumentError(folder + ": give the path of the folder");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), "mkdir", folder);
  std::string probe = folder + "/.probe-XXXXXX";
  if (!UniqueFd(mkostemp(probe.data(), O_CLOEXEC)).valid()) {
    return ErrnoStatus(errno, "make a file in", folder);
  }
  if (unlink(probe.c_str()) != 0) return ErrnoStatus(errno, "remove", probe);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ListCheckpoints(const std::string& folder) {
  MILLRACE_ASSIGN_OR_RETURN(const auto found, List(folder));
  std::vector<std::string> paths;
  for (const auto& [step, path] : found) paths.push_back(path);
  std::ranges::reverse(paths);
  return paths;
}

absl::StatusOr<std::string> CheckpointFolder::Save(const TrainState& state,
                                                   std::span<const ModelTensors> models) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return ErrnoStatus(error.value(), "mkdir", folder_);
  std::vector<TensorRef> tensors;
  for (const ModelTensors& model : models) AppendTensors(model, tensors);
  const std::string path =
      (fs::path(folder_) / absl::StrFormat("%s%08d%s", kPrefix, state.step, kSuffix)).string();
  const absl::Status written =
      WriteSafetensors(path, Describe(state), tensors, Existing::kKeep, write_function_);
  if (absl::IsAlreadyExists(written)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path, ": another training wrote it; each needs a checkpoint.folder of its own"));
  }
  MILLRACE_RETURN_IF_ERROR(written);
  const absl::Status removed = RemoveOld();
  if (!removed.ok() && warn_) {
    warn_(absl::StrCat(path, " is saved, but old files stay: ", removed.message()));
  }
  return path;
}

// If one cannot be removed, the others are removed nevertheless.
absl::Status CheckpointFolder::RemoveOld() const {
  MILLRACE_RETURN_IF_ERROR(RemoveAbandoned(folder_));
  MILLRACE_ASSIGN_OR_RETURN(const auto found, List(folder_));
  const std::set<uint64_t> kept = Kept(found, keep_);
  absl::Status status;
  for (const auto& [step, path] : found) {
    if (kept.contains(step)) continue;
    std::error_code error;
    fs::remove(path, error);
    if (error) status.Update(ErrnoStatus(error.value(), "remove", path));
  }
  return status;
}

bool IsCheckpoint(const std::map<std::string, std::string>& metadata) {
  const auto found = metadata.find("format");
  return found != metadata.end() && found->second == kFormat;
}

absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& path, const Model& model) {
  MILLRACE_ASSIGN_OR_RETURN(TensorFile file, ReadSafetensors(path));
  Checkpoint checkpoint;
  checkpoint.path = path;
  absl::StatusOr<TrainState> state = ParseState(file.metadata);
  if (!state.ok()) return Annotate(state.status(), path);
  checkpoint.state = *std::move(state);
  if (checkpoint.state.model_fingerprint != model.Fingerprint()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the checkpoint is of another model (fingerprint ",
                     file.metadata["model_fingerprint"], ", the job's model has ",
                     absl::StrFormat("%016x", model.Fingerprint()), ")"));
  }
  absl::StatusOr<TensorSet> weights = TakeTensors(model.parameters, "", file.tensors);
  if (!weights.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", weights.status().message()));
  }
  absl::StatusOr<TensorSet> buffers = TakeTensors(model.buffers, "", file.tensors);
  if (!buffers.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", buffers.status().message()));
  }
  checkpoint.buffers = *std::move(buffers);
  checkpoint.weights = *std::move(weights);
  checkpoint.others = std::move(file.tensors);
  return checkpoint;
}

absl::StatusOr<std::string> SetAside(const std::string& path) {
  const std::string aside = path + ".damaged";
  MILLRACE_RETURN_IF_ERROR(Rename(path, aside, Existing::kReplace));
  return aside;
}

absl::StatusOr<TensorSet> TakeSlot(const std::string& name, const Model& model,
                                   Checkpoint& checkpoint) {
  absl::StatusOr<TensorSet> tensors = TakeTensors(model.parameters, name + "/", checkpoint.others);
  if (!tensors.ok()) return Annotate(tensors.status(), checkpoint.path);
  return tensors;
}

}  // namespace millrace::trainer
