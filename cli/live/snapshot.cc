#include "cli/live/snapshot.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "cli/live/json_fields.h"
#include "cli/live/profile_members.h"

namespace millrace::cli {

// In the namespace of their types, where JsonWriter and JsonReader find them.
template <typename Archive, Like<StepFigures> T>
void Members(Archive& archive, T& figures) {
  archive("step", figures.step);
  archive("total_steps", figures.total_steps);
  archive("epoch", figures.epoch);
  archive("loss", figures.loss);
  archive("steps", figures.steps);
  archive("samples", figures.samples);
  archive("step_seconds", figures.step_seconds);
  archive("wait_seconds", figures.wait_seconds);
}

template <typename Archive, Like<RankSnapshot> T>
void Members(Archive& archive, T& rank) {
  archive("rank", rank.rank);
  archive("records_bad", rank.records_bad);
  archive("steps", rank.steps);
  archive("profile", rank.profile);
  archive("options", rank.options);
  archive("host", rank.host);
  archive("fetched_bytes", rank.fetched_bytes);
}

template <typename Archive, Like<Snapshot> T>
void Members(Archive& archive, T& snapshot) {
  archive("pid", snapshot.pid);
  archive("command", snapshot.command);
  archive("name", snapshot.name);
  archive("file", snapshot.file);
  archive("world", snapshot.world);
  archive("elapsed_seconds", snapshot.elapsed_seconds);
  archive("asked_samples_per_second", snapshot.asked_samples_per_second);
  archive("ranks", snapshot.ranks);
}

namespace {

constexpr size_t kMaxName = 40;

char Plain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
}

}  // namespace

std::string NameOfFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(path, error);
  std::string name = full.stem().string();
  const std::string folder = full.parent_path().filename().string();
  if (!folder.empty()) name = folder + "_" + name;
  std::ranges::transform(name, name.begin(), Plain);
  if (name.empty() || name[0] == '.') name.insert(name.begin(), '_');
  name.resize(std::min(name.size(), kMaxName));
  return name;
}

std::string ToJson(const Snapshot& snapshot) {
  nlohmann::ordered_json json;
  JsonWriter writer(json);
  Members(writer, snapshot);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<Snapshot> SnapshotOfJson(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("the figures are no JSON object");
  Snapshot snapshot;
  JsonReader reader(json);
  Members(reader, snapshot);
  return snapshot;
}

}  // namespace millrace::cli
