#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "augment/field/columns.h"
#include "augment/field/hash.h"
#include "augment/image/errors.h"
#include "augment/token_ops.h"
#include "augment/vocabulary.h"
#include "base/status.h"

namespace millrace::augment {
namespace {

constexpr std::string_view kWhitespace = " \t\n\v\f\r";
constexpr int64_t kMaxBuckets = int64_t{1} << 40;
constexpr size_t kShownBytes = 64;  // of a token, in a message

class VocabularyOp final : public FieldsOp {
 public:
  // REQUIRES: it is loaded.
  explicit VocabularyOp(VocabularyOptions options)
      : FieldsOp("vocabulary", options.fields), options_(std::move(options)) {}

 private:
  absl::StatusOr<Field> ResolveField(size_t, Field field) override {
    if (field.dtype != DType::kBytes) return FieldError(field, op(), "bytes");
    if (!options_.output.empty()) field.name = options_.output;
    field.dtype = DType::kI64;
    field.shape = options_.split ? Shape{Shape::kUnknown} : Shape();
    return field;
  }

  void ApplyTo(size_t i, Run& run) const override {
    const Column in = run.Take(fields()[i]);
    Column& out = run.Add(options_.output.empty() ? fields()[i] : options_.output, DType::kI64);
    std::vector<int64_t> ids;
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      ids.clear();
      if (const auto unknown = AddIds(in.bytes(row), &ids)) {
        run.Fail(row, Unknown(fields()[i], *unknown));
        continue;
      }
      const Shape shape = options_.split ? Shape{std::ssize(ids)} : Shape();
      std::ranges::copy(ids, static_cast<int64_t*>(run.Allocate(out, row, shape)));
    }
  }

  // Appends the ids of a value; returns the first token that has none.
  std::optional<std::string_view> AddIds(std::string_view value, std::vector<int64_t>* ids) const {
    if (!options_.split) return AddId(value, ids);
    while (true) {
      const size_t begin = value.find_first_not_of(kWhitespace);
      if (begin == std::string_view::npos) return std::nullopt;
      value.remove_prefix(begin);
      const std::string_view word = value.substr(0, value.find_first_of(kWhitespace));
      if (const auto unknown = AddId(word, ids)) return unknown;
      value.remove_prefix(word.size());
    }
  }

  std::optional<std::string_view> AddId(std::string_view token, std::vector<int64_t>* ids) const {
    int64_t id = options_.loaded->Find(token);
    if (id < 0) {
      if (options_.oov_buckets > 0) {
        const auto buckets = static_cast<uint64_t>(options_.oov_buckets);
        id = options_.loaded->size() + static_cast<int64_t>(BinOf(token, 0, buckets));
      } else if (options_.default_id) {
        id = *options_.default_id;
      } else {
        return token;
      }
    }
    ids->push_back(id);
    return std::nullopt;
  }

  absl::Status Unknown(const std::string& field, std::string_view token) const {
    return RowError(
        RecordErrorReason::kValue,
        absl::StrCat(field, ": token \"", absl::CHexEscape(ToAbsl(token.substr(0, kShownBytes))),
                     token.size() > kShownBytes ? "..." : "", "\" is not in ", options_.file,
                     ", and there is no default_id"));
  }

  const VocabularyOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeVocabulary(VocabularyOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("vocabulary", options.fields));
  if (options.oov_buckets < 0 || options.oov_buckets > kMaxBuckets) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vocabulary: oov_buckets is ", options.oov_buckets, "; expected 0 to ", kMaxBuckets));
  }
  if (options.default_id && options.oov_buckets > 0) {
    return absl::InvalidArgumentError("vocabulary: default_id and oov_buckets exclude each other");
  }
  if (!options.output.empty() && options.fields.size() > 1) {
    return absl::InvalidArgumentError(
        "vocabulary: output is the name of one field, not of several");
  }
  if (options.loaded == nullptr) {
    MILLRACE_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Load(options.file));
    options.loaded = std::make_shared<const Vocabulary>(std::move(vocabulary));
  }
  if (options.digest != 0 && options.digest != options.loaded->digest()) {
    return absl::FailedPreconditionError(
        absl::StrCat("vocabulary: ", options.file, " has changed: its digest is ",
                     options.loaded->digest(), ", expected ", options.digest));
  }
  return std::make_unique<VocabularyOp>(std::move(options));
}

}  // namespace millrace::augment
