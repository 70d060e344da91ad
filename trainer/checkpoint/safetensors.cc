#include "trainer/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/half.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace millrace::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie");

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;      // the format's own limit
constexpr uint64_t kMaxDataBytes = uint64_t{1} << 60;  // an offset over it is damage, not a size
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

// A dtype of the format whose elements become floats.
struct FloatType {
  std::string_view name;
  size_t size;  // bytes of an element
  void (*convert)(const std::byte* from, std::span<float> to);
};

template <typename Element>
Element ElementAt(const std::byte* data, size_t i) {
  Element element;
  std::memcpy(&element, data + i * sizeof(Element), sizeof(Element));
  return element;
}

template <typename Element>
void ConvertAll(const std::byte* from, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    if constexpr (std::is_floating_point_v<Element>) {
      to[i] = static_cast<float>(ElementAt<Element>(from, i));
    } else {
      to[i] = ToFloat(ElementAt<Element>(from, i));
    }
  }
}

constexpr FloatType kFloatTypes[] = {{"F32", sizeof(float), ConvertAll<float>},
                                     {"F64", sizeof(double), ConvertAll<double>},
                                     {"F16", sizeof(Half), ConvertAll<Half>},
                                     {"BF16", sizeof(BFloat), ConvertAll<BFloat>}};

// The entry of `dtype`; null if its elements are no floats.
const FloatType* FindFloatType(const json& dtype) {
  const auto* found = std::ranges::find_if(
      kFloatTypes, [&](const FloatType& type) { return dtype == std::string(type.name); });
  return found == std::end(kFloatTypes) ? nullptr : found;
}

// The writers whose files are read: those of other programs have other dtypes, and no digest.
enum class WrittenBy { kMillrace, kAnyProgram };

// Reads one file; every failure names it.
class Reader {
 public:
  Reader(std::string path, UniqueFd fd, WrittenBy writer)
      : path_(std::move(path)), fd_(std::move(fd)), writer_(writer) {}

  absl::StatusOr<TensorFile> Read();
  absl::StatusOr<std::map<std::string, std::string>> ReadMetadata();

 private:
  absl::Status Damaged(const std::string& why) const {
    const char* what = writer_ == WrittenBy::kMillrace ? "checkpoint" : "safetensors file";
    return absl::DataLossError(absl::StrCat(path_, ": damaged ", what, ": ", why));
  }
  absl::Status ReadExactly(void* data, size_t size);
  absl::Status ReadHeader(std::string& text);
  // Returns the header of which `text` is the text, and fills the metadata of `file`.
  absl::StatusOr<json> ParseHeader(const std::string& text, TensorFile& file) const;
  absl::Status ParseMetadata(const json& metadata, TensorFile& file) const;
  absl::Status CheckIsNotCut(const json& header) const;
  absl::Status ReadTensors(const json& header, TensorFile& file);
  absl::StatusOr<uint64_t> ReadTensor(const std::string& name, const json& entry, uint64_t offset,
                                      TensorFile& file);
  absl::StatusOr<Shape> ParseShape(const json& shape, uint64_t& elements) const;
  absl::Status ReadFloats(const FloatType& type, std::span<float> to);
  absl::Status SkipBytes(uint64_t size);
  absl::Status TakeDigest(TensorFile& file, std::string& header);
  absl::Status CheckDigest(const TensorFile& file) const;

  const std::string path_;
  const UniqueFd fd_;
  const WrittenBy writer_;
  uint64_t file_bytes_ = 0;
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
  file_bytes_ = static_cast<uint64_t>(info.st_size);
  uint64_t size = 0;
  MILLRACE_RETURN_IF_ERROR(ReadExactly(&size, sizeof(size)));
  if (size > kMaxHeaderBytes || size > file_bytes_ - sizeof(size)) {
    return Damaged(absl::StrCat("a header of ", size, " bytes in a file of ", file_bytes_));
  }
  text.resize(size);
  MILLRACE_RETURN_IF_ERROR(ReadExactly(text.data(), size));
  data_bytes_ = file_bytes_ - sizeof(size) - size;
  return absl::OkStatus();
}

