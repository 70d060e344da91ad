#ifndef MILLRACE_CLI_LIVE_JSON_FIELDS_H_
#define MILLRACE_CLI_LIVE_JSON_FIELDS_H_

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/log_histogram.h"

// JSON of structs, written and read by one description of their members: a function
// `Members(archive, value)`, found by the type of `value`, that calls `archive(name, member)` for
// each member.

namespace millrace::cli {

// True for a struct that is `Struct`, constant or not: what is written is constant, what is read is
// not.
template <typename T, typename Struct>
concept Like = std::same_as<std::remove_const_t<T>, Struct>;

// Members, or elements, become those of a JSON object.
class JsonWriter {
 public:
  explicit JsonWriter(nlohmann::ordered_json& object) : object_(object) {
    object_ = nlohmann::ordered_json::object();
  }

  template <typename T>
  void operator()(std::string_view name, const T& member) {
    Write(member, object_[std::string(name)]);
  }

 private:
  template <typename T>
  static void Write(const T& value, nlohmann::ordered_json& json) {
    if constexpr (std::is_arithmetic_v<T> || std::same_as<T, std::string>) {
      json = value;
    } else {
      JsonWriter writer(json);
      Members(writer, value);
    }
  }
  template <typename T>
  static void Write(const std::vector<T>& list, nlohmann::ordered_json& json) {
    json = nlohmann::ordered_json::array();
    for (const T& element : list) Write(element, json.emplace_back());
  }
  template <typename T>
  static void Write(const std::optional<T>& value, nlohmann::ordered_json& json) {
    if (value) Write(*value, json);
  }
  // {"count", "p50", "p99", "max", "bins": [[largest number, count], ...]}
  template <int kPerPower, int kPowers>
  static void Write(const LogHistogram<kPerPower, kPowers>& histogram,
                    nlohmann::ordered_json& json) {
    json = {{"count", histogram.count()},
            {"p50", histogram.Quantile(0.5)},
            {"p99", histogram.Quantile(0.99)},
            {"max", histogram.max()},
            {"bins", nlohmann::ordered_json::array()}};
    histogram.ForEachBin([&](uint64_t end, uint64_t count) {
      json["bins"].push_back({end, count});
    });
  }

  nlohmann::ordered_json& object_;
};

// The other way. A member that the JSON lacks, or has with another type, keeps its value: the
// writer may be of another version.
class JsonReader {
 public:
  explicit JsonReader(const nlohmann::ordered_json& object) : object_(object) {}

  template <typename T>
  void operator()(std::string_view name, T& member) {
    if (!object_.is_object()) return;
    const auto found = object_.find(std::string(name));
    if (found != object_.end()) Read(*found, member);
  }

 private:
  template <typename T>
  static void Read(const nlohmann::ordered_json& json, T& value) {
    if constexpr (std::floating_point<T>) {
      if (json.is_number()) value = json.get<T>();
    } else if constexpr (std::integral<T>) {
      if (json.is_number_integer()) value = json.get<T>();
    } else if constexpr (std::same_as<T, std::string>) {
      if (json.is_string()) value = json.get<std::string>();
    } else {
      JsonReader reader(json);
      Members(reader, value);
    }
  }
  template <typename T>
  static void Read(const nlohmann::ordered_json& json, std::vector<T>& list) {
    if (!json.is_array()) return;
    list.clear();
    for (const nlohmann::ordered_json& element : json) Read(element, list.emplace_back());
  }
  template <typename T>
  static void Read(const nlohmann::ordered_json& json, std::optional<T>& value) {
    if (json.is_null()) return;
    Read(json, value.emplace());
  }
  template <int kPerPower, int kPowers>
  static void Read(const nlohmann::ordered_json& json,
                   LogHistogram<kPerPower, kPowers>& histogram) {
    uint64_t max = UINT64_MAX;
    JsonReader reader(json);
    reader("max", max);
    const auto bins = json.is_object() ? json.find("bins") : json.end();
    if (bins == json.end()) return;
    for (const nlohmann::ordered_json& bin : *bins) {
      std::vector<uint64_t> pair;
      Read(bin, pair);
      if (pair.size() == 2) histogram.Add(std::min(pair[0], max), pair[1]);
    }
  }

  const nlohmann::ordered_json& object_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLI_LIVE_JSON_FIELDS_H_
