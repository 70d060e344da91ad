#ifndef MILLRACE_BASE_SCHEMA_H_
#define MILLRACE_BASE_SCHEMA_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace millrace {

// One field of a sample: its shape is per sample, without the batch extent.
struct Field {
  std::string name;
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const Field&, const Field&) = default;
};

// The fields that samples carry between two stages, in order, with distinct names.
class Schema {
 public:
  Schema() = default;
  explicit Schema(std::vector<Field> fields) : fields_(std::move(fields)) {}

  const std::vector<Field>& fields() const { return fields_; }
  // Returns the field, or nullptr.
  const Field* Find(std::string_view name) const;
  // Returns OK, or NOT_FOUND that names `name` and the fields that exist.
  absl::Status CheckHas(std::string_view name) const;
  // Replaces the field of that name, or appends.
  void Set(Field field);
  // Removes the field of that name if there is one.
  void Remove(std::string_view name);

  // "image: uint8[?, ?, 3], label: int64[]"
  std::string ToString() const;

 private:
  std::vector<Field> fields_;
};

}  // namespace millrace

#endif  // MILLRACE_BASE_SCHEMA_H_
