#include "augment/field/hash.h"

#include <xxhash.h>

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "augment/field/columns.h"
#include "augment/field_ops.h"
#include "augment/image/errors.h"
#include "base/status.h"

namespace millrace::augment {

static_assert(std::endian::native == std::endian::little, "hashes are of little endian integers");

uint64_t BinOf(std::string_view bytes, uint64_t salt, uint64_t num_bins) {
  const uint64_t hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), salt);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * num_bins) >> 64);
}

namespace {

constexpr uint64_t kMaxBins = uint64_t{1} << 63;

class Hash final : public FieldsOp {
 public:
  explicit Hash(HashOptions options)
      : FieldsOp("hash", options.fields), options_(std::move(options)) {}

 private:
  absl::StatusOr<Field> ResolveField(size_t, Field field) override {
    if (field.dtype == DType::kBytes) {
      field.shape = Shape();
    } else if (!IsInteger(field.dtype)) {
      return FieldError(field, op(), "bytes, uint8, int32 or int64; bucketize makes int64 of it");
    }
    field.dtype = DType::kI64;
    return field;
  }

  void ApplyTo(size_t i, Run& run) const override {
    const std::string& field = fields()[i];
    const uint64_t num_bins = OfField(options_.num_bins, i);
    const uint64_t salt = OfField(options_.salt, i);
    switch (run.Get(field).dtype()) {
      case DType::kBytes:
        return HashBytes(field, salt, num_bins, run);
      case DType::kU8:
        return HashIntegers<uint8_t>(field, salt, num_bins, run);
      case DType::kI32:
        return HashIntegers<int32_t>(field, salt, num_bins, run);
      default:
        return HashIntegers<int64_t>(field, salt, num_bins, run);
    }
  }

  template <typename T>
  static void HashIntegers(const std::string& field, uint64_t salt, uint64_t num_bins, Run& run) {
    MapColumn<T, int64_t>(run, field, [salt, num_bins](T x) {
      const int64_t wide = x;
      return static_cast<int64_t>(
          BinOf({reinterpret_cast<const char*>(&wide), sizeof(wide)}, salt, num_bins));
    });
  }

  static void HashBytes(const std::string& field, uint64_t salt, uint64_t num_bins, Run& run) {
    Column* out = nullptr;
    const Column in = run.Renew(field, DType::kI64, &out);
    const auto bin = [&](int64_t row) {
      return static_cast<int64_t>(BinOf(in.bytes(row), salt, num_bins));
    };
    if (run.all_ok()) {
      auto* const bins = reinterpret_cast<int64_t*>(run.AllocateAll(*out, Shape()));
      for (int64_t row = 0; row < run.num_rows(); ++row) bins[row] = bin(row);
      out->SetAll(bins, sizeof(int64_t), Shape());
      return;
    }
    for (int64_t row = 0; row < run.num_rows(); ++row) {
      if (!run.ok(row)) continue;
      *static_cast<int64_t*>(run.Allocate(*out, row, Shape())) = bin(row);
    }
  }

  const HashOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Op>> MakeHash(HashOptions options) {
  MILLRACE_RETURN_IF_ERROR(CheckFields("hash", options.fields));
  const size_t count = options.fields.size();
  MILLRACE_RETURN_IF_ERROR(CheckCount("hash", "num_bins", options.num_bins.size(), count));
  MILLRACE_RETURN_IF_ERROR(CheckCount("hash", "salt", options.salt.size(), count));
  for (const uint64_t bins : options.num_bins) {
    if (bins >= 1 && bins <= kMaxBins) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("hash: num_bins is ", bins, "; expected 1 to ", kMaxBins));
  }
  return std::make_unique<Hash>(std::move(options));
}

}  // namespace millrace::augment
