#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/plan/message.h"
#include "pipeline/stages/specs.h"
#include "pipeline/stages/table.h"
#include "tests/pipeline/stages/stage_specs.h"

// Every field of a stage's message, as the descriptor has them, arrives in the options of its op.

namespace millrace::pipeline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// --- options as text, member by member ---

// The number of members of each type of options. A wrong number does not compile.
template <typename T>
constexpr int kMembers = 0;
template <>
constexpr int kMembers<readers::DecodeRawOptions> = 4;
template <>
constexpr int kMembers<augment::DecodeImageOptions> = 12;
template <>
constexpr int kMembers<augment::PeekImageShapeOptions> = 3;
template <>
constexpr int kMembers<augment::TargetsOptions> = 3;
template <>
constexpr int kMembers<augment::BoxOptions> = 5;
template <>
constexpr int kMembers<augment::RandomResizedCropOptions> = 8;
template <>
constexpr int kMembers<augment::ResizeOptions> = 7;
template <>
constexpr int kMembers<augment::CenterCropOptions> = 3;
template <>
constexpr int kMembers<augment::RandomCropOptions> = 3;
template <>
constexpr int kMembers<augment::PadOptions> = 7;
template <>
constexpr int kMembers<augment::FlipOptions> = 3;
template <>
constexpr int kMembers<augment::TransposeOptions> = 2;
template <>
constexpr int kMembers<augment::PadChannelsOptions> = 3;
template <>
constexpr int kMembers<augment::ColorOptions> = 5;
template <>
constexpr int kMembers<augment::ColorJitterOptions> = 6;
template <>
constexpr int kMembers<augment::AffineOptions> = 9;
template <>
constexpr int kMembers<augment::RandomErasingOptions> = 5;
template <>
constexpr int kMembers<augment::CutoutOptions> = 4;
template <>
constexpr int kMembers<augment::AutoAugmentOptions> = 7;
template <>
constexpr int kMembers<augment::AugMixOptions> = 8;
template <>
constexpr int kMembers<augment::LabelSmoothingOptions> = 2;
template <>
constexpr int kMembers<augment::NormalizeOptions> = 3;
template <>
constexpr int kMembers<augment::CastOptions> = 3;
template <>
constexpr int kMembers<augment::OneHotOptions> = 2;
template <>
constexpr int kMembers<augment::PadTokensOptions> = 7;
template <>
constexpr int kMembers<augment::ScaleOptions> = 5;
template <>
constexpr int kMembers<augment::LogOptions> = 3;
template <>
constexpr int kMembers<augment::BucketizeOptions> = 3;
template <>
constexpr int kMembers<augment::HashOptions> = 3;
template <>
constexpr int kMembers<augment::ClipOptions> = 3;
template <>
constexpr int kMembers<augment::FillMissingOptions> = 3;
template <>
constexpr int kMembers<augment::StackOptions> = 2;

