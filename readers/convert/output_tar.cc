#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/utf8.h"
#include "readers/container/tar_walk.h"
#include "readers/convert/output.h"
#include "readers/convert/parser.h"

// Samples as WebDataset lays them out: a member KEY.FEATURE for each feature, ustar, with a pax
// header where the name is too long for one. All that a header says beside name and size is
// constant, so the same samples give the same bytes.

namespace millrace::readers::internal {
namespace {

constexpr size_t kMaxName = 100;
constexpr uint64_t kMaxMemberBytes = (uint64_t{1} << 33) - 1;  // of 11 octal digits

void Put(std::string& header, size_t at, std::string_view text) {
  header.replace(at, text.size(), text);
}

void AppendMember(std::string_view name, char type, std::string_view bytes, std::string& out) {
  std::string header(kTarBlock, '\0');
  Put(header, 0, name.substr(0, kMaxName));
  Put(header, 100, "0000644");
  Put(header, 108, "0000000");
  Put(header, 116, "0000000");
  Put(header, 124, absl::StrFormat("%011o", bytes.size()));
  Put(header, 136, "00000000000");
  Put(header, 148, "        ");
  header[156] = type;
  Put(header, 257, std::string_view("ustar\00000", 8));
  uint32_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  Put(header, 148, absl::StrFormat("%06o", sum));
  header[154] = '\0';
  out += header;
  out += bytes;
  out.resize((out.size() + kTarBlock - 1) / kTarBlock * kTarBlock, '\0');
}

// The pax record "LENGTH path=NAME\n", whose length counts its own digits.
std::string PaxPath(std::string_view name) {
  const std::string rest = absl::StrCat(" path=", ToAbsl(name), "\n");
  size_t length = rest.size();
  while (absl::StrCat(length).size() + rest.size() != length) {
    length = absl::StrCat(length).size() + rest.size();
  }
  return absl::StrCat(length, rest);
}

absl::Status CheckKey(std::string_view key) {
  const bool is_relative = !key.starts_with('/') && key.find("..") == std::string_view::npos &&
                           key.find("//") == std::string_view::npos;
  const bool is_plain = !key.empty() && key.find('\0') == std::string_view::npos && IsUtf8(key);
  if (is_relative && is_plain && TarSampleKey(absl::StrCat(ToAbsl(key), ".x")) == key) {
    return absl::OkStatus();
  }
  return FeatureError(kTarKey,
                      "is no path of a sample: relative, in UTF-8, its last part without a dot");
}

absl::Status CheckExtension(std::string_view name) {
  const bool is_plain = !name.empty() && IsUtf8(name) &&
                        name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
  if (is_plain && name == absl::AsciiStrToLower(ToAbsl(name))) return absl::OkStatus();
  return FeatureError(name,
                      "is no extension of a file in small letters; --features can call it so "
                      "(image/encoded=jpg,image/class/label=cls)");
}

class TarShard final : public ShardWriter {
 public:
  explicit TarShard(std::unique_ptr<ShardWriter> file) : file_(std::move(file)) {}

  absl::Status Write(const EncodedRecord& record) override {
    if (record.path == last_key_) {
      return absl::InvalidArgumentError(absl::StrCat("tar cannot hold two samples called '",
                                                     record.path, "' one behind the other"));
    }
    last_key_ = record.path;
    return file_->Write(record);
  }
  absl::Status Close() override { return file_->Close(); }

 private:
  const std::unique_ptr<ShardWriter> file_;
  std::string last_key_;
};

class TarOutput final : public ConvertOutput {
 public:
  explicit TarOutput(const ConvertOptions& options) : options_(options) {}

  absl::Status CheckDeclared(const std::vector<ConvertFeature>& declared) const override {
    for (const ConvertFeature& feature : declared) {
      if (feature.is_optional || feature.name == kTarKey) continue;
      MILLRACE_RETURN_IF_ERROR(CheckExtension(feature.name));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<EncodedRecord> Encode(ConvertRecord record, uint64_t number) const override {
    EncodedRecord encoded;
    MILLRACE_ASSIGN_OR_RETURN(encoded.path, KeyOf(record.sample, number));
    for (const SampleFeature& feature : record.sample) {
      if (feature.name == kTarKey) continue;
      MILLRACE_RETURN_IF_ERROR(CheckExtension(feature.name));
      MILLRACE_ASSIGN_OR_RETURN(const std::string bytes, OneValueText(feature));
      if (bytes.size() > kMaxMemberBytes) return FeatureError(feature.name, "is above 8 GiB");
      const std::string name = absl::StrCat(encoded.path, ".", feature.name);
      if (name.size() > kMaxName) AppendMember("pax", 'x', PaxPath(name), encoded.bytes);
      AppendMember(name, '0', bytes, encoded.bytes);
    }
    if (encoded.bytes.empty()) {
      return absl::InvalidArgumentError("tar cannot hold it: a sample without features");
    }
    return encoded;
  }

  absl::StatusOr<std::unique_ptr<ShardWriter>> OpenShard(const std::string& path) const override {
    MILLRACE_ASSIGN_OR_RETURN(auto file,
                              OpenFileShard(path, options_, {}, std::string(2 * kTarBlock, '\0')));
    return std::make_unique<TarShard>(std::move(file));
  }

 private:
  static absl::StatusOr<std::string> KeyOf(const Sample& sample, uint64_t number) {
    const SampleFeature* const key = Find(sample, kTarKey);
    if (key == nullptr) return absl::StrFormat("%09d", number);
    const std::string* const text = OneValue<std::string>(*key);
    if (text == nullptr) return FeatureError(kTarKey, "is not one value of bytes");
    MILLRACE_RETURN_IF_ERROR(CheckKey(*text));
    return *text;
  }

  const ConvertOptions& options_;
};

}  // namespace

std::unique_ptr<ConvertOutput> MakeTarOutput(const ConvertOptions& options) {
  return std::make_unique<TarOutput>(options);
}

}  // namespace millrace::readers::internal
