#include <algorithm>
#include <bit>
#include <cstring>

#include "readers/example_builder.h"

namespace millrace::readers {
namespace {

// Tags: field number << 3 | 2 (length-delimited).
constexpr char kField1 = 0x0a;
constexpr char kField2 = 0x12;
constexpr char kBytesList = 0x0a;
constexpr char kFloatList = 0x12;
constexpr char kInt64List = 0x1a;

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void AppendField(std::string& out, char tag, std::string_view body) {
  out.push_back(tag);
  AppendVarint(out, body.size());
  out.append(body);
}

size_t VarintSize(uint64_t value) { return (std::bit_width(value | 1) + 6) / 7; }

size_t FieldSize(size_t body) { return 1 + VarintSize(body) + body; }

}  // namespace

size_t ExampleBuilder::PlaceOf(std::string_view key) {
  constexpr size_t kFew = 32;  // that are looked through
  if (features_.size() < kFew) {
    const auto it =
        std::ranges::find(features_, key, [](const auto& f) { return std::string_view(f.first); });
    const auto place = static_cast<size_t>(it - features_.begin());
    if (place == features_.size()) features_.emplace_back(key, "");
    return place;
  }
  for (size_t i = places_.size(); i < features_.size(); ++i) places_.emplace(features_[i].first, i);
  const auto [it, is_new] = places_.emplace(key, features_.size());
  if (is_new) features_.emplace_back(key, "");
  return it->second;
}

void ExampleBuilder::Set(std::string_view key, char list_tag, const std::string& list) {
  std::string& feature = features_[PlaceOf(key)].second;
  feature.clear();
  feature.reserve(FieldSize(list.size()));
  AppendField(feature, list_tag, list);
}

void ExampleBuilder::AddBytes(std::string_view key, std::string_view value) {
  AddBytes(key, std::span(&value, 1));
}

void ExampleBuilder::AddBytes(std::string_view key, std::span<const std::string_view> values) {
  std::string list;
  for (const std::string_view value : values) AppendField(list, kField1, value);
  Set(key, kBytesList, list);
}

void ExampleBuilder::AddInt(std::string_view key, int64_t value) {
  AddInts(key, std::span(&value, 1));
}

void ExampleBuilder::AddInts(std::string_view key, std::span<const int64_t> values) {
  std::string packed;
  for (const int64_t value : values) AppendVarint(packed, static_cast<uint64_t>(value));
  std::string list;
  if (!values.empty()) AppendField(list, kField1, packed);
  Set(key, kInt64List, list);
}

void ExampleBuilder::AddFloat(std::string_view key, float value) {
  AddFloats(key, std::span(&value, 1));
}

void ExampleBuilder::AddFloats(std::string_view key, std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little);
  std::string list;
  if (!values.empty()) {
    AppendField(list, kField1, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  Set(key, kFloatList, list);
}

std::string ExampleBuilder::Serialize() const {
  const auto entry_size = [](const auto& feature) {
    return FieldSize(feature.first.size()) + FieldSize(feature.second.size());
  };
  size_t size = 0;
  for (const auto& feature : features_) size += FieldSize(entry_size(feature));
  std::string out;
  out.reserve(FieldSize(size));
  out.push_back(kField1);
  AppendVarint(out, size);
  for (const auto& feature : features_) {
    out.push_back(kField1);
    AppendVarint(out, entry_size(feature));
    AppendField(out, kField1, feature.first);
    AppendField(out, kField2, feature.second);
  }
  return out;
}

}  // namespace millrace::readers