absl::Status Reader::ParseMetadata(const json& metadata, TensorFile& file) const {
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) return Damaged("metadata that is no string");
    file.metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> Reader::ParseShape(const json& shape, uint64_t& elements) const {
  elements = 1;
  std::vector<int64_t> extents;
  if (!shape.is_array() || shape.size() > Shape::kMaxRank) {
    return Damaged("a malformed tensor entry");
  }
  for (const json& extent : shape) {
    if (!extent.is_number_unsigned()) return Damaged("a malformed shape");
    const auto value = extent.get<uint64_t>();
    if (value > data_bytes_ || (value != 0 && elements > data_bytes_ / value)) {
      return Damaged("a shape larger than the file");
    }
    elements *= value;
    extents.push_back(static_cast<int64_t>(value));
  }
  return Shape(extents);
}

absl::Status Reader::ReadFloats(const FloatType& type, std::span<float> to) {
  if (type.size == sizeof(float)) {
    MILLRACE_RETURN_IF_ERROR(ReadExactly(to.data(), to.size_bytes()));
    hasher_.Add(to.data(), to.size_bytes());
    return absl::OkStatus();
  }
  std::vector<std::byte> bytes(to.size() * type.size);
  MILLRACE_RETURN_IF_ERROR(ReadExactly(bytes.data(), bytes.size()));
  hasher_.Add(bytes.data(), bytes.size());
  type.convert(bytes.data(), to);
  return absl::OkStatus();
}

absl::Status Reader::SkipBytes(uint64_t size) {
  std::byte bytes[4096];
  while (size > 0) {
    const size_t part = std::min<uint64_t>(size, sizeof(bytes));
    MILLRACE_RETURN_IF_ERROR(ReadExactly(bytes, part));
    hasher_.Add(bytes, part);
    size -= part;
  }
  return absl::OkStatus();
}

// Reads the tensor that begins at `offset` of the data. Returns its end.
absl::StatusOr<uint64_t> Reader::ReadTensor(const std::string& name, const json& entry,
                                            uint64_t offset, TensorFile& file) {
  const json& dtype = Member(entry, "dtype");
  const json& offsets = Member(entry, "data_offsets");
  const FloatType* type = FindFloatType(dtype);
  if (writer_ == WrittenBy::kMillrace && type != kFloatTypes) return Damaged("no F32 tensor");
  if (!dtype.is_string() || !offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return Damaged("a malformed tensor entry");
  }
  const auto end = offsets[1].get<uint64_t>();
  if (offsets[0].get<uint64_t>() != offset || end < offset || end > data_bytes_) {
    return Damaged("tensors overlap or leave holes");
  }
  uint64_t elements = 0;
  MILLRACE_ASSIGN_OR_RETURN(const Shape shape, ParseShape(Member(entry, "shape"), elements));
  if (type == nullptr) {
    file.skipped[name] = dtype.get<std::string>();
    MILLRACE_RETURN_IF_ERROR(SkipBytes(end - offset));
    return end;
  }
  if (elements * type->size != end - offset) {
    return Damaged("a shape that does not fit its data");
  }
  TensorFile::Tensor& tensor = file.tensors[name];
  tensor.shape = shape;
  tensor.data.resize(elements);
  MILLRACE_RETURN_IF_ERROR(ReadFloats(*type, tensor.data));
  return end;
}

