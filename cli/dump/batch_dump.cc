#include "cli/dump/batch_dump.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/little_endian.h"
#include "base/local_path.h"
#include "base/status.h"
#include "cli/dump/npy.h"

namespace millrace::cli {
namespace {

constexpr std::string_view kIdType =
    "[('epoch', '<u8'), ('record', '<u8'), ('sub_index', '<u8'), ('valid', '?')]";
constexpr size_t kIdBytes = 25;

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return error ? ErrnoStatus(error.value(), "make folder", path) : absl::OkStatus();
}

}  // namespace

std::string FileNameOf(std::string_view field) {
  std::string name;
  for (const char c : field) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        absl::ascii_isalnum(byte) || c == '_' || c == '-' || (c == '.' && !name.empty());
    plain ? name.append(1, c) : name.append(absl::StrFormat("%%%02X", byte));
  }
  return name;
}

absl::StatusOr<BatchDump> BatchDump::Open(const std::string& name) {
  if (name.empty()) return BatchDump("");
  MILLRACE_ASSIGN_OR_RETURN(const std::string folder, LocalPath(name));
  std::error_code error;
  const bool exists = std::filesystem::exists(folder, error);
  if (!error && exists && !std::filesystem::is_directory(folder, error)) {
    return absl::FailedPreconditionError(absl::StrCat("--dump ", folder, ": not a folder"));
  }
  const bool holds = !error && exists && !std::filesystem::is_empty(folder, error);
  if (error) return ErrnoStatus(error.value(), "read folder", folder);
  if (!holds) return BatchDump(folder);
  return absl::FailedPreconditionError(absl::StrCat(
      "--dump ", folder, ": the folder is not empty; its files would mix with those of this run"));
}

absl::Status BatchDump::Add(const pipeline::Batch& batch) const {
  if (folder_.empty()) return absl::OkStatus();
  const std::string path = absl::StrFormat("%s/batch-%06d", folder_, batch.index());
  MILLRACE_RETURN_IF_ERROR(MakeFolder(path));
  for (size_t i = 0; i < batch.names().size(); ++i) {
    const std::string file = absl::StrCat(path, "/", FileNameOf(batch.names()[i]), ".npy");
    MILLRACE_RETURN_IF_ERROR(WriteNpy(file, batch.tensor(i)));
  }
  return AddIds(batch, path + ".ids.npy");
}

absl::Status BatchDump::AddIds(const pipeline::Batch& batch, const std::string& path) const {
  std::vector<std::byte> rows(batch.ids().size() * kIdBytes);
  std::byte* at = rows.data();
  for (size_t row = 0; row < batch.ids().size(); ++row, at += kIdBytes) {
    const SampleId& id = batch.ids()[row];
    StoreU64(id.epoch, at);
    StoreU64(id.record, at + 8);
    StoreU64(id.sub_index, at + 16);
    at[24] = std::byte{batch.valid()[row]};
  }
  return WriteNpy(path, kIdType, std::array{batch.num_rows()}, rows);
}

}  // namespace millrace::cli
