#include "trainer/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace millrace::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie");

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr char kDigestKey[] = "\"digest\":\"";
constexpr char kNoDigest[] = "0000000000000000";

std::string MakeHeader(const std::map<std::string, std::string>& metadata,
                       std::span<const TensorRef> tensors) {
  json header = json::object();
  header["__metadata__"] = metadata;
  header["__metadata__"]["digest"] = kNoDigest;
  uint64_t offset = 0;
  for (const TensorRef& tensor : tensors) {
    const auto extents = tensor.shape.extents();
    const uint64_t end = offset + tensor.data.size_bytes();
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", std::vector<int64_t>(extents.begin(), extents.end())},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// XXH3 of several pieces.
class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), XXH3_freeState) { XXH3_64bits_reset(state_.get()); }
  void Add(const void* data, size_t size) { XXH3_64bits_update(state_.get(), data, size); }
  std::string Hex() const { return absl::StrFormat("%016x", XXH3_64bits_digest(state_.get())); }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// The member `name`, or null. Not a copy: a damaged header may be deeper than the stack.
const json& Member(const json& value, const char* name) {
  static const json& none = *new json;
  const auto found = value.find(name);
  return found == value.end() ? none : *found;
}

// Reads one file; every failure names it.
class Reader {
 public:
  Reader(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  absl::StatusOr<TensorFile> Read();
  absl::StatusOr<std::map<std::string, std::string>> ReadMetadata();

 private:
  absl::Status Damaged(const std::string& why) const {
    return absl::DataLossError(absl::StrCat(path_, ": damaged checkpoint: ", why));
  }
  absl::Status ReadExactly(void* data, size_t size);
  absl::Status ReadHeader(std::string& text);
  // Returns the header of which `text` is the text, and fills the metadata of `file`.
  absl::StatusOr<json> ParseHeader(const std::string& text, TensorFile& file) const;
  absl::Status ParseMetadata(const json& metadata, TensorFile& file) const;
  absl::Status ReadTensors(const json& header, TensorFile& file);
  absl::Status ReadTensor(const json& entry, uint64_t offset, TensorFile::Tensor& tensor);
  absl::Status CheckDigest(const TensorFile& file) const;

  const std::string path_;
  const UniqueFd fd_;
  uint64_t data_bytes_ = 0;
  std::string digest_;  // the digest in the header
  Hasher hasher_;
};

absl::Status Reader::ReadExactly(void* data, size_t size) {
  char* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(fd_.get(), bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read", path_);
    if (got == 0) return Damaged("it ends too early");
    bytes += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadHeader(std::string& text) {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "fstat", path_);
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  uint64_t size = 0;
  MILLRACE_RETURN_IF_ERROR(ReadExactly(&size, sizeof(size)));
  if (size > kMaxHeaderBytes || size > file_bytes - sizeof(size)) {
    return Damaged(absl::StrCat("a header of ", size, " bytes in a file of ", file_bytes));
  }
  text.resize(size);
  MILLRACE_RETURN_IF_ERROR(ReadExactly(text.data(), size));
  data_bytes_ = file_bytes - sizeof(size) - size;
  return absl::OkStatus();
}

absl::Status Reader::ParseMetadata(const json& metadata, TensorFile& file) const {
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) return Damaged("metadata that is no string");
    file.metadata[key] = value.get<std::string>();
  }
  if (file.metadata["digest"].size() != std::strlen(kNoDigest)) return Damaged("it has no digest");
  return absl::OkStatus();
}

absl::Status Reader::ReadTensor(const json& entry, uint64_t offset, TensorFile::Tensor& tensor) {
  if (Member(entry, "dtype") != "F32") return Damaged("no F32 tensor");
  const json& shape = Member(entry, "shape");
  const json& offsets = Member(entry, "data_offsets");
  if (!shape.is_array() || shape.size() > Shape::kMaxRank || !offsets.is_array() ||
      offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return Damaged("a malformed tensor entry");
  }
  const auto end = offsets[1].get<uint64_t>();
  if (offsets[0].get<uint64_t>() != offset || end < offset || end > data_bytes_) {
    return Damaged("tensors overlap or leave holes");
  }
  uint64_t elements = 1;
  std::vector<int64_t> extents;
  for (const json& extent : shape) {
    if (!extent.is_number_unsigned()) return Damaged("a malformed shape");
    const auto value = extent.get<uint64_t>();
    if (value > data_bytes_ || (value != 0 && elements > data_bytes_ / value)) {
      return Damaged("a shape larger than the file");
    }
    elements *= value;
    extents.push_back(static_cast<int64_t>(value));
  }
  if (elements * sizeof(float) != end - offset)
    return Damaged("a shape that does not fit its data");
  tensor.shape = Shape(extents);
  tensor.data.resize(elements);
  MILLRACE_RETURN_IF_ERROR(ReadExactly(tensor.data.data(), end - offset));
  hasher_.Add(tensor.data.data(), end - offset);
  return absl::OkStatus();
}