template <typename T>
auto MembersOf(const T& t) {
  if constexpr (kMembers<T> == 2) {
    const auto& [a, b] = t;
    return std::tie(a, b);
  } else if constexpr (kMembers<T> == 3) {
    const auto& [a, b, c] = t;
    return std::tie(a, b, c);
  } else if constexpr (kMembers<T> == 4) {
    const auto& [a, b, c, d] = t;
    return std::tie(a, b, c, d);
  } else if constexpr (kMembers<T> == 5) {
    const auto& [a, b, c, d, e] = t;
    return std::tie(a, b, c, d, e);
  } else if constexpr (kMembers<T> == 6) {
    const auto& [a, b, c, d, e, f] = t;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (kMembers<T> == 7) {
    const auto& [a, b, c, d, e, f, g] = t;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (kMembers<T> == 8) {
    const auto& [a, b, c, d, e, f, g, h] = t;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (kMembers<T> == 9) {
    const auto& [a, b, c, d, e, f, g, h, i] = t;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else {
    static_assert(kMembers<T> == 12);
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  }
}

template <typename T>
std::string Show(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return absl::StrCat(static_cast<int>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return absl::StrCat(value);
  } else if constexpr (std::is_same_v<T, Shape>) {
    return value.ToString();
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? Show(*value) : "none";
  } else if constexpr (requires { value.valueless_by_exception(); }) {
    return std::visit([](const auto& held) { return Show(held); }, value);
  } else if constexpr (requires { value.begin(); }) {
    std::string all = "[";
    for (const auto& element : value) all += Show(element) + ",";
    return all + "]";
  } else {
    return std::apply(
        [](const auto&... members) { return "(" + ((Show(members) + ";") + ...) + ")"; },
        MembersOf(value));
  }
}

// --- stages as text, field by field ---

using Fields = std::map<std::string, std::string>;

// The fields that a stage cannot do without.
Fields BaseOf(const std::string& stage) {
  static const std::map<std::string, Fields> bases = {
      {"random_resized_crop", {{"height", "2"}, {"width", "3"}}},
      {"resize", {{"height", "2"}, {"width", "3"}}},
      {"center_crop", {{"height", "2"}, {"width", "3"}}},
      {"random_crop", {{"height", "2"}, {"width", "3"}}},
      {"brightness", {{"factor", "0.5"}}},
      {"contrast", {{"factor", "0.5"}}},
      {"saturation", {{"factor", "0.5"}}},
      {"hue", {{"factor", "0.5"}}},
      {"sharpness", {{"factor", "0.5"}}},
      {"posterize", {{"bits", "3"}}},
      {"gaussian_blur", {{"kernel_size", "3"}}},
      {"cutout", {{"size", "3"}}},
      {"normalize", {{"mean", "1"}, {"stddev", "2"}}},
      {"cast", {{"field", "\"x\""}, {"dtype", "INT64"}}},
      {"one_hot", {{"depth", "3"}}},
      {"pad_tokens", {{"length", "8"}}},
      {"scale", {{"field", "\"x\""}}},
      {"log", {{"field", "\"x\""}}},
      {"bucketize", {{"field", "\"x\""}, {"boundary", "1"}}},
      {"hash", {{"field", "\"x\""}, {"num_bins", "9"}}},
      {"clip", {{"field", "\"x\""}, {"min", "-1"}, {"max", "9"}}},
      {"fill_missing", {{"field", "\"x\""}}},
      {"stack", {{"field", "\"x\""}, {"output", "\"y\""}}},
  };
  const auto found = bases.find(stage);
  return found == bases.end() ? Fields() : found->second;
}

// A value that is no default.
std::string OtherValue(const std::string& stage, const FieldDescriptor& field) {
  static const std::map<std::string, std::string> special = {{"area", "[0.25, 0.75]"},
                                                             {"aspect", "[0.25, 0.75]"},
                                                             {"perm", "[1, 0]"},
                                                             {"method", "\"bilinear\""},
                                                             {"resize.method", "\"area\""},
                                                             {"interpolation", "\"area\""},
                                                             {"mode", "\"edge\""},
                                                             {"policy", "\"imagenet\""},
                                                             {"aug_mix.method", "\"nearest\""},
                                                             {"side", "\"left\""},
                                                             {"truncate", "\"none\""},
                                                             {"num_magnitude_bins", "15"},
                                                             {"decode_image.channels", "1"},
                                                             {"translate", "[0.25, 0.75]"}};
  for (const std::string& name :
       {absl::StrCat(stage, ".", field.name()), std::string(field.name())}) {
    if (const auto found = special.find(name); found != special.end()) return found->second;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return "\"other\"";
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.has_presence() ? "false"
                                  : "true";  // one that has a presence is true if left out
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "0.25";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "FLOAT32";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "{}";
    default:
      return "5";
  }
}

// The options of the stage's op as text.
std::string TextOf(const std::string& stage, const Fields& fields) {
  std::string text = absl::StrCat(stage, " {");
  for (const auto& [name, value] : fields) absl::StrAppend(&text, " ", name, ": ", value);
  return std::visit(
      [&](const auto& options) -> std::string {
        using T = std::decay_t<decltype(options)>;
        if constexpr (kMembers<T> > 0) return Show(options);
        ADD_FAILURE() << stage << ": options without members";
        return "";
      },
      SpecOf(absl::StrCat(text, " }")).options);
}

// Stages whose fields have messages or files in them, or no options; tests of their own look at
// them.
const std::set<std::string>& OthersLookAt() {
  static const std::set<std::string> names = {"parse_example", "parse_sequence_example",
                                              "parse_csv",     "parse_json",
                                              "parse_tar",     "identity",
                                              "custom",        "filter",
                                              "unbatch",       "vocabulary",
                                              "window"};
  return names;
}

TEST(StageFieldsTest, EveryFieldOfTheMessageArrivesInTheOptions) {
  int fields = 0;
  for (const StageFamily* family : StageFamilies()) {
    for (const StageRow& row : family->rows) {
      const std::string stage = row.name;
      if (row.read == nullptr || OthersLookAt().contains(stage)) continue;
      const Descriptor* const message =
          proto::Stage::descriptor()->FindFieldByNumber(row.op_case)->message_type();
      const std::string plain = TextOf(stage, BaseOf(stage));
      std::set<std::string> seen = {plain};
      for (int i = 0; i < message->field_count(); ++i) {
        const FieldDescriptor& field = *message->field(i);
        Fields changed = BaseOf(stage);
        const std::string name(field.name());
        if (stage == "resize" && name == "shorter") changed.clear();  // it stands instead of them
        if (stage == "scale" && name == "min") changed["max"] = "7";  // they go together
        if (stage == "scale" && name == "max") changed["min"] = "-7";
        changed[name] = OtherValue(stage, field);
        EXPECT_TRUE(seen.insert(TextOf(stage, changed)).second)
            << stage << "." << name << " does not arrive, or as another field does";
        ++fields;
      }
    }
  }
  EXPECT_GT(fields, 120);
}

}  // namespace
}  // namespace millrace::pipeline
