#ifndef MILLRACE_READERS_EXAMPLE_BUILDER_H_
#define MILLRACE_READERS_EXAMPLE_BUILDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace::readers {

// Writes the bytes of a tf.train.Example. The bytes depend on the calls alone: features stand in
// the order in which their keys were first added, numbers are packed. (protobuf's own serialisation
// of a map promises no order.) A key added again replaces its values and keeps its place.
// Thread-compatible. Keys must be UTF-8; no size over 2 GiB - 1, which is protobuf's own limit.
class ExampleBuilder {
 public:
  void AddBytes(std::string_view key, std::string_view value);
  void AddBytes(std::string_view key, std::span<const std::string_view> values);
  void AddInt(std::string_view key, int64_t value);
  void AddInts(std::string_view key, std::span<const int64_t> values);
  void AddFloat(std::string_view key, float value);
  void AddFloats(std::string_view key, std::span<const float> values);

  // Returns the message with all features added so far; the builder keeps them.
  std::string Serialize() const;
  // Forgets all features.
  void Clear() {
    features_.clear();
    places_.clear();
  }

 private:
  void Set(std::string_view key, char list_tag, const std::string& list);
  // Returns the place of the feature, and adds it if it is new.
  size_t PlaceOf(std::string_view key);

  std::vector<std::pair<std::string, std::string>> features_;  // key, bytes of its Feature
  std::unordered_map<std::string, size_t> places_;             // by key; empty while there are few
};

}  // namespace millrace::readers

#endif  // MILLRACE_READERS_EXAMPLE_BUILDER_H_
