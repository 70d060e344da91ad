#include "readers/decode_raw.h"

#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/record_error.h"
#include "base/status.h"

namespace millrace::readers {
namespace {

static_assert(std::endian::native == std::endian::little, "values are taken as they lie");

constexpr int64_t kMaxElements = int64_t{1} << 31;  // of a sample

class DecodeRaw final : public Op {
 public:
  // `step_elements`: of the known extents.
  DecodeRaw(DecodeRawOptions options, int64_t step_elements)
      : options_(std::move(options)),
        step_bytes_(static_cast<size_t>(step_elements) * SizeOf(options_.dtype)),
        ragged_(options_.shape.rank() > 0 && options_.shape[0] == Shape::kUnknown) {}

  absl::StatusOr<Schema> Resolve(const Schema& input) override {
    MILLRACE_RETURN_IF_ERROR(Annotate(input.CheckHas(options_.field), "decode_raw"));
    if (input.Find(options_.field)->dtype != DType::kBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("decode_raw: field \"", options_.field, "\" is ",
                       ToAbsl(Name(input.Find(options_.field)->dtype)), ", not bytes"));
    }
    Schema output = input;
    output.Remove(options_.field);
    output.Set({options_.output, options_.dtype, options_.shape});
    return output;
  }

  void Apply(Run& run) const override {
    const Column bytes = run.Take(options_.field);
    Column& column = run.Add(options_.output, options_.dtype);
    if (SharesAll(run, bytes)) {
      return column.SetAll(bytes.first(), bytes.stride_bytes(), options_.shape);
    }
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (run.ok(row)) Decode(run, column, row, bytes.bytes(row));
    }
  }

 private:
  bool IsAligned(uint64_t address) const { return address % SizeOf(options_.dtype) == 0; }

  // True when every value may stay where its bytes lie, at equal distances.
  bool SharesAll(const Run& run, const Column& bytes) const {
    return !ragged_ && step_bytes_ > 0 && run.all_ok() && bytes.is_dense() && run.num_rows() > 0 &&
           static_cast<size_t>(bytes.row_shape()[0]) == step_bytes_ &&
           IsAligned(reinterpret_cast<uintptr_t>(bytes.first())) &&
           (run.num_rows() == 1 || IsAligned(static_cast<uint64_t>(bytes.stride_bytes())));
  }

  void Decode(Run& run, Column& column, int64_t row, std::string_view bytes) const {
    if (ragged_) return DecodeRagged(run, column, row, bytes);
    if (bytes.size() != step_bytes_) return FailLength(run, row, bytes.size());
    Store(run, column, row, bytes, options_.shape);
  }

  void DecodeRagged(Run& run, Column& column, int64_t row, std::string_view bytes) const {
    if (bytes.size() % step_bytes_ != 0) return FailLength(run, row, bytes.size());
    const auto steps = static_cast<int64_t>(bytes.size() / step_bytes_);
    Store(run, column, row, bytes, Shape(options_.shape.extents().subspan(1)).Prepend(steps));
  }

  void Store(Run& run, Column& column, int64_t row, std::string_view bytes,
             const Shape& shape) const {
    const bool stays = !bytes.empty() && IsAligned(reinterpret_cast<uintptr_t>(bytes.data()));
    if (stays) return column.Set(row, bytes.data(), shape);
    void* const out = run.Allocate(column, row, shape);
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
  }

  void FailLength(Run& run, int64_t row, size_t size) const {
    absl::Status status = absl::InvalidArgumentError(absl::StrCat(
        "field \"", options_.field, "\" has ", size, " bytes, ", ToAbsl(Name(options_.dtype)),
        options_.shape.ToString(), " takes ", ragged_ ? "a multiple of " : "", step_bytes_));
    RecordError error;
    error.position = static_cast<int64_t>(run.position(row));
    error.reason = RecordErrorReason::kFeature;
    SetRecordError(status, error);
    run.Fail(row, std::move(status));
  }

  const DecodeRawOptions options_;
  const size_t step_bytes_;  // of the known extents
  const bool ragged_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeDecodeRaw(DecodeRawOptions options) {
  if (options.field.empty()) return absl::InvalidArgumentError("decode_raw: no field");
  if (options.output.empty()) options.output = options.field;
  if (options.dtype == DType::kBytes) {
    return absl::InvalidArgumentError("decode_raw: dtype bytes; it makes numbers of bytes");
  }
  int64_t elements = 1;
  for (int i = 0; i < options.shape.rank(); ++i) {
    const int64_t extent = options.shape[i];
    if (i == 0 && extent == Shape::kUnknown) continue;
    if (extent < 0) {
      return absl::InvalidArgumentError(
          "decode_raw: only the first extent of the shape may be unknown");
    }
    if (extent > 0 && elements > kMaxElements / extent) {
      return absl::InvalidArgumentError("decode_raw: the shape is too large");
    }
    elements *= extent;
  }
  if (elements == 0 && !options.shape.IsKnown()) {
    return absl::InvalidArgumentError("decode_raw: an unknown extent of values without elements");
  }
  return std::make_unique<DecodeRaw>(std::move(options), elements);
}

}  // namespace millrace::readers