// A file that a copy or a download has left in the middle.
absl::Status Reader::CheckIsNotCut(const json& header) const {
  uint64_t end = 0;
  for (const auto& [name, entry] : header.items()) {
    const json& offsets = Member(entry, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[1].is_number_unsigned()) continue;
    end = std::max(end, offsets[1].get<uint64_t>());
  }
  if (end <= data_bytes_ || end > kMaxDataBytes) return absl::OkStatus();
  return Damaged(absl::StrCat("it is cut off: it has ", file_bytes_, " bytes of ",
                              file_bytes_ - data_bytes_ + end));
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
  MILLRACE_RETURN_IF_ERROR(CheckIsNotCut(header));
  uint64_t offset = 0;
  for (const auto& [begin, name] : by_offset) {
    MILLRACE_ASSIGN_OR_RETURN(offset, ReadTensor(name, header[name], offset, file));
  }
  if (offset != data_bytes_) return Damaged("bytes that belong to no tensor");
  return absl::OkStatus();
}

// Takes the digest out of the metadata, and puts zeros for it into the header, of which it is.
absl::Status Reader::TakeDigest(TensorFile& file, std::string& header) {
  const auto found = file.metadata.find("digest");
  const bool has_digest =
      found != file.metadata.end() && found->second.size() == std::strlen(kNoDigest);
  if (!has_digest) {
    if (writer_ == WrittenBy::kAnyProgram) return absl::OkStatus();
    return Damaged("it has no digest");
  }
  digest_ = found->second;
  file.metadata.erase(found);
  const size_t at = header.find(kDigestKey + digest_);
  if (at != std::string::npos) {
    header.replace(at + std::strlen(kDigestKey), digest_.size(), kNoDigest);
  } else if (writer_ == WrittenBy::kMillrace) {
    return Damaged("its digest is written in an unknown way");
  } else {
    digest_.clear();  // another program's
  }
  return absl::OkStatus();
}

absl::StatusOr<json> Reader::ParseHeader(const std::string& text, TensorFile& file) const {
  json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json& metadata = Member(header, "__metadata__");
  const bool may_lack_metadata = writer_ == WrittenBy::kAnyProgram && metadata.is_null();
  if (!header.is_object() || (!metadata.is_object() && !may_lack_metadata)) {
    return Damaged("its header is not that of such a file");
  }
  MILLRACE_RETURN_IF_ERROR(ParseMetadata(metadata, file));
  return header;
}

absl::StatusOr<std::map<std::string, std::string>> Reader::ReadMetadata() {
  std::string text;
  MILLRACE_RETURN_IF_ERROR(ReadHeader(text));
  TensorFile file;
  MILLRACE_RETURN_IF_ERROR(ParseHeader(text, file).status());
  MILLRACE_RETURN_IF_ERROR(TakeDigest(file, text));
  return std::move(file.metadata);
}

absl::StatusOr<TensorFile> Reader::Read() {
  std::string text;
  MILLRACE_RETURN_IF_ERROR(ReadHeader(text));
  TensorFile file;
  MILLRACE_ASSIGN_OR_RETURN(const json header, ParseHeader(text, file));
  MILLRACE_RETURN_IF_ERROR(TakeDigest(file, text));
  hasher_.Add(text.data(), text.size());
  MILLRACE_RETURN_IF_ERROR(ReadTensors(header, file));
  MILLRACE_RETURN_IF_ERROR(CheckDigest(file));
  return file;
}

absl::Status Reader::CheckDigest(const TensorFile& file) const {
  const std::string actual = hasher_.Hex();
  if (actual == digest_ || digest_.empty()) return absl::OkStatus();
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

namespace {

absl::StatusOr<TensorFile> ReadFile(const std::string& path, WrittenBy writer) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return Reader(path, std::move(fd), writer).Read();
}

}  // namespace

absl::StatusOr<TensorFile> ReadSafetensors(const std::string& path) {
  return ReadFile(path, WrittenBy::kMillrace);
}

absl::StatusOr<TensorFile> ReadForeignSafetensors(const std::string& path) {
  return ReadFile(path, WrittenBy::kAnyProgram);
}

absl::StatusOr<std::map<std::string, std::string>> ReadSafetensorsMetadata(
    const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", path);
  return Reader(path, std::move(fd), WrittenBy::kMillrace).ReadMetadata();
}

}  // namespace millrace::trainer