// Tensors are read in the order of their bytes.
absl::Status Reader::ReadTensors(const json& header, TensorFile& file) {
  std::multimap<uint64_t, std::string> by_offset;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const json& offsets = Member(entry, "data_offsets");
    if (!offsets.is_array() || offsets.empty() || !offsets[0].is_number_unsigned()) {
      return Damaged("a tensor without offsets");
    }
    by_offset.emplace(offsets[0].get<uint64_t>(), name);
  }
  uint64_t offset = 0;
  for (const auto& [begin, name] : by_offset) {
    TensorFile::Tensor& tensor = file.tensors[name];
    MILLRACE_RETURN_IF_ERROR(ReadTensor(header[name], offset, tensor));
    offset += tensor.data.size() * sizeof(float);
  }
  if (offset != data_bytes_) return Damaged("bytes that belong to no tensor");
  return absl::OkStatus();
}

absl::StatusOr<json> Reader::ParseHeader(const std::string& text, TensorFile& file) const {
  json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json& metadata = Member(header, "__metadata__");
  if (!metadata.is_object()) {
    return Damaged("its header is not what a checkpoint has");
  }
  MILLRACE_RETURN_IF_ERROR(ParseMetadata(metadata, file));
  return header;
}

absl::StatusOr<std::map<std::string, std::string>> Reader::ReadMetadata() {
  std::string text;
  MILLRACE_RETURN_IF_ERROR(ReadHeader(text));
  TensorFile file;
  MILLRACE_RETURN_IF_ERROR(ParseHeader(text, file).status());
  file.metadata.erase("digest");
  return std::move(file.metadata);
}

absl::StatusOr<TensorFile> Reader::Read() {
  std::string text;
  MILLRACE_RETURN_IF_ERROR(ReadHeader(text));
  TensorFile file;
  MILLRACE_ASSIGN_OR_RETURN(const json header, ParseHeader(text, file));
  digest_ = file.metadata["digest"];
  const size_t at = text.find(kDigestKey + digest_);
  if (at == std::string::npos) return Damaged("its digest is written in an unknown way");
  text.replace(at + std::strlen(kDigestKey), digest_.size(), kNoDigest);
  hasher_.Add(text.data(), text.size());
  MILLRACE_RETURN_IF_ERROR(ReadTensors(header, file));
  MILLRACE_RETURN_IF_ERROR(CheckDigest(file));
  file.metadata.erase("digest");
  return file;
}

absl::Status Reader::CheckDigest(const TensorFile& file) const {
  const std::string actual = hasher_.Hex();
  if (actual == digest_) return absl::OkStatus();
  return Damaged(absl::StrCat("its digest is ", actual, ", not ", digest_, " (",
                              file.tensors.size(), " tensors)"));
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path,
                              const std::map<std::string, std::string>& metadata,
                              std::span<const TensorRef> tensors, Existing existing,
                              WriteFunction write_function) {
  std::string header = MakeHeader(metadata, tensors);
  Hasher hasher;
  hasher.Add(header.data(), header.size());
  for (const TensorRef& tensor : tensors) hasher.Add(tensor.data.data(), tensor.data.size_bytes());
  const size_t at = header.find(absl::StrCat(kDigestKey, kNoDigest));
  header.replace(at + std::strlen(kDigestKey), std::strlen(kNoDigest), hasher.Hex());

  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                            AtomicFile::Create(path, std::move(write_function)));
  const uint64_t header_bytes = header.size();
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(&header_bytes, 1))));
  MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(std::span(header))));
  for (const TensorRef& tensor : tensors) {
    MILLRACE_RETURN_IF_ERROR(file->Append(std::as_bytes(tensor.data)));
  }
  return file->Commit(/*sync=*/true, existing);
}

absl::StatusOr<TensorFile> ReadSafetensors(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return Reader(path, std::move(fd)).Read();
}

absl::StatusOr<std::map<std::string, std::string>> ReadSafetensorsMetadata(
    const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return Reader(path, std::move(fd)).ReadMetadata();
}

}  // namespace millrace::trainer
